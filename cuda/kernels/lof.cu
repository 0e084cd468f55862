// Op LOF with virtual points: package detectors/lof has the definition. Results
// are the definition's but for rounding of sums: the neighbours of every point
// are decided in float64 from the original float32 coordinates, ties by index.
#include "device.h"

#ifndef LOF_BLOCKS
#define LOF_BLOCKS 3
#endif
namespace lof {

constexpr uint32_t all = 0xffffffffu;
constexpr float infinity = __builtin_huge_valf();
constexpr int smallK = 31;    // up to here 64 groups and a sort, above 256 groups and a bisection
constexpr int candidates = 256;  // places a warp lists before it looks at them

// Parameters of a task, as detectors/lof.go has them.
enum { paramK, paramPoints, paramEmbed, paramZNorm, paramStrict, paramAlpha };

// Geometry of a task: what follows from its shape. cuda/lof.go has the same.
//
// Points are dealt to places: a group of consecutive places holds points that
// are apart in time, since points that follow each other are often close. What
// lies behind the last point is padding, infinitely far from everything.
struct Geometry {
    int n, total, dim, k;       // real points, all, numbers a point, neighbours
    int log, groups, padded;    // places a group (log2), groups, places: a multiple of 32 and of a group
    int wide;                   // queries a block searches from at once, 4 a thread
    bool some;                  // only what the fresh points need, not all
};

__device__ inline Geometry geometry(const Task &t, const float *p) {
    Geometry g;
    int m = static_cast<int>(p[paramEmbed]), rows = t.x.len / t.dim, points = static_cast<int>(p[paramPoints]);
    if (points > 0) rows = min(rows, max(points, static_cast<int>(t.fresh)) + m - 1);
    g.dim = t.dim * m;
    g.n = rows - m + 1;
    int virtuals = t.bins.len / (g.dim + 1);
    g.total = g.n + virtuals;
    g.k = min(static_cast<int>(p[paramK]), g.total - 1);
    int most = g.k > smallK ? 256 : 64;
    g.log = 0;
    while (most << g.log < g.total) g.log++;
    int group = 1 << g.log, unit = max(group, 32);
    g.groups = (g.total + group - 1) / group;
    g.padded = (g.groups * group + unit - 1) / unit * unit;
    bool median = virtuals > 0 && p[paramAlpha] == 0;
    g.some = !median && static_cast<int>(t.fresh) * (g.k + 1) * 2 <= g.total;
    g.wide = g.some || g.k > smallK ? 32 : 64;
    return g;
}

// turn spreads a group's points over phases, so that points a period apart are
// not all in one group.
constexpr int turn = 11;

// pointAt is the point at a place; total or more: none.
__device__ inline int pointAt(const Geometry &g, int place) {
    int row = place & ((1 << g.log) - 1), group = place >> g.log;
    if (group >= g.groups) return g.total;
    return row * g.groups + (group + turn * row) % g.groups;
}

__device__ inline int placeOf(const Geometry &g, int point) {
    int row = point / g.groups, group = (point - row * g.groups - turn * row) % g.groups;
    if (group < 0) group += g.groups;
    return group << g.log | row;
}

// Points gives a task's numbers as they came.
struct Points {
    const float *x, *virtuals;
    int n, dim, row, embed;
    bool znorm;

    // at is number c of a point. Rows that make a point lie one behind the other.
    __device__ float at(int point, int c) const {
        if (point >= n) return virtuals[static_cast<size_t>(point - n) * dim + c];
        const float *first = x + static_cast<size_t>(point) * row;
        if (!znorm) return first[c];
        return normal(first, c);
    }

