// Op AR: recursive least squares of each value's series; package detectors/ar has the definition.
//
// A group of G lanes of a warp, half as many as the largest order or more, has a series: the mean, the variance and the mean
// square of innovations in all its lanes; weights, D and U in shared memory, of which lane l has the rows and columns l and
// G + l. In a step a lane first has its columns of U:
//
//     f[j] = v[j] + sum over i < j of U[i][j] v[i],    a[j] = lambda + sum over k <= j of D[k] f[k]^2
//
// from the previous U, so that all columns are done together and the a are one prefix sum. Then it has its rows, along which
// b[i] grows column by column: U[i][j] += b[i] * -f[j]/a[j-1], b[i] += U[i][j] D[j] f[j]. Column j of U begins at
// word j(j-1)/2. These numbers differ modulo 32 for 32 successive j, so a group has no bank conflicts in either order.
//
// Arithmetic is float64, which costs little: a step of p=32 has 1,500 multiply-adds, at 33e12 a second on an H200. What the
// mean and the variance follow from has the operations of detectors/ar in their order, since with values far from zero an
// error of one unit in the mean's last place is visible. With one fresh row, numbers in shared memory are float32, as in the
// carry; with several they are float64, since only the last of these rounds them.
//
// Floor, one fresh row, p=32: 4.9 KB of device memory, of which the carry is 2.3 KB each way. That is 0.98 G scores a
// second at the 4.8 TB/s of an H200, 0.68 G at the 3.35 TB/s of an H100, where a plain copy has 2.94 TB/s: 0.60 G. Measured on
// an H100 with 200,000 tasks: 0.58 G, 2.86 TB/s; p=16 1.65 G. Fewer tasks do less, 56,832 of them 0.52 G, because a launch's
// first blocks all load and then all compute.
//
// Tried there, in M scores/s with p=32: first a warp a series, of which a lane has one row, 507, with p=16 825; in groups of
// 16 lanes 520; without copies past the registers (cp.async, 4 bytes each) 545; the number of values in the tile, so that no
// task waits for another task's words, 584. At 520: more warps of fewer registers 408, which spill; groups whose first word
// lies at the start of a sector 516; U in float64 as with several fresh rows 269. The recursions that need 7 multiply-adds a
// weight (fast transversal filters) do not apply, because v is normalised anew for each sample, and so is no shift of the
// last one.
#include "ar_params.h"
#include "device.h"

namespace ar {

constexpr unsigned full = 0xffffffffu;
constexpr double clip = 10, quiet = 1e-4, loose = 1e6, most = 1e6, tooLarge = 1e150;
constexpr double nan = __builtin_nan("");
constexpr int header = 8;  // words of a state before its weights

__device__ __forceinline__ double clipped(double y) { return y < -clip ? -clip : y > clip ? clip : y; }

// quotient returns a/b with all its digits, from 1/b (Markstein, IBM J. Res. Dev. 34, 1990); far beyond the clip the last may differ.
__device__ __forceinline__ double quotient(double a, double b, double inverse) {
    double q = a * inverse;
    return fabs(q) < 1e6 ? fma(fma(-q, b, a), inverse, q) : q;
}

// momentsOf returns mean and variance of n samples that lie dim apart, zeroes if one is missing.
__device__ __noinline__ double2 momentsOf(const double *x, int n, int dim) {
    double mean = 0, variance = 0, first = x[0];
    bool constant = true;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        double value = x[static_cast<size_t>(i) * dim];
        if (!(fabs(value) < tooLarge)) return make_double2(0, 0);
        constant = constant && value == first;
        mean = __dadd_rn(mean, __ddiv_rn(value, n));
    }
    if (constant) return make_double2(first, 0);
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        double off = x[static_cast<size_t>(i) * dim] - mean;
        variance = __dadd_rn(variance, __ddiv_rn(__dmul_rn(off, off), n));
    }
    return make_double2(mean, variance);
}

// Said is a step's score.
struct Said { double innovation, novelty, off; };

