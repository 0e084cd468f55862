// Op Discord: detectors/discord has the definition (LeftQuery). A block computes up to 16 scores of a
// task, of every fresh row or of every few. It holds the rows that they read in shared memory, in
// float64.
//
// Each correlation is a separate sum of products, not a recurrence over the rows, which would carry the
// digits lost at a step to all later rows. A thread computes seven subsequences that end at successive
// rows, so it uses a loaded value in seven products of each query; since seven is odd, the loads of a
// warp hit different banks. The sums run from the end of a subsequence to its beginning, so the sums of a
// length continue the sums of a shorter one.
//
// Values are differences from a value that the seven subsequences have in common, and a query's values are
// differences from the mean of its shortest length, so neither a level far from zero nor a step reduces
// their digits. The squares of m such differences are at most m times the squares of the differences from the
// mean, so a deviation follows from the sums of the differences and of their squares, and a correlation
// from these and the sum of products. The two former are summed once for all seven subsequences, but
// for their first and last six values.
//
// Floor, window 2,048, m=64, an H200: 16 KiB of rows at 55 GB/s, 3.3 M scores/s where windows are
// copied for one fresh row, 53 M/s for 16. Float64 instructions of a pair of values: 1.4 with one fresh
// row, 95 M scores/s, and 1.1 with 16, 122 M/s.
//
// Floor, window 20,000, m=50, 100 and 200, one score of 32 fresh rows: 160 KB of rows at 55 GB/s,
// 344,000 scores/s where windows are copied. Float64 instructions of a subsequence: 286 for the 200
// pairs of the longest length, and 26 for each length, 2.3 M scores/s; 2.9 M/s with two scores a block.
#include "device.h"
#include "discord_params.h"

namespace discord {

constexpr int run = 7;           // subsequences of a thread
constexpr int mostWarps = 12;
constexpr uint32_t full = 0xffffffffu;
constexpr double nan = __builtin_nan("");
constexpr double inf = __builtin_inf();

// Query is a scored row's subsequence of one length.
struct Query {
    double shift;  // the mean of its values in Block::q
    double inv;    // 1 / the root of the sum of squares about the mean; inf: all values are equal; NaN: no distances
};

// Block is the input of a block, and its arrays in shared memory.
struct Block {
    int dim, rows, fresh, every, k;  // fresh: scored rows, each every-th, up to the last of the rows
    bool exclude;
    double *x;     // the rows, column by column, with room for reads of run rows before and after each column
    int pitch;     // of a column
    double *q;     // a column's queries: the value k rows before the end of all queries side by side
    int wide;      // queries there: the scored rows', then padding that is not compared
    Query *query;  // by length, then as in q

    // end returns the row after query f.
    __device__ int end(int f) const { return rows - (fresh - 1 - f) * every; }
    __device__ double *column(int c) const { return x + c * pitch; }
};

__device__ inline double sumOf(double v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(full, v, o);
    return v;
}

__device__ inline double largest(double v) {
    for (int o = 16; o > 0; o >>= 1) {
        double w = __shfl_xor_sync(full, v, o);
        v = w > v ? w : v;
    }
    return v;
}

// inverse returns 1/sqrt(square), or NaN where that is out of range.
__device__ inline double inverse(double square) { return square > 0 && square < inf ? rsqrt(square) : nan; }

// normalise sets q and query to the queries of column c with count lengths, one warp a query.
__device__ inline void normalise(const Block &b, int c, const int32_t *lengths, int count) {
    int lane = threadIdx.x & 31, longest = lengths[count - 1];
    for (int f = threadIdx.x >> 5; f < b.wide; f += blockDim.x >> 5) {
        if (f >= b.fresh) {
            for (int i = lane; i < longest; i += 32) b.q[i * b.wide + f] = 0;
            for (int a = lane; a < count; a += 32) b.query[a * b.wide + f] = {0, nan};
            continue;
        }
        const double *x = b.column(c) + b.end(f) - 1;
        double origin = x[0], mean = 0;
        for (int i = lane; i < lengths[0]; i += 32) mean += x[-i] - origin;
        mean = sumOf(mean) / lengths[0];
        int equal = longest;  // values that are equal to the last
        for (int i = lane; i < longest; i += 32) {
            if (x[-i] != origin) equal = min(equal, i);
            b.q[i * b.wide + f] = x[-i] - origin - mean;
        }
        for (int o = 16; o > 0; o >>= 1) equal = min(equal, __shfl_xor_sync(full, equal, o));
        for (int a = 0; a < count; a++) {
            int m = lengths[a];
            double shift = 0, square = 0;
            for (int i = lane; i < m; i += 32) shift += b.q[i * b.wide + f];
            shift = sumOf(shift) / m;
            for (int i = lane; i < m; i += 32) {
                double e = b.q[i * b.wide + f] - shift;
                square += e * e;
            }
            square = sumOf(square);
            double inv = equal < m ? inverse(square) : origin - origin == 0 ? inf : nan;
            if (lane == 0) b.query[a * b.wide + f] = {shift, inv};
        }
    }
}

// Run has the sums of the subsequences that end at a row and the six after it, of one length: of the
// differences from center, of their squares, and of their products with F queries.
template <int F> struct Run {
    double center, sum[run], square[run], product[run][F];
    double back, backSquare;  // the sums of the first subsequence

    // begin prepares for sums of m values and more, at least run; x is at the first subsequence's end.
    __device__ __forceinline__ void begin(const double *x, int m) {
        double p = x[0], o = x[(run - m) / 2], n = x[run - m];
        center = fmax(fmin(p, o), fmin(fmax(p, o), n));  // the median
        back = backSquare = 0;
        clear();
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int r = 0; r < run; r++)
#pragma unroll
            for (int f = 0; f < F; f++) product[r][f] = 0;
    }

