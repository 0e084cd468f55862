// Op scan: null maps, and the number of them whose ratio reaches a region's. See scan.cu.
#pragma once
#include "scan_search.h"

namespace scan {

// philox is Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011).
__device__ inline uint4 philox(uint4 c, uint32_t k0, uint32_t k1) {
#pragma unroll
    for (int i = 0; i < 10; i++) {
        uint32_t h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return c;
}

// draw makes the table of a null map's counts, and returns the largest error of its excesses.
static __device__ float draw(const Map &m, uint32_t seed, uint32_t number, uint32_t *counts, float *excess, float *memory) {
    const Total total = m.head->total;
    const unsigned long long all = static_cast<unsigned long long>(total.baseline);
    for (int i = threadIdx.x; i < m.entries; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    const int drawn = static_cast<int>(total.count);
    auto add = [&](uint32_t low, uint32_t high) {
        unsigned long long x = static_cast<unsigned long long>(high) << 32 | low;
        unsigned long long unit = static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * all >> 64);
        uint32_t cell = m.guide[x >> (64 - m.guided)];
        while (m.before[cell + 1] <= unit) cell++;
        uint32_t y = cell / static_cast<uint32_t>(m.cols);
        atomicAdd(counts + cell + y + m.stride + 1, 1u);  // after row 0, and after column 0 of each row
    };
    for (int i = threadIdx.x; 2 * i < drawn; i += blockDim.x) {
        uint4 v = philox(make_uint4(i, 0, number, 0), seed, 0);
        add(v.x, v.y);
        if (2 * i + 1 < drawn) add(v.z, v.w);
    }
    __syncthreads();
    for (int y = threadIdx.x >> 5; y < m.rows; y += blockDim.x >> 5) {
        uint32_t *row = counts + static_cast<size_t>(y + 1) * m.stride + 1;
        sumRow(m.cols, row, [&](int x) { return row[x]; });
    }
    __syncthreads();
    const double rate = total.count / total.baseline;
    float most = 0;
    for (int x = threadIdx.x; x <= m.cols; x += blockDim.x) {
        uint32_t c = 0;
        for (int y = 0; y <= m.rows; y++) {
            size_t at = static_cast<size_t>(y) * m.stride + x;
            counts[at] = c += counts[at];
            float off = static_cast<float>(c - m.baselines[at] * rate);
            excess[at] = off;
            most = fmaxf(most, fabsf(off));
        }
    }
    return errorOf(largest(most, memory), total.count);
}

// nulls counts, in a block's share of the null maps, those whose ratio reaches each region's.
static __device__ void nulls(const Map &m, uint32_t seed, int block, unsigned char *memory) {
    __shared__ float reduced[33];
    __shared__ unsigned long long bar;
    __shared__ uint32_t number;
    __shared__ Search<uint32_t> s;
    Head *h = m.head;
    if (h->state != ended || h->found == 0) return;
    // Ratios below the lowest of the regions count for none, and the search of a map ends at the
    // highest, the first region's.
    const double lowest = h->region[h->found - 1].ratio, highest = h->region[0].ratio;
    unsigned char *own = m.null + block * (2 * rounded(static_cast<size_t>(m.entries) * 4));
    uint32_t *counts = reinterpret_cast<uint32_t *>(own);
    float *excess = reinterpret_cast<float *>(own + rounded(static_cast<size_t>(m.entries) * 4));
    const int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    s.begin(m);
    if (threadIdx.x == 0) s.counts = counts, s.excess = excess, s.bar = &bar;
    Strip strip(memory, m.cols);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            number = atomicAdd(&h->next, 1u) * m.portions + m.portion;
            bar = static_cast<unsigned long long>(__double_as_longlong(lowest)) - 1;
        }
        __syncthreads();
        if (number >= m.replicates) return;
        float error = draw(m, seed, number, counts, excess, reduced);
        if (threadIdx.x == 0) s.error = error;
        s.mine[threadIdx.x].ratio = 0;
        __syncthreads();
        double level = 0;
        for (Strips i(m.rows, warp, warps); i.height <= m.maxRows && level < highest; i.next()) {
            if (i.y + i.height <= m.rows) level = searchStrip(s, strip, i.y, i.height, level);
        }
        __syncthreads();
        double reached = __longlong_as_double(static_cast<long long>(bar));
        if (threadIdx.x < h->found && reached >= h->region[threadIdx.x].ratio) atomicAdd(h->reached + threadIdx.x, 1u);
    }
}

// finish writes a task's regions. Where several devices divide the null maps, it writes how many of its own reach a
// region's ratio in place of the p-value.
static __device__ void finish(const Task &t, const Map &m, float *out) {
    Head *h = m.head;
    if (h->state != ended) return;
    if (threadIdx.x == 0) out[t.scores.off + t.scores.len - 1] = h->found > 0 ? static_cast<float>(h->region[0].ratio) : 0;
    int i = threadIdx.x;
    if (i >= h->found) return;
    Candidate c = h->region[i];
    uint32_t *w = reinterpret_cast<uint32_t *>(out) + t.detail.off + i * words;
    auto put = [&](int at, long long v) {
        w[at] = static_cast<uint32_t>(v), w[at + 1] = static_cast<uint32_t>(static_cast<unsigned long long>(v) >> 32);
    };
    size_t a = static_cast<size_t>(c.at.y1) * m.stride, b = static_cast<size_t>(c.at.y2 + 1) * m.stride;
    double count = m.counts[b + c.at.x2 + 1] - m.counts[b + c.at.x1] - m.counts[a + c.at.x2 + 1] + m.counts[a + c.at.x1];
    double baseline = m.baselines[b + c.at.x2 + 1] - m.baselines[b + c.at.x1] - m.baselines[a + c.at.x2 + 1] + m.baselines[a + c.at.x1];
    w[0] = c.at.y1, w[1] = c.at.x1, w[2] = c.at.y2, w[3] = c.at.x2;
    put(4, static_cast<long long>(count));
    put(6, static_cast<long long>(baseline));
    put(8, __double_as_longlong(h->total.expected(baseline)));
    put(10, __double_as_longlong(c.ratio));
    if (m.replicates == 0) put(12, 0x7FF8000000000001ll);
    else if (m.portions > 1) put(12, h->reached[i]);
    else put(12, __double_as_longlong(over(1 + h->reached[i], m.replicates + 1)));
}

}  // namespace scan
