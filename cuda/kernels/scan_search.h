// Op scan: the search for the most anomalous rectangle. See scan.cu.
#pragma once
#include "scan_map.h"

namespace scan {

constexpr int wide = 8;      // columns of a group
constexpr int near = wide;  // columns that are tested one by one
constexpr float never = -1e30f;  // an excess that no rectangle has
constexpr int seedCells = 8192;  // of a large grid, for each block that seeds with rectangles of a size
constexpr int seedLeast = 2048;  // of a small one
constexpr int seedBlocks = 8;    // of a size, more only for a large grid
constexpr int searchWarps = 8, nullWarps = 16;  // of a block
constexpr int queued = 64;   // rectangles of a warp's queue, at most

// stripBytes is the shared memory of a warp: its strip's columns, and groups of these.
__device__ inline int paddedColumns(int cols) { return (cols + 31) / 32 * 32; }
__device__ inline int stripBytes(int cols) { return (paddedColumns(cols) + near) * 8 + (paddedColumns(cols) / wide + 4) * 16; }

// Bound is the filter of a side: the limit of a squared excess is the level times scale times Search::spread.
struct Bound {
    double scale;
    float weight, odds, curve;
};

// Form is the filter's: for Poisson's model and rectangles above what is expected, for all models of events, or for models of values,
// the normal and the exponential one.
enum Form : int { plain, general, values };

// Search is the state of a block's search, in shared memory: a map whose counts have type C.
template <class C, Form form> struct Search {
    int rows, cols, stride, maxRows, maxCols, found;
    const C *counts;
    const double *baselines;
    const float *excess, *shares;
    const Candidate *regions;  // found ones, which no rectangle may overlap
    Total total;
    float unit, shareError;
    float error[sizeof(C) == 8 ? searchWarps : nullWarps];  // of an excess, by warp
    Bound bound[2];            // by side: above, below
    int firstSide, lastSide;
    unsigned long long *bar;   // bits of the largest ratio so far
    uint32_t queue[queued * (sizeof(C) == 8 ? searchWarps : nullWarps)];  // by warp: first and last columns, see consider
    Candidate mine[32 * (sizeof(C) == 8 ? searchWarps : nullWarps)];  // by thread

    __device__ void begin(const Map &m) {
        const Head &h = *m.head;
        mine[threadIdx.x].ratio = 0, mine[threadIdx.x].at = {0, 0, 0, 0};
        if (threadIdx.x > 0) return;
        rows = m.rows, cols = m.cols, stride = m.stride, maxRows = m.maxRows, maxCols = m.maxCols, found = 0;
        baselines = m.baselines, shares = m.shares, regions = h.region, total = h.total;
        unit = h.unit, shareError = h.shareError;
        firstSide = total.direction == below ? below : above, lastSide = total.direction == above ? above : below;
        const double cube = 2 / (static_cast<double>(unit) * unit * unit) * (1 - 1e-5), others = total.baseline - total.count;
        if (total.model == normal) {
            bound[above] = bound[below] = boundOf(2 * (1 - 1e-5) * total.variance * total.baseline / unit, 0, 0, 0);
        } else if (total.model == exponential) {
            const double scale = 2 * (1 - 1e-5) * total.count / total.baseline * total.count / unit, curve = unit / total.count * (1 + 0x1p-20);
            bound[above] = boundOf(scale, 0, curve, curve);
            bound[below] = boundOf(scale, curve, 0, curve);
        } else if (total.model == bernoulli) {
            bound[above] = boundOf(cube * unit * total.count, unit, total.count / others, total.count / (others * others));
            bound[below] = boundOf(cube * unit * others, unit, others / total.count, others / (total.count * total.count));
        } else {
            bound[above] = boundOf(cube * total.count, 1, 0, 0);
            bound[below] = boundOf(cube * unit * total.count, 0, 1, 1 / total.count);
        }
    }

    static __device__ Bound boundOf(double scale, double weight, double odds, double curve) {
        return {scale, static_cast<float>(weight), static_cast<float>(odds), static_cast<float>(curve)};
    }

    // spread returns the factor of the filter's limit of a rectangle with the share b of the baselines, beside the share q,
    // and the excess d to the side of the bound. See scan.cu.
    __device__ __forceinline__ float spread(const Bound &of, float b, float q, float d) const {
        if (form == plain) return b * q * q;
        b = __saturatef(b);
        if (form == values) {
            d = fmaxf(d, 0);
            return __fdividef(fmaxf(b - of.weight * d, 0) * fmaxf(q - of.odds * d, 0), fmaxf(unit - of.curve * d, 1e-30f));
        }
        float both = b * q;
        return __fdividef(both * both, fmaxf(b * of.weight + q * (of.odds * b + of.curve * q * fmaxf(d, 0)), 1e-30f));
    }
};

// Strip is the memory of a warp.
struct Strip {
    float2 *column;  // prefix sums by column: excess and share
    float4 *group;   // of columns: the largest excess; the least and the largest share

