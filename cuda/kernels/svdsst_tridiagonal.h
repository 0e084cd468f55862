// Op SVDSST: the leading Ritz pairs, and whether they are exact enough. See svdsst.cu;
// detectors/sst/krylov.go has the same estimate.
//
// Each of the values largest in magnitude has a group of lanes, which count at points between its
// bounds how many values are beyond (Sturm's sequence, for both signs at once) and choose the part that
// contains it, until the bounds meet in float64. Twisted factorisations give the vectors, a lane for
// the pivots from above and one for those from below. Each vector must have a negligible residual in T,
// which also detects a value of the wrong sign. Where a residual is too large, or two values that both
// count are so close that such vectors are not orthogonal, one lane does implicit QL with mu's
// coordinates as the transformed row.
#pragma once

namespace {

constexpr double apart = 1e-5;      // of the largest: closer values do not have orthogonal vectors
constexpr double company = 1e-4;    // of the largest: a value this close to the last that counts, and that one, may stand for several
constexpr double pure = 0.05;       // of the distance: with a smaller residual a value stands for one
constexpr double early = 1e-8;      // of the largest: a larger residual may hide a direction of which the start has 1e-6
constexpr double earlyWide = 1e-7;  // the same for a large rank, whose directions each matter less
constexpr double undecided = 4e-7;  // of the largest: values this close are equal to the definition
constexpr double roundings = 1e-8;  // of T's size: error between two Ritz vectors
constexpr double common = 2e-6;     // of a score: allowed effect of vectors that are not quite orthogonal
constexpr double moves = 1e-6;      // of the largest: residuals up to it are float32's error
constexpr float meets = 1e-5f;      // over the bound: an eigenvector's residual in T

// Krylov is the state of a Krylov space.
struct Krylov {
    int w, rank, n;  // vectors: n
    int continued;   // n when the space was last continued
    int known;       // vectors for which mu's coordinates are known; below 0: there is no mu yet
    double least;    // of the largest: values up to it do not count
    bool complete;   // the space contains everything that counts
};

// Pairs is the result of pairs.
struct Pairs {
    float doubt;  // largest error of a score due to missing steps
    int values;   // number of pairs
    int counts;   // leading ones that count, of the rank
    float bound;  // of T's eigenvalues
    bool close;   // two of those are too close: small[0] is the score
    bool alike;   // the last one that counts may stand for several almost equal eigenvalues
    bool early;   // the space may not contain yet a direction of which the start has little
};

// beyondBoth returns the number of eigenvalues of the tridiagonal matrix of n rows, of diagonal d and
// squared subdiagonal e, above s, in the upper half, and below -s. n is a multiple of eight.
__device__ __forceinline__ uint32_t beyondBoth(const double *d, const double *e, int n, double s) {
    double p = 1, before = 0, q = 1, beforeQ = 0, b = 0;
    uint32_t changes = 0, changesQ = 0, signs = 0, signsQ = 0;  // signs: of the last rows, a bit each
#pragma unroll 1
    for (int i = 0; i < n; i += 8) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            double t = d[i + j], pn = fma(t - s, p, -b * before), qn = fma(t + s, q, -b * beforeQ);
            signs = signs << 1 | static_cast<uint32_t>(__double2hiint(pn)) >> 31;
            signsQ = signsQ << 1 | static_cast<uint32_t>(__double2hiint(qn)) >> 31;
            before = p, p = pn, beforeQ = q, q = qn;
            b = e[i + j];
        }
        changes += __popc((signs ^ signs >> 1) & 0xff);
        changesQ += __popc((signsQ ^ signsQ >> 1) & 0xff);
        // Eight rows change a number by 2^-800 to 2^20 at most.
        auto scale = [](double &u, double &v) {
            int a = __double2hiint(u) >> 20 & 0x7ff, b = __double2hiint(v) >> 20 & 0x7ff;
            double by = __longlong_as_double(static_cast<long long>(2046 - (a > b ? a : b)) << 52);
            u *= by, v *= by;
        };
        scale(p, before);
        scale(q, beforeQ);
    }
    return (n - changes) << 16 | changesQ;
}

