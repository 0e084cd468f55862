// Op solvingset: detectors/knn has the definition. A block computes a task that mines a set, or a chain of them; the CPU has the tasks
// that only score, which copies limit. The set is the CPU's to the bit, as are the origin and the cut: all in float64, with the
// operations in the same order.
//
//   - The points are runs of the rows as they lie, or are normalised; those with missing values are left out.
//   - A thread compares a point with 16 candidates at a time, and keeps the nearest of the point in a heap, as the CPU does: the
//     order of its values decides the last bits of a bound. Then a warp finds a candidate's neighbours among all of its distances.
//   - The next candidates are the largest of all bounds, one after the other by the whole block.
//   - A set that is cut off needs the outliers of the window all the same: the search goes on without the set.
//
// Floor, window 4,096, 256 candidates of 16 values, an H200: 50 million float64 instructions, 0.46 ms of a multiprocessor, 290,000
// sets a second; a set that is cut off may take 16 times that. Distances are written and read, 17 MB a set: 280,000 a second.
#include "solvingset_params.h"
#include "solvingset_search.h"

namespace solvingset {

// Of a model, as words: see op_solvingset_model.go.
constexpr int modelPoints = 0, modelWide = 1, modelCut = 2, modelOrigin = 4;
constexpr double mostFloat = 0x1.fffffep+127;

// Sizes are those of a task.
struct Sizes {
    int rows, first, fresh, timed, dim, width, points, near;  // first: fresh row; points: of the window
    const SolvingsetParams *p;

    __device__ Sizes(const Task &t, const SolvingsetParams &p) : p(&p) {
        timed = p.timed;
        rows = t.x.len / t.dim, fresh = t.fresh, first = rows - fresh;
        dim = t.dim - timed, width = dim * p.embed;
        points = min(p.window, rows - p.embed + 1);
        near = min(p.k, max(points - 1, 1));
    }
};

// Memory is a task's scratch memory, as solvingsetScratch of cuda/plan has it.
struct Memory {
    double *values, *points, *near, *sum, *rest, *distance, *model;
    int *at, *modelAt, *set;
    unsigned char *state, *lead;

