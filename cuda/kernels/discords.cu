// Op discords: package detectors/discord has the definition, the first Top discords of every length of
// a range. Distances are the definition's up to rounding; of subsequences whose distances are equal up
// to rounding, any may be found.
//
// One block computes a window of up to some thousand values (discords_window.h): all neighbours at the
// first length, and updates from each length to the next. All blocks compute a longer window, in which
// each length is a profile (discords_profile.h): a launch each for means and norms, steps, diagonals,
// distances and the discords. With a radius from the window before, they compute only the part of the
// profile that the radius requires (discords_radius.h). Of many lengths a few have profiles, and one
// block computes each of the others (discords_lengths.h). Range discords of a window of any length are found by all blocks, one
// length after the other (discords_ranged.h).
#include "discords_lengths.h"
#include "discords_radius.h"
#include "discords_ranged.h"
#include "discords_task.h"
#include "discords_window.h"

namespace discords {

// window scores the tasks of a tile, one after the other.
__device__ inline void window(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status) {
    DYNAMIC_SHARED(unsigned char, memory);
    __shared__ State s;
    const Tile &tile = tiles[blockIdx.x];
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        const Task &t = tasks[i];
        const Place to = placeOf(t, f32, out);
        const Params &p = *to.p;
        const int n = to.rows - to.from;
        const Memory a = memoryOf(memory, n);
        __syncthreads();
        if (threadIdx.x == 0) s.beyond = false;
        for (int c = 0; c < to.dim; c++) {
            const int first = c * p.lengths();
            clear(to, first, first + p.lengths());
            __syncthreads();
            if (p.minLength > n) continue;
            if (threadIdx.x == 0) {
                s.n = n;
                s.m = p.minLength;
                s.count = n - s.m + 1;
                s.exclusion = p.apart(s.m);
                s.wanted = p.top;
                s.excludeFlat = p.excludeFlat != 0;
            }
            load(a, reinterpret_cast<const double *>(f32) + t.x.off + static_cast<size_t>(to.from) * to.dim + c, n, to.dim);
            if (p.k == 1) neighbours(s, a);
            for (int length = first;; length++) {
                auto write = [&](const Discord &d, int rank) { to.write(length, rank, d); };
                if (p.k == 1) discordsOf(s, a, write);
                else discordsOfMany(s, a, p.k, write);
                const int m = s.m + p.lengthStep;
                if (s.beyond || m > p.maxLength || m > n) break;
                __syncthreads();
                if (p.k > 1) {
                    if (threadIdx.x == 0) s.m = m, s.count = n - m + 1, s.exclusion = p.apart(m);
                    __syncthreads();
                    continue;
                }
                for (int longer = m - p.lengthStep + 1; longer <= m; longer++) lengthen(s, a, p.apart(longer));
                repair(s, a);
            }
            __syncthreads();
        }
        if (s.beyond && threadIdx.x == 0) status[i] = statusLeft;
        __syncthreads();
        leave(to);
    }
}

}  // namespace discords

extern "C" __global__ void __launch_bounds__(discords::threads, 2) discords_window(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                                   uint32_t *status, unsigned char *scratch) {
    discords::window(tasks, tiles, f32, out, status);
}

// Longer windows. A tile is a length of a task: its part is the length's number, its count the place of
// the extremes. The tiles of discords_count, discords_lengths and discords_leave begin with two tiles
// of the task: see Lengths.

#define LONG(name, threads, blocks, call)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                                       uint32_t *status, unsigned char *scratch) {                         \
        discords::call(tasks, tiles, f32, out, status, scratch);                                                                           \
    }

LONG(discords_describe, 256, 2, describeLong)
LONG(discords_step, 256, 2, stepLong)
LONG(discords_probe, discords::lanes, 2, probeLong<double>)
LONG(discords_probe32, discords::lanes, 2, probeLong<float>)
LONG(discords_scan, discords::lanes, 2, scanLong<double>)
LONG(discords_scan32, discords::lanes, 2, scanLong<float>)
LONG(discords_finish, 256, 2, finishLong)
LONG(discords_pick, 1024, 1, pickLong)
LONG(discords_candidates, 1024, 1, candidatesLong)
LONG(discords_mark, 256, 2, markLong)
LONG(discords_near, discords::lanes, 2, nearLong)
LONG(discords_rest, discords::lanes, 2, restLong)
LONG(discords_among, 256, 2, amongLong)
LONG(discords_choose, 1024, 1, chooseLong)
LONG(discords_count, 1024, 1, countLong)
LONG(discords_anchors, discords::lanes, 2, scanAnchors<double>)
LONG(discords_anchors32, discords::lanes, 2, scanAnchors<float>)
LONG(discords_lengths, discords::lanes, 2, lengthsLong)
LONG(discords_leave, 1024, 1, leaveLong)
LONG(discords_range, 1024, 1, rangeLong)
LONG(discords_rank, 256, 2, rankLong)
LONG(discords_close, 1024, 1, closeLong)
