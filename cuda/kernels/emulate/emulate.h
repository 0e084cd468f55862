// CUDA C++ on the CPU, to the extent that the kernels here use it, so that tests run their sources
// without a device. Blocks run one after the other. The threads of a block are fibers of one system
// thread. They switch only at barriers and warp operations, in a random order each round, so that a
// missing barrier shows. A block whose threads wait for each other forever ends the program with a
// message of what they wait for.
//
// Differences from a device: nothing runs in parallel, so a race between two accesses without a barrier
// in between may stay hidden (compute-sanitizer on a device finds those); arithmetic is the host's,
// with -ffp-contract=off, and fma only where the source calls it.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <limits>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(emulate::shared)

struct dim3 { unsigned x, y, z; };
struct float2 { float x, y; };
struct float3 { float x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace emulate {

constexpr int maxThreads = 1024;
constexpr int stackBytes = (256 << 10) + 17 * 64;  // not a power of two, with which the stacks' tops would share a few lines of the caches
constexpr size_t sharedBytes = 232 << 10;

// Fiber is one thread of a block.
struct Fiber {
    void *sp;
    dim3 index;
    bool done;
    const char *waits;    // what it waits for, if it does:
    const unsigned *met;  // until this is not
    unsigned before;      // this
};

// Collective is a warp operation of the lanes of one mask.
struct Collective {
    uint32_t mask, arrived, left;
    unsigned met;  // 1 once all have arrived
    bool reduced;  // sum has the result of a reduction
    uint64_t value[32], sum;
};

inline Fiber fibers[maxThreads];
inline Fiber *self;
inline void *scheduler;
inline dim3 block, grid, blockSize;
alignas(128) inline unsigned char shared[sharedBytes];
inline char *stacks;
inline int live;                              // threads that have not ended
inline unsigned barrier, arrived, votes[2];   // block barriers passed; threads at the next; its votes
inline uint64_t progress, order = 0x9e3779b97f4a7c15;
inline Collective collectives[32][64];
inline Collective *unused[32];  // of a warp, the first that has had no use
inline void (*entry)();

// odradek_change saves the running context in *from and continues with to.
extern "C" void odradek_change(void **from, void *to);
#ifdef ODRADEK_EMULATE_MAIN  // the kernels' objects have none
asm(R"(
.text
.global odradek_change
.type odradek_change,@function
odradek_change:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rdx  # not ret, whose target the processor would predict to be the caller
    jmpq *%rdx
.size odradek_change,.-odradek_change
)");
#endif

inline void yield() { odradek_change(&self->sp, scheduler); }

// wait lets others run until met has another value; the scheduler passes over the fiber until then.
inline void wait(const char *what, const unsigned *met) {
    self->waits = what;
    self->met = met;
    self->before = *met;
    yield();
    self->waits = nullptr;
}

// release ends a block barrier once all live threads are there.
inline bool release() {
    if (arrived != static_cast<unsigned>(live)) return false;
    arrived = 0;
    barrier++;
    votes[barrier & 1] = 0;
    progress++;
    return true;
}

inline void trampoline() {
    entry();
    self->done = true;
    live--;
    progress++;
    if (live > 0) release();
    for (;;) yield();
}

inline int lane() { return self->index.x & 31; }
inline int warp() { return self->index.x >> 5; }

// syncthreads is a block barrier. It returns the number of threads with a vote, and in the upper half
// whether any voted.
inline unsigned syncthreads(bool vote = false) {
    unsigned mine = barrier;
    votes[mine & 1] += vote;
    arrived++;
    if (!release()) wait("__syncthreads", &barrier);
    return votes[mine & 1];
}

// meet contributes value and returns the collective with all lanes' values.
inline Collective *meet(uint32_t mask, uint64_t value) {
    uint32_t bit = 1u << lane();
    if (!(mask & bit)) {
        fprintf(stderr, "emulate: thread %u of block %u is not in its own mask %08x\n", self->index.x, block.x, mask);
        abort();
    }
    Collective *c = nullptr, *own = collectives[warp()];
    Collective *&end = unused[warp()];
    for (Collective *o = own; o < end; o++) {
        if (o->mask == mask && !o->met && !(o->arrived & bit)) {
            c = o;
            break;
        }
    }
    if (!c) {
        for (c = own; c < end && c->mask; c++) {}
        if (c == own + 64) abort();
        end = std::max(end, c + 1);
        c->mask = mask;
        c->arrived = c->left = c->met = 0;
        c->reduced = false;
    }
    c->value[lane()] = value;
    c->arrived |= bit;
    if (c->arrived == mask) {
        c->met = 1;
        progress++;
    } else {
        wait("a warp operation", &c->met);
    }
    return c;
}

// leave ends the use of a collective.
inline void leave(Collective *c) {
    c->left |= 1u << lane();
    if (c->left == c->mask) c->mask = 0;
}

static inline float lesser(float a, float b) { return a < b || b != b ? a : b; }
static inline float greater(float a, float b) { return a > b || b != b ? a : b; }

template <class T> uint64_t bits(T v) {
    static_assert(sizeof(T) <= 8);
    uint64_t b = 0;
    memcpy(&b, &v, sizeof v);
    return b;
}

template <class T> T from(uint64_t b) {
    T v;
    memcpy(&v, &b, sizeof v);
    return v;
}

template <class T> T shuffle(uint32_t mask, T v, int source) {
    Collective *c = meet(mask, bits(v));
    if (source < 0 || source > 31 || !(mask >> source & 1)) source = lane();
    T got = from<T>(c->value[source]);
    leave(c);
    return got;
}

template <class T, class F> T reduce(uint32_t mask, T v, F f) {
    Collective *c = meet(mask, bits(v));
    if (!c->reduced) {
        T sum = from<T>(c->value[__builtin_ctz(mask)]);
        for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1) sum = f(sum, from<T>(c->value[__builtin_ctz(rest)]));
        c->sum = bits(sum);
        c->reduced = true;
    }
    T sum = from<T>(c->sum);
    leave(c);
    return sum;
}

// launch runs kernel() for each block; the closure has its arguments.
template <class K> void launch(unsigned blocks, unsigned threads, size_t dynamicShared, K kernel) {
    if (threads < 1 || threads > maxThreads || dynamicShared > sharedBytes - (5 << 10)) {
        fprintf(stderr, "emulate: a launch of %u threads with %zu bytes of shared memory\n", threads, dynamicShared);
        abort();
    }
    if (!stacks) stacks = static_cast<char *>(aligned_alloc(4096, static_cast<size_t>(maxThreads) * stackBytes));
    static K *current;
    current = &kernel;
    entry = [] { (*current)(); };
    grid = {blocks, 1, 1};
    blockSize = {threads, 1, 1};
    for (unsigned b = 0; b < blocks; b++) {
        block = {b, 0, 0};
        memset(shared, 0xff, dynamicShared);  // NaN
        live = static_cast<int>(threads);
        arrived = votes[0] = votes[1] = 0;
        for (int w = 0; w < 32; w++) unused[w] = collectives[w];
        for (unsigned t = 0; t < threads; t++) {
            Fiber &f = fibers[t];
            f.index = {t, 0, 0};
            f.done = false;
            f.waits = nullptr;
            f.met = nullptr;
            void **top = reinterpret_cast<void **>(stacks + static_cast<size_t>(t + 1) * stackBytes);
            *--top = nullptr;  // the alignment after a call
            *--top = reinterpret_cast<void *>(trampoline);
            for (int i = 0; i < 6; i++) *--top = nullptr;
            f.sp = top;
        }
        while (live > 0) {
            uint64_t before = progress;
            order = order * 6364136223846793005u + 1442695040888963407u;
            unsigned at = static_cast<unsigned>(order >> 33) % threads, back = order >> 63;
            for (unsigned i = 0; i < threads; i++) {
                Fiber &f = fibers[at];
                at = back ? (at ? at : threads) - 1 : at + 1 == threads ? 0 : at + 1;
                if (f.done || (f.met && *f.met == f.before)) continue;
                f.met = nullptr;
                self = &f;
                odradek_change(&scheduler, f.sp);
            }
            if (progress == before && live > 0) {
                fprintf(stderr, "emulate: block %u of %u waits for ever:\n", b, blocks);
                for (unsigned t = 0; t < threads; t++) {
                    if (!fibers[t].done) fprintf(stderr, "  thread %u at %s\n", t, fibers[t].waits ? fibers[t].waits : "?");
                }
                abort();
            }
        }
    }
}

}  // namespace emulate

