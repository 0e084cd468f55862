// The first discords of many lengths of a long series.
//
// At a few lengths, the anchors, all nearest neighbours are computed (discords_profile.h). A block then
// computes one length after another. It computes new means and norms, and the distances of each
// subsequence to its nearest neighbours at the anchors below and above: the smaller one is an upper
// bound of its distance, mostly a tight one. The subsequence with the largest bound is compared with
// all others. If its distance is still the largest, it is the discord, since no other distance exceeds
// its bound. If that takes too many comparisons, the block computes all neighbours of its length, as at
// an anchor.
//
// No values, and so no roundings, are carried from length to length. As bounds need not be tight, the
// anchors may be computed in float32.
//
// Floor: a product and a sum for each value of each subsequence of each length, for moments, two bounds
// and about three comparisons; and the anchors, three operations a pair.
#pragma once
#include "discords_long.h"

namespace discords {

constexpr int anchorRows = 1 << 11;  // rows of a block of an anchor's scan
constexpr double unknown = 1e300;    // a bound of a subsequence without a known neighbour
constexpr int beside = 2;  // on either side of a compared subsequence, the number of subsequences a thread whose bounds are updated

// Counts are prefix counts that show which subsequences are flat or have a value that is not finite:
// the values before each one that are not finite, and the values up to each one that differ from their
// predecessor.
struct Counts {
    const uint32_t *missing, *changes;
    __device__ bool sound(int i, int m) const { return missing[i + m] == missing[i]; }
    __device__ bool same(int i, int m) const { return changes[i + m - 1] == changes[i]; }
};

// Lengths is the data that all blocks of a task's lengths share.
//
// The first tile of a launch has as count the number of anchors, whose tiles begin at the third, and as
// scratch the offset of the counts. The second has as count the size of a block's arrays in units of
// 256 bytes, as part the offset of zeroed scratch memory, and as scratch the offset of the arrays.
struct Lengths {
    const Tile *tiles;
    __device__ int anchors() const { return tiles[0].count; }
    __device__ const Tile &anchor(int k) const { return tiles[2 + k]; }
    __device__ uint32_t *next(unsigned char *scratch) const { return reinterpret_cast<uint32_t *>(scratch + static_cast<size_t>(tiles[1].part) * 256); }
    __device__ uint32_t *counts(unsigned char *scratch) const { return reinterpret_cast<uint32_t *>(scratch + static_cast<size_t>(tiles[0].scratch) * 256); }
};

// Search is a block's state of its length.
struct Search {
    Work w;  // its distances are bounds, as 1-rho; its limits are neighbours
    Work below, above;
    Counts counts;
    int length, found, flats[2], usuals[2];  // the first and the last flat subsequence, and the first and the last other one
    bool beyond;
    int picked[mostPicks];
    double value[lanes / 32];
    int place[lanes / 32];
    Best nearest[lanes / 32];
};

// The known neighbour of a subsequence: its place + 1, 0 for none, and a bit for a subsequence that has
// been compared with all.
constexpr int compared = 1 << 30;

__device__ __forceinline__ int placeOf(int near) { return (near & (compared - 1)) - 1; }

// Slide is the shared memory of a sum over the values of subsequences.
struct Slide {
    double values[columns], query[chunk];
};

// countLong sets the counts of a series. One block of 1024 threads calls it.
__device__ inline void countLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    const Lengths l = {tiles};
    const Work w = longOf(tasks, l.anchor(0), f32, out, scratch);
    uint32_t *missing = l.counts(scratch), *changes = missing + w.n + 1;
    __shared__ uint32_t sums[2][1024];
    const int t = threadIdx.x, each = (w.n + 1023) / 1024, from = min(t * each, w.n), end = min(from + each, w.n);
    auto count = [&](auto take) {
        for (int i = from; i < end; i++) take(i, finite(w.x[i]) ? 0u : 1u, i > 0 && w.x[i] == w.x[i - 1] ? 0u : 1u);
    };
    uint32_t a = 0, b = 0;
    count([&](int, uint32_t bad, uint32_t change) { a += bad, b += change; });
    sums[0][t] = a;
    sums[1][t] = b;
    __syncthreads();
    if (t < 2) {
        uint32_t sum = 0;
        for (int k = 0; k < 1024; k++) {
            uint32_t v = sums[t][k];
            sums[t][k] = sum;
            sum += v;
        }
    }
    __syncthreads();
    a = sums[0][t];
    b = sums[1][t];
    count([&](int i, uint32_t bad, uint32_t change) {
        missing[i] = a;
        a += bad;
        b += change;
        changes[i] = b;
    });
    if (end == w.n && from < end) missing[w.n] = a;
}

