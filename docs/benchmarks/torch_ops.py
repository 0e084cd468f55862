# The ops of `bench ops` with torch on the same GPU, batched over keys, data
# already on the device: what one gets without a kernel of one's own. Prints JSON
# lines with the same names of cases. IKA-SST by products with Hankel matrices
# through real FFTs of all keys at once; SVD-SST by torch.linalg.svd, by eigh of the
# w x w Gram matrices and by eigh of the trajectory matrices themselves, which are
# symmetric, each with every driver or library there is: the best one is the baseline.
# LOF and kNN weights by torch.cdist and topk, of large sets in parts.
#
#   python3 docs/benchmarks/torch_ops.py
import json
import math

import torch

RANK, KRYLOV, STEPS, EPSILON, K, DIM = 3, 5, 2, 1e-5, 20, 8
device = torch.device("cuda")


def fast_length(n):
    """The least length from n on that has no prime factor above 5."""
    while True:
        m = n
        for p in (2, 3, 5):
            while m % p == 0:
                m //= p
        if m == 1:
            return n
        n += 1


def hankel(spectrum, v, w, n):
    """y_i = sum_j x_{i+j} v_j for every key; spectrum is rfft(x)."""
    return torch.fft.irfft(spectrum * torch.fft.rfft(v, n).conj(), n)[:, :w]


def unit(v):
    return v / torch.linalg.vector_norm(v, dim=1, keepdim=True)


def ikasst(x, feedback, a0, w, fresh):
    """x: keys by reads+fresh-1 samples. One score after the other, as the feedback
    demands."""
    gamma = 2 * w - 1 + 8
    n = fast_length(2 * w - 1)
    reads = 2 * w - 1 + gamma
    scores = []
    for i in range(fresh):
        s = x[:, i : i + reads]
        past, present = s[:, : 2 * w - 1], s[:, gamma:]
        mean = (past.sum(1, keepdim=True) + present.sum(1, keepdim=True)) / (2 * (2 * w - 1))
        one, two = torch.fft.rfft(past - mean, n), torch.fft.rfft(present - mean, n)
        mu = feedback
        for _ in range(STEPS):
            mu = unit(hankel(two, hankel(two, mu, w, n), w, n))
        q = [mu]
        t = torch.zeros(len(x), KRYLOV, KRYLOV, device=device)
        for j in range(KRYLOV):
            r = hankel(one, hankel(one, q[j], w, n), w, n)
            t[:, j, j] = (q[j] * r).sum(1)
            if j == KRYLOV - 1:
                break
            basis = torch.stack(q, 2)
            r = r - (basis @ (basis.transpose(1, 2) @ r.unsqueeze(2))).squeeze(2)
            r = r - (basis @ (basis.transpose(1, 2) @ r.unsqueeze(2))).squeeze(2)
            beta = torch.linalg.vector_norm(r, dim=1)
            t[:, j, j + 1] = t[:, j + 1, j] = beta
            q.append(r / beta.unsqueeze(1))
        # cuSOLVER's batched solver fails on 65,536 at once.
        vectors = torch.cat([torch.linalg.eigh(part)[1] for part in t.split(16384)])
        scores.append(1 - (vectors[:, 0, -RANK:] ** 2).sum(1))
        feedback = unit(mu + EPSILON * a0)
    return torch.stack(scores, 1), feedback


def by_svd(h, r, driver):
    return torch.linalg.svd(h, driver=driver)[0][:, :, :r]


def by_gram(h, r, _):
    return torch.linalg.eigh(h @ h.transpose(1, 2))[1][:, :, -r:]


def by_symmetric(h, r, _):
    """h is symmetric: its singular values are the magnitudes of its eigenvalues."""
    values, vectors = torch.linalg.eigh(h)
    top = values.abs().topk(r, dim=1)[1].unsqueeze(1).expand(-1, h.shape[1], -1)
    return vectors.gather(2, top)


def svdsst(x, w, rank, leading, driver):
    """x: keys by reads samples. The trajectory matrices are views of x, no copies."""
    gamma = 2 * w - 1 + 8
    past, present = x[:, : 2 * w - 1], x[:, gamma:]
    mean = (past.sum(1, keepdim=True) + present.sum(1, keepdim=True)) / (2 * (2 * w - 1))
    u1 = leading((past - mean).unfold(1, w, 1), rank, driver)
    u2 = leading((present - mean).unfold(1, w, 1), 1, driver)
    return 1 - ((u1.transpose(1, 2) @ u2) ** 2).sum((1, 2))


# The forms of SVD-SST: name, leading vectors, driver of linalg.svd, library of eigh.
FORMS = [
    ("linalg.svd, its own driver", by_svd, None, "default"),
    ("linalg.svd, gesvd", by_svd, "gesvd", "default"),
    ("linalg.svd, gesvdj", by_svd, "gesvdj", "default"),
    ("linalg.svd, gesvda", by_svd, "gesvda", "default"),
    ("eigh of the Gram matrix, cusolver", by_gram, None, "cusolver"),
    ("eigh of the Gram matrix, magma", by_gram, None, "magma"),
    ("eigh of the trajectory matrix, cusolver", by_symmetric, None, "cusolver"),
    ("eigh of the trajectory matrix, magma", by_symmetric, None, "magma"),
]


