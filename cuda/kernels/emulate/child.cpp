// A child that scores batches with the protocol and kernels of odradek-cuda, on the CPU, for tests
// without a device. The test that uses it builds it:
//
//	g++ -std=c++17 -O2 -march=native -ffp-contract=off -DODRADEK_EMULATE -c -x c++ -o ikasst.o ../ikasst.cu ...
//	g++ -std=c++17 -O2 -march=native -ffp-contract=off -DODRADEK_EMULATE '-DKERNELS=K(ikasst8) K(ikasst10) ...' -o child child.cpp ikasst.o ...
//
// KERNELS are plan.Kernels in order. See cuda/child/protocol.go for the protocol.
#define ODRADEK_EMULATE_MAIN
#include "../device.h"

#define K(name) extern "C" void name(const Task *, const Tile *, const float *, float *, uint32_t *, unsigned char *, const uint32_t *);
KERNELS
#undef K

#include <errno.h>
#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Request {
    uint32_t magic, kind, batch, launches;
    uint64_t inOff, inBytes, tasksOff, tilesOff, launchesOff, outOff, outBytes, statusOff, tasks, scratchBytes;
    uint32_t copyOut, seq, repeat, rotate;
    uint64_t inFrom, inTo, outFrom, outTo, room;
    uint32_t rounds, zeroes;
    uint64_t zeroesOff, roundLimit, uploadsOff;
    uint32_t models, uploads;
};
static_assert(sizeof(Request) == 192, "layout");

struct Reply {
    uint32_t magic, seq, code, pad;
    uint64_t nanos, a, b;
    char text[152];
};
static_assert(sizeof(Reply) == 192, "layout");

constexpr uint32_t magic = 0x6f647261;
enum { kindHello = 1, kindMap, kindExecute, kindUnmap, kindMeasure, kindModels };

// A kernel takes the first six parameters, or all.
typedef void (*Kernel)(const Task *, const Tile *, const float *, float *, uint32_t *, unsigned char *, const uint32_t *);
struct Named { const char *name; Kernel run; };
#define K(name) {#name, name},
const Named kernels[] = {KERNELS};
#undef K

struct Upload { uint64_t from, to, bytes; };
std::vector<char> models;

struct Mapping { char *at; size_t bytes; };
std::mutex mutex;  // one batch at a time, and the mappings
std::map<uint32_t, Mapping> mappings;

