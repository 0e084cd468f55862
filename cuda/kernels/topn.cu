// Op topn: package detectors/knn has the definition. The points and their weights are as in float64, to the
// bit.
//
// A point with as many others as it needs within the n-th part of a weight, n others being needed, has a lower weight.
// So points are left out without their neighbours being known (SolvingSet, Angiulli et al. 2013, leaves them out by a
// bound of their weight): a count needs no list, and ends at the first n points, which mostly lie close by.
//
//   - topn_begin, _survey, _keys, _tally, _scatter, _leaves sort the points along a curve, and compute a box for each 32
//     and each 1,024 successive points. A key has 24 bits, each of the coordinate whose cells are the widest so far,
//     so that points of any number of coordinates that are side by side are mostly close.
//   - topn_search finds the weights of 512 points, evenly spaced in that order; the least of the largest weights is the
//     first cut.
//   - topn_count counts, by the cut, for each point of a leaf the others near it, up to 16 leaves before and
//     after. topn_search finds the weights of the 512 to 1,024 points with the fewest. They contain most of the largest:
//     the next cut is nearly the last one.
//   - topn_count counts again, of points that are left also among all leaves whose box is near enough. A warp with few
//     of them leaves that to topn_search.
//   - topn_search finds the weights of the points with the fewest near, then of all others, and drops each as soon as
//     its nearest so far have a lower sum than the cut.
//   - topn_step, a block, finds cuts, and writes the largest weights at the end.
//
// In topn_count a lane has a point, and all lanes read the same other. In topn_search a warp has a point, and a lane one of
// 32 others. Both compare squares in float32, of differences, which are off by at most (d+2) 2^-24 of themselves:
// topn_count within a square that is reduced by more than that, topn_search within one that is enlarged. What
// topn_search then finds within it, float64 decides. Values are scaled by a power of two, so that squares do not
// overflow; where they may underflow, no point is left out by a square that underflow can reach.
//
// A set of which too many points are left for all others to be searched goes to the CPU.
//
// In a simulation of the order and the counts, of 286,048 x 10 (cover) with k=10 14.6 % of the points are left by the
// first cut and 1.0 % by the second, of 567,498 x 3 (http) 3.7 % and 0.02 %, of 1,000,000 x 2 normal ones 3.8 % and
// 0.01 %; with k=50 38 % and 1.8 %, 5.0 % and 0.03 %, 3.7 % and 0.01 %. A count takes 29 leaves and 7.4 for a leaf of cover, 6 and 2
// for one of the others.
#include "topn_count.h"
#include "topn_order.h"
#include "topn_search.h"
#include "topn_step.h"

#define TOPN(name, threads, tile, does)                                                                                          \
    extern "C" __global__ void __launch_bounds__(threads) name(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                               uint32_t *status, unsigned char *scratch) {                     \
        const topn::Set s = topn::setOf(tasks, tiles[tile], f32, scratch);                                                     \
        does;                                                                                                                  \
    }

// topn_begin and topn_step have a block a task.
TOPN(topn_begin, 128, blockIdx.x * (tiles[0].part >> 16), topn::begin(s))
TOPN(topn_survey, 256, blockIdx.x, topn::survey(s))
TOPN(topn_keys, 256, blockIdx.x, topn::keys(s, out))
TOPN(topn_tally, knn::sortThreads, blockIdx.x, knn::count(s.index))
TOPN(topn_scatter, knn::sortThreads, blockIdx.x, knn::scatter(s.index))
TOPN(topn_step, 1024, blockIdx.x * (tiles[0].part >> 16), topn::step(s, out, status, tiles[blockIdx.x * (tiles[0].part >> 16)].first))

// By the numbers of a place.
#define WIDE(W)                                                                                                                       \
    TOPN(topn_leaves_##W, 256, blockIdx.x, topn::leaves<W>(s))                                                                       \
    extern "C" __global__ void __launch_bounds__(topn::threads) topn_count_##W(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                                               uint32_t *status, unsigned char *scratch) {            \
        topn::count<W>(tasks, tiles, f32, scratch);                                                                                  \
    }                                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(topn::threads) topn_search_##W(const Task *tasks, const Tile *tiles, const float *f32, float *out, \
                                                                                uint32_t *status, unsigned char *scratch) {           \
        topn::search<W>(tasks, tiles, f32, scratch);                                                                                 \
    }

WIDE(2)
WIDE(4)
WIDE(8)
WIDE(12)
WIDE(16)
WIDE(32)
WIDE(64)