    __device__ Strip(unsigned char *memory, int cols) {
        memory += static_cast<size_t>(threadIdx.x >> 5) * stripBytes(cols);
        group = reinterpret_cast<float4 *>(memory);
        int groups = paddedColumns(cols) / wide + 4, lane = threadIdx.x & 31;
        column = reinterpret_cast<float2 *>(group + groups);
        for (int i = paddedColumns(cols) + lane; i < paddedColumns(cols) + near; i += 32) column[i] = make_float2(never, 0);
        if (lane < 4) group[groups - 4 + lane] = make_float4(never, 0, 0, 0);
    }
};

// limitOf returns the limit of a squared excess over its spread, for a level: finite, so that its product with a spread of 0 is 0.
__device__ __forceinline__ float limitOf(double level, const Bound &bound) { return static_cast<float>(fmin(level * bound.scale, 3e38)); }

// raised returns the largest of the level, the warp's ratios and the bar, which it raises to that.
static __device__ __noinline__ double raised(double mine, double level, unsigned long long *bar) {
    for (int d = 16; d > 0; d /= 2) mine = fmax(mine, __shfl_xor_sync(full, mine, d));
    double known = __longlong_as_double(static_cast<long long>(*static_cast<volatile unsigned long long *>(bar)));
    known = __shfl_sync(full, known, 0);
    if (mine > known && (threadIdx.x & 31) == 0) atomicMax(bar, static_cast<unsigned long long>(__double_as_longlong(mine)));
    return fmax(level, fmax(mine, known));
}

// weigh computes the ratios of the rectangles of rows y1 to y2 whose columns are number from to count-1 of the warp's queue, at
// most 32, keeps the best of those that reach the level, and returns the new level.
template <class C, Form form> static __device__ __noinline__ double weigh(Search<C, form> &s, int y1, int y2, int from, int count, double level) {
    const int at = from + (threadIdx.x & 31);
    __syncwarp();
    bool better = false;
    if (at < count) {
        const uint32_t columns = s.queue[queued * (threadIdx.x >> 5) + at];
        const int x1 = columns >> 16, x2 = columns & 0xffff;
        const size_t over = static_cast<size_t>(y1) * s.stride, under = static_cast<size_t>(y2 + 1) * s.stride;
        const C *counts = s.counts;
        const double *baselines = s.baselines;
        double inside = static_cast<double>(counts[under + x2 + 1] - counts[under + x1] - counts[over + x2 + 1] + counts[over + x1]);
        double baseline = baselines[under + x2 + 1] - baselines[under + x1] - baselines[over + x2 + 1] + baselines[over + x1];
        Candidate c = {ratio(inside, baseline, s.total), {y1, x1, y2, x2}};
        if (c.ratio >= level && beats(c, s.mine[threadIdx.x])) s.mine[threadIdx.x] = c, better = true;
    }
    if (__any_sync(full, better)) level = raised(s.mine[threadIdx.x].ratio, level, s.bar);
    return level;
}

// consider queues the rectangles of rows y1 to y2 and columns x1 to x, for the wide columns x from `from` on that are before
// end, that may reach the level. The ratios of 32 of them are computed at once, since one takes as long as 32. The warp calls it, lanes
// without a column with an end of 0. It returns the level; the number of queued rectangles is in count, below 32.
template <class C, Form form>
static __device__ __forceinline__ double consider(Search<C, form> &s, const Bound &bound, const float2 *column, int y1, int y2, int x1, int from, int end,
                                                  double level, int &count) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const bool some = from < end;
    if (!some) from = x1 = 0;
    const float off = x1 > 0 ? column[x1 - 1].x - s.error[warp] : 0, share = (x1 > 0 ? column[x1 - 1].y : 0) + s.shareError;
    const float most = s.unit - 2 * s.shareError, limit = limitOf(level, bound);
    uint32_t may = 0;
#pragma unroll
    for (int k = 0; k < wide; k++) {
        float2 v = column[from + k];
        float d = v.x - off, b = v.y - share, q = __saturatef(most - b);
        may |= (d * fabsf(d) > limit * s.spread(bound, b, q, d) && some && from + k < end) << k;
    }
#pragma unroll 1
    for (; __any_sync(full, may != 0); may &= may - 1) {
        const uint32_t have = __ballot_sync(full, may != 0);
        if (may) s.queue[queued * warp + count + __popc(have & ((1u << lane) - 1))] = x1 << 16 | (from + __ffs(may) - 1);
        count += __popc(have);
        if (count >= 32) level = weigh(s, y1, y2, count - 32, count, level), count -= 32;
    }
    return level;
}

