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

constexpr int tableMost = 72 << 10;  // bytes of a table that is made in shared memory
__device__ inline bool tableFits(const Map &m) { return m.entries * 4 <= tableMost; }

// sumColumns adds up the columns of a table whose rows are added up. It writes the sums to counts and their excesses to excess,
// and returns the largest of these that the thread has seen. A column has threads with some of its rows each, where
// there are enough.
static __device__ __forceinline__ float sumColumns(const Map &m, const uint32_t *table, uint32_t *counts, float *excess) {
    __shared__ uint32_t sums[32 * nullWarps];
    const double rate = m.head->total.count / m.head->total.baseline;
    const int threads = blockDim.x, wide = min(m.stride, threads), parts = threads / wide;
    const int height = (m.rows + parts) / parts, part = threadIdx.x / wide;  // of rows 0 to m.rows
    constexpr int ahead = 8;
    float most = 0;
    for (int x = static_cast<int>(threadIdx.x) % wide; x < m.stride; x += wide) {
        const int top = part * height, end = part < parts ? min(m.rows + 1, top + height) : top;
        uint32_t c = 0;
        if (parts > 1) {  // one round
#pragma unroll 8
            for (int y = top; y < end; y++) c += table[static_cast<size_t>(y) * m.stride + x];
            sums[threadIdx.x] = c;
            __syncthreads();
            c = 0;
            for (int k = 0; k < part && part < parts; k++) c += sums[k * wide + x];
        }
        for (int from = top; from < end; from += ahead) {
            uint32_t v[ahead];
            double b[ahead];
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                const size_t at = static_cast<size_t>(min(from + k, end - 1)) * m.stride + x;
                v[k] = table[at], b[k] = m.baselines[at];
            }
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                if (from + k >= end) break;
                const size_t at = static_cast<size_t>(from + k) * m.stride + x;
                counts[at] = c += v[k];
                const float off = static_cast<float>(c - b[k] * rate);
                excess[at] = off;
                most = fmaxf(most, fabsf(off));
            }
        }
    }
    return most;
}

// draw makes the counts of a null map and their excesses, and returns the largest error of these. It counts in table, which
// may be counts itself. Each number chooses one of the units of all baselines and, of learnt ones, of the draws before it, of which
// the number is computed again. Of Bernoulli's model the units are trials,
// of which none is drawn twice: numbers that choose a drawn one, noted in drawn, are followed by as many others. Where the
// cases are more than half of the trials, the others are drawn.
template <Form form>
static __device__ __forceinline__ float draw(const Map &m, uint32_t number, uint32_t *table, uint32_t *counts, float *excess,
                                             uint32_t *drawn, float *memory) {
    __shared__ int again;
    const Total total = m.head->total;
    const unsigned long long all = static_cast<unsigned long long>(total.baseline);
    const bool trials = form == general && m.model == bernoulli;
    const uint32_t k0 = static_cast<uint32_t>(m.head->key), k1 = static_cast<uint32_t>(m.head->key >> 32);
    const bool others = trials && total.baseline - total.count < total.count;
    for (int i = threadIdx.x; i < m.entries; i += blockDim.x) table[i] = 0;
    if (trials) {
        for (int i = threadIdx.x; i < static_cast<int>(all / 32) + 1; i += blockDim.x) drawn[i] = 0;
    }
    auto count = [&](unsigned long long unit, uint32_t cell) {
        while (m.before[cell + 1] <= unit) cell++;
        uint32_t y = cell / static_cast<uint32_t>(m.cols);
        atomicAdd(table + cell + y + m.stride + 1, 1u);  // after row 0, and after column 0 of each row
    };
    auto add = [&](uint32_t i, uint32_t low, uint32_t high) {
        unsigned long long x = static_cast<unsigned long long>(high) << 32 | low, units = m.learnt ? all + i : all;
        unsigned long long unit = static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * units >> 64);
        if (m.learnt) {
            while (unit >= all) {
                i = static_cast<uint32_t>(unit - all);
                uint4 v = philox(make_uint4(i / 2, 0, number, 0), k0, k1);
                x = i % 2 == 0 ? static_cast<unsigned long long>(v.y) << 32 | v.x : static_cast<unsigned long long>(v.w) << 32 | v.z;
                unit = static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * (all + i) >> 64);
            }
            // The index is rounded, so the one before it, which begins at the unit or before.
            int at = static_cast<int>(static_cast<double>(unit) / total.baseline * (1 << m.guided));
            count(unit, m.guide[max(at - 1, 0)]);
            return;
        }
        if (trials) {
            uint32_t bit = 1u << (unit & 31);
            if (atomicOr(drawn + (unit >> 5), bit) & bit) {
                atomicAdd(&again, 1);
                return;
            }
        }
        count(unit, m.guide[x >> (64 - m.guided)]);
    };
    for (int from = 0, n = static_cast<int>(others ? total.baseline - total.count : total.count); n > 0;) {
        if (threadIdx.x == 0) again = 0;
        __syncthreads();
        for (int i = from / 2 + threadIdx.x; 2 * i < from + n; i += blockDim.x) {
            uint4 v = philox(make_uint4(i, 0, number, 0), k0, k1);
            if (2 * i >= from) add(2 * i, v.x, v.y);
            if (2 * i + 1 >= from && 2 * i + 1 < from + n) add(2 * i + 1, v.z, v.w);
        }
        __syncthreads();
        from += n, n = trials ? again : 0;
        __syncthreads();
    }
    __syncthreads();
    for (int y = threadIdx.x >> 5; y < m.rows; y += blockDim.x >> 5) {
        uint32_t *row = table + static_cast<size_t>(y + 1) * m.stride + 1;
        const unsigned long long *before = m.before + static_cast<size_t>(y) * m.cols;
        sumRow(m.cols, row, [&](int x) { return others ? static_cast<uint32_t>(before[x + 1] - before[x]) - row[x] : row[x]; });
    }
    __syncthreads();
    return errorOf(largest(sumColumns(m, table, counts, excess), memory), total.count);
}

