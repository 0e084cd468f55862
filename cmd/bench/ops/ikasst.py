# IKA-SST with numpy: the baseline of `bench ikasst-cpu`.
# Arguments: window, rank, power steps. Prints scores a second.
# Moskvina and Zhigljavsky's singular spectrum transformation by the implicit Krylov
# approximation of Ide and Tsuda (SDM 2007): power steps on the present's trajectory
# matrix from the last direction, then Lanczos on the past's from there.
import sys
import time

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

w, rank, steps = (int(a) for a in sys.argv[1:4])
gamma = w // 2
krylov = 2 * rank if rank % 2 == 0 else 2 * rank - 1
rng = np.random.default_rng(5)
a0 = rng.standard_normal(w).astype(np.float64)
a0 /= np.linalg.norm(a0)


def score(x, feedback):
    """x: the 2w-1+gamma samples up to the scored one. Returns score and feedback."""
    past, present = x[: 2 * w - 1], x[gamma:]
    mean = (past.sum() + present.sum()) / (2 * len(past))
    h1 = np.ascontiguousarray(sliding_window_view(past - mean, w))
    h2 = np.ascontiguousarray(sliding_window_view(present - mean, w))
    mu = feedback
    for _ in range(steps):
        mu = h2 @ (h2.T @ mu)
        mu /= np.linalg.norm(mu)
    q = np.empty((krylov, w))
    q[0] = mu
    alpha, beta = np.empty(krylov), np.empty(krylov - 1)
    for s in range(krylov):
        r = h1 @ (h1.T @ q[s])
        alpha[s] = q[s] @ r
        if s == krylov - 1:
            break
        r -= q[: s + 1].T @ (q[: s + 1] @ r)
        r -= q[: s + 1].T @ (q[: s + 1] @ r)
        beta[s] = np.linalg.norm(r)
        q[s + 1] = r / beta[s]
    t = np.diag(alpha) + np.diag(beta, 1) + np.diag(beta, -1)
    _, vectors = np.linalg.eigh(t)
    feedback = mu + 1e-5 * a0
    return 1 - (vectors[0, -rank:] ** 2).sum(), feedback / np.linalg.norm(feedback)


i = np.arange(100_000)
series = np.sin(i / 9) + np.sin(i / 23) + 0.1 * rng.standard_normal(len(i))
reads = 2 * w - 1 + gamma
feedback, n, begin = a0, 0, 0.0
for end in range(reads, len(series)):
    if n == 500:
        begin = time.perf_counter()
    _, feedback = score(series[end - reads : end], feedback)
    n += 1
    if n > 500 and time.perf_counter() - begin > 3:
        break
print((n - 500) / (time.perf_counter() - begin))
