// Op LOF: the shape of a task, and its points in the layout of the search.
#pragma once
#include "device.h"
#include "lof_params.h"

namespace lof {

constexpr uint32_t all = 0xffffffffu;
constexpr float infinity = __builtin_huge_valf();
constexpr int smallK = 31;    // up to here 64 groups and a sort, above 256 groups and a bisection

// Geometry is the geometry of a task, as determined by its shape. cuda/plan/lof.go has the same.
//
// Points are dealt to places: a group of consecutive places holds points that are apart in time, since
// successive points are often close. The places after the last point are padding, far from every point.
struct Geometry {
    int n, total, dim, k;       // real points, all, numbers a point, neighbours
    int log, groups, padded;    // places a group (log2), groups, places: a multiple of 32 and of a group
    int wide;                   // queries a block searches from at once, 4 a thread
    bool some;                  // only the results that the fresh points need
};

__device__ inline Geometry geometry(const Task &t, const LofParams &p) {
    Geometry g;
    int m = p.embed, rows = t.x.len / t.dim, points = p.points;
    if (points > 0) rows = min(rows, max(points, static_cast<int>(t.fresh)) + m - 1);
    g.dim = t.dim * m;
    g.n = rows - m + 1;
    int virtuals = t.bins.len / (g.dim + 1);
    g.total = g.n + virtuals;
    g.k = min(p.k, g.total - 1);
    int most = g.k > smallK ? 256 : 64;
    g.log = 0;
    while (most << g.log < g.total) g.log++;
    int group = 1 << g.log, unit = max(group, 32);
    g.groups = (g.total + group - 1) / group;
    g.padded = (g.groups * group + unit - 1) / unit * unit;
    bool median = virtuals > 0 && p.alpha == 0;
    g.some = !median && static_cast<int>(t.fresh) * (g.k + 1) * 2 <= g.total;
    g.wide = g.some || g.k > smallK || g.total <= 64 ? 32 : 64;
    return g;
}

constexpr float nan = __builtin_nanf("");

// The words of parameter FLOOR.
constexpr int floorResolution = 0, floorNone = 2;

// densityOf returns the lrd of a point whose k distances to its neighbours, or their k-distances if
// these are larger, have the given sum. Where that is 0, they have the floor.
__device__ inline double densityOf(double sum, int k, int kind, double floor) {
    double mean = sum / k;
    if (mean == 0) mean = floor;
    return 1 / (kind == floorNone ? mean : mean + 1e-10);
}

// resolutionOf returns the smallest difference, other than 0, of two of count numbers that are step
// apart: of a point's and of the one's before. 0: there is none. The whole block calls it; it
// contains barriers.
template <class At> __device__ inline double resolutionOf(size_t count, int step, At at) {
    __shared__ unsigned long long least;
    unsigned long long mine = ~0ull;
    if (threadIdx.x == 0) least = mine;
    __syncthreads();
    for (size_t e = step + threadIdx.x; e < count; e += blockDim.x) {
        double d = fabs(static_cast<double>(at(e)) - static_cast<double>(at(e - step)));
        unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(d));
        if (d > 0 && bits < mine) mine = bits;
    }
    if (mine != ~0ull) atomicMin(&least, mine);
    __syncthreads();
    double floor = least == ~0ull ? 0 : __longlong_as_double(static_cast<long long>(least));
    __syncthreads();
    return floor;
}

// scoreOf returns the score of a point of density lrd whose k neighbours' densities have the given sum.
__device__ inline float scoreOf(double sum, double lrd, int k) {
    if (lrd == __longlong_as_double(0x7ff0000000000000)) return 1;
    double score = sum / k / lrd, most = 3.40282346638528859811704183484516925e+38;
    return static_cast<float>(score > most ? most : score);
}

// turn spreads a group's points over phases, so that points a period apart are in different groups.
constexpr int turn = 11;

// pointAt returns the point at a place; total or more for padding.
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

// Points reads a task's numbers from the input.
struct Points {
    const float *x, *virtuals;
    int n, dim, row, embed;
    bool znorm;

    // at returns number c of a point. The rows of a point follow each other.
    __device__ float at(int point, int c) const {
        if (point >= n) return virtuals[static_cast<size_t>(point - n) * dim + c];
        const float *first = x + static_cast<size_t>(point) * row;
        if (!znorm) return first[c];
        return normal(first, c);
    }

    // normal returns the number of lof.Embed, to the bit.
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

// resolutionOf of a task's points.
__device__ inline double resolutionOf(const Points &p) {
    if (p.znorm) return resolutionOf(static_cast<size_t>(p.n) * p.dim, p.dim, [&](size_t e) { return p.at(static_cast<int>(e / p.dim), static_cast<int>(e % p.dim)); });
    return resolutionOf(static_cast<size_t>(p.n + p.embed - 1) * p.row, p.row, [&](size_t e) { return p.x[e]; });
}

__device__ inline Points pointsOf(const Task &t, const Geometry &g, const float *f32) {
    const LofParams &p = paramsOf<LofParams>(t, f32);
    int embed = p.embed, rows = g.n + embed - 1;
    return {f32 + t.x.off + t.x.len - static_cast<size_t>(rows) * t.dim, f32 + t.bins.off,
            g.n, g.dim, static_cast<int>(t.dim), embed, p.znorm != 0};
}

// Columns are the coordinates by place, in tiles of 32 places: a row of 32 for each of dim numbers,
// and, where there are more rows, one of the squared norms. A power of two, mostly 1, scales them so
// that their squares are in float32's range.
__device__ inline int cell(int rows, int place, int c) { return ((place >> 5) * rows + c) * 32 + (place & 31); }

// Filled describes a task's numbers: the power of two, 0 where a number is not finite, below 0 where
// the CPU scores the task; and a bound of the largest norm, squared.
struct Filled {
    float scale, norm;
};

// away is the coordinate of padding: its square is finite, and larger than all others.
constexpr float away = 0x1p62f;

__device__ inline uint32_t maxOf(uint32_t v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    for (int o = 16; o > 0; o >>= 1) v = max(v, __shfl_xor_sync(all, v, o));
    return v;
#else
    return __reduce_max_sync(all, v);
#endif
}

// fill writes the columns of places [from, to), with dim >= g.dim numbers and rows dim or dim + 1. The
// whole block calls it; it contains barriers.
__device__ inline Filled fill(float *columns, int dim, int rows, const Geometry &g, const Points &points, int from, int to) {
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
    if (peak >= 0x7f800000u) return {0, 0};
    float top = __uint_as_float(peak), scale = 1;
    if (peak != 0 && !(top >= 0x1p-20f && top <= 0x1p40f)) {
        if (points.znorm) return {-1, 0};
        int exponent = peak < 0x800000u ? -127 : static_cast<int>(peak >> 23) - 127;
        scale = __uint_as_float(static_cast<uint32_t>(min(20 - exponent, 120) + 127) << 23);
    }
    for (int place = from + threadIdx.x; place < to; place += blockDim.x) {
        int i = pointAt(g, place);
        float norm = 0;
        for (int c = 0; c < dim; c++) {
            float v = i >= g.total ? away : c < g.dim ? points.at(i, c) * scale : 0.0f;
            columns[cell(rows, place, c)] = v;
            norm = fmaf(v, v, norm);
        }
        if (rows > dim) columns[cell(rows, place, dim)] = i >= g.total ? infinity : norm;
    }
    __syncthreads();
    return {scale, top * scale * (top * scale) * g.dim};
}

}  // namespace lof
