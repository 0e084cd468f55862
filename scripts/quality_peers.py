"""Scores of other programs for a labelled data set, as `worker score -scores` reads them.

usage: quality_peers.py [-j processes] [-p peer,...] [-w samples,...] <folder to write> <set>=<folder> ...
       quality_peers.py -l [-m most samples] [-n series -s seed] <data set> <folder to write>
       quality_peers.py -o <scores of worker backtest> <data set> <folder to write>
       quality_peers.py -r columns <data set> <folder of scores> <folder to write>
       quality_peers.py -c [-p peer,...] [-w samples,...] <data set> <folder of scores>
       quality_peers.py -v <TSB-AD's table of VUS-PR> <data set> <folder to write>
       quality_peers.py -e false,... <output of worker score -json> ...

The data set is NAB (labels/combined_windows.json), UCR (<name>_<train>_<begin>_<end>.txt) or
pairs of <name>_train.csv and <name>_test.csv (SMD, ASD, SMAP, MSL). Each score is computed from
the samples up to its own alone. Subsequences are of 16 samples where a sample has one value, else of each of -w:
pyodknnw4 is pyodknn of 4 samples.

The first form writes <set>/<program>/<series>.csv for each series that has none yet, all from one pool of processes, those
that take longest first. It prints <set> and <program> as soon as all series of one are there.
"""

import argparse
import contextlib
import csv
import gzip
import itertools
import json
import multiprocessing
import os
import re
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")

EMBED = 16  # samples of a subsequence
WINDOW = 1024  # subsequences that a model is fitted to
REFIT = 128  # samples until it is fitted again
FIRST = 400  # samples before the first score, where there is something to fit


def files(folder):
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            found[re.sub(r"\.gz$", "", os.path.relpath(path, folder))] = path
    return found


def text(path):
    return gzip.open(path, "rt") if path.endswith(".gz") else open(path)


def columns_of(path):
    with text(path) as f:
        table = list(csv.reader(f))
    return table[0], table[1:]


def read(folder):
    """Yields name, values (samples x fields) and samples a day, or 0, of each series."""
    all_files = files(folder)
    labels = [p for n, p in all_files.items() if os.path.basename(n) == "combined_windows.json"]
    if labels:
        with text(labels[0]) as f:
            for name in json.load(f):
                path = [p for n, p in all_files.items() if n == name or n.endswith("/" + name)]
                if path:
                    _, rows = columns_of(path[0])
                    times = np.array([np.datetime64(r[0]) for r in rows])
                    step = np.median(np.diff(times) / np.timedelta64(1, "s"))
                    yield name[:-4], np.array([[float(r[1] or "nan")] for r in rows]), int(round(86400 / step))
        return
    for name, path in sorted(all_files.items()):
        base = os.path.basename(name)
        if re.search(r"_\d+_\d+_\d+\.txt$", base):
            with text(path) as f:
                yield base[:-4], np.array(f.read().split(), dtype=float)[:, None], 0
        elif base.endswith("_test.csv"):
            header, rows = columns_of(path)
            if name[:-9] + "_train.csv" in all_files:
                rows = columns_of(all_files[name[:-9] + "_train.csv"])[1] + rows
            keep = [i for i, h in enumerate(header) if h != "label"]
            yield base[:-9], np.array([[float(r[i] or "nan") for i in keep] for r in rows]), 0


def filled(x):
    """Missing values take the one before."""
    x = x.copy()
    for c in range(x.shape[1]):
        bad = ~np.isfinite(x[:, c])
        at = np.where(bad, 0, np.arange(len(x)))
        x[:, c] = x[np.maximum.accumulate(at), c]
    return np.nan_to_num(x)


def points(x, vectors):
    """What the models of points see, and the samples of a point before its last. vectors is EMBED where a sample has several values."""
    if x.shape[1] > 1:
        return np.hstack([x[i : len(x) - vectors + 1 + i] for i in range(vectors)]), vectors - 1
    return np.lib.stride_tricks.sliding_window_view(x[:, 0], EMBED), EMBED - 1


