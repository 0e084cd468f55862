// Op KNN: an index of a large set of points of up to four coordinates. See knn.cu.
#pragma once
#include "knn_pick.h"

namespace knn {

constexpr int leafPoints = 32;       // of a warp
constexpr int nodeLeaves = 32;       // leaves of a node
constexpr int indexDim = 4;          // coordinates, at most
constexpr int samplesOfAxis = 1024;  // of a coordinate's distribution
constexpr int sortThreads = 512, sortBlocks = 132, digits = 256;

// IndexHeader begins the scratch.
struct IndexHeader {
    uint32_t next;               // next leaf to search for
    uint32_t spoilt;             // a number is not finite
    uint32_t tiny;               // squares of differences may be too small for float32
    float scale;                 // a power of two that brings squares into float32's range
    uint32_t counted, scattered;  // passes of the sort
};

// Extent has the extremes of the numbers that a block has read, each as ordered bits.
struct Extent { uint32_t low[indexDim], high[indexDim], peak, least, pad[2]; };

// Index is the index as determined by a task's shape and its tile, as knnIndex in
// cuda/plan/knnindex.go. Places are in the order of the sort: 32 successive places are a leaf, 32
// successive leaves a node.
struct Index {
    const Task *task;
    const float *x;
    int n, dim, wide;           // points, coordinates, and coordinates in columns and boxes: 2 or 4
    int leaves, nodes;
    int blocks, block;          // blocks of the task; this one's number
    int sorting, share;         // blocks that sort, and places of one of their warps
    Wanted wanted;
    IndexHeader *header;
    Extent *extents;            // by block
    float *samples;             // [dim][samplesOfAxis], ascending
    uint32_t *counts;           // [sorting][digits]
    unsigned long long *keys[2];
    uint32_t *order[2];         // by place: the point
    float *points;              // by place: coordinates, padded with zeros
    float *leafBox, *nodeBox;   // least coordinates, then most
};

__device__ inline unsigned char *takeIndex(unsigned char *&memory, size_t bytes) {
    unsigned char *at = memory;
    memory += (bytes + 255) & ~static_cast<size_t>(255);
    return at;
}

// indexOf reads a tile: its part is the block, and, << 16, the number of the task's blocks.
__device__ inline Index indexOf(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    const Tile &tile = tiles[blockIdx.x];
    Index s;
    s.task = tasks + tile.first;
    s.x = f32 + s.task->x.off;
    s.dim = s.task->dim;
    s.wide = s.dim <= 2 ? 2 : 4;
    s.n = s.task->x.len / s.task->dim;
    s.leaves = (s.n + leafPoints - 1) / leafPoints;
    s.nodes = (s.leaves + nodeLeaves - 1) / nodeLeaves;
    s.blocks = tile.part >> 16;
    s.block = tile.part & 0xffff;
    s.sorting = min(s.blocks, sortBlocks);
    int warps = s.sorting * (sortThreads / 32);
    s.share = ((s.n + warps - 1) / warps + 31) / 32 * 32;
    s.wanted = wantedOf(paramsOf<KnnParams>(*s.task, f32), s.n - 1);
    size_t n = s.n, padded = static_cast<size_t>(s.leaves) * leafPoints;
    unsigned char *memory = scratch + static_cast<size_t>(tile.scratch) * 256;
    s.header = reinterpret_cast<IndexHeader *>(takeIndex(memory, sizeof(IndexHeader)));
    s.extents = reinterpret_cast<Extent *>(takeIndex(memory, s.blocks * sizeof(Extent)));
    s.samples = reinterpret_cast<float *>(takeIndex(memory, indexDim * samplesOfAxis * 4));
    s.counts = reinterpret_cast<uint32_t *>(takeIndex(memory, s.sorting * digits * 4));
    for (int i = 0; i < 2; i++) s.keys[i] = reinterpret_cast<unsigned long long *>(takeIndex(memory, n * 8));
    for (int i = 0; i < 2; i++) s.order[i] = reinterpret_cast<uint32_t *>(takeIndex(memory, n * 4));
    s.points = reinterpret_cast<float *>(takeIndex(memory, padded * s.wide * 4));
    s.leafBox = reinterpret_cast<float *>(takeIndex(memory, static_cast<size_t>(s.leaves) * s.wide * 8));
    s.nodeBox = reinterpret_cast<float *>(takeIndex(memory, static_cast<size_t>(s.nodes) * s.wide * 8));
    return s;
}

// ordered returns bits that ascend with the number.
__device__ inline uint32_t ordered(float v) {
    uint32_t b = __float_as_uint(v);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

__device__ inline float unordered(uint32_t b) { return __uint_as_float(b & 0x80000000u ? b & 0x7fffffffu : ~b); }


// extents reads the numbers of the block's share of the points. The first blocks also sort the samples
// of one coordinate each.
__device__ inline void extents(const Index &s) {
    __shared__ Extent seen;
    __shared__ uint32_t sample[samplesOfAxis];
    Extent mine;
    for (int c = 0; c < indexDim; c++) mine.low[c] = ~0u, mine.high[c] = 0;
    mine.peak = 0, mine.least = ~0u;
    if (threadIdx.x == 0) seen = mine;
    __syncthreads();
    for (int i = s.block * blockDim.x + threadIdx.x; i < s.n; i += s.blocks * blockDim.x) {
        for (int c = 0; c < indexDim; c++) {
            if (c >= s.dim) break;
            float v = s.x[static_cast<size_t>(i) * s.dim + c];
            uint32_t o = ordered(v), size = __float_as_uint(v) & 0x7fffffffu;
            mine.low[c] = min(mine.low[c], o);
            mine.high[c] = max(mine.high[c], o);
            mine.peak = max(mine.peak, size);
            if (size != 0) mine.least = min(mine.least, size);
        }
    }
    for (int c = 0; c < indexDim; c++) {
        uint32_t low = ~largest(~mine.low[c]), high = largest(mine.high[c]);
        if ((threadIdx.x & 31) == 0) atomicMin(&seen.low[c], low), atomicMax(&seen.high[c], high);
    }
    uint32_t peak = largest(mine.peak), least = ~largest(~mine.least);
    if ((threadIdx.x & 31) == 0) atomicMax(&seen.peak, peak), atomicMin(&seen.least, least);
    __syncthreads();
    if (threadIdx.x == 0) s.extents[s.block] = seen;
    if (s.block >= s.dim) return;
    // A sample is one point of each run of points, at varying places in the runs, since the points may
    // be periodic.
    for (int a = threadIdx.x; a < samplesOfAxis; a += blockDim.x) {
        uint32_t from = static_cast<uint32_t>(static_cast<unsigned long long>(s.n) * a / samplesOfAxis);
        uint32_t to = static_cast<uint32_t>(static_cast<unsigned long long>(s.n) * (a + 1) / samplesOfAxis);
        uint32_t at = from + static_cast<uint32_t>(a) * 2654435761u % max(1u, to - from);
        sample[a] = ordered(s.x[static_cast<size_t>(at) * s.dim + s.block]);
    }
    // Bitonic sort (Batcher, 1968).
    for (int size = 2; size <= samplesOfAxis; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            for (int p = threadIdx.x; p < samplesOfAxis / 2; p += blockDim.x) {
                int i = (p & ~(stride - 1)) * 2 + (p & (stride - 1)), j = i + stride;
                uint32_t a = sample[i], b = sample[j];
                if ((a > b) == ((i & size) == 0)) sample[i] = b, sample[j] = a;
            }
        }
    }
    __syncthreads();
    for (int a = threadIdx.x; a < samplesOfAxis; a += blockDim.x) s.samples[s.block * samplesOfAxis + a] = unordered(sample[a]);
}

constexpr int axisBits = 16;

// hilbert returns the place of a cell on Hilbert's curve (Skilling, Programming the Hilbert curve,
// 2004).
template <int D> __device__ __forceinline__ unsigned long long hilbert(uint32_t (&x)[D]) {
    for (uint32_t q = 1u << (axisBits - 1); q > 1; q >>= 1) {
#pragma unroll
        for (int c = 0; c < D; c++) {
            if (x[c] & q) {
                x[0] ^= q - 1;
            } else {
                uint32_t t = (x[0] ^ x[c]) & (q - 1);
                x[0] ^= t, x[c] ^= t;
            }
        }
    }
#pragma unroll
    for (int c = 1; c < D; c++) x[c] ^= x[c - 1];
    uint32_t t = 0;
    for (uint32_t q = 1u << (axisBits - 1); q > 1; q >>= 1) {
        if (x[D - 1] & q) t ^= q - 1;
    }
    unsigned long long key = 0;
    for (int b = axisBits - 1; b >= 0; b--) {
#pragma unroll
        for (int c = 0; c < D; c++) key = key << 1 | ((x[c] ^ t) >> b & 1);
    }
    return key;
}

// Axis maps a coordinate to a cell: mostly linearly, so that cells are square, and to one sixteenth by
// its rank among the samples, so that clusters have separate cells regardless of outliers.
struct Axis { float low, high, wide; };

__device__ inline uint32_t cellOf(const Axis &a, const float *samples, float v) {
    int from = 0, to = samplesOfAxis;  // samples below v
    while (from < to) {
        int middle = (from + to) / 2;
        if (samples[middle] < v) from = middle + 1;
        else to = middle;
    }
    float low = from > 0 ? samples[from - 1] : a.low, high = from < samplesOfAxis ? samples[from] : a.high;
    float part = high > low ? (v - low) / (high - low) : 0;
    float rank = (static_cast<float>(from) + part) / (samplesOfAxis + 1);
    float linear = a.wide > 0 ? (v - a.low) / a.wide : 0;
    constexpr float most = (1 << axisBits) - 1;
    float cell = most * (linear * 0.9375f + rank * 0.0625f);
    return static_cast<uint32_t>(fminf(fmaxf(cell, 0), most));
}

template <int D> __device__ __forceinline__ void keysOf(const Index &s, float scale, const Axis *axes, const float *samples) {
    for (int i = s.block * blockDim.x + threadIdx.x; i < s.n; i += s.blocks * blockDim.x) {
        uint32_t cell[D];
#pragma unroll
        for (int c = 0; c < D; c++) cell[c] = cellOf(axes[c], samples + c * samplesOfAxis, s.x[static_cast<size_t>(i) * D + c] * scale);
        s.keys[0][i] = hilbert<D>(cell);
        s.order[0][i] = i;
    }
}

// keys writes the header and the keys of the block's share of the points.
__device__ inline void keys(const Index &s, float *out) {
    __shared__ float samples[indexDim * samplesOfAxis];
    __shared__ Axis axes[indexDim];
    __shared__ Extent seen;
    if (threadIdx.x < indexDim) seen.low[threadIdx.x] = ~0u, seen.high[threadIdx.x] = 0;
    if (threadIdx.x == 0) seen.peak = 0, seen.least = ~0u;
    __syncthreads();
    for (int b = threadIdx.x; b < s.blocks; b += blockDim.x) {
        const Extent &e = s.extents[b];
        for (int c = 0; c < s.dim; c++) atomicMin(&seen.low[c], e.low[c]), atomicMax(&seen.high[c], e.high[c]);
        atomicMax(&seen.peak, e.peak);
        atomicMin(&seen.least, e.least);
    }
    __syncthreads();
    uint32_t peak = seen.peak;
    bool spoilt = peak >= 0x7f800000u;
    float top = __uint_as_float(peak), scale = 1;
    if (!spoilt && peak != 0 && !(top >= 0x1p-20f && top <= 0x1p40f)) {
        int exponent = peak < 0x800000u ? -127 : static_cast<int>(peak >> 23) - 127;
        scale = __uint_as_float(static_cast<uint32_t>(min(20 - exponent, 120) + 127) << 23);
    }
    // Two different numbers differ by at least 2^-24 of the smaller one.
    bool tiny = peak != 0 && __uint_as_float(seen.least) * scale < 0x1p-38f;
    if (s.block == 0 && threadIdx.x == 0) *s.header = {0, spoilt, tiny, scale, 0, 0};
    if (spoilt) {
        for (int i = s.block * blockDim.x + threadIdx.x; i < s.n; i += s.blocks * blockDim.x) out[s.task->scores.off + i] = nan;
        return;
    }
    if (s.dim == 1) {
        for (int i = s.block * blockDim.x + threadIdx.x; i < s.n; i += s.blocks * blockDim.x) {
            s.keys[0][i] = ordered(s.x[i]);
            s.order[0][i] = i;
        }
        return;
    }
    for (int a = threadIdx.x; a < s.dim * samplesOfAxis; a += blockDim.x) samples[a] = s.samples[a] * scale;
    if (threadIdx.x == 0) {
        float wide = 0;
        for (int c = 0; c < s.dim; c++) {
            axes[c].low = unordered(seen.low[c]) * scale, axes[c].high = unordered(seen.high[c]) * scale;
            wide = fmaxf(wide, axes[c].high - axes[c].low);
        }
        for (int c = 0; c < s.dim; c++) axes[c].wide = wide;
    }
    __syncthreads();
    if (s.dim == 2) keysOf<2>(s, scale, axes, samples);
    else if (s.dim == 3) keysOf<3>(s, scale, axes, samples);
    else keysOf<4>(s, scale, axes, samples);
}

// The sort takes eight bits a pass, the least significant first: knn_index_count counts the digits of
// each block's share, knn_index_scatter moves keys and points. Even and odd passes read from different
// arrays; each kernel derives the pass from the other kernel's last one.

__device__ __forceinline__ int digitOf(unsigned long long key, int pass) { return static_cast<int>(key >> (8 * pass)) & (digits - 1); }

__device__ inline void count(const Index &s) {
    __shared__ uint32_t counts[digits];
    if (s.header->spoilt || s.block >= s.sorting) return;
    int pass = s.header->scattered;
    for (int d = threadIdx.x; d < digits; d += blockDim.x) counts[d] = 0;
    __syncthreads();
    const unsigned long long *from = s.keys[pass & 1];
    int each = s.share * (sortThreads / 32), end = static_cast<int>(min(static_cast<long long>(s.n), (s.block + 1ll) * each));
    for (long long i = static_cast<long long>(s.block) * each + threadIdx.x; i < end; i += blockDim.x) atomicAdd(&counts[digitOf(from[i], pass)], 1u);
    __syncthreads();
    for (int d = threadIdx.x; d < digits; d += blockDim.x) s.counts[s.block * digits + d] = counts[d];
    if (s.block == 0 && threadIdx.x == 0) s.header->counted = pass + 1;
}

__device__ inline void scatter(const Index &s) {
    constexpr int warps = sortThreads / 32;
    __shared__ uint32_t at[warps][digits];  // the place of a warp's next key of the digit
    __shared__ uint32_t sums[digits];
    if (s.header->spoilt || s.block >= s.sorting) return;
    int pass = s.header->counted - 1, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const unsigned long long *from = s.keys[pass & 1];
    const uint32_t *order = s.order[pass & 1];
    unsigned long long *to = s.keys[~pass & 1];
    uint32_t *moved = s.order[~pass & 1];
    for (int d = lane; d < digits; d += 32) at[warp][d] = 0;
    __syncwarp();
    long long first = (static_cast<long long>(s.block) * warps + warp) * s.share;
    for (int i = lane; i < s.share && first + i < s.n; i += 32) atomicAdd(&at[warp][digitOf(from[first + i], pass)], 1u);
    uint32_t all = 0, before = 0;
    if (threadIdx.x < digits) {
        for (int b = 0; b < s.sorting; b++) {
            uint32_t c = s.counts[b * digits + threadIdx.x];
            all += c;
            before += b < s.block ? c : 0;
        }
        sums[threadIdx.x] = all;
    }
    for (int o = 1; o < digits; o *= 2) {  // prefix sums of the digits
        __syncthreads();
        uint32_t more = threadIdx.x < digits && static_cast<int>(threadIdx.x) >= o ? sums[threadIdx.x - o] : 0;
        __syncthreads();
        if (threadIdx.x < digits) sums[threadIdx.x] += more;
    }
    __syncthreads();
    if (threadIdx.x < digits) {
        uint32_t run = sums[threadIdx.x] - all + before;
        for (int w = 0; w < warps; w++) {
            uint32_t c = at[w][threadIdx.x];
            at[w][threadIdx.x] = run;
            run += c;
        }
    }
    __syncthreads();
    for (int i = 0; i < s.share && first + i < s.n; i += 32) {
        bool there = first + i + lane < s.n;
        unsigned long long key = there ? from[first + i + lane] : 0;
        uint32_t point = there ? order[first + i + lane] : 0;
        int digit = there ? digitOf(key, pass) : digits;
        uint32_t peers = __match_any_sync(full, digit), mine = __popc(peers & ((1u << lane) - 1));
        uint32_t place = there ? at[warp][digit] + mine : 0;
        __syncwarp();
        if (there) {
            if (mine == 0) at[warp][digit] += __popc(peers);
            to[place] = key;
            moved[place] = point;
        }
        __syncwarp();
    }
    if (s.block == 0 && threadIdx.x == 0) s.header->scattered = pass + 1;
}

// leaves writes the points in sorted order, and the boxes of leaves and nodes.
template <int W> __device__ __forceinline__ void leaves(const Index &s) {
    constexpr int warps = 8;
    __shared__ float boxes[warps][2 * W];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const float scale = s.header->scale;
    for (int node = s.block; node < s.nodes; node += s.blocks) {
        float low[W], high[W];
#pragma unroll
        for (int c = 0; c < W; c++) low[c] = infinite, high[c] = -infinite;
        for (int l = 0; l < nodeLeaves / warps; l++) {
            int leaf = node * nodeLeaves + warp * (nodeLeaves / warps) + l;
            if (leaf >= s.leaves) break;
            int place = leaf * leafPoints + lane;
            bool there = place < s.n;
            const float *x = s.x + static_cast<size_t>(there ? s.order[0][place] : 0) * s.dim;
            float *to = s.points + static_cast<size_t>(place) * W, *box = s.leafBox + static_cast<size_t>(leaf) * 2 * W;
#pragma unroll
            for (int c = 0; c < W; c++) {
                float v = c < s.dim ? x[c] * scale : 0;
                to[c] = there ? v : infinite;
                float a = there ? v : infinite, b = there ? v : -infinite;
                for (int o = 16; o > 0; o >>= 1) {
                    a = fminf(a, __shfl_xor_sync(full, a, o));
                    b = fmaxf(b, __shfl_xor_sync(full, b, o));
                }
                low[c] = fminf(low[c], a), high[c] = fmaxf(high[c], b);
                if (lane == 0) box[c] = a, box[W + c] = b;
            }
        }
        __syncthreads();
        if (lane == 0) {
#pragma unroll
            for (int c = 0; c < W; c++) boxes[warp][c] = low[c], boxes[warp][W + c] = high[c];
        }
        __syncthreads();
        if (threadIdx.x < 2 * W) {
            float v = boxes[0][threadIdx.x];
            for (int w = 1; w < warps; w++) v = threadIdx.x < W ? fminf(v, boxes[w][threadIdx.x]) : fmaxf(v, boxes[w][threadIdx.x]);
            s.nodeBox[static_cast<size_t>(node) * 2 * W + threadIdx.x] = v;
        }
    }
}

}  // namespace knn