// scanAnchors is scanLong for several tiles.
template <typename T> __device__ inline void scanAnchors(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    DYNAMIC_SHARED(unsigned char, memory);
    __shared__ Work w;
    const Parts shortest(tasks, tiles, f32, out);
    const int left = shortest.count - shortest.exclusion, parts = (left + anchorRows - 1) / anchorRows, each = (left + band - 1) / band * parts;
    const int block = blockIdx.x;
    if (threadIdx.x == 0) w = longOf(tasks, tiles[block / each], f32, out, scratch);
    __syncthreads();
    const int first = w.exclusion + block % each / parts * band, begin = block % parts * anchorRows, end = min(begin + anchorRows, w.count - first);
    if (begin < end && isScanned<T>(*w.extremes, anchorRows)) scan(w, *reinterpret_cast<Block<T> *>(memory), begin, end, first);
}

// slide calls take(v, next, u) for each value of the subsequences from i on, eight a thread: the value
// of the d-th, less level, is next[(u+d)&7]. v is the query's value, less mean and times scale, or 1
// without a query, and 0 after the last value. level is the eighth value of the first subsequence. The
// whole block calls it.
template <class Take> __device__ __forceinline__ void slide(const Work &w, Slide &s, int i, double &level, const double *query, double mean, double scale, Take take) {
    const int t = threadIdx.x;
    double next[diagonals];
    for (int from = 0; from < w.m; from += chunk) {
        __syncthreads();
        for (int q = t; q < band + chunk; q += lanes) {
            int at = i + from + q;
            s.values[spread(q)] = at < w.n ? clean(w.x[at]) : 0;
        }
        if (query) s.query[t] = from + t < w.m ? (query[from + t] - mean) * scale : 0;
        __syncthreads();
        if (from == 0) level = s.values[t * 9 + 7];
#pragma unroll
        for (int d = 0; d < diagonals - 1; d++) next[d] = s.values[t * 9 + d] - level;
        const int end = min(chunk, w.m - from);
        for (int q = 0; q < end; q += diagonals) {
            const int at = (q / 8 + t) * 9;
#pragma unroll
            for (int u = 0; u < diagonals; u++) {
                next[(u + 7) & 7] = s.values[at + (u == 0 ? 7 : 8 + u)] - level;
                const double v = query ? s.query[q + u] : q + u < end ? 1 : 0;
                take(v, next, u);
            }
        }
    }
}

// describeAll sets mean and inverse norm of all subsequences, and marks the flat ones. The whole block
// calls it.
__device__ inline void describeAll(Search &s, Slide &b) {
    const Work &w = s.w;
    const int t = threadIdx.x;
    bool beyond = false;
    for (int i = 0; i < w.count; i += band) {
        double sum[diagonals], squares[diagonals], level;
#pragma unroll
        for (int d = 0; d < diagonals; d++) sum[d] = squares[d] = 0;
        slide(w, b, i, level, nullptr, 0, 0, [&](double weight, const double(&next)[diagonals], int u) {
#pragma unroll
            for (int d = 0; d < diagonals; d++) {
                const double v = next[(u + d) & 7] * weight;
                sum[d] += v;
                squares[d] = fma(v, v, squares[d]);
            }
        });
#pragma unroll
        for (int d = 0; d < diagonals; d++) {
            const int at = i + t * diagonals + d;
            if (at >= w.count) continue;
            const bool sound = s.counts.sound(at, w.m), same = s.counts.same(at, w.m);
            const double mean = sum[d] / w.m;
            w.mean[at] = sound && same ? w.x[at] : level + mean;
            const double inverse = !sound ? -0.0 : same ? 0.0 : inverseOf(squares[d] - mean * sum[d]);
            w.inverse[at] = inverse;
            beyond = beyond || inverse > largest;
            if (!usual(inverse) && !flat(inverse)) continue;
            int *ends = flat(inverse) ? s.flats : s.usuals;
            atomicMin(&ends[0], at);
            atomicMax(&ends[1], at);
        }
    }
    if (__syncthreads_or(beyond)) s.beyond = true;
}

