// SVD-SST: the change score with exact singular vectors, detectors/sst/svd.go.
//
// A block scores the rows of its tile's tasks, one after the other. It takes Lanczos steps on the
// Hankel matrix of the current until the leading Ritz pair is exact, which gives mu; then on the matrix of
// the past, until the r leading pairs are exact. svdsst_tridiagonal.h has the eigenvalues of T and the
// criterion for enough steps; svdsst_refine.h resolves in float64 what float32 leaves open.
//
// The block has W warps, each lane T consecutive rows of a vector, 32 T >= w. In a product with the
// matrix a warp takes a share of the columns for all rows: the lane slides a window of T values of x
// along in registers, T*T multiply-adds for T values of x and T of the vector from shared memory. The
// shares are summed through shared memory. To orthogonalise a vector against the basis, a warp takes a
// share of the basis: it reads each vector once, for its coordinate and for the subtraction. In shared
// memory the lanes' first rows of a vector lie side by side, then the second ones, so that no access
// uses a bank twice. The first vectors of the basis are in shared memory; the others, which few scores
// need, are in scratch memory.
//
// Vectors and products are float32; T and all later results are float64. svdsst_dense decides a score
// in the task's second round (svdsst_dense.h) in three cases. The score is not exact after 128 steps:
// only a decomposition of the whole matrix would help, whose singular values are too close. The vectors
// fail a test: they must be eigenvectors of T for exactly the rank's values, orthogonal, and farther
// from the others than float32's error. Or the past has fewer than r singular values above 1/316 of the
// largest, and the task does not exclude smaller ones.
//
// A Krylov space contains one eigenvector of a multiple eigenvalue, which may occur where more than a
// third of a past is the same value, as in counters at rest and in steps. But the squares of all
// eigenvalues have the same sum as the squares of the matrix's elements, so the sum for the unseen ones is known. Such a
// past takes steps until that sum is less than the square of the last value that counts. So does any
// matrix in which another value is within 1e-4 of the last that counts, until the residuals of both are
// 1/20 of their distance: eight eigenvalues within 1e-5 appeared as four after 17 steps. Of recordings
// (NAB, SMD, ASD, SMAP, MSL) 10 to 40 % are of that kind, and 1 to 10 % remain for svdsst_dense.
//
// A small space does not contain a direction of the past that is orthogonal to the first vector up to
// 1e-6, which occurs in one score in 25,000. So residuals have to be 1e-8 of the largest value, even
// where mu has such small components along the vectors that the score is exact sooner.
//
// A score that is not a number is never returned.
//
// Floor: w*w multiply-adds a step and 2w for each vector before, on an H200 33.5e12 a second: 3.2 M
// scores a second at w=320, r=12, for 64 steps on the past and 24 on the current. Measured: 0.71 M,
// 22 %, with 68 and 12 steps and 3.2 computations of Ritz values, in launches of 8,192 tasks; 0.61 M in
// launches of 2,048, whose last blocks leave the others idle, and 0.79 M with several launches at a
// time. A multiprocessor issues in half of its cycles. Of a block's cycles, the step's product takes a
// fifth, its sums and the basis from the L2 a half, Ritz values a quarter. Since then a rank of 8 or
// more takes another 2r steps before the first Ritz values where the rest of the spectrum is flat,
// since these would only confirm that more steps are needed.
//
// Tried at w=320, r=12, in thousands of scores a second: eight warps a block and two blocks a
// multiprocessor, as suits a product, 430; four and four 675, two and five 711: other blocks have to
// work while one waits for a barrier. Three blocks of eight warps, also 430. Lanes of one value at
// fewer points, or more: 3 % less. A bound of 2e-6 for a score instead of 1e-6, 7 %. Predicting the
// next computation of Ritz values from the rate at which doubts fall, 7 %. Tiles taken by idle blocks
// instead of a fixed distribution, 14 %. A basis with 16 vectors in shared memory instead of 9, for
// five blocks instead of six, -7 %; seven blocks, 1 %.
#include "device.h"
#include "hankel.h"
#include "svdsst_params.h"

