// Op scan: package detectors/scan has the definition. Rectangles, ratios and p-values are the definition's, to the
// bit.
//
// A warp makes the sums of a row of cells (scan_rows), and a block the tables of 32 columns
// (scan_columns): sums of the cells above and left of each corner, as exact integers in float64; and in
// float32 their excess of the counts over the expected ones, and their baselines as shares of a power of
// two. A few rectangles give a good first ratio (scan_seed). A warp takes a strip of rows (scan_search):
// shared memory has the prefix sums of the strip's columns, and a lane takes a first column. With the
// excess d, the expected count E and the share s of the baselines, Poisson's LLR <= d^2/(2E(1-s)^2), so
// a few float32 operations exclude most rectangles, by the best ratio so far. The nearest last columns
// are tested one by one, the others eight at a time, by the largest excess and the least of E(1-s)^2 at
// both ends of the group, between which it is larger. The tests allow for float32's roundings, so no
// rectangle is lost. A warp queues the rectangles that pass, and computes the ratios of up to 32 at once,
// from the exact sums, by the CPU's operations: 32 take 2 us, as one does. The last block that ends picks
// the best by ratio, area and place. Further regions repeat this without the columns of those found.
//
// Bernoulli's LLR has the same two terms of the cases C, and two of the trials O that are none: inside,
// where there are d fewer than O s, and outside. With h(u) = (1+u)ln(1+u)-u, h(-v) <= v^2(1+v)/2 and h(v) <= v^2/2, so
// LLR <= d^2/2 (1/(C s (1-s)^2) + 1/(O s (1-s)) + d/(O s)^2), and d^2 has to exceed 2 LLR C times
// s^2 (1-s)^2 / (s + C/O s (1-s) + C/O^2 (1-s)^2 d), whose logarithm is concave in s.
//
// Of rectangles below what is expected the excess has the other sign. Cases and others change places in Bernoulli's bound; Poisson's
// is d^2/2 (1/(C s (1-s)) + d/(C s)^2). One form has the bounds of both models and sides; in both directions a warp searches a
// strip for one side and then for the other.
//
// Of the normal model LLR = d^2/(2V) (1/b + 1/(B-b)), which the filter takes as it is: d^2 against 2 LLR V B s (1-s). The
// exponential model's is b g(d/E) + (B-b) g(-d/(C-E)) with g(u) = u - ln(1+u): g(u) <= u^2/2 and g(-v) <= v^2/(2(1-v)), so with
// D = d/C, LLR <= B D^2/2 (1-D)/(s(1-s-D)) above what is expected; below it, s and 1-s change places. s(1-s-D)/(1-D) is concave in s
// and falls with D. Neither model has null maps.
//
// A block draws a null map (scan_null), count by count with integers, in shared memory where the table
// fits, and searches it, from the lowest ratio of the regions up to the highest. Blocks without a map to
// draw take strips of others' maps.
//
// Floor, n=128: 8,256 strips of 128 first columns; of each 8 last columns one by one, in 9
// instructions, and some 10 groups, in 14: 1.06 M lanes times 210 instructions, 7 us on a GPU that
// issues 132 x 128 x 1.98e9 lanes a second; 7 ms for 999 null maps. Bytes: 16 a strip's column from the
// L2, 17 MB, 3 us. 64 maps take 19 us each, 2 of them outside of the search. One map takes 48 us: the
// first three launches 19; in the search half of the warps end after 16, and the last one after 21 to 31.
#include "scan_null.h"

// A task has two tiles. Their parts are, << 16, the numbers of its blocks that search and of those that
// draw null maps; a launch has the same number of blocks for each task. The second has, << 8, the number
// of devices that divide the work in the task, and the number of this one. Each counts the null maps of
// its portion; without null maps each searches the strips of its portion.
#define SCAN(name, threads, least, number, body)                                                                             \
    extern "C" __global__ void __launch_bounds__(threads, least) name(const Task *tasks, const Tile *tiles, const float *f32, \
                                                                      float *out, uint32_t *status, unsigned char *scratch) { \
        DYNAMIC_SHARED(unsigned char, memory);                                                                                \
        const int searchers = tiles[0].part >> 16, nulls = tiles[1].part >> 16;                                               \
        const ScanParams &p = paramsOf<ScanParams>(tasks[tiles[0].first], f32);                                               \
        const int blocks = number, block = blockIdx.x % blocks;                                                               \
        const Tile &tile = tiles[2 * (blockIdx.x / blocks)];                                                                  \
        const Task &t = tasks[tile.first];                                                                                    \
        const scan::Map m = scan::mapOf(t, f32, scratch + static_cast<size_t>(tile.scratch) * 256, searchers, tiles[1].part & 0xffff); \
        body;                                                                                                                 \
        (void)memory, (void)block, (void)nulls, (void)p;                                                                      \
    }

SCAN(scan_rows, 256, 4, (p.rows + 7) / 8, scan::rows(t, f32, out, m, block))
SCAN(scan_columns, 512, 2, (p.columns + 31) / 32, scan::columns(status + tile.first, m, paramsOf<ScanParams>(t, f32).seed, block))
SCAN(scan_seed, 256, 4, scan::seeders(p), scan::seed(m, block, blocks))
SCAN(scan_search, 256, 4, searchers, scan::search<scan::plain>(t, m, out, block, blocks, memory))
SCAN(scan_search_general, 256, 4, searchers, scan::search<scan::general>(t, m, out, block, blocks, memory))
SCAN(scan_search_values, 256, 4, searchers, scan::search<scan::values>(t, m, out, block, blocks, memory))
SCAN(scan_guide, 256, 4, scan::guides, (scan::guide(m, block, blocks), scan::idle(m, nulls, block)))
SCAN(scan_null, 512, 2, nulls, scan::nulls<scan::plain>(m, block, blocks, memory))
SCAN(scan_null_general, 512, 2, nulls, scan::nulls<scan::general>(m, block, blocks, memory))
SCAN(scan_finish, 32, 1, 1, scan::finish(t, m, out))
