// Op SVDSST: mu of the current's Ritz vectors, the score of the past's. See svdsst.cu.
//
// The error of float32 in T turns two Ritz vectors towards each other by that error over the distance
// of their values. If both are on one side of the rank, the score does not change. For the few that are
// on both sides and too close, the eigenproblem is solved again in the space of up to four of them, in
// float64, with values centred in float64: the remaining error is of second order.
#pragma once

namespace {

constexpr double turns = 2e-7;      // of a score: allowed effect of two vectors without refinement
constexpr double unrefined = 2e-6;  // of a score: allowed effect of all unrefined vectors; in small windows up to four times this
constexpr double offMu = 8e-6;      // allowed effect on mu, of which a score takes a part
constexpr int most = 4;             // vectors of the small problem

// byMagnitude exchanges columns i and j of c, and their values, if the later value is larger in
// magnitude.
__device__ __forceinline__ void byMagnitude(double &a, double &b, double (&c)[most][most], int i, int j) {
    if (fabs(b) > fabs(a)) {
        double s = a;
        a = b, b = s;
#pragma unroll
        for (int k = 0; k < most; k++) s = c[k][i], c[k][i] = c[k][j], c[k][j] = s;
    }
}

// smallProblem solves K c = l G c for n by n matrices, G close to 1, and overwrites both: the columns
// of c by falling |l| in small[32 + 4a + b]. It returns false where G is not close to 1, for vectors
// that do not have n directions. It works in registers, with four rows, those beyond n having the
// values 0.
__device__ __forceinline__ bool smallProblem(double *small, int n) {
    double K[most][most], L[most][most], C[most][most];
#pragma unroll
    for (int a = 0; a < most; a++) {
#pragma unroll
        for (int b = 0; b < most; b++) {
            const bool in = a < n && b < n;
            K[a][b] = in ? small[a * 4 + b] : 0;
            L[a][b] = in ? small[16 + a * 4 + b] : a == b;
            C[a][b] = a == b;
        }
    }
    double over[most];  // 1 / L's diagonal
    bool sound = true;
#pragma unroll
    for (int j = 0; j < most; j++) {  // G = L L'
#pragma unroll
        for (int i = 0; i < j; i++) {
#pragma unroll
            for (int a = j; a < most; a++) L[a][j] -= L[a][i] * L[j][i];
        }
        sound &= fabs(L[j][j] - 1) < 0.5;
        over[j] = rsqrt(L[j][j]);
#pragma unroll
        for (int a = j + 1; a < most; a++) L[a][j] *= over[j];
    }
    if (!sound) return false;
#pragma unroll
    for (int side = 0; side < 2; side++) {  // K to L^-1 K L^-T: L^-1 from the left, then the same of the transpose
#pragma unroll
        for (int b = 0; b < most; b++) {
#pragma unroll
            for (int a = 0; a < most; a++) {
                double s = K[a][b];
#pragma unroll
                for (int i = 0; i < a; i++) s -= L[a][i] * K[i][b];
                K[a][b] = s * over[a];
            }
        }
#pragma unroll
        for (int a = 0; a < most; a++) {
#pragma unroll
            for (int b = 0; b < a; b++) {
                double s = K[a][b];
                K[a][b] = K[b][a], K[b][a] = s;
            }
        }
    }
    // Jacobi's rotations. An angle need not be exact, but its sine and cosine must fit each other.
#pragma unroll 1
    for (int sweep = 0; sweep < 12; sweep++) {
        bool turned = false;
#pragma unroll
        for (int p = 0; p < most; p++) {
#pragma unroll
            for (int q = p + 1; q < most; q++) {
                const double off = 0.5 * (K[p][q] + K[q][p]), apart = K[q][q] - K[p][p];
                if (!(fabs(off) > 1e-10 * fabs(apart))) continue;
                turned = true;
                const float tau = static_cast<float>(apart / (2 * off));
                const double tan = copysignf(1.0f, tau) / (fabsf(tau) + sqrtf(fmaf(tau, tau, 1.0f)));
                const double cos = rsqrt(fma(tan, tan, 1.0)), sin = tan * cos;
#pragma unroll
                for (int i = 0; i < most; i++) {
                    double a = K[i][p], b = K[i][q];
                    K[i][p] = cos * a - sin * b, K[i][q] = sin * a + cos * b;
                }
#pragma unroll
                for (int i = 0; i < most; i++) {
                    double a = K[p][i], b = K[q][i];
                    K[p][i] = cos * a - sin * b, K[q][i] = sin * a + cos * b;
                    a = C[i][p], b = C[i][q];
                    C[i][p] = cos * a - sin * b, C[i][q] = sin * a + cos * b;
                }
            }
        }
        if (!turned) break;
    }
#pragma unroll
    for (int b = 0; b < most; b++) {
#pragma unroll
        for (int i = b + 1; i < most; i++) byMagnitude(K[b][b], K[i][i], C, b, i);
    }
#pragma unroll
    for (int b = 0; b < most; b++) {
#pragma unroll
        for (int a = most - 1; a >= 0; a--) {  // L^-T
            double s = C[a][b];
#pragma unroll
            for (int i = a + 1; i < most; i++) s -= L[i][a] * C[i][b];
            C[a][b] = s * over[a];
            small[32 + a * 4 + b] = C[a][b];
        }
    }
    return true;
}

// share returns a score limited to its range; below 0 where it is not a number, or of vectors that are
// not orthogonal.
__device__ __forceinline__ float share(double score) {
    return score > 1 ? 1 : score > 0 ? static_cast<float>(score) : score > -2e-5 ? 0 : -1;
}

// settle sets m.mu, or returns the score; below 0 where float32 leaves it open.
template <int T, int W> __device__ __noinline__ float settle(unsigned char *scratch, int taskRank, int steps, bool past, Pairs found, Series s, int first, double scale) {
    const int w = s.w, values = found.values, counts = found.counts;
    const Memory<T, W> m(scratch, w, taskRank);
    if (found.close) return share(m.small[0]);
    const double size = fabs(m.value[0]);
    const float *coordinates = m.coordinates(steps);
    const int pitch = m.pitch;
    const int lane = threadIdx.x & 31, others = values - counts;
    int low = counts, high = counts - 1;
    auto effect = [&](int item) {
        int i = item / others, j = counts + item % others;
        double a = m.along[i], b = m.along[j], apart = fabs(m.value[i] - m.value[j]);
        double turn = 2 * fabs(a * b) * roundings * size / fmax(apart, 1e-12 * size);
        return fabs(m.value[i]) - fabs(m.value[j]) < 1e-6 * size ? fmax(turn, fmax(a * a, b * b)) : turn;
    };
    double left = 0;  // effect of the vectors that are not refined
    for (int item = lane; item < counts * others; item += 32) {
        const double turn = effect(item);
        if (turn > turns) low = min(low, item / others), high = max(high, counts + item % others);
        else left += turn;
    }
    left = sumOfWarp(left);
    for (int o = 16; o > 0; o >>= 1) {
        low = min(low, __shfl_xor_sync(all, low, o));
        high = max(high, __shfl_xor_sync(all, high, o));
    }
    double score = 1 - sumOfWarp(lane < counts ? static_cast<double>(m.along[lane]) * m.along[lane] : 0);
    if (counts > 0 && values < steps) {  // effect of each value that was not computed
        double weight = past ? fabs(static_cast<double>(m.along[counts - 1])) : 1;
        left += 2 * weight * roundings * size / fmax(fabs(m.value[counts - 1]) - fabs(m.value[values - 1]), 1e-12 * size);
    }
    const bool refine = low < counts;
    if (refine && high - low >= most) {
        low = max(low, counts - most / 2);
        high = min(high, low + most - 1);
        low = max(min(low, high - most + 1), 0);
        double turn = 0;
        for (int item = lane; item < counts * others; item += 32) {
            const double by = effect(item);
            turn += by <= turns || (item / others >= low && counts + item % others <= high) ? 0 : fmin(by, 1.0);
        }
        left += sumOfWarp(turn);
    }
    if (!(left < (past ? unrefined : offMu))) return -1;
    if (!refine) {
        if (past) return share(score);
        for (int at = threadIdx.x; at < m.N; at += m.threads) {
            double v = 0;
            for (int i = 0; i < steps; i++) v += static_cast<double>(m.column(i)[at]) * coordinates[i * pitch];
            m.mu[at] = static_cast<float>(v * m.unit[0]);
        }
        __syncthreads();
        return 0;
    }

    // The vectors, in float64, in the place of the window and all after it.
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
                if (a < n) own[p][a] += f * coordinates[i * pitch + low + a];
            }
        }
    }
    __syncthreads();
    double *x = reinterpret_cast<double *>(m.window), *y = x + 2 * w;
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
#pragma unroll 4
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