// Series is a group's state of a series. P is the order, 0 for any up to 2 G, T the type of weights, D and U in shared memory.
template <int P, int G, class T> struct Series {
    int anyOrder;
    uint32_t memory, n;
    double forgets, mean, variance, squares;
    double *v;    // [order]
    double2 *gm;  // [order]: D f and -f / a, by column
    T *learnt;    // weights, D, and U above its diagonal, column by column

    static constexpr int turns = P ? (P * (P + 3) / 2 + G - 1) / G : 18;  // words of what is learnt that a lane moves at once

    static __device__ __forceinline__ int lane() { return threadIdx.x & (G - 1); }
    __device__ __forceinline__ int order() const { return P ? P : anyOrder; }
    __device__ __forceinline__ int size() const { return order() * (order() + 3) / 2; }  // of learnt

    static __device__ __forceinline__ double sumOf(double v) {
#pragma unroll
        for (int o = G / 2; o > 0; o >>= 1) v += __shfl_xor_sync(full, v, o);
        return v;
    }

    // start takes the state from the words of a carry; without one it makes the state of a series with the samples x before the
    // scored one, which lie dim apart.
    __device__ __forceinline__ void start(const float *words, const double *x, int dim) {
        uint32_t head = 0;
        double2 of = make_double2(0, 0);
        if (words) {
            if (lane() < header) head = __float_as_uint(words[lane()]);
            const float *from = words + header;
            for (int k = lane(); k < size(); k += G * turns) {
                float word[turns];
#pragma unroll
                for (int q = 0; q < turns; q++) word[q] = k + G * q < size() ? from[k + G * q] : 0;
#pragma unroll
                for (int q = 0; q < turns; q++)
                    if (k + G * q < size()) learnt[k + G * q] = word[q];
            }
        } else {
            of = momentsOf(x, order(), dim);
#pragma unroll 1
            for (int k = lane(); k < size(); k += G) learnt[k] = k >= order() && k < 2 * order() ? 1 : 0;
        }
        n = __shfl_sync(full, head, 0, G);
        mean = number(head, 2), variance = number(head, 4), squares = number(head, 6);
        if (!words) mean = of.x, variance = of.y;
    }

    static __device__ __forceinline__ double number(uint32_t head, int at) {
        int low = static_cast<int>(__shfl_sync(full, head, at, G)), high = static_cast<int>(__shfl_sync(full, head, at + 1, G));
        return __hiloint2double(high, low);
    }

    // store writes the state to next, and rounds it likewise.
    __device__ __forceinline__ void store(float *next) {
        double of = lane() < 4 ? mean : lane() < 6 ? variance : squares;
        uint32_t head = lane() & 1 ? __double2hiint(of) : __double2loint(of);
        if (lane() < 2) head = lane() ? 0 : n;
        if (lane() < header) next[lane()] = __uint_as_float(head);
        next += header;
        for (int k = lane(); k < size(); k += G * turns) {
#pragma unroll
            for (int q = 0; q < turns; q++) {
                if (k + G * q >= size()) break;
                float word = static_cast<float>(learnt[k + G * q]);
                next[k + G * q] = word;
                if (sizeof(T) > sizeof(float)) learnt[k + G * q] = word;
            }
        }
    }

    // gain returns the weight of the newest of count samples.
    __device__ __forceinline__ double gain(uint32_t count) const { return count < memory ? 1.0 / count : forgets; }

    // step scores and learns a sample; x has the lane's samples before it, the newest in lane 0.
    __device__ __forceinline__ Said step(const double (&x)[2], double newest) {
        const uint32_t p = order();
        bool missing = !(fabs(newest) < tooLarge) || !(fabs(x[0]) < tooLarge) || !(fabs(x[1]) < tooLarge);
        missing = __ballot_sync(full, missing) >> (threadIdx.x & 31 & ~(G - 1)) & (full >> (32 - G));
        const bool learns = !missing && variance != 0;  // else v is 0, so that U and the weights stay as they are
        double away = newest - mean, sigma = __dsqrt_rn(learns ? variance : 1), scale = 1 / sigma, y = quotient(away, sigma, scale);
        double f[2], b[2], expected = 0;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            uint32_t i = G * e + lane();
            f[e] = learns && i < p ? clipped((x[e] - mean) * scale) : 0;
            if (i < p) v[i] = f[e];
        }
        __syncwarp();
#pragma unroll
        for (int e = 0; e < 2; e++) {
            uint32_t i = G * e + lane();
            if (i < p) expected += learnt[i] * f[e];
        }
        expected = sumOf(expected);
        Said said = {0, 0, -away};
        double inverse = update(f, b, said.novelty, learns), error = clipped(y) - expected, change = error * inverse;
        if (learns) {
            said.innovation = fmin(most, fabs(y - expected) * rsqrt(squares + quiet * quiet));
            said.off = (expected - y) * sigma;
            squares += gain(n >= 2 * p ? n - 2 * p + 1 : n + 1) * (error * error - squares);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                uint32_t i = G * e + lane();
                if (i < p) learnt[i] = static_cast<T>(learnt[i] + b[e] * change);
            }
            away = __dmul_rn(clipped(y), sigma);
        } else if (missing) {
            return {nan, nan, nan};
        } else if (away != 0) {
            said.innovation = most;
        }
        double weight = gain(n + p + 1), shift = __dmul_rn(weight, away);
        mean = __dadd_rn(mean, shift);
        variance = __dmul_rn(1 - weight, __dadd_rn(variance, __dmul_rn(shift, away)));
        n = min(n + 1, memory);
        return said;
    }

    // update replaces P = U D U' by its successor, D only where the series learns. f is v, of which shared memory has a copy. With
    // the previous P, b becomes P v and novelty v'Pv. It returns 1/(lambda + v'Pv).
    __device__ __forceinline__ double update(double (&f)[2], double (&b)[2], double &novelty, bool learns) {
        const int p = order(), first = lane(), second = G + lane();
        const T *left = learnt + 2 * p + first * (first - 1) / 2, *right = learnt + 2 * p + second * (second - 1) / 2;  // columns of U
#pragma unroll 8
        for (int i = 0; i < min(G, p - 1); i++) {
            double of = v[i];
            f[0] = fma(i < first && first < p ? static_cast<double>(left[i]) : 0, of, f[0]);
            f[1] = fma(second < p ? static_cast<double>(right[i]) : 0, of, f[1]);
        }
#pragma unroll 8
        for (int i = G; i < p - 1; i++) f[1] = fma(i < second && second < p ? static_cast<double>(right[i]) : 0, v[i], f[1]);
        const double lambda = 1 - forgets, growth = 1 / lambda;
        double sum = 0, inverse = growth;  // of the columns before; 1/a of the last of them
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int j = G * e + lane();
            double d = j < p ? static_cast<double>(learnt[p + j]) : 0, g = d * f[e], to = f[e] * g;
#pragma unroll
            for (int o = 1; o < G; o *= 2) {
                double other = __shfl_up_sync(full, to, o, G);
                if (lane() >= o) to += other;
            }
            double before = __shfl_up_sync(full, to, 1, G), next = 1 / (lambda + (sum + to));
            before = lambda + (lane() ? sum + before : sum);
            double last = __shfl_up_sync(full, next, 1, G);
            if (lane() == 0) last = inverse;
            if (j < p) {
                if (learns) learnt[p + j] = static_cast<T>(fmin(loose, d * (before * next * growth)));
                gm[j] = make_double2(g, -f[e] * last);
            }
            b[e] = g;
            sum += __shfl_sync(full, to, G - 1, G), inverse = __shfl_sync(full, next, G - 1, G);
        }
        novelty = sum;
        __syncwarp();
        rows<1>(0, min(G, p), b);
        rows<2>(G, p, b);
        __syncwarp();
        return inverse;
    }

    // rows updates the columns from j to end of the lane's first or both rows. A batch of columns is read before any of it is
    // written, since a write would hold up the reads after it.
    template <int E> __device__ __forceinline__ void rows(int j, int end, double (&b)[2]) {
        constexpr int batch = 8 / E;
        constexpr bool whole = P && P % batch == 0 && G % batch == 0;
        T *at = learnt + 2 * order() + j * (j - 1) / 2 + lane();  // in column j
        auto has = [&](int j, int e) { return G * e + lane() < j && (whole || j < end); };
#pragma unroll 1
        for (; j < end; j += batch) {
            T element[batch][E];
#pragma unroll
            for (int q = 0; q < batch; q++) {
#pragma unroll
                for (int e = 0; e < E; e++) element[q][e] = has(j + q, e) ? at[q * j + q * (q - 1) / 2 + G * e] : 0;
            }
#pragma unroll
            for (int q = 0; q < batch; q++) {
                if (!whole && j + q >= end) break;
                double2 of = gm[j + q];
#pragma unroll
                for (int e = 0; e < E; e++) {
                    double old = element[q][e];
                    element[q][e] = static_cast<T>(fma(b[e], of.y, old));
                    b[e] = fma(old, of.x, b[e]);
                }
            }
#pragma unroll
            for (int q = 0; q < batch; q++) {
#pragma unroll
                for (int e = 0; e < E; e++)
                    if (has(j + q, e)) at[q * j + q * (q - 1) / 2 + G * e] = element[q][e];
            }
            at += batch * j + batch * (batch - 1) / 2;
        }
    }
};