// Job is the search of a null map, in the memory of the block that has drawn it. Warps of all blocks of the task take
// strips of it.
struct Job {
    unsigned long long bar;  // bits of the largest ratio so far
    uint32_t next, done;     // strips that warps have taken, and how many of them are searched
    float error;             // of an excess
};
constexpr int jobBytes = 256;
constexpr int taken = 8;  // strips at a time

__device__ inline size_t nullBytes(const Map &m) {
    return jobBytes + 2 * rounded(static_cast<size_t>(m.entries) * 4) + (m.model == bernoulli ? rounded(mostTrials / 8 + 4) : 0);
}
__device__ inline Job &jobOf(const Map &m, int block) { return *reinterpret_cast<Job *>(m.null + block * nullBytes(m)); }
__device__ inline int stripsOf(const Map &m) { return stripsOf(m.rows, m.maxRows); }

// idle leaves no strip to take in the jobs of a task, before any of its blocks begins.
static __device__ void idle(const Map &m, int blocks, int block) {
    for (int i = threadIdx.x; block == 0 && i < blocks; i += blockDim.x) jobOf(m, i).next = static_cast<uint32_t>(stripsOf(m));
}

// work searches strips of the job of a block until all are taken. Once the highest ratio is reached, the others need not be
// searched, and a warp takes them all. The first strips that a warp takes may be of the map that follows in the same
// memory, so it reads what it knows of the map after them. The next map waits until the strips that a warp has taken are
// done.
template <Form form> static __device__ void work(const Map &m, Search<uint32_t, form> &s, const Strip &strip, int block, double highest) {
    Job &job = jobOf(m, block);
    const uint32_t all = static_cast<uint32_t>(stripsOf(m)), lane = threadIdx.x & 31;
    const uint32_t *counts = reinterpret_cast<const uint32_t *>(reinterpret_cast<unsigned char *>(&job) + jobBytes);
    __syncthreads();
    if (threadIdx.x == 0) {
        s.counts = counts, s.excess = reinterpret_cast<const float *>(counts) + rounded(static_cast<size_t>(m.entries) * 4) / 4;
        s.bar = &job.bar;
    }
    s.mine[threadIdx.x].ratio = 0;
    __syncthreads();
    double level = 0;
    uint32_t own = 0;
    for (;;) {
        uint32_t n = level < highest ? taken : all, first = 0;
        if (lane == 0) first = atomicAdd(&job.next, n);
        first = __shfl_sync(full, first, 0);
        if (first >= all) break;
        n = min(n, all - first);
        if (own == 0) {
            if (lane == 0) {
                __threadfence();
                s.error[threadIdx.x >> 5] = *static_cast<volatile float *>(&job.error);
                level = __longlong_as_double(static_cast<long long>(*static_cast<volatile unsigned long long *>(&job.bar)));
            }
            __syncwarp();  // all lanes read the error
            level = __shfl_sync(full, level, 0);
        }
        own += n;
        Strips i(m.rows, m.maxRows, static_cast<int>(first));
        for (uint32_t k = 0; k < n && level < highest; k++, i.next(1)) {
            for (int side = s.firstSide; i.some() && side <= s.lastSide; side++) level = searchStrip(s, side, strip, i.y, i.height, level);
        }
    }
    __syncwarp();
    if (lane == 0 && own > 0) __threadfence(), atomicAdd(&job.done, own);
}