def svdsst_forms(w, rank, keys):
    """Says each form's rate: on as many keys as it does in about half a second, at most keys."""
    samples = 2 * (2 * w - 1) + 8
    i = torch.arange(samples, device=device)
    shift = torch.arange(keys, device=device).unsqueeze(1)
    base = torch.sin(i / 9) + torch.sin((i + shift) / 23)
    inputs = [base + 0.1 * torch.randn(keys, samples, device=device) for _ in range(2)]
    exact = svdsst(inputs[0][:4].double(), w, rank, by_svd, None)
    for name, leading, driver, library in FORMS:
        case = f"svdsst w={w} r={rank}"
        try:
            torch.backends.cuda.preferred_linalg_library(library)
            score = lambda x: svdsst(x, w, rank, leading, driver)  # noqa: B023
            few = min(keys, 8)
            each = median_seconds(lambda x: score(x[:few]), inputs, 1) / few
            some = max(few, min(keys, int(0.5 / each)))
            off = (score(inputs[0][:4]).double() - exact).abs().max().item()
            seconds = median_seconds(lambda x: score(x[:some]), inputs, 3)
        except (RuntimeError, ValueError) as fault:  # gesvda gives up on a batch for one bad matrix
            say(case, None, "scores/s", f"{name}: {str(fault).splitlines()[0]}")
        else:
            say(case, some / seconds, "scores/s", f"{name}, {some} keys at once, scores off by up to {off:.1e}")
        finally:
            torch.backends.cuda.preferred_linalg_library("default")


def lof(x, k):
    """x: windows by points by dimensions. Local outlier factors of all points."""
    d = torch.cdist(x, x)
    d.diagonal(dim1=1, dim2=2).fill_(math.inf)
    near, index = d.topk(k, dim=2, largest=False)
    flat = index.flatten(1)
    reach = torch.maximum(near, near[:, :, -1].gather(1, flat).view_as(near))
    density = 1 / (reach.mean(2) + 1e-10)
    return density.gather(1, flat).view_as(near).mean(2) / density


def knn(x, k):
    """x: windows by points by dimensions. Summed distances to the k nearest others."""
    d = torch.cdist(x, x)
    d.diagonal(dim1=1, dim2=2).fill_(math.inf)
    return d.topk(k, dim=2, largest=False)[0].sum(2)


def knn_large(x, k, rows=4096):
    """x: points by dimensions, too many for all distances at once."""
    weights = []
    for part in x.split(rows):
        near = torch.cdist(part, x).topk(k + 1, dim=1, largest=False)[0]
        weights.append(near[:, 1:].sum(1))  # the first is the point itself
    return torch.cat(weights)


def median_seconds(f, inputs, repeat):
    """Median time of f by the device's events, on inputs in turn."""
    for x in inputs:
        f(x)
    times = []
    for i in range(repeat):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        f(inputs[i % len(inputs)])
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times)[len(times) // 2]


def say(case, value, unit_, note):
    print(json.dumps({"name": "torch", "case": case, "value": value, "unit": unit_, "device": torch.cuda.get_device_name(),
                      "note": f"torch {torch.__version__}, {note}"}), flush=True)


def main():
    torch.manual_seed(5)
    for w, fresh, keys in ((100, 16, 65536), (100, 1, 65536), (320, 16, 16384), (20, 16, 65536), (1024, 16, 2048)):
        samples = 2 * (2 * w - 1) + 8 + fresh - 1
        i = torch.arange(samples, device=device)
        shift = torch.arange(keys, device=device).unsqueeze(1)
        base = torch.sin(i / 9) + torch.sin((i + shift) / 23)
        inputs = [base + 0.1 * torch.randn(keys, samples, device=device) for _ in range(3)]
        a0 = unit(torch.randn(keys, w, device=device))
        seconds = median_seconds(lambda x: ikasst(x, a0, a0, w, fresh), inputs, 5)
        say(f"ikasst w={w}, {fresh} fresh", keys * fresh / seconds, "scores/s", f"rfft, {keys} keys at once")
    for w, rank, keys in ((320, 12, 512), (100, 3, 2048), (20, 3, 16384)):
        svdsst_forms(w, rank, keys)
    for n, windows in ((1024, 1024), (4096, 64)):
        inputs = [torch.randn(windows, n, DIM, device=device) for _ in range(4)]
        seconds = median_seconds(lambda x: lof(x, K), inputs, 9)
        say(f"lof N={n} d={DIM} k={K}", windows * n / seconds, "points/s", f"cdist and topk, {windows} windows at once")
    inputs = [torch.randn(1024, 1024, DIM, device=device) for _ in range(4)]
    say(f"knn N=1024 d={DIM} k={K}", 1024 * 1024 / median_seconds(lambda x: knn(x, K), inputs, 9), "points/s", "cdist and topk, 1024 windows at once")
    for n, dim in ((1000000, 2), (581012, 10)):
        inputs = [torch.randn(n, dim, device=device)]
        seconds = median_seconds(lambda x: knn_large(x, 50), inputs, 3)
        say(f"knn N={n} d={dim} k=50", n / seconds, "points/s", f"cdist and topk, 4096 rows at once, {seconds:.2f} s")


if __name__ == "__main__":
    main()
