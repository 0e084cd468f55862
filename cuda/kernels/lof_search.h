// Op LOF: the neighbours of points, searched by a block. See lof.cu.
#pragma once
#include "lof_points.h"

namespace lof {

// Store is where a task's intermediate results are. Places have k-distances and
// densities; slots, which are places or numbers in a list of places, have lists.
struct Store {
    double *kdist, *lrd, *distance;
    uint16_t *neighbour;
};

// Search is what a block's threads share. The offsets are of dynamic shared
// memory, where at 0 there are the minima of groups, [group][wide + 16]; then a
// bit for each place that may be a neighbour, [query][words | 1].
struct Search {
    Geometry g;
    Points points;
    Filled filled;
    Store to;
    int rows;    // of a tile of columns
    int query;   // offset of the queries' coordinates times -2, [c][wide]
    int bound;   // of [wide]
    int place;   // of the queries' places, [wide]
    int warps;   // of a Found a warp
    int direct;  // the expanded form has been too coarse
};

template <class T> __device__ __forceinline__ T *inShared(int offset) {
    DYNAMIC_SHARED(unsigned char, shared);
    return reinterpret_cast<T *>(shared + offset);
}

// expands is set where it pays to expand the square of a difference.
__device__ constexpr bool expands(int d) { return d == 0 || d >= 4; }

// shiftIn puts the sign of v behind mask's bits.
__device__ inline uint32_t shiftIn(uint32_t mask, float v) {
#ifdef ODRADEK_EMULATE
    return mask << 1 | __float_as_uint(v) >> 31;
#else
    return __funnelshift_l(__float_as_uint(v), mask, 1);
#endif
}

// Lanes says which queries and places are a thread's.
struct Lanes {
    int wide, lane, slice, slices;
    __device__ explicit Lanes(int w) : wide(w) {
        int lanes = w / 4;
        lane = threadIdx.x & (lanes - 1), slice = threadIdx.x / lanes, slices = blockDim.x / lanes;
    }
};

// Queries are the coordinates of a thread's four, times -2 for the expanded form;
// D = 0: they stay in shared memory.
template <int D, bool E> struct Queries {
    float q[4][D ? D : 1];
    const float *shared;
    int wide;

    __device__ __forceinline__ Queries(int query, const Lanes &l) : shared(inShared<float>(query) + l.lane * 4), wide(l.wide) {
        if constexpr (D > 0) {
#pragma unroll
            for (int c = 0; c < D; c++) get(c, q[0][c], q[1][c], q[2][c], q[3][c]);
        }
    }
    __device__ __forceinline__ void get(int c, float &a, float &b, float &d, float &e) const {
        float4 f = *reinterpret_cast<const float4 *>(shared + c * wide);
        const float by = E ? 1.0f : -0.5f;
        a = f.x * by, b = f.y * by, d = f.z * by, e = f.w * by;
    }
};

// squares adds to sum the squared distances of 4 queries and C places of a tile
// from place on; E: without the queries' norms.
template <int D, int C, bool E> __device__ __forceinline__ void squares(float (&sum)[4][C], const float *tile, const Queries<D, E> &queries, int dim) {
    if constexpr (E) {
        float v[C];
#pragma unroll
        for (int e = 0; e < C; e += 4) {
            float4 f = *reinterpret_cast<const float4 *>(tile + (D ? D : dim) * 32 + e);
            v[e] = f.x, v[e + 1] = f.y, v[e + 2] = f.z, v[e + 3] = f.w;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int e = 0; e < C; e++) sum[i][e] = v[e];
        }
    }
#pragma unroll(D ? D : 1)
    for (int c = 0; c < (D ? D : dim); c++) {
        float v[C], own[4];
#pragma unroll
        for (int e = 0; e < C; e += 4) {
            float4 f = *reinterpret_cast<const float4 *>(tile + c * 32 + e);
            v[e] = f.x, v[e + 1] = f.y, v[e + 2] = f.z, v[e + 3] = f.w;
        }
        if constexpr (D == 0) {
            queries.get(c, own[0], own[1], own[2], own[3]);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) own[i] = queries.q[i][c];
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int e = 0; e < C; e++) {
                if constexpr (E) {
                    sum[i][e] = fmaf(own[i], v[e], sum[i][e]);
                } else {
                    float t = own[i] - v[e];
                    sum[i][e] = fmaf(t, t, sum[i][e]);
                }
            }
        }
    }
}