    // extend computes the sums of m values from the sums of i, a run or more fewer.
    __device__ __forceinline__ void extend(const double *x, const double *q, int wide, int i, int m) {
        for (; (m - i) % run; i++) {
            double w[F];
#pragma unroll
            for (int f = 0; f < F; f++) w[f] = q[i * wide + f];
#pragma unroll
            for (int r = 0; r < run; r++) {
                double e = x[r - i] - center;
                if (r == 0) back += e, backSquare += e * e;
#pragma unroll
                for (int f = 0; f < F; f++) product[r][f] += e * w[f];
            }
        }
        double v[2 * run - 1];
#pragma unroll
        for (int k = 0; k < run - 1; k++) v[run + k] = x[k + 1 - i] - center;
        for (; i < m; i += run) {
#pragma unroll
            for (int k = 0; k < run; k++) v[k] = x[k + 1 - run - i] - center;
#pragma unroll
            for (int u = 0; u < run; u++) {
                double w[F];
#pragma unroll
                for (int f = 0; f < F; f++) w[f] = q[(i + u) * wide + f];
#pragma unroll
                for (int r = 0; r < run; r++)
#pragma unroll
                    for (int f = 0; f < F; f++) product[r][f] += v[run - 1 - u + r] * w[f];
            }
            if (i + run < m) {
#pragma unroll
                for (int k = run - 1; k >= 0; k--) back += v[k], backSquare += v[k] * v[k];
            }
#pragma unroll
            for (int k = 0; k < run - 1; k++) v[run + k] = v[k];
        }
        // The first values of the seven subsequences are in v[0] to v[6], the last in x[0] to x[6].
#pragma unroll
        for (int r = run - 1; r >= 0; r--) {
            sum[r] = back += v[r];
            square[r] = backSquare += v[r] * v[r];
        }
        double after = 0, afterSquare = 0;
#pragma unroll
        for (int r = 1; r < run; r++) {
            double e = x[r] - center;
            sum[r] += after += e;
            square[r] += afterSquare += e * e;
        }
    }

    // brief computes the sums of m values, fewer than run, each subsequence's about its own last.
    __device__ __forceinline__ void brief(const double *x, const double *q, int wide, int m) {
        clear();
#pragma unroll
        for (int r = 0; r < run; r++) {
            sum[r] = square[r] = 0;
#pragma unroll 1
            for (int i = 1; i < m; i++) {
                double e = x[r - i] - x[r];
                sum[r] += e;
                square[r] += e * e;
#pragma unroll
                for (int f = 0; f < F; f++) product[r][f] += e * q[i * wide + f];
            }
        }
    }

    // next computes the sums of m values, given the sums of before values, or 0.
    __device__ __forceinline__ void next(const double *x, const double *q, int wide, int before, int m) {
        if (m < run) {
            brief(x, q, wide, m);
            return;
        }
        if (before < run || m - before < run) begin(x, m), before = 0;
        extend(x, q, wide, before, m);
    }

    // correlate calls take(r, f, rho) for all subsequences and queries.
    template <class Take>
    __device__ __forceinline__ void correlate(const double *x, const Query *query, int m, bool exclude, Take take) const {
        double share = 1.0 / m;
#pragma unroll
        for (int r = 0; r < run; r++) {
            double inv = inverse(square[r] - sum[r] * share * sum[r]);
            bool flat = square[r] == 0 && equal(x + r, m);
#pragma unroll
            for (int f = 0; f < F; f++) {
                double shift = query[f].shift, other = query[f].inv;
                bool flatQuery = other == inf;
                double rho = (product[r][f] - sum[r] * shift) * inv * other;
                if (flat || flatQuery) {
                    bool finite = other == other && (flat || inv == inv);
                    rho = !finite || (exclude && !(flat && flatQuery)) ? nan : flat && flatQuery ? 1 : 0;
                }
                take(r, f, rho);
            }
        }
    }