namespace {

constexpr unsigned all = 0xffffffffu;
constexpr float largest = 3.402823466e38f;
constexpr double pi = 3.14159265358979323846;
constexpr double still = 1e-12;          // of the mean: a series within this distance of it is constant
constexpr double certain = 0.00316;      // of the largest singular value: float32 is too inexact for smaller ones
constexpr float exhausted = 1e-6f;       // of T's largest element: a beta up to it ends a Krylov space
constexpr float reduced = 1e-3f;         // of T's largest element: a vector with a beta up to it is orthogonalised again
constexpr int beyond = 4;                // Ritz values after the r-th that are computed
constexpr double nearest = 1e-4;         // of the largest: least distance of eigenvalues in a bound
constexpr double unsure = 4e-6;          // of the largest singular value's square: the error of sums of squares of T's elements
constexpr double flat = 0.7;             // of the remainder at half of the first steps: above it, Ritz values are too similar to help
constexpr int wide = 8;                  // least rank with enough steps for this test
constexpr float enough = 2e-6f;          // of a score: error allowed for missing steps
constexpr int mostSteps = 128;

__device__ __forceinline__ float sumOfWarp(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(all, v, o);
    return v;
}
__device__ __forceinline__ double sumOfWarp(double v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(all, v, o);
    return v;
}

// Memory is the block's shared memory, as in memory of cuda/plan/svdsst.go.
template <int T, int W> struct Memory {
    static constexpr int blocks = T == 2 ? 16 : T == 4 ? 8 : T == 7 || T == 10 ? 6 : 4;  // blocks of a multiprocessor
    static constexpr int room = (227 / blocks - 1) * 1024;                               // bytes of each
    static constexpr int P = T | 1;         // distance between blocks of T values of x
    static constexpr int V = (T + 3) & ~3;  // of the factor of a product
    static constexpr int N = 32 * T, threads = 32 * W;
    static constexpr int own = (N + threads - 1) / threads;  // positions of a vector that a thread has

    double *d, *e, *square;  // [steps]: T over its bound, and its subdiagonal's squares
    double *value;           // [values]: Ritz values over the bound
    double *sums;            // [W][24]
    double *small;           // [64]
    float *window;           // [64 P]: x, centred
    float *v;                // [32 V]: the factor
    float *y, *mu;           // [N]
    float *alpha, *beta;     // [steps]
    float *g;                // [steps]: mu's coordinates in the basis
    float *along, *residual, *unit;  // [values], each of 32
    int *row;                // [32]
    float *before, *after;   // [W], each of 8
    float *work;             // [W][N]: shares of a sum; or two of [held][pitch]
    float *q;                // [kept][N]: the basis
    float *tail;             // the rest of the basis
    float *spare;            // work's two arrays, if they are longer than work
    int kept, steps, values, pitch, held;

    __device__ __forceinline__ Memory(unsigned char *scratch, int w, int rank) {
        DYNAMIC_SHARED(float4, memory);
        steps = w < mostSteps ? w : mostSteps;
        values = rank + beyond;
        pitch = values | 1;
        int most = (steps + 7) & ~7;
        held = most < 80 ? most : 80;
        int shares = W * N > 2 * held * pitch ? W * N : 2 * held * pitch;
        d = reinterpret_cast<double *>(memory), e = d + most, square = e + most;
        value = square + most, sums = value + 32, small = sums + 24 * W;
        float *at = reinterpret_cast<float *>(small + 64);
        v = at, at += 32 * V;
        y = at, at += N;
        mu = at, at += N;
        alpha = at, at += most;
        beta = at, at += most;
        g = at, at += most;
        along = at, residual = at + 32, unit = at + 64, row = reinterpret_cast<int *>(at + 96), at += 128;
        before = at, after = at + 8, at += 16;
        window = at, at += 64 * P;
        work = at, at += shares;
        q = at;
        kept = (room - static_cast<int>(reinterpret_cast<char *>(at) - reinterpret_cast<char *>(memory))) / (4 * N);
        kept = kept < steps ? kept : steps;
        int least = (12 * w - 64 * P - shares + N - 1) / N;  // for refining, which uses window, work and this
        kept = kept > least ? kept : least;
        kept = kept > 0 ? kept : 0;
        tail = reinterpret_cast<float *>(scratch) - kept * N;
        spare = kept < steps ? tail + steps * N : reinterpret_cast<float *>(scratch);
    }
    __device__ float *column(int j) const { return (j < kept ? q : tail) + j * N; }
    // coordinates returns the place of the Ritz vectors' coordinates in a space of n steps, pitch of
    // them side by side.
    __device__ float *coordinates(int n) const { return n <= held ? work : spare; }
    // rowOf returns the row of a vector at a position.
    static __device__ int rowOf(int position) { return (position & 31) * T + (position >> 5); }
};

// sumOfBlock sets v to the sums of all threads' v.
template <int n, class M> __device__ void sumOfBlock(const M &m, double (&v)[n]) {
    constexpr int W = M::threads / 32;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < n; i++) {
        double s = sumOfWarp(v[i]);
        if ((threadIdx.x & 31) == 0) m.sums[(threadIdx.x >> 5) * 24 + i] = s;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < n; i++) {
        v[i] = 0;
        for (int k = 0; k < W; k++) v[i] += m.sums[k * 24 + i];
    }
}