// libm's are calls, because of NaN.
#define fminf(a, b) emulate::lesser(a, b)
#define fmaxf(a, b) emulate::greater(a, b)
#define threadIdx (emulate::self->index)
#define blockIdx (emulate::block)
#define blockDim (emulate::blockSize)
#define gridDim (emulate::grid)
constexpr int warpSize = 32;

static inline void __syncthreads() { emulate::syncthreads(); }
static inline int __syncthreads_count(int v) { return static_cast<int>(emulate::syncthreads(v != 0)); }
static inline int __syncthreads_or(int v) { return emulate::syncthreads(v != 0) > 0; }
static inline int __syncthreads_and(int v) { return emulate::syncthreads(v == 0) == 0; }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulate::leave(emulate::meet(mask, 0)); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

template <class T> T __shfl_sync(unsigned m, T v, int src, int width = 32) {
    return emulate::shuffle(m, v, (emulate::lane() & ~(width - 1)) | (src & (width - 1)));
}
template <class T> T __shfl_xor_sync(unsigned m, T v, int x, int width = 32) {
    int s = emulate::lane() ^ x;
    return emulate::shuffle(m, v, (s & ~(width - 1)) > (emulate::lane() & ~(width - 1)) ? emulate::lane() : s);
}
template <class T> T __shfl_up_sync(unsigned m, T v, unsigned d, int width = 32) {
    int l = emulate::lane(), s = l - static_cast<int>(d);
    return emulate::shuffle(m, v, s < (l & ~(width - 1)) ? l : s);
}
template <class T> T __shfl_down_sync(unsigned m, T v, unsigned d, int width = 32) {
    int l = emulate::lane(), s = l + static_cast<int>(d);
    return emulate::shuffle(m, v, s > (l | (width - 1)) ? l : s);
}
static inline unsigned __ballot_sync(unsigned m, int v) {
    return emulate::reduce<unsigned>(m, v ? 1u << emulate::lane() : 0, [](unsigned a, unsigned b) { return a | b; });
}
static inline int __any_sync(unsigned m, int v) { return __ballot_sync(m, v) != 0; }
static inline int __all_sync(unsigned m, int v) { return __ballot_sync(m, v) == m; }
template <class T> unsigned __match_any_sync(unsigned m, T v) {
    emulate::Collective *c = emulate::meet(m, emulate::bits(v));
    unsigned same = 0;
    for (int i = 0; i < 32; i++) {
        if ((m >> i & 1) && c->value[i] == emulate::bits(v)) same |= 1u << i;
    }
    emulate::leave(c);
    return same;
}
template <class T> T __reduce_add_sync(unsigned m, T v) { return emulate::reduce(m, v, [](T a, T b) { return a + b; }); }
template <class T> T __reduce_min_sync(unsigned m, T v) { return emulate::reduce(m, v, [](T a, T b) { return a < b ? a : b; }); }
template <class T> T __reduce_max_sync(unsigned m, T v) { return emulate::reduce(m, v, [](T a, T b) { return a > b ? a : b; }); }
template <class T> T __reduce_or_sync(unsigned m, T v) { return emulate::reduce(m, v, [](T a, T b) { return a | b; }); }
static inline unsigned __activemask() {  // of lanes that have not ended
    unsigned m = 0;
    for (int i = 0; i < 32; i++) {
        unsigned t = emulate::warp() * 32 + i;
        if (t < emulate::blockSize.x && !emulate::fibers[t].done) m |= 1u << i;
    }
    return m;
}

