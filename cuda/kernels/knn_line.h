// Op KNN: points of one coordinate, without listed neighbours. See knn.cu.
#pragma once
#include "knn_pick.h"
#include "line.h"

namespace knn {

// onLine scores the windows of a tile in order, all points of each among all, from the sorted points.
// Distances are added in the order of the coordinates.
template <int E> __device__ __forceinline__ void onLine(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(double, lineMemory);
    const Tile &tile = tiles[blockIdx.x];
    const int threads = blockDim.x, places = E * threads;
    line::Key *spare = reinterpret_cast<line::Key *>(lineMemory);
    float *x = reinterpret_cast<float *>(spare + places);
    uint16_t *at = reinterpret_cast<uint16_t *>(x + places);
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        __syncthreads();
        const Task &t = tasks[i];
        int n = t.x.len;
        Wanted w = wantedOf(paramsOf<KnnParams>(t, f32), n - 1);
        float *scores = out + t.scores.off;
        bool finite = line::fill<E>(f32 + t.x.off, n, x, at, spare);
        if (!finite || w.others < 1) {
            float score = finite ? weight(w, 0) : nan;
            for (int f = threadIdx.x; f < n; f += threads) scores[f] = score;
            continue;
        }
        const line::Points p = {x, at, n, w.others};
        for (int j = threadIdx.x; j < n; j += threads) {
            double q = x[j];
            scores[at[j]] = weight(w, line::sumOf(p, line::near(p, j), j, [&](int o) { return fabs(x[o] - q); }));
        }
    }
}

// beforeLine is before for points of one coordinate: a warp ranks the distances in float32, whose order
// is float64's except for ties. Shared memory has a window's distances for each warp.
__device__ inline void beforeLine(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(float, lineDistances);
    const Tile &tile = tiles[blockIdx.x];
    int lane = threadIdx.x & 31;
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        __syncthreads();  // the warps' shares of the distances differ from the last task's
        const Task &t = tasks[i];
        const KnnParams &p = paramsOf<KnnParams>(t, f32);
        const float *x = f32 + t.x.off;
        int rows = t.x.len, fresh = t.fresh;
        float *near = lineDistances + (threadIdx.x >> 5) * max(min(p.points - 1, rows - 1), 1);
        for (int f = threadIdx.x >> 5; f < fresh; f += blockDim.x >> 5) {
            int at = rows - fresh + f, from = max(0, at + 1 - p.points), count = at - from;
            const float *first = x + from, own = x[at];
            auto distance = [&](int a) { return fabs(static_cast<double>(first[a]) - own); };
            bool spoilt = own - own != 0;
            for (int a = lane; a < count; a += 32) {
                float v = first[a];
                spoilt = spoilt || v - v != 0;
                near[a] = fabsf(v - own);
            }
            spoilt = __any_sync(full, spoilt);
            __syncwarp();
            Wanted w = wantedOf(p, count);
            double sum = 0;
            if (!spoilt && w.others > 0) {
                float last = __uint_as_float(rank<uint32_t>(count, w.others, 0, [&](int a) { return __float_as_uint(near[a]); }));
                double least = 0x1p200, most = 0;  // of those that tie with the last in float32
                int nearer = 0;
                for (int a = lane; a < count; a += 32) {
                    if (near[a] > last) continue;
                    double d = distance(a);
                    if (near[a] < last) {
                        nearer++;
                        sum = __dadd_rn(sum, d);
                    } else {
                        least = fmin(least, d), most = fmax(most, d);
                    }
                }
                nearer = sumOf(nearer), sum = sumOf(sum);
                most = doubleOf(largest(bitsOf(most)));
                least = doubleOf(~largest(~bitsOf(least)));
                int want = w.others - nearer;
                if (least == most) {
                    sum = __dadd_rn(sum, __dmul_rn(static_cast<double>(want), most));
                } else {
                    // float64 distinguishes them: the rank of the last among all.
                    double far = doubleOf(rank<Bits>(count, w.others, 0, [&](int a) { return bitsOf(distance(a)); }));
                    sum = 0, nearer = 0;
                    for (int a = lane; a < count; a += 32) {
                        double d = distance(a);
                        if (d < far) nearer++, sum = __dadd_rn(sum, d);
                    }
                    nearer = sumOf(nearer);
                    sum = __dadd_rn(sumOf(sum), __dmul_rn(static_cast<double>(w.others - nearer), far));
                }
            }
            if (lane == 0) out[t.scores.off + f] = spoilt ? nan : weight(w, sum);
            __syncwarp();
        }
    }
}

}  // namespace knn
