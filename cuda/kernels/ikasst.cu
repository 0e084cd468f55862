// IKA-SST: the change score of package detectors/sst.
//
// A group of G lanes of a warp (G a power of 2) scores one series: one value of the rows of one key,
// through a chain of tasks, one score after the other. Each lane has T consecutive rows of every
// vector, G*T >= w. S = 32/G series lie side by side in the warp; a block is one warp, so there is no
// block barrier, and about a dozen blocks share a multiprocessor.
//
// A product with a Hankel matrix, y[i] = sum over j of x[i+j] v[j], takes T*T multiply-adds a lane for
// T values of x and T of v from shared memory: the lane slides a window of T values of x along in
// registers, one new value a step, and all lanes of a group read the same v. Blocks of T values of x
// lie P = T|1 apart, so lanes read at an odd stride, without conflicts.
//
// Every score centres its values in float64 and rounds them once, scaled by a power of two if the range
// of float32 requires it, as detectors/sst/score.go does: without sliding sums, errors do not
// accumulate, and one kernel takes all data. Vectors and products are float32; Lanczos has one full
// re-orthogonalisation pass. The tridiagonal matrices wait in shared memory until there are 32, one a
// lane (float64, implicit QL, first components only).
//
// In the product of Lanczos every other row is one unit in the last place larger, and in neighbouring
// lanes the opposite rows. A signal with an exact symmetry, such as a square wave whose period divides
// w, gives vectors and rounding errors with that exact symmetry. The errors add up to second copies of
// Ritz values where Lanczos should end: 0.7 % of such scores were off by up to 1e-3, even with float64
// products; with uneven rows none of 9,600.
//
// A series' arithmetic does not depend on the other series in its warp.
//
// Floor: 2(p+k) products of w*w multiply-adds a score, at 33.5e12 a second on an H200. Measured there
// (65,536 tasks of 16 fresh, p=2, k=5; nvcc 11.8; loads cold), in million scores a second, and the
// fraction of the floor:
//
//     w      20     50     64    100    128    200    320    512    800   1024
//         1,065    360    250    126     84     35   15.9    6.3   2.54   1.54
//          18 %   38 %   43 %   53 %   58 %   59 %   68 %   69 %   68 %   67 %
//
// with one fresh row a task 99 at w=100; k=24 at w=320 2.7 (42 %). The remainder at w=100: lanes
// without a row (104 of 100 twice: 8 %), loads and loop (12 % of the hot loop), all instructions but
// the products (20 %), and cycles without a warp to issue (22 %).
//
// Tried at w=100, M scores/s:
//
//   - first form, 13 rows a lane, basis and feedback in shared memory, 12 warps on
//     a multiprocessor: 111. 7 rows: 97 (more loads), 16 rows: 85 (128 rows for
//     100), 25 rows: 83 (7 warps).
//   - newest vector and feedback in registers, so 15 warps: 118.
//   - no branches in sums, one reduction for four dot products, half of the loads
//     in flight at once: instructions fell by 2 %, waits as well, and yet 115: the
//     code had grown.
//   - the power method and Lanczos share one product loop in the code: 121; 126
//     with 4 values fetched at once in place of 7. The instruction cache is what
//     counts: the loop over blocks unrolled twice 103 to 118, four times 74; at
//     w=1024 the one loop made 1.26 to 1.57 (its body is 17 KB).
//
// Not tried: the Gram matrix that the scores of a run share (run.go; a third fewer multiply-adds at
// w=100, a Gram matrix of 53 KB a series), FFT for large w.
#include "device.h"
#include "hankel.h"
#include "ikasst_params.h"

namespace {

constexpr unsigned all = 0xffffffffu;
constexpr double still = 1e-12;      // of the mean: a series within this distance of it is constant
constexpr float breakdown = 1e-5f;   // of the largest element of T: a beta up to it ends Lanczos
constexpr double faint = 1e-8;       // squared component of mu: Ritz values with less take only a part of a place
constexpr float negligible = 1e-5f;  // of the trace of C: directions up to it do not count
constexpr double apart = 1e-3;       // relative distance below the value before from which a Ritz value has its own place
constexpr double settled = 0x1p-40;  // of its neighbours: a smaller subdiagonal element counts as 0
constexpr float largest = 3.402823466e38f;
constexpr uint32_t nowhere = 0xffffffffu;
constexpr float above1 = 1 + 0x1p-23f;  // the next float32 after 1
constexpr int some = 4;  // values of a series that a lane fetches at once

// Group is this lane's group, one of 32/size in the warp: the lane is number `at` of size.
struct Group {
    int size, at;
    unsigned mask;  // its lanes

