// Points of one coordinate, in ascending order in a block's shared memory, where the nearest neighbours
// of a point lie beside it. Ops LOF and KNN include this; detectors/vec/line.go is the same on the CPU.
#pragma once
#include "device.h"

namespace line {

using Key = unsigned long long;

// keyOf returns a key in the order of the coordinate, then of the point's number. -0 becomes 0.
__device__ __forceinline__ Key keyOf(float v, int number) {
    uint32_t b = __float_as_uint(__fadd_rn(v, 0.0f));
    b ^= static_cast<uint32_t>(static_cast<int32_t>(b) >> 31) | 0x80000000u;
    return static_cast<Key>(b) << 32 | static_cast<uint32_t>(number);
}

__device__ __forceinline__ float coordinateOf(Key key) {
    uint32_t b = static_cast<uint32_t>(key >> 32);
    b ^= ~static_cast<uint32_t>(static_cast<int32_t>(b) >> 31) | 0x80000000u;
    return __uint_as_float(b);
}

constexpr Key padding = ~static_cast<Key>(0);

__device__ __forceinline__ void exchange(Key &a, Key &b, bool rising) {
    bool swap = (b < a) == rising;
    Key low = swap ? b : a, high = swap ? a : b;
    a = low, b = high;
}

// sort sorts the block's keys, E a thread, in ascending order: thread t gets the ones of ranks tE to
// tE+E-1. Bitonic (Batcher, Sorting networks and their applications, 1968): exchanges over distances
// below E are within a thread, those below 32E within a warp, and the others use spare, which has room
// for all keys. The whole block calls it; it contains barriers.
template <int E> __device__ __forceinline__ void sort(Key (&key)[E], Key *spare) {
    int t = threadIdx.x, all = E * blockDim.x;
#pragma unroll
    for (int size = 2; size <= E; size *= 2) {
#pragma unroll
        for (int apart = size / 2; apart > 0; apart /= 2) {
#pragma unroll
            for (int r = 0; r < E; r++) {
                if ((r & apart) == 0) exchange(key[r], key[r | apart], size < E ? (r & size) == 0 : (t & 1) == 0);
            }
        }
    }
    for (int size = 2 * E; size <= all; size *= 2) {
        bool rising = (t * E & size) == 0;
        for (int apart = size / 2; apart >= E; apart /= 2) {
            int other = apart / E;
            bool lesser = ((t & other) == 0) == rising;
            if (other < 32) {
#pragma unroll
                for (int r = 0; r < E; r++) {
                    Key k = __shfl_xor_sync(0xffffffffu, key[r], other);
                    key[r] = (k < key[r]) == lesser ? k : key[r];
                }
                continue;
            }
#pragma unroll
            for (int r = 0; r < E; r++) spare[r * blockDim.x + t] = key[r];
            __syncthreads();
#pragma unroll
            for (int r = 0; r < E; r++) {
                Key k = spare[r * blockDim.x + (t ^ other)];
                key[r] = (k < key[r]) == lesser ? k : key[r];
            }
            __syncthreads();
        }
#pragma unroll
        for (int apart = E / 2; apart > 0; apart /= 2) {
#pragma unroll
            for (int r = 0; r < E; r++) {
                if ((r & apart) == 0) exchange(key[r], key[r | apart], rising);
            }
        }
    }
}

// Points are the points of a window.
struct Points {
    const float *x;      // coordinates, ascending
    const uint16_t *at;  // the points' numbers, ascending where coordinates are equal
    int n, k;            // points; neighbours of each, 1 <= k < n
};

// fill sorts the n coordinates in `of`, E a thread, into x and at. It returns false where one is not
// finite. spare has room for E keys a thread. The whole block calls it; it contains barriers.
template <int E> __device__ __forceinline__ bool fill(const float *of, int n, float *x, uint16_t *at, Key *spare) {
    Key key[E];
    bool spoilt = false;
#pragma unroll
    for (int r = 0; r < E; r++) {
        int i = r * blockDim.x + threadIdx.x;
        float v = i < n ? of[i] : 0;
        spoilt = spoilt || !(v - v == 0);
        key[r] = i < n ? keyOf(v, i) : padding;
    }
    if (__syncthreads_or(spoilt)) return false;
    sort<E>(key, spare);
#pragma unroll
    for (int r = 0; r < E; r++) {
        int p = threadIdx.x * E + r;
        x[p] = coordinateOf(key[r]);
        at[p] = static_cast<uint16_t>(key[r]);
    }
    __syncthreads();
    return true;
}

// Near has the neighbours of the point at a position: those at positions [from, to) without the point
// itself; and of those at [tied, end) all where last is below 0, otherwise those outside [from, to)
// with numbers up to last.
struct Near {
    int from, to, tied, end, last;
    double far;  // the distance to the k-th neighbour
};

// Range is a compact Near without last.
struct __align__(8) Range {
    uint16_t from, to, tied, end;
};

constexpr uint16_t unknown = 0xffff;  // from of a Range that near has to find again

__device__ __forceinline__ Range rangeOf(const Near &r) {
    return {r.last < 0 ? static_cast<uint16_t>(r.from) : unknown, static_cast<uint16_t>(r.to), static_cast<uint16_t>(r.tied), static_cast<uint16_t>(r.end)};
}

// first returns the first position in [from, to) whose coordinate satisfies is; to if there is none.
// The coordinates before it do not.
template <class Is> __device__ __forceinline__ int first(int from, int to, Is is) {
    while (from < to) {
        int middle = (from + to) >> 1;
        if (is(middle)) to = middle;
        else from = middle + 1;
    }
    return from;
}

// countOf returns the number of a below most before the first that satisfies is. The number is small,
// so the search doubles its distances.
template <class Is> __device__ __forceinline__ int countOf(int most, Is is) {
    int from = 0, at = 0;
    for (int step = 1; at < most && !is(at); step *= 2) from = at + 1, at += step;
    return first(from, min(at, most), is);
}

// tie finds the neighbours of the point at position i among equally far points: more than needed are as
// far as the farthest of k+1 points from position at on. The first in time are neighbours.
static __device__ __noinline__ Near tie(const Points &p, int i, int at, double far) {
    const float *x = p.x;
    double q = x[i];
    auto distance = [&](int j) { return fabs(static_cast<double>(x[j]) - q); };
    int top = at + p.k;
    // Points from begin to end-1 are at most as far, those from a to b-1 nearer.
    int begin = at - countOf(at, [&](int c) { return distance(at - 1 - c) > far; });
    int a = at + countOf(i - at, [&](int c) { return distance(at + c) < far; });
    int b = top + 1 - countOf(top - i, [&](int c) { return distance(top - c) < far; });
    int end = top + 1 + countOf(p.n - top - 1, [&](int c) { return distance(top + 1 + c) > far; });
    int want = p.k - (b - a - 1);
    if (x[begin] == x[max(a - 1, begin)] && x[end - 1] == x[min(b, end - 1)]) {
        // Two runs in the order of time: the first `want` of both.
        int low = max(0, want - (end - b)), high = min(want, a - begin);
        int below = first(low, high, [&](int u) { return p.at[begin + u] > p.at[b + want - u - 1]; });
        return {a, b + want - below, begin, begin + below, -1, far};
    }
    // Different points that are equally far by rounding: bisection finds the number of the last.
    int last = first(0, p.n, [&](int number) {
        int count = 0;
        for (int j = begin; j < end; j++) count += (j < a || j >= b) && p.at[j] <= number;
        return count >= want;
    });
    return {a, b, begin, end, last, far};
}

// near finds the neighbours of the point at position i: of equally far points the first in time.
//
// Where more than k others equal the point, it returns any k of them: far is then 0.
__device__ __forceinline__ Near near(const Points &p, int i) {
    const float *x = p.x;
    double q = x[i];
    int at = first(max(0, i - p.k), min(i, p.n - 1 - p.k), [&](int a) { return !(x[a + p.k + 1] - q < q - x[a]); });
    double far = fmax(q - x[at], x[at + p.k] - q);
    if (far > 0 && ((at > 0 && q - x[at - 1] == far) || (at + p.k + 1 < p.n && x[at + p.k + 1] - q == far))) return tie(p, i, at, far);
    return {at, at + p.k + 1, 0, 0, -1, far};
}

// nearOf is near without far, from the Range that rangeOf has stored.
__device__ __forceinline__ Near nearOf(const Points &p, int i, Range r) {
    if (r.from == unknown) return near(p, i);
    return {r.from, r.to, r.tied, r.end, -1, 0};
}

// sumOf adds up of(position) over the neighbours of the point at position i.
template <class Of> __device__ __forceinline__ double sumOf(const Points &p, const Near &r, int i, Of of) {
    double sum = 0;
#pragma unroll 4
    for (int j = r.from; j < r.to; j++) {
        double v = of(j);
        sum = __dadd_rn(sum, j == i ? 0 : v);
    }
    for (int j = r.tied; j < r.end; j++) {
        if (r.last < 0 || ((j < r.from || j >= r.to) && p.at[j] <= r.last)) sum = __dadd_rn(sum, of(j));
    }
    return sum;
}

// mark sets the bits of the neighbours' positions and of i itself.
__device__ inline void mark(const Points &p, const Near &r, uint32_t *bits) {
    auto run = [&](int from, int to) {
        for (int word = from >> 5; from < to; from = ++word << 5) {
            int end = min(to, (word + 1) << 5), count = end - from;
            atomicOr(bits + word, (count == 32 ? 0xffffffffu : (1u << count) - 1) << (from & 31));
        }
    };
    run(r.from, r.to);
    run(r.tied, r.end);  // with last also some that are no neighbours, which does no harm
}

}  // namespace line