// endOf returns the column that the last column of a rectangle of rows y1 to y2 from column x1 on is before.
template <class C, Form form> __device__ __forceinline__ int endOf(const Search<C, form> &s, int y1, int y2, int x1) {
    int end = x1 < s.cols ? min(s.cols, x1 + s.maxCols) : 0;
#pragma unroll 1
    for (int i = 0; i < s.found; i++) {
        const Rectangle &r = s.regions[i].at;
        if (r.y1 <= y2 && y1 <= r.y2 && x1 <= r.x2) end = min(end, max(r.x1, x1));
    }
    return end;
}

// A place of a strip's search: its first of 32 first columns; the first of four groups of last columns, or nearest
// for the columns that are tested one by one, or 0 at the start; and a bit for each of these groups, or for all of
// these columns, in which the lane has a rectangle that may reach the level.
constexpr int nearest = 0xfff;
__device__ inline int placeOf(int from, int g, int set) { return from << 16 | g << 4 | set; }
__device__ inline int fromOf(int place) { return place >> 16; }
__device__ inline int groupOf(int place) { return place >> 4 & 0xfff; }

// next returns the first place after one where a lane has a rectangle that may reach the level, or a negative
// number. It calls nothing, so that its loops keep their values in registers.
template <class C, Form form>
__device__ __forceinline__ int next(const Search<C, form> &s, const Bound &bound, const Strip &strip, int y1, int y2, float limit, int after) {
    const int lane = threadIdx.x & 31, cols = s.cols, maxCols = s.maxCols;
    const float error = s.error[threadIdx.x >> 5], shareError = s.shareError, most = s.unit - 2 * shareError;
    const float2 *column = strip.column;
    const float4 *group = strip.group;
    int g = groupOf(after) == 0 ? 0 : groupOf(after) == nearest ? 1 : groupOf(after) + 4;
    for (int from = fromOf(after); from < cols; from += 32, g = 0) {
        const int x1 = from + lane, end = endOf(s, y1, y2, x1);
        float2 before = x1 > 0 && x1 < cols ? column[x1 - 1] : make_float2(error, 0);
        const float off = x1 < cols ? before.x - error : -never, share = before.y + shareError;
        if (g == 0) {  // one by one
            bool any = false;
#pragma unroll
            for (int w = 0; w < near; w++) {
                float2 v = column[x1 + w];
                float d = v.x - off, b = v.y - share, q = __saturatef(most - b);
                any |= d * fabsf(d) > limit * s.spread(bound, b, q, d);
            }
            any = any && x1 < end;
            if (__any_sync(full, any)) return placeOf(from, nearest, any);
        }
        // Groups, four at once. The first four have some before a lane's own.
        const int first = from / wide + near / wide, groups = (min(cols, from + 31 + maxCols) + wide - 1) / wide;
        bool p[4];
        auto test = [&] {
#pragma unroll
            for (int z = 0; z < 4; z++) {
                float4 v = group[g + z];
                float d = v.x - off, low = v.y - share, high = v.z - share, u = __saturatef(most - low), q = __saturatef(most - high);
                p[z] = d * fabsf(d) > limit * fminf(s.spread(bound, low, u, d), s.spread(bound, high, q, d));
            }
        };
        if (g <= first) {
            g = first;
            if (g >= groups) continue;
            test();
#pragma unroll
            for (int z = 0; z < 3; z++) p[z] = p[z] && lane < wide * (z + 1);
        } else {
            if (g >= groups) continue;
            test();
        }
        for (;;) {
            if (__any_sync(full, p[0] || p[1] || p[2] || p[3])) {
                int set = 0;
#pragma unroll
                for (int z = 0; z < 4; z++) set |= (p[z] && (g + z) * wide < end) << z;
                if (__any_sync(full, set)) return placeOf(from, g, set);
            }
            g += 4;
            if (g >= groups) break;
            test();
        }
    }
    return -1;
}