    // Without branches: a warp has little other work while it waits for a sum.
    template <int n> __device__ __forceinline__ void sum(float (&v)[n]) const {
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
#pragma unroll
            for (int i = 0; i < n; i++) {
                float other = __shfl_xor_sync(all, v[i], o);
                if (size > o) v[i] += other;
            }
        }
    }
    __device__ __forceinline__ float sum(float v) const {
        float one[1] = {v};
        sum(one);
        return one[0];
    }
    __device__ double sum(double v) const {
        for (int o = size >> 1; o > 0; o >>= 1) v += __shfl_xor_sync(all, v, o);
        return v;
    }
    __device__ float max(float v) const {
        for (int o = size >> 1; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(all, v, o));
        return v;
    }
    __device__ bool any(bool v) const { return __ballot_sync(all, v) & mask; }
};

__device__ int roundUp32(int n) { return (n + 31) & ~31; }

// largestOfWarp returns the largest v of all lanes.
__device__ int largestOfWarp(int v) {
    for (int o = 16; o > 0; o >>= 1) {
        int other = __shfl_xor_sync(all, v, o);
        v = v > other ? v : other;
    }
    return v;
}

// Memory is the block's shared memory; ikasstShared in cuda/plan/ikasst.go has its size.
template <int T> struct Memory {
    static constexpr int P = T | 1;         // distance between blocks of T values of x
    static constexpr int V = (T + 3) & ~3;  // distance between blocks of v

    float *v;       // [S][roundUp32(G*V) + 4]: the factor, T numbers a lane; each group begins at another bank
    float *q;       // [k-1][T][32]: the basis without its last vector; or d, e, z, double [3][k][32]
    float *ab;      // [2k-1][32]: alpha and beta alternately, of 32 scores
    uint32_t *to;   // [32]: where the score goes
    int *size;      // [32]: rows of T; 0: a score by rule, in ab[0]; rank << 8
    float *floor;   // [32]: Ritz values up to it do not count
    float *window;  // [S][G*P + roundUp32(G*P)]: x, centred; lanes of different groups use different banks

    __device__ Memory(float *at, int G, int k) {
        int S = 32 / G;
        v = at, at += S * (roundUp32(G * V) + 4);
        q = at, at += (k - 1) * T * 32 > 192 * k ? (k - 1) * T * 32 : 192 * k;
        ab = at, at += (2 * k - 1) * 32;
        to = reinterpret_cast<uint32_t *>(at), at += 32;
        size = reinterpret_cast<int *>(at), at += 32;
        floor = at, at += 32;
        window = at;
    }
};

// store writes the lane's rows of v.
template <int T> __device__ __forceinline__ void store(float *v, const float (&y)[T]) {
    constexpr int V = Memory<T>::V;
#pragma unroll
    for (int t = 0; t < V; t += 4) {
        float4 g = make_float4(y[t], t + 1 < T ? y[t + 1 < T ? t + 1 : 0] : 0, t + 2 < T ? y[t + 2 < T ? t + 2 : 0] : 0, t + 3 < T ? y[t + 3 < T ? t + 3 : 0] : 0);
        *reinterpret_cast<float4 *>(v + t) = g;
    }
}

// square sets y to H H v, where H is the Hankel matrix of the window, and overwrites v. valid has a bit
// for each valid row of the lane.
template <int T>
__device__ __forceinline__ void square(float (&y)[T], const float *x, float *v, const Group &group, int blocks, uint32_t valid) {
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        if (half) {
            __syncwarp();
            store<T>(v + group.at * Memory<T>::V, y);
        }
        __syncwarp();
        hankel<T>(y, x, v, blocks);
#pragma unroll
        for (int t = 0; t < T; t++) y[t] = valid >> t & 1 ? y[t] : 0;
    }
    __syncwarp();
}

