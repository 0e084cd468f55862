"""PyOD's isolation forest, fitted again and again: the same trees and the same scores, without the objects around them.

A fit of the package makes 100 estimators, copies and checks their parameters, and scores its own points twice: 0.12 s of
Python. Its seed is always the same, so the points that a tree sees and its random numbers depend on their number alone: a
first fit by the package says what they are, and later ones build the trees alone. Compared with the package's scores on the
first fit of each series. Another version of scikit-learn may have other internals: the package is used with it, and takes four
times as long.
"""

import functools
import sys

import numpy as np

TREES = 100
SEED = 1
known = True  # scikit-learn is one whose trees are known here


def package(before):
    from pyod.models.iforest import IForest

    return IForest(n_estimators=TREES, random_state=SEED, n_jobs=1).fit(before)


@functools.cache
def drawn(n):
    """The points of each tree, as weights, and the seed of its cuts, of a forest of n points."""
    fit = package(np.arange(n)[:, None]).detector_
    weights = np.zeros((TREES, n))
    for w, of in zip(weights, fit.estimators_samples_):
        w[of] = 1
    return weights, [e.random_state for e in fit.estimators_], fit.max_samples_, fit.estimators_[0].max_depth


def scores(before, fresh, first):
    """What IForest.fit(before).decision_function(fresh) returns."""
    global known
    if known:
        try:
            return forest(before, fresh, first)
        except (ImportError, AttributeError, TypeError, ValueError, RuntimeError) as e:
            known = False
            print(f"the package's own isolation forest is used: {e}", file=sys.stderr, flush=True)
    return package(before).decision_function(fresh)


def forest(before, fresh, first):
    from sklearn.ensemble._iforest import _average_path_length
    from sklearn.tree._criterion import MSE
    from sklearn.tree._splitter import RandomSplitter
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

    n, dim = before.shape
    weights, seeds, samples, deepest = drawn(n)
    p = np.ascontiguousarray(np.concatenate([before, fresh]), dtype=np.float32)
    y = np.random.RandomState(SEED).uniform(size=n)[:, None]
    lengths = _average_path_length(np.arange(n + 1))
    depth = np.zeros(len(p))
    for weight, seed in zip(weights, seeds):
        splitter = RandomSplitter(MSE(1, n), 1, 1, 0.0, np.random.RandomState(seed), None)
        tree = Tree(dim, np.array([1], dtype=np.intp), 1)
        DepthFirstTreeBuilder(splitter, 2, 1, 0.0, deepest, 0.0).build(tree, p[:n], y, weight, None)
        depth += (tree.compute_node_depths() + lengths[tree.n_node_samples] - 1.0)[tree.apply(p)]
    s = -(2.0 ** -(depth / (TREES * lengths[samples])))
    s = np.percentile(s[:n], 10) - s[n:]
    if first and not np.array_equal(s, package(before).decision_function(fresh)):
        raise RuntimeError("the trees differ from PyOD's")
    return s