// minima leaves the least squared distance of each query to each group.
template <int D, bool E> __device__ __forceinline__ void minima(const Search &s, const float *columns) {
    constexpr int C = D ? 4 : 8;
    Lanes l(s.g.wide);
    int log = s.g.log, padded = s.g.padded, dim = D ? D : s.g.dim, rows = D ? D + expands(D) : s.rows;
    int group = 1 << log, unit = max(group, 32), pitch = l.wide + 16;
    float *lowest = inShared<float>(0) + l.lane * 4;
    Queries<D, E> queries(s.query, l);
    for (int first = l.slice * unit; first < padded; first += l.slices * unit) {
        float low[4] = {infinity, infinity, infinity, infinity};
        auto put = [&](int place) {
            *reinterpret_cast<float4 *>(lowest + (place >> log) * pitch) = make_float4(low[0], low[1], low[2], low[3]);
            low[0] = low[1] = low[2] = low[3] = infinity;
        };
#pragma unroll 1
        for (int place = first; place < first + unit; place += C) {
            float sum[4][C] = {};
            squares<D, C, E>(sum, columns + cell(rows, place, 0), queries, dim);
            if (group >= C) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
#pragma unroll
                    for (int e = 0; e < C; e++) low[i] = fminf(low[i], sum[i][e]);
                }
                if (((place + C) & (group - 1)) == 0) put(place);
            } else {
#pragma unroll
                for (int e = 0; e < C; e++) {
#pragma unroll
                    for (int i = 0; i < 4; i++) low[i] = fminf(low[i], sum[i][e]);
                    if (((place + e + 1) & (group - 1)) == 0) put(place + e);
                }
            }
        }
    }
}

// mark sets the bits of the places within the queries' bounds.
template <int D, bool E> __device__ __forceinline__ void mark(const Search &s, const float *columns) {
    constexpr int C = D ? 4 : 8;
    Lanes l(s.g.wide);
    int dim = D ? D : s.g.dim, rows = D ? D + expands(D) : s.rows, words = s.g.padded / 32, pitch = words | 1;
    uint32_t *within = inShared<uint32_t>(0) + l.lane * 4 * pitch;
    Queries<D, E> queries(s.query, l);
    float4 f = *reinterpret_cast<const float4 *>(inShared<float>(s.bound) + l.lane * 4);
    float bound[4] = {f.x, f.y, f.z, f.w};
    for (int word = l.slice; word < words; word += l.slices) {
        uint32_t mask[4] = {};
#pragma unroll 1
        for (int at = 0; at < 32; at += C) {
            float sum[4][C];
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int e = 0; e < C; e++) sum[i][e] = -bound[i];
            }
            squares<D, C, E>(sum, columns + cell(rows, word * 32 + at, 0), queries, dim);
#pragma unroll
            for (int e = 0; e < C; e++) {
#pragma unroll
                for (int i = 0; i < 4; i++) mask[i] = shiftIn(mask[i], E ? sum[i][e] - bound[i] : sum[i][e]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) within[i * pitch + word] = mask[i];
    }
}

// order is one step of Knuth's merge exchange (The Art of Computer Programming
// 3, algorithm 5.2.2M), which sorts a.
template <int P, int Q, int R, int D, int N> __device__ __forceinline__ void order(float (&a)[N]) {
#pragma unroll
    for (int i = 0; i < N - D; i++) {
        if ((i & P) == R) {
            float lo = fminf(a[i], a[i + D]), hi = fmaxf(a[i], a[i + D]);
            a[i] = lo;
            a[i + D] = hi;
        }
    }
    if constexpr (Q != P) order<P, Q / 2, P, Q - P>(a);
    else if constexpr (P > 1) order<P / 2, N / 2, 0, P / 2>(a);
}

