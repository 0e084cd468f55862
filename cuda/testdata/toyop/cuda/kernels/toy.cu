// Op Toy: a block computes the tasks of a tile in order, its threads 16 of their rows a round.
// Scratch is zero at the beginning of each.
#include "device.h"
#include "toy_params.h"

extern "C" __global__ void toy(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    const Tile tile = tiles[blockIdx.x];
    uint32_t *zeroed = reinterpret_cast<uint32_t *>(scratch + tile.scratch * 256ull);
    const bool zero = *zeroed == 0;
    __syncthreads();
    if (threadIdx.x == 0) *zeroed = 1;
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        const Task &t = tasks[i];
        const uint32_t word = status[i];
        if (word != statusTodo && word != statusMore) continue;
        const ToyParams &p = paramsOf<ToyParams>(t, f32);
        int64_t count = p.countFrom, scored = 0;
        uint32_t had = 0;
        if (t.carry.len > 0) {
            memcpy(&count, (t.after ? out : f32) + t.carry.off, 8);
            memcpy(&had, (t.after ? out : f32) + t.carry.off + 4, 4);
        }
        if (word == statusMore) memcpy(&scored, out + t.next.off, 8), scored -= count;
        const uint32_t first = static_cast<uint32_t>(scored), end = min(t.fresh, first + 16);
        __syncthreads();
        const double *x = reinterpret_cast<const double *>(f32) + t.x.off + t.x.len - t.fresh * t.dim;
        for (uint32_t row = first + threadIdx.x; row < end; row += blockDim.x) {
            double most = 0;
            for (uint32_t c = 0; c < t.dim && most == most; c++) {
                double d = fabs(x[row * t.dim + c] - (x - p.lag * t.dim)[row * t.dim + c]);
                if (d > most || d != d) most = d;
            }
            out[t.scores.off + row] = zero ? static_cast<float>(most * static_cast<double>(p.scale)) : -1;
        }
        if (threadIdx.x == 0) {
            count += end;
            had += end == t.fresh;
            memcpy(out + t.next.off, &count, 8);
            memcpy(out + t.next.off + 2, x + (t.fresh - 1) * t.dim, 8);
            memcpy(out + t.next.off + 4, &had, 4);
            status[i] = end < t.fresh ? statusMore : statusDone;
        }
        __syncthreads();
    }
}
