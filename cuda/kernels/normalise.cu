// Normalised points.
//
// Where a task compares the shapes of points, z-normalised runs of rows (vec.Embed), the plan has this kernel write
// the points to memory after the batch's, before all launches of ops, and the kernels of the op read them as rows. The
// operations are vec.Normalise's, in float64 and in its order, so the points are the CPU's to the bit.
//
// A block has up to 1,024 successive points, two tiles: rows are read from element first of f32 on, of part numbers
// each, scratch of them make a point; count points are written from element first of the second tile on. A thread has
// a point. Rows that windows of several tasks share are normalised once (cuda/plan/normalise.go).
//
// Floor: a point written, 64 bytes for 16 rows of one value, and read again by the op; 16 divisions and 16 of
// them again in float64, about 600 instructions, are more: 1.5e10 points/s on an H200 by its float64 pipes.
#include "device.h"

extern "C" __global__ void __launch_bounds__(128) normalise(const Task *, const Tile *tiles, const float *f32, float *, uint32_t *,
                                                            unsigned char *) {
    const Tile &from = tiles[2 * blockIdx.x], &to = tiles[2 * blockIdx.x + 1];
    const int dim = from.part, m = from.scratch;
    const double n = m;
    for (uint32_t at = threadIdx.x; at < from.count; at += blockDim.x) {
        const float *x = f32 + from.first + static_cast<size_t>(at) * dim;
        float *y = const_cast<float *>(f32) + to.first + static_cast<size_t>(at) * dim * m;
        for (int c = 0; c < dim; c++) {
            double mean = 0, sum = 0;
            bool equal = true;
            for (int i = 0; i < m; i++) {
                float v = x[i * dim + c];
                mean = __dadd_rn(mean, __ddiv_rn(static_cast<double>(v), n));
                equal = equal && v == x[c];
            }
            for (int i = 0; i < m; i++) {
                double d = __dsub_rn(static_cast<double>(x[i * dim + c]), mean);
                sum = __dadd_rn(sum, __dmul_rn(d, d));
            }
            double sd = equal ? 0 : __dsqrt_rn(__ddiv_rn(sum, n));
            for (int i = 0; i < m; i++) {
                double d = __dsub_rn(static_cast<double>(x[i * dim + c]), mean);
                y[i * dim + c] = sd == 0 ? 0.f : static_cast<float>(__ddiv_rn(d, sd));
            }
        }
    }
}
