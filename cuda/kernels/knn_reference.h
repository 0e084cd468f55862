// Op KNN: points among the points of a reference set, the model of their tasks. See knn.cu.
#pragma once
#include "knn_pick.h"

namespace knn {

// A warp has 16 queries and compares them with 64 points at a time: a lane four queries with eight points. The
// points of a step, and more, lie in shared memory, for all warps of a block.
constexpr int referenceQueries = 16;                   // of a warp
constexpr int referenceMost = 4 * referenceQueries;    // of a block
constexpr int referenceStep = 64;                      // points
constexpr int referencePad = 4;                        // numbers between the rows of a tile: lanes that write use different banks

// Words of a model before the origins of its values: package detectors/knn.
enum { modelDim, modelEmbed, modelPoints, modelZNorm, modelCut, modelHead = modelCut + 2 };

// Listed is an entry of a query's list: the bits of a float32 square of a distance, scaled, and the point.
typedef uint2 Listed;

// Reference is a reference set; n is 0 where the model is none of points of width numbers.
struct Reference {
    const float *points;
    int n, dim, embed, width;
    bool znorm;
};

// Judged has the queries of a block. Those without a task have others 0 and bound -1.
struct Judged {
    Reference r;
    int points, room;                // of a tile; of a query's list
    const float *x[referenceMost];   // the query
    Bits last[referenceMost];        // of an exact query: the square of the last of its list when it was cut
    uint32_t number[referenceMost];  // and the number of that point: no neighbour is farther, or as far with a larger number
    uint32_t task[referenceMost];
    uint32_t fresh[referenceMost];   // the number among the fresh points of the task
    uint32_t count[referenceMost];   // entries of the list; more than there is room for: some are missing
    float4 bound[referenceMost / 4]; // no neighbour's float32 square is above
    int others[referenceMost];       // neighbours to find
    bool spoilt[referenceMost];      // without a weight
    bool exact[referenceMost];       // the list was once cut in float64
    uint32_t peak;                   // bits of the largest absolute value

