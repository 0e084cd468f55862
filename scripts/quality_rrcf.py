"""The trees of package rrcf, compiled: the same cuts from the same random numbers, and so the same scores.

The package walks Python objects and makes a few numpy arrays for each node on the way, 0.2 to 0.3 ms for a point and tree.
scores() takes some microseconds, and compares its first tree with the package's on the first CHECKED points of each series.
"""

import numba
import numpy as np

CHECKED = 600  # more than a tree holds, so that points are forgotten, too


@numba.njit(cache=True)
def add(a):
    """The sum in the order of np.sum, for up to 248 values."""
    if len(a) > 128:
        half = len(a) // 2
        half -= half % 8
        return add_block(a[:half]) + add_block(a[half:])
    return add_block(a)


@numba.njit(cache=True)
def add_block(a):
    n = len(a)
    if n < 8:
        total = 0.0
        for i in range(n):
            total += a[i]
        return total
    r = a[:8].copy()
    end = n - n % 8
    for i in range(8, end, 8):
        for j in range(8):
            r[j] += a[i + j]
    total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
    for i in range(end, n):
        total += a[i]
    return total


@numba.njit(cache=True)
def tree_scores(p, size, seed):
    """The collusive displacement of each point in a tree of the size points up to it."""
    np.random.seed(seed)
    n, dim = p.shape
    most = 2 * size + 2
    low, high = np.empty((most, dim)), np.empty((most, dim))  # the box of a node's points
    left, right, up = np.full(most, -1), np.full(most, -1), np.full(most, -1)
    count, axis, cut = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most)
    free = np.arange(most - 1, -1, -1)
    frees = most
    leaf_of = np.full(size, -1)
    root = -1
    span, out = np.empty(dim), np.empty(n)
    for i in range(n):
        x = p[i]
        if i >= size:  # forget the oldest
            leaf = leaf_of[i % size]
            node = leaf
            while node >= 0:
                count[node] -= 1
                node = up[node]
            if count[leaf] == 0:
                parent = up[leaf]
                free[frees] = leaf
                frees += 1
                if parent < 0:
                    root = -1
                else:
                    sibling = right[parent] if left[parent] == leaf else left[parent]
                    above = up[parent]
                    free[frees] = parent
                    frees += 1
                    up[sibling] = above
                    if above < 0:
                        root = sibling
                    elif left[above] == parent:
                        left[above] = sibling
                    else:
                        right[above] = sibling
                    while above >= 0:
                        changed = False
                        for k in range(dim):
                            a = min(low[left[above], k], low[right[above], k])
                            b = max(high[left[above], k], high[right[above], k])
                            changed |= a != low[above, k] or b != high[above, k]
                            low[above, k], high[above, k] = a, b
                        if not changed:
                            break
                        above = up[above]
        near = root
        while near >= 0 and left[near] >= 0:
            near = left[near] if x[axis[near]] <= cut[near] else right[near]
        if near >= 0 and (low[near] == x).all():
            leaf = near
            node = near
            while node >= 0:
                count[node] += 1
                node = up[node]
        else:
            frees -= 1
            leaf = free[frees]
            low[leaf], high[leaf] = x, x
            left[leaf], right[leaf], up[leaf], count[leaf] = -1, -1, -1, 1
            if root < 0:
                root = leaf
            else:
                node = root
                while True:
                    if left[node] < 0:  # the package draws a number, but cuts the first dimension at the higher value
                        np.random.random()
                        k = 0
                        at = max(low[node, k], x[k])
                        break
                    for k in range(dim):
                        span[k] = max(high[node, k], x[k]) - min(low[node, k], x[k])
                    r = add(span) * np.random.random()
                    total = 0.0
                    for k in range(dim):
                        total += span[k]
                        if total >= r:
                            break
                    at = min(low[node, k], x[k]) + total - r
                    if at <= low[node, k] or at >= high[node, k]:
                        break
                    node = left[node] if x[axis[node]] <= cut[node] else right[node]
                frees -= 1
                branch = free[frees]
                parent = up[node]
                axis[branch], cut[branch], up[branch] = k, at, parent
                if at <= low[node, k]:
                    left[branch], right[branch] = leaf, node
                else:
                    left[branch], right[branch] = node, leaf
                count[branch] = count[node] + 1
                up[node], up[leaf] = branch, branch
                if parent < 0:
                    root = branch
                elif left[parent] == node:
                    left[parent] = branch
                else:
                    right[parent] = branch
                for k in range(dim):
                    low[branch, k], high[branch, k] = min(low[node, k], x[k]), max(high[node, k], x[k])
                while parent >= 0:
                    count[parent] += 1
                    for k in range(dim):
                        low[parent, k], high[parent, k] = min(low[parent, k], x[k]), max(high[parent, k], x[k])
                    parent = up[parent]
        leaf_of[i % size] = leaf
        best = 0.0
        node = leaf
        while up[node] >= 0:
            parent = up[node]
            sibling = right[parent] if left[parent] == node else left[parent]
            best = max(best, count[sibling] / count[node])
            node = parent
        out[i] = best
    return out


def package_scores(p, size, seed):
    """What tree_scores computes, by the package."""
    import rrcf

    tree = rrcf.RCTree(random_state=seed)
    out = np.empty(len(p))
    for i in range(len(p)):
        if i >= size:
            tree.forget_point(i - size)
        tree.insert_point(p[i], index=i)
        out[i] = tree.codisp(i)
    return out


def scores(p, size, seeds):
    """The mean over trees with these seeds of tree_scores."""
    p = np.ascontiguousarray(p)
    total = np.zeros(len(p))
    for seed in seeds:
        total += tree_scores(p, size, seed)
    first = p[:CHECKED]
    if not np.array_equal(tree_scores(first, size, seeds[0]), package_scores(first, size, seeds[0])):
        raise RuntimeError("the compiled trees differ from rrcf's")
    return total / len(seeds)
