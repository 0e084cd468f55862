// Op topn: the order of a set's points. See topn.cu.
#pragma once
#include "topn_set.h"

namespace topn {

constexpr int keyBits = 24;   // of a key: three passes of the sort
constexpr int columnsMost = 8;  // values of a row that a key depends on

// begin clears what the other kernels add to.
__device__ inline void begin(const Set &s) {
    uint32_t *words = reinterpret_cast<uint32_t *>(s.header);
    for (size_t i = threadIdx.x; i < sizeof(Header) / 4; i += blockDim.x) words[i] = 0;
}

// survey finds the extremes of the numbers, and sorts samples of each value of a row.
__device__ inline void survey(const Set &s) {
    __shared__ uint32_t low[most], high[most], peak, least;
    __shared__ uint32_t sample[samplesOfAxis];
    Header &h = *s.header;
    if (threadIdx.x < most) low[threadIdx.x] = high[threadIdx.x] = 0;
    if (threadIdx.x == 0) peak = least = 0;
    __syncthreads();
    // A thread reads one value of each of its rows.
    const int each = static_cast<int>(blockDim.x) / s.row;
    if (static_cast<int>(threadIdx.x) < each * s.row) {
        const int c = threadIdx.x % s.row;
        const long long rows = s.n + s.width / s.row - 1;
        uint32_t lowest = 0, highest = 0, mostSize = 0, leastSize = 0;
        for (long long i = static_cast<long long>(s.block) * each + threadIdx.x / s.row; i < rows; i += static_cast<long long>(s.blocks) * each) {
            const float v = s.x[i * s.row + c];
            const uint32_t o = knn::ordered(v), size = __float_as_uint(v) & 0x7fffffffu;
            lowest = max(lowest, ~o);
            highest = max(highest, o);
            mostSize = max(mostSize, size);
            if (size != 0) leastSize = max(leastSize, ~size);
        }
        atomicMax(&low[c], lowest);
        atomicMax(&high[c], highest);
        atomicMax(&peak, mostSize);
        atomicMax(&least, leastSize);
    }
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < s.row) atomicMax(&h.low[threadIdx.x], low[threadIdx.x]), atomicMax(&h.high[threadIdx.x], high[threadIdx.x]);
    if (threadIdx.x == 0) atomicMax(&h.peak, peak), atomicMax(&h.least, least);
    for (int c = s.block; c < s.row; c += s.blocks) {
        __syncthreads();
        // A sample is one point of each run of points, at varying places in the runs, since the points may
        // be periodic.
        for (int a = threadIdx.x; a < samplesOfAxis; a += blockDim.x) {
            uint32_t from = static_cast<uint32_t>(static_cast<unsigned long long>(s.n) * a / samplesOfAxis);
            uint32_t to = static_cast<uint32_t>(static_cast<unsigned long long>(s.n) * (a + 1) / samplesOfAxis);
            uint32_t at = from + static_cast<uint32_t>(a) * 2654435761u % max(1u, to - from);
            sample[a] = knn::ordered(s.x[static_cast<size_t>(at) * s.row + c]);
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
        for (int a = threadIdx.x; a < samplesOfAxis; a += blockDim.x) s.samples[c * samplesOfAxis + a] = knn::unordered(sample[a]);
    }
}

// Axis is a coordinate that keys depend on.
struct Axis {
    int coordinate, column;       // of a point; its samples
    int bits;
    float low, high;
    unsigned char at[keyBits];    // its bits' places in a key, the highest first
};

// Curve says how keys are made.
struct Curve { Axis axes[keyBits]; int axisCount, columns, columnOf[columnsMost]; };

// choose gives the bits of keys, one after the other, to the coordinate whose cells are widest so far. A warp calls it.
__device__ inline void choose(const Set &s, float scale, Curve &curve) {
    const int lane = threadIdx.x & 31;
    float wide[2];
    int bits[2] = {0, 0};
    for (int a = 0; a < 2; a++) {
        const int c = lane + 32 * a, of = c % s.row;
        wide[a] = 0;
        if (c >= s.width) continue;
        const float *samples = s.samples + of * samplesOfAxis;
        wide[a] = samples[samplesOfAxis - 6] * scale - samples[5] * scale;
        if (!(wide[a] > 0)) wide[a] = (knn::unordered(s.header->high[of]) * scale - knn::unordered(~s.header->low[of]) * scale) * 0x1p-10f;
    }
    if (lane == 0) curve.axisCount = curve.columns = 0;
    __syncwarp();
    for (int bit = keyBits - 1; bit >= 0; bit--) {
        unsigned long long best = 0;
        for (int a = 0; a < 2; a++) {
            const int c = lane + 32 * a;
            bool may = c < s.width && bits[a] < 16;
            if (curve.columns == columnsMost) {
                bool known = false;
                for (int u = 0; u < columnsMost; u++) known = known || curve.columnOf[u] == c % s.row;
                may = may && known;
            }
            if (may) best = max(best, static_cast<unsigned long long>(__float_as_uint(wide[a])) << 8 | static_cast<unsigned>(most - c));
        }
        best = knn::largest(best);
        __syncwarp();
        if (best == 0) break;  // one coordinate has all of its bits
        const int c = most - static_cast<int>(best & 0xff);
        for (int a = 0; a < 2; a++) {
            if (lane + 32 * a == c) wide[a] *= 0.5f, bits[a]++;
        }
        if (lane == 0) {
            int u = 0, column = 0;
            while (u < curve.axisCount && curve.axes[u].coordinate != c) u++;
            Axis &axis = curve.axes[u];
            if (u == curve.axisCount) {
                curve.axisCount++;
                while (column < curve.columns && curve.columnOf[column] != c % s.row) column++;
                if (column == curve.columns) curve.columnOf[curve.columns++] = c % s.row;
                axis.coordinate = c, axis.column = column, axis.bits = 0;
                axis.low = knn::unordered(~s.header->low[c % s.row]) * scale;
                axis.high = knn::unordered(s.header->high[c % s.row]) * scale;
            }
            axis.at[axis.bits++] = static_cast<unsigned char>(bit);
        }
        __syncwarp();
    }
}

// cellOf maps a coordinate to one of 2^16 cells: half linearly, half by its rank among the samples, so that
// clusters have separate cells regardless of outliers.
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
    float linear = a.high > a.low ? (v - a.low) / (a.high - a.low) : 0;
    return static_cast<uint32_t>(fminf(fmaxf(65535 * (0.5f * linear + 0.5f * rank), 0), 65535));
}

