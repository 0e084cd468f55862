// Op scan: the tables of a task's grid in device memory. See scan.cu.
#pragma once
#include "scan_ratio.h"
#include "scan_params.h"

namespace scan {

constexpr uint32_t full = 0xffffffffu;
constexpr int mostTop = 32;       // regions
constexpr int mostColumns = 1024;
constexpr int columnThreads = 512;
constexpr int guides = 32;        // blocks of a task
constexpr unsigned long long mostSum = 1ull << 53;
constexpr unsigned long long mostCounted = 1 << 20;  // counts that a null map draws
constexpr unsigned long long mostTrials = 1 << 23;   // of Bernoulli's model with null maps
constexpr int guideBits = 16;     // of the index of the guide to cells, at most
constexpr uint32_t noRow = 0xffffffffu;
constexpr int words = 14;         // of a region in Detail

// Rectangle has its first and last row and column.
struct Rectangle { int y1, x1, y2, x2; };

__device__ inline bool overlap(const Rectangle &a, const Rectangle &b) {
    return a.x1 <= b.x2 && b.x1 <= a.x2 && a.y1 <= b.y2 && b.y1 <= a.y2;
}

// Candidate is a rectangle and its ratio, 0 where there is none.
struct Candidate {
    double ratio;
    Rectangle at;
};

// beats reports the order of regions: by ratio, area and place.
__device__ inline bool beats(const Candidate &a, const Candidate &b) {
    if (a.ratio != b.ratio) return a.ratio > b.ratio;
    if (a.ratio == 0) return false;
    int areaA = (a.at.y2 - a.at.y1 + 1) * (a.at.x2 - a.at.x1 + 1), areaB = (b.at.y2 - b.at.y1 + 1) * (b.at.x2 - b.at.x1 + 1);
    if (areaA != areaB) return areaA < areaB;
    if (a.at.y1 != b.at.y1) return a.at.y1 < b.at.y1;
    if (a.at.x1 != b.at.x1) return a.at.x1 < b.at.x1;
    if (a.at.y2 != b.at.y2) return a.at.y2 < b.at.y2;
    return a.at.x2 < b.at.x2;
}

enum : int { searching, ended, excluded, left };

// Head is the state that all blocks of a task share.
struct Head {
    Total total;
    unsigned long long key;  // of the random numbers of null maps
    float unit;       // the total baseline in the units of shares: from 1/2 to 1
    float shareError; // the largest error of a rectangle's share
    float most[mostColumns / 32];  // by block of columns: the largest excess of the table
    int uneven[mostColumns / 32];  // and whether some counts are not in proportion to the baselines
    int state, found;
    unsigned long long bar;  // bits of the largest ratio so far, or of 0
    uint32_t searched;       // blocks whose part of the search for the next region has ended
    uint32_t next;           // null map
    uint32_t reached[mostTop];  // by region: null maps whose ratio reaches the region's
    Candidate region[mostTop];
};
constexpr int headBytes = 2048;
static_assert(sizeof(Head) <= headBytes, "layout");

__device__ inline size_t rounded(size_t bytes) { return (bytes + 255) & ~static_cast<size_t>(255); }

// Map has a task's tables, in the order of scanShape.common in cuda/plan.
struct Map {
    int rows, cols, stride, entries;  // entries of a table: row and column 0 are 0
    int maxRows, maxCols, top, replicates;
    Head *head;
    double *counts, *baselines;  // of the cells above and left of a corner
    float *excess, *shares;      // of the same cells: count - rate*baseline; the baseline in multiples of a power of 2
    Candidate *best;             // by searching block
    unsigned long long *before;  // by cell: the baselines of the cells before it
    uint32_t *guide;
    unsigned long long *sums;    // by row, four: the counts, the baselines, the part of the key, and the counts' sizes, more than mostSum where a
                                 // cell has a fault
    unsigned char *null;         // tables of the blocks that draw null maps
    int guided;                  // bits of the guide's index
    int portion, portions;       // of the work in the task
    int model, direction;
    float variance;
    bool learnt;
};

// mix is the last step of SplitMix64.
__device__ inline unsigned long long mix(unsigned long long z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

__device__ inline Map mapOf(const Task &t, const float *f32, unsigned char *memory, int blocks, int portion) {
    const ScanParams &p = paramsOf<ScanParams>(t, f32);
    Map m;
    m.rows = p.rows, m.cols = p.columns, m.stride = m.cols + 1, m.entries = (m.rows + 1) * m.stride;
    m.maxRows = p.maxRows > 0 ? min(p.maxRows, m.rows) : m.rows;
    m.maxCols = p.maxColumns > 0 ? min(p.maxColumns, m.cols) : m.cols;
    m.model = p.model, m.variance = p.variance, m.direction = p.direction, m.learnt = p.learnt != 0 && m.model == poisson;
    m.top = p.top, m.replicates = m.model < normal ? p.replicates : 0;  // of the others there are no null maps
    m.portion = portion & 0xff, m.portions = portion >> 8;
    m.guided = min(guideBits, 32 - __clz(m.rows * m.cols - 1));
    size_t n = m.entries;
    m.head = reinterpret_cast<Head *>(memory), memory += headBytes;
    m.counts = reinterpret_cast<double *>(memory), memory += rounded(8 * n);
    m.baselines = reinterpret_cast<double *>(memory), memory += rounded(8 * n);
    m.excess = reinterpret_cast<float *>(memory), memory += rounded(4 * n);
    m.shares = reinterpret_cast<float *>(memory), memory += rounded(4 * n);
    m.best = reinterpret_cast<Candidate *>(memory), memory += rounded(sizeof(Candidate) * static_cast<size_t>(blocks));
    m.before = reinterpret_cast<unsigned long long *>(memory), memory += rounded(8 * n);
    m.guide = reinterpret_cast<uint32_t *>(memory), memory += static_cast<size_t>(4) << guideBits;
    m.sums = reinterpret_cast<unsigned long long *>(memory), memory += rounded(32 * static_cast<size_t>(m.rows));
    m.null = memory;
    return m;
}

// sumRow writes the prefix sums of a row of cells to `to`, and returns the row's sum; of(x) is a cell.
// A warp calls it.
template <class V, class F> __device__ __forceinline__ V sumRow(int cols, V *to, F of) {
    int lane = threadIdx.x & 31;
    V sum = 0;
    for (int from = 0; from < cols; from += 32) {
        int x = from + lane;
        V v = x < cols ? of(x) : 0;
        for (int d = 1; d < 32; d *= 2) {
            V o = __shfl_up_sync(full, v, d);
            if (lane >= d) v += o;
        }
        v += sum;
        if (x < cols) to[x] = v;
        sum = __shfl_sync(full, v, 31);
    }
    return sum;
}

// largest returns the largest value of a block's threads to all of them; memory has room for 33 values.
__device__ inline float largest(float v, float *memory) {
    for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(full, v, d));
    __syncthreads();
    if ((threadIdx.x & 31) == 0) memory[threadIdx.x >> 5] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? memory[threadIdx.x] : 0;
        for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(full, v, d));
        if (threadIdx.x == 0) memory[32] = v;
    }
    __syncthreads();
    return memory[32];
}