    __device__ float &boundOf(int q) { return reinterpret_cast<float *>(bound)[q]; }
};

// Memory is a block's dynamic shared memory. plan/knnreference.go has its size.
struct Memory {
    float *query, *tile;  // by value of a point: all queries; pitch numbers
    int queries, pitch;
    Listed *list;         // of this warp: room entries a query
    Bits *square;         // of this warp: of a list's entries
    double *ordered;      // of this warp: distances by point
};

__device__ __forceinline__ Memory memoryOf(const Judged &s) {
    DYNAMIC_SHARED(float4, referenceMemory);
    const int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    Memory m;
    m.queries = warps * referenceQueries, m.pitch = s.points + referencePad;
    m.query = reinterpret_cast<float *>(referenceMemory);
    m.tile = m.query + s.r.width * m.queries;
    Listed *lists = reinterpret_cast<Listed *>(m.tile + s.r.width * m.pitch);
    m.list = lists + warp * referenceQueries * s.room;
    m.square = reinterpret_cast<Bits *>(lists + m.queries * s.room) + warp * s.room;
    m.ordered = reinterpret_cast<double *>(lists + m.queries * s.room + warps * s.room) + warp * s.room;
    return m;
}

__device__ inline Reference referenceOf(const uint32_t *models, const Span &at, int width) {
    const uint32_t *m = models + at.off;
    Reference r;
    r.dim = m[modelDim], r.embed = m[modelEmbed], r.znorm = m[modelZNorm] != 0, r.width = width;
    r.points = reinterpret_cast<const float *>(m + modelHead + 2 * r.dim);
    r.n = m[modelPoints];
    const bool fits = r.dim >= 1 && r.embed >= 1 && static_cast<int64_t>(r.dim) * r.embed == width && r.n >= 1 &&
                      at.len == static_cast<uint64_t>(modelHead) + 2 * static_cast<uint64_t>(r.dim) + static_cast<uint64_t>(r.n) * width;
    if (!fits) r.n = 0;
    return r;
}

// takes reports whether a task's rows fit the set: as they are, or, of a normalised set, as points.
__device__ inline bool takes(const Reference &r, const Task &t, const KnnParams &p) {
    if (r.znorm) return static_cast<int>(t.dim) == r.width && p.embed == 1;
    return static_cast<int>(t.dim) == r.dim && p.embed == r.embed;
}

// within returns the largest float32 square of a point that may be as near as one of the square v.
__device__ inline float within(float v, int width) {
    return fmaf(v, 1 + static_cast<float>(4 * (width + 4)) * 0x1p-24f, static_cast<float>(4 * width) * 0x1p-149f);
}

// squareOf returns the bits of the squared distance of a query of the block to a point of the set.
__device__ inline Bits squareOf(const Judged &s, int of, uint32_t at) {
    return bitsOf(squareOf(s.x[of], s.r.points + static_cast<size_t>(at) * s.r.width, s.r.width));
}

// lastOf returns the square and the number of the last of the nearest points in a list of count entries with
// these squares, of which others are neighbours, at least one.
__device__ inline Bits lastOf(const Listed *list, const Bits *square, int count, int others, uint32_t &number) {
    const Bits far = rank<Bits>(count, others, 0, [&](int a) { return square[a]; });
    const int nearer = countOf(count, [&](int a) { return square[a] < far; });
    number = rank<uint32_t>(count, others - nearer, 0, [&](int a) { return square[a] == far ? list[a].y : none; });
    return far;
}

// drop removes entries that are no neighbours from the list of query q of this warp. At least half of the room for
// others than the neighbours is free then.
static __device__ __noinline__ void drop(Judged &s, int q) {
    const Memory m = memoryOf(s);
    const int lane = threadIdx.x & 31, of = (threadIdx.x >> 5) * referenceQueries + q;
    const int others = s.others[of], most = others + (s.room - others) / 2;
    Listed *list = m.list + q * s.room;
    int count = min(static_cast<int>(s.count[of]), s.room);
    bool exact = s.exact[of];
    float bound = s.boundOf(of);
    Bits last = s.last[of];
    uint32_t number = s.number[of];
    if (exact) {
        count = keep(list, count, [&](int a) {
            if (a < others) return true;
            const Bits square = squareOf(s, of, list[a].y);
            return square < last || (square == last && list[a].y < number);
        });
    }
    if (count > most) {
        const uint32_t near = rank<uint32_t>(count, others, (s.room - others) / 4, [&](int a) { return list[a].x; });
        bound = fminf(bound, within(__uint_as_float(near), s.r.width));
        count = keep(list, count, [&](int a) { return __uint_as_float(list[a].x) <= bound; });
    }
    if (count > most) {  // ties, or points that float32 cannot distinguish
        for (int a = lane; a < count; a += 32) m.square[a] = squareOf(s, of, list[a].y);
        __syncwarp();
        last = lastOf(list, m.square, count, others, number);
        count = keep(list, count, [&](int a) { return m.square[a] < last || (m.square[a] == last && list[a].y <= number); });
        exact = true;
    }
    __syncwarp();
    if (lane == 0) s.count[of] = count, s.boundOf(of) = bound, s.exact[of] = exact, s.last[of] = last, s.number[of] = number;
    __syncwarp();
}

// decide finds the neighbours of query q in its list and leaves their distances there, by point. It writes the
// neighbours to the task's detail if the task lists them.
static __device__ __noinline__ void decide(const Judged &s, int q, Wanted w, float *detail) {
    const Memory m = memoryOf(s);
    const int lane = threadIdx.x & 31, of = (threadIdx.x >> 5) * referenceQueries + q, others = w.others;
    Listed *list = m.list + q * s.room;
    int count = min(static_cast<int>(s.count[of]), s.room);
    if (count > others && others > 0) {
        const uint32_t near = rank<uint32_t>(count, others, 0, [&](int a) { return list[a].x; });
        const float bound = within(__uint_as_float(near), s.r.width);
        count = keep(list, count, [&](int a) { return __uint_as_float(list[a].x) <= bound; });
    }
    for (int a = lane; a < count; a += 32) m.square[a] = squareOf(s, of, list[a].y);
    __syncwarp();
    Bits last = ~Bits(0);
    uint32_t number = none;
    if (count > others && others > 0) last = lastOf(list, m.square, count, others, number);
    if (w.listed) {
        leave(detail, w, false, s.r.n + static_cast<int>(s.fresh[of]), count, last, [&](int a) { return m.square[a]; },
              [&](int a) { return static_cast<int>(list[a].y); });
        __syncwarp();
    }
    for (int a = lane; a < count; a += 32) {
        if (m.square[a] > last || (m.square[a] == last && list[a].y > number)) list[a].y = none;
    }
    __syncwarp();
    for (int a = lane; a < count; a += 32) {
        const uint32_t at = list[a].y;
        if (at == none) continue;
        int before = 0;
        for (int b = 0; b < count; b++) before += list[b].y < at ? 1 : 0;
        m.ordered[before] = __dsqrt_rn(doubleOf(m.square[a]));
    }
    __syncwarp();
    for (int a = lane; a < others; a += 32) {
        const Bits d = bitsOf(m.ordered[a]);
        list[a].x = static_cast<uint32_t>(d), list[a].y = static_cast<uint32_t>(d >> 32);
    }
    __syncwarp();
}

// ask sets up the queries of a block and their points, unscaled, and the bits of their largest absolute value.
__device__ inline void ask(Judged &s, const Memory &m, const Reference &r, const Task *tasks, const Tile *tiles, const Tile &block,
                           const float *f32) {
    for (int q = threadIdx.x; q < m.queries; q += blockDim.x) {
        s.task[q] = none, s.count[q] = 0, s.boundOf(q) = -1, s.others[q] = 0, s.spoilt[q] = s.exact[q] = false;
        s.last[q] = 0, s.number[q] = none, s.x[q] = nullptr;
    }
    if (threadIdx.x == 0) s.peak = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < block.count; i += blockDim.x) {
        const Tile &run = tiles[block.first + i];
        for (uint32_t j = 0; j < run.count; j++) s.task[run.scratch + j] = run.first, s.fresh[run.scratch + j] = run.part + j;
    }
    __syncthreads();
    const int lane = threadIdx.x & 31, q = (threadIdx.x >> 5) * referenceQueries + (lane >> 1);  // two lanes a query
    uint32_t peak = 0;
    bool spoilt = false;
    const bool there = s.task[q] != none;
    int others = 0;
    const float *x = nullptr;
    if (there) {
        const Task &t = tasks[s.task[q]];
        const KnnParams &p = paramsOf<KnnParams>(t, f32);
        const int rows = t.x.len / t.dim, row = rows - static_cast<int>(t.fresh) + static_cast<int>(s.fresh[q]) + 1 - p.embed;
        x = f32 + t.x.off + static_cast<size_t>(row) * t.dim;
        spoilt = r.n == 0 || !takes(r, t, p);
        others = wantedOf(p, r.n).others;
    }
    for (int c = lane & 1; c < r.width; c += 2) {
        float v = there && !spoilt ? x[c] : 0;
        const uint32_t size = __float_as_uint(v) & 0x7fffffffu;
        if (size >= 0x7f800000u) spoilt = true, v = 0;
        else peak = max(peak, size);
        m.query[c * m.queries + q] = v;
    }
    spoilt = __shfl_xor_sync(full, spoilt ? 1 : 0, 1) || spoilt;
    if ((lane & 1) == 0 && there) {
        s.x[q] = x, s.spoilt[q] = spoilt, s.others[q] = others;
        if (!spoilt && others > 0) s.boundOf(q) = infinite;
    }
    // The scale is a power of two: taken from the first points and the queries it is as right as from all.
    const int some = min(r.n, m.pitch - referencePad) * r.width;
    for (int i = threadIdx.x; i < some; i += blockDim.x) {
        const uint32_t size = __float_as_uint(r.points[i]) & 0x7fffffffu;
        if (size < 0x7f800000u) peak = max(peak, size);
    }
    peak = greatest(peak);
    if (lane == 0) atomicMax(&s.peak, peak);
    __syncthreads();
}

