// The window cache.
//
// An update brings the newest rows of one window, which is a ring of rows in float64 in memory that
// outlives the batch, and makes the X of a task from it: values less the median of the first, the
// middle and the last of the window's common rows (detectors.CenterRows), column by column, in float64,
// then rounded. These are the operations of an owner that copies the whole window (detectors.Centers
// and Pack), so X has the same bits, and the kernels that read it need no change.
//
// A warp computes the updates of one window in order, because a later one overwrites rows that an
// earlier one reads. Updates lie in the place of tiles, a multiple of four of them. An update that is
// not the first of its window does nothing by itself.
//
// Floor: a window read and its X written, at w=100 of IKA-SST 406 rows, 4.9 KB: 1.1 ns of an H200's
// memory, an eighth of the score's time.
#include "device.h"

namespace {

struct Update {
    double *ring;
    uint32_t rows, dim;  // of the ring and of X
    uint32_t first;      // row of the ring that is X's oldest
    uint32_t x;          // element of f32
    uint32_t fresh, n;   // element of f32 where the newest n rows lie, as float64
    uint32_t next;       // 1 + index of the window's next update
    uint32_t flags;      // 1: a window, 2: not its first update
    uint32_t common;     // row of X, the first of the rows that it is centred on
    uint32_t commonN;    // the number of these rows
};
static_assert(sizeof(Update) == 48, "layout");

__device__ double median(double a, double b, double c) {
    if (a > b) {
        double t = a;
        a = b, b = t;
    }
    return c < a ? a : c > b ? b : c;
}

}  // namespace

extern "C" __global__ void window_cache(const Task *, const Tile *tiles, const float *f32, float *, uint32_t *, unsigned char *) {
    const Update *updates = reinterpret_cast<const Update *>(tiles);
    uint32_t at = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (updates[at].flags != 1) return;
    for (;;) {
        const Update r = updates[at];
        uint32_t all = r.rows * r.dim, from = r.first * r.dim, kept = (r.rows - r.n) * r.dim;
        const double *fresh = reinterpret_cast<const double *>(f32 + r.fresh);
        for (uint32_t i = kept + lane; i < all; i += 32) {
            uint32_t to = from + i;
            r.ring[to < all ? to : to - all] = fresh[i - kept];
        }
        __syncwarp();
        auto value = [&](uint32_t i) {
            i += from;
            return r.ring[i < all ? i : i - all];
        };
        uint32_t origin = r.common * r.dim, middle = origin + r.commonN / 2 * r.dim, last = origin + (r.commonN - 1) * r.dim;
        float *x = const_cast<float *>(f32) + r.x;
        if (r.dim == 1) {
            double center = median(value(origin), value(middle), value(last));
#pragma unroll 4
            for (uint32_t i = lane; i < all; i += 32) x[i] = static_cast<float>(value(i) - center);
        } else {
            for (uint32_t i = lane; i < all; i += 32) {
                uint32_t c = i % r.dim;
                x[i] = static_cast<float>(value(i) - median(value(origin + c), value(middle + c), value(last + c)));
            }
        }
        if (r.next == 0) return;
        at = r.next - 1;
        __syncwarp();
    }
}
