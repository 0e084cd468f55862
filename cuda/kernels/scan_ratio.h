// Op scan: the models' log-likelihood ratios, as detectors/scan computes them, to the bit: every operation is rounded
// separately.
#pragma once
#include "device.h"

namespace scan {

__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline double sub(double a, double b) { return __dsub_rn(a, b); }
__device__ inline double mul(double a, double b) { return __dmul_rn(a, b); }
__device__ inline double over(double a, double b) { return __ddiv_rn(a, b); }

// logOf1 returns ln(1+x) for finite x > -1, by the steps of Go's math.Log1p, which are the steps of
// FDLIBM's s_log1p.c.
__device__ inline double logOf1(double x) {
    double size = fabs(x), f = x, c = 0;
    unsigned long long bits = 1;
    int k = 1;
    if (size < 4.142135623730950488017e-01) {
        if (size < 1.0 / (1 << 29)) {
            if (size < 1.0 / (1ull << 54)) return x;
            return sub(x, mul(mul(x, x), 0.5));
        }
        if (x > -2.928932188134524755992e-01) k = 0;
    }
    if (k != 0) {
        double u = x;
        if (size < 9007199254740992.0) u = add(1.0, x);
        bits = static_cast<unsigned long long>(__double_as_longlong(u));
        k = static_cast<int>(bits >> 52) - 1023;
        if (size < 9007199254740992.0) c = over(k > 0 ? sub(1.0, sub(u, x)) : sub(x, sub(u, 1.0)), u);
        bits &= 0x000fffffffffffffull;
        if (bits < 0x0006a09e667f3bcdull) {
            u = __longlong_as_double(static_cast<long long>(bits | 0x3ff0000000000000ull));
        } else {
            k++;
            u = __longlong_as_double(static_cast<long long>(bits | 0x3fe0000000000000ull));
            bits = (0x0010000000000000ull - bits) >> 2;
        }
        f = sub(u, 1.0);
    }
    const double high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10;
    double half = mul(mul(0.5, f), f), times = k;
    if (bits == 0) {
        if (f == 0) {
            if (k == 0) return 0;
            return add(mul(times, high), add(c, mul(times, low)));
        }
        double r = mul(half, sub(1.0, mul(0.66666666666666666, f)));
        if (k == 0) return sub(f, r);
        return sub(mul(times, high), sub(sub(r, add(mul(times, low), c)), f));
    }
    double s = over(f, add(2.0, f)), z = mul(s, s), r = 1.479819860511658591e-01;
    r = add(1.531383769920937332e-01, mul(z, r));
    r = add(1.818357216161805012e-01, mul(z, r));
    r = add(2.222219843214978396e-01, mul(z, r));
    r = add(2.857142874366239149e-01, mul(z, r));
    r = add(3.999999999940941908e-01, mul(z, r));
    r = add(6.666666666666735130e-01, mul(z, r));
    r = mul(z, r);
    if (k == 0) return sub(f, sub(half, mul(s, add(half, r))));
    return sub(mul(times, high), sub(sub(half, add(mul(s, add(half, r)), add(mul(times, low), c))), f));
}

// bennett returns (1+u)ln(1+u) - u, for u >= -1.
__device__ inline double bennett(double u) {
    if (u <= -1) return 1;
    if (fabs(u) < 1.0 / 32) {
        double s = sub(1. / 90, over(u, 110));
        s = sub(1. / 72, mul(u, s));
        s = sub(1. / 56, mul(u, s));
        s = sub(1. / 42, mul(u, s));
        s = sub(1. / 30, mul(u, s));
        s = sub(1. / 20, mul(u, s));
        s = sub(1. / 12, mul(u, s));
        s = sub(1. / 6, mul(u, s));
        s = sub(1. / 2, mul(u, s));
        return mul(mul(u, u), s);
    }
    return sub(mul(add(1, u), logOf1(u)), u);
}

// surplus returns u - ln(1+u), for u >= -1.
__device__ inline double surplus(double u) {
    if (u <= -1) return __longlong_as_double(0x7ff0000000000000);
    if (fabs(u) < 1.0 / 32) {
        double s = sub(1. / 10, over(u, 11));
        s = sub(1. / 9, mul(u, s));
        s = sub(1. / 8, mul(u, s));
        s = sub(1. / 7, mul(u, s));
        s = sub(1. / 6, mul(u, s));
        s = sub(1. / 5, mul(u, s));
        s = sub(1. / 4, mul(u, s));
        s = sub(1. / 3, mul(u, s));
        s = sub(1. / 2, mul(u, s));
        return mul(mul(u, u), s);
    }
    return sub(u, logOf1(u));
}

enum : int { poisson, bernoulli, normal, exponential };  // models

// Directions of anomalous rectangles from what is expected, and numbers of sides.
enum : int { above, below, both };

// Total has the sums of a grid, exact integers up to 2^53; the normal model's counts may be less than 0.
struct Total {
    double count, baseline, variance;
    int model, direction;
    __device__ double expected(double b) const { return mul(over(b, baseline), count); }
};

// proportional reports whether a count is exactly the expected one.
__device__ inline bool proportional(long long count, long long baseline, const Total &t) {
    return static_cast<__int128>(count) * static_cast<long long>(t.baseline) == static_cast<__int128>(baseline) * static_cast<long long>(t.count);
}

// excess returns by how much a count exceeds the expected one, less than 0 where it falls short, or 0 in another direction.
__device__ inline double excess(double count, double baseline, const Total &t) {
    const __int128 c = static_cast<__int128>(static_cast<long long>(count)) * static_cast<long long>(t.baseline);
    const __int128 e = static_cast<__int128>(static_cast<long long>(baseline)) * static_cast<long long>(t.count);
    const bool less = c < e;
    if (c == e || t.direction == (less ? above : below)) return 0;
    const unsigned __int128 a = less ? e - c : c - e;
    double high = static_cast<double>(static_cast<unsigned long long>(a >> 64)), low = static_cast<double>(static_cast<unsigned long long>(a));
    const double v = over(add(mul(high, 18446744073709551616.0), low), t.baseline);
    return less ? -v : v;
}

// term returns the part of a ratio of the cells with the expectation e.
__device__ inline double term(double e, double d) { return e > 0 ? mul(e, bennett(over(d, e))) : 0; }

// The same for the normal model, of cells with the baseline b, and for the exponential one.
__device__ inline double normalTerm(double b, double d) {
    if (!(b > 0)) return 0;
    const double u = over(d, b);
    return mul(b, over(mul(u, u), 2));
}
__device__ inline double exponentialTerm(double e, double b, double d) { return e > 0 ? mul(b, surplus(over(d, e))) : 0; }

// ratioOfValues is ratio of the normal and of the exponential model, of an excess other than 0.
static __device__ __noinline__ double ratioOfValues(double d, double baseline, const Total &t) {
    const double out = sub(t.baseline, baseline);
    if (t.model == normal) return over(add(normalTerm(baseline, d), normalTerm(out, -d)), t.variance);
    return add(exponentialTerm(t.expected(baseline), baseline, d), exponentialTerm(t.expected(out), out, -d));
}

// ratio returns the log-likelihood ratio of a rectangle with these sums.
static __device__ __noinline__ double ratio(double count, double baseline, const Total &t) {
    double d = excess(count, baseline, t);
    if (d == 0) return 0;
    if (t.model >= normal) return ratioOfValues(d, baseline, t);
    double out = sub(t.baseline, baseline), r = add(term(t.expected(baseline), d), term(t.expected(out), -d));
    if (t.model != bernoulli) return r;
    Total others = {sub(t.baseline, t.count), t.baseline, 0, t.model, t.direction};
    return add(add(r, term(others.expected(baseline), -d)), term(others.expected(out), d));
}

}  // namespace scan
