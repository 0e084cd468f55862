// Op KNN: all points of a set by products of matrices. See knn.cu.
#pragma once
#include "half.h"
#include "knn_scan.h"

namespace knn {

constexpr int slotsMost = 88;

// The rows of a place in the products: its coordinates, its norm in three parts, and the error of the norm.
// A query's are its coordinates times -2, and these.
__device__ constexpr float normPart(int i) { return i == 0 ? 0x1p15f : i == 1 ? 4.f : 0x1p-11f; }
constexpr float errorPart = 4;

// errorOf returns the largest error of a place's share in a square of products: |x|^2 + |y|^2 - 2xy is off by
// less than the sum of both places'. Numbers of 16 bits are off by 2^-11 of themselves, or by 2^-25; products
// are exact, and their sums lose less than 2^-22 of the largest of them for each.
__device__ inline float errorOf(double norm, double sizes, int steps) {
    return __double2float_ru(norm * (0x1p-10 * 1.01 + (16 * steps + 16) * 0x1p-20) + sizes * 0x1.1p-24 + 0x1p-33);
}

// halves writes the block's share of the places as columns of products.
__device__ inline void halves(const Set &s) {
    __shared__ float mean[rowMost];
    if (!s.tensor || s.header->spoilt || s.header->half == 0) return;
    centre(s, mean);
    const float half = s.header->half;
    const int steps = tensorSteps(s.most);
    uint2 *to = reinterpret_cast<uint2 *>(s.halves);
    for (int place = s.block * blockDim.x + threadIdx.x; place < s.padded; place += s.blocks * blockDim.x) {
        const bool there = place < s.n;
        const float *x = s.x + static_cast<size_t>(s.order[place]) * s.row;
        double norm = 0, sizes = 0;
        for (int c = 0; c < s.width; c++) {
            double v = there ? static_cast<double>((x[c] - mean[c % s.row]) * half) : 0;
            norm += v * v, sizes += fabs(v);
        }
        const float error = errorOf(norm, sizes, steps);
        uint32_t parts[4];
        double rest = norm;
        for (int i = 0; i < 3; i++) {
            parts[i] = halfOf(static_cast<float>(rest / static_cast<double>(normPart(i))));
            rest -= static_cast<double>(floatOf(parts[i])) * static_cast<double>(normPart(i));
        }
        parts[3] = halfOf(error / errorPart);
        if (floatOf(parts[3]) * errorPart < error) parts[3]++;
        if (!there) parts[0] = 0x7bff, parts[1] = parts[2] = parts[3] = 0;  // farther than any point
        s.norms[place] = make_float2(__double2float_rd(norm), floatOf(parts[3]) * errorPart);
        auto row = [&](int c) -> uint32_t {
            if (c < s.width) return there ? halfOf((x[c] - mean[c % s.row]) * half) : 0;
            return c < s.width + 4 ? parts[c - s.width] : 0;
        };
        for (int step = 0; step < steps; step++) {
            size_t at = (static_cast<size_t>(place >> 4) * steps + step) * 32 + 4 * (place & 7);
            for (int t = 0; t < 4; t++) {
                int c = 16 * step + 2 * t;
                to[(at + t) * 2 + (place >> 3 & 1)] = make_uint2(row(c) | row(c + 1) << 16, row(c + 8) | row(c + 9) << 16);
            }
        }
    }
}

// Sums has the state of a warp's search for its queries: T times 16, in products with K rows of 16 numbers.
// Of each 16 queries a lane has sums of two, its quotient by 4 and that plus 8.
template <int K, int T> struct Sums {
    uint32_t a[T][K][4];
    float limit[T][4];  // of sums, negative; twice for each query
    int count[2 * T];   // entries of the lane's lists
};

// Warp is a warp's shared memory.
struct Warp {
    double wide[4 * slotsMost];
    uint32_t places[4 * slotsMost];
    float limit[64];       // by query
    uint32_t shortened[64];  // by query: how often its lists were; alone where that was too often
    float query[64];
};
constexpr uint32_t isAlone = ~0u;

// ask loads the queries from place first on; sign is the sign of the places' errors.
template <int K, int T> __device__ __forceinline__ void ask(const Set &s, int first, float sign, uint32_t (&a)[T][K][4]) {
    const int lane = threadIdx.x & 31;
    const uint2 *from = reinterpret_cast<const uint2 *>(s.halves);
#pragma unroll
    for (int i = 0; i < T; i++) {
#pragma unroll
        for (int k = 0; k < K; k++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                uint2 v = from[((static_cast<size_t>(first / 16 + i) * K + k) * 32 + lane) * 2 + h];
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    uint32_t both = e < 2 ? v.x : v.y, one = e & 1 ? both >> 16 : both & 0xffff;
                    int c = 16 * k + 2 * (lane & 3) + (e & 1) + 8 * (e >> 1), extra = c - s.width;
                    float f = extra < 0 ? -2 * floatOf(one) : extra < 3 ? normPart(extra) : extra == 3 ? sign * errorPart : 0;
                    uint32_t &to = a[i][k][h + 2 * (e >> 1)];
                    to = e & 1 ? to | halfOf(f) << 16 : halfOf(f);
                }
            }
        }
    }
}

