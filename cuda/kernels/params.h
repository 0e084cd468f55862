// What the parameters of a task hold, by op: Task::params lies at an even offset.
// made by go generate ./cuda from the tables in detectors; do not edit
#pragma once
#include <stdint.h>

struct ZscoreParams {
    int32_t window;
};
static_assert(sizeof(ZscoreParams) == 4, "layout");

struct IkasstParams {
    int32_t window;
    int32_t rank;
    int32_t krylov;
    int32_t gamma;
    int32_t powerSteps;
    float epsilon;
    // a0 are the numbers after these, to the end.
    __device__ const float *a0() const { return reinterpret_cast<const float *>(this) + 6; }
};
static_assert(sizeof(IkasstParams) == 24, "layout");

struct LofParams {
    int32_t k;
    int32_t points;
    int32_t embed;
    uint32_t znorm;  // 0 or 1
    float alpha;
    uint32_t strict;  // 0 or 1
};
static_assert(sizeof(LofParams) == 24, "layout");

struct FlatlineParams {
    float tolerance;
};
static_assert(sizeof(FlatlineParams) == 4, "layout");

struct KnnParams {
    int32_t k;
    int32_t points;
    int32_t embed;
    uint32_t includeSelf;  // 0 or 1
    uint32_t neighbours;  // 0 or 1
};
static_assert(sizeof(KnnParams) == 20, "layout");

struct SvdsstParams {
    int32_t window;
    int32_t rank;
    int32_t gamma;
    float negligible;
};
static_assert(sizeof(SvdsstParams) == 16, "layout");
