# SVD-SST with numpy: the baseline of `worker bench svdsst-cpu`.
# Arguments: window, rank. Prints scores a second.
# Ide and Inoue's singular spectrum transformation (SDM 2005) with LAPACK's singular
# value decompositions of the present's and the past's trajectory matrix.
import sys
import time

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

w, rank = (int(a) for a in sys.argv[1:3])
gamma = 2 * w - 1 + 8
rng = np.random.default_rng(5)


def score(x):
    """x: the 2w-1+gamma samples up to the scored one."""
    past, present = x[: 2 * w - 1], x[gamma:]
    mean = (past.sum() + present.sum()) / (2 * len(past))
    u1, _, _ = np.linalg.svd(np.ascontiguousarray(sliding_window_view(past - mean, w)))
    u2, _, _ = np.linalg.svd(np.ascontiguousarray(sliding_window_view(present - mean, w)))
    return 1 - ((u1[:, :rank].T @ u2[:, 0]) ** 2).sum()


i = np.arange(100_000)
series = np.sin(i / 9) + np.sin(i / 23) + 0.1 * rng.standard_normal(len(i))
reads = 2 * w - 1 + gamma
score(series[:reads])
n, begin = 0, time.perf_counter()
while n < 4 or time.perf_counter() - begin < 3:
    score(series[n : n + reads])
    n += 1
print(n / (time.perf_counter() - begin))
