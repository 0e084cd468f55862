// The part of a lane without Go: see lane.c.
#pragma once
#include <cuda.h>
#include <stdint.h>

// Request and Reply are what parent and child send each other over a lane's
// socket, little endian; the parent's side is in cuda/child/protocol.go.
typedef struct {
    uint32_t magic, kind, batch, launches;
    uint64_t inOff, inBytes, tasksOff, tilesOff, launchesOff, outOff, outBytes, statusOff, tasks, scratchBytes;
    uint32_t copyOut, seq;
    uint32_t repeat, rotate;  // of measure
    uint64_t inFrom, inTo, outFrom, outTo, room;
    uint32_t rounds, zeroes;
    uint64_t zeroesOff, roundLimit, uploadsOff;
    uint32_t models, uploads;
} Request;

typedef struct {
    uint32_t magic, seq, code, pad;
    uint64_t nanos, a, b;
    char text[152];
} Reply;

// Launch is the struct of kernels/task.h.
typedef struct {
    uint32_t kernel, grid, block, shared, firstTile, tiles, firstTask, tasks;
} Launch;

// Zeroed and the status words are as in kernels/task.h.
typedef struct {
    uint32_t scratch, count;
} Zeroed;

// Upload is plan.Upload: bytes of the input that go to the memory for models.
typedef struct {
    uint64_t from, to, bytes;
} Upload;

enum { statusTodo = 2, statusMore = 3 };

_Static_assert(sizeof(Request) == 192 && sizeof(Reply) == 192 && sizeof(Launch) == 32, "layout");

enum { magic = 0x6f647261, badRequest = 10001 };
enum { kindHello = 1, kindMap, kindExecute, kindUnmap, kindMeasure, kindModels, kindFault = 9 };
enum { taskBytes = 80, tileBytes = 16, scratchUnit = 256 };

// Buffer is device memory that grows on demand and then loses its content.
typedef struct {
    CUdeviceptr p;
    size_t bytes;
} Buffer;

// Lane is one stream with its buffers, used by one system thread, with at most one batch in flight.
typedef struct {
    CUstream stream;
    CUevent begin, end;
    Buffer input, output, scratch;
} Lane;

enum { maxBatches = 4096, maxKernels = 256, maxRotate = 64 };

// Mapping is a batch's memory, shared with the parent and registered as pinned.
typedef struct {
    unsigned char *base;
    uint64_t bytes;
} Mapping;

extern Mapping mappings[maxBatches];
extern CUfunction kernelFunctions[maxKernels];
extern uint32_t kernelCount, sharedMost[maxKernels];
extern uint64_t memoryMost;  // bytes that all buffers together may take; 0 for no limit

int laneServe(Lane *l, int fd, Request *q);
int laneReply(int fd, const Request *q, Reply *r);
void replyError(Reply *r, CUresult code, const char *doing);
CUresult mapBatch(const Request *q, const char *path, Reply *r);
CUresult unmapBatch(const Request *q, Reply *r);
CUresult modelMemory(const Request *q, Reply *r);
CUresult allowShared(CUfunction f, int most, uint32_t *dynamic);
CUresult launchFault(Lane *l, CUfunction f);
