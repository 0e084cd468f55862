# kNN weights with trees of scipy and scikit-learn: the baselines of `bench knn-cpu`.
# Arguments: points, dimensions, neighbours, workers, and an npz file of a table. Prints the
# seconds of all weights of normal points by scipy's cKDTree, and with a table the seconds of
# scikit-learn's kneighbors.
import sys
import time

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

n, dim, k, workers = (int(a) for a in sys.argv[1:5])
x = np.random.default_rng(5).standard_normal((n, dim))
start = time.perf_counter()
cKDTree(x).query(x, k=k + 1, workers=workers)[0].sum(axis=1)
print(time.perf_counter() - start)
if len(sys.argv) > 5:
    x = np.load(sys.argv[5])["X"].astype(np.float64)
    start = time.perf_counter()
    NearestNeighbors(n_neighbors=k, n_jobs=workers).fit(x).kneighbors()[0].sum(axis=1)
    print(time.perf_counter() - start)
