// Op KNN: the smallest numbers of a list, selected by a warp. See knn.cu.
#pragma once
#include "device.h"
#include "knn_params.h"

namespace knn {

typedef unsigned long long Bits;  // bits of a double that is not negative: they ascend with it

constexpr uint32_t full = 0xffffffffu;
constexpr uint32_t none = 0xffffffffu;  // marks the absence of a neighbour
constexpr float nan = __builtin_nanf("");
constexpr float infinite = __builtin_huge_valf();

__device__ inline int sumOf(int v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(full, v, o);
    return v;
#else
    return static_cast<int>(__reduce_add_sync(full, static_cast<unsigned>(v)));
#endif
}

template <class T> __device__ inline T largest(T v) {
    for (int o = 16; o > 0; o >>= 1) {
        T w = __shfl_xor_sync(full, v, o);
        v = w > v ? w : v;
    }
    return v;
}

// greatest returns the largest of the lanes' numbers.
__device__ __forceinline__ uint32_t greatest(uint32_t v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return largest(v);
#else
    return __reduce_max_sync(full, v);
#endif
}

__device__ inline double sumOf(double v) {
    for (int o = 16; o > 0; o >>= 1) v = __dadd_rn(v, __shfl_xor_sync(full, v, o));
    return v;
}

__device__ inline Bits bitsOf(double v) { return static_cast<Bits>(__double_as_longlong(v)); }
__device__ inline double doubleOf(Bits b) { return __longlong_as_double(static_cast<long long>(b)); }

// countOf returns the number of a in [0, count) that satisfy is.
template <class Is> __device__ __forceinline__ int countOf(int count, Is is) {
    int mine = 0;
    for (int a = threadIdx.x & 31; a < count; a += 32) mine += is(a) ? 1 : 0;
    return sumOf(mine);
}

__device__ inline int topBit(uint32_t v) { return 31 - __clz(static_cast<int>(v)); }
__device__ inline int topBit(Bits v) { return 63 - __clzll(static_cast<long long>(v)); }

// rank returns one of count keys such that at least m keys are not above it, and without its ties at
// most m+slack. 1 <= m <= count.
template <class Key, class At> __device__ __forceinline__ Key rank(int count, int m, int slack, At at) {
    Key low = ~static_cast<Key>(0), high = 0;
    for (int a = threadIdx.x & 31; a < count; a += 32) {
        Key k = at(a);
        low = k < low ? k : low;
        high = k > high ? k : high;
    }
    low = ~largest(static_cast<Key>(~low));
    high = largest(high);
    if (low == high) return low;
    int top = topBit(low ^ high);  // above it all are equal
    Key t = low >> top >> 1 << top << 1;
    for (int bit = top; bit >= 0; bit--) {
        Key more = t | static_cast<Key>(1) << bit;
        int below = countOf(count, [&](int a) { return at(a) < more; });
        if (below < m) {
            t = more;
        } else if (below <= m + slack) {
            high = 0;
            for (int a = threadIdx.x & 31; a < count; a += 32) {
                Key k = at(a);
                if (k < more && k > high) high = k;
            }
            return largest(high);
        }
    }
    return t;
}

// keep moves the entries that satisfy stays to the front, in their order, and returns their number.
template <class T, class Stays> __device__ __forceinline__ int keep(T *list, int count, Stays stays) {
    int lane = threadIdx.x & 31, kept = 0;
    for (int first = 0; first < count; first += 32) {
        int a = first + lane;
        bool stay = a < count && stays(a);
        T v = list[a < count ? a : first];
        uint32_t b = __ballot_sync(full, stay);
        __syncwarp();
        if (stay) list[kept + __popc(b & ((1u << lane) - 1))] = v;
        kept += __popc(b);
        __syncwarp();
    }
    return kept;
}

// Wanted has a query's neighbours, by a task's parameters and the number of other points.
struct Wanted {
    int k, self, others;  // neighbours; whether itself is one; other points
    bool listed;
};

__device__ inline Wanted wantedOf(const KnnParams &p, int there) {
    Wanted w;
    w.k = p.k;
    w.self = p.includeSelf != 0;
    w.others = min(w.k - w.self, there);
    w.listed = p.neighbours != 0;
    return w;
}

// weight returns the score for the sum of the distances to the others.
__device__ inline float weight(const Wanted &w, double sum) {
    int count = w.others + w.self;
    if (count == 0) return nan;
    double score = __ddiv_rn(__dmul_rn(sum, static_cast<double>(w.k)), static_cast<double>(count));
    const double most = 3.40282346638528859811704183484516925e+38;
    return static_cast<float>(score > most ? most : score);
}

// leave writes a point's neighbours: itself, if it counts, then the others by square and number. The
// list has count entries, of which those with squares up to last may be neighbours; spoilt: none. The
// whole warp calls it.
template <class Square, class Number> __device__ inline void leave(float *next, const Wanted &w, bool spoilt, int own, int count, Bits last, Square square, Number number) {
    int lane = threadIdx.x & 31;
    int own1 = w.self && !spoilt ? 1 : 0, have = spoilt ? 0 : w.others;
    for (int a = lane; a < w.k; a += 32) {
        if (a == 0 && own1) next[a] = __uint_as_float(static_cast<uint32_t>(own));
        else if (a >= own1 + have) next[a] = __uint_as_float(none);
    }
    for (int a = 0; a < (have > 0 ? count : 0); a++) {
        Bits s = square(a);
        if (s > last) continue;
        int mine = number(a);
        int before = countOf(count, [&](int b) { return square(b) < s || (square(b) == s && number(b) < mine); });
        if (lane == 0 && before < have) next[own1 + before] = __uint_as_float(static_cast<uint32_t>(mine));
    }
}

// squareOf returns the squared distance of two points, as in the definition.
__device__ inline double squareOf(const float *x, const float *y, int width) {
    double sum = 0;
    for (int c = 0; c < width; c++) {
        double e = __dsub_rn(static_cast<double>(x[c]), static_cast<double>(y[c]));
        sum = __dadd_rn(sum, __dmul_rn(e, e));
    }
    return sum;
}

// before scores fresh points among those before them in their windows, a warp a point, all in float64:
// each score comes with a window, whose transfer takes longer. Shared memory has the squares of a
// window for each warp.
__device__ inline void before(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(double, squares);
    const Tile &tile = tiles[blockIdx.x];
    int lane = threadIdx.x & 31;
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        __syncthreads();  // the warps' shares of the squares differ from the last task's
        const Task &t = tasks[i];
        const KnnParams &p = paramsOf<KnnParams>(t, f32);
        const float *x = f32 + t.x.off;
        int dim = t.dim, m = p.embed, points = p.points;
        int rows = t.x.len / t.dim, fresh = t.fresh, width = dim * m;
        double *square = squares + (threadIdx.x >> 5) * max(min(points - 1, rows - m), 1);
        for (int f = threadIdx.x >> 5; f < fresh; f += blockDim.x >> 5) {
            int at = rows - fresh + f + 1 - m, from = max(0, at + 1 - points), count = at - from;
            const float *own = x + static_cast<size_t>(at) * dim, *first = x + static_cast<size_t>(from) * dim;
            bool spoilt = false;
            for (int c = lane; c < width; c += 32) spoilt = spoilt || own[c] - own[c] != 0;
            for (int a = lane; a < count; a += 32) {
                double s = squareOf(own, first + static_cast<size_t>(a) * dim, width);
                spoilt = spoilt || !(s - s == 0);
                square[a] = s;
            }
            spoilt = __any_sync(full, spoilt);
            __syncwarp();
            Wanted w = wantedOf(p, count);
            Bits last = 0;
            double sum = 0;
            if (!spoilt && w.others > 0) {
                last = rank<Bits>(count, w.others, 0, [&](int a) { return bitsOf(square[a]); });
                double far = doubleOf(last);
                int nearer = 0;
                for (int a = lane; a < count; a += 32) {
                    if (square[a] < far) {
                        nearer++;
                        sum = __dadd_rn(sum, __dsqrt_rn(square[a]));
                    }
                }
                nearer = sumOf(nearer);
                sum = __dadd_rn(sumOf(sum), __dmul_rn(static_cast<double>(w.others - nearer), __dsqrt_rn(far)));
            }
            if (lane == 0) out[t.scores.off + f] = spoilt ? nan : weight(w, sum);
            if (w.listed) {
                leave(out + t.detail.off + static_cast<size_t>(f) * w.k, w, spoilt, at, count, last, [&](int a) { return bitsOf(square[a]); },
                      [&](int a) { return from + a; });
            }
            __syncwarp();
        }
    }
}

}  // namespace knn
