// Faults on demand: what a broken kernel does to its process, for tests of the
// worker's recovery. odradek-cuda launches these only with its flag -faults.
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