// errorOf bounds the error of an excess in float32: table entries up to most, their two differences,
// and the expectation in float64 were rounded.
__device__ inline float errorOf(float most, double count) { return __double2float_ru(most * 0x1p-20 + fabs(count) * 0x1p-46); }

// rows makes the prefix sums of the rows' cells, as integers, with a warp for each row, and empties the task's results.
static __device__ void rows(const Task &t, const float *f32, float *out, const Map &m, int block) {
    const int dim = t.dim, y = block * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    unsigned long long *counts = reinterpret_cast<unsigned long long *>(m.counts), *baselines = reinterpret_cast<unsigned long long *>(m.baselines);
    if (block == 0) {
        for (int i = threadIdx.x; i < t.scores.len; i += blockDim.x) out[t.scores.off + i] = __int_as_float(0x7fc00000);
        for (int i = threadIdx.x; i < t.detail.len; i += blockDim.x) {
            reinterpret_cast<uint32_t *>(out)[t.detail.off + i] = i % words == 0 ? noRow : 0;
        }
        for (int i = threadIdx.x; i < m.stride; i += blockDim.x) m.counts[i] = m.baselines[i] = 0, m.excess[i] = m.shares[i] = 0;
    }
    if (y >= m.rows) return;
    const size_t at = static_cast<size_t>(y + 1) * m.stride;
    if (lane == 0) m.counts[at] = m.baselines[at] = 0, m.excess[at] = m.shares[at] = 0;
    const long long *cell = reinterpret_cast<const long long *>(f32) + t.x.off + (t.x.len - static_cast<size_t>(m.rows - y) * m.cols * dim);
    // Sums of rows, of up to 1,024 numbers up to 2^53, are below 2^63. The warp loads 128 cells at once.
    bool bad = false;
    unsigned long long count = 0, baseline = 0, key = 0, size = 0;
    for (int from = 0; from < m.cols; from += 128) {
        unsigned long long c[4], b[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int x = from + 32 * k + lane;
            c[k] = b[k] = 0;
            if (x < m.cols) c[k] = cell[static_cast<size_t>(x) * dim], b[k] = dim > 1 ? cell[static_cast<size_t>(x) * dim + 1] : 1;
            if (x < m.cols) {
                unsigned long long i = static_cast<unsigned long long>(y) * m.cols + x;
                key += mix(mix(i * 0x9e3779b97f4a7c15ull + c[k]) + b[k]);
            }
            // Negative ones are above 2^53, too.
            const unsigned long long own = m.model == normal && static_cast<long long>(c[k]) < 0 ? 0 - c[k] : c[k];
            size += own;
            bad |= own > mostSum || b[k] > mostSum || (b[k] == 0 && c[k] != 0) || (m.model == bernoulli && c[k] > b[k]) ||
                   (m.model == exponential && b[k] != 0 && c[k] == 0);
        }
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                unsigned long long o = __shfl_up_sync(full, c[k], d), u = __shfl_up_sync(full, b[k], d);
                if (lane >= d) c[k] += o, b[k] += u;
            }
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int x = from + 32 * k + lane;
            c[k] += count, b[k] += baseline;
            if (x < m.cols) counts[at + 1 + x] = c[k], baselines[at + 1 + x] = b[k];
            count = __shfl_sync(full, c[k], 31), baseline = __shfl_sync(full, b[k], 31);
        }
    }
    bad = __any_sync(full, bad);
    for (int d = 16; d > 0; d /= 2) key += __shfl_xor_sync(full, key, d), size += __shfl_xor_sync(full, size, d);
    if (lane == 0) m.sums[4 * y] = count, m.sums[4 * y + 1] = baseline, m.sums[4 * y + 2] = key, m.sums[4 * y + 3] = bad ? mostSum + 1 : size;
}

