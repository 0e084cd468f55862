// Op LOF: sets too large for lof_search.h. Op KNN's search of a set leaves each point's neighbours, from
// which densities and scores follow. See lof.cu.
#pragma once
#include <stddef.h>
#include "knn_scan.h"
#include "lof_points.h"

namespace lof {

// knn::setOf reads these from the parameters of a task of either op.
static_assert(offsetof(LofParams, k) == offsetof(KnnParams, k) && offsetof(LofParams, embed) == offsetof(KnnParams, embed), "layout");

// densities computes the lrd of the block's share of a set's points.
__device__ inline void densities(const knn::Set &s, int kind) {
    if (s.header->spoilt) return;
    const int k = s.wanted.others;
    auto all = [&](double floor) {
        bool coincide = false;
        for (int i = s.block * blockDim.x + threadIdx.x; i < s.n; i += s.blocks * blockDim.x) {
            const size_t first = static_cast<size_t>(i) * k;
            double sum = 0;
#pragma unroll 4
            for (int a = 0; a < k; a++) {
                double kdist = s.distance[static_cast<size_t>(s.neighbour[first + a]) * k + k - 1];
                sum = __dadd_rn(sum, fmax(kdist, s.distance[first + a]));
            }
            s.lrd[i] = densityOf(sum, k, kind, floor);
            coincide = coincide || sum == 0;
        }
        return coincide;
    };
    if (!__syncthreads_or(all(0)) || kind != floorResolution) return;
    all(resolutionOf(static_cast<size_t>(s.n - 1) * s.row + s.width, s.row, [&](size_t e) { return s.x[e]; }));
}

// factors scores the block's share of a set's fresh points.
__device__ inline void factors(const knn::Set &s, float *out) {
    const int k = s.wanted.others, fresh = s.task->fresh;
    for (int f = s.block * blockDim.x + threadIdx.x; f < fresh; f += s.blocks * blockDim.x) {
        const size_t i = s.n - fresh + f;
        double sum = 0;
        if (!s.header->spoilt) {
#pragma unroll 4
            for (int a = 0; a < k; a++) sum = __dadd_rn(sum, s.lrd[s.neighbour[i * k + a]]);
        }
        out[s.task->scores.off + f] = s.header->spoilt ? nan : scoreOf(sum, s.lrd[i], k);
    }
}

}  // namespace lof