// searchStrip searches the rectangles of rows y1 to y1+height-1 on a side of what is expected, with one warp. It returns the largest
// ratio known to the warp, from level on.
template <class C, Form form>
__device__ __forceinline__ double searchStrip(Search<C, form> &s, int side, const Strip &strip, int y1, int height, double level) {
    const Bound bound = s.bound[side];
    const int lane = threadIdx.x & 31, y2 = y1 + height - 1, cols = s.cols;
    float2 *column = strip.column;
    float4 *group = strip.group;
    const float error = s.error[threadIdx.x >> 5];
    const unsigned long long bar = *static_cast<volatile unsigned long long *>(s.bar);  // before its use, which waits for it
    __syncwarp();
    {
        const size_t over = static_cast<size_t>(y1) * s.stride + 1, under = static_cast<size_t>(y1 + height) * s.stride + 1;
        const size_t more = side == below ? over : under, less = side == below ? under : over;
        const float *excess = s.excess, *shares = s.shares;
        for (int base = lane; base < paddedColumns(cols); base += 128) {
            float a[4], b[4], c[4], d[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int x = base + 32 * k;
                a[k] = never, b[k] = c[k] = d[k] = 0;
                if (x < cols) a[k] = excess[more + x], b[k] = excess[less + x], c[k] = shares[under + x], d[k] = shares[over + x];
            }
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int x = base + 32 * k;
                if (x - lane >= cols) break;
                float off = a[k] - b[k] + error, share = c[k] - d[k], peak = off;
                column[x] = make_float2(off, share);
                for (int d = 1; d < wide; d *= 2) peak = fmaxf(peak, __shfl_xor_sync(full, peak, d));
                float last = __shfl_sync(full, share, min(x | (wide - 1), cols - 1) & 31);  // shares rise with the column
                if (x % wide == 0) group[x / wide] = make_float4(peak, share, last, 0);
            }
        }
    }
    __syncwarp();
    level = fmax(level, __longlong_as_double(static_cast<long long>(bar)));
    level = __shfl_sync(full, level, 0);
    int count = 0;  // in the warp's queue
    for (int at = 0; (at = next(s, bound, strip, y1, y2, limitOf(level, bound), at)) >= 0;) {
        const int x1 = fromOf(at) + lane, g = groupOf(at), end = endOf(s, y1, y2, x1);
#pragma unroll 1
        for (int z = 0; z < 4; z++) {
            const bool here = at >> z & 1;
            if (!__any_sync(full, here)) continue;
            const int from = g == nearest ? x1 : (g + z) * wide;
            level = consider(s, bound, column, y1, y2, x1, from, here ? min(end, from + wide) : 0, level, count);
        }
    }
    return count > 0 ? weigh(s, y1, y2, 0, count, level) : level;
}

// stripsOf returns the number of places of Strips.
__device__ inline int stripsOf(int rows, int most) { return (2 * rows - most + 1) * ((most + 1) / 2); }

// Strips are the first rows and heights of every step-th strip of up to most rows from the first on. A height and the one
// as far from the other end of the heights have the same number of strips together for all heights. So the places
// without a strip are few: where the number of heights is odd, half of the middle one's.
struct Strips {
    int y, height, rows, most, pair, at, all;
    __device__ Strips(int rows, int most, int first) : rows(rows), most(most), all(2 * rows - most + 1) { pair = first / all, at = first % all, find(); }
    __device__ void find() {
        const int low = pair + 1, lows = rows - low + 1;
        y = at < lows ? at : at - lows, height = at < lows ? low : most + 1 - low;
    }
    __device__ bool end() const { return pair >= (most + 1) / 2; }
    __device__ bool some() const { return at < rows - pair || height > pair + 1; }
    __device__ void next(int step) {
        at += step % all, pair += step / all;
        if (at >= all) at -= all, pair++;
        find();
    }
};

// sizes returns the number of powers of two up to most.
__device__ inline int sizes(int most) { return 32 - __clz(most); }