// columns makes the tables of 32 columns from the rows' sums, and one of its blocks the task's Head.
static __device__ void columns(uint32_t *status, const Map &m, uint32_t seed, int block) {
    __shared__ float memory[33];
    __shared__ Total total;
    __shared__ int state;
    __shared__ unsigned long long part[2][columnThreads];
    unsigned long long *counts = reinterpret_cast<unsigned long long *>(m.counts), *baselines = reinterpret_cast<unsigned long long *>(m.baselines);
    Head *h = m.head;
    if (threadIdx.x < 32) {
        // Sums above 2^53 stay above it.
        unsigned long long count = 0, baseline = 0, limit = mostSum + 1, key = 0, size = 0;
        for (int y = threadIdx.x; y < m.rows; y += 32) {
            count += m.sums[4 * y], baseline = min(baseline + m.sums[4 * y + 1], limit), key += m.sums[4 * y + 2];
            size = min(size + m.sums[4 * y + 3], limit);
        }
        for (int d = 16; d > 0; d /= 2) {
            key += __shfl_xor_sync(full, key, d), count += __shfl_xor_sync(full, count, d);
            size = min(size + __shfl_xor_sync(full, size, d), limit), baseline = min(baseline + __shfl_xor_sync(full, baseline, d), limit);
        }
        if (threadIdx.x == 0) {
            total = {static_cast<double>(static_cast<long long>(count)), static_cast<double>(baseline), m.variance, m.model, m.direction};
            if (block == 0) h->key = mix(mix(seed) + key);
            bool drawn = m.model == bernoulli ? min(count, baseline - count) <= mostCounted && baseline <= mostTrials : count <= mostCounted;
            state = size >= limit || baseline >= limit ? excluded : m.replicates > 0 && !drawn ? left : searching;
        }
    }
    __syncthreads();
    double rate = total.count / total.baseline, scale = 1;  // of shares, to 24 bits
    while (total.baseline * scale > 16777216) scale /= 2;
    while (total.baseline > 0 && total.baseline * scale <= 8388608) scale *= 2;
    if (block == 0) {
        for (int i = threadIdx.x; i < mostTop; i += blockDim.x) h->reached[i] = 0;
        if (threadIdx.x == 0) {
            h->total = total, h->state = state, h->found = 0, h->bar = 0, h->next = 0, h->searched = 0;
            h->unit = static_cast<float>(floor(total.baseline * scale) * 0x1p-24);
            h->shareError = scale < 1 ? 0x1p-23f : 0;
            if (state == left) *status = statusLeft;
        }
    }
    if (state != searching) return;

    // A column has a thread of each warp, with some of its rows. A thread adds its rows up, and then adds the sums of
    // those above.
    float most = 0;
    bool uneven = false;
    const int parts = blockDim.x >> 5, own = threadIdx.x >> 5, x = block * 32 + (threadIdx.x & 31) + 1;
    const int height = (m.rows + parts - 1) / parts, top = min(own * height, m.rows) + 1, end = min(m.rows, (own + 1) * height) + 1;
    unsigned long long count = 0, baseline = 0;
    const bool inside = x <= m.cols;
    if (inside) {
#pragma unroll 4
        for (int y = top; y < end; y++) {
            size_t at = static_cast<size_t>(y) * m.stride + x;
            unsigned long long c = counts[at], b = baselines[at];
            count += c, baseline += b;
            uneven |= !proportional(static_cast<long long>(c), static_cast<long long>(b), total);
        }
    }
    part[0][threadIdx.x] = count, part[1][threadIdx.x] = baseline;
    __syncthreads();
    count = baseline = 0;
    for (int k = 0; k < own; k++) count += part[0][32 * k + (threadIdx.x & 31)], baseline += part[1][32 * k + (threadIdx.x & 31)];
    for (int from = top; inside && from < end; from += 4) {
        unsigned long long c[4], b[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            size_t at = static_cast<size_t>(min(from + k, end - 1)) * m.stride + x;
            c[k] = counts[at], b[k] = baselines[at];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (from + k >= end) break;
            size_t at = static_cast<size_t>(from + k) * m.stride + x;
            count += c[k], baseline += b[k];
            double sum = static_cast<double>(static_cast<long long>(count)), all = static_cast<double>(baseline);
            m.counts[at] = sum, m.baselines[at] = all;
            float off = static_cast<float>(sum - all * rate);
            m.excess[at] = off, m.shares[at] = static_cast<float>(floor(all * scale) * 0x1p-24);
            most = fmaxf(most, fabsf(off));
        }
    }
    most = largest(most, memory);
    uneven = __syncthreads_or(uneven);
    if (threadIdx.x == 0) h->most[block] = most, h->uneven[block] = uneven;
}

