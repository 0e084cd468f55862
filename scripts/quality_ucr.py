"""Which configurations find the anomaly of each series of the UCR archive: each a process of its own, and the sums.

usage: quality_ucr.py [-j processes] [-c configuration,...] <worker> <data set> <folder to write>

A configuration is a line of CONFIGURATIONS: settings of worker score. For each series it writes <configuration>/<series>.json,
which is not computed again, and prints a table of all detectors over the series that there are so far. A configuration whose
name begins with "scores" takes the scores of its detectors instead, and rules() combines every set of them as op ensemble does;
the table then has, of each kind of rules, those which find the most, and what the best on one half finds on the other.
"""

import argparse
import csv
import gzip
import itertools
import json
import multiprocessing
import os
import re
import subprocess
import sys

NEAR = "OP=knn EMBED=19 K=10"
WIDE = "OP=knn EMBED=32 K=27 WINDOW=2048 STRIDE=16"
LENGTHS = (50, 75, 100, 150, 200)


def discord(length, window, smooth=True):
    # A larger STRIDE takes an eighth less time, but the last samples of a series, up to STRIDE-1, have no score.
    return f"OP=discord LENGTH={length} WINDOW={window} STRIDE=16" + (f" SMOOTH={length}" if smooth else "")


def several(window):
    """kNN and smoothed discords, ensembles of them, and what else might matter to these."""
    d = {"near": NEAR, "wide": WIDE, "nearsmooth": NEAR + " SMOOTH=19"}
    d |= {f"d{m}": discord(m, window) for m in LENGTHS}
    for name, members in {
        "best": "near,d50,d100",
        "bestwide": "wide,d50,d100",
        "bestsmooth": "nearsmooth,d50,d100",
        "e75x150": "near,d75,d150",
        "e100x150": "near,d100,d150",
        "e100x200": "near,d100,d200",
        "e50x100x150": "near,d50,d100,d150",
        "e50x100x200": "near,d50,d100,d200",
        "eall": "near,d50,d75,d100,d150,d200",
        "donly": "d50,d75,d100,d150,d200",
        "d50x100": "d50,d100",
    }.items():
        d[name] = f"OP=ensemble MEMBERS={members}"
    for name in ("best", "e75x150", "e50x100x150", "eall", "donly"):
        d[name + "m"] = d[name] + " MEMORY=1000000"
    return d


def aligned(window):
    """Ensembles of smoothed kNN and discords with the scores of each member's whole past as its mean, aligned or not."""
    d = {"near": NEAR + " SMOOTH=19", "wide": WIDE + " SMOOTH=32"} | {f"d{m}": discord(m, window) for m in LENGTHS}
    for kind in ("near", "wide"):
        for lengths in ((50, 100, 150), (50, 75, 100, 150), (50, 75, 100, 200), (50, 75, 150, 200)):
            text = f"OP=ensemble MEMORY=1000000 MEMBERS={kind}," + ",".join(f"d{m}" for m in lengths)
            name = kind + "x".join(map(str, lengths))
            d |= {name: text, name + "aligned": text + " ALIGN=true"}
    return d


def shapes(windows, lengths):
    """The default preset with other windows and lengths of shape, K=1, and two lengths in one ensemble, aligned or not."""
    d = {"near": "OP=knn WINDOW=2048 K=27 EMBED=32 STRIDE=16 THRESHOLD=conformal:0.0015 HISTORY=2048 CLOSE_AFTER=100"}
    both = "OP=ensemble THRESHOLD=conformal:0.0003 HISTORY=2048 CLOSE_AFTER=100 MEMBERS=near,"
    for window in windows:
        names = [f"w{window}x{m}" for m in lengths]
        for m, name in zip(lengths, names):
            d[name] = f"OP=discord WINDOW={window} LENGTH={m} STRIDE=16 THRESHOLD=quantile:0.95*1.5 OPEN_AFTER=16"
            d[name] += " HISTORY=2048 CLOSE_AFTER=100"
            d["both" + name] = both + name
        d[f"both{window}"] = both + ",".join(names)
    d |= {name + "aligned": text + " ALIGN=true" for name, text in d.items() if name.startswith("both")}
    return d


CONFIGURATIONS = {
    "preset": None,
    "best": {"near": NEAR, "short": discord(50, 8192), "long": discord(100, 8192), "both": "OP=ensemble MEMBERS=near,short,long"}
    | {"bothm": "OP=ensemble MEMBERS=near,short,long MEMORY=1000000"},
    "plain": {"near": NEAR, "short": discord(50, 8192, False), "long": discord(100, 8192, False)}
    | {"both": "OP=ensemble MEMBERS=near,short,long", "bothm": "OP=ensemble MEMBERS=near,short,long MEMORY=1000000"},
    "several8k": several(8192),
    "several20k": several(20000),
    "aligned8k": aligned(8192),
    "aligned20k": aligned(20000),
    "aligned65k": aligned(65536),
    "aligned256k": aligned(262144),
    "shapes": shapes((1024, 2048, 4096, 8192), (50, 100)),
} | {f"scores{k}k": {"near": NEAR, "wide": WIDE} | {f"d{m}": discord(m, w, False) for m in LENGTHS}
     for k, w in ((8, 8192), (20, 20000), (65, 65536), (256, 262144))}


