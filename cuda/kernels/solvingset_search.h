// The algorithm SolvingSet for a block: detectors/knn/solvingset.go has the sequential form, of which each point's sum and each bound
// are these, to the bit. So are the candidates, in their order.
#pragma once
#include "solvingset_level.h"

namespace solvingset {

constexpr int wide = 16;  // candidates that are compared at a time, or fresh points
constexpr int mostDim = 64, mostOthers = 128, mostTop = 256, mostCandidates = 100;  // limits of cuda/plan/solvingset.go

// Shared is a block's shared memory.
struct Shared {
    double query[mostDim * wide];      // candidates, or fresh points: value v of the c-th at v * wide + c
    double nearest[warps][mostOthers];  // of each warp, the least first
    double topWeight[mostTop], bound[warps], origin[mostDim];
    int topAt[mostTop], at[warps], candidates[mostCandidates];
    int top, found, count;
};

// shared returns it, in the address space that a reference as a parameter would not have.
__device__ __forceinline__ Shared &shared() {
    __shared__ Shared s;
    return s;
}

// Points are points of width values; the p-th begins at value at[p] of x.
struct Points {
    const double *x;
    const int *at;
    int n, width;

    __device__ const double *operator[](int p) const { return x + at[p]; }
};

enum State : unsigned char { active, inactive, compared };

// Search is a search for a set; its arrays are scratch memory, with the n points side by side.
struct Search {
    Points points;
    int k, others, outliers, candidates, most;
    double *near;      // of each point a heap of the least distances so far, the largest first
    double *sum;       // of these
    double *rest;      // weights among the set of points that are active when it is cut off; -1: of others
    double *distance;  // to the candidates compared at a time
    unsigned char *state;
    int *set;
};

// push adds a distance to a heap with filled of its others values, n doubles from one value to the next.
__device__ inline void push(double *heap, int n, int filled, int others, double d) {
    auto value = [&](int i) -> double & { return heap[static_cast<size_t>(i) * n]; };
    if (filled < others) {
        int i = filled;
        for (int up = (i - 1) / 2; i > 0 && value(up) < d; up = (i - 1) / 2) {
            value(i) = value(up);
            i = up;
        }
        value(i) = d;
        return;
    }
    int i = 0;
    for (int down = 1; down < others; down = 2 * i + 1) {
        if (down + 1 < others && value(down + 1) > value(down)) down++;
        if (value(down) <= d) break;
        value(i) = value(down);
        i = down;
    }
    value(i) = d;
}

// distances computes the distances of point p to the queries.
__device__ __noinline__ void distances(const Points &points, int p, double *to) {
    double sum[wide];
    const double *x = points[p], *queries = shared().query;
#pragma unroll
    for (int c = 0; c < wide; c++) sum[c] = 0;
    for (int v = 0; v < points.width; v++) {
        double at = x[v];
        const double *query = queries + v * wide;
#pragma unroll
        for (int c = 0; c < wide; c++) {
            double d = __dsub_rn(at, query[c]);
            sum[c] = __dadd_rn(sum[c], __dmul_rn(d, d));
        }
    }
#pragma unroll
    for (int c = 0; c < wide; c++) to[static_cast<size_t>(c) * points.n + p] = fmin(__dsqrt_rn(sum[c]), mostDouble);
}

// sumOfLeast returns the sum of the k least of n distances, of which k are finite, in their order. All lanes of a warp call it.
__device__ __noinline__ double sumOfLeast(const double *distance, int n, int k) {
    const int lane = threadIdx.x & 31;
    double *nearest = shared().nearest[threadIdx.x >> 5];
    int count = 0;
    double bound = inf;
    for (int base = 0; base < n; base += 128) {
        bool any = false;
#pragma unroll
        for (int i = 0; i < 128; i += 32) {
            int p = base + i + lane;
            any |= p < n && distance[p] < bound;
        }
        if (!__any_sync(full, any)) continue;
        for (int i = 0; i < 128; i += 32) {
            int p = base + i + lane;
            double d = p < n ? distance[p] : inf;
            for (uint32_t left = __ballot_sync(full, d < bound); left != 0;) {
                int from = __ffs(left) - 1;
                double v = __shfl_sync(full, d, from);
                int end = min(count, k - 1);  // the last value leaves a full list
                for (int first = end & ~31; first >= 0; first -= 32) {
                    int at = first + lane;
                    double own = at < end ? nearest[at] : inf, before = at > 0 && at <= end ? nearest[at - 1] : -inf;
                    __syncwarp();
                    if (at <= end && !(own <= v)) nearest[at] = before <= v ? v : before;
                    __syncwarp();
                }
                count = min(count + 1, k);
                if (count == k) bound = nearest[k - 1];
                left &= left - 1;
                left &= __ballot_sync(full, d < bound);
            }
        }
    }
    double sum = 0;
    for (int i = 0; i < count; i++) sum = __dadd_rn(sum, nearest[i]);
    __syncwarp();
    return sum;
}

// scaled is scaleToK of package knn.
__device__ inline double scaled(double sum, int k, int n) { return __ddiv_rn(__dmul_rn(sum, k), n); }

// mayReach reports whether the weight of point p may still be among the largest, whose last is at place lastAt with the weight least.
__device__ inline bool mayReach(const Search &m, int p, double least, int lastAt) {
    if (m.sum[p] > least) return true;
    double sum = 0;
    for (int i = 0; i < m.others; i++) sum = __dadd_rn(sum, m.near[static_cast<size_t>(i) * m.points.n + p]);
    double bound = __dmul_rn(scaled(sum, m.k, m.others), __dadd_rn(1, __dmul_rn(m.others, 0x1p-51)));
    return bound > least || (bound == least && p < lastAt);
}

// compare compares count candidates with all points, filled others of which each active point has been compared with before.
__device__ inline void compare(const Search &m, int count, int filled) {
    Shared &s = shared();
    const int n = m.points.n;
    for (int first = 0; first < count; first += wide) {
        const int some = min(wide, count - first);
        for (int i = threadIdx.x; i < m.points.width * wide; i += threads) {
            int c = i % wide, v = i / wide;
            s.query[i] = c < some ? m.points[s.candidates[first + c]][v] : 0;
        }
        __syncthreads();
        for (int p = threadIdx.x; p < n; p += threads) {
            distances(m.points, p, m.distance);
            if (m.state[p] != active) continue;
            double *heap = m.near + p, sum = m.sum[p];
            for (int c = 0; c < some; c++) {
                double d = m.distance[static_cast<size_t>(c) * n + p];
                int have = min(filled + first + c, m.others);
                if (have < m.others) {
                    sum = __dadd_rn(sum, d);
                } else {
                    double most = heap[0];
                    if (d >= most) continue;
                    sum = __dadd_rn(sum, __dsub_rn(d, most));
                }
                push(heap, n, have, m.others, d);
            }
            m.sum[p] = sum;
        }
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < some) {  // no neighbour of itself
            m.distance[static_cast<size_t>(threadIdx.x) * n + s.candidates[first + threadIdx.x]] = inf;
        }
        __syncthreads();
        const int warp = threadIdx.x >> 5;
        for (int c = warp; c < some; c += warps) {
            double weight = scaled(sumOfLeast(m.distance + static_cast<size_t>(c) * n, n, m.others), m.k, m.others);
            if ((threadIdx.x & 31) == 0) s.query[c] = weight;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int c = 0; c < some; c++) {
                double weight = s.query[c];
                int at = s.candidates[first + c], i = s.top;
                auto before = [&](int j) { return s.topWeight[j] > weight || (s.topWeight[j] == weight && s.topAt[j] < at); };
                if (i == m.outliers && before(i - 1)) continue;
                if (i == m.outliers) i--;
                else s.top++;
                for (; i > 0 && !before(i - 1); i--) s.topWeight[i] = s.topWeight[i - 1], s.topAt[i] = s.topAt[i - 1];
                s.topWeight[i] = weight, s.topAt[i] = at;
            }
        }
        __syncthreads();
    }
}

