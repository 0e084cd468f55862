// What the parameters of a task of op knn hold: Task::params lies at an even offset.
// made by go generate ./cuda from the table in detectors; do not edit
#pragma once
#include <stdint.h>

struct KnnParams {
    int32_t k;
    int32_t points;
    int32_t embed;
    uint32_t includeSelf;  // 0 or 1
    uint32_t neighbours;  // 0 or 1
    uint32_t znorm;  // 0 or 1
};
static_assert(sizeof(KnnParams) == 24, "layout");
