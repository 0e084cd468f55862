// Op SVDSST: mu of the current's Ritz vectors, the score of the past's. See
// svdsst.cu.
//
// What float32 has left in T turns two Ritz vectors towards each other by that over
// the distance of their values. Where both are on one side of the rank, that is
// nothing to the score. For the few that are on both sides and too close, the
// eigenproblem is solved again in the space of up to four of them, in float64, with
// values centred in float64: then the rest is of second order.
#pragma once

namespace {

constexpr double turns = 2e-7;      // of a score: what two vectors may do to it as they are
constexpr int most = 4;             // vectors of the small problem

// smallProblem solves K c = l G c for n by n matrices, G close to 1, both lost: the
// columns of c by falling |l| in small[32 + 4a + b]. It is false where G is not: of
// vectors that are not n directions.
__device__ inline bool smallProblem(double *small, int n) {
    double *K = small, *G = small + 16, *C = small + 32;
    for (int j = 0; j < n; j++) {  // G = L L'
        for (int i = 0; i < j; i++) {
            for (int a = j; a < n; a++) G[a * 4 + j] -= G[a * 4 + i] * G[j * 4 + i];
        }
        if (!(fabs(G[j * 4 + j] - 1) < 0.5)) return false;
        double root = sqrt(G[j * 4 + j]);
        for (int a = j; a < n; a++) G[a * 4 + j] /= root;
    }
    for (int side = 0; side < 2; side++) {  // K to L^-1 K L^-T: L^-1 from the left, then the same of the transpose
        for (int b = 0; b < n; b++) {
            for (int a = 0; a < n; a++) {
                double s = K[a * 4 + b];
                for (int i = 0; i < a; i++) s -= G[a * 4 + i] * K[i * 4 + b];
                K[a * 4 + b] = s / G[a * 4 + a];
            }
        }
        for (int a = 0; a < n; a++) {
            for (int b = 0; b < a; b++) {
                double s = K[a * 4 + b];
                K[a * 4 + b] = K[b * 4 + a], K[b * 4 + a] = s;
            }
        }
    }
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < n; b++) C[a * 4 + b] = a == b;
    }
    for (int sweep = 0; sweep < 12; sweep++) {  // Jacobi's rotations
        for (int p = 0; p < n; p++) {
            for (int q = p + 1; q < n; q++) {
                double off = 0.5 * (K[p * 4 + q] + K[q * 4 + p]);
                if (off == 0) continue;
                double tau = (K[q * 4 + q] - K[p * 4 + p]) / (2 * off);
                double tan = (tau < 0 ? -1 : 1) / (fabs(tau) + sqrt(1 + tau * tau)), cos = 1 / sqrt(1 + tan * tan), sin = tan * cos;
                for (int i = 0; i < n; i++) {
                    double a = K[i * 4 + p], b = K[i * 4 + q];
                    K[i * 4 + p] = cos * a - sin * b, K[i * 4 + q] = sin * a + cos * b;
                }
                for (int i = 0; i < n; i++) {
                    double a = K[p * 4 + i], b = K[q * 4 + i];
                    K[p * 4 + i] = cos * a - sin * b, K[q * 4 + i] = sin * a + cos * b;
                }
                for (int i = 0; i < n; i++) {
                    double a = C[i * 4 + p], b = C[i * 4 + q];
                    C[i * 4 + p] = cos * a - sin * b, C[i * 4 + q] = sin * a + cos * b;
                }
            }
        }
    }
    for (int b = 0; b < n; b++) {
        int top = b;
        for (int i = b + 1; i < n; i++) {
            if (fabs(K[i * 4 + i]) > fabs(K[top * 4 + top])) top = i;
        }
        double s = K[b * 4 + b];
        K[b * 4 + b] = K[top * 4 + top], K[top * 4 + top] = s;
        for (int a = 0; a < n; a++) {
            s = C[a * 4 + b];
            C[a * 4 + b] = C[a * 4 + top], C[a * 4 + top] = s;
        }
        for (int a = n - 1; a >= 0; a--) {  // L^-T
            s = C[a * 4 + b];
            for (int i = a + 1; i < n; i++) s -= G[i * 4 + a] * C[i * 4 + b];
            C[a * 4 + b] = s / G[a * 4 + a];
        }
    }
    return true;
}

// share is a score as it is given; below 0 where it is none, not a number or that of
// vectors that are not orthogonal.
__device__ __forceinline__ float share(double score) {
    return score > 1 ? 1 : score > 0 ? static_cast<float>(score) : score > -2e-5 ? 0 : -1;
}