template <class M> __device__ float maxOfBlock(const M &m, float v) {
    constexpr int W = M::threads / 32;
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(all, v, o));
    __syncthreads();
    if ((threadIdx.x & 31) == 0) m.before[threadIdx.x >> 5] = v;
    __syncthreads();
    for (int k = 0; k < W; k++) v = fmaxf(v, m.before[k]);
    return v;
}

// scatter returns a number of splitmix64 from -1 to 1: see krylov.go.
__device__ inline float scatter(uint32_t of, uint32_t row) {
    uint64_t z = (static_cast<uint64_t>(of) << 32 | row) + 1;
    z *= 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return static_cast<float>(static_cast<int32_t>((z ^ z >> 31) >> 32)) * 0x1p-31f;
}

// together returns the sum of the warps' shares at a position of a vector, 0 for padding.
template <class M> __device__ __forceinline__ float together(const M &m, int w, int at) {
    float s = 0;
#pragma unroll
    for (int k = 0; k < M::threads / 32; k++) s += m.work[k * M::N + at];
    return M::rowOf(at) < w ? s : 0;
}

// total returns the sum of all threads' v. No other sum may use `of` until the next barrier.
template <class M> __device__ __forceinline__ float total(const M &, float *of, float v) {
    v = sumOfWarp(v);
    if ((threadIdx.x & 31) == 0) of[threadIdx.x >> 5] = v;
    __syncthreads();
    float s = 0;
#pragma unroll
    for (int k = 0; k < M::threads / 32; k++) s += of[k];
    return s;
}

// project subtracts from y its components along n vectors of the basis, and adds their multiples to u.
// It returns the component along the last of them. It takes four vectors at a time, since most of its
// time is spent on sums and loads.
template <int T, int W> __device__ __forceinline__ float project(float (&u)[T], const float (&y)[T], const float *q, int j, int n) {
    constexpr int N = 32 * T, G = 4;
    float last = 0;
#pragma unroll 1
    for (; j < n; j += G * W) {
        float v[G][T], c[G];
#pragma unroll
        for (int g = 0; g < G; g++) {
            const float *a = q + (j + g * W < n ? j + g * W : j) * N + (threadIdx.x & 31);
#pragma unroll
            for (int t = 0; t < T; t++) v[g][t] = a[t * 32];
        }
#pragma unroll
        for (int g = 0; g < G; g++) {
            c[g] = 0;
#pragma unroll
            for (int t = 0; t < T; t++) c[g] = fmaf(v[g][t], y[t], c[g]);
        }
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) {
#pragma unroll
            for (int g = 0; g < G; g++) c[g] += __shfl_xor_sync(all, c[g], o);
        }
        last = c[0];
#pragma unroll
        for (int g = 1; g < G; g++) {
            if (j + g * W < n) last = c[g]; else c[g] = 0;
        }
#pragma unroll
        for (int g = 0; g < G; g++) {
#pragma unroll
            for (int t = 0; t < T; t++) u[t] = fmaf(c[g], v[g][t], u[t]);
        }
    }
    return last;
}

// orthogonal subtracts from y its components along the n vectors of the basis, and adds the last one to
// *along. It returns the square of the remainder.
template <int T, int W> __device__ __forceinline__ float orthogonal(const Memory<T, W> &m, int w, int n, float *along) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float y[T], u[T];
#pragma unroll
    for (int t = 0; t < T; t++) {
        y[t] = m.y[t * 32 + lane];
        u[t] = 0;
    }
    float last = project<T, W>(u, y, m.q, warp, n < m.kept ? n : m.kept);
    if (n > m.kept) {
        // The first of the warp's vectors that are not in shared memory.
        int j = m.kept + (warp - m.kept % W + W) % W;
        float further = project<T, W>(u, y, m.tail, j, n);
        if (j < n) last = further;
    }
    if (lane == 0 && (n - 1) % W == warp) *along += last;