// Next reads the columns of 16 places after the other, some steps ahead, by way of a ring in shared memory of which a
// lane reads only what it has copied itself.
template <int K> struct Next {
    static constexpr int ring = K == 1 ? 8 : K <= 3 ? 4 : 2;
    const uint4 *at, *end;
    uint4 *to;  // of the lane
    int slot;

    __device__ __forceinline__ void copy(int slot) {
#pragma unroll
        for (int k = 0; k < K; k++) fetch(to + (slot * K + k) * 32, at + k * 32);
        fetches();
        at = at + K * 32 < end ? at + K * 32 : at;
    }
    __device__ __forceinline__ void begin(const uint4 *from, const uint4 *last, uint4 *mine) {
        at = from, end = last, to = mine, slot = 0;
        fetched<0>();  // of the pass before
#pragma unroll
        for (int i = 0; i < ring - 1; i++) copy(i);
    }
    // take sets columns to the columns of the next places.
    __device__ __forceinline__ void take(uint4 (&columns)[K]) {
        fetched<ring - 2>();
#pragma unroll
        for (int k = 0; k < K; k++) columns[k] = to[(slot * K + k) * 32];
        copy((slot + ring - 1) % ring);
        slot = (slot + 1) % ring;
    }
};

// times sets sum to the products with 8 of 16 places, from limit on.
template <int K, int T> __device__ __forceinline__ void times(float (&sum)[T][4], const uint32_t (&a)[T][K][4], const uint4 (&b)[K], int half, const float (&limit)[T][4]) {
#pragma unroll
    for (int k = 0; k < K; k++) {
#pragma unroll
        for (int i = 0; i < T; i++) {
            const uint32_t x = half ? b[k].z : b[k].x, y = half ? b[k].w : b[k].y;
            if (k == 0) multiply(sum[i], a[i][k], x, y, limit[i]);
            else multiply(sum[i], a[i][k], x, y, sum[i]);
        }
    }
}

// leastOf writes the least sum of each group of places for the warp's queries, with the places' errors added. A
// group has every eighth place of a run of places.
template <int K, int T> __device__ __forceinline__ void leastOf(const Set &s, int first, float *least, uint4 *ring) {
    const int lane = threadIdx.x & 31, runs = s.minima / 8, steps = s.padded / 16;
    uint32_t a[T][K][4];
    ask<K, T>(s, first, 1, a);
    float zero[T][4];
#pragma unroll
    for (int i = 0; i < T; i++) zero[i][0] = zero[i][1] = zero[i][2] = zero[i][3] = 0;
    Next<K> next;
    next.begin(s.halves + lane, s.halves + static_cast<size_t>(steps) * K * 32, ring + lane);
    int step = 0;
#pragma unroll 1
    for (int run = 0; run < runs; run++) {
        const int to = static_cast<int>(static_cast<long long>(steps) * (run + 1) / runs);
        float low[T][4];
#pragma unroll
        for (int i = 0; i < T; i++) low[i][0] = low[i][1] = low[i][2] = low[i][3] = infinite;
#pragma unroll 1
        for (; step < to; step++) {
            uint4 b[K];
            next.take(b);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float sum[T][4];
                times<K, T>(sum, a, b, h, zero);
#pragma unroll
                for (int i = 0; i < T; i++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) low[i][e] = fminf(low[i][e], sum[i][e]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < T; i++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float *to = least + (16 * i + (lane >> 2) + 8 * h) * s.minima + 8 * run + 2 * (lane & 3);
                *reinterpret_cast<float2 *>(to) = make_float2(low[i][2 * h], low[i][2 * h + 1]);
            }
        }
    }
    __syncwarp();
}

// above returns a limit of sums that includes t in spite of rounding.
__device__ __forceinline__ float above(float t) { return t + fabsf(t) * 0x1p-20f + 0x1p-32f; }