// seeders returns the number of a task's blocks that seed: each has rectangles of one size, or a part
// of them.
__device__ inline int seeders(const ScanParams &p) {
    int rows = p.maxRows > 0 ? min(p.rows, p.maxRows) : p.rows, cols = p.maxColumns > 0 ? min(p.columns, p.maxColumns) : p.columns;
    const int cells = p.rows * p.columns;
    return sizes(rows) * sizes(cols) * max(min((cells + seedLeast - 1) / seedLeast, seedBlocks), (cells + seedCells - 1) / seedCells);
}

// seed raises the bar to the ratio of a good rectangle. Of rectangles with sides of powers of two, half
// of a side apart, each thread takes the one with the largest squared deviation in units of its
// variance.
static __device__ void seed(const Map &m, int block, int blocks) {
    Head &h = *m.head;
    if (stateOf(m) != searching) return;
    float most = 0;
    Rectangle at = {0, 0, 0, 0};
    const int kinds = sizes(m.maxRows) * sizes(m.maxCols), kind = block % kinds, widths = sizes(m.maxCols);
    const int height = 1 << kind / widths, width = 1 << kind % widths, found = h.found;
    const int down = max(1, height / 2), right = max(1, width / 2), ys = (m.rows - height) / down + 1, xs = (m.cols - width) / right + 1;
    const float unit = h.unit;
#pragma unroll 4
    for (int i = block / kinds * blockDim.x + threadIdx.x; i < ys * xs; i += blocks / kinds * blockDim.x) {
        int y = i / xs * down, x = i % xs * right;
        int a = y * m.stride + x, b = a + height * m.stride;
        float d = m.excess[b + width] - m.excess[b] - m.excess[a + width] + m.excess[a];
        if (m.direction != above) d = m.direction == below ? -d : fabsf(d);
        float share = m.shares[b + width] - m.shares[b] - m.shares[a + width] + m.shares[a], rest = unit - share;
        float square = d * d / fmaxf(share * rest, 1e-30f);
        if (!(d > 0) || !(square > most)) continue;
        Rectangle r = {y, x, y + height - 1, x + width - 1};
        bool free = true;
        for (int k = 0; k < found; k++) free = free && !overlap(r, h.region[k].at);
        if (free) most = square, at = r;
    }
    // The thread with the best one of a warp computes its ratio.
    float best = most;
    for (int d = 16; d > 0; d /= 2) best = fmaxf(best, __shfl_xor_sync(full, best, d));
    if (most == 0 || most != best) return;
    size_t a = static_cast<size_t>(at.y1) * m.stride, b = static_cast<size_t>(at.y2 + 1) * m.stride;
    double v = ratio(m.counts[b + at.x2 + 1] - m.counts[b + at.x1] - m.counts[a + at.x2 + 1] + m.counts[a + at.x1],
                     m.baselines[b + at.x2 + 1] - m.baselines[b + at.x1] - m.baselines[a + at.x2 + 1] + m.baselines[a + at.x1], h.total);
    unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(v));
    if (bits > *static_cast<volatile unsigned long long *>(&h.bar)) atomicMax(&h.bar, bits);
}

// bestOf reduces the threads' candidates to the block's, in thread 0.
__device__ inline Candidate bestOf(Candidate c, Candidate *memory) {
    auto warp = [&] {
        if (!__any_sync(full, c.ratio > 0)) return;
        for (int d = 16; d > 0; d /= 2) {
            Candidate o;
            o.ratio = __shfl_xor_sync(full, c.ratio, d);
            o.at.y1 = __shfl_xor_sync(full, c.at.y1, d), o.at.x1 = __shfl_xor_sync(full, c.at.x1, d);
            o.at.y2 = __shfl_xor_sync(full, c.at.y2, d), o.at.x2 = __shfl_xor_sync(full, c.at.x2, d);
            if (beats(o, c)) c = o;
        }
    };
    warp();
    if ((threadIdx.x & 31) == 0) memory[threadIdx.x >> 5] = c;
    __syncthreads();
    if (threadIdx.x < 32) {
        c.ratio = 0;
        if (threadIdx.x < blockDim.x / 32) c = memory[threadIdx.x];
        warp();
    }
    return c;
}