template <int T> __device__ __forceinline__ float dot(const float (&x)[T], const float (&y)[T]) {
    float s0 = 0, s1 = 0;
#pragma unroll
    for (int t = 0; t < T; t += 2) {
        s0 = fmaf(x[t], y[t], s0);
        if (t + 1 < T) s1 = fmaf(x[t + 1 < T ? t + 1 : 0], y[t + 1 < T ? t + 1 : 0], s1);
    }
    return s0 + s1;
}

// reciprocalRoot returns 1/sqrt(v), 0 for 0: the approximation and one step of Newton's method.
__device__ __forceinline__ float reciprocalRoot(float v) {
    if (!(v > 0)) return 0;
    float r = rsqrtf(v), h = 0.5f * r;
    return fmaf(h, fmaf(-v * r, r, 1), r);
}

// fetch reads some of the n values of x at once: numbers i, i + group.size and so on; 0 beyond the
// last.
__device__ __forceinline__ void fetch(float (&h)[some], const float *x, uint32_t dim, int i, int n, const Group &group) {
#pragma unroll
    for (int m = 0; m < some; m++, i += group.size) h[m] = i < n ? x[i * dim] : 0;
}

// centre sets the window to n values of x less their mean, times a power of two that keeps products in
// the range of float32. It returns false where all values equal the mean.
template <int T>
__device__ __forceinline__ bool centre(float *window, const float *x, uint32_t dim, int n, double mean, const Group &group) {
    constexpr int P = Memory<T>::P;
    float peak = 0;
#pragma unroll 1
    for (int at = group.at; at < n; at += some * group.size) {
        float h[some];
        fetch(h, x, dim, at, n, group);
        int i = at;
#pragma unroll
        for (int m = 0; m < some; m++, i += group.size) {
            if (i < n) {
                float c = static_cast<float>(static_cast<double>(h[m]) - mean);
                window[i + i / T * (P - T)] = c;
                peak = fmaxf(peak, fabsf(c));
            }
        }
    }
    peak = group.max(peak);
    if (peak > 0 && (peak < 0x1p-3f || peak > 0x1p12f)) {
        // Where the difference exceeds float32, its exponent is 128.
        int exponent = peak > largest ? 128 : (__double2hiint(static_cast<double>(peak)) >> 20) - 1023;
        double scale = __longlong_as_double(static_cast<long long>(1023 - exponent) << 52);
#pragma unroll 1
        for (int i = group.at; i < n; i += group.size) {
            window[i + i / T * (P - T)] = static_cast<float>((static_cast<double>(x[i * dim]) - mean) * scale);
        }
    }
    __syncwarp();
    return static_cast<double>(peak) > still * fabs(mean);
}

// trace returns the lane's part of the trace of H H', where H is the Hankel matrix of the window: the
// sum of the squares of its elements. Value i occurs in H as often as its antidiagonal is long, i + 1
// or n - i times.
template <int T> __device__ __forceinline__ float trace(const float *window, int n, const Group &group) {
    constexpr int P = Memory<T>::P;
    const float edge = n + 1;
    float sum = 0;
#pragma unroll 1
    for (int block = group.at; block * T < n; block += group.size) {
        const float *x = window + block * P;
        const float first = block * T + 1;
#pragma unroll
        for (int t = 0; t < T; t++) {
            const float place = first + t;
            sum = fmaf(x[t] * x[t], fminf(place, edge - place), sum);
        }
    }
    return sum;
}