// descend leaves the number of rank k of a[0..2H), which rises, then falls, or the
// reverse, in a[0].
template <int H> __device__ __forceinline__ void descend(float (&a)[32], int k) {
    bool upper = k & H;
#pragma unroll
    for (int r = 0; r < H; r++) a[r] = upper ? fmaxf(a[r], a[r + H]) : fminf(a[r], a[r + H]);
    if constexpr (H > 1) descend<H / 2>(a, k);
}

// setBound makes a query's bound of the k+1st of the minima, so wide that no
// neighbour's rounded distance is beyond it. With u = 2^-24 a direct square is off
// by less than (d+2)u of itself; an expanded one by less than 4(d+1)u of the
// largest norm, squared. False: an expanded one is too coarse, as its error would
// let in many that are no neighbours.
__device__ inline bool setBound(const Search &s, const float *columns, int q, float t, bool expanded) {
    float *bound = inShared<float>(s.bound);
    int dim = s.g.dim;
    if (!expanded) {
        bound[q] = fmaf(t, 1 + (dim + 4) * 0x1p-21f, 8 * (dim + 1) * 0x1p-149f);
        return true;
    }
    float error = (8 * dim + 16) * 0x1p-24f * s.filled.norm;
    bound[q] = t + error;
    int place = inShared<uint16_t>(s.place)[q];
    return error < 0x1p-6f * (t + columns[cell(s.rows, place, s.rows - 1)]);
}

// limit sets the queries' bounds from the minima, that to the point itself among
// them. Two threads a query sort 32 minima each.
__device__ __forceinline__ bool limit(const Search &s, const float *columns, bool expanded) {
    int k = s.g.k, pitch = s.g.wide + 16, slots = s.g.padded >> s.g.log;
    const float *low = inShared<float>(0);
    bool fine = true;
    for (int i = threadIdx.x; i < 2 * s.g.wide; i += blockDim.x) {
        float a[32], b[32];
#pragma unroll
        for (int r = 0; r < 32; r++) {
            int group = 2 * r + (i & 1);
            a[r] = group < slots ? low[group * pitch + (i >> 1)] : infinity;
        }
        order<16, 16, 0, 16>(a);
        // The lower half of both, which rises, then falls or the reverse.
#pragma unroll
        for (int r = 0; r < 32; r++) b[r] = fminf(a[r], __shfl_xor_sync(all, a[31 - r], 1));
        descend<16>(b, k);
        if ((i & 1) == 0) fine = setBound(s, columns, i >> 1, b[0], expanded) && fine;
    }
    return fine;
}

// limitMany is limit for 256 groups, a warp a query: it finds the upper bits of
// the minimum one by one.
__device__ inline bool limitMany(const Search &s, const float *columns, bool expanded) {
    int k = s.g.k, pitch = s.g.wide + 16, slots = s.g.padded >> s.g.log, lane = threadIdx.x & 31;
    const float *low = inShared<float>(0);
    bool fine = true;
    for (int q = threadIdx.x >> 5; q < s.g.wide; q += blockDim.x >> 5) {
        uint32_t v[8], t = 0;  // of numbers that may be below 0, so that they rise as the numbers do
#pragma unroll
        for (int r = 0; r < 8; r++) {
            uint32_t b = __float_as_uint(r * 32 + lane < slots ? low[(r * 32 + lane) * pitch + q] : infinity);
            v[r] = b >> 31 ? ~b : b | 0x80000000u;
        }
        constexpr uint32_t least = 1u << 4;
        for (uint32_t bit = 1u << 31; bit >= least; bit >>= 1) {
            int below = 0;
#pragma unroll
            for (int r = 0; r < 8; r++) below += __popc(__ballot_sync(all, v[r] < (t | bit)));
            if (below <= k) t |= bit;
        }
        t |= least - 1;
        if (lane == 0) fine = setBound(s, columns, q, __uint_as_float(t >> 31 ? t & 0x7fffffffu : ~t), expanded) && fine;
    }
    return fine;
}

// exact is the squared distance of two places as the definition has it.
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

// rough is exact in float32, off by less than (d+2) 2^-24 of it where it is not
// below least.
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

// equal says whether two places are on one spot.
template <int D> __device__ __forceinline__ bool equal(const float *columns, int rows, int dim, int a, int b) {
    const float *x = columns + cell(rows, a, 0), *y = columns + cell(rows, b, 0);
    bool same = true;
    for (int c = 0; c < (D ? D : dim); c++) same = same && x[c * 32] == y[c * 32];
    return same;
}