    // equal returns whether the m values up to x[0] are equal.
    static __device__ __forceinline__ bool equal(const double *x, int m) {
        int i = 1;
        while (i < m && x[-i] == x[0]) i++;
        return i == m;
    }
};

// scoreOf returns the score of a correlation; NaN for -inf, which marks the absence of a neighbour.
__device__ inline double scoreOf(double rho) { return rho == -inf ? nan : sqrt(1 - rho > 0 ? 1 - rho : 0.0); }

// nearest sets best, an array of a warp by length and query, to the largest correlations of its threads'
// subsequences.
template <int F> __device__ __forceinline__ void nearest(const Block &b, const int32_t *lengths, int count, int points, double *best) {
    int lane = threadIdx.x & 31;
    int high = b.rows - lengths[0] - 1;  // last row of the last compared subsequence
    for (int i = lane; i < count * b.wide; i += 32) best[i] = -inf;
    __syncwarp();
    for (int sweep = lengths[0] - 1; sweep <= high; sweep += run * blockDim.x) {
        int end = sweep + run * threadIdx.x;  // last row of this thread's first subsequence
        if (!__any_sync(full, end <= high)) continue;
        const double *x = b.x + end;
        for (int f0 = 0; f0 < b.wide; f0 += F) {
            Run<F> sums;
            int before = 0;
            for (int a = 0; a < count; a++) {
                int m = lengths[a];
                double most[F];
#pragma unroll
                for (int f = 0; f < F; f++) most[f] = -inf;
                // Where no row is the end of a subsequence of this length, none is of a longer one.
                if (end + run >= m && end < b.rows - m) {
                    sums.next(x, b.q + f0, b.wide, before, m);
                    sums.correlate(x, b.query + a * b.wide + f0, m, b.exclude, [&](int r, int f, double rho) {
                        int after = b.end(f0 + f), at = end + r;
                        if (rho > most[f] && at >= max(0, after - points) + m - 1 && at < after - m) most[f] = rho;
                    });
                }
                before = m;
#pragma unroll
                for (int f = 0; f < F; f++) {
                    double v = largest(most[f]);
                    double *to = best + a * b.wide + f0 + f;
                    if (lane == 0 && v > *to) *to = v;
                }
            }
        }
    }
}

// lengthsOf returns the number of a task's lengths.
__device__ inline int lengthsOf(const Task &t) {
    return static_cast<int>(t.params.len) - static_cast<int>(sizeof(DiscordParams) / 4);
}

// load sets up a block: its part of the task, and columns in shared memory. It returns what follows the
// queries of count lengths there.
template <int F>
__device__ inline double *load(const Task &t, const Tile &tile, const DiscordParams &p, int count, const float *f32, double *memory,
                               Block &b, int &first) {
    int rows = t.x.len / t.dim, longest = p.m()[lengthsOf(t) - 1];
    first = tile.part & 0xffff;
    b.fresh = tile.part >> 16;
    b.wide = (b.fresh + F - 1) / F * F;
    b.dim = t.dim;
    b.every = p.every;
    b.k = p.k;
    b.exclude = p.excludeFlat != 0;
    int end = rows - (static_cast<int>(t.scores.len) - 1 - first) * b.every;  // of the first scored row
    int base = max(0, end - p.points);
    b.rows = end + (b.fresh - 1) * b.every - base;
    const double *raw = reinterpret_cast<const double *>(f32) + t.x.off + static_cast<size_t>(base) * b.dim;
    b.pitch = b.rows + 2 * run;
    b.x = memory + run;
    for (int c = 0; c < b.dim; c++) {
        double *to = b.column(c);
#pragma unroll 8
        for (int i = threadIdx.x; i < b.rows; i += blockDim.x) to[i] = raw[static_cast<size_t>(i) * b.dim + c];
        for (int i = threadIdx.x; i < run; i += blockDim.x) to[i - run] = to[b.rows + i] = 0;
    }
    b.q = memory + b.pitch * b.dim;
    b.query = reinterpret_cast<Query *>(b.q + b.wide * longest);
    return reinterpret_cast<double *>(b.query + b.wide * count);
}

