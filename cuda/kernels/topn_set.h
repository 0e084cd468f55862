// Op topn: a set of points and its memory. See topn.cu.
#pragma once
#include "knn_index.h"
#include "topn_params.h"

namespace topn {

using knn::full;
using knn::infinite;

constexpr int leafPoints = knn::leafPoints, nodeLeaves = knn::nodeLeaves;
constexpr int most = 64;         // numbers a point, at most
constexpr int samplesOfAxis = knn::samplesOfAxis;
constexpr int othersMost = 128;  // neighbours, at most
constexpr int threads = 128;     // of the blocks that search and count
constexpr int firstPoints = 512;   // searched for before there is a cut
constexpr int strongPoints = 512;  // searched for first of those that may be among the largest
constexpr int strongMost = 1024;

// Header begins the scratch.
struct Header {
    knn::IndexHeader index;
    uint32_t next;      // next item of the present launch
    uint32_t alive;     // points that may be among the largest
    uint32_t strong;    // of them, in a list of their own
    uint32_t found;     // weights
    uint32_t phase;     // steps taken
    float near;         // square: a point with as many others within it is not among the largest; below 0 there is none
    double cut;         // the least of the largest weights found so far, -1 before there are as many
    uint32_t peak, least;               // of the sizes of all numbers, as bits: the largest, and the complement of the least but 0
    uint32_t high[most], low[most];     // of the values of a row, as ordered bits; low is the complement
    uint32_t counts[othersMost + 1];    // points alive by the number of others within near
};

static_assert(sizeof(Header) == 1096, "topnHeader in cuda/plan/topn.go");

// Set is a set as determined by a task's shape and its tile, as topnShape in cuda/plan/topn.go. Places are in
// the order of the sort: 32 successive places are a leaf, 32 successive leaves a node.
struct Set {
    const Task *task;
    const float *x;             // the first point's
    int n, row, width, wide;    // points; numbers of a row, of a point, and of a place
    int fresh;                  // points with a score, the last
    int k, self, others, top;
    int leaves, nodes, blocks, block;
    Header *header;
    knn::Index index;           // of the sort
    float *samples;             // [row][samplesOfAxis], ascending
    const uint32_t *order;      // by place: the point
    float *points;              // by place: coordinates, padded with zeros
    float *leafBox, *nodeBox;   // least coordinates, then most
    unsigned char *done;        // by place: 1 for a point that was searched for
    uint32_t *alive;            // place and, << 22, others within near
    uint32_t *strong;           // places
    double *weights;            // found
    uint32_t *of;               // their points
};

// wideOf returns the numbers of a place for a point of width numbers.
__device__ inline int wideOf(int width) {
    return width <= 2 ? 2 : width <= 12 ? (width + 3) / 4 * 4 : width <= 16 ? 16 : width <= 32 ? 32 : 64;
}

// setOf reads a tile: its part is the block, and, << 16, the number of the task's blocks.
__device__ inline Set setOf(const Task *tasks, const Tile &tile, const float *f32, unsigned char *scratch) {
    Set s;
    s.task = tasks + tile.first;
    const TopnParams &p = paramsOf<TopnParams>(*s.task, f32);
    s.row = s.task->dim;
    s.width = s.row * p.embed;
    s.wide = wideOf(s.width);
    const int all = s.task->x.len / s.task->dim - p.embed + 1;
    s.fresh = s.task->fresh;
    s.n = min(all, max(p.points, s.fresh));
    s.x = f32 + s.task->x.off + static_cast<size_t>(all - s.n) * s.row;
    s.k = p.k;
    s.self = p.includeSelf != 0;
    s.others = min(p.k - s.self, s.n - 1);
    s.top = min(p.top, s.n);
    s.leaves = (s.n + leafPoints - 1) / leafPoints;
    s.nodes = (s.leaves + nodeLeaves - 1) / nodeLeaves;
    s.blocks = tile.part >> 16;
    s.block = tile.part & 0xffff;
    knn::Index &i = s.index;
    i.task = s.task, i.x = s.x, i.n = s.n, i.blocks = s.blocks, i.block = s.block;
    i.sorting = min(s.blocks, knn::sortBlocks);
    const int warps = i.sorting * (knn::sortThreads / 32);
    i.share = ((s.n + warps - 1) / warps + 31) / 32 * 32;
    unsigned char *memory = scratch + static_cast<size_t>(tile.scratch) * 256;
    auto take = [&](size_t bytes) { return knn::takeIndex(memory, bytes); };
    const size_t n = s.n, padded = static_cast<size_t>(s.leaves) * leafPoints;
    s.header = reinterpret_cast<Header *>(take(sizeof(Header)));
    i.header = &s.header->index;
    s.samples = reinterpret_cast<float *>(take(static_cast<size_t>(s.row) * samplesOfAxis * 4));
    i.counts = reinterpret_cast<uint32_t *>(take(static_cast<size_t>(i.sorting) * knn::digits * 4));
    for (int a = 0; a < 2; a++) i.keys[a] = reinterpret_cast<unsigned long long *>(take(n * 8));
    for (int a = 0; a < 2; a++) i.order[a] = reinterpret_cast<uint32_t *>(take(n * 4));
    s.order = i.order[1];  // the sort has three passes
    s.points = reinterpret_cast<float *>(take(padded * s.wide * 4));
    s.leafBox = reinterpret_cast<float *>(take(static_cast<size_t>(s.leaves) * s.wide * 8));
    s.nodeBox = reinterpret_cast<float *>(take(static_cast<size_t>(s.nodes) * s.wide * 8));
    s.done = take(padded);
    s.alive = reinterpret_cast<uint32_t *>(take(n * 4));
    s.strong = reinterpret_cast<uint32_t *>(take(strongMost * 4));
    s.weights = reinterpret_cast<double *>(take(n * 8));
    s.of = reinterpret_cast<uint32_t *>(take(n * 4));
    return s;
}

// Row has the W numbers of a place, or of a corner of a box.
template <int W> struct Row { float v[W]; };

template <int W> __device__ __forceinline__ Row<W> rowAt(const float *rows, size_t i) {
    Row<W> r;
    if constexpr (W == 2) {
        const float2 f = reinterpret_cast<const float2 *>(rows)[i];
        r.v[0] = f.x, r.v[1] = f.y;
    } else {
        const float4 *at = reinterpret_cast<const float4 *>(rows) + i * (W / 4);
#pragma unroll
        for (int c = 0; c < W / 4; c++) {
            const float4 f = at[c];
            r.v[4 * c] = f.x, r.v[4 * c + 1] = f.y, r.v[4 * c + 2] = f.z, r.v[4 * c + 3] = f.w;
        }
    }
    return r;
}

// The squares are summed in one order, and rounding is monotone. So no square of two points is less than
// their boxes'.

template <int W> __device__ __forceinline__ float squareOf(const Row<W> &p, const Row<W> &q) {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < W; c++) {
        const float d = p.v[c] - q.v[c];
        sum = c == 0 ? d * d : fmaf(d, d, sum);
    }
    return sum;
}

