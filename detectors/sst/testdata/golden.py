"""Writes golden.json: IKA-SST scores by two programs that share nothing with this repository's.

    python3 -m venv v && v/bin/pip install numpy==2.4.6 scipy==1.17.1 changepoynt==0.2.2
    v/bin/python golden.py > golden.json

"krylov": numpy on LAPACK. The trajectory matrices are scipy.linalg.hankel's; mu comes of the power
method on H2 H2'; an orthonormal basis Q of the Krylov space of (H1 H1', mu) of QR factorisations, no
Lanczos; the Ritz vectors of eigh of the dense Q' H1 H1' Q.

"changepoynt": the scoring function of changepoynt (Weber and Lenz), whose power method comes to 6 steps and whose Lanczos is
without re-orthogonalisation, fed with the centred matrices and our feedback. Its eigh_tridiagonal is
LAPACK's. It has no rule for degenerate input, so the cases have none.

The series are rounded to multiples of 1/1024, so that any program reads the same numbers.
"""
import json

import numpy as np
from changepoynt.algorithms.sst import _implicit_krylov_approximation
from scipy.linalg import hankel


def start(seed, w):
    mask, a, state = (1 << 64) - 1, [], seed
    for _ in range(w):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        a.append((z - (1 << 64) if z >> 63 else z) * 2.0**-63)
    a = np.array(a)
    return (a / np.sqrt((a * a).sum())).astype(np.float32)


def krylov(h1, h2, a, r, k, steps):
    mu = a[:, None]
    for _ in range(steps):
        mu = h2 @ (h2.T @ mu)
        mu /= np.linalg.norm(mu)
    c = h1 @ h1.T
    q = mu
    while q.shape[1] < k:
        q, _ = np.linalg.qr(np.column_stack([q, c @ q[:, -1]]))
    q[:, 0] = mu[:, 0]
    values, vectors = np.linalg.eigh(q.T @ c @ q)
    assert values[-r] > 3e-5 * values[-1] and (vectors[0] ** 2).min() > 3e-8  # else it does not count
    return 1 - (vectors[0, -r:] ** 2).sum(), mu


def changepoynt(h1, h2, a, r, k, steps):
    assert steps == 6
    return _implicit_krylov_approximation(h1, h2, a[:, None], r, k)


def scores(program, x, w, r, k, gamma, steps, epsilon, seed, fresh):
    a0 = start(seed, w).astype(np.float64)
    a, out = a0 / np.linalg.norm(a0), []
    for newest in range(len(x) - fresh, len(x)):
        y = x[newest + 2 - 2 * w - gamma:newest + 1]
        past, current = y[:2 * w - 1], y[gamma:]
        mean = np.concatenate([past, current]).mean()
        h1, h2 = (hankel(v[:w], v[w - 1:]) - mean for v in (past, current))
        z, mu = program(h1, h2, a, r, k, steps)
        out.append(z)
        a = mu[:, 0] + epsilon * a0
        a /= np.linalg.norm(a)
    return out


def main():
    rng = np.random.default_rng(2012)
    cases = []

    def case(name, series, w, r, k=None, gamma=None, steps=2, epsilon=1e-3, seed=1, fresh=8):
        k, gamma = k or (2 * r - r % 2), gamma or 2 * w - 1 + 8
        n = 2 * w - 1 + gamma + fresh - 1
        x = np.round(series(np.arange(n), n) * 1024) / 1024
        args = (x, w, r, k, gamma, steps, epsilon, seed, fresh)
        ours, theirs = scores(krylov, *args), scores(changepoynt, *args) if steps == 6 else []
        cases.append(dict(name=name, window=w, rank=r, krylov=k, gamma=gamma, steps=steps, epsilon=epsilon,
                          seed=seed, fresh=fresh, x=[int(v * 1024) for v in x],
                          krylov_scores=ours, changepoynt_scores=theirs))

    def tones(t, n):
        return np.sin(0.31 * t) + 0.7 * np.sin(np.where(t < n // 2, 0.83, 0.55) * t) + 0.3 * rng.standard_normal(n)

    case("two tones, w=50 r=3", tones, 50, 3)
    case("two tones, w=50 r=3, 6 steps", tones, 50, 3, steps=6)
    case("noise, w=20 r=3, 6 steps", lambda t, n: rng.standard_normal(n), 20, 3, steps=6)
    case("random walk, w=30 r=2, overlapping", lambda t, n: np.cumsum(rng.standard_normal(n)), 30, 2, gamma=20)
    case("random walk, w=30 r=4, 6 steps", lambda t, n: np.cumsum(rng.standard_normal(n)), 30, 4, steps=6)
    case("noise, w=40 r=12 k=24", lambda t, n: rng.standard_normal(n), 40, 12, fresh=4)
    case("chirp and noise, w=100 r=3", lambda t, n: np.sin(0.0006 * t * t) + 0.5 * rng.standard_normal(n), 100, 3, fresh=4)
    case("noise, w=16 r=1 k=2, 6 steps", lambda t, n: rng.standard_normal(n), 16, 1, k=2, steps=6)

    print("[")
    print(",\n".join(json.dumps(c) for c in cases))
    print("]")


main()