// pick takes the best rectangle of all blocks as the next region.
static __device__ void pick(const Map &m, int blocks, Candidate *memory) {
    Head *h = m.head;
    Candidate c = {0, {0, 0, 0, 0}};
    for (int from = threadIdx.x; from < blocks; from += 4 * blockDim.x) {
        Candidate v[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const volatile Candidate &o = m.best[min(from + k * static_cast<int>(blockDim.x), blocks - 1)];  // another block's
            v[k] = {o.ratio, {o.at.y1, o.at.x1, o.at.y2, o.at.x2}};
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (beats(v[k], c)) c = v[k];
        }
    }
    c = bestOf(c, memory);
    if (threadIdx.x == 0) {
        h->bar = 0, h->searched = 0;
        if (c.ratio > 0) h->region[h->found++] = c;
        if (c.ratio == 0 || h->found == m.top) h->state = ended;
    }
}

// finish writes a task's regions. Where several devices divide the null maps, it writes how many of its own reach a
// region's ratio in place of the p-value.
static __device__ void finish(const Task &t, const Map &m, float *out) {
    Head *h = m.head;
    if (h->state != ended) return;
    if (threadIdx.x == 0) out[t.scores.off + t.scores.len - 1] = h->found > 0 ? static_cast<float>(h->region[0].ratio) : 0;
    int i = threadIdx.x;
    if (i >= h->found) return;
    Candidate c = h->region[i];
    uint32_t *w = reinterpret_cast<uint32_t *>(out) + t.detail.off + i * words;
    auto put = [&](int at, long long v) {
        w[at] = static_cast<uint32_t>(v), w[at + 1] = static_cast<uint32_t>(static_cast<unsigned long long>(v) >> 32);
    };
    size_t a = static_cast<size_t>(c.at.y1) * m.stride, b = static_cast<size_t>(c.at.y2 + 1) * m.stride;
    double count = m.counts[b + c.at.x2 + 1] - m.counts[b + c.at.x1] - m.counts[a + c.at.x2 + 1] + m.counts[a + c.at.x1];
    double baseline = m.baselines[b + c.at.x2 + 1] - m.baselines[b + c.at.x1] - m.baselines[a + c.at.x2 + 1] + m.baselines[a + c.at.x1];
    w[0] = c.at.y1, w[1] = c.at.x1, w[2] = c.at.y2, w[3] = c.at.x2;
    put(4, static_cast<long long>(count));
    put(6, static_cast<long long>(baseline));
    put(8, __double_as_longlong(h->total.expected(baseline)));
    put(10, __double_as_longlong(c.ratio));
    if (m.replicates == 0) put(12, 0x7FF8000000000001ll);
    else if (m.portions > 1) put(12, h->reached[i]);
    else put(12, __double_as_longlong(over(1 + h->reached[i], m.replicates + 1)));
}

// search is a block's part of the search for a region; the last block that ends takes the best rectangle of all, and
// without null maps writes the task's regions. Without null maps, several devices divide the strips.
template <Form form>
static __device__ void search(const Task &t, const Map &m, float *out, int block, int blocks, unsigned char *memory) {
    __shared__ Candidate of[32];
    __shared__ Search<double, form> s;
    __shared__ bool last;
    Head &h = *m.head;
    const int state = stateOf(m), own = block, all = blocks;
    if (state != searching) {
        if (block == 0 && state == ended && h.state == searching) {  // nothing to search
            __syncthreads();
            if (threadIdx.x == 0) h.state = ended;
            __syncthreads();
            if (m.replicates == 0) finish(t, m, out);
        }
        return;
    }
    s.begin(m);
    if (threadIdx.x == 0) s.counts = m.counts, s.excess = m.excess, s.bar = &h.bar, s.found = h.found;
    if (threadIdx.x < searchWarps) s.error[threadIdx.x] = errorOf(m);
    Strip strip(memory, m.cols);
    __syncthreads();
    if (m.replicates == 0) block = block * m.portions + m.portion, blocks *= m.portions;
    const int warps = blockDim.x >> 5, rows = m.rows, first = block * warps + (threadIdx.x >> 5), step = blocks * warps;
    double level = 0;
    for (Strips i(rows, m.maxRows, first); !i.end(); i.next(step)) {
        for (int side = s.firstSide; i.some() && side <= s.lastSide; side++) level = searchStrip(s, side, strip, i.y, i.height, level);
    }
    Candidate c = bestOf(s.mine[threadIdx.x], of);
    if (threadIdx.x == 0) {
        m.best[own] = c;
        __threadfence();
        last = atomicAdd(&h.searched, 1u) == static_cast<uint32_t>(all) - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    pick(m, all, of);
    __syncthreads();
    if (m.replicates == 0) finish(t, m, out);
}

}  // namespace scan
