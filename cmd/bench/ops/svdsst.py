# SVD-SST with numpy and scipy: the baselines of `bench svdsst-cpu`.
# Arguments: window, rank. Prints scores a second of each of FORMS, which all give the
# same scores; forms of scipy only where it is installed.
# Ide and Inoue's singular spectrum transformation (SDM 2005) of the present's and the
# past's trajectory matrix. That is a w x w Hankel matrix H here, which is symmetric:
# its singular values are the magnitudes of its eigenvalues.
import sys
import time

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

try:
    import scipy.linalg
    import scipy.sparse.linalg
except ImportError:
    scipy = None

w, rank = (int(a) for a in sys.argv[1:3])
gamma = 2 * w - 1 + 8


def trajectories(x):
    """x: the 2w-1+gamma samples up to the scored one. Views, no copies."""
    past, present = x[: 2 * w - 1], x[gamma:]
    mean = (past.sum() + present.sum()) / (2 * len(past))
    return sliding_window_view(past - mean, w), sliding_window_view(present - mean, w)


def svd(h, r):
    return np.linalg.svd(h)[0][:, :r]


def gram(h, r):
    return np.linalg.eigh(h @ h.T)[1][:, -r:]


def symmetric(h, r):
    values, vectors = np.linalg.eigh(h)
    return vectors[:, np.argsort(np.abs(values))[-r:]]


def some(h, r):
    return scipy.linalg.eigh(h @ h.T, subset_by_index=[w - r, w - 1], overwrite_a=True, check_finite=False)[1]


def lanczos(h, r):
    return scipy.sparse.linalg.eigsh(np.ascontiguousarray(h), r)[1]


FORMS = [svd, gram, symmetric] + ([some, lanczos] if scipy else [])


def score(x, leading):
    past, present = trajectories(x)
    return 1 - ((leading(past, rank).T @ leading(present, 1)) ** 2).sum()


i = np.arange(100_000)
series = np.sin(i / 9) + np.sin(i / 23) + 0.1 * np.random.default_rng(5).standard_normal(len(i))
reads = 2 * w - 1 + gamma
for leading in FORMS:
    for n in range(3):
        x = series[1000 * n : 1000 * n + reads]
        if abs(score(x, leading) - score(x, svd)) > 1e-9:
            sys.exit(f"{leading.__name__} gives another score than svd")
    n, begin = 0, time.perf_counter()
    while n < 4 or time.perf_counter() - begin < 3:
        score(series[n : n + reads], leading)
        n += 1
    print(n / (time.perf_counter() - begin))