// keys writes the keys of the block's share of the points, and the scores of those that are not among the largest.
__device__ inline void keys(const Set &s, float *out) {
    __shared__ float samples[columnsMost * samplesOfAxis];
    __shared__ Curve curve;
    Header &h = *s.header;
    const uint32_t peak = h.peak;
    const bool finite = peak < 0x7f800000u, spoilt = !finite || s.others < 1;
    const float top = __uint_as_float(peak);
    float scale = 1;
    if (finite && peak != 0 && !(top >= 0x1p-20f && top <= 0x1p40f)) {
        int exponent = peak < 0x800000u ? -127 : static_cast<int>(peak >> 23) - 127;
        scale = __uint_as_float(static_cast<uint32_t>(min(20 - exponent, 120) + 127) << 23);
    }
    const float none = finite && s.others + s.self > 0 ? 0 : knn::nan;  // without neighbours a weight is not defined
    for (int i = s.block * blockDim.x + threadIdx.x; i < s.fresh; i += s.blocks * blockDim.x) out[s.task->scores.off + i] = none;
    if (s.block == 0 && threadIdx.x == 0) {
        // Two different numbers differ by at least 2^-24 of the smaller one.
        const bool tiny = peak != 0 && __uint_as_float(~h.least) * scale < 0x1p-38f;
        h.index = {0, spoilt, tiny, scale, 0, 0};
        h.cut = -1;
        h.near = -1;
    }
    if (spoilt) return;
    if (threadIdx.x < 32) choose(s, scale, curve);
    __syncthreads();
    for (int a = threadIdx.x; a < curve.columns * samplesOfAxis; a += blockDim.x) {
        samples[a] = s.samples[curve.columnOf[a / samplesOfAxis] * samplesOfAxis + a % samplesOfAxis] * scale;
    }
    __syncthreads();
    for (int i = s.block * blockDim.x + threadIdx.x; i < s.n; i += s.blocks * blockDim.x) {
        uint32_t key = 0;
        for (int u = 0; u < curve.axisCount; u++) {
            const Axis &a = curve.axes[u];
            const uint32_t cell = cellOf(a, samples + a.column * samplesOfAxis, s.x[static_cast<size_t>(i) * s.row + a.coordinate] * scale);
            for (int b = 0; b < a.bits; b++) key |= (cell >> (15 - b) & 1) << a.at[b];
        }
        s.index.keys[0][i] = key;
        s.index.order[0][i] = i;
    }
}

// leaves writes the points in sorted order, and the boxes of leaves and nodes.
template <int W> __device__ __forceinline__ void leaves(const Set &s) {
    __shared__ uint32_t low[W], high[W];
    const int warp = threadIdx.x >> 5, warps = blockDim.x >> 5, lane = threadIdx.x & 31;
    if (s.header->index.spoilt) return;
    const float scale = s.header->index.scale;
    for (int node = s.block; node < s.nodes; node += s.blocks) {
        __syncthreads();
        for (int c = threadIdx.x; c < W; c += blockDim.x) low[c] = ~0u, high[c] = 0;
        __syncthreads();
        for (int l = warp; l < nodeLeaves; l += warps) {
            const int leaf = node * nodeLeaves + l, place = leaf * leafPoints + lane;
            if (leaf >= s.leaves) break;
            const float *x = s.x + static_cast<size_t>(s.order[min(place, s.n - 1)]) * s.row;
            float *to = s.points + static_cast<size_t>(place) * W, *box = s.leafBox + static_cast<size_t>(leaf) * 2 * W;
            s.done[place] = 0;
#pragma unroll 4
            for (int c = 0; c < W; c++) {
                const float v = c < s.width ? x[c] * scale : 0;
                to[c] = v;
                const uint32_t least = ~knn::greatest(~knn::ordered(v)), greatest = knn::greatest(knn::ordered(v));
                if (lane == 0) {
                    box[c] = knn::unordered(least), box[W + c] = knn::unordered(greatest);
                    atomicMin(&low[c], least);
                    atomicMax(&high[c], greatest);
                }
            }
        }
        __syncthreads();
        float *box = s.nodeBox + static_cast<size_t>(node) * 2 * W;
        for (int c = threadIdx.x; c < W; c += blockDim.x) box[c] = knn::unordered(low[c]), box[W + c] = knn::unordered(high[c]);
    }
}

}  // namespace topn
