// Discords of a window that is too long for one block, by the profile of each length.
#pragma once
#include "discords_profile.h"
#include "discords_task.h"

namespace discords {

// longOf returns the series of a tile's task with subsequences of the tile's length. Its arrays are in
// scratch memory as laid out by discordsArrays in cuda/plan/discords.go.
__device__ inline Work longOf(const Task *tasks, const Tile &tile, const float *f32, float *out, unsigned char *scratch) {
    const Task &t = tasks[tile.first];
    const Place to = placeOf(t, f32, out);
    const Params &p = *to.p;
    Work w;
    w.x = reinterpret_cast<const double *>(f32) + t.x.off + to.from;
    w.n = to.rows - to.from;
    w.m = p.minLength + static_cast<int>(tile.part) * p.lengthStep;
    w.count = w.n - w.m + 1;
    w.exclusion = p.apart(w.m);
    w.excludeFlat = p.excludeFlat != 0;
    const size_t room = (w.n + padding + 31) / 32 * 32;
    w.mean = reinterpret_cast<double *>(scratch + static_cast<size_t>(tile.scratch) * 256);
    w.inverse = w.mean + room;
    w.df = w.inverse + room;
    w.dg = w.df + room;
    w.distance = w.dg + room;
    w.best = reinterpret_cast<Best *>(w.distance + room);
    w.limit = reinterpret_cast<int *>(w.best + room);
    w.extremes = reinterpret_cast<Extremes *>(scratch + static_cast<size_t>(tile.count) * 256);
    return w;
}

// rowsOf returns the rows of a block of the scan: fewer where there are few blocks. discordsScan in
// cuda/plan/discords.go has the same formula.
__device__ inline int rowsOf(int diagonalsLeft) {
    int rows = 1 << 13, bands = (diagonalsLeft + band - 1) / band;
    while (rows > 1 << 10 && bands * ((diagonalsLeft + rows - 1) / rows) < 1 << 12) rows /= 2;
    return rows;
}

// Parts distributes the blocks of a launch among its tiles, which are of one task: as many to each as
// the shortest length has. shortest in cuda/plan/discords.go has the same formula.
struct Parts {
    int least, exclusion, count;  // of the shortest length
    __device__ Parts(const Task *tasks, const Tile *tiles, const float *f32, float *out) {
        const Place to = placeOf(tasks[tiles[0].first], f32, out);
        least = to.p->minLength;
        exclusion = to.p->apart(least);
        count = to.rows - to.from - least + 1;
    }
};

// describeLong and stepLong have a thread for each subsequence of each tile, and for its padding.
__device__ inline void describeLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    const int each = (Parts(tasks, tiles, f32, out).count + padding + blockDim.x - 1) / blockDim.x, block = blockIdx.x;
    describe(longOf(tasks, tiles[block / each], f32, out, scratch), block % each * blockDim.x + threadIdx.x);
}

__device__ inline void stepLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    const int each = (Parts(tasks, tiles, f32, out).count + padding + blockDim.x - 1) / blockDim.x, block = blockIdx.x;
    const Work w = longOf(tasks, tiles[block / each], f32, out, scratch);
    if (w.extremes->done == 0) step(w, block % each * blockDim.x + threadIdx.x);
}

// isScanned reports whether T has enough digits for diagonals of this many rows.
template <typename T> __device__ __forceinline__ bool isScanned(const Extremes &e, int rows) {
    return !isSteep(e, rows) && (sizeof(T) == sizeof(double) || isSingle(e));
}

constexpr int probed = 2;  // bands that are probed first

// probeLong probes the first bands of each tile.
template <typename T> __device__ inline void probeLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    constexpr int rows = chunkOf<T>;
    DYNAMIC_SHARED(unsigned char, memory);
    __shared__ Work w;
    const Parts shortest(tasks, tiles, f32, out);
    const int each = (shortest.count - shortest.exclusion + rows - 1) / rows, block = blockIdx.x, begin = block % each * rows;
    if (threadIdx.x == 0) w = longOf(tasks, tiles[block / each], f32, out, scratch);
    __syncthreads();
    for (int k = 0; k < probed && w.extremes->done == 0 && isScanned<T>(*w.extremes, rows); k++) {
        const int first = w.exclusion + k * band, end = min(begin + rows, w.count - first);
        if (begin < end) probe(w, *reinterpret_cast<Block<T> *>(memory), begin, end, first);
    }
}

