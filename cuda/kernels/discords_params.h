// What the parameters of a task of op discords hold: Task::params lies at an even offset.
// made by go generate ./cuda from the table in detectors; do not edit
#pragma once
#include <stdint.h>

struct DiscordsParams {
    int32_t minLength;
    int32_t maxLength;
    int32_t lengthStep;
    int32_t top;
    int32_t k;
    int32_t exclusion;
    uint32_t excludeFlat;  // 0 or 1
    int32_t rows;
    int32_t precision;
};
static_assert(sizeof(DiscordsParams) == 36, "layout");
