// Op KNN: all points of a set of any size, by many blocks. See knn.cu.
#pragma once
#include "knn_pick.h"

namespace knn {

constexpr int lanes = 128;       // threads of a scanning block
constexpr int unit = 512;        // places come in multiples of this
constexpr float away = 0x1p62f;  // a coordinate of padding: its square is finite, and larger than all others
constexpr float start = 0x1p100f;  // squares of points are below, squares of padding above

// Set is the set as determined by a task's shape and its tile; cuda/plan/knn.go has the same. A place
// is the position of a point in the columns. The order of places is unrelated to time, so that the
// distances seen next are those to random points.
struct Set {
    const Task *task;
    const float *x;         // rows of the input
    int n, row, width;      // points, numbers a row and a point
    int padded;             // places
    int most;               // numbers a point in the columns, padded with zeros
    int rows;               // of 32 numbers in a tile of columns, including the norm
    int queries;            // of an item
    int blocks, block;      // blocks of the task; this one's number
    int parts, items;       // an item is the search for some queries among a part of the places
    int cap;                // entries that a query has room for
    bool tensor;            // knn_tensor.h searches first
    int slots;              // entries of one of a query's four lists there
    int minima;             // groups of places there
    Wanted wanted;
    struct Header *header;
    uint4 *peaks;           // by block: bits of the largest number; the values whose centring rounds, as two words; bits of the largest centred number
    uint32_t *order;        // by place: the point
    float *columns;         // [tile of 32 places][row][place]
    uint2 *lists;           // [query][part][cap], or, with one part, [block][query][cap]: squares and places
    uint32_t *counts;       // [query][part]
    uint32_t *todo;         // [group of queries]: whether knn_scan searches for them
    uint4 *halves;          // knn_tensor.h's: [16 places][16 rows][lane]
    float2 *norms;          // of these, [place]: the norm, rounded down; its error
    float *least;           // [block][query of an item][minima], in the memory of lists
    uint32_t *found;        // [block][query of an item][4][slots], in the memory of lists
    double *wide;           // of this block: by warp, [parts*cap]
    bool keeps;             // the neighbours themselves are wanted, not the weights
    double *distance;       // of those: [point][k], ascending
    uint32_t *neighbour;    // [point][k]
    double *lrd;            // [point], op LOF's
};

// Header begins the scratch.
struct Header {
    uint32_t next;    // next item
    uint32_t spoilt;  // a number is not finite
    float scale;      // a power of two that brings squares into float32's range
    uint32_t tensor;  // next item of knn_tensor.h
    float half;       // a power of two that brings centred numbers into the range of 16 bits; 0: none does
};

__device__ constexpr int queriesOf(int most) { return (most <= 16 ? 4 : most <= 32 ? 2 : 1) * lanes; }
__device__ constexpr bool expands(int most) { return most >= 4; }

__device__ inline unsigned char *take(unsigned char *&memory, size_t bytes) {
    unsigned char *at = memory;
    memory += (bytes + 255) & ~static_cast<size_t>(255);
    return at;
}

// mostOf returns the least number of coordinates that has a scanning kernel.
__device__ inline int mostOf(int width) {
    return width <= 10 ? (width + 1) / 2 * 2 : width <= 16 ? 16 : width <= 32 ? 32 : 64;
}

constexpr uint32_t keepsLists = 1 << 15;

// Sizes of knn_tensor.h, as in cuda/plan/knn.go: rows of 16 of a product, queries of an item, and parts of a
// set that is left to knn_scan.
__device__ constexpr int tensorSteps(int most) { return (most + 4 + 15) / 16; }
__device__ constexpr int tensorTiles(int most) { return most <= 16 ? 4 : 2; }  // of 16 queries of a warp
constexpr int tensorLeast = 5, tensorOthers = 128, tensorParts = 132, partsMost = 16, partPlaces = 1 << 10;
constexpr size_t listBytes = size_t(512) << 20;

// setOf reads a tile: its part is the block, and, << 16, the number of the task's blocks. With keepsLists the
// task is op LOF's, whose parameters begin as op KNN's (lof_set.h).
__device__ inline Set setOf(const Task *tasks, const Tile *tiles, const float *f32, unsigned char *scratch) {
    const Tile &tile = tiles[blockIdx.x];
    Set s;
    s.task = tasks + tile.first;
    const KnnParams &p = paramsOf<KnnParams>(*s.task, f32);
    int m = p.embed;
    s.x = f32 + s.task->x.off;
    s.row = s.task->dim;
    s.width = s.row * m;
    s.n = s.task->x.len / s.task->dim - m + 1;
    s.padded = (s.n + unit - 1) / unit * unit;
    s.most = mostOf(s.width);
    s.rows = s.most + expands(s.most);
    s.queries = queriesOf(s.most);
    s.blocks = tile.part >> 16;
    s.block = tile.part & (keepsLists - 1);
    s.keeps = tile.part & keepsLists;
    int groups = (s.n + s.queries - 1) / s.queries;
    if (s.keeps) s.wanted = {p.k, 0, min(p.k, s.n - 1), false};
    else s.wanted = wantedOf(p, s.n - 1);
    s.cap = max(64, (2 * s.wanted.k + 28 + 31) / 32 * 32);
    s.tensor = s.width >= tensorLeast && s.wanted.others >= 1 && s.wanted.others <= tensorOthers;
    s.slots = (s.wanted.others / 2 + 24 + 7) / 8 * 8;
    s.minima = s.wanted.others <= 24 ? 64 : s.wanted.others <= 64 ? 128 : 256;
    size_t entries = static_cast<size_t>(s.queries) * s.cap * 8;
    if (s.tensor) s.parts = max(1, min(min(tensorParts / groups, partsMost), min(s.n / partPlaces, static_cast<int>(listBytes / entries / groups))));
    else s.parts = max(1, s.blocks / groups);
    s.items = groups * s.parts;
    unsigned char *memory = scratch + static_cast<size_t>(tile.scratch) * 256;
    s.header = reinterpret_cast<Header *>(take(memory, sizeof(Header)));
    s.peaks = reinterpret_cast<uint4 *>(take(memory, s.blocks * sizeof(uint4)));
    s.order = reinterpret_cast<uint32_t *>(take(memory, static_cast<size_t>(s.padded) * 4));
    s.columns = reinterpret_cast<float *>(take(memory, static_cast<size_t>(s.padded) * s.rows * 4));
    size_t lists = s.parts > 1 ? static_cast<size_t>(s.items) : s.blocks;
    size_t rows = static_cast<size_t>(lanes / 32) * 16 * tensorTiles(s.most);
    size_t least = s.tensor ? min(static_cast<size_t>(s.blocks), (s.n + rows - 1) / rows) * rows : 0;
    unsigned char *room = take(memory, max(lists * entries, least * (4 * s.minima + 16 * s.slots)));
    s.lists = reinterpret_cast<uint2 *>(room);
    s.least = reinterpret_cast<float *>(room);
    s.found = reinterpret_cast<uint32_t *>(s.least + least * s.minima);
    s.counts = reinterpret_cast<uint32_t *>(take(memory, lists * s.queries * 4));
    s.todo = reinterpret_cast<uint32_t *>(take(memory, static_cast<size_t>(groups) * 4));
    size_t tensor = s.tensor ? s.padded : 0;
    s.halves = reinterpret_cast<uint4 *>(take(memory, tensor * tensorSteps(s.most) * 32));
    s.norms = reinterpret_cast<float2 *>(take(memory, tensor * 8));
    size_t wide = static_cast<size_t>(lanes / 32) * s.parts * s.cap;
    s.wide = reinterpret_cast<double *>(memory) + s.block * wide;
    s.distance = reinterpret_cast<double *>(memory) + s.blocks * wide;
    s.lrd = s.distance + static_cast<size_t>(s.n) * s.wanted.k;
    s.neighbour = reinterpret_cast<uint32_t *>(s.lrd + s.n);
    return s;
}

__device__ inline size_t cell(int rows, int place, int c) { return (static_cast<size_t>(place >> 5) * rows + c) * 32 + (place & 31); }

constexpr int samples = 64, rowMost = 64;

// centre sets to[c], c < row, to the mean of some rows. The whole block calls it; it contains barriers.
__device__ inline void centre(const Set &s, float *to) {
    int count = s.task->x.len / s.row;
    for (int c = threadIdx.x; c < s.row; c += blockDim.x) {
        double sum = 0;
        for (int a = 0; a < samples; a++) {
            size_t i = static_cast<size_t>(count - 1) * a / (samples - 1);
            sum += static_cast<double>(s.x[i * s.row + c]);
        }
        to[c] = static_cast<float>(sum / samples);
    }
    __syncthreads();
}

// peaks finds the largest number of the block's share, and which values of a row can be centred without
// rounding.
__device__ inline void peaks(const Set &s) {
    __shared__ float mean[rowMost];
    __shared__ uint32_t seen[4];
    if (threadIdx.x < 4) seen[threadIdx.x] = 0;
    centre(s, mean);
    uint32_t peak = 0, centred = 0, rounds[2] = {0, 0}, length = s.task->x.len;
    for (uint32_t e = s.block * blockDim.x + threadIdx.x; e < length; e += s.blocks * blockDim.x) {
        float v = s.x[e];
        int c = static_cast<int>(e % static_cast<uint32_t>(s.row));
        peak = max(peak, __float_as_uint(v) & 0x7fffffffu);
        centred = max(centred, __float_as_uint(v - mean[c]) & 0x7fffffffu);
        if (static_cast<double>(v - mean[c]) != static_cast<double>(v) - static_cast<double>(mean[c])) rounds[c >> 5] |= 1u << (c & 31);
    }
    atomicMax(&seen[0], peak);
    atomicOr(&seen[1], rounds[0]);
    atomicOr(&seen[2], rounds[1]);
    atomicMax(&seen[3], centred);
    __syncthreads();
    if (threadIdx.x == 0) s.peaks[s.block] = make_uint4(seen[0], seen[1], seen[2], seen[3]);
}

// shrunk reduces a norm by the largest error of the expanded square of a difference: with u = 2^-24,
// less than 2(dim+1)u of the sum of both norms.
__device__ inline float shrunk(double norm, int most) { return __double2float_rd(norm * (1 - (4 * most + 16) * 0x1p-24)); }

// load writes the columns of the block's share of the places.
__device__ inline void load(const Set &s, float *out) {
    __shared__ float mean[rowMost];
    __shared__ uint32_t seen[4], step;
    if (threadIdx.x < 4) seen[threadIdx.x] = 0;
    centre(s, mean);
    for (int b = threadIdx.x; b < s.blocks; b += blockDim.x) {
        uint4 p = s.peaks[b];
        atomicMax(&seen[0], p.x);
        atomicOr(&seen[1], p.y);
        atomicOr(&seen[2], p.z);
        atomicMax(&seen[3], p.w);
    }
    if (threadIdx.x == 0) {
        // A step through the points of about the golden section, so that neighbouring places have
        // distant points.
        uint32_t a = max(1u, static_cast<uint32_t>(s.n * 0.6180339887));
        for (;; a++) {
            uint32_t x = a, y = s.n;
            while (y) {
                uint32_t r = x % y;
                x = y, y = r;
            }
            if (x == 1) break;
        }
        step = a;
    }
    __syncthreads();
    uint32_t peak = seen[0];
    bool spoilt = peak >= 0x7f800000u;
    float top = __uint_as_float(peak), scale = 1;
    if (!spoilt && peak != 0 && !(top >= 0x1p-20f && top <= 0x1p40f)) {
        int exponent = peak < 0x800000u ? -127 : static_cast<int>(peak >> 23) - 127;
        scale = __uint_as_float(static_cast<uint32_t>(min(20 - exponent, 120) + 127) << 23);
    }
    // The largest centred number becomes one of 256 to 512.
    int power = static_cast<int>(seen[3] >> 23) - 127;
    float half = s.tensor && power >= -110 && power <= 127 ? __uint_as_float(static_cast<uint32_t>(8 - power + 127) << 23) : 0;
    if (s.block == 0 && threadIdx.x == 0) *s.header = {0, spoilt, scale, 0, half};
    for (int g = s.block * blockDim.x + threadIdx.x; g < s.items / s.parts; g += s.blocks * blockDim.x) s.todo[g] = half == 0;
    const Wanted &w = s.wanted;
    if (spoilt && s.keeps) return;
    if (spoilt) {
        size_t all = static_cast<size_t>(s.n) * w.k;
        for (size_t e = s.block * blockDim.x + threadIdx.x; e < all; e += s.blocks * blockDim.x) {
            if (e < static_cast<size_t>(s.n)) out[s.task->scores.off + e] = nan;
            if (w.listed) out[s.task->detail.off + e] = __uint_as_float(none);
        }
        return;
    }
    for (int place = s.block * blockDim.x + threadIdx.x; place < s.padded; place += s.blocks * blockDim.x) {
        bool there = place < s.n;
        uint32_t point = there ? static_cast<uint32_t>(static_cast<unsigned long long>(place) * step % static_cast<uint32_t>(s.n)) : 0;
        s.order[place] = point;
        const float *x = s.x + static_cast<size_t>(point) * s.row;
        double norm = 0;
        for (int c = 0; c < s.most; c++) {
            float v = there ? 0 : away;
            if (there && c < s.width) {
                int r = c % s.row;
                v = (seen[1 + (r >> 5)] >> (r & 31) & 1 ? x[c] : x[c] - mean[r]) * scale;
            }
            s.columns[cell(s.rows, place, c)] = v;
            norm += static_cast<double>(v) * static_cast<double>(v);
        }
        if (s.rows > s.most) s.columns[cell(s.rows, place, s.most)] = there ? shrunk(norm, s.most) : __uint_as_float(0x7f800000u);
    }
}

// wider returns a float32 square that no neighbour's exceeds, if the last neighbour's is t: each
// is off by less than (dim+2) 2^-24 of itself.
__device__ inline float wider(float t, int width) { return fmaf(t, 1 + (width + 4) * 0x1p-21f, 8 * (width + 1) * 0x1p-149f); }

// Kept is a shortened list: its length, and the largest square that an entry may have.
struct Kept {
    int count;
    float accept;
};

// measure sets wide to the squares of count places as in the definition; at(a) is the a-th.
template <class At> __device__ __forceinline__ void measure(const Set &s, int count, int place, double *wide, At at) {
    const float *own = s.x + static_cast<size_t>(s.order[place]) * s.row;
    for (int a = threadIdx.x & 31; a < count; a += 32) wide[a] = squareOf(own, s.x + static_cast<size_t>(s.order[at(a)]) * s.row, s.width);
    __syncwarp();
}

// near drops entries that float32 excludes.
__device__ inline Kept near(const Set &s, uint2 *list, int count, int slack) {
    int others = s.wanted.others;
    float high = wider(__uint_as_float(rank<uint32_t>(count, others, slack, [&](int a) { return list[a].x; })), s.width);
    return {keep(list, count, [&](int a) { return __uint_as_float(list[a].x) <= high; }), high};
}

// shrink makes room in a list. Where float32 does not, since many points are equally far, float64
// leaves exactly the wanted ones. The whole warp calls it.
static __device__ __attribute__((noinline)) Kept shrink(const Set &s, uint2 *list, int count, int place, double *wide) {
    int others = s.wanted.others, room = (s.cap - others) / 2;
    Kept kept = near(s, list, count, others / 8);
    if (kept.count <= s.cap - room) return kept;
    count = kept.count;
    measure(s, count, place, wide, [&](int a) { return list[a].y; });
    Bits last = rank<Bits>(count, others, 0, [&](int a) { return bitsOf(wide[a]); });
    double far = doubleOf(last);
    int drop = others - countOf(count, [&](int a) { return wide[a] < far; });  // the number of entries at the last square that stay
    uint32_t point = rank<uint32_t>(count, drop, 0, [&](int a) { return wide[a] == far ? s.order[list[a].y] : 0x7fffffffu; });
    kept.count = keep(list, count, [&](int a) { return wide[a] < far || (wide[a] == far && s.order[list[a].y] <= point); });
    double scale = s.header->scale;
    kept.accept = wider(__double2float_ru(far * scale * scale), s.width);
    if (far == 0 && !s.wanted.listed) kept.accept = -1;  // no point is closer
    return kept;
}

// keepNearest writes a point's neighbours, nearest first, of equally far ones the first. wide has the
// squares of the places. The whole warp calls it.
template <class At> __device__ __forceinline__ void keepNearest(const Set &s, int count, int point, const double *wide, At at) {
    size_t first = static_cast<size_t>(point) * s.wanted.k;
    for (int a = 0; a < count; a++) {
        double square = wide[a];
        uint32_t mine = s.order[at(a)];
        int before = countOf(count, [&](int b) { return wide[b] < square || (wide[b] == square && s.order[at(b)] < mine); });
        if ((threadIdx.x & 31) == 0 && before < s.wanted.others) {
            s.distance[first + before] = __dsqrt_rn(square);
            s.neighbour[first + before] = mine;
        }
    }
    __syncwarp();
}

// lastOf returns the bits of the m-th least of count squares: mostly few are larger, which it drops one by one.
__device__ inline Bits lastOf(int count, int m, const double *wide) {
    constexpr int E = 4;
    if (count > 32 * E || count - m > 20) return rank<Bits>(count, m, 0, [&](int a) { return bitsOf(wide[a]); });
    const int lane = threadIdx.x & 31;
    Bits v[E], mine = 0;  // each plus one; 0 is none
#pragma unroll
    for (int i = 0; i < E; i++) {
        v[i] = 32 * i + lane < count ? bitsOf(wide[32 * i + lane]) + 1 : 0;
        mine = max(mine, v[i]);
    }
    for (int drop = count - m;; drop--) {
        const uint32_t high = greatest(static_cast<uint32_t>(mine >> 32));
        const uint32_t low = greatest(mine >> 32 == high ? static_cast<uint32_t>(mine) : 0);
        const Bits top = static_cast<Bits>(high) << 32 | low;
        if (drop == 0) return top - 1;
        bool drops = lane == __ffs(static_cast<int>(__ballot_sync(full, mine == top))) - 1;
        mine = 0;
#pragma unroll
        for (int i = 0; i < E; i++) {
            if (drops && v[i] == top) v[i] = 0, drops = false;
            mine = max(mine, v[i]);
        }
    }
}

// conclude scores a point whose neighbours are among count places; at(a) is the a-th, and wide has room for
// their squares. The whole warp calls it.
template <class At> __device__ __forceinline__ void conclude(const Set &s, int count, int place, double *wide, float *out, At at) {
    const Wanted &w = s.wanted;
    int lane = threadIdx.x & 31, point = s.order[place];
    double sum = 0;
    Bits last = 0;
    if (w.others > 0) {
        measure(s, count, place, wide, at);
        last = lastOf(count, w.others, wide);
        double far = doubleOf(last);
        int nearer = 0;
        for (int a = lane; a < count; a += 32) {
            if (wide[a] < far) {
                nearer++;
                sum = __dadd_rn(sum, __dsqrt_rn(wide[a]));
            }
        }
        nearer = sumOf(nearer);
        sum = __dadd_rn(sumOf(sum), __dmul_rn(static_cast<double>(w.others - nearer), __dsqrt_rn(far)));
    }
    if (s.keeps) {
        keepNearest(s, count, point, wide, at);
        return;
    }
    if (lane == 0) out[s.task->scores.off + point] = weight(w, sum);
    if (w.listed) {
        leave(out + s.task->detail.off + static_cast<size_t>(point) * w.k, w, false, point, count, last, [&](int a) { return bitsOf(wide[a]); },
              [&](int a) { return static_cast<int>(s.order[at(a)]); });
    }
    __syncwarp();
}

// finish scores a point from its list. The whole warp calls it.
static __device__ __attribute__((noinline)) void finish(const Set &s, uint2 *list, int count, int place, double *wide, float *out) {
    if (s.wanted.others > 0 && count > s.wanted.others) count = near(s, list, count, 0).count;
    conclude(s, count, place, wide, out, [&](int a) { return list[a].y; });
}

// Scan has the sizes of a scanning kernel: queries a thread, places a step and in shared memory.
template <int D> struct Scan {
    static constexpr int queries = queriesOf(D) / lanes, step = D <= 4 ? 8 : 4, chunk = D <= 8 ? 512 : D <= 32 ? 256 : 128;
    static constexpr int rows = D + expands(D);
};

// sums sets sum to the squared distances of a thread's queries to a step's places, from their first in
// a tile. E: expanded, with q the queries times -2, and without the queries' norms. X: q is always
// times -2.
template <int D, bool E, bool X> __device__ __forceinline__ void sums(float (&sum)[Scan<D>::queries][Scan<D>::step], const float (&q)[Scan<D>::queries][D], const float *at) {
    constexpr int Q = Scan<D>::queries, C = Scan<D>::step;
#pragma unroll
    for (int c = E ? -1 : 0; c < D; c++) {
        float v[C];
#pragma unroll
        for (int e = 0; e < C; e += 4) {
            float4 f = *reinterpret_cast<const float4 *>(at + (c < 0 ? D : c) * 32 + e);
            v[e] = f.x, v[e + 1] = f.y, v[e + 2] = f.z, v[e + 3] = f.w;
        }
#pragma unroll
        for (int i = 0; i < Q; i++) {
#pragma unroll
            for (int e = 0; e < C; e++) {
                if (c < 0) {
                    sum[i][e] = v[e];
                } else if (E) {
                    sum[i][e] = fmaf(q[i][c < 0 ? 0 : c], v[e], sum[i][e]);
                } else {
                    float t = X ? fmaf(-0.5f, q[i][c < 0 ? 0 : c], -v[e]) : q[i][c < 0 ? 0 : c] - v[e];
                    sum[i][e] = c == 0 ? t * t : fmaf(t, t, sum[i][e]);
                }
            }
        }
    }
}

// Mine is a thread's state of its queries: the bound of sums, which is accept, less the norm for the
// expanded ones.
template <int D> struct Mine {
    float q[Scan<D>::queries][D];
    float accept[Scan<D>::queries], bound[Scan<D>::queries], norm[Scan<D>::queries];
    int count[Scan<D>::queries];
    uint2 *list;       // of the first query
    int pitch;         // from one query's list to the next one's
    int place;         // of the first query; the next are lanes apart
    int wasted;        // sums within the bound whose squares were not

    __device__ __forceinline__ void limit(int i, float a, bool expanded) {
        accept[i] = a;
        bound[i] = expanded ? __double2float_ru(static_cast<double>(a) - static_cast<double>(norm[i])) : a;
        if (a < 0) bound[i] = -__uint_as_float(0x7f800000u);
    }
};

// room shrinks the lists without room for another step. The whole warp calls it.
template <int D> __device__ __forceinline__ void room(const Set &s, Mine<D> &mine, double *wide, bool expanded) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < Scan<D>::queries; i++) {
        uint32_t tight = __ballot_sync(full, mine.count[i] > s.cap - Scan<D>::step);
        if (tight) __syncwarp();
        while (tight) {
            int from = __ffs(static_cast<int>(tight)) - 1;
            tight &= tight - 1;
            uint2 *list = mine.list + static_cast<ptrdiff_t>(i * lanes + from - lane) * mine.pitch;
            Kept kept = shrink(s, list, __shfl_sync(full, mine.count[i], from), mine.place + i * lanes + from - lane, wide);
            if (lane == from) {
                mine.count[i] = kept.count;
                mine.limit(i, kept.accept, expanded);
            }
            __syncwarp();
        }
    }
}