// reciprocal returns 1/v to 1e-12 for v in float32's range.
__device__ __forceinline__ double reciprocal(double v) {
#ifdef ODRADEK_EMULATE
    double r = static_cast<double>(__frcp_rn(static_cast<float>(v)));
#else
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(v));
#endif
    return r * fma(-v, r, 2.0);
}

// turned is implicit QL (Golub and Welsch 1969) on the diagonal d and subdiagonal e of n rows, which
// also transforms the rows g and l of a matrix. It returns false where that does not converge. A warp
// searches for a negligible e; one lane transforms, and prefetches its next values.
__device__ inline bool turned(double *d, double *e, double *g, double *l, int n) {
    const int lane = threadIdx.x & 31;
    for (int at = 0; at < n; at++) {
        for (int tries = 0;; tries++) {
            int end = at;
            for (unsigned none = 0; none == 0;) {
                const int i = end + lane;
                none = __ballot_sync(all, i >= n - 1 || !(fabs(e[i]) > 0x1p-53 * (fabs(d[i]) + fabs(d[i + 1]))));
                end += none == 0 ? 32 : __ffs(static_cast<int>(none)) - 1;
            }
            if (end == at) break;
            if (tries == 80) return false;
            if (lane == 0) {
                const double h = (d[at + 1] - d[at]) / (2 * e[at]);
                double f = d[end] - d[at] + e[at] / (h + copysign(sqrt(h * h + 1), h));
                double sin = 1, cos = 1, p = 0;
                double below = d[end], gb = g[end], lb = l[end];  // of row i + 1
                double ei = e[end - 1], di = d[end - 1], gi = g[end - 1], li = l[end - 1];
#pragma unroll 1
                for (int i = end - 1; i >= at; i--) {
                    const int j = i > at ? i - 1 : i;
                    const double ej = e[j], dj = d[j], gj = g[j], lj = l[j];
                    const double a = sin * ei, b = cos * ei, square = fma(a, a, f * f), over = square > 1e-300 ? rsqrt(square) : 0;
                    sin = a * over, cos = square > 1e-300 ? f * over : 1;
                    const double x = below - p, r = fma(di - x, sin, 2 * cos * b);
                    p = sin * r;
                    f = fma(cos, r, -b);
                    e[i + 1] = square * over;
                    d[i + 1] = x + p;
                    g[i + 1] = sin * gi + cos * gb, gb = cos * gi - sin * gb;
                    l[i + 1] = sin * li + cos * lb, lb = cos * li - sin * lb;
                    below = di, ei = ej, di = dj, gi = gj, li = lj;
                }
                d[at] = below - p, g[at] = gb, l[at] = lb;
                e[at] = f, e[end] = 0;
            }
            __syncwarp();
        }
    }
    return true;
}

