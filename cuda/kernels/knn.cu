// Op KNN: package detectors/knn has the definition. Neighbours are as in float64, ties in the order
// of the points. So are their distances, except for the last digits of float32 in small windows.
//
// There are eight methods:
//
//   - A point among those before it (knn_before): a warp a point, in float64. Copying
//     the window to the device takes longer than that.
//   - A run of readings of one value among up to 2,048 before it, up to 64 neighbours, not listed
//     (knn_recent): a warp a point, in float32.
//   - A point among the points of a reference set, the model of its task (knn_reference): float32 squares against a bound,
//     16 points a warp, of as many tasks with one model as there are; float64 decides, and sums by point, as the CPU's
//     form does: its weights to the bit.
//   - All points of a window of up to some thousand (knn_window): the search of op LOF,
//     lof_search.h, one block a window, with the window in shared memory.
//   - All points of a window of up to 4,096 of one coordinate, without listed neighbours
//     (knn_line): a block sorts them, and a point's neighbours lie beside it (line.h).
//     One point among those before it uses float32 distances (knn_before_line).
//   - All points of a larger set of up to four coordinates, up to 64 neighbours, not
//     listed (knn_index, knn_nearest): from leaves of points that lie side by side.
//   - All points of other large sets of five or more coordinates, up to 128 neighbours (knn_peaks, knn_load,
//     knn_halves, knn_tensor): all pairs by products of matrices, twice, by all blocks of the device.
//   - All points of the other large sets, and groups of points that knn_tensor leaves (knn_peaks, knn_load,
//     knn_scan, knn_finish): brute force by all blocks of the device.
//
// knn_scan: a thread has up to four queries in registers and visits all places, eight or four at a
// time. The places lie in shared memory in an order unrelated to time, and all threads read the same
// coordinates at once. A thread stores the points within its query's bound, mostly none, in a list in
// device memory. A warp shrinks a full list to the k nearest and takes the bound from the k-th. With
// room for 2.5 k entries that happens some ten times in a million places, and for k=50 about 900 of
// them enter a list.
//
// From four dimensions on, squares of differences are expanded after centring: |y|^2 - 2xy, an
// instruction a dimension. Norms are reduced by the largest amount by which rounding can enlarge the
// result. So a point outside the bound is not a neighbour, regardless of the norms, and a point within
// it has its square of differences computed. Where too many points are within the bound, far from the
// origin, the remaining search uses differences. Values are centred only if that is exact. Squares are
// float32 until a list is final; float64 decides those that float32 cannot distinguish from the k-th.
//
// knn_tensor: a warp has 64 queries (32 from 17 coordinates on) and multiplies them with all places, 16 at a time,
// in numbers of 16 bits: coordinates after centring, scaled by a power of two. Further rows of the product add the
// places' norms and errors: a bound of what 16 bits lose, proportional to the norm. In the first pass sums have
// the errors added. Each query has the least sum of 64, 128 or 256 groups of places. If as many groups as
// neighbours, and one for the query itself, have a least sum within a limit, all neighbours are within it. The
// second pass has the errors subtracted and the limit as the start of the sum, so that the sign tells whether a
// place may be a neighbour. These, mostly 1.1 to 1.3 k, float64 decides. A query with many places within its error
// keeps the nearest of them and lowers its limit; where that happens too often, as far from all points, it searches
// in float32 differences alone; with many such queries or ties knn_scan searches for the warp's group of queries.
//
// Floor of knn_tensor: in the first pass a minimum a pair, 64 of them a cycle of a multiprocessor; in the second
// 16 products a pair (d <= 12): for the 3.4e11 pairs of 581,012 points 20 ms and 18 ms on an H200. It takes 108 ms.
// Places come through a ring in shared memory, since loads into registers, two steps ahead, wait where the registers
// before them are moved (168 ms). Four blocks of 128 registers, instead of three of 154, take 3.5 ms instead of 4.5
// for 16 sets of 16,384 x 8, and 2 % more for 581,012 points. A second pass that looked at each sum of a step with a
// place within a limit, and selection in shared memory, took 8.0 ms for the 16 sets, instead of 4.8 then.
//
// Floor of knn_scan, instructions of a pair: d=2 four and a comparison, d=10 ten and one. 1e12 pairs of 1,000,000
// points are 0.15 s on an H200, 3.4e11 of 581,012 0.12 s.
//
// knn_recent: a lane has 16 successive points, 512 points a round, and its window of readings slides through
// registers. Squares are sums of squared differences in float32, of 16 readings each and then of these sums:
// with up to 64 readings 21 roundings at most, so that a distance is the definition's to 7e-7. The k nearest are
// the least of those within the k-th least minimum of 64 groups, mostly 30 to 60, which the warp sorts. Where
// squares underflow, float64 decides (exactly).
//
// Floor of knn_recent: 64 instructions a pair of runs of 32, 130,000 for 2,047 points: 256 M scores a second on
// an H200. It does 78 M, 93 M with windows in the L2: what follows the squares takes another third, and reading
// instructions the most of the rest. With rounds unrolled and 22 loads at a time the code had 75 KB, and did
// 44 M and 61 M; rounds in a loop 49 M and 71 M; 4 loads at a time 69 M and 89 M; sorts in loops 82 M and 96 M,
// on another H200. Five blocks of 96 registers a thread were 2 to 10 % slower than four of 128.
//
// knn_reference: 64 points of the set are compared at a time, a lane has four queries and eight points, whose
// coordinates come from shared memory. Squares are sums of squared differences, so that their error is relative to
// them, wherever the points lie. Those within a query's bound go to its list; a full list is cut to the nearest by
// float32, or, where ties or too small differences leave too many, by float64. The first bound is the k-th least of
// the least squares of 64 groups of the first 256 or 512 points, which are compared again: with k=10 and room for 64
// some 90 of 10,000 points enter a list, which is cut once, in place of 230 and four times.
//
// Floor of knn_reference: a multiply-add for each number of each point. Differences and comparison make it 2d+1
// instructions a pair, at most 48 % of the floor at d=16. Expanded squares would need half, and a bound of what they
// cancel.
//
// knn_index_extent, _keys, _count, _scatter, _leaves sort the points along Hilbert's curve by radix,
// and compute a box for each 32 and each 1,024 successive points. knn_nearest: a warp has 32 successive
// points, a thread one of them with its k least squares in registers. The warp visits the leaves whose
// box is nearer than the k-th square of one of its points. Squares are float32: the i-th least is off
// by at most (d+2) 2^-24 of itself, so a sum of their roots is the definition's to 4e-7. A set with
// points so close that squares underflow goes to the CPU.
//
// Floor of knn_nearest: an insertion takes 2k instructions of a warp, and with k=50 and d=2 about 400
// of about 800 visited points are inserted for one of 32: 1.3e9 warp instructions for 1,000,000 points,
// 1.6 ms on an H200.
#include "knn_line.h"
#include "knn_nearest.h"
#include "knn_recent.h"
#include "knn_reference.h"
#include "knn_scan.h"
#include "knn_tensor.h"
#include "knn_window.h"