// scaleFor returns the power of two by which values are multiplied so that their squares neither overflow nor vanish.
__device__ inline float scaleFor(uint32_t peak) {
    const float v = __uint_as_float(peak);
    if (v == 0 || (v >= 0x1p-20f && v <= 0x1p40f)) return 1;
    return ldexpf(1, min(20 - (static_cast<int>(peak >> 23) - 127), 120));
}

// stagePoints writes count points from the point first on, scaled, to the tile, and NaN up to a whole step. It adds
// NaN to spoilt if one is not finite.
__device__ __forceinline__ void stagePoints(const Memory &m, const Reference &r, int first, int count, float scale, float &spoilt) {
    const int total = count * r.width, threads = blockDim.x, along = threads / r.width, across = threads % r.width;
    const int step = across * m.pitch + along, wrap = r.width * m.pitch - 1;
    const float *from = r.points + static_cast<size_t>(first) * r.width + threadIdx.x;
    int c = threadIdx.x % r.width;
    float *to = m.tile + c * m.pitch + threadIdx.x / r.width;
    const auto put = [&](float v) {
        spoilt = fmaf(v, 0.0f, spoilt);
        *to = v * scale;
        to += step, c += across;
        if (c >= r.width) c -= r.width, to -= wrap;
    };
    constexpr int each = 8;  // loads in flight
    int i = threadIdx.x;
    for (; i + (each - 1) * threads < total; i += each * threads) {
        float v[each];
#pragma unroll
        for (int j = 0; j < each; j++, from += threads) v[j] = *from;
#pragma unroll
        for (int j = 0; j < each; j++) put(v[j]);
    }
#pragma unroll 1
    for (; i < total; i += threads, from += threads) put(*from);
    const int end = (count + referenceStep - 1) / referenceStep * referenceStep, missing = end - count;
    for (int i = threadIdx.x; i < missing * r.width; i += blockDim.x) m.tile[i / missing * m.pitch + count + i % missing] = nan;
}

