// Op LOF: decides which of the marked places are a query's neighbours. See lof.cu.
#pragma once
#include "lof_search.h"

namespace lof {

// exact returns the squared distance of two places as in the definition.
__device__ __forceinline__ double exact(const Search &s, const float *columns, int a, int b) {
    double sum = 0;
    if (s.filled.scale == 1) {
        const float *x = columns + cell(s.rows, a, 0), *y = columns + cell(s.rows, b, 0);
        for (int c = 0; c < s.g.dim; c++) {
            double e = __dsub_rn(static_cast<double>(x[c * 32]), static_cast<double>(y[c * 32]));
            sum = __dadd_rn(sum, __dmul_rn(e, e));
        }
        return sum;
    }
    int i = pointAt(s.g, a), j = pointAt(s.g, b);
    for (int c = 0; c < s.g.dim; c++) {
        double e = __dsub_rn(static_cast<double>(s.points.at(i, c)), static_cast<double>(s.points.at(j, c)));
        sum = __dadd_rn(sum, __dmul_rn(e, e));
    }
    return sum;
}

// rough returns the squared distance in float32, off by less than (d+2) 2^-24 of itself if it is at
// least `least`.
template <int D> __device__ __forceinline__ float rough(const float *columns, int rows, int dim, int a, int b) {
    const float *x = columns + cell(rows, a, 0), *y = columns + cell(rows, b, 0);
    float sum = 0;
#pragma unroll(D ? D : 4)
    for (int c = 0; c < (D ? D : dim); c++) {
        float e = x[c * 32] - y[c * 32];
        sum = fmaf(e, e, sum);
    }
    return sum;
}

// equal reports whether two places coincide.
template <int D> __device__ __forceinline__ bool equal(const float *columns, int rows, int dim, int a, int b) {
    const float *x = columns + cell(rows, a, 0), *y = columns + cell(rows, b, 0);
    bool same = true;
    for (int c = 0; c < (D ? D : dim); c++) same = same && x[c * 32] == y[c * 32];
    return same;
}

constexpr float least = 0x1p-100f;
constexpr int roughDim = 16;  // largest dimension for which rough is exact enough

// Found has a warp's candidates: squared distances and places, 32R of them; and the places listed
// before their distances are computed.
template <int R> struct Found {
    static constexpr int most = R > 2 ? 32 * R : 128;
    double square[32 * R];
    uint16_t place[32 * R];
    uint16_t listed[most];
};

__device__ inline double maxOf(double v) {
    for (int o = 16; o > 0; o >>= 1) v = fmax(v, __shfl_xor_sync(all, v, o));
    return v;
}

// nearest keeps the k nearest of count candidates, in their order. It returns the largest square, and
// the last of the points with that square. float32 drops the candidates that it distinguishes.
template <int R> __device__ __forceinline__ double nearest(const Search &s, Found<R> &found, int &count, int &last) {
    int lane = threadIdx.x & 31;
    double square[R];
    int place[R];
    uint32_t key[R];  // ascends with the square; 0: dropped
    __syncwarp();
#pragma unroll
    for (int r = 0; r < R; r++) {
        int a = r * 32 + lane;
        bool there = a < count;
        square[r] = there ? found.square[a] : 0;
        place[r] = there ? found.place[a] : 0;
        key[r] = there ? __float_as_uint(static_cast<float>(square[r] * s.filled.scale * s.filled.scale)) + 1 : 0;
    }
    int drop = count - s.g.k;
    double most;
    for (;;) {
        uint32_t top = key[0];
#pragma unroll
        for (int r = 1; r < R; r++) top = max(top, key[r]);
        top = maxOf(top);
        int with = 0;
#pragma unroll
        for (int r = 0; r < R; r++) with += __popc(__ballot_sync(all, key[r] == top));
        if (with <= drop) {
#pragma unroll
            for (int r = 0; r < R; r++) key[r] = key[r] == top ? 0 : key[r];
            drop -= with;
            continue;
        }
        // Equal in float32, or all but one.
        double mine = -1;
#pragma unroll
        for (int r = 0; r < R; r++) mine = key[r] == top ? fmax(mine, square[r]) : mine;
        most = maxOf(mine);
        uint32_t point[R];  // + 1
        int same = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            bool is = key[r] == top && square[r] == most;
            point[r] = is ? pointAt(s.g, place[r]) + 1 : 0;
            same += __popc(__ballot_sync(all, is));
        }
        if (same <= drop) {
#pragma unroll
            for (int r = 0; r < R; r++) key[r] = point[r] ? 0 : key[r];
            drop -= same;
            continue;
        }
        // Equal: the first in time stay. The bits of the last one's number are found one by one.
        uint32_t t = 0;
        for (uint32_t bit = 1u << 12; bit; bit >>= 1) {
            int below = 0;
#pragma unroll
            for (int r = 0; r < R; r++) below += __popc(__ballot_sync(all, point[r] && point[r] < (t | bit)));
            if (below < same - drop) t |= bit;
        }
#pragma unroll
        for (int r = 0; r < R; r++) key[r] = point[r] > t ? 0 : key[r];
        last = static_cast<int>(t) - 1;
        break;
    }
    __syncwarp();
    count = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        uint32_t b = __ballot_sync(all, key[r] != 0);
        if (key[r] != 0) {
            int a = count + __popc(b & ((1u << lane) - 1));
            found.square[a] = square[r];
            found.place[a] = static_cast<uint16_t>(place[r]);
        }
        count += __popc(b);
    }
    __syncwarp();
    return most;
}