    __device__ Memory(const Sizes &z, unsigned char *p) {
        auto take = [&](auto *&to, size_t n) {
            to = reinterpret_cast<decltype(+to)>(p);
            p += (n * sizeof *to + 15) & ~static_cast<size_t>(15);
        };
        const size_t n = z.points, most = z.p->modelPoints;
        take(values, z.timed ? static_cast<size_t>(z.rows) * z.dim : 0);
        take(points, z.p->znorm ? n * z.width : 0);
        take(near, n * z.near);
        take(sum, n);
        take(rest, n);
        take(distance, wide * max(n, most));
        take(model, most * z.width);
        take(at, n);
        take(modelAt, most);
        take(set, most);
        take(state, n);
        take(lead, z.rows);
    }
};

// normalise is vec.Normalise of a column of a point, whose values are apart from one another, into to.
__device__ __noinline__ void normalise(const double *x, int dim, int embed, double *to, int apart) {
    const double n = embed;
    double mean = 0, sum = 0;
    bool equal = true;
    for (int i = 0; i < embed; i++) {
        mean = __dadd_rn(mean, __ddiv_rn(x[i * dim], n));
        equal = equal && x[i * dim] == x[0];
    }
    if (!equal) {
        for (int i = 0; i < embed; i++) {
            double d = __dsub_rn(x[i * dim], mean);
            sum = __dadd_rn(sum, __dmul_rn(d, d));
        }
    }
    const double sd = equal ? 0 : __dsqrt_rn(__ddiv_rn(sum, n));
    for (int i = 0; i < embed; i++) to[i * apart] = sd == 0 ? 0 : __ddiv_rn(__dsub_rn(x[i * dim], mean), sd);
}

// oldest returns the first of n rows that points of a model may have, by their times.
__device__ __noinline__ int oldest(const Sizes &z, const double *x, int n) {
    if (!z.timed || z.p->maxAge <= 0 || n <= 0) return 0;
    const size_t apart = z.dim + 1;
    const double since = __dsub_rn(x[(n - 1) * apart], static_cast<double>(z.p->maxAge));
    int low = 0, high = n;
    while (low < high) {
        int middle = static_cast<int>(static_cast<unsigned>(low + high) >> 1);
        if (x[middle * apart] >= since) high = middle;
        else low = middle + 1;
    }
    return max(0, min(low, n - (z.p->minPoints + z.p->embed - 1)));
}

// keepPoints lists the points of rows whose values are all finite and whose differences are float32s.
__device__ __noinline__ Points keepPoints(const Sizes &z, const Memory &m, const double *x, int rows) {
    Shared &s = shared();
    const int embed = z.p->embed, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const bool znorm = z.p->znorm;
    Points points = {znorm ? m.points : x, m.at, 0, z.width};
    for (int base = 0; base < rows - embed + 1; base += threads) {
        int p = base + threadIdx.x, from = p * (znorm ? z.width : z.dim);
        bool good = p < rows - embed + 1;
        for (int c = 0; c < z.dim && good && znorm; c++) {
            normalise(x + static_cast<size_t>(p) * z.dim + c, z.dim, embed, m.points + from + c, z.dim);
        }
        for (int v = 0; v < z.width && good; v++) good = fabs(points.x[from + v]) <= mostFloat / 4;
        uint32_t kept = __ballot_sync(full, good);
        if (lane == 0) s.at[warp] = __popc(kept);
        __syncthreads();
        int at = points.n;
        for (int w = 0; w < warps; w++) {
            at += w < warp ? s.at[w] : 0;
            points.n += s.at[w];
        }
        if (good) m.at[at + __popc(kept & ((1u << lane) - 1))] = from;
        __syncthreads();
    }
    return points;
}

// setOrigin sets the origin to the mean of each value, summed in the order of the points.
__device__ __noinline__ void setOrigin(const Points &points, int dim) {
    Shared &s = shared();
    const int all = points.n * points.width, some = mostDim * wide / dim * dim;
    double sum = 0;
    for (int first = 0; first < all; first += some) {
        const int count = min(some, all - first);
        for (int i = threadIdx.x; i < count; i += threads) {
            int p = (first + i) / points.width;
            s.query[i] = __ddiv_rn(points[p][first + i - p * points.width], all / dim);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < count && static_cast<int>(threadIdx.x) < dim; i += dim) sum = __dadd_rn(sum, s.query[i]);
        __syncthreads();
    }
    if (static_cast<int>(threadIdx.x) < dim) s.origin[threadIdx.x] = sum;
    __syncthreads();
}

// ofWords returns the value of two words, which setWords writes.
__device__ inline double ofWords(const float *w) { return __hiloint2double(__float_as_int(w[1]), __float_as_int(w[0])); }

__device__ inline void setWords(float *w, double v) { w[0] = __int_as_float(__double2loint(v)), w[1] = __int_as_float(__double2hiint(v)); }

// mine writes the model of the last points of rows.
__device__ __noinline__ void mine(const Sizes &z, const Memory &m, const double *x, int rows, const Span &next, float *out) {
    Shared &s = shared();
    const SolvingsetParams &p = *z.p;
    for (int i = threadIdx.x; i < static_cast<int>(next.len); i += threads) out[next.off + i] = 0;
    if (const int most = p.window + p.embed - 1; rows > most) {
        x += static_cast<size_t>(rows - most) * z.dim;
        rows = most;
    }
    const Points points = keepPoints(z, m, x, rows);
    const int n = points.n;
    if (n == 0) return;
    setOrigin(points, z.dim);
    int most = p.modelPoints;
    const bool isWide = !p.znorm && most >= 4 * p.k && changesLevel(x, rows, z.dim, s.origin, m.lead, &s.found);
    if (isWide) most /= 2;
    int size = 1;
    double cut = 0;
    if (n == 1) {
        if (threadIdx.x == 0) m.set[0] = 0;
    } else {
        size = search({points, p.k, min(p.k, n - 1), p.top, max(1, min(mostCandidates, p.modelPoints / 16)), most, m.near, m.sum, m.rest,
                       m.distance, m.state, m.set},
                      &cut);
    }
    __syncthreads();
    float *to = out + next.off;
    if (threadIdx.x == 0) {
        to[modelPoints] = __int_as_float(size);
        to[modelWide] = __int_as_float(isWide);
        setWords(to + modelCut, cut);
    }
    for (int c = threadIdx.x; c < z.dim; c += threads) setWords(to + modelOrigin + 2 * c, s.origin[c]);
    to += modelOrigin + 2 * z.dim;
    for (int i = threadIdx.x; i < size * z.width; i += threads) {
        double v = points[m.set[i / z.width]][i % z.width];
        if (isWide) setWords(to + 2 * i, v);
        else to[i] = static_cast<float>(__dsub_rn(v, s.origin[i % z.width % z.dim]));
    }
    __syncthreads();
}

// score computes the scores of the fresh rows by a model; x has the rows' values.
__device__ __noinline__ void score(const Sizes &z, const Memory &m, const double *x, const float *model, float *scores) {
    Shared &s = shared();
    const SolvingsetParams &p = *z.p;
    const int n = __float_as_int(model[modelPoints]);
    const bool isWide = __float_as_int(model[modelWide]) != 0;
    const double cut = ofWords(model + modelCut);
    for (int c = threadIdx.x; c < z.dim; c += threads) s.origin[c] = ofWords(model + modelOrigin + 2 * c);
    const float *values = model + modelOrigin + 2 * z.dim;
    for (int i = threadIdx.x; i < n * z.width; i += threads) {
        m.model[i] = isWide ? ofWords(values + 2 * i) : static_cast<double>(values[i]);
    }
    for (int i = threadIdx.x; i < n; i += threads) m.modelAt[i] = i * z.width;
    const Points points = {m.model, m.modelAt, n, z.width};
    for (int f = 0; f < z.fresh; f += wide) {
        const int some = min(wide, z.fresh - f);
        __syncthreads();
        for (int i = threadIdx.x; i < z.dim * wide; i += threads) {
            const int c = i % wide, v = i / wide;
            const double *from = x + static_cast<size_t>(z.first + f + c - p.embed + 1) * z.dim + v;
            double *to = s.query + v * wide + c;
            for (int j = 0; j < p.embed; j++) to[j * z.dim * wide] = c < some ? from[j * z.dim] : 0;
            if (c < some && p.znorm) normalise(from, z.dim, p.embed, to, z.dim * wide);
            for (int j = 0; j < p.embed && !isWide; j++) {
                double *at = to + j * z.dim * wide;
                *at = static_cast<double>(static_cast<float>(__dsub_rn(*at, s.origin[v])));
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += threads) distances(points, i, m.distance);
        __syncthreads();
        for (int c = threadIdx.x >> 5; c < some; c += warps) {
            const int k = min(p.k, n);
            double weight = __builtin_nan("");
            if (n > 0) weight = scaled(sumOfLeast(m.distance + static_cast<size_t>(c) * n, n, k), p.k, k);
            for (int v = 0; v < z.width; v++) {
                double value = s.query[v * wide + c];
                if (!(value - value == 0)) weight = value - value;
            }
            if ((threadIdx.x & 31) != 0) continue;
            double share = weight == 0 ? 0 : cut == 0 && weight > 0 ? mostFloat : __ddiv_rn(weight, cut);
            scores[f + c] = static_cast<float>(share > mostFloat ? mostFloat : share);
        }
    }
    __syncthreads();
}

// solve computes a task.
__device__ inline void solve(const Task &t, const float *f32, float *out, unsigned char *scratch) {
    const SolvingsetParams &p = paramsOf<SolvingsetParams>(t, f32);
    const Sizes z(t, p);
    const Memory m(z, scratch);
    const double *rows = reinterpret_cast<const double *>(f32) + t.x.off, *x = rows;
    if (z.timed) {
        for (int i = threadIdx.x; i < z.rows * z.dim; i += threads) m.values[i] = rows[i + i / z.dim + 1];
        __syncthreads();
        x = m.values;
    }
    const bool carried = t.carry.len > 0;
    const float *model = carried ? (t.after ? out : f32) + t.carry.off : out + t.next.off;
    if (carried) score(z, m, x, model, out + t.scores.off);
    const int n = carried ? z.rows : z.first, from = oldest(z, rows, n);
    mine(z, m, x + static_cast<size_t>(from) * z.dim, n - from, t.next, out);
    __syncthreads();
    if (!carried) score(z, m, x, model, out + t.scores.off);
}

}  // namespace solvingset

extern "C" __global__ void __launch_bounds__(solvingset::threads, 2)
    solvingset_mine(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    const Tile tile = tiles[blockIdx.x];
    for (uint32_t i = tile.first; i < tile.first + tile.count; i++) {
        solvingset::solve(tasks[i], f32, out, scratch + tile.scratch * 256ull);
        __syncthreads();
    }
}