constexpr float least = 0x1p-100f;
constexpr int roughDim = 16;  // up to here rough is good enough for a distance

// Found are a warp's candidates: squared distances and places, 32R of them; and
// places listed before they are looked at.
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

// nearest keeps the k nearest of count candidates, in their order, and returns the
// largest square and of the points that have it the last. What float32 keeps apart
// is dropped by float32.
template <int R> __device__ __forceinline__ double nearest(const Search &s, Found<R> &found, int &count, int &last) {
    int lane = threadIdx.x & 31;
    double square[R];
    int place[R];
    uint32_t key[R];  // rises with the square; 0: dropped
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
        // Equal in float32, or but one.
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
        // Equal: the first in time stay. The last of them has bits found one by one.
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

// list appends the places of a word a lane to a warp's list, in order, unless they
// are more than most. It returns how many there are.
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

// decideSlow finds the neighbours of a query among any number of places marked for
// it, by float64; a warp does it. slot is where its list goes, -1: nowhere.
template <int D, int R> __device__ __attribute__((noinline)) void decideSlow(const Search &s, const float *columns, int q, int own, int slot) {
    const Geometry &g = s.g;
    Found<R> &found = inShared<Found<R>>(s.warps)[threadIdx.x >> 5];
    int lane = threadIdx.x & 31, words = g.padded / 32;
    const uint32_t *within = inShared<uint32_t>(0) + q * (words | 1);
    int count = 0, listed = 0, last = 0x7fffffff;
    double most = __longlong_as_double(0x7ff0000000000000);
    for (int at = 0;;) {
        // List places until there is no room, a few words at a time where most places
        // are within.
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
        // The distance is what decide would have made of it.
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

// decideFast is decideSlow for the usual: up to 32R places, the nearest of which
// float32 keeps apart. False: it has not done it.
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

// decideSpot finds the neighbours of a query that has k others on its spot: the
// first of these in time. False: it has not. What order they are listed in does
// not matter, as they all have the same k-distance and density.
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

// decide finds the neighbours of a query among the places marked for it.
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

// search finds the neighbours of count queries, at most g.wide: places from
// first on, or those in list. Their lists go to slots from first on, where
// lists is set. The block calls it.
template <int D> __device__ __forceinline__ void search(Search &s, const float *columns, const uint16_t *from, int first, int count, bool lists) {
    const Geometry &g = s.g;
    int wide = g.wide, rows = D ? D + expands(D) : s.rows;
    uint16_t *places = inShared<uint16_t>(s.place);
    float *query = inShared<float>(s.query);
    for (int i = threadIdx.x; i < wide; i += blockDim.x) {
        int place = i < count ? (from ? from[first + i] : first + i) : 0;
        places[i] = static_cast<uint16_t>(place);
        for (int c = 0; c < (D ? D : g.dim); c++) query[c * wide + i] = -2 * columns[cell(rows, place, c)];
    }
    bool direct = !expands(D) || s.direct;
    __syncthreads();
    for (;;) {
        if (direct) minima<D, false>(s, columns);
        else if constexpr (expands(D)) minima<D, true>(s, columns);
        __syncthreads();
        bool fine = D == 0 && g.k > smallK ? limitMany(s, columns, !direct) : limit(s, columns, !direct);
        bool coarse = __syncthreads_or(!fine);
        if (!coarse) break;
        direct = true;
        if (threadIdx.x == 0) s.direct = 1;
    }
    if (direct) mark<D, false>(s, columns);
    else if constexpr (expands(D)) mark<D, true>(s, columns);
    __syncthreads();
    for (int i = threadIdx.x >> 5; i < count; i += blockDim.x >> 5) {
        int place = places[i];
        if (columns[cell(rows, place, 0)] == away) continue;
        int slot = lists ? first + i : -1;
        if (D == 0 && g.k > smallK) decide<D, 6>(s, columns, i, place, slot);
        else decide<D, 2>(s, columns, i, place, slot);
    }
    __syncthreads();
}

}  // namespace lof
