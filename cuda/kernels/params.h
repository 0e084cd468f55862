// What the parameters of a task hold, by op: Task::params lies at an even offset.
// made by go generate ./cuda from the tables in detectors; do not edit
#pragma once
#include <stdint.h>

struct ZscoreParams {
    float window;
};
static_assert(sizeof(ZscoreParams) == 4, "layout");

struct IkasstParams {
    float window;
    float rank;
    float krylov;
    float gamma;
    float powerSteps;
    float epsilon;
    // a0 are the numbers after these, to the end.
    __device__ const float *a0() const { return reinterpret_cast<const float *>(this) + 6; }
};
static_assert(sizeof(IkasstParams) == 24, "layout");

struct LofParams {
    float k;
    float points;
    float embed;
    float znorm;
    float strict;
    float alpha;
};
static_assert(sizeof(LofParams) == 24, "layout");

struct FlatlineParams {
    float tolerance;
};
static_assert(sizeof(FlatlineParams) == 4, "layout");

struct KnnParams {
    float k;
    float points;
    float embed;
    float includeSelf;
    float neighbours;
};
static_assert(sizeof(KnnParams) == 20, "layout");

struct SvdsstParams {
    int32_t window;
    int32_t rank;
    int32_t gamma;
    float negligible;
};
static_assert(sizeof(SvdsstParams) == 16, "layout");

struct DiscordsParams {
    int32_t minLength;
    int32_t maxLength;
    int32_t lengthStep;
    int32_t top;
    int32_t k;
    int32_t exclusion;
    uint32_t excludeFlat;  // 0 or 1
    int32_t rows;
};
static_assert(sizeof(DiscordsParams) == 32, "layout");

struct DiscordParams {
    float k;
    float points;
    float excludeFlat;
    // m are the numbers after these, to the end.
    __device__ const float *m() const { return reinterpret_cast<const float *>(this) + 3; }
};
static_assert(sizeof(DiscordParams) == 12, "layout");
