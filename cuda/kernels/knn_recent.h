// Op KNN: a point of successive readings of one value, among those before it, without listed
// neighbours. See knn.cu.
#pragma once
#include "knn_pick.h"

namespace knn {

// A warp has the query. Round e compares it with points 512e to 512e+511 of the window: lane l with
// the 16 successive ones from 512e+16l on, which share all but 15 of their readings. A lane has them
// in registers: 16 points and 16 of the query's readings are 512 instructions and 32 loaded numbers.
constexpr int recentRun = 16;                  // successive points of a lane
constexpr int recentRound = 32 * recentRun;    // points of a round
constexpr int recentPitch = recentRun + 4;     // numbers from a run to the next in shared memory: lanes use different banks
constexpr int recentMost = 64;                 // readings of a point
constexpr int recentList = 64;                 // numbers that a warp sorts at once, two a lane

// Squares of scaled readings up to 2^58 do not overflow. Squares of differences of 2^-50 or more are not
// below 2^-100.
constexpr float recentPeak = 0x1p58f, recentSmall = 0x1p-100f, recentLeast = 0x1p-50f;

constexpr float largestFloat = 3.40282346638528859811704183484516925e+38f;

__device__ __forceinline__ float lesserOf(bool lesser, float a, float b) { return lesser ? fminf(a, b) : fmaxf(a, b); }

// exchangeWith orders a lane's numbers against the numbers of lane l^other.
__device__ __forceinline__ void exchangeWith(int other, bool lesser, float &a, float &b) {
    a = lesserOf(lesser, a, __shfl_xor_sync(full, a, other));
    b = lesserOf(lesser, b, __shfl_xor_sync(full, b, other));
}

__device__ __forceinline__ void exchangeOwn(bool rising, float &a, float &b) {
    float least = fminf(a, b), most = fmaxf(a, b);
    a = rising ? least : most, b = rising ? most : least;
}

// sortBoth sorts the 64 numbers of a warp in ascending order: lane l gets the ones of ranks 2l and 2l+1.
// Bitonic, as in line.h.
__device__ __forceinline__ void sortBoth(float &a, float &b) {
    const int lane = threadIdx.x & 31;
    exchangeOwn((lane & 1) == 0, a, b);
#pragma unroll 1
    for (int size = 4; size <= 64; size *= 2) {
        const bool rising = (2 * lane & size) == 0;
#pragma unroll 1
        for (int other = size / 4; other > 0; other /= 2) exchangeWith(other, ((lane & other) == 0) == rising, a, b);
        exchangeOwn(rising, a, b);
    }
}

// mergeBoth makes a and b, sorted by sortBoth, the 64 least of them and c and d, which are sorted too.
__device__ __forceinline__ void mergeBoth(float &a, float &b, float c, float d) {
    const int lane = threadIdx.x & 31;
    float e = __shfl_sync(full, d, 31 - lane), f = __shfl_sync(full, c, 31 - lane);
    a = fminf(a, e), b = fminf(b, f);
#pragma unroll 1
    for (int other = 16; other > 0; other /= 2) exchangeWith(other, (lane & other) == 0, a, b);
    exchangeOwn(true, a, b);
}

// Recent is a query: the point of m readings at x + count among the count points from x on.
struct Recent {
    const float *x;
    int m, count;
};

// stage writes the readings of a query, scaled, to shared memory: run i at window + recentPitch i, and
// the query's own to query. It returns the bits of the largest absolute value before scaling.
__device__ __forceinline__ uint32_t stage(const Recent &r, float scale, float *window, float *query) {
    constexpr int ahead = 32;                              // readings of a lane that are loaded at once
    constexpr int pitch = 32 / recentRun * recentPitch;    // from one of them to the next in shared memory
    const int lane = threadIdx.x & 31, all = r.count + r.m;
    const float *from = r.x + lane;
    float *to = window + lane + lane / recentRun * (recentPitch - recentRun);
    uint32_t most = 0;
    int left = all - lane;
#pragma unroll 1
    for (; left > 32 * (ahead - 1); left -= 32 * ahead, from += 32 * ahead, to += ahead * pitch) {
        float v[ahead];
#pragma unroll
        for (int k = 0; k < ahead; k++) v[k] = from[32 * k];
#pragma unroll
        for (int k = 0; k < ahead; k++) most = max(most, __float_as_uint(v[k]) & 0x7fffffffu), to[k * pitch] = v[k] * scale;
    }
#pragma unroll 4
    for (; left > 0; left -= 32, from += 32, to += pitch) most = max(most, __float_as_uint(*from) & 0x7fffffffu), *to = *from * scale;
    most = largest(most);
    __syncwarp();
    for (int i = lane; i < r.m; i += 32) query[i] = window[r.count + i + (r.count + i) / recentRun * (recentPitch - recentRun)];
    __syncwarp();
    return most;
}

// leastOf returns the least absolute value of the readings of a query that is not 0.
__device__ __forceinline__ float leastOf(const Recent &r) {
    uint32_t least = ~0u;
    for (int i = threadIdx.x & 31; i < r.count + r.m; i += 32) least = min(least, (__float_as_uint(r.x[i]) & 0x7fffffffu) - 1);
    least = ~largest(~least);
    return least == ~0u ? largestFloat : __uint_as_float(least + 1);
}

// scaleOf returns the power of two that brings the largest value, by its bits, to recentPeak or less.
__device__ __forceinline__ float scaleOf(uint32_t peak) { return ldexpf(1, min(58 - (static_cast<int>(peak >> 23) - 126), 120)); }

// Run has the first readings of 16 successive points.
struct Run { float v[recentRun]; };

__device__ __forceinline__ Run runAt(const float *window) {
    const float4 *at = reinterpret_cast<const float4 *>(window);
    Run r;
#pragma unroll
    for (int i = 0; i < recentRun / 4; i++) {
        float4 f = at[i];
        r.v[4 * i] = f.x, r.v[4 * i + 1] = f.y, r.v[4 * i + 2] = f.z, r.v[4 * i + 3] = f.w;
    }
    return r;
}

// addSquares adds to square, for each of 16 points, the squares of its differences from the query in count
// successive readings, at most 16. They are summed by themselves: of 64 readings the sum's relative error is
// then below 21 roundings. now has the points' first of these readings, next what follows.
template <bool Whole>
__device__ __forceinline__ void addSquares(float (&square)[recentRun], const Run &now, const Run &next, const float *query, int count) {
    float sum[recentRun];
#pragma unroll
    for (int i = 0; i < recentRun; i++) sum[i] = 0;
#pragma unroll
    for (int c = 0; c < recentRun; c += 4) {
        const float4 four = *reinterpret_cast<const float4 *>(query + c);
        const float q[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = c; j < c + 4; j++) {
            if (Whole || j < count) {
#pragma unroll
                for (int i = 0; i < recentRun; i++) {
                    float d = (i + j < recentRun ? now.v[(i + j) % recentRun] : next.v[(i + j) % recentRun]) - q[j - c];
                    sum[i] = fmaf(d, d, sum[i]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < recentRun; i++) square[i] += sum[i];
}

// squaresOf sets square to the squared distances of the query to the 16 points of a run.
__device__ __forceinline__ void squaresOf(float (&square)[recentRun], const float *window, const float *query, int m) {
#pragma unroll
    for (int i = 0; i < recentRun; i++) square[i] = 0;
    Run now = runAt(window);
    int first = 0;
#pragma unroll 1
    for (; first + recentRun <= m; first += recentRun) {
        window += recentPitch;
        const Run next = runAt(window);
        addSquares<true>(square, now, next, query + first, recentRun);
        now = next;
    }
    if (first < m) addSquares<false>(square, now, runAt(window + recentPitch), query + first, m - first);
}

// shareMinima takes the minima of this lane's numbers and of lane l^other's, one half of them each.
template <int Half, int Other> __device__ __forceinline__ void shareMinima(float (&least)[recentRun]) {
    const bool upper = threadIdx.x & Other;
#pragma unroll
    for (int i = 0; i < Half; i++) {
        float away = upper ? least[i] : least[i + Half], own = upper ? least[i + Half] : least[i];
        least[i] = fminf(own, __shfl_xor_sync(full, away, Other));
    }
}

// boundOf returns a number that at least k of the squares do not exceed: the k-th least of the minima of
// 64 groups of points. A group has each 16th point, so points that lie side by side, which are alike, are
// in different groups.
template <int E> __device__ __forceinline__ float boundOf(const float (&square)[E][recentRun], int k) {
    float least[recentRun];
#pragma unroll
    for (int i = 0; i < recentRun; i++) {
        least[i] = square[0][i];
#pragma unroll
        for (int e = 1; e < E; e++) least[i] = fminf(least[i], square[e][i]);
    }
    shareMinima<recentRun / 2, 1>(least);
    shareMinima<recentRun / 4, 2>(least);
    shareMinima<recentRun / 8, 4>(least);
    sortBoth(least[0], least[1]);
    float bound = __shfl_sync(full, (k - 1) & 1 ? least[1] : least[0], (k - 1) >> 1);
    return fminf(bound, largestFloat);
}

// exactly returns the sum of the distances to the k nearest points by float64 alone. It is for readings
// whose squares underflow in float32, and takes its time.
static __device__ __noinline__ double exactly(Recent r, int k) {
    auto square = [&](int a) { return bitsOf(squareOf(r.x + r.count, r.x + a, r.m)); };
    double far = doubleOf(rank<Bits>(r.count, k, 0, square)), sum = 0;
    int nearer = 0;
    for (int a = threadIdx.x & 31; a < r.count; a += 32) {
        double s = doubleOf(square(a));
        if (s < far) nearer++, sum = __dadd_rn(sum, __dsqrt_rn(s));
    }
    nearer = sumOf(nearer);
    return __dadd_rn(sumOf(sum), __dmul_rn(static_cast<double>(k - nearer), __dsqrt_rn(far)));
}

// nearestOf returns the sum of the distances to the k nearest points, and sets spoilt where a reading is
// not finite. list has room for recentList numbers.
template <int E> __device__ __forceinline__ double nearestOf(const Recent &r, int k, bool &spoilt, float *window, float *query, float *list) {
    const int lane = threadIdx.x & 31;
    float scale = 1;
    for (bool scaled = false;; scaled = true) {
        const uint32_t peak = stage(r, scale, window, query);
        spoilt = peak >= 0x7f800000u;
        if (spoilt || k < 1) return 0;
        if (!scaled && __uint_as_float(peak) > recentPeak) {
            scale = scaleOf(peak);
            continue;
        }
        float square[E][recentRun];
        // A loop, with the results of earlier rounds moved on: unrolled rounds do not fit into the cache for
        // instructions. Without numbers to begin with the compiler drops a round.
#pragma unroll
        for (int e = 0; e < E; e++) {
#pragma unroll
            for (int i = 0; i < recentRun; i++) square[e][i] = 0;
        }
#pragma unroll 1
        for (int first = lane * recentRun; first < E * recentRound; first += recentRound) {
#pragma unroll
            for (int e = 0; e + 1 < E; e++) {
#pragma unroll
                for (int i = 0; i < recentRun; i++) square[e][i] = square[e + 1][i];
            }
            squaresOf(square[E - 1], window + first / recentRun * recentPitch, query, r.m);
            if (first + recentRun > r.count) {
#pragma unroll
                for (int i = 0; i < recentRun; i++) square[E - 1][i] = first + i < r.count ? square[E - 1][i] : infinite;
            }
        }
        const float bound = boundOf<E>(square, k);
        float a = 0, b = 0;
        if (bound > 0) {
            // Each lane's numbers within the bound, in its column of what was the window.
            float *to = window + lane;
            __syncwarp();
#pragma unroll
            for (int e = 0; e < E; e++) {
#pragma unroll
                for (int i = 0; i < recentRun; i++) {
                    if (square[e][i] <= bound) *to = square[e][i], to += 32;
                }
            }
            const int count = static_cast<int>(to - window) / 32;
            int before = count;  // of this lane and those before it
#pragma unroll 1
            for (int other = 1; other < 32; other *= 2) {
                int v = __shfl_up_sync(full, before, other);
                if (lane >= other) before += v;
            }
            const int total = __shfl_sync(full, before, 31);
            before -= count;
            int next = 0;
#pragma unroll 1
            for (int first = 0; first < total; first += recentList) {
                list[lane] = list[lane + 32] = infinite;
                __syncwarp();
                for (; next < count && before + next < first + recentList; next++) list[before + next - first] = window[next * 32 + lane];
                __syncwarp();
                float c = list[lane], d = list[lane + 32];
                sortBoth(c, d);
                if (first == 0) a = c, b = d;
                else mergeBoth(a, b, c, d);
                __syncwarp();
            }
        }
        const bool mine = 2 * lane < k, both = 2 * lane + 1 < k;
        if (__any_sync(full, mine && a < recentSmall)) {
            // Of readings far from 0 a square below is 0, and exact.
            if (leastOf(r) * static_cast<double>(scale) < recentLeast) {
                if (scaled) return exactly(r, k);
                scale = scaleOf(peak);
                continue;
            }
        }
        double sum = 0;
        if (mine) sum = __fsqrt_rn(a);
        if (both) sum = __dadd_rn(sum, static_cast<double>(__fsqrt_rn(b)));
        return __ddiv_rn(sumOf(sum), static_cast<double>(scale));
    }
}

// recent scores the tasks of a tile, a warp a query.
template <int E> __device__ __forceinline__ void recent(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(float4, recentMemory);
    const Tile &tile = tiles[blockIdx.x];
    const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    // The same for all tasks, because the warps may have tasks with points of different lengths.
    constexpr int runs = E * 32 + recentMost / recentRun;
    float *window = reinterpret_cast<float *>(recentMemory) + (threadIdx.x >> 5) * (runs * recentPitch + recentMost + recentList);
    float *query = window + runs * recentPitch;
    int next = threadIdx.x >> 5;  // this warp's next query, counted from the first of the task
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        const Task &t = tasks[i];
        const KnnParams &p = paramsOf<KnnParams>(t, f32);
        const int m = p.embed, rows = t.x.len, fresh = t.fresh;
        for (; next < fresh; next += warps) {
            const int at = rows - fresh + next + 1 - m, from = max(0, at + 1 - p.points);
            const Wanted w = wantedOf(p, at - from);
            bool spoilt;
            double sum = nearestOf<E>({f32 + t.x.off + from, m, at - from}, w.others, spoilt, window, query, query + recentMost);
            if (lane == 0) out[t.scores.off + next] = spoilt ? nan : weight(w, sum);
            __syncwarp();
        }
        next -= fresh;
    }
}

}  // namespace knn