def settings(detectors):
    env = {k: v for k, v in os.environ.items() if not k.startswith("ODRADEK_")}
    if detectors:
        env["ODRADEK_DETECTORS"] = ",".join(detectors)
        for name, text in detectors.items():
            for s in text.split():
                key, value = s.split("=", 1)
                env[f"ODRADEK_DETECTOR_{name.upper()}_{key}"] = value
    return env


def run(job):
    worker, configuration, path, series, out, threads = job
    to = os.path.join(out, configuration, series + ".json")
    if os.path.exists(to):
        return None
    folder = os.path.join(out, "series", series)
    os.makedirs(folder, exist_ok=True)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    link = os.path.join(folder, os.path.basename(path))
    if not os.path.lexists(link):
        try:
            os.symlink(os.path.abspath(path), link)
        except FileExistsError:
            pass
    env = settings(CONFIGURATIONS[configuration]) | {"GOMAXPROCS": str(threads)}
    if configuration.startswith("scores"):
        table = os.path.join(out, configuration, series + ".csv")
        command = [worker, "backtest", "-data", folder, "-scores", table, "-report", table + ".html", "-plots", "1"]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if done.returncode == 0:
            text = json.dumps(rules(table, path)) + "\n"
        for name in (table, table + ".html"):
            if os.path.exists(name):
                os.remove(name)
    else:
        done = subprocess.run([worker, "score", "-data", folder, "-json"], env=env, capture_output=True, text=True)
        text = done.stdout
    if done.returncode != 0:
        return f"{configuration}, {series}: {done.stderr or done.stdout}"
    with open(to + ".part", "w") as f:
        f.write(text)
    os.rename(to + ".part", to)
    return None


def rules(table, path):
    """Which ensembles have their highest score at the anomaly: of each set of discords, alone and with either kNN."""
    import numpy as np

    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as f:
        n = len(f.read().split())
    raw = {}
    with open(table) as f:
        for r in csv.DictReader(f):
            if r["score"] and r["state"] != "warming_up":
                raw.setdefault(r["detector"], np.full(n, np.nan))[int(r["offset"])] = float(r["score"])
    return {"series": os.path.basename(path), "samples": n, "rules": ensembles(raw, n, path)}


def ensembles(raw, n, path):
    """See rules. A member's mean is of all scores before or, frozen, of the scores of the training part."""
    import numpy as np

    train, first, last = map(int, re.search(r"_(\d+)_(\d+)_(\d+)(\.txt|$)", path).groups()[:3])
    slack, least = max(100, last - first + 1), 64
    length = {name: int(name[1:]) if name[0] == "d" else {"near": 19, "wide": 32}[name] for name in raw}

    def smoothed(s, m):
        if m < 2:
            return s
        at = np.flatnonzero(np.isfinite(s))
        c = np.concatenate([[0], np.cumsum(s[at])])
        out = np.full(n, np.nan)
        out[at[m - 1 :]] = (c[m:] - c[:-m]) / m
        return out

    def term(s, frozen):
        """A member's terms, 0 where it has no score; which samples it scores; from which sample on it has had enough scores."""
        at = np.flatnonzero(np.isfinite(s))
        before = np.concatenate([[0], np.cumsum(s[at])[:-1]]) / np.maximum(np.arange(len(at)), 1)
        if frozen:
            k = max(least, int(np.searchsorted(at, train)))
            if k < len(at):
                before[k:] = before[k]
        t = np.zeros(n)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(before > 0, s[at] / before, np.where(s[at] > 0, 1e6, 1))
        t[at] = np.log(np.clip(ratio, 0.1, 1e6))
        return t, np.isfinite(s), at[least - 1] + 1 if len(at) >= least else n

    discords = sorted((name for name in raw if name[0] == "d"), key=lambda x: length[x])
    found = {}
    for smooth in (0, 0.5, 1):
        means = {x: max(1, int(length[x] * smooth)) for x in raw}
        scores = {x: smoothed(raw[x], means[x]) for x in raw}
        middle = {x: length[x] + means[x] for x in raw}
        done = {}
        for near in ((), ("near",), ("wide",)):
            for k in range(1, len(discords) + 1):
                for some in itertools.combinations(discords, k):
                    names = near + some
                    for how, align in itertools.product(("past", "frozen"), (0, 1)) if len(names) > 1 else [("past", 0)]:
                        parts, frozen = [], how == "frozen"
                        for x in names:
                            lag = (max(middle[y] for y in names) - middle[x]) // 2 if align else 0
                            if (x, lag, frozen) not in done:
                                late = np.concatenate([np.full(min(lag, n), np.nan), scores[x][: max(0, n - lag)]])
                                done[x, lag, frozen] = term(late, frozen)
                            parts.append(done[x, lag, frozen])
                        if len(names) == 1:
                            total = scores[names[0]].copy()
                        else:
                            total = np.sum([p[0] for p in parts], axis=0)
                            total[~np.any([p[1] for p in parts], axis=0)] = np.nan
                            total[: max(p[2] for p in parts)] = np.nan
                        longest = max(length[x] for x in names)
                        total[: train + longest - 1] = np.nan  # covers no sample of the training part
                        kind = "one" if len(names) == 1 else how + (" aligned" if align else "")
                        rule = f"{kind}: {'+'.join(names)} smooth={smooth}"
                        found[rule] = 0
                        if np.isfinite(total).any():
                            place = (2 * int(np.nanargmax(total)) - longest + 1) // 2
                            found[rule] = int(first - slack <= place <= last + slack)
    return found