    // normal is lof.Embed's, to the bit.
    __device__ float normal(const float *first, int c) const {
        int v = c % row;
        double mean = 0, sd = 0, count = embed;
        bool equal = true;
        for (int i = 0; i < embed; i++) {
            mean = __dadd_rn(mean, __ddiv_rn(static_cast<double>(first[i * row + v]), count));
            equal = equal && first[i * row + v] == first[v];
        }
        if (equal) return 0;
        for (int i = 0; i < embed; i++) {
            double e = __dsub_rn(static_cast<double>(first[i * row + v]), mean);
            sd = __dadd_rn(sd, __dmul_rn(e, e));
        }
        sd = __dsqrt_rn(__ddiv_rn(sd, count));
        if (sd == 0) return 0;
        return static_cast<float>(__ddiv_rn(__dsub_rn(static_cast<double>(first[c]), mean), sd));
    }
};

__device__ inline Points pointsOf(const Task &t, const Geometry &g, const float *f32) {
    const float *p = f32 + t.params.off;
    int embed = static_cast<int>(p[paramEmbed]), rows = g.n + embed - 1;
    return {f32 + t.x.off + t.x.len - static_cast<size_t>(rows) * t.dim, f32 + t.bins.off,
            g.n, g.dim, static_cast<int>(t.dim), embed, p[paramZNorm] != 0};
}

// Columns are the coordinates by place, in tiles of 32 places, a row of 32 for
// each of dim numbers. They are brought to a size whose squares are floats by a
// power of two, which is 1 for usual data: then they are as they came.
__device__ inline size_t cell(int dim, int place, int c) {
    return static_cast<size_t>((place >> 5) * dim + c) * 32 + (place & 31);
}

__device__ inline uint32_t maxOf(uint32_t v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    for (int o = 16; o > 0; o >>= 1) v = max(v, __shfl_xor_sync(all, v, o));
    return v;
#else
    return __reduce_max_sync(all, v);
#endif
}

// fill writes the columns of places [from, to), dim >= g.dim of them, and returns
// the scale; 0: a number is not finite; negative: for the CPU. The block calls it.
__device__ inline float fill(float *columns, int dim, const Geometry &g, const Points &points, int from, int to) {
    __shared__ uint32_t most;
    if (threadIdx.x == 0) most = 0;
    __syncthreads();
    uint32_t peak = 0;
    auto see = [&](float v) { peak = max(peak, __float_as_uint(v) & 0x7fffffffu); };
    if (points.znorm) {
        for (int e = threadIdx.x; e < g.n * g.dim; e += blockDim.x) see(points.at(e / g.dim, e % g.dim));
    } else {
        for (int e = threadIdx.x; e < (g.n + points.embed - 1) * points.row; e += blockDim.x) see(points.x[e]);
    }
    for (int e = threadIdx.x; e < (g.total - g.n) * g.dim; e += blockDim.x) see(points.virtuals[e]);
    peak = maxOf(peak);
    if ((threadIdx.x & 31) == 0) atomicMax(&most, peak);
    __syncthreads();
    peak = most;
    if (peak >= 0x7f800000u) return 0;
    float top = __uint_as_float(peak), scale = 1;
    if (peak != 0 && !(top >= 0x1p-20f && top <= 0x1p40f)) {
        if (points.znorm) return -1;
        int exponent = peak < 0x800000u ? -127 : static_cast<int>(peak >> 23) - 127;
        scale = __uint_as_float(static_cast<uint32_t>(min(20 - exponent, 120) + 127) << 23);
    }
    for (int place = from + threadIdx.x; place < to; place += blockDim.x) {
        int i = pointAt(g, place);
        for (int c = 0; c < dim; c++) {
            columns[cell(dim, place, c)] = i >= g.total ? infinity : c < g.dim ? points.at(i, c) * scale : 0.0f;
        }
    }
    __syncthreads();
    return scale;
}

// Store is where a task's intermediate results are. Places have k-distances and
// densities; slots, which are places or numbers in Search's order, have lists.
struct Store {
    double *kdist, *lrd, *distance;
    uint16_t *neighbour;
};

// Search finds neighbours for a block's worth of queries.
struct Search {
    Geometry g;
    Points points;
    const float *columns;
    int dim;           // rows of a tile, at least g.dim
    float scale;
    Store to;
    // Shared memory.
    float *low;        // minima of groups, [group][pitch]; then
    uint32_t *within;  // a bit for each place that may be a neighbour, [query][words]
    float *query;      // coordinates, [c][wide]
    float *bound;      // [wide]
    uint16_t *place;   // of the queries
    unsigned char *warps;
};

// shiftIn puts the sign of v behind mask's bits.
__device__ inline uint32_t shiftIn(uint32_t mask, float v) {
#ifdef ODRADEK_EMULATE
    return mask << 1 | __float_as_uint(v) >> 31;
#else
    return __funnelshift_l(__float_as_uint(v), mask, 1);
#endif
}

// squares adds the squared distances of 4 queries and C places to sum.
template <int D, int C> __device__ __forceinline__ void squares(float (&sum)[4][C], const float *tile, const float (&q)[4][D ? D : 1],
                                                                const float *query, int dim, int wide) {
#pragma unroll
    for (int c = 0; c < (D ? D : dim); c++) {
        float v[C], own[4];
#pragma unroll
        for (int e = 0; e < C; e += 4) {
            float4 f = *reinterpret_cast<const float4 *>(tile + c * 32 + e);
            v[e] = f.x, v[e + 1] = f.y, v[e + 2] = f.z, v[e + 3] = f.w;
        }
        if (D == 0) {
            float4 f = *reinterpret_cast<const float4 *>(query + c * wide);
            own[0] = f.x, own[1] = f.y, own[2] = f.z, own[3] = f.w;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int e = 0; e < C; e++) {
                float t = (D ? q[i][D ? c : 0] : own[i]) - v[e];
                sum[i][e] = fmaf(t, t, sum[i][e]);
            }
        }
    }
}

