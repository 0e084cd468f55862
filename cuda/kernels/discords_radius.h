// The discords of a long series by a radius. The discords of the window before were at least this far
// from their nearest neighbours, so this window's mostly are, too.
//
// The search is DRAG (Yankov, Keogh and Rebbapragada, ICDM 2007) in the order of PD3 (Zymbler and
// Kraeva, Mathematics 11, 2023): a segment of rows is compared with the subsequences to its right, band
// by band, until each of its candidates has a neighbour nearer than the radius, or 16 bands are done.
// The remaining candidates of all segments are compared with all subsequences on both sides. If these
// yield the wanted number of discords, each at least the radius from its nearest neighbour, they are
// the first discords, since all other subsequences have nearer neighbours. Otherwise the profile of the
// length is computed.
//
// With float32, all pairs are first compared in float32. These distances are upper bounds, so the
// radius is slightly less than the bound of their last discord, and the candidates are the subsequences
// with bounds of at least the radius. If the discords among them are at least as far, they are the
// first ones; otherwise the profile is computed in float64.
//
// Floor: three operations for each visited pair, a few hundredths of all pairs with a good radius, and
// for each segment and band its first row, a product a value.
#pragma once
#include "discords_long.h"

namespace discords {

constexpr int nearBands = 16;    // to the right of a segment, at most: more cost as much as they save
constexpr int leftShare = 16;    // up to one of this many segments is compared with everything
constexpr double slack = 0.99;   // of the distance of the window before
constexpr double rounding = 1e-9;  // of a radius that distances are compared with
constexpr double slackSingle = 1 - 0x1p-10;  // of the distance in float32

__device__ __forceinline__ double distanceOf(const uint32_t *words) {
    return __longlong_as_double(static_cast<long long>(static_cast<unsigned long long>(words[1]) << 32 | words[0]));
}

// Radius is the search radius of a length: a subsequence with a limit of enough or more has a neighbour
// nearer than distance.
struct Radius {
    double distance;
    int enough;  // never: there is no radius
    __device__ Radius(const Work &w, const Place &to, int length) {
        distance = greatestOf(w.extremes->radius);
        enough = never;
        if (to.radius != 0) {
            distance = (1 - 2 * rounding) * (to.radius > 0 ? to.radius : radiiOf(w).start);
            if (!(distance > 0)) return;
        } else if (distance == 0) {
            if (!to.carry) return;
            distance = slack * distanceOf(to.carry + length * to.carried());
        }
        const double rho = 1 - distance * distance / (2.0 * w.m);
        if (rho > 0x1p-10 && rho < 1 && !isSteep(*w.extremes, chunk)) enough = high(rho) + 1;
    }
};

__device__ __forceinline__ int segmentsOf(const Work &w) { return (w.count + chunk - 1) / chunk; }

// isSearched reports whether few enough candidates remain.
__device__ __forceinline__ bool isSearched(const Work &w, const Radius &r) {
    return r.enough != never && w.extremes->segments <= static_cast<unsigned>(segmentsOf(w) / leftShare + 8);
}

// candidatesLong sets the radius by the distances to the nearest neighbours in float32, and resets the
// search. Where the discords are known, or fewer exist than are wanted, the radius exceeds any
// distance, so that nothing is searched. One block calls it.
__device__ inline void candidatesLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    const Work w = longOf(tasks, tiles[0], f32, out, scratch);
    const Place to = placeOf(tasks[tiles[0].first], f32, out);
    const int length = tiles[0].part;
    const bool wanted = w.extremes->done == 0;
    if (wanted) clear(to, length, length + 1);
    __syncthreads();
    const bool found = wanted && pick(w, to, length, 0);
    if (threadIdx.x > 0) return;
    Extremes &e = *w.extremes;
    e.segments = e.taken = e.lost = 0;
    const double r = found ? slackSingle * distanceOf(to.discord(length, to.p->top - 1)) : largest;
    e.radius = static_cast<Best>(__double_as_longlong(r > 0 ? r : largest));
}

// markLong selects the candidates whose bounds are at least the radius.
__device__ inline void markLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const Work w = longOf(tasks, tiles[0], f32, out, scratch);
    if (w.extremes->done > 0 || i >= w.count || !usual(w.inverse[i])) return;
    const Radius r(w, placeOf(tasks[tiles[0].first], f32, out), tiles[0].part);
    w.limit[i] = w.distance[i] < r.distance ? r.enough : always;
    w.best[i] = none;
}