#pragma unroll
    for (int t = 0; t < T; t++) m.work[warp * m.N + t * 32 + lane] = u[t];
    __syncthreads();
    float energy = 0;
#pragma unroll
    for (int i = 0; i < m.own; i++) {
        int at = threadIdx.x + i * m.threads;
        if (at < m.N) {
            float s = m.y[at] - together(m, w, at);
            m.y[at] = s;
            energy = fmaf(s, s, energy);
        }
    }
    return total(m, m.after, energy);
}

// append makes y, times scale, vector number n of the basis and the next factor. now gets the thread's
// part of it, and before the part of the vector before.
template <class M> __device__ __forceinline__ void append(const M &m, int n, float scale, float (&now)[M::own], float (&before)[M::own]) {
    float *q = m.column(n);
#pragma unroll
    for (int i = 0; i < M::own; i++) {
        int at = threadIdx.x + i * M::threads;
        if (at < M::N) {
            float s = m.y[at] * scale;
            before[i] = now[i];
            now[i] = s;
            q[at] = s;
            m.v[(at & 31) * M::V + (at >> 5)] = s;
        }
    }
    __syncthreads();
}

// another makes vector number n of the basis a pseudo-random one.
template <int T, int W> __device__ __forceinline__ void another(const Memory<T, W> &m, int w, int n, float (&now)[Memory<T, W>::own], float (&before)[Memory<T, W>::own]) {
    float ignored = 0, square = 0;
    const float size = sqrtf(3.0f / w);
    for (int at = threadIdx.x; at < m.N; at += m.threads) {
        int row = m.rowOf(at);
        m.y[at] = row < w ? scatter(n, row) * size : 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) square = orthogonal<T, W>(m, w, n, &ignored);
    append(m, n, rsqrtf(square), now, before);
}

// Series is one column of a task's rows, from the first row that a score reads.
struct Series {
    const float *x;
    uint32_t dim;
    int w, gamma;
    double mean;
    __device__ float at(int i) const { return x[static_cast<size_t>(i) * dim]; }
};

}  // namespace

#include "svdsst_tridiagonal.h"
#include "svdsst_refine.h"
#include "svdsst_dense.h"

