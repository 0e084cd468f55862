// The product of a Hankel matrix with a vector, from a series in shared memory.
#pragma once

namespace {

// hankel sets y to the lane's T rows of the product of the Hankel matrix of x with v: x is the lane's
// first block of the window, v the first block of the factor, both with the given number of blocks of
// columns. Blocks of T values lie T | 1 apart in the window, so that no access uses a bank twice, and a
// multiple of four apart in the factor.
template <int T> __device__ __forceinline__ void hankel(float (&y)[T], const float *x, const float *v, int blocks) {
    constexpr int P = T | 1, V = (T + 3) & ~3;
    float u[T];
#pragma unroll
    for (int t = 0; t < T; t++) {
        y[t] = 0;
        u[t] = x[t];
    }
#pragma unroll 1
    for (int b = 0; b < blocks; b++) {
        x += P;
        float f[V];
#pragma unroll
        for (int j = 0; j < V; j += 4) {
            float4 g = *reinterpret_cast<const float4 *>(v + j);
            f[j] = g.x, f[j + 1] = g.y, f[j + 2] = g.z, f[j + 3] = g.w;
        }
        v += V;
#pragma unroll
        for (int j = 0; j < T; j++) {
#pragma unroll
            for (int t = 0; t < T; t++) y[t] = fmaf(u[(t + j) % T], f[j], y[t]);
            u[j] = x[j];
        }
    }
}

}  // namespace
