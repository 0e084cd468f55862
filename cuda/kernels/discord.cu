// Op Discord: detectors/discord has the definition (LeftQuery). A block computes up to 16 scores of a
// task, of every fresh row or of every few. It holds the rows that they read in shared memory, in
// float64.
//
// Each correlation is a separate sum of products, not a recurrence over the fresh rows, which would
// carry the digits lost at a step to all later rows. A thread computes seven subsequences that begin at
// successive rows, so it uses a loaded value in seven products of each query; since seven is odd, the
// loads of a warp hit different banks. The first pass computes means; the second the squares and
// products of the deviations from the mean, whose digits neither a level far from zero nor a step can
// reduce. Only more than four queries need a further pass. Where a deviation is less than a millionth
// of the mean, the thread computes the moments from the uncentred rows, and checks whether all values
// are equal.
//
// Floor, window 2,048, m=64, an H200: 16 KiB of rows at 55 GB/s, 3.3 M scores/s where windows are
// copied for one fresh row, 53 M/s for 16. Float64 instructions of a pair of values: four with one
// fresh row, 34 M scores/s, and 1.4 with 16, 95 M/s.
#include "device.h"
#include "discord_params.h"

namespace discord {

constexpr int run = 7;           // subsequences of a thread
constexpr int mostFresh = 16;    // queries of a block
constexpr int mostWarps = 12;
constexpr uint32_t full = 0xffffffffu;
constexpr double nan = __builtin_nan("");
constexpr double inf = __builtin_inf();
constexpr double near = 1e-12;   // least variance, as a share of the squared mean, with enough digits

// Query is a scored row's subsequence of one length.
struct Query {
    int from, to;  // first and last start of the compared subsequences, in rows of the block
    bool flat;
};

struct Shared {
    Query query[mostFresh];
    double best[mostWarps][mostFresh];
    double sum[mostFresh];
};

// Block is the input of a block, and its arrays.
struct Block {
    const double *raw;  // the task's rows from the block's first, dim values a row
    int dim, rows, fresh, every, k;  // fresh: scored rows, each every-th
    bool exclude;
    const double *x;    // in shared memory: column by column, less the column's center
    int pitch;          // rows of a column there, including room for reads past its end
    double *q;          // queries of the present length: row k of all queries side by side
    int wide;           // queries there: the scored rows', then padding that is not compared
};

__device__ inline double sumOf(double v) {
    for (int o = 16; o > 0; o >>= 1) v = __dadd_rn(v, __shfl_xor_sync(full, v, o));
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
__device__ inline double inverse(double square) { return square > 0 && square < inf ? 1 / sqrt(square) : nan; }

// normalise writes column c of the normalised queries of length m to q, one warp a query.
__device__ inline void normalise(const Block &b, Shared &s, int m, int c, int points) {
    int lane = threadIdx.x & 31;
    for (int f = threadIdx.x >> 5; f < b.wide; f += blockDim.x >> 5) {
        if (f >= b.fresh) {
            for (int i = lane; i < m; i += 32) b.q[i * b.wide + f] = 0;
            if (lane == 0) s.query[f].from = 1, s.query[f].to = 0, s.query[f].flat = false;
            continue;
        }
        int end = b.rows - (b.fresh - 1 - f) * b.every, at = end - m;
        const double *x = b.raw + static_cast<size_t>(at) * b.dim + c;
        double origin = x[0], sum = 0, square = 0;
        bool same = true;
        for (int i = lane; i < m; i += 32) {
            double v = x[i * b.dim];
            same = same && v == origin;
            sum = __dadd_rn(sum, __dsub_rn(v, origin));
        }
        double mean = __ddiv_rn(sumOf(sum), static_cast<double>(m));
        for (int i = lane; i < m; i += 32) {
            double e = __dsub_rn(__dsub_rn(x[i * b.dim], origin), mean);
            square = __dadd_rn(square, __dmul_rn(e, e));
        }
        bool flat = __all_sync(full, same) && origin - origin == 0;
        double inv = flat ? 0 : inverse(sumOf(square));
        for (int i = lane; i < m; i += 32) {
            double e = __dsub_rn(__dsub_rn(x[i * b.dim], origin), mean);
            b.q[i * b.wide + f] = flat ? 0 : e * inv;
        }
        if (lane == 0) {
            s.query[f].from = max(0, end - points);
            s.query[f].to = at - m;
            s.query[f].flat = flat;
        }
    }
}

// Far is a subsequence whose moments are computed from the uncentred rows.
struct Far {
    double origin, mean, inv;
    bool flat;
};

__device__ __noinline__ Far farOf(const Block &b, int c, int j, int m) {
    const double *x = b.raw + static_cast<size_t>(j) * b.dim + c;
    Far r = {x[0], 0, 0, true};
    for (int i = 0; i < m; i++) {
        double v = x[i * b.dim];
        r.flat = r.flat && v == r.origin;
        r.mean += v - r.origin;
    }
    r.flat = r.flat && r.origin - r.origin == 0;
    if (r.flat) return r;
    r.mean /= m;
    double square = 0;
    for (int i = 0; i < m; i++) {
        double e = x[i * b.dim] - r.origin - r.mean;
        square += e * e;
    }
    r.inv = inverse(square);
    return r;
}

__device__ __noinline__ double farProduct(const Block &b, const Far &r, int c, int j, int m, int f) {
    const double *x = b.raw + static_cast<size_t>(j) * b.dim + c;
    double sum = 0;
    for (int i = 0; i < m; i++) sum += (x[i * b.dim] - r.origin - r.mean) * b.q[i * b.wide + f];
    return sum * r.inv;
}

// flatPair returns rho of two subsequences of which at least one is flat.
__device__ inline double flatPair(const Block &b, bool one, bool other, bool finite) {
    if (!finite) return nan;
    if (one && other) return 1;
    return b.exclude ? nan : 0;
}

// means sets mean to the means of the subsequences from row j on in column x.
__device__ __forceinline__ void means(const double *x, int m, double (&mean)[run]) {
    double v[2 * run - 1];
#pragma unroll
    for (int r = 0; r < run; r++) mean[r] = 0;
#pragma unroll
    for (int i = 0; i < run - 1; i++) v[i] = x[i];
    int k = 0;
    for (; k + run <= m; k += run) {
#pragma unroll
        for (int i = 0; i < run; i++) v[run - 1 + i] = x[k + run - 1 + i];
#pragma unroll
        for (int u = 0; u < run; u++)
#pragma unroll
            for (int r = 0; r < run; r++) mean[r] += v[u + r];
#pragma unroll
        for (int i = 0; i < run - 1; i++) v[i] = v[i + run];
    }
    for (; k < m; k++)
#pragma unroll
        for (int r = 0; r < run; r++) mean[r] += x[k + r];
    double share = 1.0 / m;
#pragma unroll
    for (int r = 0; r < run; r++) mean[r] *= share;
}

// products adds the products with F queries from q on, and with Squares the squares.
template <int F, bool Squares>
__device__ __forceinline__ void products(const double *x, const double *q, int pitch, int m, const double (&mean)[run], double (&square)[run],
                                         double (&product)[run][F]) {
    double v[2 * run - 1];
    auto add = [&](int r, double value, const double (&w)[F]) {
        double e = value - mean[r];
        if (Squares) square[r] += e * e;
#pragma unroll
        for (int f = 0; f < F; f++) product[r][f] += e * w[f];
    };
#pragma unroll
    for (int r = 0; r < run; r++) {
        if (Squares) square[r] = 0;
#pragma unroll
        for (int f = 0; f < F; f++) product[r][f] = 0;
    }
#pragma unroll
    for (int i = 0; i < run - 1; i++) v[i] = x[i];
    int k = 0;
    for (; k + run <= m; k += run) {
#pragma unroll
        for (int i = 0; i < run; i++) v[run - 1 + i] = x[k + run - 1 + i];
#pragma unroll
        for (int u = 0; u < run; u++) {
            double w[F];
#pragma unroll
            for (int f = 0; f < F; f++) w[f] = q[(k + u) * pitch + f];
#pragma unroll
            for (int r = 0; r < run; r++) add(r, v[u + r], w);
        }
#pragma unroll
        for (int i = 0; i < run - 1; i++) v[i] = v[i + run];
    }
    for (; k < m; k++) {
        double w[F];
#pragma unroll
        for (int f = 0; f < F; f++) w[f] = q[k * pitch + f];
#pragma unroll
        for (int r = 0; r < run; r++) add(r, x[k + r], w);
    }
}

// correlate calls take(r, f, rho) for the subsequences from row j on and the F queries from f0 on, of
// column c. inv has the subsequences' inverse norms, and far marks those that need the uncentred rows;
// First sets both.
template <int F, bool First, class Take>
__device__ __forceinline__ void correlate(const Block &b, const Shared &s, int c, int j, int last, int f0, int m, const double (&mean)[run],
                                          double (&inv)[run], uint32_t &far, Take take) {
    double square[run], product[run][F];
    products<F, First>(b.x + c * b.pitch + j, b.q + f0, b.wide, m, mean, square, product);
    if (First) {
        far = 0;
#pragma unroll
        for (int r = 0; r < run; r++) {
            inv[r] = inverse(square[r]);
            if (square[r] <= near * m * mean[r] * mean[r]) far |= 1u << r;
        }
    }
#pragma unroll
    for (int r = 0; r < run; r++) {
        if (j + r > last) continue;
        Far moments;
        bool isFar = far >> r & 1;
        if (isFar) moments = farOf(b, c, j + r, m);
#pragma unroll
        for (int f = 0; f < F; f++) {
            const Query &query = s.query[f0 + f];
            bool flat = isFar && moments.flat, finite = isFar ? flat || moments.inv == moments.inv : inv[r] == inv[r];
            double rho;
            if (flat || query.flat) {
                rho = flatPair(b, flat, query.flat, finite && b.q[f0 + f] == b.q[f0 + f]);
            } else if (isFar) {
                rho = farProduct(b, moments, c, j + r, m, f0 + f);
            } else {
                rho = product[r][f] * inv[r];
            }
            take(r, f, rho);
        }
    }
}

// scoreOf returns the score of a correlation; NaN for -inf, which marks the absence of a neighbour.
__device__ inline double scoreOf(double rho) { return rho == -inf ? nan : sqrt(1 - rho > 0 ? 1 - rho : 0.0); }

// nearest sets s.best of each warp to the largest correlations of its threads' subsequences with the F
// queries from f0 on.
template <int F> __device__ __forceinline__ void nearest(const Block &b, Shared &s, int m) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int low = s.query[0].from, last = s.query[b.fresh - 1].to;
    for (int f = lane; f < b.wide; f += 32) s.best[warp][f] = -inf;
    __syncwarp();
    for (int sweep = low; sweep <= last; sweep += run * blockDim.x) {
        int j = sweep + run * threadIdx.x;
        bool some = j <= last;
        if (!__any_sync(full, some)) continue;
        if (!some) j = low;  // reads valid rows and takes nothing
        double mean[run], inv[run];
        uint32_t far = 0;
        means(b.x + j, m, mean);
        for (int f0 = 0; f0 < b.wide; f0 += F) {
            double best[F];
#pragma unroll
            for (int f = 0; f < F; f++) best[f] = -inf;
            auto take = [&](int r, int f, double rho) {
                const Query &query = s.query[f0 + f];
                if (rho > best[f] && j + r >= query.from && j + r <= query.to) best[f] = rho;
            };
            int end = some ? last : j - 1;
            if (f0 == 0) correlate<F, true>(b, s, 0, j, end, f0, m, mean, inv, far, take);
            else correlate<F, false>(b, s, 0, j, end, f0, m, mean, inv, far, take);
#pragma unroll
            for (int f = 0; f < F; f++) {
                double most = largest(best[f]);
                if (lane == 0 && most > s.best[warp][f0 + f]) s.best[warp][f0 + f] = most;
            }
        }
    }
}

// load sets up a block: its part of the task, and columns in shared memory.
template <int F>
__device__ inline Block load(const Task &t, const Tile &tile, const DiscordParams &p, const float *f32, double *memory,
                             int &first) {
    Block b;
    int points = p.points, rows = t.x.len / t.dim;
    first = tile.part & 0xffff;
    b.fresh = tile.part >> 16;
    b.wide = (b.fresh + F - 1) / F * F;
    b.dim = t.dim;
    b.every = p.every;
    b.k = p.k;
    b.exclude = p.excludeFlat != 0;
    int end = rows - (static_cast<int>(t.scores.len) - 1 - first) * b.every;  // of the first scored row
    int base = max(0, end - points);
    b.rows = end + (b.fresh - 1) * b.every - base;
    b.raw = reinterpret_cast<const double *>(f32) + t.x.off + static_cast<size_t>(base) * b.dim;
    b.pitch = b.rows + 2 * run;
    b.x = memory;
    b.q = memory + b.pitch * b.dim;
    for (int c = 0; c < b.dim; c++) {
        double center = b.raw[static_cast<size_t>(b.rows - 1) * b.dim + c];
        if (center - center != 0) center = 0;
        double *to = memory + c * b.pitch;
        for (int i = threadIdx.x; i < b.rows; i += blockDim.x) to[i] = b.raw[static_cast<size_t>(i) * b.dim + c] - center;
        for (int i = b.rows + threadIdx.x; i < b.pitch; i += blockDim.x) to[i] = 0;
    }
    return b;
}

// leave writes the score of a scored row with length number a of count.
__device__ inline void leave(const Task &t, float *out, Shared &s, int first, int f, int a, int count, double score) {
    s.sum[f] = a == 0 ? score : s.sum[f] + score;
    if (count > 1) out[t.detail.off + static_cast<size_t>(first + f) * count + a] = static_cast<float>(score);
    if (a == count - 1) out[t.scores.off + first + f] = static_cast<float>(s.sum[f] / count);
}

// one is the kernel for series of one value and one neighbour.
template <int F> __device__ __forceinline__ void one(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(double, memory);
    __shared__ Shared s;
    const Tile &tile = tiles[blockIdx.x];
    const Task &t = tasks[tile.first];
    const DiscordParams &p = paramsOf<DiscordParams>(t, f32);
    const int32_t *lengths = p.m();
    int count = static_cast<int>(t.params.len) - static_cast<int>(sizeof(DiscordParams) / 4), first;
    Block b = load<F>(t, tile, p, f32, memory, first);
    int points = p.points;
    for (int a = 0; a < count; a++) {
        int m = lengths[a];
        __syncthreads();
        normalise(b, s, m, 0, points);
        __syncthreads();
        nearest<F>(b, s, m);
        __syncthreads();
        for (int f = threadIdx.x; f < b.fresh; f += blockDim.x) {
            double best = -inf;
            for (int w = 0; w < static_cast<int>(blockDim.x >> 5); w++) best = s.best[w][f] > best ? s.best[w][f] : best;
            leave(t, out, s, first, f, a, count, scoreOf(best));
        }
    }
}

// any is the kernel for rows of several values and for several neighbours, one scored row a block.
// Shared memory holds the correlations of all subsequences, after the query.
__device__ __forceinline__ void any(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(double, memory);
    __shared__ Shared s;
    __shared__ int place;
    const Tile &tile = tiles[blockIdx.x];
    const Task &t = tasks[tile.first];
    const DiscordParams &p = paramsOf<DiscordParams>(t, f32);
    const int32_t *lengths = p.m();
    int count = static_cast<int>(t.params.len) - static_cast<int>(sizeof(DiscordParams) / 4), first;
    Block b = load<1>(t, tile, p, f32, memory, first);
    int points = p.points, longest = lengths[count - 1], lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    double *all = b.q + longest;
    for (int a = 0; a < count; a++) {
        int m = lengths[a];
        for (int c = 0; c < b.dim; c++) {
            __syncthreads();
            normalise(b, s, m, c, points);
            __syncthreads();
            int low = s.query[0].from, last = s.query[0].to;
            for (int j = low + run * threadIdx.x; j <= last; j += run * blockDim.x) {
                double mean[run], inv[run];
                uint32_t far;
                means(b.x + c * b.pitch + j, m, mean);
                correlate<1, true>(b, s, c, j, last, 0, m, mean, inv, far,
                                   [&](int r, int, double rho) { all[j + r] = c == 0 ? rho : all[j + r] + rho; });
            }
        }
        __syncthreads();
        int low = s.query[0].from, last = s.query[0].to, found = 0;
        double sum = 0;
        while (found < b.k) {
            double best = -inf;
            for (int j = low + threadIdx.x; j <= last; j += blockDim.x)
                if (all[j] > best) best = all[j];
            best = largest(best);
            if (lane == 0) s.best[warp][0] = best;
            if (threadIdx.x == 0) place = last + 1;
            __syncthreads();
            best = -inf;
            for (int w = 0; w < static_cast<int>(blockDim.x >> 5); w++) best = s.best[w][0] > best ? s.best[w][0] : best;
            if (best == -inf) break;
            found++;
            sum += scoreOf(best / b.dim);
            float tie = static_cast<float>(best / b.dim);
            for (int j = low + threadIdx.x; j <= last; j += blockDim.x)
                if (static_cast<float>(all[j] / b.dim) == tie) {
                    atomicMin(&place, j);
                    break;
                }
            __syncthreads();
            for (int j = max(low, place - m + 1) + threadIdx.x; j <= min(last, place + m - 1); j += blockDim.x) all[j] = nan;
            __syncthreads();
        }
        if (threadIdx.x == 0) leave(t, out, s, first, 0, a, count, found ? sum / found : nan);
    }
}

}  // namespace discord

extern "C" __global__ void __launch_bounds__(384) discord_one(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                              uint32_t *status, unsigned char *scratch) {
    discord::one<1>(tasks, tiles, f32, out);
}

extern "C" __global__ void __launch_bounds__(384) discord_four(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                               uint32_t *status, unsigned char *scratch) {
    discord::one<4>(tasks, tiles, f32, out);
}

extern "C" __global__ void __launch_bounds__(384) discord_any(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                              uint32_t *status, unsigned char *scratch) {
    discord::any(tasks, tiles, f32, out);
}
