// Tasks of op discords: parameters, the places of the results, and the scores and carry that follow
// from the discords.
#pragma once
#include "discords_series.h"
#include "discords_params.h"

namespace discords {

// Discord is a discord of one length.
struct Discord {
    double distance;
    int at, nearest;
};

// Params are the parameters of a task.
struct Params : DiscordsParams {
    __device__ int lengths() const { return (maxLength - minLength) / lengthStep + 1; }
    __device__ int apart(int m) const { return max(1, m / exclusion); }
    __device__ bool isSingle() const { return precision == 32; }
    __device__ int kept() const { return rows > 0 ? 4 * top : 0; }
};

constexpr int words = 4;       // of a discord in the detail
constexpr int mostPicks = 32;  // discords of a length

// Place has the places of a task's results.
struct Place {
    const Params *p;
    int rows, from, fresh, dim;  // rows of X; the first searched one
    const uint32_t *carry;       // null: none
    uint32_t *scores, *next, *detail;
    double radius;  // of range discords, -1: by MERLIN's rule; 0: the first discords are wanted

    __device__ int count() const { return dim * p->lengths(); }
    __device__ int carried() const { return 2 + p->kept(); }
    __device__ uint32_t *discord(int length, int rank) const { return detail + (static_cast<size_t>(length) * p->top + rank) * words; }
    // write stores a discord, whose places are in the searched rows.
    __device__ void write(int length, int rank, const Discord &d) const {
        uint32_t *w = discord(length, rank);
        unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(d.distance));
        w[0] = static_cast<uint32_t>(bits);
        w[1] = static_cast<uint32_t>(bits >> 32);
        w[2] = from + d.at;
        w[3] = from + d.nearest;
    }
};

__device__ inline Place placeOf(const Task &t, const float *f32, float *out) {
    Place to;
    to.p = &paramsOf<Params>(t, f32);
    to.dim = t.dim;
    to.fresh = t.fresh;
    to.rows = t.x.len / t.dim;
    to.from = to.p->rows > 0 ? max(0, to.rows - to.p->rows) : 0;
    to.carry = nullptr;
    if (t.carry.len > 0) to.carry = reinterpret_cast<const uint32_t *>(t.after ? out : f32) + t.carry.off;
    to.scores = reinterpret_cast<uint32_t *>(out) + t.scores.off;
    to.next = reinterpret_cast<uint32_t *>(out) + t.next.off;
    to.detail = reinterpret_cast<uint32_t *>(out) + t.detail.off;
    to.radius = 0;
    constexpr uint32_t count = sizeof(DiscordsParams) / 4;
    if (t.params.len > count) {
        const uint32_t *w = reinterpret_cast<const uint32_t *>(f32) + t.params.off + count;
        to.radius = __longlong_as_double(static_cast<long long>(static_cast<unsigned long long>(w[1]) << 32 | w[0]));
    }
    return to;
}

// clear stores that lengths from first to end-1 have no discords. The whole block calls it.
__device__ inline void clear(const Place &to, int first, int end) {
    for (int i = first * to.p->top + threadIdx.x; i < end * to.p->top; i += blockDim.x) {
        uint32_t *w = to.discord(0, i);
        w[0] = 0;
        w[1] = 0x7ff80000;
        w[2] = w[3] = 0xffffffff;
    }
}

// leave sets scores and carry from the discords. The whole block calls it after a barrier.
__device__ inline void leave(const Place &to) {
    const Params &p = *to.p;
    const int kept = p.kept(), searched = to.rows - to.from;
    int *scores = reinterpret_cast<int *>(to.scores);
    for (int i = threadIdx.x; i < to.fresh; i += blockDim.x) scores[i] = -1;  // below any score's bits
    __syncthreads();
    for (int i = threadIdx.x; i < to.count(); i += blockDim.x) {
        const int m = p.minLength + i % p.lengths() * p.lengthStep;
        const uint32_t *then = to.carry && kept > 0 ? to.carry + i * to.carried() + 2 : nullptr, *last = to.discord(i, p.top - 1);
        uint32_t *next = to.next + i * to.carried(), *ages = next + 2;
        next[0] = last[0];
        next[1] = last[1];
        int known = 0, all = 0;
        for (int k = 0; then && k < kept; k++) known += then[k] > 0 && static_cast<int>(then[k]) + to.fresh <= searched;
        // Two passes: the first counts them, the second writes the last ones.
        for (int pass = 0; pass < 2; pass++) {
            int skip = pass == 1 ? max(0, all - kept) : 0, at = 0;
            auto add = [&](int age) {
                if (pass == 1 && at >= skip && at - skip < kept) ages[at - skip] = age;
                at++;
            };
            if (pass == 0) at = known;
            for (int k = 0; pass == 1 && then && k < kept; k++) {
                if (then[k] > 0 && static_cast<int>(then[k]) + to.fresh <= searched) add(then[k] + to.fresh);
            }
            for (int rank = 0; rank < p.top; rank++) {
                const uint32_t *w = to.discord(i, rank);
                if (w[2] == 0xffffffff) break;
                const int begins = w[2], age = to.rows - begins;
                bool reported = false;
                for (int k = 0; then && k < kept; k++) reported = reported || then[k] > 0 && abs(static_cast<int>(then[k]) + to.fresh - age) < m;
                if (reported) continue;
                if (pass == 1) {
                    double d = __longlong_as_double(static_cast<long long>(static_cast<unsigned long long>(w[1]) << 32 | w[0]));
                    d /= p.k;
                    float score = static_cast<float>(__ddiv_rn(__dmul_rn(d, d), 2.0 * m));
                    atomicMax(scores + max(0, begins + m - 1 - (to.rows - to.fresh)), __float_as_int(score));
                }
                add(age);
            }
            all = at;
        }
        for (int k = min(all, kept); k < kept; k++) ages[k] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < to.fresh; i += blockDim.x) {
        if (scores[i] == -1) scores[i] = 0x7fc00000;
    }
}

}  // namespace discords
