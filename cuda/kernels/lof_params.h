// What the parameters of a task of op lof hold: Task::params lies at an even offset.
// made by go generate ./cuda from the table in detectors; do not edit
#pragma once
#include <stdint.h>

struct LofParams {
    int32_t k;
    int32_t points;
    int32_t embed;
    uint32_t znorm;  // 0 or 1
    uint32_t strict;  // 0 or 1
    float alpha;
};
static_assert(sizeof(LofParams) == 24, "layout");