// settle leaves mu in m.mu, or gives the score; below 0 where it is the CPU's.
template <int T, int W> __device__ __noinline__ float settle(unsigned char *scratch, int taskRank, int steps, bool past, Pairs found, Series s, int first, double scale) {
    const int w = s.w, values = found.values, counts = found.counts;
    const Memory<T, W> m(scratch, w, taskRank);
    if (found.close) return share(m.small[0]);
    const double size = fabs(m.value[0]);
    int low = counts, high = counts - 1;
    double left = 0, score = 1;
    auto effect = [&](int i, int j) {
        double a = m.along[i], b = m.along[j], apart = fabs(m.value[i] - m.value[j]);
        double turn = 2 * fabs(a * b) * roundings * size / fmax(apart, 1e-12 * size);
        return fabs(m.value[i]) - fabs(m.value[j]) < 1e-6 * size ? fmax(turn, fmax(a * a, b * b)) : turn;
    };
    for (int i = 0; i < counts; i++) {
        score -= static_cast<double>(m.along[i]) * m.along[i];
        for (int j = counts; j < values; j++) {
            if (effect(i, j) > turns) low = min(low, i), high = max(high, j);
        }
        if (i == counts - 1 && values < steps) {  // what those may do that are not looked at, each
            double weight = past ? fabs(static_cast<double>(m.along[i])) : 1;
            left = 2 * weight * roundings * size / fmax(fabs(m.value[i]) - fabs(m.value[values - 1]), 1e-12 * size);
        }
    }
    const bool refine = low < counts;
    if (refine && high - low >= most) {
        low = max(low, counts - most / 2);
        high = min(high, low + most - 1);
        low = max(min(low, high - most + 1), 0);
        for (int i = 0; i < counts; i++) {
            for (int j = counts; j < values; j++) left += i >= low && j <= high ? 0 : fmin(effect(i, j), 1.0);
        }
    }
    if (!(left < 8e-6)) return -1;
    if (!refine) {
        if (past) return share(score);
        for (int at = threadIdx.x; at < m.N; at += m.threads) {
            double v = 0;
            for (int i = 0; i < steps; i++) v += static_cast<double>(m.column(i)[at]) * m.work[i * values];
            m.mu[at] = static_cast<float>(v * m.unit[0]);
        }
        __syncthreads();
        return 0;
    }

    // The vectors, in float64, where the basis was.
    const int n = high - low + 1;
    double sums[24], own[m.own][most];
    for (int i = 0; i < 24; i++) sums[i] = 0;
#pragma unroll
    for (int p = 0; p < m.own; p++) {
#pragma unroll
        for (int a = 0; a < most; a++) own[p][a] = 0;
        const int at = threadIdx.x + p * m.threads;
        if (at >= m.N) continue;
        for (int i = 0; i < steps; i++) {
            const double f = m.column(i)[at];
#pragma unroll
            for (int a = 0; a < most; a++) {
                if (a < n) own[p][a] += f * m.work[i * values + low + a];
            }
        }
    }
    __syncthreads();
    double *x = reinterpret_cast<double *>(m.q), *y = x + 2 * w;
#pragma unroll
    for (int p = 0; p < m.own; p++) {
        const int at = threadIdx.x + p * m.threads;
        if (at >= m.N || m.rowOf(at) >= w) continue;
#pragma unroll
        for (int a = 0; a < most; a++) {
            if (a >= n) continue;
            const double v = own[p][a] * m.unit[low + a];
            y[a * w + m.rowOf(at)] = v;
            if (past) sums[20 + a] += v * m.mu[at];
        }
    }
    for (int i = threadIdx.x; i < 2 * w - 1; i += m.threads) x[i] = (static_cast<double>(s.at(first + i)) - s.mean) * scale;
    __syncthreads();
    for (int row = threadIdx.x; row < w; row += m.threads) {
        double h[most];
#pragma unroll
        for (int a = 0; a < most; a++) h[a] = 0;
        for (int j = 0; j < w; j++) {
            const double f = x[row + j];
#pragma unroll
            for (int a = 0; a < most; a++) {
                if (a < n) h[a] = fma(f, y[a * w + j], h[a]);
            }
        }
        int at = 0;
#pragma unroll
        for (int a = 0; a < most; a++) {
#pragma unroll
            for (int b = 0; b <= a; b++, at++) {
                if (a >= n) continue;
                sums[at] += h[a] * y[b * w + row];
                sums[10 + at] += y[a * w + row] * y[b * w + row];
            }
        }
    }
    sumOfBlock(m, sums);
    if (threadIdx.x == 0) {
        int at = 0;
#pragma unroll
        for (int a = 0; a < most; a++) {
#pragma unroll
            for (int b = 0; b <= a; b++, at++) {
                m.small[a * 4 + b] = m.small[b * 4 + a] = sums[at];
                m.small[16 + a * 4 + b] = m.small[16 + b * 4 + a] = sums[10 + at];
            }
        }
        m.small[48] = smallProblem(m.small, n);
    }
    __syncthreads();
    if (m.small[48] == 0) return -1;
    const double *c = m.small + 32;
    if (past) {
        score = 1;
        for (int i = 0; i < low; i++) score -= static_cast<double>(m.along[i]) * m.along[i];
        for (int b = 0; b < counts - low; b++) {
            double along = 0;
#pragma unroll
            for (int a = 0; a < most; a++) {
                if (a < n) along += c[a * 4 + b] * sums[20 + a];
            }
            score -= along * along;
        }
        return share(score);
    }
    for (int at = threadIdx.x; at < m.N; at += m.threads) {
        double v = 0;
        const int row = m.rowOf(at);
        for (int a = 0; a < n && row < w; a++) v += c[a * 4] * y[a * w + row];
        m.mu[at] = static_cast<float>(v);
    }
    __syncthreads();
    return 0;
}

}  // namespace