// sharedOf returns the shared memory of a group in bytes; arPlan.class in cuda/plan/ar.go has the same.
template <class T> __device__ __forceinline__ int sharedOf(int order) {
    return (24 * order + static_cast<int>(sizeof(T)) * order * (order + 3) / 2 + 15) / 16 * 16;
}

// score scores the tasks of a tile. Of rows with one value, each group has a chain; the upper half of part is the number of
// chains, which have the same number of tasks. Of others part has its highest bit set, the tile is a chain, and each group has
// one value: the bits below are their number, the lower half of part is the first group's. A group without work does the last
// group's, but writes nothing: all lanes of a warp take part in its operations.
template <int P, int G, class T> __device__ __forceinline__ void score(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
    DYNAMIC_SHARED(double2, memory);
    const Tile tile = tiles[blockIdx.x];
    const bool one = !(tile.part >> 31);
    const int group = threadIdx.x / G, number = group + (tile.part & 0xffff), last = static_cast<int>(tile.part >> 16 & 0x7fff) - 1;
    const bool works = number <= last;
    const uint32_t count = one && last > 0 ? tile.count == last + 1u ? 1 : tile.count / (last + 1) : tile.count;  // of a chain
    if (!__any_sync(full, works)) return;
    const int c = one ? 0 : min(number, last);
    const Task *at = tasks + tile.first + (one ? min(number, last) * count : 0);
    Series<P, G, T> s;
    for (uint32_t k = 0; k < count; k++, at++) {
        const Task t = *at;  // at once, and before anything that depends on it
        const ArParams params = paramsOf<ArParams>(t, f32);
        const int dim = one ? 1 : t.dim, fresh = sizeof(T) == sizeof(float) ? 1 : t.fresh;
        const double *row = reinterpret_cast<const double *>(f32) + t.x.off + (t.x.len - fresh * dim) + c;
        s.anyOrder = params.order;
        double x[2], newest;
        auto read = [&] {
            newest = *row;
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int back = G * e + s.lane();
                x[e] = back < s.order() ? row[-static_cast<ptrdiff_t>(back + 1) * dim] : 0;
            }
        };
        read();
        if (k == 0) {
            s.memory = params.memory;
            s.gm = reinterpret_cast<double2 *>(reinterpret_cast<unsigned char *>(memory) + group * sharedOf<T>(s.order()));
            s.v = reinterpret_cast<double *>(s.gm + s.order());
            s.learnt = reinterpret_cast<T *>(s.v + s.order());
            const float *carry = (t.after ? out : f32) + t.carry.off + static_cast<size_t>(c) * (header + s.size());
            s.start(t.carry.len ? carry : nullptr, row - static_cast<size_t>(s.order()) * dim, dim);
            s.forgets = 1.0 / s.memory;
        }
        int steps = fresh;  // of the warp
        if (sizeof(T) > sizeof(float)) {
#pragma unroll
            for (int o = G; o < 32; o *= 2) steps = max(steps, __shfl_xor_sync(full, steps, o));
        }
        float *detail = out + t.detail.off + 2 * c;
        for (int i = 0; i < steps; i++) {
            bool warm = s.n < static_cast<uint32_t>(params.minPoints);
            if (i >= fresh) newest = nan;  // nothing is learnt
            Said said = s.step(x, newest);
            float value = static_cast<float>(params.novelty ? said.novelty : said.innovation);
            if (warm) value = static_cast<float>(nan);
            if (i < fresh) {
                if (s.lane() == 0 && works) {
                    detail[0] = static_cast<float>(said.off), detail[1] = value;
                    if (one) out[t.scores.off + i] = value;
                }
                detail += 2 * dim;
                if (i + 1 < fresh) row += dim, read();
            }
        }
        __syncwarp();
        if (works) s.store(out + t.next.off + static_cast<size_t>(c) * (header + s.size()));
    }
}

}  // namespace ar