// look compares the thread's queries with the places in shared memory, which begin at place first.
template <int D, bool E, bool X> __device__ __forceinline__ void look(const Set &s, Mine<D> &mine, const float *tiles, int first, double *wide) {
    constexpr int Q = Scan<D>::queries, C = Scan<D>::step;
#pragma unroll 1
    for (int t = 0; t < Scan<D>::chunk; t += 32) {
        const float *tile = tiles + t * Scan<D>::rows;
#pragma unroll 1
        for (int r = 0; r < 32; r += C) {
            float sum[Q][C];
            sums<D, E, X>(sum, mine.q, tile + r);
            bool hit = false;
            float low[Q];
#pragma unroll
            for (int i = 0; i < Q; i++) {
                low[i] = sum[i][0];
#pragma unroll
                for (int e = 1; e < C; e++) low[i] = fminf(low[i], sum[i][e]);
                hit = hit || low[i] <= mine.bound[i];
            }
            if (!__any_sync(full, hit)) continue;
#pragma unroll
            for (int i = 0; i < Q; i++) {
                if (!(low[i] <= mine.bound[i])) continue;
                uint32_t within = 0;
#pragma unroll
                for (int e = 0; e < C; e++) within |= sum[i][e] <= mine.bound[i] ? 1u << e : 0;
                uint2 *list = mine.list + static_cast<ptrdiff_t>(i * lanes) * mine.pitch;
                while (within) {
                    int e = __ffs(static_cast<int>(within)) - 1, place = first + t + r + e;
                    within &= within - 1;
                    float square = 0;
#pragma unroll
                    for (int c = 0; c < D; c++) {
                        float v = tile[c * 32 + r + e], d = X ? fmaf(-0.5f, mine.q[i][c], -v) : mine.q[i][c] - v;
                        square = c == 0 ? d * d : fmaf(d, d, square);
                    }
                    if (square <= mine.accept[i]) {
                        if (place != mine.place + i * lanes) list[mine.count[i]++] = make_uint2(__float_as_uint(square), static_cast<uint32_t>(place));
                    } else {
                        mine.wasted++;
                    }
                }
            }
            room<D>(s, mine, wide, E);
        }
    }
}

