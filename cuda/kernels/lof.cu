// Op LOF with virtual points: package detectors/lof has the definition.
//
// Results are the definition's up to the rounding of distances and sums: the neighbours of every point
// are as in float64, ties by index. The result of a point is the same to the bit, regardless of the
// points that are scored with it.
//
// A window's points lie in tiles of 32 places (lof_points.h). A block searches for 64 (or 32) queries
// at a time, four a thread, whose lanes share the places (lof_search.h):
//
//  1. minima: squared distances to all places, reduced to the minima of 64 groups of
//     places.
//  2. limit: two threads sort a query's minima in registers. At least k+1 points
//     (including the query) are within the k+1st; that and the rounding errors bound the
//     neighbours: about 1.2 k places are within, regardless of the number of points.
//  3. mark: the distances again; a bit for each place within the bound, which is the
//     sign of distance - bound, one shift a pair.
//  4. decide: a warp lists a query's bits, computes these distances without
//     cancellation, and drops the farthest one by one. Where float32 does not
//     distinguish the k-th from the k+1st, where there are many, or where a distance is
//     tiny, float64 and the points' order in time decide. Points that coincide with k
//     others, common in tied data, take the first of these.
//
// The distances of 1 and 3 are |y|^2 - 2xy, half the arithmetic of the sum of (x-y)^2, where the error
// by the largest norm is under 1/64 of every query's bound; otherwise, for the rest of the block, they
// are the sum (coinciding points, far outliers). Then densities and scores, a thread a point, in
// float64.
//
// Scores of a few fresh points need only their neighbours' lists and the k-distances of the neighbours
// in these: 100 to 400 searches instead of 1,024 for one score.
//
// Points of one coordinate without virtual ones are sorted instead (line.h): a point's neighbours lie
// beside it, and densities and scores are sums over k places each. A few scores need the densities and
// k-distances of a few places only, after the same sort.
//
// Sets of more than 4,096 points without virtual ones are searched by op KNN's kernels, which leave the k
// nearest of each point in scratch memory (lof_set.h): 100,000 x 16 with k=20 take 18.6 ms on an H200, where
// the weights take 17.8.
//
// Floor of a point of n=1024 d=1 k=20, in clocks of a multiprocessor: sort (55 exchanges, 25 of them by
// two shuffles) 3.7, two sums of 21 numbers in shared memory 3.3, in float64 1.6; 8 bytes of device
// memory 0.5. Measured on an H200: 13 clocks, 20.0e9 points a second (all pairs: 0.91e9), and 9.9e9 of
// a recording with many ties; 6.2e9 when each sum searched for the ranges of its neighbours again.
//
// Floor, n=1024 d=8 k=20 on an H200 (33.5e12 FMA/s): 2 x 8 FMA a pair, 0.50 us a
// window; with the minimum, the subtraction and the shift 19 instructions, 0.60 us.
//
// Measured there, kernels alone, 128 MB of windows, nvcc 13.0 (11.8: 4 to 6 %
// slower), us a window:
//
//	                                              1024x8   4096x8   1024x8, one score
//	sum of (x-y)^2 in 1 and 3, float64 in 4         3.03     33.8     0.63
//	float32 first in 4, |y|^2 - 2xy, offsets        1.97     21.4     0.44
//	  into shared memory instead of pointers
//	padding told by a coordinate                    1.90     21.3     0.43
//
// 1.90 us are 539 M points/s, 31 % of the floor's rate: 38 instructions a pair at 61 %
// of the issue slots. Two blocks of 128 registers a thread instead of three of
// 80 were 3 % slower. By samples: 1 and 3 take 35 %, 4 a third, barriers at the end
// of a batch of queries 10 %. Ties (three values, d=1) took 8.1 us before spots were
// special, 1.1 after.
#include "lof_decide.h"
#include "lof_line.h"
#include "lof_set.h"

