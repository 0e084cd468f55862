// Op KNN: all points of a window of some thousand, a block a window, by the search of op LOF. See
// knn.cu.
#pragma once
#include "knn_pick.h"
#include "lof_decide.h"

namespace knn {

// geometry returns the geometry of op LOF for a window without virtual points, k being the number of
// other points that are neighbours.
__device__ inline lof::Geometry geometry(const Task &t, const KnnParams &p) {
    lof::Geometry g;
    int m = p.embed;
    g.dim = t.dim * m;
    g.n = g.total = t.x.len / t.dim - m + 1;
    g.k = wantedOf(p, g.n - 1).others;
    int most = g.k > lof::smallK ? 256 : 64;
    g.log = 0;
    while (most << g.log < g.total) g.log++;
    int group = 1 << g.log, unit = max(group, 32);
    g.groups = (g.total + group - 1) / group;
    g.padded = (g.groups * group + unit - 1) / unit * unit;
    g.some = false;
    g.wide = g.k > lof::smallK || g.total <= 64 ? 32 : 64;
    return g;
}

__device__ inline int rounded(int bytes) { return (bytes + 15) & ~15; }

// carve lays out shared memory for a search, with the size of lofShape.searchBytes in cuda/plan/lof.go.
// It returns the offset after it.
__device__ inline int carve(const lof::Geometry &g, int dim, lof::Search &s) {
    int low = (g.padded >> g.log) * (g.wide + 16) * 4, within = g.wide * (g.padded / 32 | 1) * 4;
    int region = rounded(max(low, within));
    int bound = region + dim * g.wide * 4, place = bound + g.wide * 4, warps = place + g.wide * 2;
    if (threadIdx.x == 0) s.query = region, s.bound = bound, s.place = place, s.warps = warps, s.direct = 0;
    return warps + (blockDim.x >> 5) * static_cast<int>(g.k > lof::smallK ? sizeof(lof::Found<6>) : sizeof(lof::Found<2>));
}

// search is the search of op LOF for the neighbours of count places from first on.
template <int D> __device__ __forceinline__ void search(lof::Search &s, const float *columns, int first, int count) {
    const lof::Geometry &g = s.g;
    int wide = g.wide, rows = D ? D + lof::expands(D) : s.rows;
    uint16_t *places = lof::inShared<uint16_t>(s.place);
    float *query = lof::inShared<float>(s.query);
    for (int i = threadIdx.x; i < wide; i += blockDim.x) {
        int place = i < count ? first + i : 0;
        places[i] = static_cast<uint16_t>(place);
        for (int c = 0; c < (D ? D : g.dim); c++) query[c * wide + i] = -2 * columns[lof::cell(rows, place, c)];
    }
    bool direct = !lof::expands(D) || s.direct;
    __syncthreads();
    for (;;) {
        if (direct) lof::minima<D, false>(s, columns);
        else if constexpr (lof::expands(D)) lof::minima<D, true>(s, columns);
        __syncthreads();
        bool fine = D == 0 && g.k > lof::smallK ? lof::limitMany(s, columns, !direct) : lof::limit(s, columns, !direct);
        bool coarse = __syncthreads_or(!fine);
        if (!coarse) break;
        direct = true;
        if (threadIdx.x == 0) s.direct = 1;
    }
    if (direct) lof::mark<D, false>(s, columns);
    else if constexpr (lof::expands(D)) lof::mark<D, true>(s, columns);
    __syncthreads();
    for (int i = threadIdx.x >> 5; i < count; i += blockDim.x >> 5) {
        int place = places[i];
        if (columns[lof::cell(rows, place, 0)] == lof::away) continue;
        if (D == 0 && g.k > lof::smallK) lof::decide<D, 6>(s, columns, i, place, first + i);
        else lof::decide<D, 2>(s, columns, i, place, first + i);
    }
    __syncthreads();
}

// window scores the tasks of a tile, one after the other.
template <int D> __device__ __forceinline__ void window(const Task *tasks, const Tile *tiles, const float *f32, float *out, unsigned char *scratch) {
    __shared__ lof::Search s;
    const Tile &tile = tiles[blockIdx.x];
    int lane = threadIdx.x & 31;
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        __syncthreads();
        const Task &t = tasks[i];
        const KnnParams &p = paramsOf<KnnParams>(t, f32);
        lof::Geometry g = geometry(t, p);
        Wanted w = wantedOf(p, g.n - 1);
        constexpr int columnRows = D + lof::expands(D);
        int dim = D ? D : g.dim, rows = D ? columnRows : dim + 1;
        unsigned char *memory = scratch + static_cast<size_t>(tile.scratch) * 256;
        int chip = knn::carve(g, dim, s);
        float *columns = D ? lof::inShared<float>(chip) : reinterpret_cast<float *>(memory);
        if (!D) memory += static_cast<size_t>(g.padded) * rows * 4;
        double *kdist = reinterpret_cast<double *>(memory), *distance = kdist + g.padded;
        uint16_t *neighbour = reinterpret_cast<uint16_t *>(distance + g.wide * g.k);

        lof::Points points = {f32 + t.x.off, f32, g.n, g.dim, static_cast<int>(t.dim), g.dim / static_cast<int>(t.dim), false};
        lof::Filled filled = lof::fill(columns, dim, rows, g, points, 0, g.padded);
        if (filled.scale == 0 || g.k < 1) {
            bool spoilt = filled.scale == 0;
            for (int f = threadIdx.x >> 5; f < g.n; f += blockDim.x >> 5) {
                if (lane == 0) out[t.scores.off + f] = spoilt ? nan : weight(w, 0);
                if (w.listed) leave(out + t.detail.off + static_cast<size_t>(f) * w.k, w, spoilt, f, 0, 0, [](int) { return Bits(0); }, [](int) { return 0; });
            }
            continue;
        }
        if (threadIdx.x == 0) {
            s.g = g;
            s.points = points;
            s.rows = rows;
            s.filled = filled;
            s.to.kdist = kdist;
        }
        __syncthreads();
        for (int first = 0; first < g.padded; first += g.wide) {
            int count = min(g.wide, g.padded - first);
            // The lists of successive searches use the same memory.
            if (threadIdx.x == 0) {
                s.to.distance = distance - static_cast<ptrdiff_t>(first) * g.k;
                s.to.neighbour = neighbour - static_cast<ptrdiff_t>(first) * g.k;
            }
            knn::search<D>(s, columns, first, count);
            for (int f = threadIdx.x >> 5; f < count; f += blockDim.x >> 5) {
                int point = lof::pointAt(g, first + f);
                if (point >= g.n) continue;
                double *far = distance + f * g.k, sum = 0;
                const uint16_t *near = neighbour + f * g.k;
                for (int a = lane; a < g.k; a += 32) sum = __dadd_rn(sum, far[a]);
                sum = sumOf(sum);
                if (lane == 0) out[t.scores.off + point] = weight(w, sum);
                if (w.listed) {
                    for (int a = lane; a < g.k; a += 32) far[a] = lof::exact(s, columns, first + f, near[a]);
                    __syncwarp();
                    leave(out + t.detail.off + static_cast<size_t>(point) * w.k, w, false, point, g.k, ~Bits(0), [&](int a) { return bitsOf(far[a]); },
                          [&](int a) { return lof::pointAt(g, near[a]); });
                }
            }
        }
    }
}

}  // namespace knn
