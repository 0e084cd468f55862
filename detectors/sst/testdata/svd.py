"""Writes svd.json: SVD-SST scores by LAPACK's singular value decomposition (gesdd).

    python3 -m venv v && v/bin/pip install numpy
    v/bin/python svd.py > svd.json

The series are rounded to multiples of 1/1024, so that any program reads the same numbers. With each score come
what says how well it is defined: the distance of the two largest singular values of H2, and of the r-th and the
next of H1, as shares of the largest.
"""
import json

import numpy as np


def score(y, w, r, gamma):
    past, current = y[:2 * w - 1], y[gamma:]
    mean = np.concatenate([past, current]).mean()
    i = np.add.outer(np.arange(w), np.arange(w))
    u1, s1, _ = np.linalg.svd(past[i] - mean)
    u2, s2, _ = np.linalg.svd(current[i] - mean)
    count = min(r, int((s1 > 1e-6 * s1[0]).sum()))
    z = 1 - ((u1[:, :count].T @ u2[:, 0]) ** 2).sum()
    return z, (s2[0] - s2[1]) / s2[0], (s1[count - 1] - s1[count]) / s1[0]


def main():
    rng = np.random.default_rng(2005)
    cases = []

    def case(name, series, w, r, gamma=None, fresh=4):
        gamma = gamma or 2 * w - 1 + 8
        reads = 2 * w - 1 + gamma
        n = reads + fresh - 1
        x = np.round(series(np.arange(n), n) * 1024) / 1024
        z, current, past = zip(*[score(x[i:i + reads], w, r, gamma) for i in range(fresh)])
        cases.append(dict(name=name, window=w, rank=r, gamma=gamma, x=[int(v * 1024) for v in x], scores=z, current=current, past=past))

    def tones(t, n):
        return np.sin(0.31 * t) + 0.7 * np.sin(np.where(t < n // 2, 0.83, 0.55) * t) + 0.3 * rng.standard_normal(n)

    def noise(t, n):
        return rng.standard_normal(n)

    def walk(t, n):
        return np.cumsum(rng.standard_normal(n))

    def chirp(t, n):
        return np.sin(0.0006 * t * t) + 0.5 * rng.standard_normal(n)

    def step(t, n):
        return 3.0 * (t > n // 2) + 0.2 * rng.standard_normal(n)

    for w, r in ((8, 1), (20, 3), (50, 3), (50, 12), (100, 3), (100, 16)):
        for name, series in (("tones", tones), ("noise", noise), ("random walk", walk), ("chirp and noise", chirp), ("step", step)):
            case(f"{name}, w={w} r={r}", series, w, r)
    case("tones, overlapping, w=30 r=4", tones, 30, 4, gamma=11)
    case("two tones without noise, w=40 r=3", lambda t, n: np.sin(0.31 * t) + 0.5 * np.sin(0.83 * t), 40, 3)
    def faint(t, n):
        return np.where(t < n // 2, 4000 * np.sin(0.31 * t) + 4 * np.sin(0.83 * t), 4000 * np.sin(0.83 * t))

    case("a faint tone becomes the only one, w=40 r=4", faint, 40, 4)
    for name, series in (("tones", tones), ("noise", noise), ("chirp and noise", chirp)):
        case(f"{name}, w=320 r=12", series, 320, 12, fresh=2)

    print("[")
    print(",\n".join(json.dumps(c) for c in cases))
    print("]")


main()
