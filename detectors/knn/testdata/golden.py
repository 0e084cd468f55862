"""Writes golden.json: kNN weights by scikit-learn.

    python -m venv v && v/bin/pip install scikit-learn==1.9.1 && v/bin/python golden.py

Coordinates are whole numbers in units of 1/1024, so that they are the same in
float32 and float64. weights are the sums of NearestNeighbors.kneighbors() distances,
neighbours the indices, nearest first, of the first points, unless some of these have
neighbours that are equally far.
"""

import json

import numpy as np
from sklearn.neighbors import NearestNeighbors

rng = np.random.default_rng(20021019)
cases = []


def add(name, x, k):
    x = np.rint(np.asarray(x) * 1024).astype(int)
    f = x / 1024
    squares = np.sort(((x[:20, None] - x[None]) ** 2).sum(-1), axis=1)[:, : k + 2]
    d, at = NearestNeighbors(n_neighbors=k, algorithm="kd_tree").fit(f).kneighbors()
    case = dict(name=name, dim=x.shape[1], k=k, x=x.ravel().tolist(), weights=d.sum(axis=1).tolist())
    if (np.diff(squares, axis=1) > 0).all():
        case["neighbours"] = at[:20].ravel().tolist()
    print(name, "neighbours" in case)
    cases.append(case)


add("gauss", rng.normal(size=(200, 3)), 20)
add("uniform", rng.random((150, 8)), 10)
add("line", np.sort(rng.random((100, 1)) * 50, axis=0) ** 2, 5)
add("walk", np.cumsum(rng.normal(size=(180, 2)), axis=0), 15)
add("clusters", np.vstack([rng.normal(size=(60, 2)), 9 + 0.3 * rng.normal(size=(60, 2)), rng.normal(size=(5, 2)) * 20]), 12)
add("far from zero", 1000 + rng.normal(size=(120, 5)), 7)
add("one neighbour", rng.normal(size=(40, 4)), 1)
add("wide", rng.normal(size=(70, 33)), 9)
add("large k", rng.normal(size=(300, 2)), 150)
add("all others", rng.normal(size=(12, 2)), 11)
add("all equal", np.full((30, 2), 1.25), 5)
add("grid", rng.integers(0, 5, size=(200, 2)), 12)
add("spots", np.repeat(rng.normal(size=(20, 3)), 7, axis=0), 10)

with open("golden.json", "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
