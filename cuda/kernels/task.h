// The memory of a batch as kernels see it: Go's side is detectors.Task and
// cuda/plan/planner.go, held equal by a test.
#pragma once
#include <stdint.h>

// Span is a run of words of an arena.
struct Span { uint32_t off, len; };

// Task is one detector's work on one key, in the plan's order: detectors.Task, but for
// what plan.Task says of after, x and model.
struct Task {
    uint32_t op, dim, fresh;
    uint32_t after;        // 0: carry lies in the input, 1: in the output, where the task before left it
    Span params, x, bins;  // in the input; x in elements of the op's type
    Span carry;            // empty at a key's first task
    Span scores, next;     // in the output
    Span model;            // in the memory for models; empty without one
    Span detail;           // in the output
};

// Tile is what a block works on: tasks first to first+count-1 of the plan.
struct Tile {
    uint32_t first, count;
    uint32_t part;     // of the task, where several blocks share one
    uint32_t scratch;  // in units of 256 bytes
};

// Launch is one kernel launch of a batch.
struct Launch {
    uint32_t kernel;  // index into kernels.Names
    uint32_t grid, block, shared;
    uint32_t firstTile, tiles;
    uint32_t firstTask, tasks;  // those of a launch that the child may repeat; else 0
};

// Zeroed is scratch that is zero before the launches, in units of 256 bytes.
struct Zeroed { uint32_t scratch, count; };

// Status words. A kernel writes those of its tasks that are not done.
enum : uint32_t {
    statusDone = 0,
    statusLeft = 1,  // the CPU is to score it
    statusTodo = 2,  // before the first round of a launch that the child may repeat
    statusMore = 3,  // another round, with what it has put into next as its carry
};

static_assert(sizeof(Task) == 80 && sizeof(Tile) == 16 && sizeof(Launch) == 32, "layout");
