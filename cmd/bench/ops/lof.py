# Local outlier factors with scikit-learn: the baseline of `bench lof-cpu`.
# Arguments: points of a window, dimensions, neighbours. Prints points a second,
# with the default search and with brute force.
import sys
import time

import numpy as np
from sklearn.neighbors import LocalOutlierFactor

n, dim, k = (int(a) for a in sys.argv[1:4])
x = np.random.default_rng(5).standard_normal((n, dim))
for algorithm in ("auto", "brute"):
    rates = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < 3:
        start = time.perf_counter()
        LocalOutlierFactor(n_neighbors=k, algorithm=algorithm, n_jobs=1).fit(x)
        rates.append(n / (time.perf_counter() - start))
    print(np.median(rates))