extern "C" __global__ void __launch_bounds__(128) knn_before(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                             uint32_t *status, unsigned char *scratch) {
    knn::before(tasks, tiles, f32, out);
}

extern "C" __global__ void __launch_bounds__(128) knn_before_line(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                  uint32_t *status, unsigned char *scratch) {
    knn::beforeLine(tasks, tiles, f32, out);
}

// A lane has 16 E of a window's points.
#define RECENT(name, E)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(128, 4) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                              uint32_t *status, unsigned char *scratch) {                    \
        knn::recent<E>(tasks, tiles, f32, out);                                                                              \
    }

RECENT(knn_recent_1, 1)
RECENT(knn_recent_2, 2)
RECENT(knn_recent_4, 4)

// A thread has E of a window's points.
#define LINE(name, E, threads)                                                                                               \
    extern "C" __global__ void __launch_bounds__(threads, 1024 / threads) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                               uint32_t *status, unsigned char *scratch) {                   \
        knn::onLine<E>(tasks, tiles, f32, out);                                                                               \
    }

LINE(knn_line_1, 1, 32)
LINE(knn_line_2, 2, 32)
LINE(knn_line_4, 4, 32)
LINE(knn_line_8, 8, 512)

#define WINDOW(name, D)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(256, 3) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                              uint32_t *status, unsigned char *scratch) {                     \
        knn::window<D>(tasks, tiles, f32, out, scratch);                                                                       \
    }