template <typename T> __device__ inline void scanLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    DYNAMIC_SHARED(unsigned char, memory);
    __shared__ Work w;
    if (threadIdx.x == 0) w = longOf(tasks, tiles[0], f32, out, scratch);
    __syncthreads();
    const int left = w.count - w.exclusion, rows = rowsOf(left), parts = (left + rows - 1) / rows;
    const int first = w.exclusion + static_cast<int>(blockIdx.x) / parts * band, begin = static_cast<int>(blockIdx.x) % parts * rows;
    const int end = min(begin + rows, w.count - first);
    if (begin < end && w.extremes->done == 0 && isScanned<T>(*w.extremes, rows)) scan(w, *reinterpret_cast<Block<T> *>(memory), begin, end, first);
}

__device__ inline void finishLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const Work w = longOf(tasks, tiles[0], f32, out, scratch);
    if (i < w.count && w.extremes->done == 0) finish(w, i);
}

// pick calls take with the rank and each of the first top discords of a length, in one thread, and reports whether there are as many
// of at least this distance. One block calls it.
template <class Take> __device__ __forceinline__ bool pick(const Work &w, int top, double least, Take take) {
    __shared__ double value[32];
    __shared__ int place[32], picked[32];
    for (int rank = 0; rank < top; rank++) {
        double most = -1;
        int at = -1;
        auto compare = [&](double v, int i) {
            if (i >= 0 && (at < 0 || v > most || v == most && i < at)) most = v, at = i;
        };
        for (int i = threadIdx.x; i < w.count; i += blockDim.x) {
            double v = w.distance[i];
            if (!(v > most)) continue;  // also false for a NaN
            bool apart = true;
            for (int f = 0; f < rank; f++) apart = apart && abs(i - picked[f]) >= w.m;
            if (apart) most = v, at = i;
        }
        for (int o = 16; o > 0; o >>= 1) {
            double v = __shfl_xor_sync(all, most, o);
            int i = __shfl_xor_sync(all, at, o);
            compare(v, i);
        }
        if ((threadIdx.x & 31) == 0) value[threadIdx.x / 32] = most, place[threadIdx.x / 32] = at;
        __syncthreads();
        for (int k = 0; k < static_cast<int>(blockDim.x) / 32; k++) compare(value[k], place[k]);
        __syncthreads();
        if (at < 0 || most < least) return false;
        if (threadIdx.x == 0) {
            picked[rank] = at;
            take(rank, Discord{most, at, indexOf(w.best[at])});
        }
        __syncthreads();
    }
    return true;
}

// pick writes the first discords of a length.
__device__ inline bool pick(const Work &w, const Place &to, int length, double least) {
    return pick(w, to.p->top, least, [&](int rank, const Discord &d) { to.write(length, rank, d); });
}

// pickLong writes the length's discords, and after the last length scores and carry. One block calls
// it.
__device__ inline void pickLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    const Tile &tile = tiles[0];
    const Work w = longOf(tasks, tile, f32, out, scratch);
    const Place to = placeOf(tasks[tile.first], f32, out);
    const int length = tile.part, left = w.count - w.exclusion;
    if (w.extremes->done == 0) {
        clear(to, length, length + 1);
        if (isSteep(*w.extremes, left > 0 ? rowsOf(left) : 1) && threadIdx.x == 0) status[tile.first] = statusLeft;
        __syncthreads();
        pick(w, to, length, 0);
    }
    const Params &p = *to.p;
    if (length == p.lengths() - 1) {
        __syncthreads();
        leave(to);
    }
}

}  // namespace discords