// isApart reports whether i may be compared with a subsequence, given the first and the last of that
// subsequence's kind.
__device__ __forceinline__ bool isApart(const int (&ends)[2], int i, int exclusion) { return ends[0] <= i - exclusion || ends[1] >= i + exclusion; }

// rhoOf computes the correlation of two subsequences that are not flat, from their values: the same for
// (i, j) and (j, i).
__device__ inline double rhoOf(const Work &w, int i, int j) {
    const double *x = w.x + i, *y = w.x + j, meanX = w.mean[i], meanY = w.mean[j];
    double sum[4] = {0, 0, 0, 0};
    int q = 0;
    for (; q + 4 <= w.m; q += 4) {
#pragma unroll
        for (int u = 0; u < 4; u++) sum[u] = fma(x[q + u] - meanX, y[q + u] - meanY, sum[u]);
    }
    for (; q < w.m; q++) sum[0] = fma(x[q] - meanX, y[q] - meanY, sum[0]);
    return (sum[0] + sum[1] + (sum[2] + sum[3])) * (w.inverse[i] * w.inverse[j]);
}

// tryNear gives subsequence i the neighbour at j, or one near j, if that is nearer than its present
// one.
__device__ inline void tryNear(const Work &w, int i, int j, int known) {
    int to = j > i ? max(i + w.exclusion, min(j, w.count - 1)) : min(i - w.exclusion, j);
    if (to >= w.count) to = i - w.exclusion;
    if (to < 0) to = i + w.exclusion;
    if (to >= w.count || to == known || !usual(w.inverse[to])) return;
    const double d = 1 - rhoOf(w, i, to);
    if (d < w.distance[i]) w.distance[i] = d, w.limit[i] = to + 1;
}

// boundAll sets an upper bound of each subsequence's 1-rho, infinite without a known neighbour. The
// whole block calls it.
__device__ inline void boundAll(const Search &s) {
    const Work &w = s.w;
    for (int i = threadIdx.x; i < w.count; i += lanes) {
        const double inverse = w.inverse[i];
        if (!usual(inverse)) {
            const bool other = !w.excludeFlat && isApart(s.usuals, i, w.exclusion);
            w.distance[i] = !flat(inverse) ? -1 : isApart(s.flats, i, w.exclusion) ? 0 : other ? 1 : -1;
            w.limit[i] = compared;
            continue;
        }
        w.distance[i] = unknown;
        w.limit[i] = 0;
        int known = -1;
        for (int side = 0; side < 2; side++) {
            const Work &a = side == 0 ? s.below : s.above;
            if (i >= a.count || a.best[i] == none) continue;
            const int j = indexOf(a.best[i]);
            if (j != known) tryNear(w, i, j, known);
            known = j;
        }
    }
    __syncthreads();
}

// reach returns the bound of subsequence i, -1 where it has no distance.
__device__ __forceinline__ double reach(const Search &s, int i) {
    double d = s.w.distance[i];
    if (d > 1 && s.flats[1] >= 0 && !s.w.excludeFlat && isApart(s.flats, i, s.w.exclusion)) return 1;
    return d == unknown && s.w.limit[i] == compared ? -1 : d;
}

// farthest returns the first of the subsequences with the largest bound that overlap no discord found
// before; -1 for none. The whole block calls it.
__device__ inline int farthest(Search &s) {
    double value = -1;
    int place = -1;
    for (int i = threadIdx.x; i < s.w.count; i += lanes) {
        double v = reach(s, i);
        if (!(v > value)) continue;
        bool apart = true;
        for (int f = 0; f < s.found; f++) apart = apart && abs(i - s.picked[f]) >= s.w.m;
        if (apart) value = v, place = i;
    }
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
    for (int k = 0; k < lanes / 32; k++) take(s.value[k], s.place[k]);
    __syncthreads();
    return place;
}

