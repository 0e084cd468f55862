// Series of op discords: a subsequence's mean and norm, the comparison of correlations, and distances.
//
// A subsequence has an inverse norm, 1 / sqrt(sum of squared deviations): 0 for a flat one, and -0 for
// one with a value that is not finite. The correlation of two subsequences is their covariance (sum of
// products of deviations) times both inverse norms.
#pragma once
#include "device.h"

// SLOW marks functions that are called so rarely that the caller keeps its registers.
#ifndef ODRADEK_SLOW
#define ODRADEK_SLOW __noinline__
#endif

namespace discords {

typedef unsigned long long Best;  // the nearest neighbour of a subsequence: see nearer

constexpr Best none = ~0ull;
constexpr int never = 0x7fffffff;            // the limit of a subsequence that is not compared
constexpr int always = -0x7fffffff - 1;      // the limit of a subsequence without a neighbour yet
constexpr double largest = 1.7976931348623157e308;
constexpr uint32_t all = 0xffffffff;

__device__ __forceinline__ int high(double v) { return __double2hiint(v); }
__device__ __forceinline__ int high(float v) { return __float_as_int(v); }

// atLeast returns the number with the high word h that is farthest from zero.
__device__ __forceinline__ double atLeast(int h, double) { return __hiloint2double(h, -1); }
__device__ __forceinline__ float atLeast(int h, float) { return __int_as_float(h); }

// atMost returns the number with the high word h that is nearest to zero.
__device__ __forceinline__ double atMost(int h, double) { return __hiloint2double(h, 0); }
__device__ __forceinline__ float atMost(int h, float) { return __int_as_float(h); }

// nearer encodes a neighbour with correlation rho as a number that is smaller for nearer ones, and for
// equally near ones smaller for the first. The upper 33 bits are 1 - rho, six of the exponent and 27 of
// the mantissa, so that neighbours are equally near where their distances differ by less than a
// relative 2e-9.
__device__ __forceinline__ Best nearer(double rho, int index) {
    double d = 1 - rho;
    Best code = 0;
    if (d > 0x1p-62) code = (static_cast<Best>(__double_as_longlong(fmin(d, 2.0))) - (961ull << 52)) >> 25;
    return code << 31 | static_cast<unsigned>(index);
}

__device__ __forceinline__ int indexOf(Best b) { return static_cast<int>(b & 0x7fffffff); }

// limitOf returns the least high word of a correlation that may be as near as rho.
__device__ __forceinline__ int limitOf(double rho, double) {
    double v = rho - 0x1p-25;
    return v > 0 ? high(v) : always;
}
__device__ __forceinline__ int limitOf(double rho, float) {
    double v = rho - 0x1p-23;
    return v > 0x1p-120 ? high(static_cast<float>(v)) : always;
}

// globalMin and globalMax are atomicMin and atomicMax on global memory; without them the compiler
// cannot exclude that a pointer refers to shared memory.
__device__ __forceinline__ void globalMin(Best *p, Best v) {
#ifdef __CUDA_ARCH__
    asm volatile("red.global.min.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(v) : "memory");
#else
    atomicMin(p, v);
#endif
}
__device__ __forceinline__ void globalMax(int *p, int v) {
#ifdef __CUDA_ARCH__
    asm volatile("red.global.max.s32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(v) : "memory");
#else
    atomicMax(p, v);
#endif
}

__device__ __forceinline__ bool finite(double v) { return fabs(v) <= largest; }

// clean returns v, or 0 for a value that is not finite and that no distance reads.
__device__ __forceinline__ double clean(double v) { return finite(v) ? v : 0; }

__device__ __forceinline__ bool usual(double inverse) { return inverse > 0; }
__device__ __forceinline__ bool flat(double inverse) { return inverse == 0 && high(inverse) >= 0; }

// inverseOf returns the inverse norm from the sum of squares of a subsequence that is not flat;
// infinite where that is out of range.
__device__ __forceinline__ double inverseOf(double squares) {
    return squares > 1e-280 && squares < 1e280 ? 1 / sqrt(squares) : __longlong_as_double(0x7ff0000000000000);
}

// roundings bounds the error of a correlation after this many rows of a diagonal, from the largest
// steps, inverse norm and sum of squares: a jump that is large against other subsequences also leaves
// large roundings. It is infinite where a norm is out of range.
__device__ __forceinline__ double roundings(double rows, double df, double dg, double inverse, double squares) {
    return rows * 0x1p-52 * (df * dg + squares) * inverse * inverse;
}

constexpr double steep = 1e-7;  // most roundings

// spread returns the place of element i of an array, such that threads that read elements eight apart
// use different banks.
__device__ __forceinline__ int spread(int i) { return i + (i >> 3); }

}  // namespace discords