def season_of(x, day):
    """The lag of 3 to 400 samples with the highest autocorrelation of the first FIRST samples; a day where known."""
    if day > 1:
        return day
    v = x[:FIRST, 0] - x[:FIRST, 0].mean()
    r = np.array([np.dot(v[:-k], v[k:]) for k in range(3, min(200, len(v) // 2))])
    peaks = [i for i in range(1, len(r) - 1) if r[i - 1] < r[i] > r[i + 1]]
    return 3 + max(peaks, key=lambda i: r[i]) if peaks else 1


def scaled(x):
    scale = x[:FIRST].std(axis=0)
    return x / np.where(scale > 0, scale, 1)


def seasonal(x, day, _):
    """Seasonal naive: the distance to the sample one season before."""
    lag = season_of(x, day)
    out = np.full(len(x), np.nan)
    if lag < len(x):
        v = scaled(x)
        out[lag:] = np.abs(v[lag:] - v[:-lag]).max(axis=1)
    return out


def holtwinters(x, day, _):
    """The residual of additive Holt-Winters, whose constants statsmodels fits to the first two seasons, or FIRST samples."""
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    v = x[:, 0]
    lag = season_of(x, day)
    first = max(FIRST, 2 * lag + 10)
    if first >= len(v):
        lag, first = 1, FIRST
    warnings.filterwarnings("ignore")  # statsmodels has filters of its own
    fit = ExponentialSmoothing(v[:first], trend="add", seasonal="add" if lag > 1 else None, seasonal_periods=lag if lag > 1 else None).fit()
    a, b = fit.params["smoothing_level"], fit.params["smoothing_trend"]
    g = fit.params["smoothing_seasonal"] if lag > 1 else 0.0
    b, g = np.nan_to_num(b), np.nan_to_num(g)
    level, trend = fit.level[-1], fit.trend[-1]
    s = np.zeros(lag)
    for k in range(lag if lag > 1 else 0):
        i = first - lag + k
        s[i % lag] = fit.season[i]
    out = np.full(len(v), np.nan)
    for t in range(first, len(v)):
        expected = level + trend + s[t % lag]
        out[t] = abs(v[t] - expected)
        old = level
        level = a * (v[t] - s[t % lag]) + (1 - a) * (level + trend)
        trend = b * (level - old) + (1 - b) * trend
        if lag > 1:
            s[t % lag] = g * (v[t] - level) + (1 - g) * s[t % lag]
    return out


def windowed(score_of):
    """A model that is fitted to the WINDOW points before, each REFIT samples: score_of(points before, next points, whether they are the
    first) returns the scores of the next."""

    def score(x, _, vectors):
        p, ahead = points(x, vectors)
        out = np.full(len(x), np.nan)
        for at in range(FIRST, len(p), REFIT):
            out[ahead + at : ahead + at + REFIT] = score_of(p[max(0, at - WINDOW) : at], p[at : at + REFIT], at == FIRST)
        return out

    return score


def pyod_knn(before, fresh, _):
    from pyod.models.knn import KNN

    return KNN(n_neighbors=10, method="mean", n_jobs=1).fit(before).decision_function(fresh)


def pyod_lof(before, fresh, _):
    from pyod.models.lof import LOF

    return LOF(n_neighbors=20, n_jobs=1).fit(before).decision_function(fresh)


def pyod_iforest(before, fresh, first):
    from quality_iforest import scores

    return scores(before, fresh, first)


def squares(p, q):
    return np.maximum((p**2).sum(axis=1)[:, None] + (q**2).sum(axis=1) - 2 * p @ q.T, 0)


def kernel_density(x, _, vectors):
    """The estimate of SOD_GPU, without its summary of older points: minus the logarithm of the density of a Gaussian kernel over the
    WINDOW points before, bandwidth by Scott's rule."""
    p, ahead = points(scaled(x), vectors)
    out = np.full(len(x), np.nan)
    for at in range(FIRST, len(p), REFIT):
        before, fresh = p[max(0, at - WINDOW) : at], p[at : at + REFIT]
        spread = before.std(axis=0)
        spread = np.where(spread > 0, spread, 1) * len(before) ** (-1 / (p.shape[1] + 4))
        d = -squares(fresh / spread, before / spread) / 2
        most = d.max(axis=1)
        out[ahead + at : ahead + at + REFIT] = -most - np.log(np.exp(d - most[:, None]).mean(axis=1))
    return out


def neighbours(x, _, vectors):
    """The outliers that MCOD maintains: points with fewer than 10 neighbours within R among the WINDOW before; the score is how many
    are missing. R leaves 1 % of the first FIRST points with fewer."""
    p, ahead = points(scaled(x), vectors)
    first = squares(p[:FIRST], p[:FIRST])
    radius = np.quantile(np.sort(first, axis=1)[:, 10], 0.99)
    out = np.full(len(x), np.nan)
    for at in range(FIRST, len(p), REFIT):
        d = squares(p[at : at + REFIT], p[max(0, at - WINDOW) : at])
        out[ahead + at : ahead + at + REFIT] = np.maximum(10 - (d <= radius).sum(axis=1), 0)
    return out


def half_space_trees(x, _, vectors):
    """river's half-space trees on values scaled to the range of the first FIRST samples."""
    from river.anomaly import HalfSpaceTrees

    low, high = x[:FIRST].min(axis=0), x[:FIRST].max(axis=0)
    v = np.clip((x - low) / np.where(high > low, high - low, 1), -1, 2) / 3 + 1 / 3
    p, ahead = points(v, vectors)
    trees = HalfSpaceTrees(n_trees=25, height=8, window_size=250, seed=1)
    out = np.full(len(x), np.nan)
    names = list(range(p.shape[1]))
    for i, row in enumerate(p):
        features = dict(zip(names, row.tolist()))
        if i >= FIRST:
            out[ahead + i] = trees.score_one(features)
        trees.learn_one(features)
    return out


def random_cut_forest(x, _, vectors):
    """rrcf: the mean collusive displacement of 40 trees of the last 256 points, the numbers of its example for streams."""
    from quality_rrcf import scores

    p, ahead = points(scaled(x), vectors)
    rng = np.random.default_rng(1)
    seeds = rng.integers(1 << 31, size=40).tolist()
    noise = 1e-9 * rng.standard_normal(p.shape)  # equal points stop rrcf
    out = np.full(len(x), np.nan)
    out[ahead + FIRST :] = scores(p + noise, 256, seeds)[FIRST:]
    return out


def left_profile(m):
    """stumpy's left matrix profile: the distance of a subsequence to the nearest one before it."""

    def score(x, _, __):
        import stumpy

        if len(x) < 4 * m:
            return None
        v = x[:, 0]
        left = stumpy.stump(v, m)[:, 2].astype(int)
        windows = np.lib.stride_tricks.sliding_window_view(v, m)
        out = np.full(len(v), np.nan)
        for i in range(FIRST, len(windows)):
            if left[i] >= 0:
                a, b = windows[i], windows[left[i]]
                sa, sb = a.std(), b.std()
                if sa > 0 and sb > 0:
                    out[i + m - 1] = np.linalg.norm((a - a.mean()) / sa - (b - b.mean()) / sb)
                else:
                    out[i + m - 1] = 0.0 if sa == sb else np.sqrt(m)
        return out

    return score


PEERS = {
    "seasonal": seasonal,
    "holtwinters": holtwinters,
    "pyodknn": windowed(pyod_knn),
    "pyodlof": windowed(pyod_lof),
    "iforest": windowed(pyod_iforest),
    "hst": half_space_trees,
    "sod": kernel_density,
    "mcod": neighbours,
    "rrcf": random_cut_forest,
    "left50": left_profile(50),
    "left100": left_profile(100),
}


ONE = {"holtwinters", "left50", "left100"}  # programs of series of one value
SAMPLES = {"seasonal", "holtwinters"}  # programs of single samples, which know no subsequences

# CPU in us a sample, and a sample and thousand samples of the series: which job is begun first
COST = {"seasonal": (1, 0), "holtwinters": (97, 0), "pyodknn": (258, 0), "pyodlof": (383, 0), "iforest": (226, 0), "hst": (258, 0)}
COST |= {"rrcf": (172, 0), "sod": (22, 0), "mcod": (14, 0), "left50": (40, 5), "left100": (40, 5)}

loaded = {}  # (set, series) -> values and samples a day; inherited by the pool's processes


def programs(peers, widths, dim):
    """The names of programs, the peer of each and its samples of a subsequence, for samples of so many values."""
    for peer in peers:
        if dim == 1:
            yield peer, peer, 1
        elif peer not in ONE:
            for w in [1] if peer in SAMPLES else widths:
                yield peer + (f"w{w}" if w > 1 else ""), peer, w


def work(job):
    """Writes the scores of one program for one series, and how many samples took how many seconds."""
    (of, name), program, peer, width, path = job
    values, day = loaded[of, name]
    x = filled(values)
    start = time.process_time()
    try:
        scores = PEERS[peer](x, day, width)
        if scores is None:
            scores = np.full(len(x), np.nan)
        scores[~np.isfinite(values).any(axis=1)] = np.nan
        if len(x) > WINDOW and not np.isfinite(scores).any():
            raise ValueError("no scores")
    except Exception as e:
        why = f"{name}: {type(e).__name__}: " + " ".join(str(e).split())
        print(f"{program} on {of}, {why}", file=sys.stderr, flush=True)
        return of, program, why
    seconds = time.process_time() - start
    write(path + ".part", [program], (["nan" if not np.isfinite(v) else f"{v:.9g}"] for v in scores))
    with open(path + ".took", "w") as f:
        f.write(f"{len(x)} {seconds:.6f}\n")
    os.rename(path + ".part", path)
    return of, program, None


def warm(peers):
    """Compiles once what each process of the pool would compile. What fails here fails again in the pool, which says so."""
    with contextlib.suppress(Exception):
        if "rrcf" in peers:
            import quality_rrcf

            quality_rrcf.tree_scores(np.arange(12.0).reshape(6, 2), 4, 1)
    with contextlib.suppress(Exception):
        if "left50" in peers or "left100" in peers:
            import stumpy

            stumpy.stump(np.sin(np.arange(300.0)), 50)


def scored(path, samples):
    """Whether the scores of a series of so many samples are there. A file that has none, of more than WINDOW, is of a failed program."""
    if not os.path.exists(path):
        return False
    with open(path) as f:
        return samples <= WINDOW or any(line != "nan\n" for line in itertools.islice(f, 1, None))


def compute(processes, peers, widths, out, sets):
    jobs, left, failed = [], {}, {}
    for of, folder in sets:
        for name, values, day in read(folder):
            loaded[of, name] = values, day
            for program, peer, w in programs(peers, widths, values.shape[1]):
                path = os.path.join(out, of, program, name + ".csv")
                left.setdefault((of, program), 0)
                if not scored(path, len(values)):
                    left[of, program] += 1
                    flat, growing = COST[peer]
                    jobs.append((len(values) * (flat + growing * len(values) / 1000) * w**0.5, ((of, name), program, peer, w, path)))
    for pair, n in left.items():
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(out, *pair) + ".failed")
        if n == 0:
            print(*pair, flush=True)
    if not jobs:
        return
    jobs.sort(key=lambda j: -j[0])
    warm({job[2] for _, job in jobs})
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for of, program, why in pool.imap_unordered(work, [job for _, job in jobs]):
            left[of, program] -= 1
            if why:
                failed.setdefault((of, program), []).append(why)
            elif left[of, program] == 0 and (of, program) not in failed:
                print(of, program, flush=True)
    for (of, program), whys in failed.items():
        os.makedirs(os.path.join(out, of), exist_ok=True)
        with open(os.path.join(out, of, program + ".failed"), "w") as f:
            f.write(f"{len(whys)} series, the first {whys[0]}\n")


def took(peers, widths, data, folder):
    """Prints the CPU that the programs took for the series."""
    samples, seconds = {}, {}
    for name, values, _ in read(data):
        for program, _, _ in programs(peers, widths, values.shape[1]):
            if os.path.exists(os.path.join(folder, program + ".failed")):
                continue
            with open(os.path.join(folder, program, name + ".csv.took")) as f:
                n, s = map(float, f.read().split())
            samples[program], seconds[program] = samples.get(program, 0) + n, seconds.get(program, 0) + s
    print("us of CPU a sample: " + ", ".join(f"{p} {1e6 * s / max(samples[p], 1):.1f}" for p, s in seconds.items()))


def write(path, header, table):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        for row in itertools.chain([header], table):
            f.write(",".join(row) + "\n")


def chosen(folder, most, n, seed):
    """The series of up to that many samples or, of more than n, n that are drawn with the seed; and how many there were."""
    names = sorted(name for name, values, _ in read(folder) if len(values) <= most)
    some = names if n >= len(names) else sorted(np.random.default_rng(seed).choice(names, n, replace=False).tolist())
    return some, len(names)


def link(folder, out, names):
    """Links the files of the series, and those that belong to none, such as labels, into a folder that it empties."""
    series = re.compile(r"(_train\.csv|_test\.csv|\.csv|\.txt)$")
    known = {name for name, _, _ in read(folder)}
    for at, _, old in os.walk(out):
        for name in old:
            if os.path.islink(os.path.join(at, name)):
                os.remove(os.path.join(at, name))
    for name, path in files(folder).items():
        stem = series.sub("", name)
        of = [s for s in (stem, os.path.basename(stem), *(s for s in known if stem.endswith("/" + s))) if s in known]
        if not of or of[0] in names:
            to = os.path.join(out, os.path.relpath(path, folder))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            os.symlink(os.path.abspath(path), to)


def rows():
    lines = [json.loads(line) for line in sys.stdin]
    second = any(re.search(r"x\d+$", line["detector"]) for line in lines)  # has columns of the second table
    for line in lines:
        if second and re.search(r"x\d+$|^all together$", line["detector"]):
            continue
        nab = line.get("nab", {}).get("standard")
        per_day = line.get("false_per_series_day")
        print(
            f"| {line['detector']} | {'%.1f' % nab['score'] if nab else ''} "
            f"| {line['found_anomalies']} of {line['labelled_anomalies']} | {line['false_anomalies']} "
            f"| {'%.2f' % per_day if per_day is not None else ''} | {'%.3f' % line['average_precision'] if line['ranked_series'] else ''} "
            f"| {'%.3f' % line['vus_pr'] if line['ranked_series'] else ''} | {line.get('ucr_found', '')} |"
        )


def own(path, data, out):
    """Writes the scores of each detector in a table of worker backtest of a data set as a program's, into a folder of its name."""
    samples = {name: len(values) for name, values, _ in read(data)}
    tables = {}
    with open(path) as f:
        for r in csv.DictReader(f):
            column = tables.setdefault((r["detector"], r["series_key"]), [["nan"]] * samples[r["series_key"]])
            column[int(r["offset"])] = [r["score"] or "nan"]
    for (detector, series), column in tables.items():
        write(os.path.join(out, detector, series + ".csv"), [detector], column)


def repeat(data, folder, out, columns):
    """Writes tables that have the one column of each series' table in a folder once more and then so many times, <name>, <name>x0,
    <name>x1 and so on."""
    for name, _, _ in read(data):
        header, table = columns_of(os.path.join(folder, name + ".csv"))
        names = [header[0]] + [f"{header[0]}x{i}" for i in range(columns)]
        write(os.path.join(out, name + ".csv"), names, (r * len(names) for r in table))


def equal(bounds, paths):
    """Prints the most anomalies that each program finds with at most so many false ones, at one of the thresholds it was judged by."""
    print("| with at most so many false | " + " | ".join(map(str, bounds)) + " |\n|---|" + "---|" * len(bounds))
    for path in paths:
        with open(path) as f:
            lines = [json.loads(line) for line in f]
        of = [(r["found_anomalies"], r["false_anomalies"]) for r in lines if re.search(r"x\d+$", r["detector"])]
        most = lines[0]["labelled_anomalies"]
        cells = [max((found for found, false in of if false <= bound), default=0) for bound in bounds]
        print(f"| {os.path.basename(path)[:-5]}, found of {most} | " + " | ".join(map(str, cells)) + " |")


def published(table, data, out):
    """Prints the means of TSB-AD's own table of VUS-PR over the series of pairs <name>_train.csv and <name>_test.csv that it has,
    recognised by their numbers of samples, labelled ones and anomalies, and writes those as it has them: the test part alone."""
    ours = {}
    for name, path in files(data).items():
        if name.endswith("_test.csv"):
            header, table_rows = columns_of(path)
            at = header.index("label")
            labels = "".join(str(int(float(r[at]))) for r in table_rows)
            size = len(labels), labels.count("1"), len(re.findall("1+", labels))
            ours[size] = os.path.basename(name)[:-9], header, at, table_rows, labels.index("1")
    header, theirs = columns_of(table)
    size_at = [header.index(h) for h in ("ts_len", "anomaly_len", "num_anomaly")]
    found = {tuple(int(r[i]) for i in size_at): r for r in theirs}
    common = sorted(found.keys() & ours.keys(), key=lambda size: ours[size][0])
    print(", ".join(f"{ours[s][0]} ({found[s][0].split('_tr_')[0]})" for s in common))
    mean = {h: np.mean([float(found[s][i]) for s in common]) for i, h in enumerate(header[: size_at[0]]) if i}
    print(", ".join(f"{h} {v:.3f}" for h, v in sorted(mean.items(), key=lambda m: -m[1])))
    for s in common:
        name, head, at, table_rows, first = ours[s]
        fields = [i for i in range(len(head)) if i != at]
        made = ([r[i] for i in fields] + [r[at]] for r in table_rows)
        write(os.path.join(out, f"{name}_tr_0_1st_{first}.csv"), [head[i] for i in fields] + ["Label"], made)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("-j", type=int, default=os.cpu_count())
    flags.add_argument("-p", default=",".join(PEERS))
    flags.add_argument("-m", type=int, default=1 << 40, help="leave out series of more samples")
    flags.add_argument("-n", type=int, default=1 << 40, help="of more series, draw so many")
    flags.add_argument("-s", type=int, default=1, help="seed of the draw")
    flags.add_argument("-w", default="1", help="samples of a subsequence where a sample has several values")
    flags.add_argument("-l", action="store_true", help="only link the files of the series into the folder, and print which they are")
    flags.add_argument("-t", action="store_true", help="print the rows of a table from the output of worker score -json at stdin")
    flags.add_argument("-o", metavar="scores", help="write the scores of each detector in this table of worker backtest")
    flags.add_argument("-r", type=int, metavar="columns", help="write tables with the one column of each so many times")
    flags.add_argument("-c", action="store_true", help="print the CPU that the programs took")
    flags.add_argument("-e", metavar="false,...", help="print what each program finds with at most so many false anomalies")
    flags.add_argument("-v", metavar="table", help="print the means of TSB-AD's table of VUS-PR over the series, and write these as it has them")
    flags.add_argument("data", nargs="?")
    flags.add_argument("out", nargs="*")
    a = flags.parse_args()
    if a.t:
        rows()
        return
    if a.e:
        equal([int(b) for b in a.e.split(",")], [a.data, *a.out])
        return
    peers, widths = a.p.split(","), [int(w) for w in a.w.split(",")]
    if a.o:
        own(a.o, a.data, a.out[0])
    elif a.v:
        published(a.v, a.data, a.out[0])
    elif a.r:
        repeat(a.data, *a.out, a.r)
    elif a.c:
        took(peers, widths, a.data, a.out[0])
    elif a.l:
        names, of = chosen(a.data, a.m, a.n, a.s)
        link(a.data, a.out[0], set(names))
        drawn = f", drawn with seed {a.s}: {', '.join(names)}" if len(names) < of else ""
        print(f"{len(names)} of {of} series{drawn}")
    else:
        compute(a.j, peers, widths, a.data, [s.split("=", 1) for s in a.out])


main()