bool all(int fd, void *to, size_t n, bool in) {
    for (char *p = static_cast<char *>(to); n > 0;) {
        ssize_t got = in ? read(fd, p, n) : write(fd, p, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        n -= got;
    }
    return true;
}

// fail turns the reply into an error.
void fail(Reply &r, const char *what) {
    r.code = 1;
    snprintf(r.text, sizeof r.text, "%s", what);
}

// execute copies the input and the output of a device, so that a kernel that writes to a wrong place is
// detected, and one that does not write leaves NaN.
void execute(const Request &q, Reply &r) {
    auto found = mappings.find(q.batch);
    if (found == mappings.end()) return fail(r, "no such batch");
    char *base = found->second.at;
    size_t size = found->second.bytes;
    if (q.inOff + q.inBytes > size || q.outOff + q.outBytes > size) return fail(r, "a block lies outside of the batch's memory");
    if (q.inFrom < q.inOff || q.inFrom > q.inTo || q.inTo > q.tasksOff || q.outFrom < q.outOff || q.outFrom > q.outTo || q.outTo > q.statusOff)
        return fail(r, "what to copy is not in the input or the output");
    // Ranges that are not copied are NaN, in both directions.
    std::vector<char> in(q.room > q.inBytes ? q.room : q.inBytes, '\xff'), out(q.outBytes, '\xff');
    memcpy(in.data() + (q.inFrom - q.inOff), base + q.inFrom, q.inTo - q.inFrom);
    memcpy(in.data() + (q.tasksOff - q.inOff), base + q.tasksOff, q.inOff + q.inBytes - q.tasksOff);
    std::vector<char> before(in.begin(), in.begin() + q.inBytes);
    auto at = [&](uint64_t off) { return in.data() + (off - q.inOff); };
    float *outs = reinterpret_cast<float *>(out.data());
    uint32_t *status = reinterpret_cast<uint32_t *>(out.data() + (q.statusOff - q.outOff));
    if (q.copyOut) memcpy(out.data() + (q.outFrom - q.outOff), base + q.outFrom, q.outTo - q.outFrom);
    memset(status, 0, q.tasks * 4);
    std::vector<unsigned char> scratch(q.scratchBytes + 256, 0xff);
    unsigned char *aligned = scratch.data() + (256 - reinterpret_cast<uintptr_t>(scratch.data()) % 256) % 256;
    const Launch *launches = reinterpret_cast<const Launch *>(base + q.launchesOff);
    const Task *tasks = reinterpret_cast<const Task *>(at(q.tasksOff));
    const Tile *tiles = reinterpret_cast<const Tile *>(at(q.tilesOff));
    const Zeroed *zeroes = reinterpret_cast<const Zeroed *>(base + q.zeroesOff);
    for (uint32_t i = 0; i < q.launches; i++) {
        std::fill_n(status + launches[i].firstTask, launches[i].tasks, statusTodo);
    }
    const Upload *uploads = reinterpret_cast<const Upload *>(base + q.uploadsOff);
    for (uint32_t i = 0; i < q.uploads; i++) {
        if (uploads[i].to + uploads[i].bytes > models.size()) return fail(r, "a model is not in the memory for models");
        memcpy(models.data() + uploads[i].to, at(uploads[i].from), uploads[i].bytes);
    }
    for (uint32_t round = 0;; round++) {
        for (uint32_t i = 0; i < q.zeroes; i++) {
            if ((uint64_t(zeroes[i].scratch) + zeroes[i].count) * 256 > q.scratchBytes) return fail(r, "what is to be zero is not in the scratch memory");
            memset(aligned + size_t(zeroes[i].scratch) * 256, 0, size_t(zeroes[i].count) * 256);
        }
        for (uint32_t i = 0; i < q.launches; i++) {
            const Launch &l = launches[i];
            if (l.kernel >= sizeof kernels / sizeof *kernels) return fail(r, "no such kernel");
            if (round > 0 && l.tasks == 0) continue;
            emulate::launch(l.grid, l.block, l.shared, [&] {
                kernels[l.kernel].run(tasks, tiles + l.firstTile, reinterpret_cast<const float *>(at(q.inOff)), outs, status, aligned,
                                      reinterpret_cast<const uint32_t *>(models.data()));
            });
        }
        if (round + 1 >= q.rounds || std::find(status, status + q.tasks, statusMore) == status + q.tasks) break;
    }
    if (!std::equal(before.begin(), before.end(), in.begin())) return fail(r, "a kernel has changed its input");
    memcpy(base + q.outFrom, out.data() + (q.outFrom - q.outOff), q.outTo - q.outFrom);
    memcpy(base + q.statusOff, status, q.tasks * 4);
}

// multiprocessors returns the number of the emulated device, on which default numbers of blocks depend.
int multiprocessors() {
    const char *n = getenv("ODRADEK_EMULATE_SMS");
    return n ? atoi(n) : 132;
}

void answer(const Request &q, const std::string &path, Reply &r) {
    std::lock_guard<std::mutex> lock(mutex);
    switch (q.kind) {
    case kindHello:
        r.a = 1 << 30;
        r.b = static_cast<uint64_t>(multiprocessors()) << 32 | 227 << 16 | 90;
        snprintf(r.text, sizeof r.text, "emulation on the CPU");
        return;
    case kindMap: {
        int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
        void *p = fd < 0 ? MAP_FAILED : mmap(nullptr, q.inBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0) close(fd);
        if (p == MAP_FAILED) return fail(r, strerror(errno));
        mappings[q.batch] = {static_cast<char *>(p), q.inBytes};
        return;
    }
    case kindMeasure:  // once
    case kindExecute: {
        const auto began = std::chrono::steady_clock::now();
        execute(q, r);
        r.a = r.nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began).count();
        return;
    }
    case kindModels:
        models.assign(q.inBytes, '\xff');
        return;
    case kindUnmap: {
        auto found = mappings.find(q.batch);
        if (found == mappings.end()) return fail(r, "no such batch");
        munmap(found->second.at, found->second.bytes);
        mappings.erase(found);
        return;
    }
    default:
        return fail(r, "no such request");
    }
}

void serve(int fd) {
    for (Request q; all(fd, &q, sizeof q, true) && q.magic == magic;) {
        std::string path;
        if (q.kind == kindMap) {
            uint32_t n;
            if (!all(fd, &n, 4, true) || n > 4096) return;
            path.resize(n);
            if (!all(fd, &path[0], n, true)) return;
        }
        Reply r{};
        r.magic = magic;
        r.seq = q.seq;
        answer(q, path, r);
        if (!all(fd, &r, sizeof r, false)) return;
    }
}

}  // namespace

int main(int argc, char **argv) {
    int lanes = 1;
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "-lanes")) lanes = atoi(argv[i + 1]);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < lanes; i++) {
        threads.emplace_back([i] {
            serve(3 + i);
            _exit(0);  // the parent has ended
        });
    }
    for (std::thread &t : threads) t.join();
}