template <class T, class U> T atomicAdd(T *p, U v) { T o = *p; *p = o + static_cast<T>(v); return o; }
template <class T, class U> T atomicSub(T *p, U v) { T o = *p; *p = o - static_cast<T>(v); return o; }
template <class T, class U> T atomicMax(T *p, U v) { T o = *p; *p = std::max(o, static_cast<T>(v)); return o; }
template <class T, class U> T atomicMin(T *p, U v) { T o = *p; *p = std::min(o, static_cast<T>(v)); return o; }
template <class T, class U> T atomicOr(T *p, U v) { T o = *p; *p = o | static_cast<T>(v); return o; }
template <class T, class U> T atomicAnd(T *p, U v) { T o = *p; *p = o & static_cast<T>(v); return o; }
template <class T, class U> T atomicExch(T *p, U v) { T o = *p; *p = static_cast<T>(v); return o; }
template <class T, class U, class V> T atomicCAS(T *p, U c, V v) { T o = *p; if (o == static_cast<T>(c)) *p = static_cast<T>(v); return o; }

template <class T> T __ldg(const T *p) { return *p; }
template <class T> T __ldcg(const T *p) { return *p; }
template <class T> T __ldcs(const T *p) { return *p; }
template <class T> void __stcg(T *p, T v) { *p = v; }
template <class T> void __stcs(T *p, T v) { *p = v; }

