//go:build cuda

// One call from Go executes a whole batch: copy in, launches, copy out, wait. Each crossing of cgo
// and Go's scheduler costs microseconds, and a batch has a dozen calls of the driver.

#define _GNU_SOURCE
#include "lane.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

Mapping mappings[maxBatches];
CUfunction kernelFunctions[maxKernels];
uint32_t kernelCount, sharedMost[maxKernels];
uint64_t memoryMost;

static CUdeviceptr models;  // memory for models
static uint64_t modelsBytes;
static uint64_t memoryTaken;  // of memoryMost, by all lanes

#define TRY(call)                          \
    do {                                   \
        CUresult tried = (call);           \
        if (tried != CUDA_SUCCESS) {       \
            replyError(r, tried, #call);   \
            return tried;                  \
        }                                  \
    } while (0)

// replyError names the failed call, by its name up to the arguments, and its error.
void replyError(Reply *r, CUresult code, const char *doing) {
    const char *name = NULL;
    if (r->code) return;
    if (cuGetErrorName(code, &name) != CUDA_SUCCESS || !name) name = "unknown CUDA error";
    r->code = code;
    snprintf(r->text, sizeof r->text, "%s (%d) in %.*s", name, code, (int)strcspn(doing, "("), doing);
}

// refuse answers an invalid request.
static CUresult refuse(Reply *r, const char *why) {
    r->code = badRequest;
    snprintf(r->text, sizeof r->text, "%s", why);
    return CUDA_ERROR_INVALID_VALUE;
}

// whole sends or receives all of n bytes. It returns 0 where the other end is closed.
static int whole(int fd, void *p, size_t n, int sending) {
    char *at = p;
    while (n > 0) {
        ssize_t done = sending ? send(fd, at, n, MSG_NOSIGNAL) : read(fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return 0;
        at += done;
        n -= (size_t)done;
    }
    return 1;
}

int laneReply(int fd, const Request *q, Reply *r) {
    r->magic = magic;
    r->seq = q->seq;
    return whole(fd, r, sizeof *r, 1);
}

// grow makes room for n bytes.
static CUresult grow(Buffer *b, uint64_t n, Reply *r, const char *what) {
    if (n <= b->bytes) return CUDA_SUCCESS;
    uint64_t step = 2 << 20, room = (n + n / 4 + step - 1) & ~(step - 1), least = (n + 255) & ~(uint64_t)255;
    if (b->p) {
        CUresult freed = cuMemFree(b->p);
        __atomic_sub_fetch(&memoryTaken, b->bytes, __ATOMIC_RELAXED);
        b->p = 0;
        b->bytes = 0;
        TRY(freed);
    }
    CUresult e = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < 2 && e == CUDA_ERROR_OUT_OF_MEMORY; i++, room = least) {
        uint64_t taken = __atomic_add_fetch(&memoryTaken, room, __ATOMIC_RELAXED);
        if (memoryMost == 0 || taken <= memoryMost) e = cuMemAlloc(&b->p, room);
        if (e == CUDA_SUCCESS) {
            b->bytes = room;
            return e;
        }
        __atomic_sub_fetch(&memoryTaken, room, __ATOMIC_RELAXED);
    }
    replyError(r, e, what);
    if (e == CUDA_ERROR_OUT_OF_MEMORY) {
        size_t used = strlen(r->text);
        snprintf(r->text + used, sizeof r->text - used, " of %llu MiB", (unsigned long long)(n >> 20));
    }
    return e;
}

// inside reports whether [at, at+n) lies in [from, from+most) without overflow.
static int inside(uint64_t at, uint64_t n, uint64_t from, uint64_t most) {
    return at >= from && at - from <= most && n <= most - (at - from);
}

// check rejects a request whose offsets are outside the batch's memory or whose launches are
// invalid: the resulting fault would look like a kernel's.
static CUresult check(const Request *q, const Mapping *m, Reply *r) {
    if (!inside(q->inOff, q->inBytes, 0, m->bytes) || !inside(q->outOff, q->outBytes, 0, m->bytes))
        return refuse(r, "input or output is not in the batch's memory");
    if (q->tasks > UINT32_MAX || !inside(q->tasksOff, q->tasks * taskBytes, q->inOff, q->inBytes))
        return refuse(r, "tasks are not in the input");
    if (!inside(q->statusOff, q->tasks * 4, q->outOff, q->outBytes)) return refuse(r, "the status words are not in the output");
    if (q->inFrom < q->inOff || q->inFrom > q->inTo || q->inTo > q->tasksOff || q->outFrom < q->outOff || q->outFrom > q->outTo || q->outTo > q->statusOff)
        return refuse(r, "what to copy is not in the input or the output");
    if (q->launches > 1 << 20 || !inside(q->launchesOff, (uint64_t)q->launches * sizeof(Launch), 0, m->bytes) || q->launchesOff % 4)
        return refuse(r, "launches are not in the batch's memory");
    if ((q->inOff | q->tasksOff | q->tilesOff | q->outOff | q->statusOff) % 16) return refuse(r, "an offset is not a multiple of 16");
    const Launch *launches = (const Launch *)(m->base + q->launchesOff);
    for (uint32_t i = 0; i < q->launches; i++) {
        const Launch *s = &launches[i];
        if (s->kernel >= kernelCount) return refuse(r, "a launch names no kernel");
        if (s->shared > sharedMost[s->kernel]) return refuse(r, "a launch wants more shared memory than a block can have");
        if (s->grid == 0 || s->block == 0) return refuse(r, "a launch without blocks or threads");
        if (!inside(q->tilesOff + (uint64_t)s->firstTile * tileBytes, (uint64_t)s->tiles * tileBytes, q->inOff, q->inBytes))
            return refuse(r, "tiles are not in the input");
        if (!inside(s->firstTask, s->tasks, 0, q->tasks)) return refuse(r, "a launch has tasks that are not there");
    }
    if (!inside(q->zeroesOff, (uint64_t)q->zeroes * sizeof(Zeroed), 0, m->bytes) || q->zeroesOff % 4)
        return refuse(r, "what is to be zero is not in the batch's memory");
    const Zeroed *zeroes = (const Zeroed *)(m->base + q->zeroesOff);
    for (uint32_t i = 0; i < q->zeroes; i++) {
        if (!inside((uint64_t)zeroes[i].scratch * scratchUnit, (uint64_t)zeroes[i].count * scratchUnit, 0, q->scratchBytes))
            return refuse(r, "what is to be zero is not in the scratch memory");
    }
    if (!inside(q->uploadsOff, (uint64_t)q->uploads * sizeof(Upload), 0, m->bytes) || q->uploadsOff % 8)
        return refuse(r, "the uploads are not in the batch's memory");
    const Upload *uploads = (const Upload *)(m->base + q->uploadsOff);
    for (uint32_t i = 0; i < q->uploads; i++) {
        if (!inside(uploads[i].from, uploads[i].bytes, q->tasksOff, q->inOff + q->inBytes - q->tasksOff) ||
            !inside(uploads[i].to, uploads[i].bytes, 0, modelsBytes))
            return refuse(r, "a model is not in the input, or not in the memory for models");
    }
    return CUDA_SUCCESS;
}

// beginStatus writes the status words of the first round, in the stream.
static CUresult beginStatus(Lane *l, const Request *q, const unsigned char *base, CUdeviceptr out, Reply *r) {
    CUdeviceptr status = out + (q->statusOff - q->outOff);
    const Launch *launches = (const Launch *)(base + q->launchesOff);
    TRY(cuMemsetD32Async(status, 0, q->tasks, l->stream));
    for (uint32_t i = 0; q->rounds && i < q->launches; i++) {
        const Launch *s = &launches[i];
        if (s->tasks && (i == 0 || s->firstTask != s[-1].firstTask))
            TRY(cuMemsetD32Async(status + (uint64_t)s->firstTask * 4, statusTodo, s->tasks, l->stream));
    }
    return CUDA_SUCCESS;
}

// launchAll enqueues a round of the batch's launches on the given buffers: all of them in the first
// round, then the repeatable ones.
static CUresult launchAll(Lane *l, const Request *q, const unsigned char *base, uint32_t round, CUdeviceptr in, CUdeviceptr out, Reply *r) {
    CUdeviceptr tasks = in + (q->tasksOff - q->inOff), status = out + (q->statusOff - q->outOff), scratch = l->scratch.p;
    const Launch *launches = (const Launch *)(base + q->launchesOff);
    const Zeroed *zeroes = (const Zeroed *)(base + q->zeroesOff);
    for (uint32_t i = 0; i < q->zeroes; i++)
        TRY(cuMemsetD32Async(scratch + (uint64_t)zeroes[i].scratch * scratchUnit, 0, (size_t)zeroes[i].count * scratchUnit / 4, l->stream));
    for (uint32_t i = 0; i < q->launches; i++) {
        const Launch *s = &launches[i];
        if (round > 0 && s->tasks == 0) continue;
        CUdeviceptr tiles = in + (q->tilesOff - q->inOff) + (uint64_t)s->firstTile * tileBytes;
        void *args[] = {&tasks, &tiles, &in, &out, &status, &scratch, &models};  // a kernel takes the first six, or all
        TRY(cuLaunchKernel(kernelFunctions[s->kernel], s->grid, 1, 1, s->block, 1, 1, s->shared, l->stream, args, NULL));
    }
    return CUDA_SUCCESS;
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The wait for the end of a batch, ns: a thread polls for the first spin, then sleeps between two
// polls, longer each time. Sleeping in cuEventSynchronize instead made a batch of 2.2 ms 390 us
// slower and one of 9.7 ms 940 us (H200 in a virtual machine; polling adds 10 to 60 us).
enum { spin = 200000, sleepLeast = 20000, sleepMost = 500000 };

// waitEnd waits for the lane's end event, at most limit nanoseconds; 0: without a limit.
static CUresult waitEnd(Lane *l, uint64_t limit, Reply *r) {
    uint64_t began = now();
    CUresult e;
    while ((e = cuEventQuery(l->end)) == CUDA_ERROR_NOT_READY) {
        uint64_t waited = now() - began;
        if (limit && waited > limit) {
            e = CUDA_ERROR_LAUNCH_TIMEOUT;
            break;
        }
        if (waited < spin) {
            for (int i = 0; i < 16; i++) __builtin_ia32_pause();
            continue;
        }
        uint64_t nap = waited / 64;
        nap = nap < sleepLeast ? sleepLeast : nap > sleepMost ? sleepMost : nap;
        struct timespec t = {0, (long)nap};
        nanosleep(&t, NULL);
    }
    if (e != CUDA_SUCCESS) replyError(r, e, "the batch");
    return e;
}

static CUresult elapsed(CUevent from, CUevent to, uint64_t *nanos, Reply *r) {
    float ms = 0;
    TRY(cuEventElapsedTime(&ms, from, to));
    *nanos = (uint64_t)((double)ms * 1e6);
    return CUDA_SUCCESS;
}

// copy is cuMemcpyHtoDAsync or cuMemcpyDtoHAsync of a block's part and of the data after the block:
// one copy where they are adjacent.
static CUresult copy(Lane *l, CUdeviceptr device, unsigned char *host, uint64_t from, uint64_t to, uint64_t behind, uint64_t end, int in) {
    if (to == behind) behind = from, from = to;
    for (int i = 0; i < 2; i++, from = behind, to = end) {
        CUresult e = CUDA_SUCCESS;
        if (from < to && in) e = cuMemcpyHtoDAsync(device + from, host + from, to - from, l->stream);
        if (from < to && !in) e = cuMemcpyDtoHAsync(host + from, device + from, to - from, l->stream);
        if (e != CUDA_SUCCESS) return e;
    }
    return CUDA_SUCCESS;
}

// repeat executes the repeatable launches until no task requests more, at most the rounds that the
// request allows. Rounds without a task cost about 3 us, reading the status words with its copy and
// wait three times that. So it reads them after 1, 1, 2, 4, 8 rounds, and then after every 8.
static CUresult repeat(Lane *l, const Request *q, const Mapping *m, Reply *r) {
    CUdeviceptr status = l->output.p + (q->statusOff - q->outOff);
    const volatile uint32_t *words = (const uint32_t *)(m->base + q->statusOff);
    for (uint32_t round = 1, step = 1, look = 1;;) {
        TRY(cuMemcpyDtoHAsync(m->base + q->statusOff, status, q->tasks * 4, l->stream));
        TRY(cuEventRecord(l->end, l->stream));
        CUresult e = waitEnd(l, q->roundLimit * look, r);
        if (e != CUDA_SUCCESS) return e;
        uint64_t i = 0;
        while (i < q->tasks && words[i] != statusMore) i++;
        if (i == q->tasks || round >= q->rounds) return CUDA_SUCCESS;
        look = step < q->rounds - round ? step : q->rounds - round;
        for (uint32_t k = 0; k < look; k++, round++) {
            if ((e = launchAll(l, q, m->base, round, l->input.p, l->output.p, r)) != CUDA_SUCCESS) return e;
        }
        if (round > 2 && step < 8) step *= 2;
    }
}

// execute runs one batch. One copy brings the input, another returns output and status, unless the
// batch is a part of a split one.
static CUresult execute(Lane *l, const Request *q, Reply *r) {
    if (q->batch >= maxBatches || !mappings[q->batch].base) return refuse(r, "no such batch");
    const Mapping *m = &mappings[q->batch];
    CUresult e = check(q, m, r);
    if (e != CUDA_SUCCESS || q->tasks == 0) return e;
    if ((e = grow(&l->input, q->room > q->inBytes ? q->room : q->inBytes, r, "the input")) != CUDA_SUCCESS) return e;
    if ((e = grow(&l->output, q->outBytes, r, "the output")) != CUDA_SUCCESS) return e;
    if ((e = grow(&l->scratch, q->scratchBytes, r, "the scratch memory")) != CUDA_SUCCESS) return e;
    TRY(cuEventRecord(l->begin, l->stream));
    TRY(copy(l, l->input.p - q->inOff, m->base, q->inFrom, q->inTo, q->tasksOff, q->inOff + q->inBytes, 1));
    if (q->copyOut && q->outFrom < q->outTo)
        TRY(cuMemcpyHtoDAsync(l->output.p + (q->outFrom - q->outOff), m->base + q->outFrom, q->outTo - q->outFrom, l->stream));
    const Upload *uploads = (const Upload *)(m->base + q->uploadsOff);
    for (uint32_t i = 0; i < q->uploads; i++)
        TRY(cuMemcpyDtoDAsync(models + uploads[i].to, l->input.p + (uploads[i].from - q->inOff), uploads[i].bytes, l->stream));
    if ((e = beginStatus(l, q, m->base, l->output.p, r)) != CUDA_SUCCESS) return e;
    if ((e = launchAll(l, q, m->base, 0, l->input.p, l->output.p, r)) != CUDA_SUCCESS) return e;
    if (q->rounds && (e = repeat(l, q, m, r)) != CUDA_SUCCESS) return e;
    TRY(copy(l, l->output.p - q->outOff, m->base, q->outFrom, q->outTo, q->statusOff, q->outOff + q->outBytes, 0));
    TRY(cuEventRecord(l->end, l->stream));
    if ((e = waitEnd(l, 0, r)) != CUDA_SUCCESS) return e;
    return elapsed(l->begin, l->end, &r->nanos, r);
}

static int byValue(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// measure runs a batch, then repeats its launches over copies of its buffers in turn, so that no
// run finds its input in the cache. It returns the median of their times in nanos, the least in a,
// and the number of copies in b.
static CUresult measure(Lane *l, const Request *q, Reply *r) {
    CUresult e = execute(l, q, r);
    if (e != CUDA_SUCCESS || q->tasks == 0) return e;
    uint32_t repeat = q->repeat < 1 ? 1 : q->repeat > 10000 ? 10000 : q->repeat;
    uint32_t rotate = q->rotate < 1 ? 1 : q->rotate > maxRotate ? maxRotate : q->rotate;
    const unsigned char *base = mappings[q->batch].base;
    uint64_t inBytes = ((q->room > q->inBytes ? q->room : q->inBytes) + 255) & ~(uint64_t)255, outBytes = (q->outBytes + 255) & ~(uint64_t)255;
    Buffer copies = {0, 0};
    if ((e = grow(&copies, rotate * (inBytes + outBytes), r, "the copies to measure with")) != CUDA_SUCCESS) return e;
    uint64_t *times = calloc(repeat, sizeof *times);
    if (!times) return refuse(r, "no memory for the times");
    for (uint32_t i = 0; i < rotate && e == CUDA_SUCCESS; i++) {
        CUdeviceptr in = copies.p + i * (inBytes + outBytes);
        e = cuMemcpyDtoDAsync(in, l->input.p, q->inBytes, l->stream);
        if (e == CUDA_SUCCESS) e = cuMemcpyDtoDAsync(in + inBytes, l->output.p, q->outBytes, l->stream);
    }
    if (e != CUDA_SUCCESS) replyError(r, e, "copies to measure with");
    for (uint32_t i = 0; i < repeat && e == CUDA_SUCCESS; i++) {
        CUdeviceptr in = copies.p + (i % rotate) * (inBytes + outBytes);
        if (q->rounds && (e = beginStatus(l, q, base, in + inBytes, r)) != CUDA_SUCCESS) break;
        if ((e = cuEventRecord(l->begin, l->stream)) != CUDA_SUCCESS) break;
        if ((e = launchAll(l, q, base, 0, in, in + inBytes, r)) != CUDA_SUCCESS) break;
        if ((e = cuEventRecord(l->end, l->stream)) != CUDA_SUCCESS) break;
        if ((e = waitEnd(l, 0, r)) != CUDA_SUCCESS) break;
        e = elapsed(l->begin, l->end, &times[i], r);
    }
    if (e == CUDA_SUCCESS) {
        qsort(times, repeat, sizeof *times, byValue);
        r->nanos = times[repeat / 2];
        r->a = times[0];
        r->b = rotate;
        e = cuMemFree(copies.p);
        __atomic_sub_fetch(&memoryTaken, copies.bytes, __ATOMIC_RELAXED);
    }
    if (e != CUDA_SUCCESS) replyError(r, e, "measuring");
    free(times);
    return e;
}

// laneServe executes batches until a request of another kind arrives (1: it is in *q) or the parent
// has closed the lane (0).
int laneServe(Lane *l, int fd, Request *q) {
    prctl(PR_SET_TIMERSLACK, 1000UL);  // timer slack of this thread, ns; 50,000 by default
    while (whole(fd, q, sizeof *q, 0)) {
        Reply r = {0};
        if (q->magic != magic) return 0;
        if (q->kind == kindExecute)
            execute(l, q, &r);
        else if (q->kind == kindMeasure)
            measure(l, q, &r);
        else
            return 1;
        if (!laneReply(fd, q, &r)) return 0;
    }
    return 0;
}

// mapBatch maps the parent's memory into this process and the device.
CUresult mapBatch(const Request *q, const char *path, Reply *r) {
    if (q->batch >= maxBatches || mappings[q->batch].base) return refuse(r, "no free place for a batch of this number");
    uint64_t began = now();
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        snprintf(r->text, sizeof r->text, "open %.40s: %s", path, strerror(errno));
        r->code = badRequest;
        return CUDA_ERROR_INVALID_VALUE;
    }
    void *p = mmap(NULL, q->inBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int failed = errno;
    close(fd);
    if (p == MAP_FAILED) {
        snprintf(r->text, sizeof r->text, "mmap %llu bytes: %s", (unsigned long long)q->inBytes, strerror(failed));
        r->code = badRequest;
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult e = cuMemHostRegister(p, q->inBytes, CU_MEMHOSTREGISTER_PORTABLE);
    if (e != CUDA_SUCCESS) {
        replyError(r, e, "cuMemHostRegister");
        munmap(p, q->inBytes);
        return e;
    }
    mappings[q->batch] = (Mapping){p, q->inBytes};
    r->a = now() - began;
    return e;
}

CUresult unmapBatch(const Request *q, Reply *r) {
    if (q->batch >= maxBatches || !mappings[q->batch].base) return refuse(r, "no such batch");
    Mapping m = mappings[q->batch];
    mappings[q->batch] = (Mapping){0};
    TRY(cuMemHostUnregister(m.base));
    munmap(m.base, m.bytes);
    return CUDA_SUCCESS;
}

// modelMemory takes memory for models, once in a process, until it ends.
CUresult modelMemory(const Request *q, Reply *r) {
    if (models) return refuse(r, "there is memory for models already");
    TRY(cuMemAlloc(&models, q->inBytes));
    modelsBytes = q->inBytes;
    return CUDA_SUCCESS;
}

// allowShared lets a kernel use all shared memory of a block, most bytes, instead of 48 KB.
// *dynamic gets the bytes beyond the kernel's static memory.
CUresult allowShared(CUfunction f, int most, uint32_t *dynamic) {
    int own = 0;
    CUresult e = cuFuncGetAttribute(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f);
    if (e != CUDA_SUCCESS) return e;
    *dynamic = (uint32_t)(most - own);
    return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most - own);
}

// launchFault runs a kernel without arguments and waits for it.
CUresult launchFault(Lane *l, CUfunction f) {
    CUresult e = cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, l->stream, NULL, NULL);
    return e == CUDA_SUCCESS ? cuStreamSynchronize(l->stream) : e;
}
