// Whether rows change their level: detectors.ChangesLevel by WideSet, with the same comparisons, by a block.
#pragma once
#include "device.h"

namespace solvingset {

constexpr int threads = 256, warps = threads / 32;
constexpr uint32_t full = 0xffffffffu;
constexpr double inf = __builtin_inf(), mostDouble = 0x1.fffffffffffffp+1023;

constexpr int levelRows = 7, levelBack = 64, levelFar = 16, levelRest = 4096 / levelFar, levelEvery = 4, sampled = 128, between = 3;
constexpr int levelEdge = 3, levelBeside = 5, levelAway = 64;

// Column is a column of rows.
struct Column {
    const double *x;
    int rows, dim;

    __device__ double operator[](int row) const { return x[static_cast<size_t>(row) * dim]; }
    // span returns a row of the span from a row on; NaN where there is none.
    __device__ double span(int from, int i) const { return from + i < rows ? (*this)[from + i] : __builtin_nan(""); }
};

__device__ inline bool levelled(const Column &x, int from, int at, int beside, int next) {
    return fabs(__dsub_rn(x.span(from, at), x.span(from, beside))) <=
           __dmul_rn(levelAway, fabs(__dsub_rn(x.span(from, beside), x.span(from, next))));
}

__device__ inline bool leaves(const Column &x, int from, int at, int beside) {
    double low = inf, high = -inf, v = x.span(from, at);
    for (int i = beside; i < beside + levelBeside; i++) {
        double s = x.span(from, i);
        if (s != s) return false;
        low = s < low ? s : low;
        high = s > high ? s : high;
    }
    double above = __dsub_rn(v, high), below = __dsub_rn(low, v), far = above > below ? above : below;
    return above == above && below == below && high > low && far <= mostDouble && far > __dmul_rn(levelAway, __dsub_rn(high, low));
}

// edges reports whether the last row of the column is entering it from another level, or the first one leaving.
__device__ __noinline__ bool edges(const Column &x) {
    int last = x.rows - 1 - levelRows;
    return (!levelled(x, last, levelRows, 0, 1) && leaves(x, last, levelRows, 0)) ||
           (!levelled(x, 0, 0, levelEdge, levelEdge + 1) && leaves(x, 0, 0, levelEdge));
}

// leads reports whether a row, far from the center, is much farther from it than from the rows just before it.
__device__ __noinline__ bool leads(const Column &x, int row, double far, double times) {
    int from = max(0, row - levelRows), near = 0, equal = 0, beside = 0;
    double v = x[row];
    for (int i = 0; i <= levelRows; i++) {
        double s = x.span(from, i);
        bool is = far > __dmul_rn(times, fabs(__dsub_rn(s, v)));
        int after = (i - (row - from)) & levelRows;
        near += is;
        beside += is && after >= 1 && after <= 5;
        equal += s == v;
    }
    if (beside == 0 || near <= 3) return false;
    if (equal <= 3) return true;
    for (int i = row - 1; i >= max(0, row - levelBack); i--) {
        double d = fabs(__dsub_rn(x[i], v));
        if (d > 0 && far > __dmul_rn(times, d)) return true;
    }
    return false;
}

// usual returns the median distance of the column from the center, by bisection of its bits.
__device__ __noinline__ double usual(const Column &x, double center) {
    auto distance = [&](int row) { return fabs(__dsub_rn(x[row], center)); };
    int all = 0;
    for (int base = 0; base < x.rows; base += threads) {
        int row = base + threadIdx.x;
        all += __syncthreads_count(row < x.rows && distance(row) <= mostDouble);
    }
    if (all == 0) return 0;
    unsigned long long found = 0;  // the largest number with at most all/2 distances below it
    for (int bit = 62; bit >= 0; bit--) {
        unsigned long long next = found | 1ull << bit;
        double bound = __longlong_as_double(static_cast<long long>(next));
        int below = 0;
        for (int base = 0; base < x.rows; base += threads) {
            int row = base + threadIdx.x;
            below += __syncthreads_count(row < x.rows && distance(row) <= mostDouble && !(distance(row) >= bound));
        }
        if (bound <= mostDouble && below <= all / 2) found = next;
    }
    return __longlong_as_double(static_cast<long long>(found));
}

// changes is detectors.ChangesLevel of a column, but for its edges. lead is scratch memory, a byte for each row.
__device__ __noinline__ bool changes(const Column &x, double center, unsigned char *lead, int *result) {
    double times = x.rows >= levelRest ? levelFar : levelFar * __ddiv_rn(levelRest, x.rows);
    int any = 0;
    for (int i = threadIdx.x; x.rows - 1 - i * levelEvery >= 0; i += threads) {
        int row = x.rows - 1 - i * levelEvery;
        double far = fabs(__dsub_rn(x[row], center));
        lead[i] = far > 0 && far <= mostDouble && leads(x, row, far, times);
        any |= lead[i];
    }
    if (!__syncthreads_or(any)) return false;
    double enough = __dmul_rn(usual(x, center), 0.5);
    if (threadIdx.x == 0) {
        double bound = -1, least = 0, most = 0;  // of values in between; see detectors.course
        bool found = false;
        for (int i = 0, row = x.rows - 1; row >= 0 && !found; i++, row -= levelEvery) {
            if (!lead[i]) continue;
            double far = fabs(__dsub_rn(x[row], center)), low = __dmul_rn(far, 0.25), high = __dmul_rn(__dmul_rn(far, 3), 0.25);
            if (!(far > max(bound, 0.0)) || (least > low && most < high)) continue;
            int count = 0;
            least = inf, most = 0;
            for (int k = 0; k < sampled && count <= between; k++) {
                unsigned long long at = static_cast<unsigned long long>(k + 1) * 0x9e3779b97f4a7c15ull >> 32;
                double d = fabs(__dsub_rn(x[static_cast<int>(at * x.rows >> 32)], center));
                if (d > low && d < high) {
                    least = min(least, d), most = max(most, d);
                    count++;
                }
            }
            if (count > between) continue;
            bound = enough;
            found = far > bound;
        }
        *result = found;
    }
    __syncthreads();
    bool found = *result;
    __syncthreads();
    return found;
}

__device__ inline double medianOf(double a, double b, double c) {
    double low = a > b ? b : a, high = a > b ? a : b;
    return c < low ? low : c > high ? high : c;
}

// centerOf is detectors.Centers of a column.
__device__ __noinline__ double centerOf(const Column &x) {
    int at[] = {0, x.rows / 2, x.rows - 1};
    double u = x[at[0]], v = x[at[1]], w = x[at[2]];
    if (u == u && v == v && w == w) return medianOf(u, v, w);
    if (u == u) return u;
    if (v == v) return v;
    if (w == w) return w;
    for (int i = 0; i < x.rows; i++) {
        if (x[i] == x[i]) return x[i];
    }
    return 0;
}

// changesLevel is changesLevel of package knn: by the centers, or by the origin, of each of dim columns.
__device__ inline bool changesLevel(const double *x, int rows, int dim, const double *origin, unsigned char *lead, int *result) {
    for (int c = 0; c < dim && rows > levelRows; c++) {
        if (edges({x + c, rows, dim})) return true;
    }
    for (int by = 0; by < 2; by++) {
        for (int c = 0; c < dim; c++) {
            Column column = {x + c, rows, dim};
            if (changes(column, by == 0 ? centerOf(column) : origin[c], lead, result)) return true;
        }
    }
    return false;
}

}  // namespace solvingset