// upTo returns one of 32 E keys such that at least m are not above it, and without its ties at most m+slack.
template <int E> __device__ __forceinline__ uint32_t upTo(const uint32_t (&v)[E], int m, int slack) {
    uint32_t low = ~0u, high = 0;
#pragma unroll
    for (int i = 0; i < E; i++) low = min(low, v[i]), high = max(high, v[i]);
    low = ~greatest(~low), high = greatest(high);
    if (low == high) return low;
    const int top = topBit(low ^ high);
    uint32_t t = low >> top >> 1 << top << 1;
    for (int bit = top; bit >= 0; bit--) {
        const uint32_t more = t | 1u << bit;
        int below = 0;
#pragma unroll
        for (int i = 0; i < E; i++) below += v[i] < more ? 1 : 0;
        below = sumOf(below);
        if (below < m) {
            t = more;
        } else if (below <= m + slack) {
            high = 0;
#pragma unroll
            for (int i = 0; i < E; i++) high = v[i] < more ? max(high, v[i]) : high;
            return greatest(high);
        }
    }
    return t;
}

// limits sets the limits of the warp's queries: as many groups of places as points are wanted, the query among
// them, have their least sum within. The minima of a query are 32 E.
template <int T, int E> __device__ __forceinline__ void limits(const Set &s, int first, const float *least, Warp &warp) {
    const int lane = threadIdx.x & 31, others = s.wanted.others, n = s.n;
    const float2 *norms = s.norms + first;
#pragma unroll 1
    for (int row = 0; row < 16 * T; row++) {
        uint32_t v[E];
#pragma unroll
        for (int i = 0; i < E; i++) {
            uint32_t b = __float_as_uint(least[row * (32 * E) + 32 * i + lane]);
            v[i] = b & 0x80000000u ? ~b : b | 0x80000000u;
        }
        uint32_t key = upTo<E>(v, others + 1, others / 16);
        float low = __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
        if (lane == 0) warp.limit[row] = first + row < n ? above(low + 2 * norms[row].y) : -0x1p40f;
    }
    __syncwarp();
}

// gather moves the four lists of a query to shared memory, without the query itself, and returns their length.
template <int T> __device__ __forceinline__ int gather(const Set &s, const uint32_t *found, int count, int place, Warp &warp) {
    const int lane = threadIdx.x & 31, row = place & (16 * T - 1);
    int all = 0;
    for (int t = 0; t < 4; t++) {
        const int most = __shfl_sync(full, count, (row & 7) * 4 + t);
        for (int a = 0; a < most; a += 32) {
            uint32_t v = a + lane < most ? found[(row * 4 + t) * s.slots + a + lane] : static_cast<uint32_t>(place);
            const bool is = v != static_cast<uint32_t>(place) && v < static_cast<uint32_t>(s.n);
            uint32_t other = __ballot_sync(full, is);
            if (is) warp.places[all + __popc(other & ((1u << lane) - 1))] = v;
            all += __popc(other);
        }
    }
    __syncwarp();
    return all;
}

// tighten keeps of a query's count gathered places the nearest, writes them to the query's lists, and returns the
// limit of the sums of places that may be nearer. The whole warp calls it.
static __device__ __attribute__((noinline)) float tighten(const Set &s, uint32_t *lists, int count, int place, Warp &warp) {
    const int others = s.wanted.others;
    auto at = [&](int a) { return warp.places[a]; };
    double *wide = warp.wide;
    if (count <= others) return infinite;
    measure(s, count, place, wide, at);
    double far = doubleOf(rank<Bits>(count, others, 0, [&](int a) { return bitsOf(wide[a]); }));
    int drop = others - countOf(count, [&](int a) { return wide[a] < far; });
    uint32_t point = rank<uint32_t>(count, drop, 0, [&](int a) { return wide[a] == far ? s.order[at(a)] : 0x7fffffffu; });
    keep(warp.places, count, [&](int a) { return wide[a] < far || (wide[a] == far && s.order[at(a)] <= point); });
    for (int a = threadIdx.x & 31; a < others; a += 32) lists[(a & 3) * s.slots + (a >> 2)] = at(a);
    __syncwarp();
    if (far == 0 && !s.wanted.listed && !s.keeps) return -0x1p40f;  // no point is closer
    const double half = s.header->half;
    const float2 norm = s.norms[place];
    double square = far * half * half;
    return above(__double2float_ru(square * (1 + 0x1p-20) - static_cast<double>(norm.x) + static_cast<double>(norm.y)));
}

