// What the parameters of a task of op scan hold: Task::params lies at an even offset.
// made by go generate ./cuda from the table in detectors; do not edit
#pragma once
#include <stdint.h>

struct ScanParams {
    int32_t columns;
    int32_t rows;
    int32_t model;
    int32_t top;
    int32_t maxRows;
    int32_t maxColumns;
    int32_t replicates;
    int32_t seed;
    float variance;
};
static_assert(sizeof(ScanParams) == 36, "layout");