namespace {

// centre sets the window to 2w-1 values from first on less the mean, times a power of two that keeps
// products in the range of float32. It returns that power; 0 where all values equal the mean.
template <class M> __device__ double centre(const M &m, const Series &s, int first) {
    constexpr int T = M::N / 32;
    const int n = 2 * s.w - 1;
    float peak = 0;
    for (int i = threadIdx.x; i < 64 * T; i += M::threads) {
        float c = i < n ? static_cast<float>(static_cast<double>(s.at(first + i)) - s.mean) : 0;
        m.window[i + i / T * (M::P - T)] = c;
        peak = fmaxf(peak, fabsf(c));
    }
    peak = maxOfBlock(m, peak);
    const bool moves = static_cast<double>(peak) > still * fabs(s.mean);
    double scale = moves ? 1 : 0;
    if (moves && (peak < 0x1p-3f || peak > 0x1p12f)) {
        // Where the difference exceeds float32, its exponent is 128.
        int exponent = peak > largest ? 128 : (__double2hiint(static_cast<double>(peak)) >> 20) - 1023;
        scale = __longlong_as_double(static_cast<long long>(1023 - exponent) << 52);
        for (int i = threadIdx.x; i < n; i += M::threads) {
            m.window[i + i / T * (M::P - T)] = static_cast<float>((static_cast<double>(s.at(first + i)) - s.mean) * scale);
        }
    }
    __syncthreads();
    return scale;
}

// repeats is repeats in svdscore.go: a Krylov space does not show the multiplicity of an eigenvalue, or
// of almost equal ones.
template <class M> __device__ __noinline__ bool repeats(const M &m, const Series &s) {
    const int n = 2 * s.w - 1;
    float low = largest, high = -largest;
    for (int i = threadIdx.x; i < n; i += M::threads) {
        low = fminf(low, s.at(i));
        high = fmaxf(high, s.at(i));
    }
    high = maxOfBlock(m, high);
    low = -maxOfBlock(m, -low);
    const double near = 1e-4 * (static_cast<double>(high) - static_cast<double>(low));
    double same[4] = {0, 0, 0, 0};  // 16 counts of 12 bits
#pragma unroll
    for (int g = 0; g < 16; g++) {
        const double ground = s.at((2 * g + 1) * n / 32);
        for (int i = threadIdx.x; i < n; i += M::threads) {
            if (fabs(static_cast<double>(s.at(i)) - ground) <= near) same[g / 4] += static_cast<double>(1ull << 12 * (g % 4));
        }
    }
    sumOfBlock(m, same);
    bool found = false;
#pragma unroll
    for (int g = 0; g < 16; g++) found |= 3 * (static_cast<uint64_t>(same[g / 4]) >> 12 * (g % 4) & 4095) > n;
    return found;
}

// scoreOf returns the score of a series; below 0 where float32 leaves it open.
template <int T, int W> __device__ __forceinline__ float scoreOf(const Memory<T, W> &m, unsigned char *scratch, Series s, int rank, double negligible) {
    const double least = fmax(negligible, certain);
    const int w = s.w, n = 2 * w - 1, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    bool bad = false;
    double sums[1] = {0};
    for (int i = threadIdx.x; i < n; i += m.threads) {
        float a = s.at(i), b = s.at(s.gamma + i);
        bad |= !(fabsf(a) <= largest) | !(fabsf(b) <= largest);
        sums[0] += static_cast<double>(a) + static_cast<double>(b);
    }
    for (int i = n + threadIdx.x; i < s.gamma; i += m.threads) bad |= !(fabsf(s.at(i)) <= largest);
    if (__syncthreads_or(bad)) return __int_as_float(0x7fc00000);
    sumOfBlock(m, sums);
    s.mean = sums[0] / (2 * n);

    // A warp has its share of the column blocks of T.
    const int blocks = (w + T - 1) / T, from = blocks * warp / W, share = blocks * (warp + 1) / W - from;
    float score = 1;
    bool hidden = false;
#pragma unroll 1
    for (int past = 0; past < 2; past++) {
        const int begin = past ? 0 : s.gamma;
        if (!past) {
            if (!(centre(m, s, 0) > 0)) return 0;
            hidden = repeats(m, s);
        }
        const double scale = centre(m, s, begin);
        if (!(scale > 0)) return 0;
        double energy[1] = {0};
        for (int i = threadIdx.x; i < n; i += m.threads) {
            double c = m.window[i + i / T * (m.P - T)];
            energy[0] += c * c * (i < w ? i + 1 : n - i);
        }
        sumOfBlock(m, energy);
        // T's largest element, its last beta; the squares of all elements of the matrix less the squares of
        // T's; steps, and those before the space was last continued.
        float size = 0, last = 0;
        double rest = energy[0];
        const int first = min(w, past ? 3 * rank + 8 : 12);
        int steps = 0, continued = 0, known = 0, next = first;
        double half = 0;  // rest at half of first
        Pairs found;
        float now[m.own] = {}, before[m.own] = {};  // the last two vectors
        another<T, W>(m, w, 0, now, before);
        for (;;) {
            float y[T];
            hankel<T>(y, m.window + (lane + from) * m.P, m.v + from * m.V, share);
#pragma unroll
            for (int t = 0; t < T; t++) m.work[warp * m.N + t * 32 + lane] = y[t];
            __syncthreads();
            // First without the components along the last two vectors: the remaining deviations of the
            // basis from orthogonality scale with what is subtracted.
            float mine[m.own], along = 0;
#pragma unroll
            for (int i = 0; i < m.own; i++) {
                int at = threadIdx.x + i * m.threads;
                mine[i] = at < m.N ? fmaf(-last, before[i], together(m, w, at)) : 0;
                along = fmaf(mine[i], now[i], along);
            }
            along = total(m, m.before, along);
#pragma unroll
            for (int i = 0; i < m.own; i++) {
                int at = threadIdx.x + i * m.threads;
                if (at < m.N) m.y[at] = fmaf(-along, now[i], mine[i]);
            }
            if (threadIdx.x == 0) m.alpha[steps] = along;
            __syncthreads();
            steps++;
            float square = orthogonal<T, W>(m, w, steps, m.alpha + steps - 1);
            if (square < reduced * reduced * size * size) square = orthogonal<T, W>(m, w, steps, m.alpha + steps - 1);
            const float alpha = m.alpha[steps - 1], beta = sqrtf(square);
            size = fmaxf(size, fmaxf(fabsf(alpha), beta));
            rest -= static_cast<double>(alpha) * alpha;
            last = 0;
            bool complete = steps == w;
            if (!complete && beta > exhausted * size) {
                rest -= 2 * static_cast<double>(beta) * beta;
                last = beta;
            } else if (!complete) {
                complete = rest <= least * least * size * size;
                continued = steps;
            }
            // Below 0 where it is no element of T.
            if (threadIdx.x == 0) m.beta[steps - 1] = complete ? 0 : last > 0 ? last : -beta;
            if (steps < m.steps && !complete) {
                if (last > 0) append(m, steps, 1 / last, now, before);
                else another<T, W>(m, w, steps, now, before);
            }
            if (steps == first / 2) half = rest;
            if (steps == first && past && rank >= wide && rest > flat * half) next += 2 * rank;
            if (steps < next && steps < m.steps && !complete) continue;
            found = pairs<T, W>(scratch, rank, Krylov{w, past ? rank : 1, steps, continued, past ? known : -1, least, complete});
            known = steps;
            const bool few = past && found.counts < rank;
            if (found.doubt <= enough) {
                if (few && negligible < certain) return -1;
                // The squares of the eigenvalues that the space has not seen sum to rest.
                const double size = fabs(m.value[0]) * found.bound, bound = few ? least * size : fabs(m.value[max(found.counts, 1) - 1]) * found.bound;
                if (complete || rest + unsure * size * size < 0.95 * bound * bound || !(found.alike || found.early || (past && hidden))) break;
            }
            if (steps == m.steps || complete) return -1;
            if (found.doubt <= enough) {
                next = min(steps + (found.early ? 4 : 8), m.steps);
                continue;
            }
            // It falls to 1/e in about six steps.
            next = min(steps + max(static_cast<int>(6 * logf(fminf(found.doubt / enough, 55))), 6), m.steps);
        }
        score = settle<T, W>(scratch, rank, steps, past, found, s, begin, scale);
        if (score < 0) return -1;
    }
    return score;
}

// Heads occupy a launch's first two tiles. Offsets in scratch memory are in units of 256 bytes.
struct Heads {
    uint32_t tiles;     // tiles after the heads
    uint32_t counters;  // offset of Counters
    uint32_t again;     // 1: the second round, with svdsst_dense after this kernel
    uint32_t left;      // of a second round: offset of the list of scores that float32 leaves open
    uint32_t apart;     // of a second round, 1: the matrices of svdsst_dense are in scratch memory, one a block
    uint32_t matrices;  // their offset
    uint32_t pad[2];
};
static_assert(sizeof(Heads) == 2 * sizeof(Tile), "layout");

// Counters are zero before a launch. An idle block takes the next tile, or the next of the listed
// scores, since the times of scores differ widely.
struct Counters {
    uint32_t tile;  // tiles taken
    uint32_t left;  // scores listed
    uint32_t done;  // listed scores that are taken
};

// open marks a row's score in the output until the second round has computed it.
constexpr float open = -1;

// svdsst is the kernel for T rows a lane, W warps a block. A tile is some tasks with all of their rows,
// or one task with some rows: the first of them and, above 16 bits, their number. As many of the tiles
// as there are blocks have scratch memory, one block each. All tasks of the launch have the same w and
// rank.
//
// The first round requests a second one for a task with rows that float32 leaves open. The second
// computes only those, and lists for svdsst_dense what is open: the row's one value, or, of several
// values, those that are open again.
template <int T, int W>
__device__ __forceinline__ void svdsst(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    const Heads heads = *reinterpret_cast<const Heads *>(tiles);
    tiles += sizeof heads / sizeof *tiles;
    Counters *counters = reinterpret_cast<Counters *>(scratch + static_cast<size_t>(heads.counters) * 256);
    uint2 *left = reinterpret_cast<uint2 *>(scratch + static_cast<size_t>(heads.left) * 256);
    const SvdsstParams &shape = paramsOf<SvdsstParams>(tasks[tiles->first], f32);
    const int w = shape.window, rank = shape.rank;
    scratch += static_cast<size_t>(tiles[blockIdx.x].scratch) * 256;
    const Memory<T, W> m(scratch, w, rank);
#pragma unroll 1
    for (;;) {
        if (threadIdx.x == 0) *m.row = atomicAdd(&counters->tile, 1u);
        __syncthreads();
        const uint32_t at = *m.row;
        __syncthreads();
        if (at >= heads.tiles) break;
        const Tile tile = tiles[at];
#pragma unroll 1
        for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
            const Task *t = tasks + i;
            const SvdsstParams &p = paramsOf<SvdsstParams>(*t, f32);
            const int gamma = p.gamma;
            const double negligible = p.negligible;
            const uint32_t dim = t->dim, fresh = t->fresh;
            const uint32_t begin = tile.count > 1 ? 0 : tile.part & 0xffff, end = tile.count > 1 ? fresh : begin + (tile.part >> 16);
            const float *x = f32 + t->x.off + (t->x.len / dim - fresh + 1 - (2 * w - 1 + gamma)) * dim;
            auto list = [&](uint32_t place) {
                if (threadIdx.x == 0) left[atomicAdd(&counters->left, 1u)] = make_uint2(i, place);
            };
#pragma unroll 1
            for (uint32_t row = begin; row < end; row++) {
                if (heads.again && !(out[t->scores.off + row] < 0)) continue;
                if (heads.again && dim == 1) {
                    list(row);
                    continue;
                }
                float most = 0;
                bool some = false;
#pragma unroll 1
                for (uint32_t c = 0; c < dim; c++) {
                    float score = scoreOf<T, W>(m, scratch, Series{x + row * dim + c, dim, w, gamma, 0}, rank, negligible);
                    some |= score < 0;
                    if (score < 0 && heads.again) list(row * dim + c);
                    most = score > most || score != score ? score : most;
                    if (score != score) break;
                }
                if (threadIdx.x == 0) {
                    const bool more = some && !heads.again && most == most;
                    out[t->scores.off + row] = more ? open : most;
                    if (more) status[i] = statusMore;
                }
            }
        }
    }
}

}  // namespace