// outside returns the score of the tridiagonal matrix d, e of n rows, elements 32 apart, with room for
// z: 1 less the squares of the eigenvectors' first components over the rank largest eigenvalues above
// floor, with places as described in sst.go. Implicit QL (Golub and Welsch 1969).
__device__ float outside(double *d, double *e, double *z, int n, int rank, float floor) {
    for (int l = 0; l < n; l++) {
        for (int tries = 0; tries < 60; tries++) {
            int m = l;
            while (m < n - 1 && fabs(e[m * 32]) > settled * (fabs(d[m * 32]) + fabs(d[m * 32 + 32]))) m++;
            if (m == l) break;
            // Wilkinson's shift: the eigenvalue of the leading two rows that is closer to the first.
            double el = e[l * 32], h = (d[l * 32 + 32] - d[l * 32]) / (2 * el);
            double g = d[m * 32] - d[l * 32] + el / (h + copysign(sqrt(h * h + 1), h));
            double sin = 1, cos = 1, p = 0;
            double dj = d[m * 32], zj = z[m * 32];
            for (int i = m - 1; i >= l; i--) {
                double ei = e[i * 32], di = d[i * 32], zi = z[i * 32];
                double f = sin * ei, b = cos * ei, square = f * f + g * g;
                sin = 0, cos = 1;
                double r = 0;
                if (square > 1e-290) {
                    double inverse = rsqrt(square);
                    r = square * inverse;
                    sin = f * inverse;
                    cos = g * inverse;
                }
                e[i * 32 + 32] = r;
                double x = dj - p;
                r = (di - x) * sin + 2 * cos * b;
                p = sin * r;
                d[i * 32 + 32] = x + p;
                g = cos * r - b;
                z[i * 32 + 32] = sin * zi + cos * zj;
                zj = cos * zi - sin * zj;
                dj = di;
            }
            z[l * 32] = zj;
            d[l * 32] = dj - p;
            e[l * 32] = g;
            e[m * 32] = 0;
        }
    }
    double score = 1, places = rank, last = 1e300;
    while (places > 0) {
        int top = -1;
        double value = floor;
        for (int i = 0; i < n; i++) {
            if (d[i * 32] > value && z[i * 32] != 0) top = i, value = d[i * 32];
        }
        if (top < 0) break;
        double weight = z[top * 32] * z[top * 32], takes = 1;
        if (last - value < apart * value) takes = (last - value) / (apart * value);
        if (weight < faint) takes *= weight / faint;
        score -= takes > places ? weight * places / takes : weight;
        places -= takes, last = value;
        z[top * 32] = 0;
    }
    return static_cast<float>(score < 0 ? 0 : score > 1 ? 1 : score);
}

// flush scores the waiting tridiagonal matrices, up to 32 of the warp.
template <int T> __device__ void flush(const Memory<T> &m, int k, bool joined, float *out, int lane) {
    __syncwarp();
    uint32_t to = m.to[lane];
    if (to != nowhere) {
        int n = m.size[lane] & 0xff, rank = m.size[lane] >> 8;
        double *d = reinterpret_cast<double *>(m.q) + lane, *e = d + k * 32, *z = e + k * 32;
        for (int i = 0; i < n; i++) {
            d[i * 32] = m.ab[2 * i * 32 + lane];
            e[i * 32] = i + 1 < n ? m.ab[(2 * i + 1) * 32 + lane] : 0;
            z[i * 32] = i == 0;
        }
        float score = n > 0 ? outside(d, e, z, n, rank, m.floor[lane]) : m.ab[lane];
        // Scores are not negative, and a NaN has larger bits: their bits have the order of the numbers.
        if (joined) atomicMax(reinterpret_cast<int *>(out + to), __float_as_int(score));
        else out[to] = score;
    }
    __syncwarp();
    m.to[lane] = nowhere;
    __syncwarp();
}

