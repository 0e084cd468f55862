// Faults on request, for tests of the worker's recovery from broken kernels; kernels for features that
// no op uses yet (rounds, models); and a kernel for the layout of a task. odradek-cuda has these only
// with its flag -faults.
#include "device.h"

// fault_address writes to an unmapped address: CUDA_ERROR_ILLEGAL_ADDRESS.
extern "C" __global__ void fault_address() { *reinterpret_cast<volatile uint32_t *>(uintptr_t{8}) = 1; }

// fault_endless never ends. nvcc 11.8 removes a loop on a local volatile variable, so that such a
// kernel ends at once.
#ifndef ODRADEK_EMULATE
extern "C" __global__ void fault_endless() {
    for (;;) {
        asm volatile("nanosleep.u32 1000;");
    }
}
#endif

// fault_rounds requests as many rounds as the first word of a task's parameters, and counts them in
// Next, whose second word is set where zeroed scratch memory was not zero.
extern "C" __global__ void fault_rounds(const Task *tasks, const Tile *tiles, const float *in, float *out, uint32_t *status, unsigned char *scratch) {
    if (threadIdx.x > 0) return;
    const Tile &tile = tiles[blockIdx.x];
    const Task &t = tasks[tile.first];
    uint32_t *next = reinterpret_cast<uint32_t *>(out) + t.next.off, *zeroed = reinterpret_cast<uint32_t *>(scratch + tile.scratch * 256ull);
    const uint32_t word = status[tile.first];
    if (word != statusTodo && word != statusMore) return;
    next[0] = word == statusTodo ? 1 : next[0] + 1;
    next[1] = *zeroed | (word == statusTodo ? 0 : next[1]);
    *zeroed = 1;
    status[tile.first] = next[0] == reinterpret_cast<const uint32_t *>(in)[t.params.off] ? statusDone : statusMore;
}

// fault_models adds up the words of a task's model in Next.
extern "C" __global__ void fault_models(const Task *tasks, const Tile *tiles, const float *, float *out, uint32_t *, unsigned char *,
                                        const uint32_t *models) {
    if (threadIdx.x > 0) return;
    const Task &t = tasks[tiles[blockIdx.x].first];
    uint32_t sum = 0;
    for (uint32_t k = 0; k < t.model.len; k++) sum += models[t.model.off + k];
    reinterpret_cast<uint32_t *>(out)[t.next.off] = sum;
}

namespace {

// LayoutParams is the table of parameters in layout_test.go.
struct LayoutParams {
    int32_t count;
    int64_t seed;
    float scale;
    uint32_t negate;  // 0 or 1
    int32_t elem;     // element type of X: 0 float32, 1 float64, 2 int64
    __device__ const int32_t *times() const { return reinterpret_cast<const int32_t *>(this) + 7; }
};

__device__ inline void put(uint32_t *to, uint64_t v) {
    to[0] = static_cast<uint32_t>(v);
    to[1] = static_cast<uint32_t>(v >> 32);
}

}  // namespace

// fault_layout reads a number of every type and writes one of every type, as layoutOf in
// layout_test.go.
extern "C" __global__ void fault_layout(const Task *tasks, const Tile *tiles, const float *in, float *out, uint32_t *, unsigned char *,
                                        const uint32_t *models) {
    if (threadIdx.x > 0) return;
    const Tile &tile = tiles[blockIdx.x];
    for (uint32_t n = tile.first; n < tile.first + tile.count; n++) {
        const Task &t = tasks[n];
        const LayoutParams &p = paramsOf<LayoutParams>(t, in);
        const uint32_t times = t.params.len - 7;
        uint32_t *detail = reinterpret_cast<uint32_t *>(out) + t.detail.off, *next = reinterpret_cast<uint32_t *>(out) + t.next.off;
        for (uint32_t i = 0; i < t.fresh; i++) {
            const size_t at = static_cast<size_t>(t.x.off) + t.x.len - static_cast<size_t>(t.fresh - i) * t.dim + t.dim - 1;
            uint64_t whole = 0;
            double d;
            if (p.elem == 0) d = in[at];
            else if (p.elem == 1) d = reinterpret_cast<const double *>(in)[at];
            else whole = reinterpret_cast<const uint64_t *>(in)[at], d = static_cast<double>(static_cast<int64_t>(whole));
            const float score = static_cast<float>(d) * p.scale;
            out[t.scores.off + i] = p.negate ? -score : score;
            put(detail + 5 * i, static_cast<uint64_t>(__double_as_longlong(d - 1)));
            put(detail + 5 * i + 2, whole + static_cast<uint64_t>(p.seed) + static_cast<uint64_t>(static_cast<int64_t>(p.times()[i % times])));
            detail[5 * i + 4] = static_cast<uint32_t>(p.count) + i;
        }
        uint64_t carry = static_cast<uint64_t>(p.count) * t.fresh;
        if (t.carry.len > 0) {
            const uint32_t *from = reinterpret_cast<const uint32_t *>(t.after ? out : in) + t.carry.off;
            carry += from[0] | static_cast<uint64_t>(from[1]) << 32;
        }
        uint32_t sum = 0;
        for (uint32_t k = 0; k < t.model.len; k++) sum += models[t.model.off + k];
        put(next, carry);
        next[2] = sum;
        next[3] = t.bins.len > 0 ? __float_as_uint(in[t.bins.off + t.bins.len - 1]) : 0;
    }
}