// leave writes the score of a scored row with length number a of count; sum is the sum of the scores so far.
__device__ inline void leave(const Task &t, float *out, int score, int a, int count, double value, double &sum) {
    sum += value;
    if (count > 1) out[t.detail.off + static_cast<size_t>(score) * count + a] = static_cast<float>(value);
    if (a == count - 1) out[t.scores.off + score] = static_cast<float>(sum / count);
}

// one is the kernel for series of one value and one neighbour.
template <int F> __device__ __forceinline__ void one(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(double, memory);
    const Tile &tile = tiles[blockIdx.x];
    const Task &t = tasks[tile.first];
    const DiscordParams &p = paramsOf<DiscordParams>(t, f32);
    const int32_t *lengths = p.m();
    int count = lengthsOf(t), first;
    Block b;
    double *best = load<F>(t, tile, p, count, f32, memory, b, first);
    __syncthreads();
    normalise(b, 0, lengths, count);
    __syncthreads();
    int each = count * b.wide;  // of a warp
    nearest<F>(b, lengths, count, p.points, best + (threadIdx.x >> 5) * each);
    __syncthreads();
    for (int f = threadIdx.x; f < b.fresh; f += blockDim.x) {
        double sum = 0;
        for (int a = 0; a < count; a++) {
            double most = -inf;
            for (int w = 0; w < static_cast<int>(blockDim.x >> 5); w++) {
                double v = best[w * each + a * b.wide + f];
                most = v > most ? v : most;
            }
            leave(t, out, first + f, a, count, scoreOf(most), sum);
        }
    }
}

// any is the kernel for rows of several values and for several neighbours, one scored row a block.
// Shared memory holds the correlations of all subsequences, by their last rows, after the query.
__device__ __forceinline__ void any(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(double, memory);
    __shared__ double bests[mostWarps];
    __shared__ int place;
    const Tile &tile = tiles[blockIdx.x];
    const Task &t = tasks[tile.first];
    const DiscordParams &p = paramsOf<DiscordParams>(t, f32);
    const int32_t *lengths = p.m();
    int count = lengthsOf(t), first;
    Block b;
    double *all = load<1>(t, tile, p, 1, f32, memory, b, first), total = 0;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int a = 0; a < count; a++) {
        int m = lengths[a], low = m - 1, high = b.rows - m - 1;  // last rows of the compared subsequences
        for (int c = 0; c < b.dim; c++) {
            __syncthreads();
            normalise(b, c, lengths + a, 1);
            __syncthreads();
            for (int end = low + run * threadIdx.x; end <= high; end += run * blockDim.x) {
                const double *x = b.column(c) + end;
                Run<1> sums;
                sums.next(x, b.q, 1, 0, m);
                sums.correlate(x, b.query, m, b.exclude, [&](int r, int, double rho) {
                    if (end + r <= high) all[end + r] = c == 0 ? rho : all[end + r] + rho;
                });
            }
        }
        __syncthreads();
        int found = 0;
        double sum = 0;
        while (found < b.k) {
            double best = -inf;
            for (int i = low + threadIdx.x; i <= high; i += blockDim.x)
                if (all[i] > best) best = all[i];
            best = largest(best);
            if (lane == 0) bests[warp] = best;
            if (threadIdx.x == 0) place = high + 1;
            __syncthreads();
            best = -inf;
            for (int w = 0; w < static_cast<int>(blockDim.x >> 5); w++) best = bests[w] > best ? bests[w] : best;
            if (best == -inf) break;
            found++;
            sum += scoreOf(best / b.dim);
            float tie = static_cast<float>(best / b.dim);
            for (int i = low + threadIdx.x; i <= high; i += blockDim.x)
                if (static_cast<float>(all[i] / b.dim) == tie) {
                    atomicMin(&place, i);
                    break;
                }
            __syncthreads();
            for (int i = max(low, place - m + 1) + threadIdx.x; i <= min(high, place + m - 1); i += blockDim.x) all[i] = nan;
            __syncthreads();
        }
        if (threadIdx.x == 0) leave(t, out, first, a, count, found ? sum / found : nan, total);
    }
}

}  // namespace discord

extern "C" __global__ void __launch_bounds__(384) discord_one(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                              uint32_t *status, unsigned char *scratch) {
    discord::one<1>(tasks, tiles, f32, out);
}

extern "C" __global__ void __launch_bounds__(384) discord_two(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                              uint32_t *status, unsigned char *scratch) {
    discord::one<2>(tasks, tiles, f32, out);
}

extern "C" __global__ void __launch_bounds__(384) discord_four(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                               uint32_t *status, unsigned char *scratch) {
    discord::one<4>(tasks, tiles, f32, out);
}

extern "C" __global__ void __launch_bounds__(384) discord_any(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                              uint32_t *status, unsigned char *scratch) {
    discord::any(tasks, tiles, f32, out);
}