WINDOW(knn_window, 0)
WINDOW(knn_window_2, 2)
WINDOW(knn_window_4, 4)
WINDOW(knn_window_8, 8)

extern "C" __global__ void __launch_bounds__(256) knn_peaks(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                            uint32_t *status, unsigned char *scratch) {
    knn::peaks(knn::setOf(tasks, tiles, f32, scratch));
}

extern "C" __global__ void __launch_bounds__(256) knn_load(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                           uint32_t *status, unsigned char *scratch) {
    knn::load(knn::setOf(tasks, tiles, f32, scratch), out);
}

extern "C" __global__ void __launch_bounds__(256) knn_halves(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                             uint32_t *status, unsigned char *scratch) {
    knn::halves(knn::setOf(tasks, tiles, f32, scratch));
}

// By the numbers of a row of a product.
#define TENSOR(name, most)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(knn::lanes, 4) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                                     uint32_t *status, unsigned char *scratch) {                      \
        knn::tensor<knn::tensorSteps(most), knn::tensorTiles(most)>(tasks, tiles, f32, out, scratch);                                  \
    }

TENSOR(knn_tensor_16, 10)
TENSOR(knn_tensor_32, 16)
TENSOR(knn_tensor_48, 32)
TENSOR(knn_tensor_80, 64)

#define SCAN(name, D)                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(knn::lanes, 3) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                                     uint32_t *status, unsigned char *scratch) {                      \
        knn::scan<D>(tasks, tiles, f32, out, scratch);                                                                                 \
    }

SCAN(knn_scan_2, 2)
SCAN(knn_scan_4, 4)
SCAN(knn_scan_6, 6)
SCAN(knn_scan_8, 8)
SCAN(knn_scan_10, 10)
SCAN(knn_scan_16, 16)
SCAN(knn_scan_32, 32)
SCAN(knn_scan_64, 64)

#define INDEX(name, threads, does)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(threads) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                               uint32_t *status, unsigned char *scratch) {                     \
        const knn::Index s = knn::indexOf(tasks, tiles, f32, scratch);                                                         \
        does;                                                                                                                  \
    }

INDEX(knn_index_extent, 256, knn::extents(s))
INDEX(knn_index_keys, 256, knn::keys(s, out))
INDEX(knn_index_count, knn::sortThreads, knn::count(s))
INDEX(knn_index_scatter, knn::sortThreads, knn::scatter(s))
INDEX(knn_index_leaves_2, 256, if (!s.header->spoilt) knn::leaves<2>(s))
INDEX(knn_index_leaves_4, 256, if (!s.header->spoilt) knn::leaves<4>(s))

#define NEAREST(name, W, K)                                                                                                             \
    extern "C" __global__ void __launch_bounds__(knn::nearestThreads, 4) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                                              uint32_t *status, unsigned char *scratch) {               \
        knn::nearest<W, K>(tasks, tiles, f32, out, status, scratch);                                                                    \
    }

NEAREST(knn_nearest_2_10, 2, 10)
NEAREST(knn_nearest_2_20, 2, 20)
NEAREST(knn_nearest_2_32, 2, 32)
NEAREST(knn_nearest_2_50, 2, 50)
NEAREST(knn_nearest_2_64, 2, 64)
NEAREST(knn_nearest_4_10, 4, 10)
NEAREST(knn_nearest_4_20, 4, 20)
NEAREST(knn_nearest_4_32, 4, 32)
NEAREST(knn_nearest_4_50, 4, 50)
NEAREST(knn_nearest_4_64, 4, 64)

extern "C" __global__ void __launch_bounds__(knn::lanes) knn_finish(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                    uint32_t *status, unsigned char *scratch) {
    knn::finishParts(knn::setOf(tasks, tiles, f32, scratch), out);
}

extern "C" __global__ void __launch_bounds__(128, 4) knn_reference(const Task *tasks, const Tile *tiles, const float *f32, float *out,
                                                                   uint32_t *status, unsigned char *scratch, const uint32_t *models) {
    knn::reference(tasks, tiles, f32, out, models);
}
