// What the parameters of a task of op discord hold: Task::params lies at an even offset.
// made by go generate ./cuda from the table in detectors; do not edit
#pragma once
#include <stdint.h>

struct DiscordParams {
    int32_t k;
    int32_t points;
    uint32_t excludeFlat;  // 0 or 1
    // m are the numbers after these, to the end.
    __device__ const int32_t *m() const { return reinterpret_cast<const int32_t *>(this) + 3; }
};
static_assert(sizeof(DiscordParams) == 12, "layout");
