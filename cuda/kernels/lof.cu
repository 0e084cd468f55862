// Op LOF with virtual points: package detectors/lof has the definition. Results
// are the definition's but for rounding of sums: the neighbours of every point
// are decided in float64 from the original float32 coordinates, ties by index.
#include "lof_search.h"

#ifndef LOF_BLOCKS
#define LOF_BLOCKS 3
#endif
namespace lof {

// density sets the lrd of the point at a place from its list.
__device__ inline void density(const Geometry &g, const Store &to, bool strict, int place, int slot) {
    const uint16_t *neighbour = to.neighbour + static_cast<size_t>(slot) * g.k;
    const double *distance = to.distance + static_cast<size_t>(slot) * g.k;
    double sum = 0;
#pragma unroll 4
    for (int a = 0; a < g.k; a++) sum = __dadd_rn(sum, fmax(to.kdist[neighbour[a]], distance[a]));
    double mean = sum / g.k;
    to.lrd[place] = 1 / (strict ? mean : mean + 1e-10);
}

// factor is the score of the point at a place.
__device__ inline float factor(const Geometry &g, const Store &to, int place, int slot) {
    const uint16_t *neighbour = to.neighbour + static_cast<size_t>(slot) * g.k;
    double sum = 0;
#pragma unroll 4
    for (int a = 0; a < g.k; a++) sum = __dadd_rn(sum, to.lrd[neighbour[a]]);
    double lrd = to.lrd[place];
    if (lrd == __longlong_as_double(0x7ff0000000000000)) return 1;
    double score = sum / g.k / lrd, most = 3.40282346638528859811704183484516925e+38;
    return static_cast<float>(score > most ? most : score);
}

// middle is the lower median of count doubles, 0 or above; the block calls it.
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

// virtualDensities sets the lrd of the virtual points; the block calls it, and
// meets after it. False: a count for the CPU.
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

// even sets all scores of a task where they are one number; the block calls it.
__device__ inline void even(const Task &t, float *out, float score) {
    for (int i = threadIdx.x; i < static_cast<int>(t.fresh); i += blockDim.x) out[t.scores.off + i] = score;
}

constexpr float nan = __builtin_nanf("");
constexpr int onChip = 1024;  // places up to here have k-distances and densities in shared memory

__device__ inline int rounded(int bytes) { return (bytes + 15) & ~15; }

// carve lays out shared memory for a search, as searchBytes in cuda/lof.go sizes
// it; it returns the offset of what is behind.
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
        const float *p = f32 + t.params.off;
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
        uint32_t *known = inShared<uint32_t>(chip);                   // a bit a place: listed in order
        uint16_t *order = inShared<uint16_t>(chip + g.padded / 8);  // places to search from

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
        // All places in one round; or the fresh points, then their neighbours, which
        // have lists, then the neighbours of all of these.
        int lists = count;
        for (int from = 0, round = 0; round < (g.some ? 3 : 1); round++) {
            int end = count;
            __syncthreads();  // before any thread counts on
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
        bool strict = p[paramStrict] != 0;
        for (int a = threadIdx.x; a < lists; a += blockDim.x) {
            int place = g.some ? order[a] : a;
            if (pointAt(g, place) < g.n) density(g, to, strict, place, a);
        }
        __syncthreads();
        if (g.total > g.n) {
            if (!virtualDensities(g, to, f32 + t.bins.off + (g.total - g.n) * g.dim, p[paramAlpha])) {
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

constexpr int partPlaces = 128;  // places a block of a large window works for
constexpr int loadParts = 8;     // parts that a block loads: it reads all points for their size

// Part is a block's share of a large window.
struct Part {
    const Task *task;
    const float *params;
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
    part.params = f32 + part.task->params.off;
    Geometry &g = part.g;
    g = geometry(*part.task, part.params);
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

// loadPart is for the first block of every loadParts.
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
    for (int place = part.from + threadIdx.x; place < part.to; place += blockDim.x) {
        if (pointAt(part.g, place) < part.g.n) density(part.g, part.store, part.params[paramStrict] != 0, place, place);
    }
}

// virtualPart is work for the first block of a task.
__device__ inline void virtualPart(const Task *tasks, const Tile *tiles, const float *f32, uint32_t *status, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    const Geometry &g = part.g;
    if (part.from != 0 || part.filled->scale <= 0) return;
    bool usual = virtualDensities(g, part.store, part.points.virtuals + static_cast<size_t>(g.total - g.n) * g.dim, part.params[paramAlpha]);
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

// A whole task in a block: the points in shared memory (resident, D numbers
// each, those above a task's dim 0) or in scratch (D = 0: as many as the task
// has).

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                uint32_t *status, unsigned char *scratch) {
    lof::window<0>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window_1(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<1>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window_2(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<2>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window_4(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<4>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window_8(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<8>(tasks, tiles, f32, out, status, scratch);
}

// Large windows, all of whose points are searched from: a launch each for the
// points, the neighbours, the densities and the scores, several blocks a task.
// The tile's part says which of them a block is; scratch is the task's.

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_load(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                              uint32_t *status, unsigned char *scratch) {
    lof::loadPart(tasks, tiles, f32, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_search(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                uint32_t *status, unsigned char *scratch) {
    lof::searchPart<0>(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_search_8(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::searchPart<8>(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_density(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                 uint32_t *status, unsigned char *scratch) {
    lof::densityPart(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_virtual(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                 uint32_t *status, unsigned char *scratch) {
    lof::virtualPart(tasks, tiles, f32, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_score(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                               uint32_t *status, unsigned char *scratch) {
    lof::scorePart(tasks, tiles, f32, out, scratch);
}