#define SCORE(name, P, G, T, blocks)                                                                                                \
    extern "C" __global__ void __launch_bounds__(64, blocks)  name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                                   uint32_t *status, unsigned char *scratch) {                      \
        ar::score<P, G, T>(tasks, tiles, f32, out);                                                                                 \
    }

// For one fresh row: two orders, and any up to twice the lanes of a group.
SCORE(ar_order16, 16, 8, float, 12)
SCORE(ar_order32, 32, 16, float, 12)
SCORE(ar_one8, 0, 8, float, 12)
SCORE(ar_one16, 0, 16, float, 12)
// For any number of fresh rows.
SCORE(ar_run8, 0, 8, double, 10)
SCORE(ar_run16, 0, 16, double, 10)
SCORE(ar_run32, 0, 32, double, 6)

// ar_largest makes the scores of rows with several values: the largest of these, NaN where none has one.
extern "C" __global__ void __launch_bounds__(256) ar_largest(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                             uint32_t *status, unsigned char *scratch) {
    const Tile &tile = tiles[blockIdx.x];
    if (tile.part & 0xffff) return;  // another tile has the first value
    for (uint32_t k = 0; k < tile.count; k++) {
        const Task &t = tasks[tile.first + k];
        for (uint32_t i = threadIdx.x; i < t.fresh; i += blockDim.x) {
            const float *detail = out + t.detail.off + static_cast<size_t>(2 * i) * t.dim;
            float largest = detail[1];
            for (uint32_t c = 1; c < t.dim; c++) {
                float value = detail[2 * c + 1];
                if (value > largest || largest != largest) largest = value;
            }
            out[t.scores.off + i] = largest;
        }
    }
}
