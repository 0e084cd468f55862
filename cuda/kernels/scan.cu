// Op scan, Poisson's model: package detectors/scan has the definition. Rectangles, ratios and
// p-values are those of the definition, to the bit.
//
// A block makes a grid's tables (scan_load): sums of the cells above and left of each corner, as
// exact integers in float64; what their counts exceed the expected ones by, and their baselines
// as shares of a power of two, in float32. A few rectangles give a good ratio to begin with
// (scan_seed). A warp has a strip of rows (scan_search): the sums of the strip's columns
// up to each are in shared memory, and a lane has a first column. With d the excess, E the expected
// count and s the share of the baselines, LLR <= d^2/(2E(1-s)^2), so most rectangles are below the best
// ratio so far by a few float32 operations: the last columns that are close one by one, the others
// eight at a time by the largest excess, and the least of E(1-s)^2 at both ends, between
// which it is larger. Float32 is allowed for its roundings, so nothing is lost; what passes has its ratio
// computed from the exact sums, by the CPU's operations. The best of all is picked
// by ratio, area and place, whatever the order (scan_pick). For further regions all
// this comes again, without the columns of those found.
//
// A block draws a null map (scan_null), count by count with integers, and searches it, beginning
// with the lowest ratio of the regions and ending at the highest.
//
// Floor, n=128: 8,256 strips of 128 first columns; of each 16 last columns one by one, in 7
// instructions, and some 6 groups, in 12: 1.06 M lanes times 190 instructions, 6 us on an H200 that
// issues 132 x 128 x 1.98e9 lanes a second; 6 ms for 999 null maps. Bytes: 16 a strip's column from the L2, 17 MB, 3 us.
#include "scan_null.h"

// A task has two tiles, whose parts are, << 16, the numbers of its blocks that search and that draw
// null maps; a launch has as many blocks of each task.
#define SCAN(name, threads, least, number, body)                                                                             \
    extern "C" __global__ void __launch_bounds__(threads, least) name(const Task *tasks, const Tile *tiles, const float *f32, \
                                                                      float *out, uint32_t *status, unsigned char *scratch) { \
        DYNAMIC_SHARED(unsigned char, memory);                                                                                \
        const int searchers = tiles[0].part >> 16, nulls = tiles[1].part >> 16;                                               \
        const ScanParams &p = paramsOf<ScanParams>(tasks[tiles[0].first], f32);                                               \
        const int blocks = number, block = blockIdx.x % blocks;                                                               \
        const Tile &tile = tiles[2 * (blockIdx.x / blocks)];                                                                  \
        const Task &t = tasks[tile.first];                                                                                    \
        const scan::Map m = scan::mapOf(t, f32, scratch + static_cast<size_t>(tile.scratch) * 256, searchers);                \
        body;                                                                                                                 \
        (void)memory, (void)block, (void)nulls, (void)p;                                                                      \
    }

SCAN(scan_load, 1024, 1, 1, scan::load(t, f32, out, status + tile.first, m))
SCAN(scan_seed, 256, 4, scan::seeders(p), scan::seed(m, block, blocks))
SCAN(scan_search, 256, 4, searchers, scan::search(m, block, blocks, memory))
SCAN(scan_pick, 256, 1, 1, scan::pick(m, searchers))
SCAN(scan_null, 512, 2, nulls, scan::nulls(m, paramsOf<ScanParams>(t, f32).seed, block, memory))
SCAN(scan_finish, 32, 1, 1, scan::finish(t, m, out))