// list appends the places in a word of each lane to a warp's list, in order, unless it would have more
// than most entries. It returns the list's length.
__device__ __forceinline__ int list(uint16_t *listed, int most, int have, int at, uint32_t mask) {
    int lane = threadIdx.x & 31, before = __popc(mask), own = before;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        int v = __shfl_up_sync(all, before, o);
        if (lane >= o) before += v;
    }
    int sum = __shfl_sync(all, before, 31);
    if (have + sum > most) return sum;
    uint16_t *to = listed + have + before - own;
    int first = (at + lane) * 32;
    while (mask) {
        int high = __clz(mask);
        *to++ = static_cast<uint16_t>(first + high);
        mask &= ~(0x80000000u >> high);
    }
    return sum;
}

// decideSlow finds the neighbours of a query among any number of marked places, in float64. slot is the
// place of its list, -1 for none. The whole warp calls it.
template <int D, int R> __device__ __attribute__((noinline)) void decideSlow(const Search &s, const float *columns, int q, int own, int slot) {
    const Geometry &g = s.g;
    Found<R> &found = inShared<Found<R>>(s.warps)[threadIdx.x >> 5];
    int lane = threadIdx.x & 31, words = g.padded / 32;
    const uint32_t *within = inShared<uint32_t>(0) + q * (words | 1);
    int count = 0, listed = 0, last = 0x7fffffff;
    double most = __longlong_as_double(0x7ff0000000000000);
    for (int at = 0;;) {
        // List places until there is no room, a few words at a time where most places are within the
        // bound.
        __syncwarp();
        if (at < words) {
            int span = 32;
            uint32_t mask = at + lane < words ? within[at + lane] : 0;
            int sum = list(found.listed, found.most, listed, at, mask);
            if (sum > found.most) {
                span = found.most / 32;
                sum = list(found.listed, found.most, listed, at, lane < span ? mask : 0);
            }
            if (listed + sum <= found.most) {
                listed += sum;
                at += span;
                if (at < words) continue;
            }
        }
        __syncwarp();
        for (int first = 0; first < listed; first += 32) {
            bool there = first + lane < listed;
            int place = there ? found.listed[first + lane] : own;
            double square = exact(s, columns, own, place);
            there = there && place != own;
            uint32_t take;
            for (;;) {
                bool closer = there && (square < most || (square == most && pointAt(g, place) < last));
                take = __ballot_sync(all, closer);
                if (count + __popc(take) <= 32 * R) break;
                most = nearest<R>(s, found, count, last);
            }
            if (take >> lane & 1) {
                int a = count + __popc(take & ((1u << lane) - 1));
                found.square[a] = square;
                found.place[a] = static_cast<uint16_t>(place);
            }
            count += __popc(take);
        }
        listed = 0;
        if (at >= words) break;
    }
    nearest<R>(s, found, count, last);
    double kdist = 0;
    for (int a = lane; a < g.k; a += 32) {
        // The distance as decideFast computes it.
        int place = found.place[a];
        double distance = sqrt(found.square[a]);
        if (g.dim <= roughDim && s.filled.scale == 1) {
            float square = rough<D>(columns, s.rows, g.dim, own, place);
            if (square >= least) distance = static_cast<double>(sqrtf(square));
        }
        kdist = fmax(kdist, distance);
        if (slot < 0) continue;
        s.to.neighbour[slot * g.k + a] = static_cast<uint16_t>(place);
        s.to.distance[slot * g.k + a] = distance;
    }
    kdist = maxOf(kdist);
    if (lane == 0) s.to.kdist[own] = kdist;
}

