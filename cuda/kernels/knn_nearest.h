// Op KNN: the weights of all points from an index of them. See knn.cu.
#pragma once
#include "knn_index.h"

namespace knn {

constexpr int nearestThreads = 128;

// Box has the least and the largest value of each coordinate.
template <int W> struct Box { float low[W], high[W]; };

template <int W> __device__ __forceinline__ Box<W> boxAt(const float *boxes, int i) {
    Box<W> b;
    const float4 *at = reinterpret_cast<const float4 *>(boxes) + static_cast<size_t>(i) * (W / 2);
    float4 f = at[0];
    if constexpr (W == 2) {
        b.low[0] = f.x, b.low[1] = f.y, b.high[0] = f.z, b.high[1] = f.w;
    } else {
        float4 g = at[1];
        b.low[0] = f.x, b.low[1] = f.y, b.low[2] = f.z, b.low[3] = f.w;
        b.high[0] = g.x, b.high[1] = g.y, b.high[2] = g.z, b.high[3] = g.w;
    }
    return b;
}

// The squares below are rounded like squares of two points, in the same order of coordinates, and
// rounding is monotone. So no square of two points is less than their boxes' or more than the one
// to the far corner, and the k least squares do not depend on the order of the search.

// apart returns the least square of points of two boxes; a point is also a box.
template <int W> __device__ __forceinline__ float apart(const float (&low)[W], const float (&high)[W], const Box<W> &b) {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < W; c++) {
        float d = fmaxf(fmaxf(b.low[c] - high[c], low[c] - b.high[c]), 0.f);
        sum = c == 0 ? d * d : fmaf(d, d, sum);
    }
    return sum;
}

// across returns the largest square of a point and one of a box.
template <int W> __device__ __forceinline__ float across(const float (&q)[W], const Box<W> &b) {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < W; c++) {
        float d = fmaxf(fabsf(b.low[c] - q[c]), fabsf(b.high[c] - q[c]));
        sum = c == 0 ? d * d : fmaf(d, d, sum);
    }
    return sum;
}

// insert inserts a square into the K least, which ascend.
template <int K> __device__ __forceinline__ void insert(float (&a)[K], float x) {
#pragma unroll
    for (int i = K - 1; i > 0; i--) a[i] = fminf(a[i], fmaxf(a[i - 1], x));
    a[0] = fminf(a[0], x);
}

// mostOfLanes returns the largest of the lanes' numbers, none of them negative.
__device__ __forceinline__ float mostOfLanes(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return __uint_as_float(largest(__float_as_uint(v)));
#else
    return __uint_as_float(__reduce_max_sync(full, __float_as_uint(v)));
#endif
}

// visit visits the points of a leaf; at is the place of this thread's own point in it, or -1.
template <int W, int K> __device__ __forceinline__ void visit(const Index &s, int leaf, int at, const float (&q)[W], float (&a)[K]) {
    const float4 *points = reinterpret_cast<const float4 *>(s.points) + static_cast<size_t>(leaf) * (leafPoints * W / 4);
#pragma unroll 1
    for (int first = 0; first < leafPoints; first += 4) {
        float d[4];
        float4 f[W];
#pragma unroll
        for (int i = 0; i < W; i++) f[i] = points[first * W / 4 + i];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if constexpr (W == 2) {
                float x = (i & 1 ? f[i / 2].z : f[i / 2].x) - q[0], y = (i & 1 ? f[i / 2].w : f[i / 2].y) - q[1];
                d[i] = fmaf(y, y, x * x);
            } else {
                float x = f[i].x - q[0], y = f[i].y - q[1], z = f[i].z - q[2], w = f[i].w - q[3];
                d[i] = fmaf(w, w, fmaf(z, z, fmaf(y, y, x * x)));
            }
            if (first + i == at) d[i] = infinite;
        }
        if (!__any_sync(full, fminf(fminf(d[0], d[1]), fminf(d[2], d[3])) < a[K - 1])) continue;
#pragma unroll 1
        for (int i = 0; i < 4; i++) {
            float v = i < 2 ? (i == 0 ? d[0] : d[1]) : (i == 2 ? d[2] : d[3]);
            if (__any_sync(full, v < a[K - 1])) insert(a, v);
        }
    }
}

constexpr int seeds = 2;     // leaves before and after a warp's own that it visits first
constexpr int crowded = 24;  // number of nodes near a warp's points from which it first searches for a better bound