// squaresOf sets sum to the squares of the distances of four queries, which begin at query, from eight points of a tile,
// four at point and four 32 points on.
__device__ __forceinline__ void squaresOf(float (&sum)[4][8], const Memory &m, int width, const float *query, const float *point) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] = 0;
    }
#pragma unroll 4
    for (int c = 0; c < width; c++) {
        const float4 q = *reinterpret_cast<const float4 *>(query);
        const float4 a = *reinterpret_cast<const float4 *>(point), b = *reinterpret_cast<const float4 *>(point + 32);
        const float x[4] = {q.x, q.y, q.z, q.w}, y[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const float d = y[j] - x[i];
                sum[i][j] = fmaf(d, d, sum[i][j]);
            }
        }
        query += m.queries, point += m.pitch;
    }
}

// sampled is the number of a set's first points whose squares give a query its first bound; 0: too few points, or lists
// for more than 32 neighbours. It is a multiple of a step.
__device__ inline int sampled(const Reference &r, int room) {
    if (r.n < 512 || room > 3 * referenceStep / 2) return 0;
    return r.n < 4096 || r.width > 16 ? 256 : 512;
}

// limit sets the bounds of a warp's queries: as many of 64 groups of points as there are neighbours have a square within.
// least has the least square of each of a lane's groups.
__device__ __forceinline__ void limit(Judged &s, const Memory &m, const float (&least)[4][8]) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, room = s.room;
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) m.list[(4 * (lane >> 3) + i) * room + 8 * (lane & 7) + j].x = __float_as_uint(least[i][j]);
    }
    __syncwarp();
    for (int q = 0; q < referenceQueries; q++) {
        const int of = warp * referenceQueries + q, others = s.others[of];
        if (others < 1 || s.boundOf(of) < 0) continue;
        const uint32_t near = rank<uint32_t>(referenceStep, others, others / 8, [&](int a) { return m.list[q * room + a].x; });
        if (lane == 0) s.boundOf(of) = within(__uint_as_float(near), s.r.width);
    }
    __syncwarp();
}

// compareStep compares a warp's queries with the 64 points of a step, which begin at tile; first is the number of
// the first. It adds those within a query's bound to its list.
__device__ __forceinline__ void compareStep(Judged &s, const Memory &m, const Reference &r, const float *tile, int first) {
    const int room = s.room;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, mine = lane >> 3;
    const int of = warp * referenceQueries + 4 * mine;  // this lane's first query
    float sum[4][8];
    squaresOf(sum, m, r.width, m.query + of, tile + 4 * (lane & 7));
    float bound[4];
    const auto take = [&] {
        const float4 b = s.bound[of / 4];
        bound[0] = b.x, bound[1] = b.y, bound[2] = b.z, bound[3] = b.w;
    };
    take();
    bool hit[4];  // of a query
#pragma unroll
    for (int i = 0; i < 4; i++) {
        hit[i] = false;
#pragma unroll
        for (int j = 0; j < 8; j++) hit[i] = hit[i] || sum[i][j] <= bound[i];
    }
    if (!__any_sync(full, hit[0] || hit[1] || hit[2] || hit[3])) return;
    const int at = first + 4 * (lane & 7);
    for (bool dropped = false;; dropped = true) {
        bool over = false;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (!hit[i]) continue;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                if (sum[i][j] <= bound[i]) {
                    const uint32_t slot = atomicAdd(&s.count[of + i], 1u);
                    if (slot < static_cast<uint32_t>(room)) {
                        const uint32_t point = at + j % 4 + j / 4 * 32;
                        m.list[(4 * mine + i) * room + slot] = {__float_as_uint(sum[i][j]), point};
                        sum[i][j] = nan;
                    } else {
                        over = true;
                    }
                }
            }
        }
        over = __any_sync(full, over);
        __syncwarp();
        if (!over) {
            // Points of later steps have larger numbers: none is nearer than k at distance 0.
            const int q = warp * referenceQueries + lane;
            if (dropped && lane < referenceQueries && s.exact[q] && s.last[q] == 0) s.boundOf(q) = -1;
            __syncwarp();
            return;
        }
        for (int q = 0; q < referenceQueries; q++) {
            if (s.count[warp * referenceQueries + q] > static_cast<uint32_t>(room)) drop(s, q);
        }
        take();
    }
}