// settle compares subsequence i with all others; each of them takes i as its neighbour where i is
// nearer. The whole block calls it.
__device__ inline void settle(Search &s, Slide &b, int i) {
    const Work &w = s.w;
    const double mean = w.mean[i], inverse = w.inverse[i];
    Best nearest = none;
    for (int from = 0; from < w.count; from += band) {
        double sum[diagonals], level;
#pragma unroll
        for (int d = 0; d < diagonals; d++) sum[d] = 0;
        slide(w, b, from, level, w.x + i, mean, inverse, [&](double v, const double(&next)[diagonals], int u) {
#pragma unroll
            for (int d = 0; d < diagonals; d++) sum[d] = fma(v, next[(u + d) & 7], sum[d]);
        });
#pragma unroll
        for (int d = 0; d < diagonals; d++) {
            const int o = from + threadIdx.x * diagonals + d;
            if (o >= w.count || abs(o - i) < w.exclusion || !usual(w.inverse[o])) continue;
            const double rho = sum[d] * w.inverse[o];
            nearest = min(nearest, nearer(rho, o));
            if (1 - rho < w.distance[o] && w.limit[o] < compared) w.distance[o] = 1 - rho, w.limit[o] = i + 1;
        }
    }
    for (int o = 16; o > 0; o >>= 1) nearest = min(nearest, __shfl_xor_sync(all, nearest, o));
    if ((threadIdx.x & 31) == 0) s.nearest[threadIdx.x >> 5] = nearest;
    __syncthreads();
    for (int k = 0; k < lanes / 32; k++) nearest = min(nearest, s.nearest[k]);
    const int j = nearest == none ? -1 : indexOf(nearest);
    if (threadIdx.x == 0) {
        w.distance[i] = j < 0 ? unknown : 1 - rhoOf(w, i, j);
        w.limit[i] = j + 1 | compared;
        if (j >= 0 && w.limit[j] == i + 1) w.distance[j] = w.distance[i];  // not with the rounding of the sums above
    }
    __syncthreads();
    // The neighbours of adjacent subsequences are mostly adjacent, too.
    for (int k = 0; j >= 0 && k < beside; k++) {
        const int off = k * lanes + static_cast<int>(threadIdx.x) - beside * lanes / 2, o = i + off, p = j + off;
        if (off == 0 || min(o, p) < 0 || max(o, p) >= w.count || !usual(w.inverse[o]) || w.limit[o] >= compared) continue;
        tryNear(w, o, p, -1);
    }
    __syncthreads();
}

// everything computes the neighbours of all subsequences of the length. The whole block calls it.
__device__ ODRADEK_SLOW void everything(Search &s, Block<double> &b) {
    __shared__ Extremes extremes;
    Work w = s.w;
    w.extremes = &extremes;
    __syncthreads();
    if (threadIdx.x == 0) extremes = Extremes();
    __syncthreads();
    const int end = (w.count + padding + lanes - 1) / lanes * lanes;
    for (int i = threadIdx.x; i < end; i += lanes) describe(w, i);
    __syncthreads();
    for (int i = threadIdx.x; i < end; i += lanes) step(w, i);
    __syncthreads();
    if (isSteep(extremes, anchorRows)) {
        if (threadIdx.x == 0) s.beyond = true;
        __syncthreads();
        return;
    }
    for (int first = w.exclusion; first < w.count; first += band) {
        for (int begin = 0; begin < w.count - first; begin += anchorRows) scan(w, b, begin, min(begin + anchorRows, w.count - first), first);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < w.count; i += lanes) {
        const Best best = w.best[i];
        if (!usual(w.inverse[i])) {
            const bool other = !w.excludeFlat && isApart(s.usuals, i, w.exclusion);
            w.distance[i] = !flat(w.inverse[i]) ? -1 : isApart(s.flats, i, w.exclusion) ? 0 : other ? 1 : -1;
            w.limit[i] = compared;
            continue;
        }
        w.distance[i] = best == none ? unknown : 1 - rhoOf(w, i, indexOf(best));
        w.limit[i] = best == none ? compared : indexOf(best) + 1;
    }
    __syncthreads();
}

