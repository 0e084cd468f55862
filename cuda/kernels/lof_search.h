// Op LOF: marks the places that may be neighbours of a block's queries. See lof.cu.
#pragma once
#include "lof_points.h"

namespace lof {

// Store has the places of a task's intermediate results. Places have k-distances and densities; slots,
// which are places or indices into a list of places, have lists.
struct Store {
    double *kdist, *lrd, *distance;
    uint16_t *neighbour;
};

// Search is the state that a block's threads share. The offsets are in dynamic shared memory, which
// begins with the minima of groups, [group][wide + 16]; then a bit for each place that may be a
// neighbour, [query][words | 1].
struct Search {
    Geometry g;
    Points points;
    Filled filled;
    Store to;
    int rows;    // of a tile of columns
    int query;   // offset of the queries' coordinates times -2, [c][wide]
    int bound;   // of the queries' bounds, [wide]
    int place;   // of the queries' places, [wide]
    int warps;   // of the warps' Founds
    int direct;  // the expanded form has been too coarse
};

template <class T> __device__ __forceinline__ T *inShared(int offset) {
    DYNAMIC_SHARED(unsigned char, shared);
    return reinterpret_cast<T *>(shared + offset);
}

// expands reports whether expanding the square of a difference saves time.
__device__ constexpr bool expands(int d) { return d == 0 || d >= 4; }

// shiftIn appends the sign of v to mask's bits.
__device__ inline uint32_t shiftIn(uint32_t mask, float v) {
#ifdef ODRADEK_EMULATE
    return mask << 1 | __float_as_uint(v) >> 31;
#else
    return __funnelshift_l(__float_as_uint(v), mask, 1);
#endif
}

// Lanes gives a thread's queries and places.
struct Lanes {
    int wide, lane, slice, slices;
    __device__ explicit Lanes(int w) : wide(w) {
        int lanes = w / 4;
        lane = threadIdx.x & (lanes - 1), slice = threadIdx.x / lanes, slices = blockDim.x / lanes;
    }
};

// Queries are the coordinates of a thread's four queries, times -2 for the expanded form; with D = 0
// they stay in shared memory.
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

// squares adds to sum the squared distances of 4 queries and C places of a tile from place on; with E,
// without the queries' norms.
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

// minima writes the least squared distance of each query to each group.
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

// order is one step of Knuth's merge exchange, which sorts a (The Art of Computer Programming 3,
// algorithm 5.2.2M).
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

// descend sets a[0] to the number of rank k of a[0..2H), which rises, then falls, or the reverse.
template <int H> __device__ __forceinline__ void descend(float (&a)[32], int k) {
    bool upper = k & H;
#pragma unroll
    for (int r = 0; r < H; r++) a[r] = upper ? fmaxf(a[r], a[r + H]) : fminf(a[r], a[r + H]);
    if constexpr (H > 1) descend<H / 2>(a, k);
}

// setBound computes a query's bound from the k+1st of the minima, wide enough for every neighbour's
// rounded distance. With u = 2^-24 a direct square is off by less than (d+2)u of itself; an expanded
// one by less than 4(d+1)u of the largest norm, squared. It returns false where an expanded square is
// too coarse: its error would admit many places that are no neighbours.
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

// limit computes the queries' bounds from the minima, including the distance of the query to itself.
// Two threads a query sort 32 minima each.
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
        // The lower half of both, which rises, then falls, or the reverse.
#pragma unroll
        for (int r = 0; r < 32; r++) b[r] = fminf(a[r], __shfl_xor_sync(all, a[31 - r], 1));
        descend<16>(b, k);
        if ((i & 1) == 0) fine = setBound(s, columns, i >> 1, b[0], expanded) && fine;
    }
    return fine;
}

// limitMany is limit for 256 groups, a warp a query: it finds the upper bits of the minimum one by one.
__device__ inline bool limitMany(const Search &s, const float *columns, bool expanded) {
    int k = s.g.k, pitch = s.g.wide + 16, slots = s.g.padded >> s.g.log, lane = threadIdx.x & 31;
    const float *low = inShared<float>(0);
    bool fine = true;
    for (int q = threadIdx.x >> 5; q < s.g.wide; q += blockDim.x >> 5) {
        uint32_t v[8], t = 0;  // bits that ascend with numbers of either sign
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

}  // namespace lof