// settle scores a point whose neighbours are among the gathered places. The whole warp calls it.
static __device__ __attribute__((noinline)) void settle(const Set &s, int count, int place, Warp &warp, float *out) {
    conclude(s, count, place, warp.wide, out, [&](int a) { return warp.places[a]; });
}

// alone gathers the places that may be a query's neighbours, by float32 squares of differences, and returns their
// number: -1 where they are too many. It is for a query far from all points: products, whose errors grow with
// its norm, cannot tell its neighbours from others. The whole warp calls it.
static __device__ __attribute__((noinline)) int alone(const Set &s, int place, Warp &warp) {
    constexpr int E = 8;
    const int lane = threadIdx.x & 31, width = s.width, rows = s.rows, runs = s.padded / (32 * E);
    for (int c = lane; c < width; c += 32) warp.query[c] = s.columns[cell(rows, place, c)];
    __syncwarp();
    auto squares = [&](int run, float (&d)[E]) {
        const float *at = s.columns + static_cast<size_t>(run) * E * rows * 32 + lane;
#pragma unroll
        for (int i = 0; i < E; i++) d[i] = 0;
#pragma unroll 1
        for (int c = 0; c < width; c++) {
            const float q = warp.query[c];
#pragma unroll
            for (int i = 0; i < E; i++) {
                float e = q - at[(i * rows + c) * 32];
                d[i] = fmaf(e, e, d[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < E; i++) d[i] = 32 * (E * run + i) + lane == place ? infinite : d[i];
    };
    float low[E], d[E];
#pragma unroll
    for (int i = 0; i < E; i++) low[i] = infinite;
#pragma unroll 1
    for (int run = 0; run < runs; run++) {
        squares(run, d);
#pragma unroll
        for (int i = 0; i < E; i++) low[i] = fminf(low[i], d[i]);
    }
    uint32_t keys[E];
#pragma unroll
    for (int i = 0; i < E; i++) keys[i] = __float_as_uint(low[i]);
    const float last = __uint_as_float(upTo<E>(keys, s.wanted.others, s.wanted.others / 16));
    if (!(last < start)) return -1;
    const float high = wider(last, width);
    int count = 0;
#pragma unroll 1
    for (int run = 0; run < runs; run++) {
        squares(run, d);
#pragma unroll
        for (int i = 0; i < E; i++) {
            const uint32_t near = __ballot_sync(full, d[i] <= high);
            if (near == 0) continue;
            if (count + __popc(near) > 4 * slotsMost) return -1;
            if (d[i] <= high) warp.places[count + __popc(near & ((1u << lane) - 1))] = static_cast<uint32_t>(32 * (E * run + i) + lane);
            count += __popc(near);
        }
    }
    __syncwarp();
    return count;
}

// within writes places with sums within a query's limit to the lane's lists. A query whose lists are full too
// often is marked as alone; with many of these, the result is false: the warp's queries are left to knn_scan.
template <int K, int T> __device__ __forceinline__ bool within(const Set &s, int first, uint32_t *found, int (&count)[2 * T], Warp &warp, uint4 *ring) {
    const int lane = threadIdx.x & 31, steps = s.padded / 16, quad = lane >> 2, slots = s.slots, others = s.wanted.others;
    uint32_t *const mine = found + lane * slots;  // the list of the first query, 32 slots before the next one's
    uint32_t a[T][K][4];
    ask<K, T>(s, first, -1, a);
    float limit[T][4];
#pragma unroll
    for (int i = 0; i < T; i++) {
        limit[i][0] = limit[i][1] = -warp.limit[16 * i + quad];
        limit[i][2] = limit[i][3] = -warp.limit[16 * i + quad + 8];
        count[2 * i] = count[2 * i + 1] = 0;
    }
    for (int row = lane; row < 16 * T; row += 32) warp.shortened[row] = 0;
    int left = 3 * T / 2;  // queries that may be alone
    Next<K> next;
    next.begin(s.halves + lane, s.halves + static_cast<size_t>(steps) * K * 32, ring + lane);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        uint4 b[K];
        next.take(b);
        float sum[2][T][4];
        uint32_t any = 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            times<K, T>(sum[h], a, b, h, limit);
#pragma unroll
            for (int i = 0; i < T; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++) any |= __float_as_uint(sum[h][i][e]);
            }
        }
        if (!__any_sync(full, static_cast<int>(any) < 0)) continue;
        int most = 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int i = 0; i < T; i++) {
                const float(&of)[4] = sum[h][i];
                uint32_t some = __float_as_uint(of[0]) | __float_as_uint(of[1]) | __float_as_uint(of[2]) | __float_as_uint(of[3]);
                if (!__any_sync(full, static_cast<int>(some) < 0)) continue;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int q = 2 * i + (e >> 1);
                    if (of[e] < 0) {
                        mine[32 * q * slots + count[q]] = static_cast<uint32_t>(16 * step + 8 * h + 2 * (lane & 3) + (e & 1));
                        count[q]++;
                        most = max(most, count[q]);
                    }
                }
            }
        }
        if (!__any_sync(full, most > slots - 4)) continue;
