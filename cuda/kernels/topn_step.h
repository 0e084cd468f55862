// Op topn: what a block does between the launches for a set. See topn.cu.
#pragma once
#include "topn_set.h"

namespace topn {

// select returns the key of rank m, from 1 on and the largest first, of the ones among count entries that count. All of
// the block's threads call it. 1 <= m <= entries that count; keys of bits bits.
template <class Key, class Counts> __device__ __forceinline__ unsigned long long select(int count, int m, int bits, Key key, Counts counts) {
    __shared__ uint32_t bins[256];
    __shared__ unsigned long long prefix;
    __shared__ int left;
    if (threadIdx.x == 0) prefix = 0, left = m;
    for (int shift = bits - 8; shift >= 0; shift -= 8) {
        if (threadIdx.x < 256) bins[threadIdx.x] = 0;
        __syncthreads();
        const unsigned long long high = prefix;
        for (int a = threadIdx.x; a < count; a += blockDim.x) {
            if (!counts(a)) continue;
            const unsigned long long k = key(a);
            if (shift + 8 == bits || k >> (shift + 8) == high) atomicAdd(&bins[k >> shift & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x < 32) {  // lane l has the bins from 255-8l down
            const int top = 255 - 8 * static_cast<int>(threadIdx.x);
            int sum = 0;
            for (int i = 0; i < 8; i++) sum += bins[top - i];
            int before = sum;
            for (int o = 1; o < 32; o *= 2) {
                const int v = __shfl_up_sync(full, before, o);
                if (static_cast<int>(threadIdx.x) >= o) before += v;
            }
            before -= sum;
            const int want = left;
            __syncwarp();
            if (before < want && want <= before + sum) {
                int i = 0;
                for (; before + static_cast<int>(bins[top - i]) < want; i++) before += bins[top - i];
                prefix = high << 8 | static_cast<unsigned long long>(top - i);
                left = want - before;
            }
        }
        __syncthreads();
    }
    return prefix;
}

// raise sets the cut, and the square within which a point of a lower weight has its neighbours.
__device__ inline void raise(const Set &s) {
    Header &h = *s.header;
    const int found = h.found;
    if (found < s.top) return;
    const double cut = knn::doubleOf(select(found, s.top, 64, [&](int a) { return knn::bitsOf(s.weights[a]); }, [](int) { return true; }));
    if (threadIdx.x != 0) return;
    h.cut = cut;
    const double scale = h.index.scale;
    const double far = cut * (s.others + s.self) / (static_cast<double>(s.k) * s.others) * scale;
    float near = __double2float_rd(far * far * (1 - (s.wide + 8) * 0x1p-22) - s.wide * 0x1p-140);
    if (!(near > 0)) near = cut == 0 && !h.index.tiny ? 0 : -1;
    h.near = near;
}

// pick lists the points alive with the fewest others near.
__device__ inline void pick(const Set &s) {
    __shared__ int limit;
    Header &h = *s.header;
    const int alive = h.alive;
    if (threadIdx.x == 0) {
        uint32_t sum = 0;
        limit = 0;
        for (; limit < s.others && (sum += h.counts[limit]) < strongPoints; limit++) {}
        h.strong = 0;
    }
    __syncthreads();
    for (int a = threadIdx.x; a < alive; a += blockDim.x) {
        const uint32_t v = s.alive[a];
        if (static_cast<int>(v >> 22) > limit) continue;
        const uint32_t at = atomicAdd(&h.strong, 1u);
        if (at < strongMost) s.strong[at] = v & 0x3fffff;
    }
    __syncthreads();
    if (threadIdx.x == 0) h.strong = min(h.strong, static_cast<uint32_t>(strongMost));
}

// finish writes the largest weights.
__device__ inline void finish(const Set &s, float *out) {
    __shared__ int above, equal;
    const int found = s.header->found;
    double cut = -1;
    unsigned long long last = 0;  // the largest complement of a point's number that is out
    if (found > s.top) {
        cut = knn::doubleOf(select(found, s.top, 64, [&](int a) { return knn::bitsOf(s.weights[a]); }, [](int) { return true; }));
        if (threadIdx.x == 0) above = equal = 0;
        __syncthreads();
        for (int a = threadIdx.x; a < found; a += blockDim.x) {
            if (s.weights[a] > cut) atomicAdd(&above, 1);
            else if (s.weights[a] == cut) atomicAdd(&equal, 1);
        }
        __syncthreads();
        if (equal > s.top - above) {
            last = select(found, s.top - above, 32, [&](int a) { return static_cast<unsigned long long>(~s.of[a]); },
                          [&](int a) { return s.weights[a] == cut; });
        }
    }
    for (int a = threadIdx.x; a < found; a += blockDim.x) {
        const double w = s.weights[a];
        const uint32_t point = s.of[a];
        const int to = static_cast<int>(point) - (s.n - s.fresh);
        if (to < 0 || !(w > cut || (w == cut && static_cast<unsigned long long>(~point) >= last))) continue;
        const double largest = 3.40282346638528859811704183484516925e+38;
        out[s.task->scores.off + to] = static_cast<float>(w > largest ? largest : w);
    }
}

// step follows each launch that searches or counts.
__device__ inline void step(const Set &s, float *out, uint32_t *status, uint32_t task) {
    Header &h = *s.header;
    if (h.index.spoilt) return;
    const uint32_t phase = h.phase;
    const bool counted = phase == 1 || phase == 3;
    if (phase == 5) {
        finish(s, out);
        return;
    }
    if (counted) pick(s);
    else raise(s);
    __syncthreads();
    if (phase == 3 && s.wide > 4 && static_cast<double>(h.alive) * s.n * s.wide > 0x1p42) {
        // Of too many points only a search of all others tells the weight.
        if (threadIdx.x == 0) {
            status[task] = statusLeft;
            h.index.spoilt = 1;
        }
        return;
    }
    if (!counted && phase < 3) {
        for (int a = threadIdx.x; a <= othersMost; a += blockDim.x) h.counts[a] = 0;
        if (threadIdx.x == 0) h.alive = 0;
    }
    if (threadIdx.x == 0) {
        h.next = 0;
        h.phase = phase + 1;
    }
}

}  // namespace topn