// nearest takes one leaf after the other: a warp searches for its 32 points, which are close to each
// other.
template <int W, int K> __device__ __forceinline__ void nearest(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    __shared__ Index s;  // registers hold the squares
    if (threadIdx.x == 0) s = indexOf(tasks, tiles, f32, scratch);
    __syncthreads();
    if (s.header->spoilt) return;
    const int lane = threadIdx.x & 31;
    for (;;) {
        uint32_t next = 0;
        if (lane == 0) next = atomicAdd(&s.header->next, 1u);
        const int leaf = static_cast<int>(__shfl_sync(full, next, 0));
        if (leaf >= s.leaves) return;
        const int place = leaf * leafPoints + lane, last = min(place, s.n - 1);
        float q[W], a[K];
#pragma unroll
        for (int c = 0; c < W; c++) q[c] = s.points[static_cast<size_t>(last) * W + c];
        // The end of the list is the bound: numbers below all squares fill the unused entries.
#pragma unroll
        for (int i = 0; i < K; i++) a[i] = i < K - s.wanted.others ? -1 : infinite;
        const int from = max(0, leaf - seeds), to = min(s.leaves - 1, leaf + seeds);
#pragma unroll 1
        for (int i = 0; i <= 2 * seeds; i++) {  // its own, then those on both sides
            int l = leaf + (i & 1 ? -(i + 1) / 2 : i / 2);
            if (l >= from && l <= to) visit<W, K>(s, l, l == leaf ? lane : -1, q, a);
        }
        const Box<W> own = boxAt<W>(s.leafBox, leaf);
        float bound = mostOfLanes(a[K - 1]);
        int near = 0;
        for (int i = lane; i < s.nodes; i += 32) near += apart<W>(own.low, own.high, boxAt<W>(s.nodeBox, i)) < bound ? 1 : 0;
        if (sumOf(near) > crowded) {
            // Points that lie far from each other, such as the outliers of a set. The far corner of any
            // full node bounds the wanted number of points.
            float far = infinite;
#pragma unroll 1
            for (int i = 0; i < s.nodes - 1; i++) far = fminf(far, across<W>(q, boxAt<W>(s.nodeBox, i)));
            if (far < infinite) {
                far = __uint_as_float(__float_as_uint(far) + 1);
#pragma unroll
                for (int i = 0; i < K; i++) a[i] = fminf(a[i], far);
            }
            bound = mostOfLanes(a[K - 1]);
        }
#pragma unroll 1
        for (int base = 0; base < s.nodes; base += 32) {
            uint32_t nodes = __ballot_sync(full, base + lane < s.nodes && apart<W>(own.low, own.high, boxAt<W>(s.nodeBox, min(base + lane, s.nodes - 1))) < bound);
#pragma unroll 1
            while (nodes) {
                int node = base + __ffs(static_cast<int>(nodes)) - 1;
                nodes &= nodes - 1;
                if (!__any_sync(full, apart<W>(q, q, boxAt<W>(s.nodeBox, node)) < a[K - 1])) continue;
                bound = mostOfLanes(a[K - 1]);
                int l = node * nodeLeaves + lane;
                uint32_t leaves = __ballot_sync(full, l < s.leaves && (l < from || l > to) && apart<W>(own.low, own.high, boxAt<W>(s.leafBox, min(l, s.leaves - 1))) < bound);
#pragma unroll 1
                while (leaves) {
                    int other = node * nodeLeaves + __ffs(static_cast<int>(leaves)) - 1;
                    leaves &= leaves - 1;
                    if (__any_sync(full, apart<W>(q, q, boxAt<W>(s.leafBox, other)) < a[K - 1])) visit<W, K>(s, other, -1, q, a);
                }
            }
            bound = mostOfLanes(a[K - 1]);
        }
        if (place < s.n) {
            double sum = 0;
            bool small = false;
#pragma unroll
            for (int i = 0; i < K; i++) {
                small = small || (a[i] >= 0 && a[i] < 0x1p-120f);
                sum = __dadd_rn(sum, static_cast<double>(__fsqrt_rn(fmaxf(a[i], 0.f))));
            }
            // The loss of float32 in such small squares matters only to a small sum.
            if (s.header->tiny && small && sum < 0x1p-30) status[tiles[blockIdx.x].first] = statusLeft;
            out[s.task->scores.off + s.order[0][place]] = weight(s.wanted, __ddiv_rn(sum, static_cast<double>(s.header->scale)));
        }
        __syncwarp();
    }
}

}  // namespace knn
