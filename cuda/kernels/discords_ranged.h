// The range discords of a series: of each length, all subsequences at least a radius from their nearest neighbour.
//
// The radius of the settings, or with RADIUS=auto the one that MERLIN's rule tries first, is the radius of DRAG's search
// (discords_radius.h). If it leaves few candidates, and with auto the TOP discords among them, these have their distances and the
// others none. Otherwise the profile of the length is computed. One block then takes the radius, counts what is that far, keeps the
// farthest of more than the detail has room for, and lists them by place; each of the listed finds its rank among the others.
#pragma once
#include "discords_radius.h"

namespace discords {

constexpr double negligible = 1e-9;  // a normalised distance of equal subsequences

// Ranged has the places of a task's range discords: the places of a length follow their number and radius.
struct Ranged {
    uint32_t *detail;
    int each, kept;  // words and discords of a length
    __device__ Ranged(const Task &t, const Place &to) {
        detail = to.detail;
        each = static_cast<int>(t.detail.len) / to.count(), kept = each / words - 1;
    }
    __device__ uint32_t *header(int length) const { return detail + static_cast<size_t>(length) * each; }
    __device__ uint32_t *discord(int length, int rank) const { return header(length) + static_cast<size_t>(rank + 1) * words; }
};

__device__ inline void putDouble(uint32_t *w, double v) {
    const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(v));
    w[0] = static_cast<uint32_t>(bits), w[1] = static_cast<uint32_t>(bits >> 32);
}

__device__ inline double normalisedOf(double distance, int m) { return __ddiv_rn(__dmul_rn(distance, distance), 2.0 * m); }

__device__ inline double deviationOf(const Radii &a) {
    double mean = 0, variance = 0;
    for (int i = 0; i < a.known; i++) mean += a.last[i] / a.known;
    for (int i = 0; i < a.known; i++) variance += (a.last[i] - mean) * (a.last[i] - mean) / a.known;
    return sqrt(variance);
}

// startOf returns the first radius to try after the distances of the lengths before: radiusAfter in detectors/discord.
__device__ inline double startOf(const Radii &a) {
    const double spread = deviationOf(a);
    if (a.known < 5 || spread == 0) return 0.99 * a.last[a.known - 1];
    double mean = 0;
    for (int i = 0; i < 5; i++) mean += a.last[i] / 5;
    return mean - 2 * spread;
}

// radiusOf returns the radius of a length whose last of the TOP discords has the distance reach, and notes this for the next length:
// radii.next in detectors/discord.
__device__ inline double radiusOf(Radii &a, int m, double reach) {
    const double least = reach * (1 + rounding);
    double r;
    if (a.known == 0) {
        for (r = 2 * sqrt(static_cast<double>(m)); r > least; r /= 2) {
        }
    } else {
        const double spread = deviationOf(a);
        r = startOf(a);
        const bool falls = a.known == 5 && spread > 1e-6 * r;
        while (r > least) r = falls ? r - spread : r * 0.99;
    }
    if (a.known == 5) {
        for (int i = 0; i < 4; i++) a.last[i] = a.last[i + 1];
        a.known = 4;
    }
    a.last[a.known++] = reach;
    a.start = startOf(a);
    return fmax(r, reach / 2);
}

// placeAmong returns the number of the block's threads before this one that have the flag, and raises all by the number of all that
// have it. The whole block calls it; sums has room for a number a warp.
__device__ inline int placeAmong(bool flag, int *sums, int &all) {
    const uint32_t have = __ballot_sync(discords::all, flag), lane = threadIdx.x & 31;
    __syncthreads();
    if (lane == 0) sums[threadIdx.x >> 5] = __popc(have);
    __syncthreads();
    int before = __popc(have & ((1u << lane) - 1));
    for (int k = 0; k < static_cast<int>(blockDim.x >> 5); k++) {
        if (k < static_cast<int>(threadIdx.x >> 5)) before += sums[k];
        all += sums[k];
    }
    return before;
}

__device__ inline unsigned long long bitsOf(double v) { return static_cast<unsigned long long>(__double_as_longlong(v)); }