// scan takes items until none remains.
template <int D> __device__ __forceinline__ void scan(const Task *tasks, const Tile *tiles, const float *f32, float *out, unsigned char *scratch) {
    constexpr int Q = Scan<D>::queries, chunk = Scan<D>::chunk, rows = Scan<D>::rows;
    constexpr bool X = expands(D);
    __shared__ Set s;
    __shared__ float4 columns[chunk * rows / 4];
    __shared__ int item;
    if (threadIdx.x == 0) s = setOf(tasks, tiles, f32, scratch);
    __syncthreads();
    if (s.header->spoilt) return;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    double *wide = s.wide + static_cast<size_t>(warp) * s.parts * s.cap;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) item = static_cast<int>(atomicAdd(&s.header->next, 1u));
        __syncthreads();
        if (item >= s.items) return;
        int group = item / s.parts, part = item - group * s.parts, chunks = s.padded / chunk;
        if (!s.todo[group]) continue;
        Mine<D> mine;
        mine.place = group * s.queries + static_cast<int>(threadIdx.x);
        mine.pitch = s.parts * s.cap;
        size_t slot = static_cast<size_t>(s.parts > 1 ? group : s.block) * s.queries + threadIdx.x;
        mine.list = s.lists + slot * mine.pitch + static_cast<size_t>(part) * s.cap;