// discordsOf writes the discords of the block's length.
__device__ inline void discordsOf(Search &s, unsigned char *memory, const Place &to) {
    __shared__ Extremes extremes;
    Slide &slide = *reinterpret_cast<Slide *>(memory);
    const Work &w = s.w;
    describeAll(s, slide);
    __syncthreads();
    if (s.beyond) return;
    if (threadIdx.x == 0) {
        extremes.first = s.flats[1] < 0 ? 0 : w.count - s.flats[0];
        extremes.last = s.flats[1] + 1;
        s.w.extremes = &extremes;
    }
    boundAll(s);
    const int most = 64 + 3 * w.n / (2 * w.m);  // costs as much as all pairs
    for (int settled = 0; s.found < to.p->top;) {
        const int i = farthest(s);
        if (i < 0) break;
        if (w.limit[i] < compared) {
            if (settled++ == most) everything(s, *reinterpret_cast<Block<double> *>(memory));
            else settle(s, slide, i);
            if (s.beyond) return;
            continue;
        }
        if (threadIdx.x < 32) {
            const int j = placeOf(w.limit[i]);
            if (threadIdx.x == 0) w.best[i] = j < 0 ? none : nearer(0, j);
            __syncwarp();
            finish(w, i);
            __syncwarp();
            if (threadIdx.x == 0) {
                to.write(s.length, s.found, {w.distance[i], i, indexOf(w.best[i])});
                s.picked[s.found++] = i;
            }
        }
        __syncthreads();
    }
}

// lengthsLong computes lengths of a task in a block, the longest first.
__device__ inline void lengthsLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    DYNAMIC_SHARED(unsigned char, memory);
    __shared__ Search s;
    const Lengths l = {tiles};
    const Place to = placeOf(tasks[tiles[0].first], f32, out);
    uint32_t *next = l.next(scratch);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            const int taken = static_cast<int>(atomicAdd(next, 1));
            s.length = next[1] > 0 ? -1 : to.p->lengths() - 1 - taken;
            if (s.length >= 0) {
                Tile own = {tiles[0].first, 0, static_cast<uint32_t>(s.length), tiles[1].scratch + blockIdx.x * tiles[1].count};
                s.w = longOf(tasks, own, f32, out, scratch);
                int k = 0;
                while (static_cast<int>(l.anchor(k + 1).part) < s.length) k++;
                s.below = longOf(tasks, l.anchor(k), f32, out, scratch);
                s.above = longOf(tasks, l.anchor(k + 1), f32, out, scratch);
                s.counts.missing = l.counts(scratch);
                s.counts.changes = s.counts.missing + s.w.n + 1;
                s.found = 0;
                s.flats[0] = s.usuals[0] = never;
                s.flats[1] = s.usuals[1] = -1;
                s.beyond = isSteep(*s.below.extremes, anchorRows) || isSteep(*s.above.extremes, anchorRows) ||
                           to.p->isSingle() && !(isSingle(*s.below.extremes) && isSingle(*s.above.extremes));
            }
        }
        __syncthreads();
        if (s.length < 0) return;
        clear(to, s.length, s.length + 1);
        __syncthreads();
        if (!s.beyond) discordsOf(s, memory, to);
        if (s.beyond && threadIdx.x == 0) atomicMax(next + 1, 1u);
    }
}

// leaveLong writes scores and carry of a task, or declines the task. One block calls it.
__device__ inline void leaveLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    const Lengths l = {tiles};
    const uint32_t first = tiles[0].first;
    if (l.next(scratch)[1] > 0) {
        if (threadIdx.x == 0) status[first] = statusLeft;
        return;
    }
    leave(placeOf(tasks[first], f32, out));
}

}  // namespace discords
