// Products of matrices of 16-bit floating-point numbers by a warp, from capability 8.0 on.
#pragma once
#include <stdint.h>
#include "device.h"

// products reports whether the device has them.
__device__ constexpr bool products() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return false;
#else
    return true;
#endif
}

#ifndef ODRADEK_EMULATE
// halfOf returns the bits of the nearest 16-bit number.
__device__ __forceinline__ uint32_t halfOf(float v) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    return h;
}

// floatOf returns the number with the bits.
__device__ __forceinline__ float floatOf(uint32_t half) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(static_cast<uint16_t>(half)));
    return v;
}

// multiply sets d to c + a b, where a has 16 rows of 16 numbers and b 16 rows of 8. With g and t the lane's
// quotient and remainder by 4, the lane has rows 2t, 2t+1 (x) and 2t+8, 2t+9 (y) of column g of b; those
// columns of rows g (the first and third word) and g+8 of a; and columns 2t and 2t+1 of row g, then of row
// g+8, of c and d. In a word the first number is in the low half.
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t x, uint32_t y, const float (&c)[4]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(x), "r"(y), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#endif
}

// fetch begins to copy 16 bytes to shared memory, for this thread alone.
__device__ __forceinline__ void fetch(uint4 *to, const uint4 *from) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
#endif
}

// fetches ends a group of copies.
__device__ __forceinline__ void fetches() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// fetched waits for this thread's groups of copies but the last N.
template <int N> __device__ __forceinline__ void fetched() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}
#endif
