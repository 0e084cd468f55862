// Op LOF: windows of one coordinate and no virtual points, a block a window. See lof.cu.
#pragma once
#include "line.h"
#include "lof_points.h"

namespace lof {

// LineMemory is a block's dynamic shared memory for places = E*blockDim points, with the size of
// lineShape.bytes in cuda/plan/line.go.
struct LineMemory {
    double *values;  // the sort's spare memory, then k-distances, then densities
    line::Range *range;
    float *x;
    uint16_t *at;
    uint32_t *bits[2];  // positions whose density is needed, and those whose k-distance is

    __device__ explicit LineMemory(int places) {
        DYNAMIC_SHARED(double, lineMemory);
        values = lineMemory;
        range = reinterpret_cast<line::Range *>(values + places);
        x = reinterpret_cast<float *>(range + places);
        bits[0] = reinterpret_cast<uint32_t *>(x + places);
        bits[1] = bits[0] + places / 32;
        at = reinterpret_cast<uint16_t *>(bits[1] + places / 32);
    }
};

// onLine scores the tasks of a tile, one after the other.
template <int E> __device__ __forceinline__ void onLine(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    const Tile &tile = tiles[blockIdx.x];
    const int threads = blockDim.x, places = E * threads;
    LineMemory m(places);
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        __syncthreads();
        const Task &t = tasks[i];
        const LofParams &params = paramsOf<LofParams>(t, f32);
        int n = t.x.len, fresh = t.fresh;
        if (params.points > 0) n = min(n, max(params.points, fresh));
        int k = min(params.k, n - 1), oldest = n - fresh;
        float *scores = out + t.scores.off;
        bool finite = line::fill<E>(f32 + t.x.off + t.x.len - n, n, m.x, m.at, reinterpret_cast<line::Key *>(m.values));
        if (!finite || k < 1) {
            for (int f = threadIdx.x; f < fresh; f += threads) scores[f] = finite ? 1 : nan;
            continue;
        }
        const line::Points p = {m.x, m.at, n, k};
        // A few scores need the densities of the points' neighbours, and the k-distances of those
        // neighbours' neighbours; many scores need all.
        bool some = static_cast<long long>(fresh) * (k + 1) * 2 <= n;
        auto marked = [&](int which, int j) { return (m.bits[which][j >> 5] >> (j & 31) & 1) != 0; };
        if (some) {
            for (int w = threadIdx.x; w < places / 16; w += threads) m.bits[0][w] = 0;
            __syncthreads();
            for (int j = threadIdx.x; j < n; j += threads) {
                if (m.at[j] >= oldest) line::mark(p, line::near(p, j), m.bits[0]);
            }
            __syncthreads();
        }
        for (int j = threadIdx.x; j < n; j += threads) {
            if (some && !marked(0, j)) continue;
            line::Near r = line::near(p, j);
            m.values[j] = r.far, m.range[j] = line::rangeOf(r);
            if (some) line::mark(p, r, m.bits[1]);
        }
        __syncthreads();
        if (some) {
            for (int j = threadIdx.x; j < n; j += threads) {
                if (marked(1, j) && !marked(0, j)) m.values[j] = line::near(p, j).far;
            }
            __syncthreads();
        }
        double density[E];
        bool coincide = false;
#pragma unroll
        for (int r = 0; r < E; r++) {
            int j = r * threads + threadIdx.x;
            density[r] = 0;
            if (j < n && (!some || marked(0, j))) {
                double q = m.x[j];
                double sum = line::sumOf(p, line::nearOf(p, j, m.range[j]), j, [&](int o) { return fmax(m.values[o], fabs(m.x[o] - q)); });
                density[r] = sum == 0 ? -1 : densityOf(sum, k, params.floor, 0);
                coincide = coincide || sum == 0;
            }
        }
        if (__syncthreads_or(coincide)) {
            double floor = 0;
            if (params.floor == floorResolution) {
                const float *of = f32 + t.x.off + t.x.len - n;
                floor = resolutionOf(n, 1, [&](size_t e) { return of[e]; });
            }
#pragma unroll
            for (int r = 0; r < E; r++) {
                if (density[r] == -1) density[r] = densityOf(0, k, params.floor, floor);
            }
        }
#pragma unroll
        for (int r = 0; r < E; r++) {
            int j = r * threads + threadIdx.x;
            if (j < n && (!some || marked(0, j))) m.values[j] = density[r];
        }
        __syncthreads();
        for (int j = threadIdx.x; j < n; j += threads) {
            if (m.at[j] >= oldest) {
                double sum = line::sumOf(p, line::nearOf(p, j, m.range[j]), j, [&](int o) { return m.values[o]; });
                scores[m.at[j] - oldest] = scoreOf(sum, m.values[j], k);
            }
        }
    }
}

}  // namespace lof
