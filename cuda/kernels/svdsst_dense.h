// Op SVDSST: the scores that float32 leaves open, in float64, by a decomposition of the whole matrices.
// See svdsst.cu.
//
// Householder's reflections make a matrix tridiagonal, T. Of the current, the leading eigenvector is
// computed: the value by Sturm's sequences, the vector by a twisted factorisation and the reflections
// in reverse. Of the past, no eigenvector is computed, since eigenvectors of equal or almost equal values are
// an arbitrary basis. With mu in the basis of T and t halfway between the last singular value that
// counts and the next, the score is
//
//	mu' P mu, P = (sign(T + t) - sign(T - t)) / 2,
//
// the projection on the directions that do not count, regardless of the multiplicities. The sign of x is the
// integral of 2/pi x/(x^2 + s^2) over s > 0, by the trapezoidal rule in log s: a pole s takes the real
// part of mu' (T +- t - is)^-1 mu, one pass over T's rows with complex pivots, none of which is less
// than s. The integral omits its upper end, where it is linear in x and known; and its lower end and
// the error of the rule, together less than 1e-6 at half the distance of the two values, 2e-7 of the
// largest at least. The definition treats closer values as equal, and they share a place.
#pragma once

namespace {

constexpr double poleStep = 0.6;   // of log s: the error of the rule is 4 exp(-pi^2/poleStep), 3e-7
constexpr double poleDepth = 14;   // of log s below the distance: exp(-14) is omitted
constexpr double poleTop = 120;    // s above which the integrand is linear, for |x| of up to 2
constexpr double leastGap = 1e-7;  // of the largest: least half distance of two values in the formula

// Dense is the block's memory, as svdsstDenseOf in cuda/plan/svdsst.go.
struct Dense {
    int n, columns, parts, padded;
    double *A;              // [n][n]: the matrix; row k from k + 1 on becomes reflection k
    double *d, *e, *square; // [padded]: T, over its bound, and its subdiagonal's squares
    double *beta, *g, *z;   // [n]: the reflections' factors; mu; a vector
    double *v, *x, *w, *p;  // [n]: the reflection before, this one; w and p of the update
    double *partial;        // [threads]
    double *sums;           // [32][2], twice
    double *found;          // [8]