namespace lof {

// search finds the neighbours of count queries, at most g.wide: the places from first on, or those in a
// list. Their lists go to slots from first on, where lists is set. The whole block calls it.
template <int D> __device__ __forceinline__ void search(Search &s, const float *columns, const uint16_t *from, int first, int count, bool lists) {
    const Geometry &g = s.g;
    int wide = g.wide, rows = D ? D + expands(D) : s.rows;
    uint16_t *places = inShared<uint16_t>(s.place);
    float *query = inShared<float>(s.query);
    for (int i = threadIdx.x; i < wide; i += blockDim.x) {
        int place = i < count ? (from ? from[first + i] : first + i) : 0;
        places[i] = static_cast<uint16_t>(place);
        for (int c = 0; c < (D ? D : g.dim); c++) query[c * wide + i] = -2 * columns[cell(rows, place, c)];
    }
    bool direct = !expands(D) || s.direct;
    __syncthreads();
    for (;;) {
        if (direct) minima<D, false>(s, columns);
        else if constexpr (expands(D)) minima<D, true>(s, columns);
        __syncthreads();
        bool fine = D == 0 && g.k > smallK ? limitMany(s, columns, !direct) : limit(s, columns, !direct);
        bool coarse = __syncthreads_or(!fine);
        if (!coarse) break;
        direct = true;
        if (threadIdx.x == 0) s.direct = 1;
    }
    if (direct) mark<D, false>(s, columns);
    else if constexpr (expands(D)) mark<D, true>(s, columns);
    __syncthreads();
    for (int i = threadIdx.x >> 5; i < count; i += blockDim.x >> 5) {
        int place = places[i];
        if (columns[cell(rows, place, 0)] == away) continue;
        int slot = lists ? first + i : -1;
        if (D == 0 && g.k > smallK) decide<D, 6>(s, columns, i, place, slot);
        else decide<D, 2>(s, columns, i, place, slot);
    }
    __syncthreads();
}

// density computes the lrd of the point at a place from its list. It reports whether the point coincides
// with its neighbours, so that the floor decides.
__device__ inline bool density(const Geometry &g, const Store &to, int kind, double floor, int place, int slot) {
    const uint16_t *neighbour = to.neighbour + static_cast<size_t>(slot) * g.k;
    const double *distance = to.distance + static_cast<size_t>(slot) * g.k;
    double sum = 0;
#pragma unroll 4
    for (int a = 0; a < g.k; a++) sum = __dadd_rn(sum, fmax(to.kdist[neighbour[a]], distance[a]));
    to.lrd[place] = densityOf(sum, g.k, kind, floor);
    return sum == 0;
}

// densities computes the lrd of the points whose lists are at slots from one to another, a step apart. The
// resolution is computed where points coincide. The whole block calls it; it contains barriers.
template <class PlaceOf>
__device__ __forceinline__ void densities(const Geometry &g, const Store &to, const Points &points, int kind, int from, int end, PlaceOf placeAt) {
    bool coincide = false;
    for (int a = from + threadIdx.x; a < end; a += blockDim.x) {
        int place = placeAt(a);
        if (pointAt(g, place) < g.n) coincide = density(g, to, kind, 0, place, a) || coincide;
    }
    if (!__syncthreads_or(coincide) || kind != floorResolution) return;
    double floor = resolutionOf(points);
    for (int a = from + threadIdx.x; a < end; a += blockDim.x) {
        int place = placeAt(a);
        if (pointAt(g, place) < g.n) density(g, to, kind, floor, place, a);
    }
}

// factor returns the score of the point at a place.
__device__ inline float factor(const Geometry &g, const Store &to, int place, int slot) {
    const uint16_t *neighbour = to.neighbour + static_cast<size_t>(slot) * g.k;
    double sum = 0;
#pragma unroll 4
    for (int a = 0; a < g.k; a++) sum = __dadd_rn(sum, to.lrd[neighbour[a]]);
    return scoreOf(sum, to.lrd[place], g.k);
}

// middle returns the lower median of count doubles, 0 or above. The whole block calls it.
template <class At> __device__ inline double middle(int count, At at) {
    __shared__ int below;
    unsigned long long t = 0;
    for (int bit = 62; bit >= 0; bit--) {
        unsigned long long more = t | 1ull << bit;
        if (threadIdx.x == 0) below = 0;
        __syncthreads();
        int mine = 0;
        for (int i = threadIdx.x; i < count; i += blockDim.x) mine += static_cast<unsigned long long>(__double_as_longlong(at(i))) < more;
        for (int o = 16; o > 0; o >>= 1) mine += __shfl_xor_sync(all, mine, o);
        if ((threadIdx.x & 31) == 0 && mine > 0) atomicAdd(&below, mine);
        __syncthreads();
        if (below <= (count - 1) / 2) t = more;
        __syncthreads();
    }
    return __longlong_as_double(static_cast<long long>(t));
}

// virtualDensities computes the lrd of the virtual points. It returns false for a count that the CPU
// has to handle. The whole block calls it, with a barrier after it.
__device__ inline bool virtualDensities(const Geometry &g, const Store &to, const float *counts, double alpha) {
    int virtuals = g.total - g.n;
    bool usual = true;
    for (int i = threadIdx.x; i < virtuals; i += blockDim.x) usual = usual && counts[i] >= 0 && counts[i] < infinity;
    if (__syncthreads_or(!usual)) return false;
    double a = alpha;
    if (alpha == 0) {
        a = middle(g.n, [&](int i) { return to.lrd[placeOf(g, i)]; });
        double logs = log1p(middle(virtuals, [&](int i) { return static_cast<double>(counts[i]); }));
        if (logs > 0) a /= logs;
    }
    for (int i = threadIdx.x; i < virtuals; i += blockDim.x) {
        double c = counts[i];
        to.lrd[placeOf(g, g.n + i)] = a * (alpha > 0 ? fmax(log(c), 0.0) : log1p(c));
    }
    return true;
}

// even sets all scores of a task to one number. The whole block calls it.
__device__ inline void even(const Task &t, float *out, float score) {
    for (int i = threadIdx.x; i < static_cast<int>(t.fresh); i += blockDim.x) out[t.scores.off + i] = score;
}

constexpr int onChip = 1024;  // up to this number of places, k-distances and densities are in shared memory

__device__ inline int rounded(int bytes) { return (bytes + 15) & ~15; }

// carve lays out shared memory for a search, with the size of searchBytes in cuda/plan/lof.go. It
// returns the offset after it.
__device__ inline int carve(const Geometry &g, int dim, Search &s) {
    int low = (g.padded >> g.log) * (g.wide + 16) * 4, within = g.wide * (g.padded / 32 | 1) * 4;
    int region = rounded(max(max(low, within), g.padded <= onChip ? g.padded * 8 : 0));
    int bound = region + dim * g.wide * 4, place = bound + g.wide * 4, warps = place + g.wide * 2;
    if (threadIdx.x == 0) s.query = region, s.bound = bound, s.place = place, s.warps = warps, s.direct = 0;
    return warps + (blockDim.x >> 5) * (g.k > smallK ? sizeof(Found<6>) : sizeof(Found<2>));
}

// window scores the tasks of a tile, one after the other.
template <int D> __device__ __forceinline__ void window(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status,
                                                        unsigned char *scratch) {
    __shared__ Search s;
    __shared__ int count;
    const Tile &tile = tiles[blockIdx.x];
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        __syncthreads();
        const Task &t = tasks[i];
        const LofParams &p = paramsOf<LofParams>(t, f32);
        Geometry g = geometry(t, p);
        int fresh = t.fresh, slots = g.some ? fresh * (g.k + 1) : g.padded;
        constexpr int columnRows = D + expands(D);
        int dim = D ? D : g.dim, rows = D ? columnRows : dim + 1;
        unsigned char *memory = scratch + static_cast<size_t>(tile.scratch) * 256;
        int chip = carve(g, dim, s);
        float *columns = D ? inShared<float>(chip) : reinterpret_cast<float *>(memory);
        if (D) chip += g.padded * rows * 4;
        else memory += static_cast<size_t>(g.padded) * rows * 4;
        Store to;
        to.lrd = inShared<double>(0);  // over the minima
        to.kdist = inShared<double>(chip);
        if (g.padded <= onChip) {
            chip += g.padded * 8;
        } else {
            to.lrd = reinterpret_cast<double *>(memory);
            to.kdist = to.lrd + g.padded;
            memory += g.padded * 16;
        }
        to.distance = reinterpret_cast<double *>(memory);
        to.neighbour = reinterpret_cast<uint16_t *>(memory + static_cast<size_t>(slots) * g.k * 8);
        uint32_t *known = inShared<uint32_t>(chip);                   // a bit for each place that is listed in order
        uint16_t *order = inShared<uint16_t>(chip + g.padded / 8);  // places to search for

        Filled filled = fill(columns, dim, rows, g, pointsOf(t, g, f32), 0, g.padded);
        if (filled.scale <= 0) {
            if (filled.scale == 0) even(t, out, nan);
            else if (threadIdx.x == 0) status[i] = 1;
            continue;
        }
        if (g.k < 1) {
            even(t, out, 1);
            continue;
        }
        if (threadIdx.x == 0) {
            s.g = g;
            s.points = pointsOf(t, g, f32);
            s.rows = rows;
            s.filled = filled;
            s.to = to;
            count = g.some ? fresh : g.padded;
        }
        if (g.some) {
            for (int a = threadIdx.x; a < g.padded / 32; a += blockDim.x) known[a] = 0;
            __syncthreads();
            for (int f = threadIdx.x; f < fresh; f += blockDim.x) {
                int place = placeOf(g, g.n - fresh + f);
                order[f] = static_cast<uint16_t>(place);
                atomicOr(known + place / 32, 1u << (place & 31));
            }
        }
        __syncthreads();
        // All places in one round; or the fresh points, then their neighbours, which have lists, then
        // the neighbours of all of these.
        int lists = count;
        for (int from = 0, round = 0; round < (g.some ? 3 : 1); round++) {
            int end = count;
            __syncthreads();  // before any thread continues the count
            if (round == 1) lists = end;
            for (int first = from; first < end; first += g.wide) search<D>(s, columns, g.some ? order : nullptr, first, min(g.wide, end - first), round < 2);
            if (g.some && round < 2) {
                for (int e = threadIdx.x; e < end * g.k; e += blockDim.x) {
                    int place = to.neighbour[e];
                    if (round == 0 && pointAt(g, place) >= g.n) continue;
                    uint32_t bit = 1u << (place & 31);
                    if (!(atomicOr(known + place / 32, bit) & bit)) order[atomicAdd(&count, 1)] = static_cast<uint16_t>(place);
                }
                __syncthreads();
            }
            from = end;
        }
        densities(g, to, s.points, p.floor, 0, lists, [&](int a) { return g.some ? static_cast<int>(order[a]) : a; });
        __syncthreads();
        if (g.total > g.n) {
            if (!virtualDensities(g, to, f32 + t.bins.off + (g.total - g.n) * g.dim, p.alpha)) {
                if (threadIdx.x == 0) status[i] = 1;
                continue;
            }
            __syncthreads();
        }
        for (int f = threadIdx.x; f < fresh; f += blockDim.x) {
            int place = placeOf(g, g.n - fresh + f);
            out[t.scores.off + f] = factor(g, to, place, g.some ? f : place);
        }
    }
}