template <int D> __device__ __forceinline__ void loadQueries(float (&q)[4][D ? D : 1], const float *query, int wide) {
    if constexpr (D > 0) {
#pragma unroll
        for (int c = 0; c < D; c++) {
            float4 f = *reinterpret_cast<const float4 *>(query + c * wide);
            q[0][c] = f.x, q[1][c] = f.y, q[2][c] = f.z, q[3][c] = f.w;
        }
    }
}

// minima leaves the least squared distance of each query to each group in s.low.
template <int D> __device__ __forceinline__ void minima(const Search &s) {
    constexpr int C = D ? 4 : 8;
    int wide = s.g.wide, log = s.g.log, padded = s.g.padded, dim = D ? D : s.dim;
    int lanes = wide / 4, lane = threadIdx.x & (lanes - 1), slice = threadIdx.x / lanes, slices = blockDim.x / lanes;
    int group = 1 << log, unit = max(group, 32), pitch = wide + 16;
    const float *query = s.query + lane * 4, *columns = s.columns;
    float *lowest = s.low + lane * 4;
    float q[4][D ? D : 1];
    loadQueries<D>(q, query, wide);
    for (int first = slice * unit; first < padded; first += slices * unit) {
        float low[4] = {infinity, infinity, infinity, infinity};
        auto put = [&](int place) {
            *reinterpret_cast<float4 *>(lowest + (place >> log) * pitch) = make_float4(low[0], low[1], low[2], low[3]);
            low[0] = low[1] = low[2] = low[3] = infinity;
        };
        for (int place = first; place < first + unit; place += C) {
            float sum[4][C] = {};
            squares<D, C>(sum, columns + cell(dim, place, 0), q, query, dim, wide);
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
template <int D> __device__ __forceinline__ void mark(const Search &s) {
    constexpr int C = D ? 4 : 8;
    int wide = s.g.wide, dim = D ? D : s.dim;
    int lanes = wide / 4, lane = threadIdx.x & (lanes - 1), slice = threadIdx.x / lanes, slices = blockDim.x / lanes;
    int words = s.g.padded / 32, pitch = words | 1;
    const float *query = s.query + lane * 4, *columns = s.columns;
    uint32_t *within = s.within + lane * 4 * pitch;
    float q[4][D ? D : 1];
    loadQueries<D>(q, query, wide);
    float4 f = *reinterpret_cast<const float4 *>(s.bound + lane * 4);
    float bound[4] = {f.x, f.y, f.z, f.w};
    for (int word = slice; word < words; word += slices) {
        uint32_t mask[4] = {};
        for (int e = 0; e < 32; e += C) {
            float sum[4][C];
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int o = 0; o < C; o++) sum[i][o] = -bound[i];
            }
            squares<D, C>(sum, columns + cell(dim, word * 32 + e, 0), q, query, dim, wide);
#pragma unroll
            for (int o = 0; o < C; o++) {
#pragma unroll
                for (int i = 0; i < 4; i++) mask[i] = shiftIn(mask[i], sum[i][o]);
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

// widened is a bound that float32 rounding of the distances to neighbours, and
// of those in mark, stays within: squares of 4(d+4) roundings, twice.
__device__ inline float widened(float t, int dim) {
    return fmaf(t, 1 + (dim + 4) * 0x1p-21f, 8 * (dim + 1) * 0x1p-149f);
}

// limit sets the queries' bounds: the k+1st of the minima, that of the point
// itself among them. Two threads a query sort 32 minima each.
__device__ __forceinline__ void limit(const Search &s) {
    const Geometry &g = s.g;
    int pitch = g.wide + 16, slots = g.padded >> g.log;
    for (int i = threadIdx.x; i < 2 * g.wide; i += blockDim.x) {
        float a[32];
#pragma unroll
        for (int r = 0; r < 32; r++) {
            int group = 2 * r + (i & 1);
            a[r] = group < slots ? s.low[group * pitch + (i >> 1)] : infinity;
        }
        order<16, 16, 0, 16>(a);
        // The lower half of both, which rises, then falls or the reverse.
        float b[32];
#pragma unroll
        for (int r = 0; r < 32; r++) b[r] = fminf(a[r], __shfl_xor_sync(all, a[31 - r], 1));
        descend<16>(b, g.k);
        if ((i & 1) == 0) s.bound[i >> 1] = widened(b[0], g.dim);
    }
}

// limitMany is limit for 256 groups, a warp a query: it finds the bound's upper
// 20 bits one by one.
__device__ inline void limitMany(const Search &s) {
    const Geometry &g = s.g;
    int pitch = g.wide + 16, slots = g.padded >> g.log, lane = threadIdx.x & 31;
    for (int q = threadIdx.x >> 5; q < g.wide; q += blockDim.x >> 5) {
        uint32_t v[8], t = 0;
#pragma unroll
        for (int r = 0; r < 8; r++) v[r] = r * 32 + lane < slots ? __float_as_uint(s.low[(r * 32 + lane) * pitch + q]) : 0x7f800000u;
        for (uint32_t bit = 1u << 30; bit >= 1u << 11; bit >>= 1) {
            int below = 0;
#pragma unroll
            for (int r = 0; r < 8; r++) below += __popc(__ballot_sync(all, v[r] < (t | bit)));
            if (below <= g.k) t |= bit;
        }
        if (lane == 0) s.bound[q] = widened(__uint_as_float(t | ((1u << 11) - 1)), g.dim);
    }
}

// between is the squared distance of two places as the definition has it.
__device__ __forceinline__ double between(const Search &s, int a, int b) {
    double sum = 0;
    if (s.scale == 1) {
        const float *x = s.columns + cell(s.dim, a, 0), *y = s.columns + cell(s.dim, b, 0);
#pragma unroll 8
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

// Found are a warp's candidates: squared distances and places, 32R of them.
template <int R> struct Found {
    double square[32 * R];
    uint16_t place[32 * R];
    uint16_t listed[candidates];
};

__device__ inline double maxOf(double v) {
    for (int o = 16; o > 0; o >>= 1) v = fmax(v, __shfl_xor_sync(all, v, o));
    return v;
}

// nearest keeps the k nearest of count candidates, in order of place, and returns
// the largest square and of the points that have it the last. What float32 keeps
// apart is dropped by float32.
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
        key[r] = there ? __float_as_uint(static_cast<float>(square[r] * s.scale * s.scale)) + 1 : 0;
    }
    int drop = count - s.g.k;
    uint32_t top;
    double most;
    for (;;) {
        top = key[0];
#pragma unroll
        for (int r = 1; r < R; r++) top = max(top, key[r]);
        top = maxOf(top);
        int with = 0;
        uint32_t who = 0;
        double mine = -1;
#pragma unroll
        for (int r = 0; r < R; r++) {
            uint32_t b = __ballot_sync(all, key[r] == top);
            with += __popc(b);
            who = b ? b : who;
            if (key[r] == top) mine = fmax(mine, square[r]);
        }
        if (with <= drop) {
#pragma unroll
            for (int r = 0; r < R; r++) key[r] = key[r] == top ? 0 : key[r];
            drop -= with;
            continue;
        }
        if (with == 1) {
            most = __shfl_sync(all, mine, __ffs(who) - 1);
            last = -1;
            break;
        }
        // Equal in float32.
        most = maxOf(mine);
        int point[R], same = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            bool is = key[r] == top && square[r] == most;
            point[r] = is ? pointAt(s.g, place[r]) : -1;
            same += __popc(__ballot_sync(all, is));
        }
        if (same <= drop) {
#pragma unroll
            for (int r = 0; r < R; r++) key[r] = point[r] >= 0 ? 0 : key[r];
            drop -= same;
            continue;
        }
        // Equal: the first in time stay.
        for (;;) {
            int latest = point[0];
#pragma unroll
            for (int r = 1; r < R; r++) latest = max(latest, point[r]);
            latest = static_cast<int>(maxOf(static_cast<uint32_t>(latest + 1))) - 1;
            last = latest;
            if (drop == 0) break;
            drop--;
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (point[r] == latest) point[r] = -1, key[r] = 0;
            }
        }
        break;
    }
    if (last < 0) {
        int point = -1;
#pragma unroll
        for (int r = 0; r < R; r++) {
            if (key[r] == top) point = pointAt(s.g, place[r]);
        }
        last = static_cast<int>(maxOf(static_cast<uint32_t>(point + 1))) - 1;
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

// decide finds the neighbours of a query among the places marked for it; a warp
// does it. slot is where its list goes, -1: nowhere.
template <int R> __device__ inline void decide(const Search &s, int q, int own, int slot) {
    const Geometry &g = s.g;
    Found<R> &found = reinterpret_cast<Found<R> *>(s.warps)[threadIdx.x >> 5];
    int lane = threadIdx.x & 31, words = g.padded / 32;
    const uint32_t *within = s.within + q * (words | 1);
    int count = 0, listed = 0, last = 0x7fffffff;
    double most = __longlong_as_double(0x7ff0000000000000);
    for (int at = 0;;) {
        // List places until there is no room, a few words at a time where most places
        // are within.
        if (at < words) {
            int span = 32;
            uint32_t mask = at + lane < words ? within[at + lane] : 0;
            int before, sum;
            for (;;) {
                before = __popc(mask);
                for (int o = 1; o < 32; o <<= 1) {
                    int v = __shfl_up_sync(all, before, o);
                    if (lane >= o) before += v;
                }
                sum = __shfl_sync(all, before, 31);
                if (sum <= candidates) break;
                span = candidates / 32;
                if (lane >= span) mask = 0;
            }
            if (listed + sum <= candidates) {
                int a = listed + before - __popc(mask);
                while (mask) {
                    int high = __clz(mask);
                    found.listed[a++] = static_cast<uint16_t>((at + lane) * 32 + high);
                    mask &= ~(0x80000000u >> high);
                }
                listed += sum;
                at += span;
                if (at < words) continue;
            }
        }
        __syncwarp();
        for (int first = 0; first < listed; first += 32) {
            bool there = first + lane < listed;
            int place = there ? found.listed[first + lane] : own;
            double square = between(s, own, place);
            there = there && place != own;
            uint32_t take = 0;
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
        __syncwarp();
        if (at >= words) break;
    }
    most = nearest<R>(s, found, count, last);
    if (lane == 0) s.to.kdist[own] = sqrt(most);
    if (slot < 0) return;
    for (int a = lane; a < g.k; a += 32) {
        s.to.neighbour[static_cast<size_t>(slot) * g.k + a] = found.place[a];
        s.to.distance[static_cast<size_t>(slot) * g.k + a] = sqrt(found.square[a]);
    }
}

// search finds the neighbours of count queries, at most g.wide: places from
// first on, or those in list. Their lists go to slots from first on, where
// lists is set. The block calls it.
template <int D> __device__ __forceinline__ void search(const Search &s, const uint16_t *list, int first, int count, bool lists) {
    const Geometry &g = s.g;
    for (int i = threadIdx.x; i < g.wide; i += blockDim.x) {
        int place = i < count ? (list ? list[first + i] : first + i) : 0;
        s.place[i] = static_cast<uint16_t>(place);
        for (int c = 0; c < s.dim; c++) s.query[c * g.wide + i] = s.columns[cell(s.dim, place, c)];
    }
    __syncthreads();
    minima<D>(s);
    __syncthreads();
    if (D == 0 && g.k > smallK) limitMany(s);
    else limit(s);
    __syncthreads();
    mark<D>(s);
    __syncthreads();
    for (int i = threadIdx.x >> 5; i < count; i += blockDim.x >> 5) {
        int place = s.place[i];
        if (pointAt(g, place) >= g.total) continue;
        int slot = lists ? first + i : -1;
        if (D == 0 && g.k > smallK) decide<6>(s, i, place, slot);
        else decide<2>(s, i, place, slot);
    }
    __syncthreads();
}

// density sets the lrd of the point at a place from its list.
__device__ inline void density(const Geometry &g, const Store &to, bool strict, int place, int slot) {
    const uint16_t *neighbour = to.neighbour + static_cast<size_t>(slot) * g.k;
    const double *distance = to.distance + static_cast<size_t>(slot) * g.k;
    double sum = 0;
#pragma unroll 4
    for (int a = 0; a < g.k; a++) sum = __dadd_rn(sum, fmax(to.kdist[neighbour[a]], distance[a]));
    double mean = sum / g.k;
    to.lrd[place] = 1 / (strict ? mean : mean + 1e-10);
}

// factor is the score of the point at a place.
__device__ inline float factor(const Geometry &g, const Store &to, int place, int slot) {
    const uint16_t *neighbour = to.neighbour + static_cast<size_t>(slot) * g.k;
    double sum = 0;
#pragma unroll 4
    for (int a = 0; a < g.k; a++) sum = __dadd_rn(sum, to.lrd[neighbour[a]]);
    double lrd = to.lrd[place];
    if (lrd == __longlong_as_double(0x7ff0000000000000)) return 1;
    return static_cast<float>(fmin(sum / g.k / lrd, static_cast<double>(3.40282346638528859811704183484516925e+38f)));
}

// middle is the lower median of count doubles, 0 or above; the block calls it.
template <class At> __device__ inline double middle(int count, At at) {
    __shared__ int below;
    unsigned long long t = 0;
    for (int bit = 62; bit >= 0; bit--) {
        unsigned long long more = t | 1ull << bit;
        if (threadIdx.x == 0) below = 0;
        __syncthreads();
        int mine = 0;
        for (int i = threadIdx.x; i < count; i += blockDim.x) mine += static_cast<unsigned long long>(__double_as_longlong(at(i))) < more;
        for (int o = 16; o > 0; o >>= 1) mine += __shfl_xor_sync(all, mine, o);
        if ((threadIdx.x & 31) == 0 && mine > 0) atomicAdd(&below, mine);
        __syncthreads();
        if (below <= (count - 1) / 2) t = more;
        __syncthreads();
    }
    return __longlong_as_double(static_cast<long long>(t));
}

// virtualDensities sets the lrd of the virtual points; the block calls it, and
// meets after it. False: a count for the CPU.
__device__ inline bool virtualDensities(const Geometry &g, const Store &to, const float *counts, double alpha) {
    int virtuals = g.total - g.n;
    bool usual = true;
    for (int i = threadIdx.x; i < virtuals; i += blockDim.x) usual = usual && counts[i] >= 0 && counts[i] < infinity;
    if (__syncthreads_or(!usual)) return false;
    double a = alpha;
    if (alpha == 0) {
        a = middle(g.n, [&](int i) { return to.lrd[placeOf(g, i)]; });
        double logs = log1p(middle(virtuals, [&](int i) { return static_cast<double>(counts[i]); }));
        if (logs > 0) a /= logs;
    }
    for (int i = threadIdx.x; i < virtuals; i += blockDim.x) {
        double c = counts[i];
        to.lrd[placeOf(g, g.n + i)] = a * (alpha > 0 ? fmax(log(c), 0.0) : log1p(c));
    }
    return true;
}

// even sets all scores of a task where they are one number; the block calls it.
__device__ inline void even(const Task &t, float *out, float score) {
    for (int i = threadIdx.x; i < static_cast<int>(t.fresh); i += blockDim.x) out[t.scores.off + i] = score;
}

constexpr float nan = __builtin_nanf("");
constexpr int onChip = 1024;  // places up to here have k-distances and densities in shared memory

__device__ inline int rounded(int bytes) { return (bytes + 15) & ~15; }

// carve lays out shared memory, as lofShared in cuda/lof.go sizes it; it returns
// what is behind.
__device__ inline unsigned char *carve(const Geometry &g, int dim, Search &s, unsigned char *shared) {
    int low = (g.padded >> g.log) * (g.wide + 16) * 4, within = g.wide * (g.padded / 32 | 1) * 4;
    int region = max(max(low, within), g.padded <= onChip ? g.padded * 8 : 0);
    unsigned char *query = shared + rounded(region), *bound = query + dim * g.wide * 4, *place = bound + g.wide * 4, *warps = place + g.wide * 2;
    if (threadIdx.x == 0) {
        s.low = reinterpret_cast<float *>(shared);
        s.within = reinterpret_cast<uint32_t *>(shared);
        s.query = reinterpret_cast<float *>(query);
        s.bound = reinterpret_cast<float *>(bound);
        s.place = reinterpret_cast<uint16_t *>(place);
        s.warps = warps;
    }
    return warps + (blockDim.x >> 5) * (g.k > smallK ? sizeof(Found<6>) : sizeof(Found<2>));
}

// window scores the tasks of a tile, one after the other.
template <int D> __device__ __forceinline__ void window(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status,
                                                        unsigned char *scratch) {
    DYNAMIC_SHARED(unsigned char, shared);
    __shared__ Search s;
    __shared__ int count;
    const Tile &tile = tiles[blockIdx.x];
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        __syncthreads();
        const Task &t = tasks[i];
        const float *p = f32 + t.params.off;
        Geometry g = geometry(t, p);
        int fresh = t.fresh, slots = g.some ? fresh * (g.k + 1) : g.padded;
        unsigned char *memory = scratch + static_cast<size_t>(tile.scratch) * 256, *chip = carve(g, D ? D : g.dim, s, shared);
        float *columns = reinterpret_cast<float *>(D ? chip : memory);
        (D ? chip : memory) += static_cast<size_t>(g.padded) * (D ? D : g.dim) * 4;
        Store to;
        to.lrd = reinterpret_cast<double *>(shared);  // over s.low
        to.kdist = reinterpret_cast<double *>(chip);
        if (g.padded <= onChip) {
            chip += g.padded * 8;
        } else {
            to.lrd = reinterpret_cast<double *>(memory);
            to.kdist = to.lrd + g.padded;
            memory += g.padded * 16;
        }
        to.distance = reinterpret_cast<double *>(memory);
        to.neighbour = reinterpret_cast<uint16_t *>(memory + static_cast<size_t>(slots) * g.k * 8);
        uint32_t *known = reinterpret_cast<uint32_t *>(chip);  // a bit a place: listed in order
        uint16_t *order = reinterpret_cast<uint16_t *>(known + g.padded / 32);  // places to search from

        float scale = fill(columns, D ? D : g.dim, g, pointsOf(t, g, f32), 0, g.padded);
        if (scale <= 0) {
            if (scale == 0) even(t, out, nan);
            else if (threadIdx.x == 0) status[i] = 1;
            continue;
        }
        if (g.k < 1) {
            even(t, out, 1);
            continue;
        }
        if (threadIdx.x == 0) {
            s.g = g;
            s.points = pointsOf(t, g, f32);
            s.dim = D ? D : g.dim;
            s.scale = scale;
            s.columns = columns;
            s.to = to;
            count = g.some ? fresh : g.padded;
        }
        if (g.some) {
            for (int a = threadIdx.x; a < g.padded / 32; a += blockDim.x) known[a] = 0;
            __syncthreads();
            for (int f = threadIdx.x; f < fresh; f += blockDim.x) {
                int place = placeOf(g, g.n - fresh + f);
                order[f] = static_cast<uint16_t>(place);
                atomicOr(known + place / 32, 1u << (place & 31));
            }
        }
        __syncthreads();
        // All places in one round; or the fresh points, then their neighbours, which
        // have lists, then the neighbours of all of these.
        int lists = count;
        for (int from = 0, round = 0; round < (g.some ? 3 : 1); round++) {
            int end = count;
            if (round == 1) lists = end;
            for (int first = from; first < end; first += g.wide) search<D>(s, g.some ? order : nullptr, first, min(g.wide, end - first), round < 2);
            if (g.some && round < 2) {
                for (int e = threadIdx.x; e < end * g.k; e += blockDim.x) {
                    int place = to.neighbour[e];
                    if (round == 0 && pointAt(g, place) >= g.n) continue;
                    uint32_t bit = 1u << (place & 31);
                    if (!(atomicOr(known + place / 32, bit) & bit)) order[atomicAdd(&count, 1)] = static_cast<uint16_t>(place);
                }
                __syncthreads();
            }
            from = end;
        }
        bool strict = p[paramStrict] != 0;
        for (int a = threadIdx.x; a < lists; a += blockDim.x) {
            int place = g.some ? order[a] : a;
            if (pointAt(g, place) < g.n) density(g, to, strict, place, a);
        }
        __syncthreads();
        if (g.total > g.n) {
            if (!virtualDensities(g, to, f32 + t.bins.off + (g.total - g.n) * g.dim, p[paramAlpha])) {
                if (threadIdx.x == 0) status[i] = 1;
                continue;
            }
            __syncthreads();
        }
        for (int f = threadIdx.x; f < fresh; f += blockDim.x) {
            int place = placeOf(g, g.n - fresh + f);
            out[t.scores.off + f] = factor(g, to, place, g.some ? f : place);
        }
    }
}

// Head begins the scratch of a large window; the rest is as in scratchOf.
struct Head {
    float scale;
};

constexpr int partPlaces = 128;  // places a block of a large window works for

// Part is a block's share of a large window.
struct Part {
    const Task *task;
    const float *params;
    Geometry g;
    Points points;
    Store store;
    Head *head;
    float *columns;
    int from, to;
};

__device__ inline Part partOf(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    const Tile &tile = tiles[blockIdx.x];
    Part part;
    part.task = tasks + tile.first;
    part.params = f32 + part.task->params.off;
    Geometry &g = part.g;
    g = geometry(*part.task, part.params);
    part.points = pointsOf(*part.task, g, f32);
    unsigned char *memory = scratch + static_cast<size_t>(tile.scratch) * 256;
    part.head = reinterpret_cast<Head *>(memory);
    part.columns = reinterpret_cast<float *>(memory + 256);
    part.store.lrd = reinterpret_cast<double *>(part.columns + static_cast<size_t>(g.padded) * g.dim);
    part.store.kdist = part.store.lrd + g.padded;
    part.store.distance = part.store.kdist + g.padded;
    part.store.neighbour = reinterpret_cast<uint16_t *>(part.store.distance + static_cast<size_t>(g.padded) * g.k);
    part.from = tile.part * partPlaces;
    part.to = min(part.from + partPlaces, g.padded);
    return part;
}

__device__ inline void loadPart(const Task *tasks, const Tile *tiles, const float *f32, uint32_t *status, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    float scale = fill(part.columns, part.g.dim, part.g, part.points, part.from, part.to);
    if (part.from == 0 && threadIdx.x == 0) {
        part.head->scale = scale;
        if (scale < 0) status[tiles[blockIdx.x].first] = 1;
    }
}

template <int D> __device__ __forceinline__ void searchPart(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    DYNAMIC_SHARED(unsigned char, shared);
    Part part = partOf(tasks, tiles, f32, scratch);
    __shared__ Search s;
    if (part.head->scale <= 0) return;
    carve(part.g, part.g.dim, s, shared);
    if (threadIdx.x == 0) {
        s.g = part.g;
        s.points = part.points;
        s.dim = part.g.dim;
        s.scale = part.head->scale;
        s.columns = part.columns;
        s.to = part.store;
    }
    __syncthreads();
    int wide = part.g.wide;
    for (int first = part.from; first < part.to; first += wide) search<D>(s, nullptr, first, min(wide, part.to - first), true);
}

__device__ inline void densityPart(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    if (part.head->scale <= 0) return;
    for (int place = part.from + threadIdx.x; place < part.to; place += blockDim.x) {
        if (pointAt(part.g, place) < part.g.n) density(part.g, part.store, part.params[paramStrict] != 0, place, place);
    }
}

// virtualPart is work for the first block of a task.
__device__ inline void virtualPart(const Task *tasks, const Tile *tiles, const float *f32, uint32_t *status, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    const Geometry &g = part.g;
    if (part.from != 0 || part.head->scale <= 0) return;
    bool usual = virtualDensities(g, part.store, part.points.virtuals + static_cast<size_t>(g.total - g.n) * g.dim, part.params[paramAlpha]);
    if (!usual && threadIdx.x == 0) status[tiles[blockIdx.x].first] = 1;
}

__device__ inline void scorePart(const Task *tasks, const Tile *tiles, const float *f32, float *out, unsigned char *scratch) {
    Part part = partOf(tasks, tiles, f32, scratch);
    const Geometry &g = part.g;
    const Task &t = *part.task;
    if (part.head->scale < 0) return;
    int first = g.n - static_cast<int>(t.fresh);
    for (int place = part.from + threadIdx.x; place < part.to; place += blockDim.x) {
        int i = pointAt(g, place);
        if (i < first || i >= g.n) continue;
        out[t.scores.off + i - first] = part.head->scale == 0 ? nan : factor(g, part.store, place, place);
    }
}

}  // namespace lof

// A whole task in a block: the points in shared memory (resident, D numbers
// each, those above a task's dim 0) or in scratch (D = 0: as many as the task
// has).

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                uint32_t *status, unsigned char *scratch) {
    lof::window<0>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window_1(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<1>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window_2(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<2>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window_4(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<4>(tasks, tiles, f32, out, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_window_8(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::window<8>(tasks, tiles, f32, out, status, scratch);
}

// Large windows, all of whose points are searched from: a launch each for the
// points, the neighbours, the densities and the scores, several blocks a task.
// The tile's part says which of them a block is; scratch is the task's.

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_load(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                              uint32_t *status, unsigned char *scratch) {
    lof::loadPart(tasks, tiles, f32, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_search(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                uint32_t *status, unsigned char *scratch) {
    lof::searchPart<0>(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_search_8(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    lof::searchPart<8>(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_density(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                 uint32_t *status, unsigned char *scratch) {
    lof::densityPart(tasks, tiles, f32, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_virtual(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                 uint32_t *status, unsigned char *scratch) {
    lof::virtualPart(tasks, tiles, f32, status, scratch);
}

extern "C" __global__ void __launch_bounds__(256, LOF_BLOCKS) lof_score(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                               uint32_t *status, unsigned char *scratch) {
    lof::scorePart(tasks, tiles, f32, out, scratch);
}