// closely computes the score by QL. QL does not correct the error of float32 in T: where that error may
// turn a vector that counts towards one that does not, the score is in doubt, unless the definition
// leaves it open between them.
template <class M> __device__ void closely(const M &m, const Krylov &k, Pairs &found, double over) {
    __syncthreads();
    if (threadIdx.x < 32) {
        const int lane = threadIdx.x;
        double *g = reinterpret_cast<double *>(m.work), *l = g + k.n;
        for (int i = lane; i < k.n; i += 32) {
            g[i] = m.g[i], l[i] = i == k.n - 1 || m.beta[i] < 0 ? m.beta[i] * over : 0;
            if (i == k.n - 1) m.e[i] = 0;
        }
        __syncwarp();
        const bool ended = turned(m.d, m.e, g, l, k.n);
        double score = 1, doubt = 0, size = 0, least = 0;
        const double rest = fabs(m.value[found.values - 1]);
        int counts = 0;
        for (; counts < min(k.rank, k.n); counts++) {
            double value = 0;
            int top = counts;
            for (int i = counts + lane; i < k.n; i += 32) {
                if (fabs(m.d[i]) > value) value = fabs(m.d[i]), top = i;
            }
            for (int o = 16; o > 0; o >>= 1) {
                const double other = __shfl_xor_sync(all, value, o);
                const int at = __shfl_xor_sync(all, top, o);
                if (other > value || (other == value && at < top)) value = other, top = at;
            }
            if (counts == 0) size = value;
            if (!(value > k.least * size)) break;
            const double along = g[top];
            score -= along * along;
            doubt += 2 * fabs(along * l[top]) / fmax(value - rest, nearest * size);
            least = value;
            __syncwarp();
            if (lane == 0) {
                const double t = m.d[top];
                m.d[top] = m.d[counts], g[top] = g[counts], l[top] = l[counts];
                m.d[counts] = t, g[counts] = along;
            }
            __syncwarp();
        }
        double other = 0;
        for (int j = counts + lane; j < k.n; j += 32) {
            const double value = fabs(m.d[j]), residual = fabs(l[j]);
            if (value >= rest && residual > moves * size && value + residual > (counts < k.rank ? k.least * size : least)) other += 1;
            for (int i = 0; i < counts; i++) {
                if (fabs(m.d[i]) - least < undecided * size && least - value < undecided * size) continue;
                other += 2 * roundings * size * fabs(g[i] * g[j]) / fmax(fabs(m.d[i] - m.d[j]), roundings * size);
            }
        }
        doubt += sumOfWarp(other);
        if (lane == 0) m.small[0] = score, m.small[1] = ended ? doubt : 1, m.small[2] = counts;
    }
    __syncthreads();
    found.doubt = static_cast<float>(m.small[1]), found.counts = static_cast<int>(m.small[2]);
}