constexpr int partPlaces = 128;  // places of a large window that a block computes
constexpr int loadParts = 8;     // parts that a block loads: it reads all points to find the largest number

// Part is a block's share of a large window.
struct Part {
    const Task *task;
    const LofParams *params;
    Geometry g;
    Points points;
    Store store;
    Filled *filled;  // begins the scratch
    float *columns;
    int from, to;
};

__device__ inline Part partOf(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    const Tile &tile = tiles[blockIdx.x];
    Part part;
    part.task = tasks + tile.first;
    part.params = &paramsOf<LofParams>(*part.task, f32);
    Geometry &g = part.g;
    g = geometry(*part.task, *part.params);
    part.points = pointsOf(*part.task, g, f32);
    unsigned char *memory = scratch + static_cast<size_t>(tile.scratch) * 256;
    part.filled = reinterpret_cast<Filled *>(memory);
    part.columns = reinterpret_cast<float *>(memory + 256);
    part.store.lrd = reinterpret_cast<double *>(part.columns + static_cast<size_t>(g.padded) * (g.dim + 1));
    part.store.kdist = part.store.lrd + g.padded;
    part.store.distance = part.store.kdist + g.padded;
    part.store.neighbour = reinterpret_cast<uint16_t *>(part.store.distance + static_cast<size_t>(g.padded) * g.k);
    part.from = tile.part * partPlaces;
    part.to = min(part.from + partPlaces, g.padded);
    return part;
}