def halves(lines):
    """Of each kind of rules: the best ones, and what those that find the most in one half of the series find in the other."""
    import random

    kinds = {}
    for rule in lines[0]["rules"]:
        kinds.setdefault(rule.split(":")[0], []).append(rule)

    def across(names, chosen, measured):
        sums = {r: sum(line["rules"][r] for line in chosen) for r in names}
        best = [r for r in names if sums[r] == max(sums.values())]
        return sum(line["rules"][r] for r in best for line in measured) / len(best), max(sums.values())

    some = sum(any(line["rules"].values()) for line in lines)
    print(f"found by at least one of {len(lines[0]['rules'])} rules: {some} of {len(lines)}")
    for kind, names in kinds.items():
        even, odd = lines[::2], lines[1::2]
        there, most = across(names, even, odd)
        back, most2 = across(names, odd, even)
        rng, rates = random.Random(1), []
        for _ in range(300):
            mixed = rng.sample(lines, len(lines))
            a, b = mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]
            rates.append((across(names, a, b)[0] + across(names, b, a)[0]) / len(lines))
        mean = sum(line["rules"][r] for line in lines for r in names) / len(names)
        print(f"\n{kind}, {len(names)} rules, {mean:.1f} in the mean. Each half chosen by the other: "
              f"{there:.1f} of {len(odd)} (chosen with {most} of {len(even)}), "
              f"{back:.1f} of {len(even)} ({most2} of {len(odd)}), {(there + back) / len(lines):.3f}; "
              f"mean of 300 halvings {sum(rates) / 300:.3f}\n")
        best = sorted(names, key=lambda r: -sum(line["rules"][r] for line in lines))[:8]
        for r in best:
            hits = [line for line in lines if line["rules"][r]]
            small = sum(line["samples"] <= 35000 for line in hits)
            print(f"- {r}: {len(hits)}, {small} of them of up to 35,000 samples")


def table(out, configurations):
    for configuration in configurations:
        folder = os.path.join(out, configuration)
        if not os.path.isdir(folder):
            continue
        sums, rows, ruled = {}, 0, []
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".json"):
                continue
            rows += 1
            with open(os.path.join(folder, name)) as f:
                for line in map(json.loads, f):
                    if "rules" in line:
                        ruled.append(line)
                        continue
                    t = sums.setdefault(line["detector"], [0] * 7)
                    found = line.get("ucr_found", 0)
                    t[0] += found
                    t[1] += found if line["samples"] <= 35000 else 0
                    t[2] += 1
                    t[3] += line["average_precision"] if line["ranked_series"] else 0
                    t[4] += line["vus_pr"] if line["ranked_series"] else 0
                    t[5] += line["found_anomalies"]
                    t[6] += line["false_anomalies"]
        print(f"\n{configuration}, {rows} series:\n")
        if ruled:
            halves(ruled)
            continue
        print("| detector | highest score at the anomaly | of series up to 35,000 samples | average precision | VUS-PR | found | false |")
        print("|---|---|---|---|---|---|---|")
        for name, (hit, small, n, ap, vus, found, false) in sorted(sums.items(), key=lambda s: -s[1][0]):
            print(f"| {name} | {hit} of {n} ({hit / n:.3f}) | {small} | {ap / n:.3f} | {vus / n:.3f} | {found} | {false} |")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("-j", type=int, default=os.cpu_count())
    flags.add_argument("-c", default="preset,best,plain", help="of " + ", ".join(CONFIGURATIONS))
    flags.add_argument("-t", action="store_true", help="only print the table")
    flags.add_argument("worker")
    flags.add_argument("data")
    flags.add_argument("out")
    a = flags.parse_args()
    configurations = a.c.split(",")
    if not a.t:
        paths = []
        for at, _, names in os.walk(a.data):
            paths += [os.path.join(at, n) for n in names if re.search(r"_\d+_\d+_\d+\.txt(\.gz)?$", n)]
        paths.sort(key=lambda p: -os.path.getsize(p))
        jobs = [(a.worker, c, p, re.sub(r"\.txt(\.gz)?$", "", os.path.basename(p)), a.out, 4 if i < 20 else 1)
            for c in configurations for i, p in enumerate(paths)]
        with multiprocessing.Pool(a.j) as pool:
            for trouble in pool.imap_unordered(run, jobs):
                if trouble:
                    print(trouble, file=sys.stderr, flush=True)
    table(a.out, configurations)


main()