// nulls counts the null maps whose ratio reaches each region's. A block draws maps of its own, and when none is left takes
// part in the search of others'.
template <Form form> static __device__ void nulls(const Map &m, int block, int blocks, unsigned char *memory) {
    __shared__ float reduced[33];
    __shared__ uint32_t number;
    __shared__ Search<uint32_t, form> s;
    Head *h = m.head;
    if (h->state != ended || h->found == 0) return;
    // Ratios below the lowest of the regions count for none, and the search of a map ends at the
    // highest, the first region's.
    const double lowest = h->region[h->found - 1].ratio, highest = h->region[0].ratio;
    const size_t table = rounded(static_cast<size_t>(m.entries) * 4);
    Job &job = jobOf(m, block);
    uint32_t *counts = reinterpret_cast<uint32_t *>(reinterpret_cast<unsigned char *>(&job) + jobBytes), *drawn = counts + 2 * table / 4;
    float *excess = reinterpret_cast<float *>(counts + table / 4);
    s.begin(m);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) number = atomicAdd(&h->next, 1u) * m.portions + m.portion;
        __syncthreads();
        if (number >= m.replicates) break;
        // The table has the memory of the strips, which are searched later.
        float error = tableFits(m) ? draw<form>(m, number, reinterpret_cast<uint32_t *>(memory), counts, excess, drawn, reduced)
                                   : draw<form>(m, number, counts, counts, excess, drawn, reduced);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            job.bar = static_cast<unsigned long long>(__double_as_longlong(lowest)) - 1, job.done = 0, job.error = error;
            __threadfence();
            atomicExch(&job.next, 0u);
        }
        work(m, s, Strip(memory, m.cols), block, highest);
        __syncthreads();
        if (threadIdx.x == 0) {  // other blocks may still search strips
            while (*static_cast<volatile uint32_t *>(&job.done) < static_cast<uint32_t>(stripsOf(m))) {
            }
            __threadfence();
        }
        __syncthreads();
        double reached = __longlong_as_double(static_cast<long long>(*static_cast<volatile unsigned long long *>(&job.bar)));
        if (threadIdx.x < h->found && reached >= h->region[threadIdx.x].ratio) atomicAdd(h->reached + threadIdx.x, 1u);
    }
    // Each thread looks at jobs. The block takes part in one that has strips left. It is chosen by chance, more likely one
    // with many strips: if all blocks chose the same job, it would soon have none left, and they would have to choose again.
    __shared__ unsigned long long choice;
    const uint32_t all = static_cast<uint32_t>(stripsOf(m));
    for (uint32_t turn = 0;; turn++) {
        __syncthreads();
        if (threadIdx.x == 0) choice = 0;
        __syncthreads();
        for (int k = threadIdx.x; k < blocks; k += blockDim.x) {
            const uint32_t next = *static_cast<volatile uint32_t *>(&jobOf(m, k).next);
            if (next >= all) continue;
            const uint32_t chance = (philox(make_uint4(block, k, turn, 1), static_cast<uint32_t>(h->key), 0).x >> 16) + 1;
            atomicMax(&choice, static_cast<unsigned long long>(all - next) * chance << 16 | k);
        }
        __syncthreads();
        if (choice == 0) return;
        work(m, s, Strip(memory, m.cols), static_cast<int>(choice & 0xffff), highest);
    }
}

}  // namespace scan
