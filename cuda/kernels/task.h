// The memory of a batch as kernels read it. A test compares it with Go's detectors.Task and
// cuda/plan/request.go.
#pragma once
#include <stdint.h>

// Span is a run of words of an arena.
struct Span { uint32_t off, len; };

// Task is one detector's work on one key, in the plan's order: detectors.Task, with the changes to
// after, x and model that plan.Task describes.
struct Task {
    uint32_t op, dim, fresh;
    uint32_t after;        // 0: carry lies in the input, 1: in the output, written by the task before
    Span params, x, bins;  // in the input; x in elements of the op's type
    Span carry;            // empty at a key's first task
    Span scores, next;     // in the output
    Span model;            // in the memory for models; empty without one
    Span detail;           // in the output
};

// Tile is the work of a block: tasks first to first+count-1 of the plan.
struct Tile {
    uint32_t first, count;
    uint32_t part;     // of the task, where several blocks share one
    uint32_t scratch;  // in units of 256 bytes
};

// Launch is one kernel launch of a batch.
struct Launch {
    uint32_t kernel;  // index into plan.Kernels
    uint32_t grid, block, shared;
    uint32_t firstTile, tiles;
    uint32_t firstTask, tasks;  // tasks of a launch that the child may repeat; else 0
};

// Zeroed is scratch that is zero before the launches, in units of 256 bytes.
struct Zeroed { uint32_t scratch, count; };

// Status words. A kernel writes the words of tasks that are not done.
enum : uint32_t {
    statusDone = 0,
    statusLeft = 1,  // the CPU has to score it
    statusTodo = 2,  // before the first round of a launch that the child may repeat
    statusMore = 3,  // requests another round, with its next as carry
};

static_assert(sizeof(Task) == 80 && sizeof(Tile) == 16 && sizeof(Launch) == 32, "layout");
