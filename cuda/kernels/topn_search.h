// Op topn: the weight of a point. See topn.cu.
#pragma once
#include "topn_set.h"

namespace topn {

constexpr int room = 2 * othersMost + 32;  // squares of a list
constexpr int around = 8;   // leaves before and after a point's own that are searched first

// List has the squares of a warp's point to others, of which those below far may be among the least.
struct List {
    double squares[room];
    int count;
    float limit;  // of float32 squares
    double far;   // the square of the last of the least
};

// shorten keeps the least squares, and returns false if the weight is below the cut. The whole warp calls it.
static __device__ __attribute__((noinline)) bool shorten(const Set &s, List &list) {
    const int lane = threadIdx.x & 31, others = s.others, count = list.count;
    if (count < others) return true;
    const knn::Bits last = knn::rank<knn::Bits>(count, others, 0, [&](int a) { return knn::bitsOf(list.squares[a]); });
    const double far = knn::doubleOf(last);
    const int nearer = knn::keep(list.squares, count, [&](int a) { return list.squares[a] < far; });
    for (int a = nearer + lane; a < others; a += 32) list.squares[a] = far;
    __syncwarp();
    double sum = 0;
    for (int a = lane; a < others; a += 32) sum += __dsqrt_rn(list.squares[a]);
    sum = knn::sumOf(sum);
    if (lane == 0) {
        const double scale = s.header->index.scale;
        list.count = others;
        list.far = far;
        // Rounding takes (W+2) 2^-24 of a square, and what is lost where it underflows.
        list.limit = __double2float_ru(far * scale * scale * (1 + (s.wide + 8) * 0x1p-23) + s.wide * 0x1p-140);
    }
    __syncwarp();
    return !(scaled(s, sum) * (1 + 0x1p-30) < s.header->cut);
}

// visit adds the points of a leaf to the list, and returns false if the point is not among the largest.
template <int W> __device__ __forceinline__ bool visit(const Set &s, int leaf, int place, const Row<W> &q, List &list) {
    const int lane = threadIdx.x & 31, other = leaf * leafPoints + lane;
    const float d = squareOf<W>(rowAt<W>(s.points, other), q);
    bool near = other < s.n && other != place && d <= list.limit;
    if (!__any_sync(full, near)) return true;
    if (list.count + leafPoints > room && !shorten(s, list)) return false;
    double square = 0;
    if (near) {
        square = knn::squareOf(s.x + static_cast<size_t>(s.order[place]) * s.row, s.x + static_cast<size_t>(s.order[other]) * s.row, s.width);
        near = square < list.far;
    }
    const uint32_t nears = __ballot_sync(full, near);
    const int count = list.count;
    __syncwarp();
    if (near) list.squares[count + __popc(nears & ((1u << lane) - 1))] = square;
    if (lane == 0) list.count = count + __popc(nears);
    __syncwarp();
    return true;
}

// weigh returns the weight of the point at a place, or -1 if it is not among the largest. The whole warp calls it.
template <int W> __device__ __forceinline__ double weigh(const Set &s, int place, List &list) {
    const int lane = threadIdx.x & 31, leaf = place / leafPoints;
    const Row<W> q = rowAt<W>(s.points, place);
    __syncwarp();
    if (lane == 0) list.count = 0, list.limit = infinite, list.far = static_cast<double>(infinite);
    __syncwarp();
    const int from = max(0, leaf - around), to = min(s.leaves - 1, leaf + around);
#pragma unroll 1
    for (int i = 0; i <= 2 * around; i++) {  // its own, then those on both sides
        const int l = leaf + (i & 1 ? -(i + 1) / 2 : i / 2);
        if (l >= from && l <= to && !visit<W>(s, l, place, q, list)) return -1;
    }
    if (!shorten(s, list)) return -1;
#pragma unroll 1
    for (int base = 0; base < s.nodes; base += 32) {
        const float far = base + lane < s.nodes ? apart<W>(q, q, s.nodeBox, base + lane) : infinite;
        uint32_t nodes = __ballot_sync(full, base + lane < s.nodes && far <= list.limit);
#pragma unroll 1
        while (nodes) {
            const int n = __ffs(static_cast<int>(nodes)) - 1, l = (base + n) * nodeLeaves + lane;
            nodes &= nodes - 1;
            if (!(__shfl_sync(full, far, n) <= list.limit)) continue;
            const bool there = l < s.leaves && (l < from || l > to);
            const float off = there ? apart<W>(q, q, s.leafBox, l) : infinite;
            uint32_t leaves = __ballot_sync(full, there && off <= list.limit);
#pragma unroll 1
            while (leaves) {
                const int m = __ffs(static_cast<int>(leaves)) - 1;
                leaves &= leaves - 1;
                if (__shfl_sync(full, off, m) <= list.limit && !visit<W>(s, (base + n) * nodeLeaves + m, place, q, list)) return -1;
            }
        }
    }
    if (!shorten(s, list)) return -1;
    // The sum is the definition's, of ascending distances. The second half of the list has room for them.
    const int others = s.others;
    double *sorted = list.squares + othersMost;
    for (int a = lane; a < others; a += 32) {
        const double v = list.squares[a];
        int before = 0;
        for (int b = 0; b < others; b++) before += list.squares[b] < v || (list.squares[b] == v && b < a) ? 1 : 0;
        sorted[before] = __dsqrt_rn(v);
    }
    __syncwarp();
    double sum = 0;
    for (int a = 0; a < others; a++) sum = __dadd_rn(sum, sorted[a]);
    return scaled(s, sum);
}

// search searches for the weights of some points, which depend on the phase: samples, the strongest of those alive, or all
// of them.
template <int W> __device__ __forceinline__ void search(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    __shared__ Set s;
    __shared__ List lists[threads / 32];
    if (threadIdx.x == 0) s = setOf(tasks, tiles[blockIdx.x], f32, scratch);
    __syncthreads();
    Header &h = *s.header;
    if (h.index.spoilt) return;
    const uint32_t phase = h.phase;
    const bool first = phase == 0, rest = phase == 5;
    const int lane = threadIdx.x & 31, samples = min(s.n, max(firstPoints, 4 * s.top));
    const int items = first ? samples : static_cast<int>(rest ? h.alive : h.strong);
    for (;;) {
        const int item = itemOf(s);
        if (item >= items) return;
        int place = 0;
        if (first) place = static_cast<int>(static_cast<long long>(s.n) * item / samples);
        else place = static_cast<int>(rest ? s.alive[item] & 0x3fffff : s.strong[item]);
        if (rest && s.done[place]) continue;
        const double weight = weigh<W>(s, place, lists[threadIdx.x >> 5]);
        if (lane == 0) {
            if (!rest) s.done[place] = 1;
            if (weight >= 0 && weight >= h.cut) {
                const uint32_t at = atomicAdd(&h.found, 1u);
                s.weights[at] = weight;
                s.of[at] = s.order[place];
            }
        }
        __syncwarp();
    }
}

}  // namespace topn