// reference scores the queries of a block. Its tile has the number of its runs of queries in count, the first of them,
// among the launch's tiles, in first, and in part the points of a tile and, << 16, the room of a list. A run has a task
// in first, in part the first of count fresh points, and in scratch the number of the first in the block. All tasks of a
// block have one model.
__device__ __forceinline__ void reference(const Task *tasks, const Tile *tiles, const float *f32, float *out, const uint32_t *models) {
    __shared__ Judged s;
    const Tile block = tiles[blockIdx.x];
    const Task &sample = tasks[tiles[block.first].first];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, points = block.part & 0xffff, room = block.part >> 16;
    const int width = static_cast<int>(sample.dim) * paramsOf<KnnParams>(sample, f32).embed;
    const Reference r = referenceOf(models, sample.model, width);
    if (threadIdx.x == 0) s.r = r, s.points = points, s.room = room;
    __syncthreads();
    const Memory m = memoryOf(s);
    ask(s, m, r, tasks, tiles, block, f32);
    const float scale = scaleFor(s.peak);
    for (int c = lane & 1; c < width; c += 2) m.query[c * m.queries + warp * referenceQueries + (lane >> 1)] *= scale;
    const bool idle = s.task[warp * referenceQueries] == none;  // the whole warp
    float spoilt = 0;
    const int some = sampled(r, room);
    float least[4][8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) least[i][j] = infinite;
    }
    for (int first = 0; first < some; first += points) {
        const int count = min(points, some - first);
        __syncthreads();
        stagePoints(m, r, first, count, scale, spoilt);
        __syncthreads();
        if (idle) continue;
        for (int step = 0; step < count; step += referenceStep) {
            float sum[4][8];
            squaresOf(sum, m, width, m.query + warp * referenceQueries + 4 * (lane >> 3), m.tile + step + 4 * (lane & 7));
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < 8; j++) least[i][j] = fminf(least[i][j], sum[i][j]);
            }
        }
    }
    if (some > 0 && !idle) limit(s, m, least);
    for (int first = 0; first < r.n; first += points) {
        const int count = min(points, r.n - first);
        __syncthreads();
        stagePoints(m, r, first, count, scale, spoilt);
        __syncthreads();
        if (idle) continue;
        for (int step = 0; step < count; step += referenceStep) compareStep(s, m, r, m.tile + step, first + step);
    }
    const bool bad = __syncthreads_or(!(spoilt == 0));
    if (idle) return;
    for (int q = 0; q < referenceQueries; q++) {
        const int of = warp * referenceQueries + q;
        if (s.task[of] == none) break;
        const Task &t = tasks[s.task[of]];
        const Wanted w = wantedOf(paramsOf<KnnParams>(t, f32), r.n);
        float *detail = out + t.detail.off + static_cast<size_t>(s.fresh[of]) * w.k;
        if (!bad && !s.spoilt[of]) decide(s, q, w, detail);
        else if (w.listed) leave(detail, w, true, 0, 0, 0, [](int) { return Bits(0); }, [](int) { return 0; });
        __syncwarp();
    }
    const int of = warp * referenceQueries + lane;
    if (lane >= referenceQueries || s.task[of] == none) return;
    const Task &t = tasks[s.task[of]];
    const Wanted w = wantedOf(paramsOf<KnnParams>(t, f32), r.n);
    double sum = 0;
    for (int a = 0; a < w.others; a++) {  // in the order of the points, as on the CPU
        const Listed d = m.list[lane * room + a];
        sum = __dadd_rn(sum, doubleOf(static_cast<Bits>(d.y) << 32 | d.x));
    }
    out[t.scores.off + s.fresh[of]] = bad || s.spoilt[of] ? nan : weight(w, sum);
}

}  // namespace knn
