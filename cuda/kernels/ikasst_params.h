// What the parameters of a task of op ikasst hold: Task::params lies at an even offset.
// made by go generate ./cuda from the table in detectors; do not edit
#pragma once
#include <stdint.h>

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