// pairs computes the leading Ritz pairs: values, over a bound, in m.value; mu's coordinates in m.along;
// the vectors' residuals in m.residual; the vectors' coordinates in the basis, times m.unit, in
// m.coordinates. It returns the largest error of a score from them: in first order by the errors of the
// leading vectors, in second order by the exchange across the rank through these. taskRank is the rank
// of the task.
template <int T, int W> __device__ __noinline__ Pairs pairs(unsigned char *scratch, int taskRank, Krylov k) {
    const Memory<T, W> m(scratch, k.w, taskRank);
    Pairs found = {1, 0, 0, 0, false, false, false};
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, n = k.n;
    const bool past = k.known >= 0;
    if (past) {
        for (int j = k.known + warp; j < n; j += W) {
            const float *q = m.column(j);
            float s = 0;
            for (int t = 0; t < T; t++) s = fmaf(q[t * 32 + lane], m.mu[t * 32 + lane], s);
            s = sumOfWarp(s);
            if (lane == 0) m.g[j] = s;
        }
    }
    float bound = 0;
    for (int i = lane; i < n; i += 32) bound = fmaxf(bound, fabsf(m.alpha[i]) + (i > 0 ? fabsf(m.beta[i - 1]) : 0) + (i < n - 1 ? fabsf(m.beta[i]) : 0));
    for (int o = 16; o > 0; o >>= 1) bound = fmaxf(bound, __shfl_xor_sync(all, bound, o));
    found.bound = bound;
    const double over = bound > 0 ? 1 / static_cast<double>(bound) : 1;
    const int padded = (n + 7) & ~7;  // with values above all others
    for (int i = threadIdx.x; i < padded; i += m.threads) {
        double e = i < n - 1 && m.beta[i] > 0 ? m.beta[i] * over : 0;
        m.d[i] = i < n ? m.alpha[i] * over : 2;
        m.e[i] = e;
        m.square[i] = e * e > 1e-60 ? e * e : 1e-60;  // so that no sequence ends
    }
    __syncthreads();

    const int wanted = k.rank + beyond, values = min(n, wanted);
    found.values = values;
    // Not all lanes: that would save a fifth of the rounds, for twice the work.
    constexpr int busy = Memory<T, W>::threads < 128 ? Memory<T, W>::threads : 128;
    int log = 5;
    while ((values << log) > busy) log--;
    const int lanes = 1 << log, number = threadIdx.x >> log;
    const unsigned group = (lanes == 32 ? all : (1u << lanes) - 1) << (lane >> log << log);
    double low = 0, high = 1;
    if (warp << 5 >> log < values) {
#pragma unroll 1
        for (double width = 1; width > 0x1p-40; width /= lanes + 1) {
            double step = (high - low) / (lanes + 1);
            uint32_t c = beyondBoth(m.d, m.square, padded, low + step * ((lane & (lanes - 1)) + 1));
            int beyond = __popc(__ballot_sync(all, static_cast<int>((c >> 16) + (c & 0xffff)) - (padded - n) > number) & group);
            low += step * beyond;
            high = low + step;
        }
        // Where a bound equals a value up to rounding, either count is possible.
        const double margin = 0x1p-44;
        uint32_t atLow = beyondBoth(m.d, m.square, padded, low - margin), atHigh = beyondBoth(m.d, m.square, padded, high + margin);
        if ((lane & (lanes - 1)) == 0 && number < values) {
            int place = number + padded - n - static_cast<int>((atHigh >> 16) + (atHigh & 0xffff));
            bool positive = place < static_cast<int>((atLow >> 16) - (atHigh >> 16));
            m.value[number] = positive ? 0.5 * (low + high) : -0.5 * (low + high);
        }
    }
    __syncthreads();

    const int pitch = m.pitch;
    float *up = m.coordinates(n), *down = up + padded * pitch;
    for (int item = threadIdx.x; item < 2 * values; item += m.threads) {
        const int a = item < values ? item : item - values;
        const bool above = item < values;
        const double t = m.value[a];
        const int by = above ? 1 : -1;
        const double *d = m.d + (above ? 0 : n - 1), *e = m.e + (above ? 0 : n - 2);
        float *to = above ? up + a : down + (n - 2) * pitch + a;
        double coupled = 0, level = *d - t;
#pragma unroll 1
        for (int i = 0; i < n - 1; i++) {
            double pivot = level - coupled, edge = *e;
            d += by;
            level = *d - t;
            if (fabs(pivot) < 1e-30) pivot = 1e-30;
            double ratio = edge * reciprocal(pivot);
            coupled = edge * ratio;
            *to = static_cast<float>(ratio);
            e += by, to += by * pitch;
        }
    }
    __syncthreads();
    for (int a = warp; a < values; a += W) {
        const double t = m.value[a];
        float least = largest;
        int row = 0;
        for (int i = lane; i < n; i += 32) {
            double meet = m.d[i] - t;
            if (i > 0) meet -= m.e[i - 1] * up[(i - 1) * pitch + a];
            if (i < n - 1) meet -= m.e[i] * down[i * pitch + a];
            float size = fabsf(static_cast<float>(meet));
            if (size < least) least = size, row = i;
        }
        for (int o = 16; o > 0; o >>= 1) {
            float other = __shfl_xor_sync(all, least, o);
            int at = __shfl_xor_sync(all, row, o);
            if (other < least || (other == least && at < row)) least = other, row = at;
        }
        if (lane == 0) m.row[a] = row, m.unit[a] = least;
    }
    __syncthreads();
    for (int item = threadIdx.x; item < 2 * values; item += m.threads) {
        const int a = item < values ? item : item - values, row = m.row[a];
        // Four at a time, so that a load does not wait for the store before it.
        const int by = item < values ? -pitch : pitch;
        float z = 1, *at = item < values ? up + (row - 1) * pitch + a : down + row * pitch + a;
        int left = item < values ? row : n - 1 - row;
        for (; left >= 4; left -= 4, at += 4 * by) {
            float f[4];
#pragma unroll
            for (int i = 0; i < 4; i++) f[i] = at[i * by];
#pragma unroll
            for (int i = 0; i < 4; i++) at[i * by] = z *= -f[i];
        }
        for (; left > 0; left--, at += by) *at = z *= -*at;
    }
    __syncthreads();
    for (int a = warp; a < values; a += W) {
        const int row = m.row[a];
        double square = 0, along = 0;
        float missing = 0;
        for (int i = lane; i < n; i += 32) {
            float z = i < row ? up[i * pitch + a] : i > row ? down[(i - 1) * pitch + a] : 1;
            if (i >= row) up[i * pitch + a] = z;
            square += static_cast<double>(z) * z;
            if (past) along += static_cast<double>(z) * m.g[i];
            if (i == n - 1 || m.beta[i] < 0) missing += fabsf(m.beta[i] * z);
        }
        square = sumOfWarp(square), along = sumOfWarp(along), missing = sumOfWarp(missing);
        if (lane == 0) {
            double unit = rsqrt(square);
            if (!(m.unit[a] * unit < meets && unit > 1e-12)) unit = 2;  // not an eigenvector of T
            m.unit[a] = static_cast<float>(unit);
            m.along[a] = past ? static_cast<float>(along * unit) : 1;
            m.residual[a] = static_cast<float>(missing * over * unit);
        }
    }
    __syncthreads();

    const int rank = min(k.rank, values);
    const double size = fabs(m.value[0]), rest = fabs(m.value[values - 1]), floor = nearest * size;
    int counts = 0;
    while (counts < rank && fabs(m.value[counts]) > k.least * size) counts++;
    found.counts = counts;
    const int last = counts < rank ? -1 : counts - 1;
    const double least = last < 0 ? k.least * size : fabs(m.value[last]);  // the last that counts
    if (lane < values && lane != last) {
        const double gap = fabs(fabs(m.value[lane]) - least), residual = m.residual[lane] + (last < 0 ? 0 : m.residual[last]);
        found.alike = gap < company * size && residual > pure * gap;
    }
    found.alike = __any_sync(all, found.alike);
    found.early = __any_sync(all, lane < counts && m.residual[lane] > (k.rank < wide ? early : earlyWide) * size) && !k.complete;
    if (!k.complete && (values < wanted || n - k.continued < values)) return found;
    bool wrong = lane < values && m.unit[lane] > 1;
    double doubt = 0;
    if (past && lane < counts) {
        for (int b = lane + 1; b < counts; b++) {
            double gap = fabs(m.value[lane] - m.value[b]);
            wrong |= gap < apart * size;
            doubt += fabs(m.along[lane] * m.along[b]) / gap;
        }
    }
    wrong |= !(2 * roundings * size * sumOfWarp(doubt) < common);
    if (__any_sync(all, wrong)) {
        found.close = past;
        if (past) closely(m, k, found, over);
        return found;
    }
    // An eigenvalue may be as far from a value as its vector's residual, so another one may count
    // instead.
    const bool passes = lane >= counts && lane < values && m.residual[lane] > moves * size && fabs(m.value[lane]) + m.residual[lane] > least;
    doubt = passes ? 1 : 0;
    if (lane < rank && !(lane > counts && fabs(m.value[lane]) < 0.7 * k.least * size)) {
        const double value = m.value[lane], along = fabsf(m.along[lane]), residual = m.residual[lane];
        const double gap = fmax(fabs(value) - rest, floor);
        doubt += 2 * along * residual / gap;
        for (int b = lane < counts ? counts : lane + 1; b < values; b++) {
            doubt += 2 * along * fabsf(m.along[b]) * residual * m.residual[b] / (gap * fmax(fabs(value - m.value[b]), nearest * floor));
        }
    }
    // Where steps no longer help, only betas outside T remain.
    found.doubt = static_cast<float>((k.complete ? 0.25 : 1) * sumOfWarp(doubt));
    return found;
}

}  // namespace
