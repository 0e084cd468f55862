// Op topn: which points may be among the largest. See topn.cu.
#pragma once
#include "topn_set.h"

namespace topn {

constexpr int window = 16;  // leaves before and after a point's own that are counted first
constexpr int crowded = 12;  // points of a leaf for which all other leaves are searched together

// within adds to count the points of a leaf within the square near of q; place is q's.
template <int W> __device__ __forceinline__ void within(const Set &s, int leaf, int place, const Row<W> &q, float near, int &count) {
    const int first = leaf * leafPoints, points = min(leafPoints, s.n - first);
    constexpr int unrolled = W <= 4 ? 8 : W <= 16 ? 2 : 1;
#pragma unroll unrolled
    for (int j = 0; j < points; j++) {
        const float d = squareOf<W>(rowAt<W>(s.points, first + j), q);
        count += d <= near && first + j != place ? 1 : 0;
    }
}

// count counts, for each point that was not searched for, the others near it, and lists the points that have too few.
// In the first of two counts only places close by are counted.
template <int W> __device__ __forceinline__ void count(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    __shared__ Set s;
    if (threadIdx.x == 0) s = setOf(tasks, tiles[blockIdx.x], f32, scratch);
    __syncthreads();
    if (s.header->index.spoilt) return;
    const int lane = threadIdx.x & 31, others = s.others;
    const float near = s.header->near;
    const bool whole = s.header->phase > 1;
    for (;;) {
        const int leaf = itemOf(s);
        if (leaf >= s.leaves) return;
        const int place = leaf * leafPoints + lane;
        const bool open = place < s.n && s.done[place] == 0;
        if (!__any_sync(full, open)) continue;
        const Row<W> q = rowAt<W>(s.points, place);
        int found = open ? 0 : others;
        if (near >= 0) {
            const int from = max(0, leaf - window), to = min(s.leaves - 1, leaf + window);
            bool all = false;
#pragma unroll 1
            for (int i = 0; i <= 2 * window && !all; i++) {  // its own, then those on both sides
                const int l = leaf + (i & 1 ? -(i + 1) / 2 : i / 2);
                if (l < from || l > to) continue;
                within<W>(s, l, place, q, near, found);
                all = __all_sync(full, found >= others);
            }
            if (all) continue;
            if (whole && __popc(__ballot_sync(full, found < others)) >= crowded) {
                const Row<W> low = rowAt<W>(s.leafBox, 2 * static_cast<size_t>(leaf)), high = rowAt<W>(s.leafBox, 2 * static_cast<size_t>(leaf) + 1);
#pragma unroll 1
                for (int base = 0; base < s.nodes && !all; base += 32) {
                    uint32_t nodes = __ballot_sync(full, base + lane < s.nodes && apart<W>(low, high, s.nodeBox, min(base + lane, s.nodes - 1)) <= near);
#pragma unroll 1
                    while (nodes && !all) {
                        const int node = base + __ffs(static_cast<int>(nodes)) - 1, l = node * nodeLeaves + lane;
                        nodes &= nodes - 1;
                        uint32_t leaves = __ballot_sync(full, l < s.leaves && (l < from || l > to) && apart<W>(low, high, s.leafBox, min(l, s.leaves - 1)) <= near);
#pragma unroll 1
                        while (leaves && !all) {
                            const int other = node * nodeLeaves + __ffs(static_cast<int>(leaves)) - 1;
                            leaves &= leaves - 1;
                            if (!__any_sync(full, found < others && apart<W>(q, q, s.leafBox, other) <= near)) continue;
                            within<W>(s, other, place, q, near, found);
                            all = __all_sync(full, found >= others);
                        }
                    }
                }
                if (all) continue;
            }
        }
        const bool stays = found < others;
        const uint32_t staying = __ballot_sync(full, stays);
        uint32_t at = 0;
        if (lane == 0) at = atomicAdd(&s.header->alive, static_cast<uint32_t>(__popc(staying)));
        at = __shfl_sync(full, at, 0) + __popc(staying & ((1u << lane) - 1));
        if (stays) {
            s.alive[at] = static_cast<uint32_t>(place) | static_cast<uint32_t>(found) << 22;
            atomicAdd(&s.header->counts[found], 1u);
        }
        __syncwarp();
    }
}

}  // namespace topn