// ikasst is the kernel for T rows a lane. A tile is a chain. All tiles of the launch have the same
// part, chains a block, log2 G << 16, k << 24, and as scratch the number of tiles. All tasks have the
// same dim and k.
template <int T>
__device__ __forceinline__ void ikasst(const Task *tasks, const Tile *tiles, const float *f32, float *out, float *memory) {
    constexpr int P = Memory<T>::P, V = Memory<T>::V;
    const int lane = threadIdx.x;
    const uint32_t part = tiles->part, chains = part & 0xffff, k = part >> 24;
    const int logG = part >> 16 & 0xff, G = 1 << logG, S = 32 >> logG, own = lane >> logG;
    const Group group = {G, lane & (G - 1), (G == 32 ? all : (1u << G) - 1) << (own << logG)};
    const Memory<T> m(memory, G, k);
    const int stride = G * P + roundUp32(G * P);
    float *window = m.window + own * stride, *v = m.v + own * (roundUp32(G * V) + 4), *mine = v + group.at * V;
    const float *x = window + group.at * P;
    float *q = m.q + lane;
    // Factors of the even and the odd rows (see the head of the file), swapped in neighbouring lanes.
    const float even = __popc(group.at) & 1 ? above1 : 1, odd = __popc(group.at) & 1 ? 1 : above1;

    const uint32_t first = blockIdx.x * chains;
    tiles += first;
    const uint32_t dim = tasks[tiles->first].dim;
    const uint32_t series = (tiles->scratch - first < chains ? tiles->scratch - first : chains) * dim;
    if (dim > 1) {
        for (uint32_t c = 0; c < series / dim; c++) {
            for (uint32_t i = tiles[c].first; i < tiles[c].first + tiles[c].count; i++) {
                for (uint32_t s = lane; s < tasks[i].scores.len; s += 32) out[tasks[i].scores.off + s] = 0;
            }
        }
    }
    m.to[lane] = nowhere;
    float a[T];       // the feedback
    int waiting = 0;  // waiting scores of a series

    for (uint32_t begin = 0; begin < series; begin += S) {
        const bool busy = begin + own < series;
        const uint32_t column = (begin + own) % dim;
        uint32_t number = 0, end = 0, sample = 0, fresh = 0, scores = 0;
        const IkasstParams *params = nullptr;
        const float *from = f32;
        int w = 2, rank = 0, gamma = 0, steps = 0;
        for (int i = group.at; i < stride; i += G) window[i] = 0;
        if (busy) {
            const Tile tile = tiles[(begin + own) / dim];
            number = tile.first, end = tile.first + tile.count;
        }
        for (bool next = busy, opening = true;;) {
            if (next) {  // task number begins here
                const Task *t = tasks + number;
                params = &paramsOf<IkasstParams>(*t, f32);
                w = params->window, rank = params->rank;
                gamma = params->gamma, steps = params->powerSteps;
                sample = 0, fresh = t->fresh, scores = t->scores.off;
                from = f32 + t->x.off + (t->x.len / dim - fresh + 1 - (2 * w - 1 + gamma)) * dim + column;
                if (opening) {
                    const float *carry = params->a0();
                    if (t->carry.len > 0) carry = (t->after ? out : f32) + t->carry.off + column * w;
#pragma unroll
                    for (int t = 0; t < T; t++) {
                        int row = group.at * T + t;
                        a[t] = row < w ? carry[row] : 0;
                    }
                }
                opening = false;
            }
            const bool active = number < end;
            if (!__any_sync(all, active)) break;
            const int blocks = (w + T - 1) / T, rows = w - group.at * T, n = 2 * w - 1;
            const uint32_t valid = rows <= 0 ? 0 : rows < T ? (1u << (rows & 31)) - 1 : all;
            __syncwarp();

            // The mean, and whether all values are finite.
            const float *current = from + static_cast<size_t>(gamma) * dim;
            double total = 0;
            bool bad = false;
#pragma unroll 1
            for (int i = group.at; i < (active ? n : 0); i += some * G) {
                float h1[some], h2[some];
                fetch(h1, from, dim, i, n, group);
                fetch(h2, current, dim, i, n, group);
#pragma unroll
                for (int m = 0; m < some; m++) {
                    bad |= !(fabsf(h1[m]) <= largest) | !(fabsf(h2[m]) <= largest);
                    total += static_cast<double>(h1[m]) + static_cast<double>(h2[m]);
                }
            }
            if (active) {
                for (int i = n + group.at; i < gamma; i += G) bad |= !(fabsf(from[static_cast<size_t>(i) * dim]) <= largest);
            }
            bad = group.any(bad);
            const double mean = group.sum(total) / (2 * n);

            // The power method, then Lanczos, in one loop, so that the instruction cache has one hot
            // loop.
            bool live = active && !bad;
            float y[T], r[T];  // a product, and finally its factor
#pragma unroll
            for (int t = 0; t < T; t++) r[t] = 0;
            store<T>(mine, a);
            const int slot = waiting * S + own;
            int size = 0, count = largestOfWarp(live ? steps : 0);
            bool running = true;
            float beta = 0, limit = 0;
#pragma unroll 1
            for (int phase = 0; phase < 2; phase++) {
                const float *values = phase ? from : current;
                live &= centre<T>(window, values, dim, live ? n : 0, mean, group);
                if (phase) {
                    running = live, count = k;
                    const float energy = group.sum(trace<T>(window, live ? n : 0, group));
                    if (group.at == 0) m.floor[slot] = negligible * energy;
                }
#pragma unroll 1
                for (int s = 0; s < count && __any_sync(all, running); s++) {
                    square<T>(y, x, v, group, blocks, valid);
                    if (!phase) {
                        const float energy = group.sum(dot<T>(y, y));
                        if (s < steps) {
                            live &= energy > 0;
                            const float scale = reciprocalRoot(energy);
#pragma unroll
                            for (int t = 0; t < T; t++) r[t] = y[t] * scale;
                        }
                        store<T>(mine, r);
                        continue;
                    }
#pragma unroll
                    for (int t = 0; t < T; t++) y[t] *= t & 1 ? odd : even;
                    const float alpha = group.sum(dot<T>(r, y));
                    if (running) {
                        size = s + 1;
                        limit = fmaxf(limit, breakdown * fabsf(alpha));
                        if (group.at == 0) m.ab[2 * s * 32 + slot] = alpha;
                    }
                    if (s + 1 == count) break;
                    float *qs = q + s * T * 32;
#pragma unroll
                    for (int t = 0; t < T; t++) {
                        y[t] = fmaf(-alpha, r[t], y[t]);
                        qs[t * 32] = r[t];
                    }
                    if (s > 0) {
#pragma unroll
                        for (int t = 0; t < T; t++) y[t] = fmaf(-beta, qs[(t - T) * 32], y[t]);
                    }
#pragma unroll 1
                    for (int i = 0; i <= s; i += 4) {
                        const float *qi = q + i * T * 32;
                        float c[4] = {0, 0, 0, 0};
#pragma unroll
                        for (int j = 0; j < 4; j++) {
                            if (i + j > s) break;
#pragma unroll
                            for (int t = 0; t < T; t++) c[j] = fmaf(qi[(j * T + t) * 32], y[t], c[j]);
                        }
                        group.sum(c);
#pragma unroll
                        for (int j = 0; j < 4; j++) {
                            if (i + j > s) break;
#pragma unroll
                            for (int t = 0; t < T; t++) y[t] = fmaf(-c[j], qi[(j * T + t) * 32], y[t]);
                        }
                    }
                    beta = sqrtf(group.sum(dot<T>(y, y)));
                    float scale = 0;
                    if (running) {
                        running = beta > limit;
                        limit = fmaxf(limit, breakdown * beta);
                        scale = running ? 1 / beta : 0;
                        if (group.at == 0) m.ab[(2 * s + 1) * 32 + slot] = beta;
                    }
#pragma unroll
                    for (int t = 0; t < T; t++) r[t] = y[t] * scale;
                    store<T>(mine, r);
                }
                if (phase) break;

                // The feedback.
#pragma unroll
                for (int t = 0; t < T; t++) y[t] = r[t];
                if (live) {
                    const float epsilon = params->epsilon, *a0 = params->a0() + group.at * T;
#pragma unroll
                    for (int t = 0; t < T; t++) {
                        if (t < rows) y[t] = fmaf(epsilon, a0[t], y[t]);
                    }
                }
                const float scale = reciprocalRoot(group.sum(dot<T>(y, y)));
                if (live) {
#pragma unroll
                    for (int t = 0; t < T; t++) a[t] = y[t] * scale;
                }
            }
            if (active && group.at == 0) {
                m.to[slot] = scores + sample;
                m.size[slot] = size | rank << 8;
                if (size == 0) m.ab[slot] = bad ? __int_as_float(0x7fc00000) : 0;
            }
            if (++waiting == 32 / S) {
                flush<T>(m, k, dim > 1, out, lane);
                waiting = 0;
            }

            // On to the next.
            next = false;
            if (active) {
                sample++;
                from += dim;
                if (sample == fresh) {
                    float *left = out + tasks[number].next.off + column * w;
#pragma unroll
                    for (int t = 0; t < T; t++) {
                        if (t < rows) left[group.at * T + t] = a[t];
                    }
                    next = ++number < end;
                }
            }
        }
    }
    if (waiting) flush<T>(m, k, dim > 1, out, lane);
}

}  // namespace

#define KERNEL(T, blocks)                                                                                                                            \
    extern "C" __global__ void __launch_bounds__(32, blocks)                                                                                         \
        ikasst##T(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *) {                                 \
        DYNAMIC_SHARED(float4, memory);                                                                                                              \
        ikasst<T>(tasks, tiles, f32, out, reinterpret_cast<float *>(memory));                                                                        \
    }

KERNEL(8, 16)
KERNEL(10, 16)
KERNEL(13, 16)
KERNEL(16, 12)
KERNEL(20, 9)
KERNEL(26, 8)
KERNEL(32, 8)
