// What the parameters of a task of op svdsst hold: Task::params lies at an even offset.
// made by go generate ./cuda from the table in detectors; do not edit
#pragma once
#include <stdint.h>

struct SvdsstParams {
    int32_t window;
    int32_t rank;
    int32_t gamma;
    float negligible;
};
static_assert(sizeof(SvdsstParams) == 16, "layout");