#pragma unroll
        for (int i = 0; i < Q; i++) {
            int place = mine.place + i * lanes;
            bool there = place < s.n;
            double norm = 0;
#pragma unroll
            for (int c = 0; c < D; c++) {
                float v = there ? s.columns[cell(rows, place, c)] : 0;
                norm += static_cast<double>(v) * static_cast<double>(v);
                mine.q[i][c] = X ? -2 * v : v;
            }
            mine.norm[i] = shrunk(norm, D);
            mine.count[i] = 0;
            mine.limit(i, there && s.wanted.others > 0 ? start : -1, X);
        }
        bool expanded = X;  // until that is too coarse
        int from = static_cast<int>(static_cast<long long>(chunks) * part / s.parts), to = static_cast<int>(static_cast<long long>(chunks) * (part + 1) / s.parts);
        for (int at = from; at < to; at++) {
            __syncthreads();
            const float4 *source = reinterpret_cast<const float4 *>(s.columns + static_cast<size_t>(at) * chunk * rows);
            for (int e = threadIdx.x; e < chunk * rows / 4; e += lanes) columns[e] = source[e];
            __syncthreads();
            const float *tile = reinterpret_cast<const float *>(columns);
            mine.wasted = 0;
            if constexpr (X) {
                if (expanded) {
                    look<D, true, true>(s, mine, tile, at * chunk, wide);
                    if (sumOf(mine.wasted) > chunk * Q * 32 / 32) {
                        expanded = false;
#pragma unroll
                        for (int i = 0; i < Q; i++) mine.limit(i, mine.accept[i], false);
                    }
                    continue;
                }
            }
            look<D, false, X>(s, mine, tile, at * chunk, wide);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < Q; i++) {
            if (s.parts > 1) {
                s.counts[(slot + i * lanes) * s.parts + part] = static_cast<uint32_t>(mine.count[i]);
                continue;
            }
            for (int l = 0; l < 32; l++) {
                int place = mine.place + i * lanes + l - lane, count = __shfl_sync(full, mine.count[i], l);
                if (place < s.n) finish(s, mine.list + static_cast<ptrdiff_t>(i * lanes + l - lane) * mine.pitch, count, place, wide, out);
            }
        }
    }
}

// finishParts scores points whose neighbours were searched in parts.
__device__ inline void finishParts(const Set &s, float *out) {
    if (s.header->spoilt || s.parts == 1) return;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    double *wide = s.wide + static_cast<size_t>(warp) * s.parts * s.cap;
    for (int place = s.block * (lanes / 32) + warp; place < s.n; place += s.blocks * (lanes / 32)) {
        if (!s.todo[place / s.queries]) continue;
        uint2 *list = s.lists + static_cast<size_t>(place) * s.parts * s.cap;
        int count = s.counts[static_cast<size_t>(place) * s.parts];
        for (int part = 1; part < s.parts; part++) {
            int more = s.counts[static_cast<size_t>(place) * s.parts + part];
            const uint2 *from = list + part * s.cap;
            for (int first = 0; first < more; first += 32) {
                bool there = first + lane < more;
                uint2 v = from[there ? first + lane : 0];
                __syncwarp();
                if (there) list[count + first + lane] = v;
                __syncwarp();
            }
            count += more;
        }
        finish(s, list, count, place, wide, out);
    }
}

}  // namespace knn