#pragma unroll
        for (int i = 0; i < T; i++) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                uint32_t tight = __ballot_sync(full, count[2 * i + r] > slots - 4);
                while (tight) {
                    const int q = (__ffs(static_cast<int>(tight)) - 1) >> 2, row = 16 * i + q + 8 * r;
                    tight &= ~(15u << 4 * q);
                    __syncwarp();
                    const uint32_t before = warp.shortened[row];
                    float to = infinite;
                    if (before < 4 + steps / 2048) {
                        int all = gather<T>(s, found, count[2 * i + r], first + row, warp);
                        to = tighten(s, found + row * 4 * slots, all, first + row, warp);
                    }
                    const bool leaves = to == infinite;
                    if (leaves && --left < 0) return false;
                    __syncwarp();
                    if (lane == 0) warp.shortened[row] = leaves ? isAlone : before + 1;
                    if (quad == q) {
                        count[2 * i + r] = leaves ? 0 : (others - (lane & 3) + 3) / 4;
                        limit[i][2 * r] = limit[i][2 * r + 1] = leaves ? 0x1p40f : fmaxf(limit[i][2 * r], -to);
                    }
                    __syncwarp();
                }
            }
        }
    }
    __syncwarp();
    return true;
}

// tensor takes items until none remains: a warp has 16 T queries.
template <int K, int T> __device__ __forceinline__ void tensor(const Task *tasks, const Tile *tiles, const float *f32, float *out, unsigned char *scratch) {
    __shared__ Set s;
    __shared__ Warp warps[lanes / 32];
    __shared__ uint4 rings[lanes / 32][Next<K>::ring * K * 32];
    __shared__ int item;
    if (threadIdx.x == 0) s = setOf(tasks, tiles, f32, scratch);
    __syncthreads();
    if (!s.tensor || s.header->spoilt || s.header->half == 0) return;
    if (!products()) {
        for (int g = s.block * lanes + threadIdx.x; g < s.items / s.parts; g += s.blocks * lanes) s.todo[g] = 1;
        return;
    }
    constexpr int rows = lanes / 32 * 16 * T;
    const int number = threadIdx.x >> 5, lane = threadIdx.x & 31, items = (s.n + rows - 1) / rows;
    if (s.block >= items) return;  // no memory is theirs
    Warp &warp = warps[number];
    const size_t own = static_cast<size_t>(s.block) * rows + number * 16 * T;
    float *least = s.least + own * s.minima;
    uint32_t *found = s.found + own * 4 * s.slots;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) item = static_cast<int>(atomicAdd(&s.header->tensor, 1u));
        __syncthreads();
        if (item >= items) return;
        const int first = item * rows + number * 16 * T;
        if (first >= s.n) continue;
        leastOf<K, T>(s, first, least, rings[number]);
        if (s.minima == 64) limits<T, 2>(s, first, least, warp);
        else if (s.minima == 128) limits<T, 4>(s, first, least, warp);
        else limits<T, 8>(s, first, least, warp);
        int count[2 * T];
        if (!within<K, T>(s, first, found, count, warp, rings[number])) {
            if (lane == 0) s.todo[first / s.queries] = 1;
            continue;
        }
#pragma unroll 1
        for (int q = 0; q < 8; q++) {
#pragma unroll
            for (int i = 0; i < 2 * T; i++) {
                const int place = first + 16 * (i >> 1) + 8 * (i & 1) + q;
                if (place >= s.n) continue;
                int all = 0;
                if (warp.shortened[place - first] == isAlone) {
                    all = alone(s, place, warp);
                    if (all < 0) {
                        if (lane == 0) s.todo[first / s.queries] = 1;
                        continue;
                    }
                } else {
                    all = gather<T>(s, found, count[i], place, warp);
                }
                settle(s, all, place, warp, out);
            }
        }
    }
}

}  // namespace knn
