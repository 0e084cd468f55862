# The most likely rectangle of a Poisson map with numpy: the baseline of `bench scan-cpu`.
# Arguments: the file of the map, n*n counts in int64 and n*n baselines. Prints seconds a map,
# and the log-likelihood ratio found.
import sys
import time

import numpy as np

n = int(sys.argv[2])
counts, baselines = np.fromfile(sys.argv[1], dtype=np.int64).reshape(2, n, n).astype(np.float64)


def search():
    total = counts.sum()
    c = np.zeros((n + 1, n))
    b = np.zeros((n + 1, n))
    c[1:] = counts.cumsum(0)
    b[1:] = baselines.cumsum(0) * (total / baselines.sum())
    best = 0.0
    for y1 in range(n):
        # all strips from row y1 on, with sums along the columns
        dc = np.zeros((n - y1, n + 1))
        db = np.zeros((n - y1, n + 1))
        np.cumsum(c[y1 + 1 :] - c[y1], axis=1, out=dc[:, 1:])
        np.cumsum(b[y1 + 1 :] - b[y1], axis=1, out=db[:, 1:])
        for x1 in range(n):
            s = dc[:, x1 + 1 :] - dc[:, x1 : x1 + 1]
            e = db[:, x1 + 1 :] - db[:, x1 : x1 + 1]
            more = s > e
            s, e = s[more], e[more]
            if s.size == 0:
                continue
            inside = s * np.log(s / np.maximum(e, 1e-300))
            rest = total - s
            outside = np.where(rest > 0, rest * np.log(np.maximum(rest, 1) / np.maximum(total - e, 1e-300)), 0)
            best = max(best, (inside + outside).max())
    return best


times = []
for _ in range(3):
    start = time.perf_counter()
    found = search()
    times.append(time.perf_counter() - start)
print(np.median(times), found)