    __device__ Dense(int n, double *matrix) : n(n) {
        DYNAMIC_SHARED(float4, memory);
        columns = (n + 31) & ~31, parts = blockDim.x / columns, padded = (n + 7) & ~7;
        double *at = reinterpret_cast<double *>(memory);
        d = at, e = d + padded, square = e + padded, at = square + padded;
        beta = at, g = beta + n, z = g + n, at = z + n;
        v = at, x = v + n, w = x + n, p = w + n, at = p + n;
        partial = at, at += 2 * columns > static_cast<int>(blockDim.x) ? 2 * columns : static_cast<int>(blockDim.x);
        sums = at, found = sums + 128, at = found + 8;
        A = matrix ? matrix : at;
    }
};

// tridiagonal makes A tridiagonal, d and e, and transforms g with it. One pass does a step's update of
// A and the product with the next step's reflection: a thread has a column, and a part of its rows.
__device__ __noinline__ void tridiagonal(const Dense m) {
    const int n = m.n, j = threadIdx.x % m.columns, part = threadIdx.x / m.columns, warps = m.columns / 32;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const bool first = part == 0 && j < n;
    double *v = m.v, *x = m.x, K = 0, pj = 0;
    if (first) v[j] = m.w[j] = m.p[j] = 0;
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        double own = 0, turn = 0;
        if (first && j >= k) {
            const double vj = v[j], wj = pj - K * vj;
            const double value = m.A[k * n + j] - v[k] * wj - (m.p[k] - K * v[k]) * vj;
            m.w[j] = wj;
            if (j == k) {
                m.d[k] = value;
            } else {
                x[j] = m.A[k * n + j] = value;
                own = value * value, turn = value * m.g[j];
            }
        }
        if (part == 0) {
            own = sumOfWarp(own), turn = sumOfWarp(turn);
            if (lane == 0) m.sums[2 * warp] = own, m.sums[2 * warp + 1] = turn;
        }
        __syncthreads();
        if (k == n - 1) break;
        double square = 0;
        turn = 0;
        for (int i = 0; i < warps; i++) square += m.sums[2 * i], turn += m.sums[2 * i + 1];
        const bool some = square > 1e-280;  // less has no reciprocal, and is negligible beside float32's least
        const double lead = x[k + 1], size = some ? sqrt(square) : 0, e = -copysign(size, lead);
        const double beta = some ? 1 / (square + fabs(lead) * size) : 0;
        turn = beta * (turn - e * m.g[k + 1]);
        if (j > k && j < n) {
            const double vj = v[j], wj = m.w[j];
            double sum = 0;
            int i = k + 1 + part;
            double *at = m.A + static_cast<size_t>(i) * n + j;
            const size_t by = static_cast<size_t>(m.parts) * n;
            if (part == 0) {
                const double a = *at - v[i] * wj - m.w[i] * vj;
                *at = a;
                sum = a * (lead - e);
                i += m.parts, at += by;
            }
#pragma unroll 1
            for (; i + 3 * m.parts < n; i += 4 * m.parts, at += 4 * by) {
                double a[4];
#pragma unroll
                for (int u = 0; u < 4; u++) a[u] = at[u * by];
#pragma unroll
                for (int u = 0; u < 4; u++) {
                    const int row = i + u * m.parts;
                    a[u] = fma(-m.w[row], vj, fma(-v[row], wj, a[u]));
                    sum = fma(a[u], x[row], sum);
                }
#pragma unroll
                for (int u = 0; u < 4; u++) at[u * by] = a[u];
            }
#pragma unroll 1
            for (; i < n; i += m.parts, at += by) {
                const double a = fma(-m.w[i], vj, fma(-v[i], wj, *at));
                *at = a;
                sum = fma(a, x[i], sum);
            }
            m.partial[part * m.columns + j] = sum;
        }
        __syncthreads();
        own = 0;
        if (first && j > k) {
            pj = 0;
            for (int i = 0; i < m.parts; i++) pj += m.partial[i * m.columns + j];
            pj *= beta;
            const double vj = j == k + 1 ? lead - e : x[j];
            m.p[j] = pj;
            own = pj * vj;
            m.g[j] -= turn * vj;
            if (j == k + 1) x[j] = m.A[k * n + j] = vj, m.e[k] = e, m.beta[k] = beta;
        }
        if (part == 0) {
            own = sumOfWarp(own);
            if (lane == 0) m.sums[64 + warp] = own;
        }
        __syncthreads();
        K = 0;
        for (int i = 0; i < warps; i++) K += m.sums[64 + i];
        K *= 0.5 * beta;
        double *other = v;
        v = x, x = other;
    }
}

// scaled divides T by a bound of its eigenvalues.
__device__ __forceinline__ void scaled(const Dense &m) {
    double bound = 0;
    for (int i = threadIdx.x & 31; i < m.n; i += 32) {
        bound = fmax(bound, fabs(m.d[i]) + (i > 0 ? fabs(m.e[i - 1]) : 0) + (i < m.n - 1 ? fabs(m.e[i]) : 0));
    }
    for (int o = 16; o > 0; o >>= 1) bound = fmax(bound, __shfl_xor_sync(all, bound, o));
    const double over = bound > 0 ? 1 / bound : 1;
    __syncthreads();
    for (int i = threadIdx.x; i < m.padded; i += blockDim.x) {
        const double e = i < m.n - 1 ? m.e[i] * over : 0;
        m.d[i] = i < m.n ? m.d[i] * over : 2;
        m.e[i] = e;
        m.square[i] = e * e > 1e-60 ? e * e : 1e-60;
    }
    __syncthreads();
}

// magnitude returns the singular value of T that `number` others exceed. A warp calls it.
__device__ __noinline__ double magnitude(const Dense m, int number) {
    const int extra = m.padded - m.n;
    double low = 0, high = 1;
#pragma unroll 1
    for (double width = 1; width > 0x1p-50; width /= 33) {
        const double step = (high - low) / 33;
        const uint32_t c = beyondBoth(m.d, m.square, m.padded, low + step * ((threadIdx.x & 31) + 1));
        const int beyond = __popc(__ballot_sync(all, static_cast<int>((c >> 16) + (c & 0xffff)) - extra > number));
        low += step * beyond;
        high = low + step;
    }
    return 0.5 * (low + high);
}

