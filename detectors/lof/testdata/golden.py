"""Writes golden.json: local outlier factors by scikit-learn.

    python -m venv v && v/bin/pip install scikit-learn==1.9.1 && v/bin/python golden.py

Coordinates are whole numbers in units of 1/1024, so that they are the same in
float32 and float64. scores are -LocalOutlierFactor.negative_outlier_factor_,
and the scores of the plain cases are without ties in what decides a neighbour.

The cases with virtual points take the neighbours among points and virtual
points from NearestNeighbors; lrd and LOF are then the package comment's,
in numpy. documentation is the example of LocalOutlierFactor's page, whose
scores are printed there.
"""

import json

import numpy as np
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

rng = np.random.default_rng(20171115)
cases = []


def whole(x):
    return np.rint(np.asarray(x) * 1024).astype(int)


def tie_free(x, k):
    """No point is as far as the k-th neighbour but that one."""
    d = np.sort(((x[:, None] - x[None]) ** 2).sum(-1), axis=1)
    return bool((d[:, 1] > 0).all() and (np.diff(d[:, k : k + 2], axis=1) > 0).all())


def median(v):
    v = np.sort(v)
    return v[(len(v) - 1) // 2]


def add(name, x, k, virtuals=None, counts=None, alpha=0.0, ties=False):
    x = whole(x)
    f = x / 1024
    case = dict(name=name, dim=x.shape[1], k=k, x=x.ravel().tolist())
    if virtuals is None:
        assert ties or tie_free(f, min(k, len(f) - 1)), name
        model = LocalOutlierFactor(n_neighbors=min(k, len(f) - 1), algorithm="kd_tree").fit(f)
        scores = -model.negative_outlier_factor_
    else:
        v = whole(virtuals)
        counts = np.asarray(counts, float)
        every = np.vstack([f, v / 1024])
        assert tie_free(every, k), name
        d, at = NearestNeighbors(n_neighbors=k + 1, algorithm="kd_tree").fit(every).kneighbors(every)
        assert (at[:, 0] == np.arange(len(every))).all()
        d, at = d[:, 1:], at[:, 1:]
        reach = np.maximum(d, d[at, -1])
        lrd = 1 / (reach.mean(axis=1) + 1e-10)
        n = len(f)
        if alpha > 0:
            lrd[n:] = alpha * np.maximum(np.log(counts), 0)
        else:
            lrd[n:] = median(lrd[:n]) / median(np.log1p(counts)) * np.log1p(counts)
        scores = (lrd[at].mean(axis=1) / lrd)[:n]
        case |= dict(virtuals=v.ravel().tolist(), counts=counts.tolist(), alpha=alpha)
    cases.append(case | dict(scores=scores.tolist()))


add("gauss", rng.normal(size=(200, 3)), 20)
add("uniform", rng.random((150, 8)), 10)
add("line", np.sort(rng.random((100, 1)) * 50, axis=0) ** 2, 5)
add("walk", np.cumsum(rng.normal(size=(180, 2)), axis=0), 15)
add("clusters", np.vstack([rng.normal(size=(60, 2)), 9 + 0.3 * rng.normal(size=(60, 2)), rng.normal(size=(5, 2)) * 20]), 12)
add("constant dimension", np.column_stack([rng.normal(size=90), np.full(90, 3.5), rng.normal(size=90)]), 7)
add("one neighbour", rng.normal(size=(40, 4)), 1)
add("wide", rng.normal(size=(70, 33)), 9)
add("large k", rng.normal(size=(300, 2)), 150)
add("all others", rng.normal(size=(12, 2)), 11)
add("k too large", rng.normal(size=(12, 2)), 50)
add("all equal", np.full((30, 2), 1.25), 5, ties=True)
# Spots of more than k equal points, far from each other and from the rest:
# the numbers are the same for any points of a spot.
spots = np.vstack([np.tile([[0.0, 0.0]], (9, 1)), np.tile([[100.0, 0.0]], (8, 1)), np.tile([[0.0, 300.0]], (8, 1))])
add("spots", spots, 5, ties=True)
add("near a spot", np.vstack([spots, [[1.0, 0.25]]]), 5, ties=True)
add("virtual points", rng.normal(size=(120, 2)), 8, rng.normal(size=(25, 2)), rng.integers(1, 60, 25))
add("virtual points, literal", rng.normal(size=(120, 2)), 8, rng.normal(size=(25, 2)), rng.integers(1, 60, 25) / 4, 1.75)
add("one virtual point", rng.normal(size=(50, 5)), 6, rng.normal(size=(1, 5)), [17.5])

with open("golden.json", "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