// loadPart is the work of the first block of every loadParts.
__device__ inline void loadPart(const Task *tasks, const Tile *tiles, const float *f32, uint32_t *status, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    if (part.from % (loadParts * partPlaces) != 0) return;
    int to = min(part.from + loadParts * partPlaces, part.g.padded);
    Filled filled = fill(part.columns, part.g.dim, part.g.dim + 1, part.g, part.points, part.from, to);
    if (part.from == 0 && threadIdx.x == 0) {
        *part.filled = filled;
        if (filled.scale < 0) status[tiles[blockIdx.x].first] = 1;
    }
}

template <int D> __device__ __forceinline__ void searchPart(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    __shared__ Search s;
    if (part.filled->scale <= 0) return;
    carve(part.g, part.g.dim, s);
    if (threadIdx.x == 0) {
        s.g = part.g;
        s.points = part.points;
        s.rows = part.g.dim + 1;
        s.filled = *part.filled;
        s.to = part.store;
    }
    __syncthreads();
    int wide = part.g.wide;
    for (int first = part.from; first < part.to; first += wide) search<D>(s, part.columns, nullptr, first, min(wide, part.to - first), true);
}

__device__ inline void densityPart(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    if (part.filled->scale <= 0) return;
    densities(part.g, part.store, part.points, part.params->floor, part.from, part.to, [](int place) { return place; });
}