// rangeLong takes the radius of a length and lists its range discords. One block calls it.
__device__ inline void rangeLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *status, unsigned char *scratch) {
    __shared__ double reach, radius;
    __shared__ int found, sums[32], histogram[256];
    __shared__ unsigned long long prefix;
    __shared__ int wanted;
    const Tile &tile = tiles[0];
    const Task &task = tasks[tile.first];
    const Work w = longOf(tasks, tile, f32, out, scratch);
    const Place to = placeOf(task, f32, out);
    const Ranged ranged(task, to);
    const int length = tile.part, left = w.count - w.exclusion, t = threadIdx.x;
    if (w.extremes->done == 0 && isSteep(*w.extremes, left > 0 ? rowsOf(left) : 1) && t == 0) status[tile.first] = statusLeft;
    if (length == 0) {
        for (int i = t; i < to.fresh; i += blockDim.x) to.scores[i] = 0xffffffff;  // below any score's bits
    }
    if (t == 0) reach = 0, found = 0;
    __syncthreads();
    if (to.radius < 0) {
        pick(w, to.p->top, 0, [&](int, const Discord &d) {
            if (normalisedOf(d.distance, w.m) >= negligible) reach = d.distance;
        });
        __syncthreads();
    }
    if (t == 0) {
        Radii &a = radiiOf(w);
        radius = to.radius;
        if (radius < 0) radius = reach > 0 ? radiusOf(a, w.m, reach) : __longlong_as_double(0x7ff8000000000000);
        if (length + 1 < to.p->lengths()) radiiOf(w, 1) = a;
    }
    __syncthreads();
    const double r = radius, least = r - rounding * fabs(r);
    int own = 0;
    for (int i = t; i < w.count; i += blockDim.x) own += w.distance[i] >= least;
    if (own > 0) atomicAdd(&found, own);
    __syncthreads();
    // Of more than are kept, the bits of the least distance that is, and how many of that distance.
    const bool more = found > ranged.kept;
    if (t == 0) prefix = 0, wanted = ranged.kept;
    for (int shift = 56; more && shift >= 0; shift -= 8) {
        __syncthreads();
        if (t < 256) histogram[t] = 0;
        __syncthreads();
        for (int i = t; i < w.count; i += blockDim.x) {
            const double d = w.distance[i];
            if (!(d >= least)) continue;
            const unsigned long long bits = bitsOf(d);
            if (shift == 56 || bits >> (shift + 8) == prefix) atomicAdd(&histogram[bits >> shift & 255], 1);
        }
        __syncthreads();
        if (t == 0) {
            int b = 255;
            for (; histogram[b] < wanted; b--) wanted -= histogram[b];
            prefix = prefix << 8 | static_cast<unsigned>(b);
        }
    }
    __syncthreads();
    int *list = reinterpret_cast<int *>(w.df), listed = 0, equal = 0;
    for (int base = 0; base < w.count; base += blockDim.x) {
        const int i = base + t;
        const double d = i < w.count ? w.distance[i] : 0;
        bool take = i < w.count && d >= least;
        if (more) {
            const bool same = take && bitsOf(d) == prefix;
            const int before = equal;
            const int place = before + placeAmong(same, sums, equal);
            take = take && (bitsOf(d) > prefix || same && place < wanted);
        }
        const int before = listed, place = before + placeAmong(take, sums, listed);
        if (take) list[place] = i;
    }
    if (t > 0) return;
    radiiOf(w).listed = listed;
    uint32_t *head = ranged.header(length), *next = to.next + length * 2;
    head[0] = found, head[1] = 0;
    putDouble(head + 2, r);
    next[0] = head[2], next[1] = head[3];
}

// rankLong writes the listed discords of a length, the farthest first, of equal ones the first, and the scores of their last rows.
__device__ inline void rankLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *scratch) {
    __shared__ double distance[256];
    const Task &task = tasks[tiles[0].first];
    const Work w = longOf(tasks, tiles[0], f32, out, scratch);
    const Place to = placeOf(task, f32, out);
    const Ranged ranged(task, to);
    const int length = tiles[0].part, listed = radiiOf(w).listed, t = threadIdx.x, own = static_cast<int>(blockIdx.x) * 256 + t;
    const int *list = reinterpret_cast<const int *>(w.df);
    const double mine = own < listed ? w.distance[list[own]] : 0;
    int rank = 0;
    for (int from = 0; static_cast<int>(blockIdx.x) * 256 < listed && from < listed; from += 256) {
        __syncthreads();
        if (from + t < listed) distance[t] = w.distance[list[from + t]];
        __syncthreads();
        for (int k = 0; k < min(256, listed - from); k++) rank += distance[k] > mine || distance[k] == mine && from + k < own;
    }
    if (own >= listed) {
        if (own >= ranged.kept) return;
        uint32_t *d = ranged.discord(length, own);
        d[0] = 0, d[1] = 0x7ff80000, d[2] = d[3] = 0xffffffff;
        return;
    }
    const int i = list[own], last = i + to.from + w.m - 1 - (to.rows - to.fresh);
    uint32_t *d = ranged.discord(length, rank);
    putDouble(d, mine);
    d[2] = to.from + i, d[3] = to.from + indexOf(w.best[i]);
    if (to.carry && last < 0) return;
    atomicMax(reinterpret_cast<int *>(to.scores) + max(0, last), __float_as_int(static_cast<float>(normalisedOf(mine, w.m))));
}

// closeLong ends the scores of a task. One block calls it.
__device__ inline void closeLong(const Task *tasks, const Tile *tiles, const float *f32, float *out, uint32_t *, unsigned char *) {
    const Place to = placeOf(tasks[tiles[0].first], f32, out);
    for (int i = threadIdx.x; i < to.fresh; i += blockDim.x) {
        if (to.scores[i] == 0xffffffff) to.scores[i] = 0x7fc00000;
    }
}

}  // namespace discords