// leading sets z to the eigenvector of T of the value largest in magnitude. It returns false where the
// vector fails the test. A warp calls it.
__device__ __noinline__ bool leading(const Dense m) {
    const int n = m.n, lane = threadIdx.x & 31;
    double value = magnitude(m, 0);
    if ((beyondBoth(m.d, m.square, m.padded, value - 0x1p-44) >> 16) <= static_cast<uint32_t>(m.padded - n)) value = -value;
    double *up = m.x, *down = m.w;
    if (lane < 2) {
        const int by = lane == 0 ? 1 : -1;
        const double *d = m.d + (lane == 0 ? 0 : n - 1), *e = m.e + (lane == 0 ? 0 : n - 2);
        double *to = lane == 0 ? up : down + n - 2, coupled = 0;
#pragma unroll 1
        for (int i = 0; i < n - 1; i++, d += by, e += by, to += by) {
            double pivot = *d - value - coupled;
            if (fabs(pivot) < 1e-30) pivot = 1e-30;
            const double ratio = *e * reciprocal(pivot);
            coupled = *e * ratio;
            *to = ratio;
        }
    }
    __syncwarp();
    double least = 1e300;
    int row = 0;
    for (int i = lane; i < n; i += 32) {
        double meet = m.d[i] - value;
        if (i > 0) meet -= m.e[i - 1] * up[i - 1];
        if (i < n - 1) meet -= m.e[i] * down[i];
        if (fabs(meet) < least) least = fabs(meet), row = i;
    }
    for (int o = 16; o > 0; o >>= 1) {
        const double other = __shfl_xor_sync(all, least, o);
        const int at = __shfl_xor_sync(all, row, o);
        if (other < least || (other == least && at < row)) least = other, row = at;
    }
    if (lane == 0) {
        double z = m.z[row] = 1;
        for (int i = row - 1; i >= 0; i--) m.z[i] = z *= -up[i];
    } else if (lane == 1) {
        double z = 1;
        for (int i = row + 1; i < n; i++) m.z[i] = z *= -down[i - 1];
    }
    __syncwarp();
    double square = 0;
    for (int i = lane; i < n; i += 32) square += m.z[i] * m.z[i];
    square = sumOfWarp(square);
    const double unit = rsqrt(square);
    for (int i = lane; i < n; i += 32) m.z[i] *= unit;
    return least * unit < 1e-9;
}

// back transforms z from the basis of T to the matrix's. A warp calls it; each lane has its elements of
// z.
__device__ __forceinline__ void back(const Dense &m) {
    const int n = m.n, lane = threadIdx.x & 31;
#pragma unroll 1
    for (int k = n - 2; k >= 0; k--) {
        const double *row = m.A + static_cast<size_t>(k) * n;
        double along = 0;
        for (int j = lane; j < n; j += 32) {
            if (j > k) along = fma(row[j], m.z[j], along);
        }
        along = m.beta[k] * sumOfWarp(along);
        for (int j = lane; j < n; j += 32) {
            if (j > k) m.z[j] = fma(-along, row[j], m.z[j]);
        }
    }
}

// resolvent returns the real part of g' (T + t - is)^-1 g.
__device__ __forceinline__ double resolvent(const Dense &m, double t, double s) {
    double sum = 0, y = m.g[0], iy = 0, d = m.d[0] + t, id = -s;
#pragma unroll 2
    for (int i = 0; i < m.n; i++) {
        const double over = reciprocal(fma(d, d, id * id)), r = d * over, ir = -id * over;
        sum = fma(fma(y, y, -iy * iy), r, sum);
        sum = fma(-2 * y * iy, ir, sum);
        const double e = m.e[i], l = e * r, il = e * ir;  // 0 in the last row
        const int next = i + 1 < m.n ? i + 1 : i;
        d = fma(-e, l, m.d[next] + t);
        id = fma(-e, il, -s);
        const double u = fma(-l, y, fma(il, iy, m.g[next]));
        iy = fma(-l, iy, -il * y);
        y = u;
    }
    return sum;
}