// virtualPart is the work of the first block of a task.
__device__ inline void virtualPart(const Task *tasks, const Tile *tiles, const float *f32, uint32_t *status, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    const Geometry &g = part.g;
    if (part.from != 0 || part.filled->scale <= 0) return;
    bool usual = virtualDensities(g, part.store, part.points.virtuals + static_cast<size_t>(g.total - g.n) * g.dim, part.params->alpha);
    if (!usual && threadIdx.x == 0) status[tiles[blockIdx.x].first] = 1;
}

__device__ inline void scorePart(const Task *tasks, const Tile *tiles, const float *f32, float *out, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    const Geometry &g = part.g;
    const Task &t = *part.task;
    if (part.filled->scale < 0) return;
    int first = g.n - static_cast<int>(t.fresh);
    for (int place = part.from + threadIdx.x; place < part.to; place += blockDim.x) {
        int i = pointAt(g, place);
        if (i < first || i >= g.n) continue;
        out[t.scores.off + i - first] = part.filled->scale == 0 ? nan : factor(g, part.store, place, place);
    }
}

}  // namespace lof

// A whole task in a block: the points in shared memory (1 to 8 numbers each, padded with zeros), or in
// scratch memory, with the task's numbers.

extern "C" __global__ void __launch_bounds__(256, 3) lof_window(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                uint32_t *status, unsigned char *scratch) {
    lof::window<0>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_window_1(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<1>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_window_2(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<2>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_window_4(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<4>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_window_8(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<8>(tasks, tiles, f32, out, status, scratch);
}

// Large windows, with all points searched for: a launch each for the points, the neighbours, the
// densities and the scores, several blocks a task. The tile's part is the block's number among these;
// scratch is the task's.

extern "C" __global__ void __launch_bounds__(256, 3) lof_load(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                              uint32_t *status, unsigned char *scratch) {
    lof::loadPart(tasks, tiles, f32, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_search(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                uint32_t *status, unsigned char *scratch) {
    lof::searchPart<0>(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_search_8(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::searchPart<8>(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_density(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                 uint32_t *status, unsigned char *scratch) {
    lof::densityPart(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_virtual(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                 uint32_t *status, unsigned char *scratch) {
    lof::virtualPart(tasks, tiles, f32, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, 3) lof_score(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                               uint32_t *status, unsigned char *scratch) {
    lof::scorePart(tasks, tiles, f32, out, scratch);
}

// Sets of more points than these, after the kernels of op KNN have searched them (knn_scan.h).

extern "C" __global__ void __launch_bounds__(256) lof_set_density(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    const Task &t = tasks[tiles[blockIdx.x].first];
    lof::densities(knn::setOf(tasks, tiles, f32, scratch), paramsOf<LofParams>(t, f32).floor);
}

extern "C" __global__ void __launch_bounds__(256) lof_set_score(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                uint32_t *status, unsigned char *scratch) {
    lof::factors(knn::setOf(tasks, tiles, f32, scratch), out);
}

// Windows of one coordinate, sorted; the number of points a thread varies.

#define LINE(name, E, threads)                                                                                               \
    extern "C" __global__ void __launch_bounds__(threads, 1024 / threads) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                               uint32_t *status, unsigned char *scratch) {                   \
        lof::onLine<E>(tasks, tiles, f32, out);                                                                                 \
    }

LINE(lof_line_1, 1, 32)
LINE(lof_line_2, 2, 32)
LINE(lof_line_4, 4, 32)
LINE(lof_line_8, 8, 512)