// nearLong compares a segment with the subsequences to its right and not far. For candidates of float32
// it only determines whether the segment has any.
__device__ inline void nearLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    DYNAMIC_SHARED(unsigned char, memory);
    __shared__ Work w;
    __shared__ int enough;
    if (threadIdx.x == 0) {
        w = longOf(tasks, tiles[0], f32, out, scratch);
        enough = Radius(w, placeOf(tasks[tiles[0].first], f32, out), tiles[0].part).enough;
    }
    __syncthreads();
    if (enough == never) return;
    const int begin = static_cast<int>(blockIdx.x) * chunk, mine = begin + static_cast<int>(threadIdx.x);
    auto left = [&] { return __syncthreads_or(mine < w.count && isLeft(w, mine, enough)); };
    const int bands = w.extremes->radius > 0 ? 0 : min(nearBands, (w.count - w.exclusion) / (3 * band) + 1);
    int any = left();
    for (int k = 0; any && k < bands; k++) {
        const int first = w.exclusion + k * band, end = min(begin + chunk, w.count - first);
        if (begin >= end) break;
        probe(w, *reinterpret_cast<Block<double> *>(memory), begin, end, first);
        any = left();
    }
    if (any && threadIdx.x == 0) reinterpret_cast<int *>(w.distance)[atomicAdd(&w.extremes->segments, 1u)] = static_cast<int>(blockIdx.x);
}

// restLong compares the remaining candidates with everything. Its blocks take one segment and band
// after the other.
__device__ inline void restLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    DYNAMIC_SHARED(unsigned char, memory);
    Block<double> &b = *reinterpret_cast<Block<double> *>(memory);
    __shared__ Work w;
    __shared__ int enough, item, segments;
    const int t = threadIdx.x;
    if (t == 0) {
        w = longOf(tasks, tiles[0], f32, out, scratch);
        const Radius r(w, placeOf(tasks[tiles[0].first], f32, out), tiles[0].part);
        enough = r.enough;
        segments = isSearched(w, r) ? w.extremes->segments : 0;
    }
    __syncthreads();
    const int heads = band / chunk + 1, each = w.count / band + 3 + heads;
    for (;;) {
        __syncthreads();
        if (t == 0) item = static_cast<int>(atomicAdd(&w.extremes->taken, 1u));
        __syncthreads();
        if (item >= segments * each) return;
        const int begin = reinterpret_cast<const int *>(w.distance)[item / each] * chunk, end = min(begin + chunk, w.count);
        if (!__syncthreads_or(begin + t < end && isLeft(w, begin + t, enough))) continue;
        const int right = max(0, (w.count - begin - w.exclusion + band - 1) / band);
        const int before = max(0, begin - w.exclusion) / band;  // whole bands, whose first row has a row before
        int k = item % each;
        if (k < right) {
            const int first = w.exclusion + k * band;
            scan<double, true>(w, b, begin, min(end, w.count - first), first, enough);
        } else if ((k -= right) < before) {
            scan<double, true>(w, b, begin, end, 1 - w.exclusion - (k + 1) * band, enough);
        } else if ((k -= before) < heads) {
            // The remaining subsequences of these bands, by their products.
            const int j = k * chunk + t;
            for (int i = begin; i < end; i++) {
                if (w.limit[i] >= enough || j > i - w.exclusion - before * band || j < 0 || !usual(w.inverse[j])) continue;
                double sum = 0;
                for (int q = 0; q < w.m; q++) sum = fma(w.x[i + q] - w.mean[i], w.x[j + q] - w.mean[j], sum);
                const double rho = sum * w.inverse[i] * w.inverse[j];
                if (!(rho > 0)) continue;
                atomicMin(w.best + i, nearer(rho, j));
                atomicMax(w.limit + i, limitOf(rho, 0.0));
            }
        }
    }
}

// amongLong sets the distances of the remaining candidates to their nearest neighbours, and 0 for the
// others.
__device__ inline void amongLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const Work w = longOf(tasks, tiles[0], f32, out, scratch);
    const Radius r(w, placeOf(tasks[tiles[0].first], f32, out), tiles[0].part);
    if (!isSearched(w, r) || i >= w.count) return;
    const bool mine = usual(w.inverse[i]);
    if (mine && w.limit[i] >= r.enough) {
        w.distance[i] = 0;
    } else {
        if (mine && w.best[i] == none) w.extremes->lost = 1;  // it has no neighbour
        finish(w, i);
    }
}

// chooseLong writes the length's discords, if they are among the remaining candidates. One block calls
// it.
__device__ inline void chooseLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    const Work w = longOf(tasks, tiles[0], f32, out, scratch);
    const Place to = placeOf(tasks[tiles[0].first], f32, out);
    const Radius r(w, to, tiles[0].part);
    if (!isSearched(w, r) || w.extremes->lost > 0) return;
    if (to.radius != 0) {  // all range discords are, with auto once the discords are that have to be
        const bool found = to.radius > 0 || pick(w, to.p->top, radiiOf(w).start, [](int, const Discord &) {});
        if (found && threadIdx.x == 0) w.extremes->done = 1;
        return;
    }
    clear(to, tiles[0].part, tiles[0].part + 1);
    __syncthreads();
    if (pick(w, to, tiles[0].part, r.distance) && threadIdx.x == 0) w.extremes->done = 1;
}

}  // namespace discords
