// What all kernels include: CUDA as it is, or its stand-in for checks on hosts
// without a device (emulate/emulate.h).
#pragma once
#include "task.h"

#ifdef ODRADEK_EMULATE
#include "emulate/emulate.h"
#else
// DYNAMIC_SHARED declares a kernel's dynamic shared memory, 16 bytes aligned.
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#endif

// paramsOf are the parameters of a task, as NAME_params.h has those of an op.
template <class P> __device__ __forceinline__ const P &paramsOf(const Task &t, const float *f32) {
    return *reinterpret_cast<const P *>(f32 + t.params.off);
}
