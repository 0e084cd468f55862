// All kernels include this: CUDA, or its emulation for tests on hosts without a device
// (emulate/emulate.h).
#pragma once
#include "task.h"

#ifdef ODRADEK_EMULATE
#include "emulate/emulate.h"
#else
// DYNAMIC_SHARED declares a kernel's dynamic shared memory, aligned to 16 bytes.
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#endif

// paramsOf returns the parameters of a task as the struct of NAME_params.h.
template <class P> __device__ __forceinline__ const P &paramsOf(const Task &t, const float *f32) {
    return *reinterpret_cast<const P *>(f32 + t.params.off);
}
