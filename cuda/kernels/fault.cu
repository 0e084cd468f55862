// Faults on demand: what a broken kernel does to its process, for tests of the
// worker's recovery, and kernels for what no op does yet, rounds and models. odradek-cuda has these only
// with its flag -faults.
#include "device.h"

// fault_address writes where no memory is: CUDA_ERROR_ILLEGAL_ADDRESS.
extern "C" __global__ void fault_address() { *reinterpret_cast<volatile uint32_t *>(uintptr_t{8}) = 1; }

// fault_endless never ends. nvcc 11.8 takes a loop on a volatile variable of its
// own away, and the kernel ended at once.
extern "C" __global__ void fault_endless() {
    for (;;) {
        asm volatile("nanosleep.u32 1000;");
    }
}

// fault_rounds asks for as many rounds as the first word of a task's parameters says, and
// counts them in Next, whose second word says whether zeroed scratch was not zero.
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

// fault_models sums the words of a task's model up into Next.
extern "C" __global__ void fault_models(const Task *tasks, const Tile *tiles, const float *, float *out, uint32_t *, unsigned char *,
                                        const uint32_t *models, const Span *model) {
    if (threadIdx.x > 0) return;
    const uint32_t i = tiles[blockIdx.x].first;
    uint32_t sum = 0;
    for (uint32_t k = 0; k < model[i].len; k++) sum += models[model[i].off + k];
    reinterpret_cast<uint32_t *>(out)[tasks[i].next.off] = sum;
}