// cutOff sets rest. The heaps stay heaps: their values are in falling order then.
__device__ __noinline__ void cutOff(const Search &m) {
    const size_t n = m.points.n;
    for (int p = threadIdx.x; p < static_cast<int>(n); p += threads) {
        double *near = m.near + p, sum = 0;
        m.rest[p] = -1;
        if (m.state[p] != active) continue;
        for (int i = 1; i < m.others; i++) {
            double d = near[i * n];
            int to = i;
            for (; to > 0 && near[(to - 1) * n] < d; to--) near[to * n] = near[(to - 1) * n];
            near[to * n] = d;
        }
        for (int i = m.others - 1; i >= 0; i--) sum = __dadd_rn(sum, near[i * n]);
        m.rest[p] = sum;
    }
}

// firstCandidates chooses the first candidates, points by the hash of their index.
__device__ __noinline__ void firstCandidates(const Search &m) {
    Shared &s = shared();
    const int n = m.points.n;
    for (int i = 0; i < min(m.candidates, n); i++) {
        uint64_t z = static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        int at = static_cast<int>((z ^ z >> 31) % static_cast<uint64_t>(n));
        while (m.state[at] == compared) at = at + 1 == n ? 0 : at + 1;
        m.state[at] = compared;
        s.candidates[i] = at;
    }
}

