// The nearest neighbours of all subsequences of a long series (a matrix profile), by covariances along
// diagonals:
//
//	cov(i, j) = cov(i-1, j-1) + df(i) dg(j) + df(j) dg(i)
//
// (Zimmerman et al., Matrix Profile XIV, SoCC 2019.) A thread holds eight adjacent diagonals in
// registers and steps along the rows. A block computes 2,048 diagonals over up to some ten thousand
// rows, from a covariance computed from the values, which bounds the drift. The largest correlation of
// a row's eight pairs is compared, by its high word, with the least limit of these nine subsequences.
// It seldom passes; then each pair is examined, and subsequences get their nearest neighbour by an
// atomic minimum, which does not depend on the order of blocks.
//
// Distances are then computed from the values, so they carry no drift: drift can only choose among
// neighbours that are equally near up to rounding. Where it may exceed 1e-7 of a correlation, the task
// is declined.
//
// With T float the covariances are carried in float32. A distance is then an upper bound, too large
// where the drift has chosen another neighbour; discords_radius.h finds the discords of float64 from
// these bounds.
//
// Floor: three operations a pair.
#pragma once
#include "discords_series.h"

namespace discords {

constexpr int diagonals = 8, lanes = 256, band = lanes * diagonals, chunk = 256;
constexpr int columns = (band + chunk) / 8 * 9 + 16;  // of shared memory

// chunkOf is the number of rows of a chunk of a scan in T. In float32 twice as many fit, and fewer
// barriers compensate for warps that record many neighbours. V100 has no memory for more in float64.
template <typename T> constexpr int chunkOf = sizeof(T) == sizeof(double) ? chunk : 2 * chunk;
constexpr int padding = band + 2 * chunk + 16;  // elements after the last subsequence

// Extremes are the extremes of a length's subsequences; all fields begin as zero.
struct Extremes {
    unsigned first, last;                // flat subsequences: count - the first, the last + 1; 0: none
    Best df, dg, inverse, squares;       // the largest, as bits
    unsigned segments, taken, lost, done;  // of a search by a radius: see discords_radius.h
    Best radius;                           // of the search among float32's candidates, as bits; 0: not yet searched
};

// Radii is what is known of the radius of range discords before a length, and after it of its own. It lies behind the length's
// Extremes, in the same zeroed memory.
struct Radii {
    double start;    // with RADIUS=auto, the first radius to try; 0: none
    double last[5];  // distances of the TOP-th discords of the lengths before
    int known;       // of them
    int listed;      // range discords
};
constexpr int radiiAt = 128, extremesBytes = 256;
static_assert(sizeof(Extremes) <= radiiAt && radiiAt + sizeof(Radii) <= extremesBytes, "layout");

// Work is a series with the arrays of its subsequences.
struct Work {
    const double *x;
    int n, m, count, exclusion;  // values; length; subsequences; least |i-j|
    bool excludeFlat;
    double *mean, *inverse, *df, *dg;
    int *limit;
    Best *best;
    double *distance;
    Extremes *extremes;
};

// radiiOf returns the radii of the length, or of one so many after it.
__device__ inline Radii &radiiOf(const Work &w, int after = 0) {
    return *reinterpret_cast<Radii *>(reinterpret_cast<unsigned char *>(w.extremes) + after * extremesBytes + radiiAt);
}

// greatest raises *to to the largest v of the warp, which is 0 or above. The whole warp calls it.
__device__ __forceinline__ void greatest(Best *to, double v) {
    for (int o = 16; o > 0; o >>= 1) v = fmax(v, __shfl_xor_sync(all, v, o));
    if ((threadIdx.x & 31) == 0 && v > 0) atomicMax(to, static_cast<Best>(__double_as_longlong(v)));
}

__device__ __forceinline__ double greatestOf(const Best &v) { return __longlong_as_double(static_cast<long long>(v)); }

// describe sets mean and norm of subsequence i, or marks it as none. Whole warps call it.
__device__ inline void describe(const Work &w, int i) {
    double mean = 0, squares = 0, inverse = -0.0;
    bool same = true, sound = true;
    if (i < w.count) {
        const double *x = w.x + i;
        const double first = x[0];
        for (int q = 0; q < w.m; q++) {
            double v = x[q];
            same = same && v == first;
            sound = sound && finite(v);
            mean += clean(v);
        }
        mean = same ? first : mean / w.m;
        if (!sound) mean = clean(mean);
        for (int q = 0; q < w.m; q++) {
            double v = clean(x[q]) - mean;
            squares = fma(v, v, squares);
        }
        inverse = !sound ? -0.0 : same ? 0.0 : inverseOf(squares);
        if (flat(inverse)) {
            atomicMax(&w.extremes->first, static_cast<unsigned>(w.count - i));
            atomicMax(&w.extremes->last, static_cast<unsigned>(i + 1));
        }
    }
    if (i < w.count + padding) {
        w.mean[i] = mean;
        w.inverse[i] = inverse;
    }
    greatest(&w.extremes->squares, squares);
    greatest(&w.extremes->inverse, inverse);
}

// step sets the terms by which covariances change from subsequence i-1 to i. Whole warps call it.
__device__ inline void step(const Work &w, int i) {
    double df = 0, dg = 0;
    if (i > 0 && i < w.count) {
        double in = clean(w.x[i + w.m - 1]), out = clean(w.x[i - 1]);
        df = (in - out) / 2;
        dg = (in - w.mean[i]) + (out - w.mean[i - 1]);
    }
    if (i < w.count + padding) {
        double inverse = w.inverse[i];
        w.df[i] = df;
        w.dg[i] = dg;
        w.limit[i] = usual(inverse) ? always : never;
        w.best[i] = none;
    }
    greatest(&w.extremes->df, fabs(df));
    greatest(&w.extremes->dg, fabs(dg));
}

// isSteep reports whether diagonals of this many rows lose too many digits.
__device__ __forceinline__ bool isSteep(const Extremes &e, int rows) {
    return !(roundings(rows, greatestOf(e.df), greatestOf(e.dg), greatestOf(e.inverse), greatestOf(e.squares)) <= steep);
}

// isSingle reports whether covariances and norms are in the range of float32.
__device__ __forceinline__ bool isSingle(const Extremes &e) { return greatestOf(e.squares) < 1e36 && greatestOf(e.inverse) < 1e18; }

// Row has the values common to a row's pairs.
template <typename T> struct alignas(4 * sizeof(T)) Row {
    T df, dg, inverse;
    int limit;
};

// Block is a block's shared memory; discordsScanBytes in cuda/plan/discords.go has its size.
template <typename T> struct Block {
    static constexpr int chunk = chunkOf<T>, columns = (band + chunk) / 8 * 9 + 16;
    Row<T> row[chunk + 1];
    T df[columns], dg[columns], inverse[columns];
    int limit[columns], least[columns];  // least of a column's and the next seven limits
};

// seed computes the covariances of the subsequence at i with those at i+k and after, k being the
// thread's offset from first.
template <typename T> __device__ __forceinline__ void seed(const Work &w, Block<T> &b, int i, int first, T *c) {
    const int t = threadIdx.x;
    double *values = reinterpret_cast<double *>(b.df);
    static_assert(sizeof(T) * Block<T>::columns * 2 >= sizeof(double) * columns, "room");
    double sum[diagonals], next[diagonals];
    const double mean = w.mean[i], level = w.mean[min(i + first + t * diagonals, w.count - 1)];
#pragma unroll
    for (int d = 0; d < diagonals; d++) sum[d] = 0;
    for (int from = 0; from < w.m; from += chunk) {
        __syncthreads();
        for (int q = t; q < band + chunk; q += lanes) {
            int at = i + first + from + q;
            values[spread(q)] = at < w.n ? clean(w.x[at]) : 0;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < diagonals - 1; d++) next[d] = values[t * 9 + d] - level;
        const int end = min(chunk, w.m - from);
        for (int q = 0; q < end; q += diagonals) {
            const int at = (q / 8 + t) * 9;
#pragma unroll
            for (int u = 0; u < diagonals; u++) {
                double v = q + u < end ? clean(w.x[i + from + q + u]) - mean : 0;
                next[(u + 7) & 7] = values[at + (u == 0 ? 7 : 8 + u)] - level;
#pragma unroll
                for (int d = 0; d < diagonals; d++) sum[d] = fma(v, next[(u + d) & 7], sum[d]);
            }
        }
    }
#pragma unroll
    for (int d = 0; d < diagonals; d++) c[d] = static_cast<T>(sum[d]);
}

// note records the neighbours among the eight pairs of a row, whose correlations are r0 to r7. As a
// function that is not inlined, it computes its address in shared memory itself: a generic address
// costs a query and a loop.
template <typename T>
__device__ ODRADEK_SLOW void note(Best *bests, int *limits, int row, int column, int i, int j, T r0, T r1, T r2, T r3, T r4, T r5, T r6, T r7) {
    DYNAMIC_SHARED(unsigned char, memory);
    Block<T> &b = *reinterpret_cast<Block<T> *>(memory);
    const T rho[diagonals] = {r0, r1, r2, r3, r4, r5, r6, r7};
    const int limit = b.row[row].limit;
    if (limit == never) return;
    int its[diagonals], least = never, top = always;
#pragma unroll
    for (int d = 0; d < diagonals; d++) its[d] = b.limit[spread(column + d)];
    bool any = false;
#pragma unroll
    for (int d = 0; d < diagonals; d++) {
        int h = its[d] == never ? always : high(rho[d]);
        top = max(top, h);
        any = any || its[d] != never && h >= its[d];
        least = min(least, its[d]);
    }
    if (least == never) return;
    if (any) {
        least = never;
#pragma unroll
        for (int d = 0; d < diagonals; d++) {
            if (its[d] != never && high(rho[d]) >= its[d]) {
                double r = static_cast<double>(rho[d]);
                globalMin(bests + j + d, nearer(r, i));
                int l = limitOf(r, T(0));
                if (l > its[d]) {
                    atomicMax(&b.limit[spread(column + d)], l);
                    globalMax(limits + j + d, l);
                    its[d] = l;
                }
            }
            least = min(least, its[d]);
        }
    }
    b.least[spread(column)] = least;
    if (top >= limit) {
        Best nearest = none;
        double most = -2;
#pragma unroll
        for (int d = 0; d < diagonals; d++) {
            if (its[d] != never) {
                double r = static_cast<double>(rho[d]);
                nearest = min(nearest, nearer(r, j + d));
                most = fmax(most, r);
            }
        }
        globalMin(bests + i, nearest);
        int l = limitOf(most, T(0));
        if (l > limit) {
            atomicMax(&b.row[row].limit, l);
            globalMax(limits + i, l);
        }
    }
}

// fill loads a chunk of rows from one on, and their columns.
template <typename T> __device__ __forceinline__ void fill(const Work &w, Block<T> &b, int from, int first) {
    constexpr int rows = chunkOf<T>;
    const int t = threadIdx.x;
    for (int q = t; q <= rows; q += lanes) {
        int i = from + q;
        b.row[q] = {static_cast<T>(w.df[i]), static_cast<T>(w.dg[i]), static_cast<T>(w.inverse[i]), w.limit[i]};
    }
    for (int q = t; q < band + rows; q += lanes) {
        int j = from + first + q, at = spread(q);
        b.df[at] = static_cast<T>(w.df[j]);
        b.dg[at] = static_cast<T>(w.dg[j]);
        b.inverse[at] = static_cast<T>(w.inverse[j]);
        b.limit[at] = w.limit[j];
    }
}

// drift bounds how far a pair's correlation in the scan, which begins at another place, may be below
// that in the probe: a limit above it would leave the subsequence without a neighbour.
template <typename T> constexpr double drift = sizeof(T) == sizeof(double) ? 0 : 0x1p-16;

// probe raises the limits of subsequences by all pairs of the rows from begin to end-1, at most a
// chunk, and the diagonals from first on, without recording neighbours, so that a scan begins with
// limits. Without limits, as where all blocks of a short series begin at once, nearly every pair is
// nearer than all before.
template <typename T> __device__ __forceinline__ void probe(const Work &w, Block<T> &b, int begin, int end, int first) {
    constexpr int rows = chunkOf<T>;
    const int t = threadIdx.x;
    T c[diagonals];
    seed(w, b, begin > 0 ? begin - 1 : 0, first, c);
    __syncthreads();
    fill(w, b, begin, first);
    __syncthreads();
    for (int q = t; q < band + rows; q += lanes) b.least[spread(q)] = always;
    for (int q = t; q < rows; q += lanes) b.row[q].limit = always;
    __syncthreads();
    T df[diagonals], dg[diagonals], inverse[diagonals];
    int best[diagonals];
#pragma unroll
    for (int d = 0; d < diagonals; d++) df[d] = b.df[t * 9 + d], dg[d] = b.dg[t * 9 + d], inverse[d] = b.inverse[t * 9 + d], best[d] = always;
#pragma unroll 1
    for (int base = 0; base < rows; base += diagonals) {
        const int at = (base / 8 + t) * 9;
#pragma unroll
        for (int u = 0; u < diagonals; u++) {
            const T f = b.row[base + u].df, g = b.row[base + u].dg, its = b.row[base + u].inverse;
            int top = always;
#pragma unroll
            for (int d = 0; d < diagonals; d++) {
                const int s = (u + d) & 7;
                c[d] = fma(f, dg[s], c[d]);
                c[d] = fma(g, df[s], c[d]);
                const int h = high((c[d] * inverse[s]) * its);
                best[s] = max(best[s], h);
                top = max(top, h);
            }
            for (int o = 16; o > 0; o >>= 1) top = max(top, __shfl_xor_sync(all, top, o));
            if ((t & 31) == 0 && top > 0) atomicMax(&b.row[base + u].limit, top);
            if (best[u] > 0) atomicMax(&b.least[at + u], best[u]);
            df[u] = b.df[at + 9 + u], dg[u] = b.dg[at + 9 + u], inverse[u] = b.inverse[at + 9 + u], best[u] = always;
        }
    }
#pragma unroll
    for (int d = 0; d < diagonals; d++) {
        if (best[d] > 0) atomicMax(&b.least[(rows / 8 + t) * 9 + d], best[d]);
    }
    __syncthreads();
    auto raise = [&](int i, int h) {
        if (h > 0 && i < w.count) {
            int l = limitOf(static_cast<double>(atMost(h, T(0))) - drift<T>, T(0));
            if (l > 0) atomicMax(w.limit + i, l);
        }
    };
    for (int q = t; q < min(rows, end - begin); q += lanes) raise(begin + q, b.row[q].limit);
    for (int q = t; q < band + rows; q += lanes) raise(begin + first + q, b.least[spread(q)]);
}

// isLeft reports whether a subsequence's limit is below enough, by the results of all blocks so far.
__device__ __forceinline__ bool isLeft(const Work &w, int i, int enough) {
    return *static_cast<const volatile int *>(w.limit + i) < enough;
}

// noteRow records the nearest of the eight pairs of a row for the row alone. A row with a correlation
// whose high word is enough or more is not examined again.
template <typename T>
__device__ ODRADEK_SLOW void noteRow(Best *bests, int *limits, int row, int i, int j, int enough, T r0, T r1, T r2, T r3, T r4, T r5, T r6, T r7) {
    DYNAMIC_SHARED(unsigned char, memory);
    Block<T> &b = *reinterpret_cast<Block<T> *>(memory);
    const T rho[diagonals] = {r0, r1, r2, r3, r4, r5, r6, r7};
    Best nearest = none;
    double most = 0;
#pragma unroll
    for (int d = 0; d < diagonals; d++) {
        if (rho[d] > 0) {
            double r = static_cast<double>(rho[d]);
            nearest = min(nearest, nearer(r, j + d));
            most = fmax(most, r);
        }
    }
    if (nearest == none) return;
    globalMin(bests + i, nearest);
    int l = limitOf(most, T(0));
    if (l > b.row[row].limit) {
        atomicMax(&b.row[row].limit, l >= enough ? never : l);
        globalMax(limits + i, l);
    }
}

// scan compares the subsequences from begin to end-1 with those at offsets first to first+band-1 after
// them. With Rows the later ones, or with a negative first the earlier ones, do not take them as
// neighbours, and only subsequences with a limit below enough are compared.
template <typename T, bool Rows = false>
__device__ __forceinline__ void scan(const Work &w, Block<T> &b, int begin, int end, int first, int enough = never) {
    constexpr int rows = chunkOf<T>;
    const int t = threadIdx.x, k = first + t * diagonals;
    T c[diagonals];
    {
        int i = begin > 0 ? begin - 1 : 0;
        seed(w, b, i, first, c);
    }
    for (int from = begin; from < end; from += rows) {
        __syncthreads();
        fill(w, b, from, first);
        __syncthreads();
        if (Rows) b.row[t].limit = from + t < end && isLeft(w, from + t, enough) ? b.row[t].limit : never;
        for (int q = t; !Rows && q < band + rows; q += lanes) {
            int least = never;
#pragma unroll
            for (int d = 0; d < diagonals; d++) {
                if (q + d < band + rows) least = min(least, b.limit[spread(q + d)]);
            }
            b.least[spread(q)] = least;
        }
        __syncthreads();
        T df[diagonals], dg[diagonals], inverse[diagonals];
#pragma unroll
        for (int d = 0; d < diagonals; d++) df[d] = b.df[t * 9 + d], dg[d] = b.dg[t * 9 + d], inverse[d] = b.inverse[t * 9 + d];
        T f = b.row[0].df, g = b.row[0].dg;
#pragma unroll 1
        for (int base = 0; base < rows; base += diagonals) {
            const int at = (base / 8 + t) * 9;
#pragma unroll
            for (int u = 0; u < diagonals; u++) {
                const T its = b.row[base + u].inverse;
                const int limit = Rows ? b.row[base + u].limit : min(b.row[base + u].limit, b.least[at + u]);
                int top = always;
                T f0 = f, g0 = g, kept = inverse[u];
#pragma unroll
                for (int d = 0; d < diagonals; d++) {
                    const int s = (u + d) & 7;
                    c[d] = fma(f0, dg[s], c[d]);
                    c[d] = fma(g0, df[s], c[d]);
                    top = max(top, high(c[d] * inverse[s]));
                    if (d == 0) {
                        df[s] = b.df[at + 9 + u], dg[s] = b.dg[at + 9 + u], inverse[s] = b.inverse[at + 9 + u];
                        f = b.row[base + u + 1].df, g = b.row[base + u + 1].dg;
                    }
                }
                if (high(atLeast(top, T(0)) * its) >= limit) {
                    T rho[diagonals];
#pragma unroll
                    for (int d = 0; d < diagonals; d++) rho[d] = (c[d] * (d == 0 ? kept : inverse[(u + d) & 7])) * its;
                    int i = from + base + u;
                    if (Rows) noteRow<T>(w.best, w.limit, base + u, i, i + k, enough, rho[0], rho[1], rho[2], rho[3], rho[4], rho[5], rho[6], rho[7]);
                    else note<T>(w.best, w.limit, base + u, base + t * 8 + u, i, i + k, rho[0], rho[1], rho[2], rho[3], rho[4], rho[5], rho[6], rho[7]);
                }
            }
        }
    }
}

// apart returns the distance of two subsequences that are not flat, the same for (x, y) and (y, x): a
// fused product and difference would round one of them alone. The whole warp calls it.
__device__ inline double apart(const double *x, double meanX, double inverseX, const double *y, double meanY, double inverseY, int m) {
    double sum = 0;
    for (int q = threadIdx.x & 31; q < m; q += 32) {
        double d = __dmul_rn(x[q] - meanX, inverseX) - __dmul_rn(y[q] - meanY, inverseY);
        sum = fma(d, d, sum);
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(all, sum, o);
    return sqrt(sum * m);
}

// flatApart returns the first flat subsequence that i may be compared with, -1 for none.
__device__ inline int flatApart(const Work &w, int i) {
    if (w.extremes->first == 0) return -1;
    const int first = w.count - static_cast<int>(w.extremes->first), last = w.extremes->last;
    if (first <= i - w.exclusion) return first;
    for (int j = i + w.exclusion; j < last; j++) {
        if (flat(w.inverse[j])) return j;
    }
    return -1;
}

// finish sets the distance of subsequence i to its nearest neighbour; NaN without one. The whole warp
// calls it.
__device__ inline void finish(const Work &w, int i) {
    double mine = w.inverse[i], distance = __longlong_as_double(0x7ff8000000000000);
    Best best = w.best[i];
    if (usual(mine)) {
        double rho = -2;
        int j = indexOf(best);
        if (best != none && flat(w.inverse[j])) {  // its correlation is 0, and hides others' below
            best = none;
            if (w.excludeFlat) {
                for (int o = 0; o < w.count; o++) {
                    if (o > i - w.exclusion && o < i + w.exclusion || !usual(w.inverse[o])) continue;
                    const double other = apart(w.x + i, w.mean[i], mine, w.x + o, w.mean[o], w.inverse[o], w.m);
                    if (!(distance <= other)) distance = other, best = nearer(1 - other * other / (2.0 * w.m), o);
                }
            }
        } else if (best != none) {
            distance = apart(w.x + i, w.mean[i], mine, w.x + j, w.mean[j], w.inverse[j], w.m);
            rho = 1 - distance * distance / (2.0 * w.m);
        }
        if (rho <= 0 && !w.excludeFlat) {
            int f = flatApart(w, i);
            if (f >= 0 && (rho < 0 || f < j)) best = nearer(0, f), distance = sqrt(2.0 * w.m);
        }
    } else if (flat(mine)) {
        int f = flatApart(w, i);
        best = none;
        if (f >= 0) best = nearer(1, f), distance = 0;
        else if (!w.excludeFlat) {
            for (int j = 0; j < w.count && best == none; j++) {
                if (j > i - w.exclusion && j < i + w.exclusion) j = i + w.exclusion;
                if (j < w.count && usual(w.inverse[j])) best = nearer(0, j), distance = sqrt(2.0 * w.m);
            }
        }
    }
    __syncwarp();  // all have read the neighbour
    if ((threadIdx.x & 31) == 0) {
        w.best[i] = best;
        w.distance[i] = distance;
    }
}

}  // namespace discords