static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
static inline unsigned __brev(unsigned v) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (v >> i & 1) << (31 - i);
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }

static inline unsigned __float_as_uint(float v) { return emulate::from<unsigned>(emulate::bits(v)); }
static inline int __float_as_int(float v) { return emulate::from<int>(emulate::bits(v)); }
static inline float __uint_as_float(unsigned v) { return emulate::from<float>(v); }
static inline float __int_as_float(int v) { return emulate::from<float>(static_cast<unsigned>(v)); }
static inline long long __double_as_longlong(double v) { return emulate::from<long long>(emulate::bits(v)); }
static inline double __longlong_as_double(long long v) { return emulate::from<double>(static_cast<uint64_t>(v)); }
static inline int __double2hiint(double v) { return static_cast<int>(emulate::bits(v) >> 32); }
static inline double __hiloint2double(int h, int l) { return emulate::from<double>(static_cast<uint64_t>(static_cast<uint32_t>(h)) << 32 | static_cast<uint32_t>(l)); }
static inline int __double2loint(double v) { return static_cast<int>(emulate::bits(v)); }

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __frcp_rn(float a) { return 1 / a; }
static inline float __frsqrt_rn(float a) { return 1 / sqrtf(a); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline double __drcp_rn(double a) { return 1 / a; }
static inline float __double2float_rn(double v) { return static_cast<float>(v); }
static inline float __double2float_ru(double v) {
    float f = static_cast<float>(v);
    return static_cast<double>(f) < v ? nextafterf(f, INFINITY) : f;
}
static inline float __double2float_rd(double v) {
    float f = static_cast<float>(v);
    return static_cast<double>(f) > v ? nextafterf(f, -INFINITY) : f;
}
static inline float __int2float_rn(int v) { return static_cast<float>(v); }
static inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
static inline float rsqrtf(float a) { return 1 / sqrtf(a); }
static inline double rsqrt(double a) { return 1 / sqrt(a); }
static inline float __saturatef(float a) { return fminf(fmaxf(a, 0), 1); }

// The 16-bit numbers and products of half.h.
static inline float floatOf(uint32_t half) {
    int exponent = half >> 10 & 31;
    float size = ldexpf(static_cast<float>((exponent ? 1024 : 0) + (half & 1023)), (exponent ? exponent : 1) - 25);
    return half & 0x8000 ? -size : size;
}
static inline uint32_t halfOf(float v) {
    uint32_t sign = __float_as_uint(v) >> 16 & 0x8000;
    float size = fabsf(v);
    if (!(size < 65520)) return sign | 0x7c00;
    int exponent;
    frexpf(size, &exponent);
    exponent = std::max(exponent, -13);  // subnormal numbers have the least normal one's
    uint32_t units = static_cast<uint32_t>(nearbyintf(ldexpf(size, 11 - exponent)));
    return sign | (units + (static_cast<uint32_t>(exponent + 13) << 10));
}
static inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t x, uint32_t y, const float (&c)[4]) {
    struct Lane { float a[8], b[4]; };
    static Lane lanes[32][32];
    Lane *of = lanes[emulate::warp()], &own = of[emulate::lane()];
    for (int i = 0; i < 8; i++) own.a[i] = floatOf(a[i / 2] >> 16 * (i & 1) & 0xffff);
    for (int i = 0; i < 4; i++) own.b[i] = floatOf((i < 2 ? x : y) >> 16 * (i & 1) & 0xffff);
    __syncwarp();
    int g = emulate::lane() >> 2, t = emulate::lane() & 3;
    for (int i = 0; i < 4; i++) {
        float sum = c[i];
        for (int k = 0; k < 16; k++) {
            const Lane &row = of[4 * g + (k & 7) / 2], &column = of[4 * (2 * t + (i & 1)) + (k & 7) / 2];
            sum += row.a[4 * (k >> 3) + 2 * (i >> 1) + (k & 1)] * column.b[2 * (k >> 3) + (k & 1)];
        }
        d[i] = sum;
    }
    __syncwarp();
}
static inline void fetch(uint4 *to, const uint4 *from) { *to = *from; }
static inline void fetches() {}
template <int N> void fetched() {}

template <class A, class B> std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return fmax(static_cast<T>(a), static_cast<T>(b));
    return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
template <class A, class B> std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return fmin(static_cast<T>(a), static_cast<T>(b));
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