// decideFast is decideSlow for the usual case: up to 32R places, and float32 distinguishes the nearest.
// It returns false where that is not the case.
template <int D, int R> __device__ __forceinline__ bool decideFast(const Search &s, const float *columns, const uint16_t *listed, int count, int own, int slot) {
    int lane = threadIdx.x & 31, k = s.g.k, dim = s.g.dim, rows = D ? D + expands(D) : s.rows;
    bool exactly = D == 0 && dim > roughDim;
    double square[R];
    float near[R];
    int place[R];
    uint32_t key[R];
    bool small = false;
#pragma unroll
    for (int r = 0; r < R; r++) {
        bool there = r * 32 + lane < count;
        place[r] = there ? listed[r * 32 + lane] : own;
        if (exactly) {
            square[r] = exact(s, columns, own, place[r]);
            near[r] = static_cast<float>(square[r]);
        } else {
            near[r] = rough<D>(columns, rows, dim, own, place[r]);
        }
        key[r] = there ? __float_as_uint(near[r]) + 1 : 0;
        small = small || (there && near[r] < least);
    }
    if (__any_sync(all, small)) {  // fine on one spot
        bool off = false;
#pragma unroll
        for (int r = 0; r < R; r++) off = off || (near[r] < least && !equal<D>(columns, rows, dim, own, place[r]));
        if (__any_sync(all, off)) return false;
    }
    uint32_t dropped = 0x7f800001u, top;
    for (int drop = count - k;;) {
        top = key[0];
#pragma unroll
        for (int r = 1; r < R; r++) top = max(top, key[r]);
        top = maxOf(top);
        if (drop == 0) break;
        int with = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            with += __popc(__ballot_sync(all, key[r] == top));
            key[r] = key[r] == top ? 0 : key[r];
        }
        drop -= with;
        if (drop < 0) return false;
        dropped = top;
    }
    float far = __uint_as_float(top - 1);
    if (!(far * (1 + (dim + 4) * 0x1p-22f) < __uint_as_float(dropped - 1))) return false;
    // The k-distance is the largest distance as listed.
    if (!exactly) {
        if (lane == 0) s.to.kdist[own] = static_cast<double>(sqrtf(far));
        if (slot < 0) return true;
    }
    double kdist = 0;
    int at = slot * k;
#pragma unroll
    for (int r = 0; r < R; r++) {
        bool there = key[r] != 0;
        uint32_t b = __ballot_sync(all, there);
        double distance = exactly ? sqrt(square[r]) : static_cast<double>(sqrtf(near[r]));
        if (there) {
            kdist = fmax(kdist, distance);
            if (slot >= 0) {
                int a = at + __popc(b & ((1u << lane) - 1));
                s.to.neighbour[a] = static_cast<uint16_t>(place[r]);
                s.to.distance[a] = distance;
            }
        }
        at += __popc(b);
    }
    if (exactly) {
        kdist = maxOf(kdist);
        if (lane == 0) s.to.kdist[own] = kdist;
    }
    return true;
}

// decideSpot finds the neighbours of a query that coincides with k others: the first of these in time.
// It returns false for other queries. Their order in the list does not matter, as they all have the
// same k-distance and density.
template <int D> __device__ __forceinline__ bool decideSpot(const Search &s, const float *columns, int own, int slot) {
    const Geometry &g = s.g;
    int lane = threadIdx.x & 31, rows = D ? D + expands(D) : s.rows, count = 0;
    for (int row = 0; row < 1 << g.log && count < g.k; row++) {
        int turned = turn * row % g.groups;
        for (int first = 0; first < g.groups && count < g.k; first += 32) {
            int group = first + lane - turned, place = own;  // in order of time
            if (group < 0) group += g.groups;
            if (first + lane < g.groups) place = group << g.log | row;
            bool there = place != own && equal<D>(columns, rows, g.dim, own, place);
            uint32_t b = __ballot_sync(all, there);
            int a = count + __popc(b & ((1u << lane) - 1));
            if (there && a < g.k && slot >= 0) {
                s.to.neighbour[slot * g.k + a] = static_cast<uint16_t>(place);
                s.to.distance[slot * g.k + a] = 0;
            }
            count += __popc(b);
        }
    }
    if (count < g.k) return false;
    if (lane == 0) s.to.kdist[own] = 0;
    return true;
}

// decide finds the neighbours of a query among its marked places.
template <int D, int R> __device__ __forceinline__ void decide(const Search &s, const float *columns, int q, int own, int slot) {
    int lane = threadIdx.x & 31, words = s.g.padded / 32, count = 0;
    if (s.filled.scale == 1) {
        const uint32_t *within = inShared<uint32_t>(0) + q * (words | 1);
        uint16_t *listed = inShared<Found<R>>(s.warps)[threadIdx.x >> 5].listed;
        __syncwarp();
        for (int at = 0; at < words && count <= Found<R>::most; at += 32) {
            uint32_t mask = at + lane < words ? within[at + lane] : 0;
            if (own >> 5 == at + lane) mask &= ~(0x80000000u >> (own & 31));
            count += list(listed, Found<R>::most, count, at, mask);
        }
        __syncwarp();
        if (count <= 32 && decideFast<D, 1>(s, columns, listed, count, own, slot)) return;
        if (count > 32 && count <= 64 && decideFast<D, 2>(s, columns, listed, count, own, slot)) return;
        if (R > 2 && count > 64 && count <= 32 * R && decideFast<D, R>(s, columns, listed, count, own, slot)) return;
        if (count > 64 && decideSpot<D>(s, columns, own, slot)) return;
    }
    decideSlow<D, R>(s, columns, q, own, slot);
}

}  // namespace lof