// svdsst_dense is the kernel for the listed scores, of the same tiles.
extern "C" __global__ void __launch_bounds__(1024)
    svdsst_dense(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    const Heads heads = *reinterpret_cast<const Heads *>(tiles);
    tiles += sizeof heads / sizeof *tiles;
    Counters *counters = reinterpret_cast<Counters *>(scratch + static_cast<size_t>(heads.counters) * 256);
    const uint2 *left = reinterpret_cast<const uint2 *>(scratch + static_cast<size_t>(heads.left) * 256);
    const uint32_t count = counters->left;
    const SvdsstParams &shape = paramsOf<SvdsstParams>(tasks[tiles->first], f32);
    const int w = shape.window, rank = shape.rank;
    const size_t bytes = (static_cast<size_t>(w) * w * sizeof(double) + 255) & ~static_cast<size_t>(255);
    scratch += static_cast<size_t>(heads.matrices) * 256 + blockIdx.x * bytes;
    const Dense m(w, heads.apart ? reinterpret_cast<double *>(scratch) : nullptr);
#pragma unroll 1
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) m.found[4] = atomicAdd(&counters->done, 1u);
        __syncthreads();
        const uint32_t at = static_cast<uint32_t>(m.found[4]);
        if (at >= count) break;
        const Task *t = tasks + left[at].x;
        const uint32_t dim = t->dim, place = left[at].y;
        const SvdsstParams &p = paramsOf<SvdsstParams>(*t, f32);
        const int gamma = p.gamma;
        const float *x = f32 + t->x.off + (t->x.len / dim - t->fresh + 1 - (2 * w - 1 + gamma)) * dim;
        const float score = dense(m, Series{x + place, dim, w, gamma, 0}, rank, p.negligible);
        if (threadIdx.x == 0) {
            if (score < 0) status[left[at].x] = statusLeft;
            // The bits of numbers from 0 up have the order of the numbers; open is below and NaN above
            // them.
            else atomicMax(reinterpret_cast<int *>(out + t->scores.off + place / dim), __float_as_int(score));
        }
    }
}

#define KERNEL(T, W)                                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(32 * W, Memory<T, W>::blocks)                                                                       \
        svdsst##T(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {                    \
        svdsst<T, W>(tasks, tiles, f32, out, status, scratch);                                                                                       \
    }

KERNEL(2, 1)
KERNEL(4, 2)
KERNEL(7, 2)
KERNEL(10, 2)
KERNEL(13, 2)
KERNEL(16, 2)