// stateOf returns the state of the search. Where the counts of all cells are in proportion to their baselines no
// rectangle exceeds what is expected of it.
__device__ inline int stateOf(const Map &m) {
    const Head &h = *m.head;
    if (h.state != searching) return h.state;
    for (int i = 0; i < (m.cols + 31) / 32; i++) {
        if (h.uneven[i]) return searching;
    }
    return ended;
}

// errorOf returns the largest error of an excess of the task's own counts.
__device__ inline float errorOf(const Map &m) {
    float most = 0;
    for (int i = 0; i < (m.cols + 31) / 32; i++) most = fmaxf(most, m.head->most[i]);
    return errorOf(most, m.head->total.count);
}

// guide makes a block's part of the index from which null maps find the cell of a unit of the baselines.
static __device__ void guide(const Map &m, int block, int blocks) {
    if (m.head->state != ended || m.head->found == 0) return;
    const Total total = m.head->total;
    const int cells = m.rows * m.cols, first = block * blockDim.x + threadIdx.x, step = blocks * blockDim.x;
    auto before = [&](int y, int x) {
        const double *row = m.baselines + static_cast<size_t>(y) * m.stride;
        return static_cast<unsigned long long>(row[m.cols] + (row[m.stride + x] - row[x]));
    };
    for (int i = first; i <= cells; i += step) {
        int y = i / m.cols;
        m.before[i] = i == cells ? static_cast<unsigned long long>(total.baseline) : before(y, i - y * m.cols);
    }
    unsigned long long all = static_cast<unsigned long long>(total.baseline);
    for (int i = first; i < 1 << m.guided; i += step) {
        unsigned long long unit = static_cast<unsigned long long>(
            static_cast<unsigned __int128>(static_cast<unsigned long long>(i) << (64 - m.guided)) * all >> 64);
        // The first row, and in it the first cell, that ends after the unit.
        int y = 0, x = 0;
        for (int high = m.rows - 1; y < high;) {
            int mid = (y + high) / 2;
            if (before(mid, m.cols) > unit) high = mid;
            else y = mid + 1;
        }
        for (int high = m.cols - 1; x < high;) {
            int mid = (x + high) / 2;
            if (before(y, mid + 1) > unit) high = mid;
            else x = mid + 1;
        }
        m.guide[i] = y * m.cols + x;
    }
}

}  // namespace scan