// apart returns the least square of points of two boxes, the second one box number i; a point is also a box.
template <int W> __device__ __forceinline__ float apart(const Row<W> &low, const Row<W> &high, const float *boxes, int i) {
    const Row<W> from = rowAt<W>(boxes, 2 * static_cast<size_t>(i)), to = rowAt<W>(boxes, 2 * static_cast<size_t>(i) + 1);
    float sum = 0;
#pragma unroll
    for (int c = 0; c < W; c++) {
        const float d = fmaxf(fmaxf(from.v[c] - high.v[c], low.v[c] - to.v[c]), 0.f);
        sum = c == 0 ? d * d : fmaf(d, d, sum);
    }
    return sum;
}

// scaled returns the weight for the sum of the distances to the others.
__device__ __forceinline__ double scaled(const Set &s, double sum) {
    return __ddiv_rn(__dmul_rn(sum, static_cast<double>(s.k)), static_cast<double>(s.others + s.self));
}

// itemOf takes the next item of the launch for the whole warp.
__device__ __forceinline__ int itemOf(const Set &s) {
    uint32_t next = 0;
    if ((threadIdx.x & 31) == 0) next = atomicAdd(&s.header->next, 1u);
    return static_cast<int>(__shfl_sync(full, next, 0));
}

}  // namespace topn
