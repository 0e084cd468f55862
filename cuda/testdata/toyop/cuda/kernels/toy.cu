// Op Toy: a block goes through the tasks of a tile, its threads through their rows.
#include "device.h"
#include "params.h"

extern "C" __global__ void toy(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *) {
    const Tile tile = tiles[blockIdx.x];
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        const Task &t = tasks[i];
        const ToyParams &p = *reinterpret_cast<const ToyParams *>(f32 + t.params.off);
        const double *x = reinterpret_cast<const double *>(f32) + t.x.off + t.x.len - t.fresh * t.dim;
        for (uint32_t row = threadIdx.x; row < t.fresh; row += blockDim.x) {
            double most = 0;
            for (uint32_t c = 0; c < t.dim && most == most; c++) {
                double d = fabs(x[row * t.dim + c] - (x - p.lag * t.dim)[row * t.dim + c]);
                if (d > most || d != d) most = d;
            }
            out[t.scores.off + row] = static_cast<float>(most * static_cast<double>(p.scale));
        }
        if (threadIdx.x == 0) {
            uint32_t words[2];
            int64_t count = p.countFrom;
            if (t.carry.len > 0) memcpy(&count, (t.after ? out : f32) + t.carry.off, 8);
            count += t.fresh;
            memcpy(words, &count, 8);
            memcpy(out + t.next.off, words, 8);
        }
        __syncthreads();
    }
}
