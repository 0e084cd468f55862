// The first discords of every length of a range, of a series that fits into a block's shared memory.
//
// At the first length the block finds a near neighbour of every subsequence, along diagonals as
// discords_profile.h does, but by the high words of correlations. From each length to the next it
// updates means, sums of squared deviations and the covariance with the neighbour,
//
//	cov' = cov + m/(m+1) (x(i+m) - mean(i)) (x(j+m) - mean(j))
//
// so the distance to the neighbour of the length before is an upper bound, mostly a tight one. The
// subsequence with the largest bound is compared with all others. If its distance is still the largest,
// it is the discord, regardless of the other bounds. If that takes many comparisons, the block finds
// new near neighbours.
#pragma once
#include "discords_task.h"

namespace discords {

constexpr int threads = 256, warps = threads / 32;
constexpr int group = 8;           // diagonals a thread, columns a thread
constexpr int rowsOfUnit = 256;    // rows of a warp after a covariance computed from the values
constexpr int patience = 16;       // subsequences compared with all others before the block finds new near neighbours

// State is the state that a block's threads share.
struct State {
    int n, m, count, exclusion, wanted;
    bool excludeFlat, flats;
    bool steep;  // along diagonals, covariances would lose too many digits
    bool beyond; // a sum of squares is too large for correlations
    int next, found;
    int picked[mostPicks];
    double value[warps];
    int place[warps];
    Best nearest[warps];
};

// Memory is a block's arrays, spread. Some have two names, for two stages.
struct Memory {
    double *x, *inverse, *squares;
    double *df, *dg;    // the steps of covariances
    uint32_t *keys;
    int *settled;       // 1: the neighbour is the nearest
    uint32_t *missing;  // a bit for each value that is not finite
    __device__ double *mean() const { return df; }
    __device__ double *covariance() const { return dg; }
    __device__ int *neighbour() const { return reinterpret_cast<int *>(keys); }
    __device__ uint32_t *key() const { return keys; }
};

// windowBytes is the shared memory of a series of n values; windowBytes in cuda/plan/discords.go has
// the same formula.
__host__ __device__ constexpr int windowSpread(int n) { return (n + 16) / 8 * 9; }
__host__ __device__ constexpr int windowBytes(int n) { return windowSpread(n) * 48 + (n + 63) / 32 * 4; }

__device__ __forceinline__ Memory memoryOf(unsigned char *at, int n) {
    int s = windowSpread(n);
    Memory a;
    a.x = reinterpret_cast<double *>(at);
    a.inverse = a.x + s;
    a.squares = a.inverse + s;
    a.df = a.squares + s;
    a.dg = a.df + s;
    a.keys = reinterpret_cast<uint32_t *>(a.dg + s);
    a.settled = reinterpret_cast<int *>(a.keys + s);
    a.missing = reinterpret_cast<uint32_t *>(a.settled + s);
    return a;
}

// load copies the series, dim values a row.
__device__ inline void load(const Memory &a, const double *x, int n, int dim) {
    for (int i = threadIdx.x; i < (n + 31) / 32 * 32; i += threads) {
        double v = i < n ? x[static_cast<size_t>(i) * dim] : 0;
        uint32_t missing = __ballot_sync(all, !finite(v));
        if ((i & 31) == 0) a.missing[i >> 5] = missing;
        if (i < n) a.x[spread(i)] = clean(v);
    }
    __syncthreads();
}

__device__ __forceinline__ bool isMissing(const Memory &a, int i) { return a.missing[i >> 5] >> (i & 31) & 1; }

// describeAll computes mean (into covariance), inverse and squares of all subsequences from their
// values.
__device__ inline void describeAll(const State &s, const Memory &a) {
    for (int i = threadIdx.x; i < s.count; i += threads) {
        double first = a.x[spread(i)], sum = 0, squares = 0;
        bool same = true, sound = true;
        for (int q = 0; q < s.m; q++) {
            double v = a.x[spread(i + q)];
            same = same && v == first;
            sound = sound && !isMissing(a, i + q);
            sum += v;
        }
        double mean = same ? first : sum / s.m;
        for (int q = 0; q < s.m; q++) {
            double v = a.x[spread(i + q)] - mean;
            squares = fma(v, v, squares);
        }
        a.covariance()[spread(i)] = mean;
        a.squares[spread(i)] = squares;
        a.inverse[spread(i)] = !sound ? -0.0 : same ? 0.0 : inverseOf(squares);
    }
    __syncthreads();
}

// product computes the covariance of two subsequences from their values.
__device__ inline double product(const State &s, const Memory &a, int i, double meanI, int j, double meanJ) {
    double sum = 0;
    for (int q = 0; q < s.m; q++) sum = fma(a.x[spread(i + q)] - meanI, a.x[spread(j + q)] - meanJ, sum);
    return sum;
}

// A key encodes a neighbour as a number that is larger for nearer ones: 20 bits of the correlation's
// high word, from 1/16 on, and the index. 0: none.
constexpr int keyed = 0x3fb00000, indexBits = 12;

__device__ __forceinline__ uint32_t keyOf(int h, int index) {
    return h <= keyed ? 0 : static_cast<uint32_t>(h - keyed) << 9 & ~((1u << indexBits) - 1) | index;
}

// offer gives the subsequence at i the neighbour at j, if that is nearer than its present one.
__device__ __forceinline__ void offer(const Memory &a, int i, int h, int j) {
    uint32_t key = keyOf(h, j), *its = a.key() + spread(i);
    if (key > *its) atomicMax(its, key);
}

// sweep steps along the rows from begin to end-1 with the diagonals from k on. All lanes of a warp have
// the same rows. For each row, and for each column while the thread holds it, it keeps the high word of
// the largest correlation, whose last three bits identify the pair.
__device__ __forceinline__ void sweep(const State &s, const Memory &a, int begin, int end, int k) {
    double c[group], df[group], dg[group], inverse[group];
    {
        int i = begin > 0 ? begin - 1 : 0, j = i + k;
        double next[group], level = a.x[spread(min(j, s.n - 1))], mean = 0;
        for (int q = threadIdx.x & 31; q < s.m; q += 32) mean += a.x[spread(i + q)];
        for (int o = 16; o > 0; o >>= 1) mean += __shfl_xor_sync(all, mean, o);
        mean /= s.m;
#pragma unroll
        for (int d = 0; d < group; d++) c[d] = 0;
#pragma unroll
        for (int d = 0; d < group - 1; d++) next[d] = a.x[spread(min(j + d, s.n - 1))] - level;
        for (int q = 0; q < s.m; q += group) {
#pragma unroll
            for (int u = 0; u < group; u++) {
                double v = q + u < s.m ? a.x[spread(i + q + u)] - mean : 0;
                next[(u + 7) & 7] = a.x[spread(min(j + q + u + 7, s.n - 1))] - level;
#pragma unroll
                for (int d = 0; d < group; d++) c[d] = fma(v, next[(u + d) & 7], c[d]);
            }
        }
    }
    int best[group];
#pragma unroll
    for (int d = 0; d < group; d++) {
        int at = spread(min(begin + k + d, s.count));
        df[d] = a.df[at], dg[d] = a.dg[at], inverse[d] = a.inverse[at], best[d] = 0;
    }
    int i = begin;
#pragma unroll 1
    for (; i < end; i += group) {
#pragma unroll
        for (int u = 0; u < group; u++) {
            const int row = spread(i + u), j = i + u + k, next = spread(min(j + group, s.count));
            const double f = a.df[row], g = a.dg[row], its = a.inverse[row];
            int top = 0;
#pragma unroll
            for (int d = 0; d < group; d++) {
                const int at = (u + d) & 7;
                c[d] = fma(f, dg[at], c[d]);
                c[d] = fma(g, df[at], c[d]);
                int h = (high((c[d] * inverse[at]) * its) & ~7) | d;
                top = max(top, h);
                best[at] = max(best[at], h);
            }
            if (best[u] > keyed) offer(a, j, best[u], j - k - (best[u] & 7));
            if (top > keyed) offer(a, i + u, top, j + (top & 7));
            df[u] = a.df[next], dg[u] = a.dg[next], inverse[u] = a.inverse[next], best[u] = 0;
        }
    }
#pragma unroll
    for (int d = 0; d < group; d++) {
        if (best[d] > keyed) offer(a, i + k + d, best[d], i + d - (best[d] & 7));
    }
}

// largestOf returns the largest number of the block's threads, 0 or above.
__device__ inline double largestOf(State &s, double v) {
    for (int o = 16; o > 0; o >>= 1) v = fmax(v, __shfl_xor_sync(all, v, o));
    if ((threadIdx.x & 31) == 0) s.value[threadIdx.x >> 5] = v;
    __syncthreads();
    for (int w = 0; w < warps; w++) v = fmax(v, s.value[w]);
    __syncthreads();
    return v;
}

// steepness sets whether the roundings along a diagonal may change a correlation by more than 1e-7:
// after a jump that is large against other subsequences.
__device__ inline void steepness(State &s, const Memory &a) {
    double df = 0, dg = 0, inverse = 0, squares = 0;
    for (int i = threadIdx.x; i < s.count; i += threads) {
        int at = spread(i);
        df = fmax(df, fabs(a.df[at]));
        dg = fmax(dg, fabs(a.dg[at]));
        if (usual(a.inverse[at])) inverse = fmax(inverse, a.inverse[at]);
        squares = fmax(squares, a.squares[at]);
    }
    df = largestOf(s, df);
    dg = largestOf(s, dg);
    inverse = largestOf(s, inverse);
    squares = largestOf(s, squares);
    if (threadIdx.x == 0) s.steep = !(roundings(rowsOfUnit, df, dg, inverse, squares) <= steep);
    __syncthreads();
}

// neighbours finds a near neighbour of every subsequence, mostly the nearest, and the values updated
// with it. Where the diagonals are steep it finds none.
__device__ inline void neighbours(State &s, const Memory &a) {
    const int t = threadIdx.x, lane = t & 31;
    __syncthreads();
    describeAll(s, a);
    for (int i = t; i < s.count; i += threads) {
        int at = spread(i);
        double df = 0;
        if (i > 0) df = (a.x[spread(i + s.m - 1)] - a.x[spread(i - 1)]) / 2;
        a.df[at] = df;
        a.key()[at] = 0;
    }
    __syncthreads();
    // The means occupy the array of dg: going backwards, each step reads the mean before.
    double before = 0;
    for (int from = (s.count - 1) / threads * threads; from >= 0; from -= threads) {
        int i = from + t;
        double dg = 0;
        if (i > 0 && i < s.count) {
            before = a.covariance()[spread(i - 1)];
            dg = (a.x[spread(i + s.m - 1)] - a.covariance()[spread(i)]) + (a.x[spread(i - 1)] - before);
        }
        __syncthreads();
        if (i < s.count) a.dg[spread(i)] = dg;
        __syncthreads();
    }
    steepness(s, a);
    if (t < group) {
        int at = spread(s.count + t);
        a.df[at] = a.dg[at] = 0;
        a.inverse[at] = -0.0;
        a.key()[at] = 0;
    }
    if (t == 0) s.next = 0;
    __syncthreads();
    // Units, the longest diagonals first: 256 diagonals and rowsOfUnit rows.
    while (!s.steep) {
        int unit = 0;
        if (lane == 0) unit = atomicAdd(&s.next, 1);
        unit = __shfl_sync(all, unit, 0);
        int k = s.exclusion;
        for (;; k += 32 * group) {
            int units = (s.count - k + rowsOfUnit - 1) / rowsOfUnit;
            if (k >= s.count || unit < units) break;
            unit -= units;
        }
        if (k >= s.count) break;
        int begin = unit * rowsOfUnit, end = min(begin + rowsOfUnit, s.count - k);
        sweep(s, a, begin, end, k + lane * group);
        __syncwarp();
    }
    __syncthreads();
    for (int i = t; i < s.count; i += threads) {
        int at = spread(i);
        uint32_t key = a.key()[at];
        a.neighbour()[at] = key == 0 ? -1 : key & ((1 << indexBits) - 1);
        a.settled[at] = 0;
        double sum = 0;
        for (int q = 0; q < s.m; q++) sum += a.x[spread(i + q)];
        a.mean()[at] = flat(a.inverse[at]) ? a.x[at] : sum / s.m;
    }
    __syncthreads();
    for (int i = t; i < s.count; i += threads) {
        int at = spread(i), j = a.neighbour()[at];
        a.covariance()[at] = j < 0 ? 0 : product(s, a, i, a.mean()[at], j, a.mean()[spread(j)]);
    }
    __syncthreads();
}

// lengthen updates the subsequences to the next length, whose exclusion is given.
__device__ inline void lengthen(State &s, const Memory &a, int exclusion) {
    const int m = s.m, count = s.count - 1;
    const double part = static_cast<double>(m) / (m + 1);
    for (int i = threadIdx.x; i < count; i += threads) {
        int at = spread(i), j = a.neighbour()[at];
        if (j < 0) continue;
        double one = a.x[spread(i + m)] - a.mean()[at], other = j + m < s.n ? a.x[spread(j + m)] - a.mean()[spread(j)] : 0;
        a.covariance()[at] = fma(part * one, other, a.covariance()[at]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += threads) {
        int at = spread(i);
        double v = a.x[spread(i + m)], inverse = a.inverse[at], mean = a.mean()[at], squares = a.squares[at];
        bool sound = high(inverse) >= 0 && !isMissing(a, i + m), same = inverse == 0 && v == a.x[at];
        double one = v - mean;
        if (!same) mean += one / (m + 1);
        squares = fma(part * one, one, squares);
        a.mean()[at] = mean;
        a.squares[at] = squares;
        a.inverse[at] = !sound ? -0.0 : same ? 0.0 : inverseOf(squares);
        a.settled[at] = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) s.m = m + 1, s.count = count, s.exclusion = exclusion;
    __syncthreads();
}

// repair gives every subsequence without a neighbour one nearby, if there is any.
__device__ inline void repair(const State &s, const Memory &a) {
    for (int i = threadIdx.x; i < s.count; i += threads) {
        int at = spread(i), j = a.neighbour()[at];
        if (!usual(a.inverse[at])) {
            a.neighbour()[at] = -1;
            continue;
        }
        if (j < 0) continue;
        int to = j > i ? max(i + s.exclusion, min(j, s.count - 1)) : min(i - s.exclusion, j);
        if (to >= s.count) to = i - s.exclusion;
        if (to < 0) to = i + s.exclusion < s.count ? i + s.exclusion : -1;
        if (to >= 0 && !usual(a.inverse[spread(to)])) to = -1;
        if (to != j) {
            a.neighbour()[at] = to;
            if (to >= 0) a.covariance()[at] = product(s, a, i, a.mean()[at], to, a.mean()[spread(to)]);
        }
    }
    __syncthreads();
}

// flatApart returns the first flat subsequence that i may be compared with, -1 for none.
__device__ inline int flatApart(const State &s, const Memory &a, int i) {
    for (int j = 0; j < s.count; j++) {
        if (j > i - s.exclusion && j < i + s.exclusion) j = i + s.exclusion;
        if (j < s.count && flat(a.inverse[spread(j)])) return j;
    }
    return -1;
}

__device__ inline int usualApart(const State &s, const Memory &a, int i) {
    for (int j = 0; j < s.count; j++) {
        if (j > i - s.exclusion && j < i + s.exclusion) j = i + s.exclusion;
        if (j < s.count && usual(a.inverse[spread(j)])) return j;
    }
    return -1;
}

// reach returns 1 - rho of subsequence i and its neighbour, 2 or less; infinite where none is known,
// and -1 where none exists. Two subsequences that are each other's neighbour have the same reach, to
// the bit, so that the first of them is the discord: both take the covariance of the first.
__device__ inline double reach(const State &s, const Memory &a, int i) {
    int at = spread(i), j = a.neighbour()[at];
    double inverse = a.inverse[at];
    if (usual(inverse)) {
        double rho = -2;
        if (j >= 0) {
            const int its = spread(j);
            rho = a.covariance()[j < i && a.neighbour()[its] == i ? its : at] * (inverse * a.inverse[its]);
        }
        if (rho < 0 && s.flats && !s.excludeFlat && (j >= 0 || a.settled[at]) && flatApart(s, a, i) >= 0) return 1;
        if (j >= 0) return 1 - rho;
        return a.settled[at] ? -1 : __longlong_as_double(0x7ff0000000000000);
    }
    if (!flat(inverse)) return -1;
    if (flatApart(s, a, i) >= 0) return 0;
    return !s.excludeFlat && usualApart(s, a, i) >= 0 ? 1 : -1;
}

// agree gives all threads the largest value, and of equal ones the first place; -1 for none.
__device__ inline void agree(State &s, double &value, int &place) {
    auto take = [&](double v, int p) {
        if (p >= 0 && (place < 0 || v > value || v == value && p < place)) value = v, place = p;
    };
    for (int o = 16; o > 0; o >>= 1) {
        double v = __shfl_xor_sync(all, value, o);
        int p = __shfl_xor_sync(all, place, o);
        take(v, p);
    }
    if ((threadIdx.x & 31) == 0) s.value[threadIdx.x >> 5] = value, s.place[threadIdx.x >> 5] = place;
    __syncthreads();
    for (int w = 0; w < warps; w++) take(s.value[w], s.place[w]);
    __syncthreads();
}

// isApart reports whether subsequence i overlaps no discord found before.
__device__ __forceinline__ bool isApart(const State &s, int i) {
    bool apart = true;
    for (int f = 0; f < s.found; f++) apart = apart && abs(i - s.picked[f]) >= s.m;
    return apart;
}

// farthest returns the first of the subsequences with the largest reach that overlap no discord found
// before; -1 for none.
__device__ inline int farthest(State &s, const Memory &a) {
    double value = -1;
    int place = -1;
    for (int i = threadIdx.x; i < s.count; i += threads) {
        if (!isApart(s, i)) continue;
        double v = reach(s, a, i);
        if (v > value) value = v, place = i;
    }
    agree(s, value, place);
    return place;
}

__device__ __forceinline__ double middle(double a, double b, double c) { return fmax(fmin(a, b), fmin(fmax(a, b), c)); }

constexpr double distant = 65536; // distance of a level from a mean, in norms of the subsequence

// settle compares subsequence i with all others; each of them takes i as its neighbour where i is
// nearer. The others are centred about one of their values, so that the deviations of i from its mean,
// whose sum is 0 up to rounding, are not multiplied by a common level. Where that value is a spike, far
// from other subsequences, covariances are computed about means.
__device__ inline void settle(State &s, const Memory &a, int i) {
    const double mean = a.mean()[spread(i)], inverse = a.inverse[spread(i)];
    Best nearest = none;
    double covariance = 0;
    for (int j = threadIdx.x * group; j < s.count; j += threads * group) {
        double sum[group], next[group], rest = 0;
        const double level = middle(a.x[spread(j)], a.x[spread(min(j + s.m / 2, s.n - 1))], a.x[spread(min(j + s.m - 1, s.n - 1))]);
#pragma unroll
        for (int d = 0; d < group; d++) sum[d] = 0;
#pragma unroll
        for (int d = 0; d < group - 1; d++) next[d] = a.x[spread(min(j + d, s.n - 1))] - level;
        for (int q = 0; q < s.m; q += group) {
#pragma unroll
            for (int u = 0; u < group; u++) {
                double v = q + u < s.m ? a.x[spread(i + q + u)] - mean : 0;
                rest += v;
                next[(u + 7) & 7] = a.x[spread(min(j + q + u + 7, s.n - 1))] - level;
#pragma unroll
                for (int d = 0; d < group; d++) sum[d] = fma(v, next[(u + d) & 7], sum[d]);
            }
        }
#pragma unroll
        for (int d = 0; d < group; d++) {
            int o = j + d, at = spread(o);
            if (o >= s.count || abs(o - i) < s.exclusion || !usual(a.inverse[at])) continue;
            const double off = a.mean()[at] - level;
            sum[d] = fabs(off) * a.inverse[at] > distant ? product(s, a, i, mean, o, a.mean()[at]) : fma(-rest, off, sum[d]);
            double rho = sum[d] * inverse * a.inverse[at];
            Best b = nearer(rho, o);
            if (b < nearest) nearest = b, covariance = sum[d];
            int other = a.neighbour()[at];
            if (other < 0 || rho > a.covariance()[at] * a.inverse[at] * a.inverse[spread(other)]) {
                a.neighbour()[at] = i;
                a.covariance()[at] = sum[d];
            }
        }
    }
    Best first = nearest;
    for (int o = 16; o > 0; o >>= 1) first = min(first, __shfl_xor_sync(all, first, o));
    if ((threadIdx.x & 31) == 0) s.nearest[threadIdx.x >> 5] = first;
    __syncthreads();
    for (int w = 0; w < warps; w++) first = min(first, s.nearest[w]);
    const int at = spread(i);
    if (first == nearest && first != none) {
        a.neighbour()[at] = indexOf(first);
        a.covariance()[at] = covariance;
    }
    if (threadIdx.x == 0) {
        if (first == none) a.neighbour()[at] = -1;
        a.settled[at] = 1;
    }
    __syncthreads();
}

// extend gives the subsequences around i the ones around its neighbour, where these are nearer: the
// neighbours of adjacent subsequences are mostly adjacent, too.
__device__ inline void extend(const State &s, const Memory &a, int i) {
    const int nearest = a.neighbour()[spread(i)], off = static_cast<int>(threadIdx.x) - threads / 2;
    const int o = i + off, p = nearest + off;
    if (nearest >= 0 && off != 0 && min(o, p) >= 0 && max(o, p) < s.count) {
        const int at = spread(o);
        const double inverse = a.inverse[at], its = a.inverse[spread(p)];
        if (usual(inverse) && usual(its)) {
            const double covariance = product(s, a, o, a.mean()[at], p, a.mean()[spread(p)]);
            const int other = a.neighbour()[at];
            if (other < 0 || covariance * its > a.covariance()[at] * a.inverse[spread(other)]) {
                a.neighbour()[at] = p;
                a.covariance()[at] = covariance;
            }
        }
    }
    __syncthreads();
}

// apartOf returns the distance of two subsequences that are not flat. The whole warp calls it.
__device__ inline double apartOf(const State &s, const Memory &a, int i, double meanI, int j, double meanJ) {
    double sum = 0, inverse = a.inverse[spread(i)], other = a.inverse[spread(j)];
    for (int q = threadIdx.x & 31; q < s.m; q += 32) {
        double d = (a.x[spread(i + q)] - meanI) * inverse - (a.x[spread(j + q)] - meanJ) * other;
        sum = fma(d, d, sum);
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(all, sum, o);
    return sqrt(sum * s.m);
}

// describeDiscord returns subsequence i as a discord. The whole warp calls it.
__device__ inline Discord describeDiscord(const State &s, const Memory &a, int i) {
    int at = spread(i), j = a.neighbour()[at];
    double inverse = a.inverse[at], r = reach(s, a, i);
    if (usual(inverse) && j >= 0 && !(r == 1 && a.covariance()[at] < 0)) {
        return {apartOf(s, a, i, a.mean()[at], j, a.mean()[spread(j)]), i, j};
    }
    if (r == 0) return {0, i, flatApart(s, a, i)};
    return {sqrt(2.0 * s.m), i, usual(inverse) ? flatApart(s, a, i) : usualApart(s, a, i)};
}

// discordsOf finds the discords of the state's length, and calls found with each one and its rank, in
// one thread. Neighbours or bounds are known before. The whole block calls it.
template <class Found> __device__ __forceinline__ void discordsOf(State &s, const Memory &a, Found found) {
    if (threadIdx.x == 0) s.found = 0;
    bool flats = false, beyond = false;
    for (int i = threadIdx.x; i < s.count; i += threads) {
        double inverse = a.inverse[spread(i)];
        flats = flats || flat(inverse);
        beyond = beyond || inverse > largest;
    }
    flats = __syncthreads_or(flats);
    beyond = __syncthreads_or(beyond);
    if (threadIdx.x == 0) {
        s.flats = flats;
        s.beyond = s.beyond || beyond;
    }
    __syncthreads();
    if (s.beyond) return;
    int compared = 0;
    while (s.found < s.wanted) {
        int i = farthest(s, a);
        if (i < 0) break;
        if (usual(a.inverse[spread(i)]) && !a.settled[spread(i)]) {
            if (compared++ == patience && !s.steep) neighbours(s, a);
            else settle(s, a, i), extend(s, a, i);
            continue;
        }
        if (threadIdx.x < 32) {
            Discord d = describeDiscord(s, a, i);
            if (threadIdx.x == 0) found(d, s.found);
        }
        __syncthreads();
        if (threadIdx.x == 0) s.picked[s.found++] = i;
        __syncthreads();
    }
    __syncthreads();
}

// sums writes the sum of the distances of subsequence i to its k nearest neighbours, which are also
// apart from each other, to squares, and sets the nearest. Correlations that are equal in float32 count
// as ties, as in the definition. The whole block calls it.
__device__ inline void sums(State &s, const Memory &a, int i, int k) {
    const int at = spread(i), t = threadIdx.x;
    const double *means = a.covariance(), inverse = a.inverse[at], missing = __longlong_as_double(0x7ff8000000000000);
    double *rho = a.df, sum = 0;
    const bool mine = usual(inverse), compared = mine || flat(inverse);
    for (int j = t; j < s.count; j += threads) {
        const double its = a.inverse[spread(j)];
        double r = -2;
        if (compared && abs(i - j) >= s.exclusion) {
            if (mine && usual(its)) r = static_cast<float>(product(s, a, i, means[at], j, means[spread(j)]) * inverse * its);
            else if (!mine && flat(its)) r = 1;
            else if ((mine ? flat(its) : usual(its)) && !s.excludeFlat) r = 0;
        }
        rho[spread(j)] = r;
    }
    int found = 0, nearest = -1;
    for (; found < k; found++) {
        double value = -2;
        int place = -1;
        for (int j = t; j < s.count; j += threads) {
            double v = rho[spread(j)];
            if (v > value) value = v, place = j;
        }
        agree(s, value, place);
        if (place < 0) break;
        if (found == 0) nearest = place;
        const bool both = mine && usual(a.inverse[spread(place)]);
        sum += both ? apartOf(s, a, i, means[at], place, means[spread(place)]) : value == 1 ? 0 : sqrt(2.0 * s.m);
        for (int j = t; j < s.count; j += threads) {
            if (abs(j - place) < s.exclusion) rho[spread(j)] = -2;
        }
    }
    if (t == 0) {
        a.squares[at] = found == 0 ? missing : found == k ? sum : sum * k / found;
        a.neighbour()[at] = nearest;
    }
    __syncthreads();
}

// discordsOfMany is discordsOf with sums of the distances to k neighbours, by all pairs.
template <class Found> __device__ __forceinline__ void discordsOfMany(State &s, const Memory &a, int k, Found found) {
    describeAll(s, a);
    bool beyond = false;
    for (int i = threadIdx.x; i < s.count; i += threads) beyond = beyond || a.inverse[spread(i)] > largest;
    beyond = __syncthreads_or(beyond);
    if (threadIdx.x == 0) {
        s.beyond = s.beyond || beyond;
        s.found = 0;
    }
    __syncthreads();
    if (s.beyond) return;
    for (int i = 0; i < s.count; i++) sums(s, a, i, k);
    while (s.found < s.wanted) {
        double value = -1;
        int place = -1;
        for (int i = threadIdx.x; i < s.count; i += threads) {
            double v = a.squares[spread(i)];
            if (v > value && isApart(s, i)) value = v, place = i;
        }
        agree(s, value, place);
        if (place < 0) break;
        if (threadIdx.x == 0) {
            found(Discord{value, place, a.neighbour()[spread(place)]}, s.found);
            s.picked[s.found++] = place;
        }
        __syncthreads();
    }
    __syncthreads();
}

}  // namespace discords