// Best is a thread's active point of the largest bound.
struct Best {
    double bound;
    int at;

    __device__ bool operator<(const Best &o) const { return bound < o.bound || (bound == o.bound && at > o.at); }
};

__device__ __noinline__ Best bestOf(const Search &m, bool filled) {
    Best best = {-inf, 0x7fffffff};
    for (int p = threadIdx.x; p < m.points.n; p += threads) {
        Best own = {filled && m.state[p] == active ? m.sum[p] : inf, p};
        if (m.state[p] == active && best < own) best = own;
    }
    return best;
}

// choose chooses the count active points of the largest bounds as candidates.
__device__ __noinline__ void choose(const Search &m, int count, bool filled) {
    Shared &s = shared();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    Best own = bestOf(m, filled);
    for (int i = 0; i < count; i++) {
        Best best = own;
        for (int o = 16; o > 0; o >>= 1) {
            Best other = {__shfl_xor_sync(full, best.bound, o), __shfl_xor_sync(full, best.at, o)};
            if (best < other) best = other;
        }
        if (lane == 0) s.bound[warp] = best.bound, s.at[warp] = best.at;
        __syncthreads();
        for (int w = 0; w < warps; w++) {
            Best other = {s.bound[w], s.at[w]};
            if (best < other) best = other;
        }
        __syncthreads();
        if (best.at == own.at) {
            s.candidates[i] = best.at;
            m.state[best.at] = compared;
            own = bestOf(m, filled);
        }
    }
    __syncthreads();
}

// search finds a set, whose size it returns, and its cut.
__device__ inline int search(const Search &m, double *cut) {
    Shared &s = shared();
    const int n = m.points.n;
    for (int p = threadIdx.x; p < n; p += threads) m.state[p] = active, m.sum[p] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        s.top = 0;
        firstCandidates(m);
    }
    __syncthreads();
    int size = 0, all = 0;  // points of the set, and candidates so far
    bool whole = true;      // the set has all candidates
    for (int count = min(m.candidates, n), due = count; count > 0;) {
        for (int i = threadIdx.x; i < count && whole; i += threads) m.set[size + i] = s.candidates[i];
        size += whole ? count : 0;
        compare(m, count, all);
        all += count;
        if (whole && count < due) {
            whole = false;
            cutOff(m);
        }
        const bool filled = all >= m.others, sure = s.top < m.outliers;
        const double least = sure ? -inf : s.topWeight[m.outliers - 1];
        const int lastAt = sure ? 0 : s.topAt[m.outliers - 1];
        if (threadIdx.x == 0) s.count = 0;
        __syncthreads();
        int reaching = 0;
        for (int p = threadIdx.x; p < n; p += threads) {
            if (m.state[p] != active) continue;
            if (!filled || sure || mayReach(m, p, least, lastAt)) reaching++;
            else m.state[p] = inactive;
        }
        if (reaching > 0) atomicAdd(&s.count, reaching);
        __syncthreads();
        due = min(m.candidates, s.count);
        if (whole && due > 0 && size == m.most) {
            whole = false;
            cutOff(m);
        }
        count = whole ? min(due, m.most - size) : due;
        choose(m, count, filled);
    }
    *cut = s.topWeight[s.top - 1];
    if (!whole) {
        for (int i = threadIdx.x; i < s.top; i += threads) m.rest[s.topAt[i]] = -1;
        __syncthreads();
        double most = *cut;
        for (int p = threadIdx.x; p < n; p += threads) most = max(most, m.rest[p]);
        for (int o = 16; o > 0; o >>= 1) most = max(most, __shfl_xor_sync(full, most, o));
        if ((threadIdx.x & 31) == 0) s.bound[threadIdx.x >> 5] = most;
        __syncthreads();
        for (int w = 0; w < warps; w++) *cut = max(*cut, s.bound[w]);
    }
    return size;
}

}  // namespace solvingset