// without returns the squared length of the projection of g on the directions that do not count.
__device__ __noinline__ double without(const Dense m, int rank, double negligible) {
    const int warp = threadIdx.x >> 5, warps = blockDim.x >> 5, extra = m.padded - m.n;
    for (int i = warp; i < 3; i += warps) {
        const double value = magnitude(m, i == 0 ? 0 : rank - 2 + i);
        if ((threadIdx.x & 31) == 0) m.found[i] = value;
    }
    __syncthreads();
    const double largest = m.found[0], floor = negligible * largest;
    if (!(m.found[1] > floor)) {
        const uint32_t c = beyondBoth(m.d, m.square, m.padded, floor);
        const int counts = max(static_cast<int>((c >> 16) + (c & 0xffff)) - extra, 1);
        __syncthreads();
        for (int i = warp; i < 2; i += warps) {
            const double value = magnitude(m, counts - 1 + i);
            if ((threadIdx.x & 31) == 0) m.found[1 + i] = value;
        }
        __syncthreads();
    }
    const double t = 0.5 * (m.found[1] + m.found[2]), gap = fmax(0.5 * (m.found[1] - m.found[2]), leastGap * largest);
    const double least = gap * exp(-poleDepth), growth = exp(poleStep);
    const int poles = static_cast<int>(ceil(log(poleTop / least) / poleStep)) + 1;
    double sum[1] = {0};
    for (int item = threadIdx.x; item < 2 * poles; item += blockDim.x) {
        const int k = item >> 1;
        const double s = least * exp(poleStep * k), share = poleStep / pi * s;
        sum[0] += (item & 1 ? -share : share) * resolvent(m, item & 1 ? -t : t, s);
        if (item == 2 * poles - 1) sum[0] += 2 * poleStep / pi * t / (s * (growth - 1));
    }
    sum[0] = sumOfWarp(sum[0]);
    if ((threadIdx.x & 31) == 0) m.sums[warp] = sum[0];
    __syncthreads();
    sum[0] = 0;
    for (int i = 0; i < warps; i++) sum[0] += m.sums[i];
    __syncthreads();
    return sum[0];
}

// dense returns the score of a series; below 0 where there is none.
__device__ __forceinline__ float dense(const Dense &m, Series s, int rank, double negligible) {
    const int n = m.n, window = 2 * n - 1, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    double sum = 0;
    for (int i = threadIdx.x; i < window; i += blockDim.x) sum += static_cast<double>(s.at(i)) + static_cast<double>(s.at(s.gamma + i));
    sum = sumOfWarp(sum);
    __syncthreads();
    if (lane == 0) m.sums[warp] = sum;
    __syncthreads();
    s.mean = 0;
    for (int i = 0; i < static_cast<int>(blockDim.x >> 5); i++) s.mean += m.sums[i];
    s.mean /= 2 * window;
#pragma unroll 1
    for (int past = 0; past < 2; past++) {
        __syncthreads();
        double *x = m.partial;
        for (int i = threadIdx.x; i < window; i += blockDim.x) x[i] = static_cast<double>(s.at((past ? 0 : s.gamma) + i)) - s.mean;
        for (int i = threadIdx.x; i < n; i += blockDim.x) m.g[i] = past ? m.z[i] : 0;
        __syncthreads();
        for (int i = warp; i < n; i += blockDim.x >> 5) {
            for (int j = lane; j < n; j += 32) m.A[static_cast<size_t>(i) * n + j] = x[i + j];
        }
        __syncthreads();
        tridiagonal(m);
        scaled(m);
        if (past) break;
        if (warp == 0) {
            const bool sound = leading(m);
            back(m);
            if (lane == 0) m.found[3] = sound;
        }
        __syncthreads();
        if (m.found[3] == 0) return -1;
    }
    const double score = without(m, rank, negligible);
    return score > 1 ? 1 : score > 0 ? static_cast<float>(score) : score > -2e-5 ? 0 : -1;
}

}  // namespace
