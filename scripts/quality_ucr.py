"""Which configurations find the anomaly of each series of the UCR archive: each a process of its own, and the sums.

usage: quality_ucr.py [-j processes] [-c configuration,...] <worker> <data set> <folder to write>

A configuration is a line of CONFIGURATIONS: settings of worker score. For each series it writes <configuration>/<series>.json,
which is not computed again, and prints a table of all detectors over the series that there are so far. A configuration whose
name ends with "scores" has the scores of its detectors in addition, and rules() combines these beside the worker: normalised by
the mean of each detector's scores in the training part, which stays as it is from then on, and in other ways.
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


CONFIGURATIONS = {
    "preset": None,
    "best": {"near": NEAR, "short": discord(50, 8192), "long": discord(100, 8192), "both": "OP=ensemble MEMBERS=near,short,long"}
    | {"bothm": "OP=ensemble MEMBERS=near,short,long MEMORY=1000000"},
    "plain": {"near": NEAR, "short": discord(50, 8192, False), "long": discord(100, 8192, False)}
    | {"both": "OP=ensemble MEMBERS=near,short,long", "bothm": "OP=ensemble MEMBERS=near,short,long MEMORY=1000000"},
    "several8k": several(8192),
    "several20k": several(20000),
    "several65k": several(65536),
    "several256k": several(262144),
    "scores256k": {"near": NEAR, "wide": WIDE} | {f"d{m}": discord(m, 262144, False) for m in LENGTHS},
}


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
    """Which rules, beside the worker, have their highest score at the anomaly: how members are smoothed, scaled and joined."""
    import numpy as np

    train, first, last = map(int, re.search(r"_(\d+)_(\d+)_(\d+)\.txt", path).groups())
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as f:
        n = len(f.read().split())
    raw = {}
    with open(table) as f:
        for r in csv.DictReader(f):
            if r["score"] and r["state"] != "warming_up":
                raw.setdefault(r["detector"], np.full(n, np.nan))[int(r["offset"])] = float(r["score"])
    length = {name: int(name[1:]) if name[0] == "d" else {"near": 19, "wide": 32}[name] for name in raw}
    slack = max(100, last - first + 1)

    def smoothed(s, m):
        ok = np.isfinite(s)
        c = np.concatenate([[0], np.cumsum(np.where(ok, s, 0))])
        k = np.concatenate([[0], np.cumsum(ok)])
        out = np.full(n, np.nan)
        full = k[m:] - k[:-m] == m
        out[m - 1 :][full] = ((c[m:] - c[:-m]) / m)[full]
        return out

    def scaled(s, how):
        ok = np.isfinite(s)
        before = s[:train][ok[:train]]
        if how == "frozenlog" or how == "frozenstd":
            if len(before) < 64:
                return None
            if how == "frozenstd":
                return (s - before.mean()) / max(before.std(), 1e-12)
            return np.log(np.maximum(s, 1e-12) / max(before.mean(), 1e-12))
        if how == "runninglog":  # by the mean of all scores before
            c, k = np.cumsum(np.where(ok, s, 0)), np.cumsum(ok)
            mean = np.full(n, np.nan)
            mean[1:] = c[:-1] / np.maximum(k[:-1], 1)
            mean[1:][k[:-1] < 64] = np.nan
            return np.log(np.maximum(s, 1e-12) / np.maximum(mean, 1e-12))
        return s

    members = {}
    for smooth in (False, True):
        for name in raw:
            s = smoothed(raw[name], length[name]) if smooth and name[0] == "d" else raw[name]
            for how in ("frozenlog", "frozenstd", "runninglog"):
                members[smooth, how, name] = scaled(s, how)
    found = {}
    discords = [name for name in sorted(raw, key=lambda x: length[x]) if name[0] == "d"]
    for near in ((), ("near",), ("wide",)):
        for k in range(len(discords) + 1):
            for some in itertools.combinations(discords, k):
                if not near and not some:
                    continue
                names = near + some
                longest = max(length[x] for x in names)
                for smooth in (False, True):
                    for how in ("frozenlog", "frozenstd", "runninglog"):
                        parts = [members[smooth, how, x] for x in names]
                        if any(p is None for p in parts):
                            continue
                        total = np.sum(parts, axis=0)
                        total[: train + longest - 1] = np.nan  # covers no sample of the training part
                        rule = f"{'+'.join(names)} {'smooth' if smooth else 'plain'} {how}"
                        if np.isfinite(total).any():
                            place = int(np.nanargmax(total)) - longest // 2
                            found[rule] = int(first - 1 - slack <= place <= last - 1 + slack)
                        else:
                            found[rule] = 0
    return {"series": os.path.basename(path), "samples": n, "rules": found}


def table(out, configurations):
    for configuration in configurations:
        folder = os.path.join(out, configuration)
        if not os.path.isdir(folder):
            continue
        sums, short, rows = {}, {}, 0
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".json"):
                continue
            rows += 1
            with open(os.path.join(folder, name)) as f:
                for line in map(json.loads, f):
                    if "rules" in line:
                        for rule, hit in line["rules"].items():
                            t = sums.setdefault(rule, [0] * 7)
                            t[0] += hit
                            t[1] += hit if line["samples"] <= 35000 else 0
                            t[2] += 1
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
        print("| detector | highest score at the anomaly | of series up to 35,000 samples | average precision | VUS-PR | found | false |")
        print("|---|---|---|---|---|---|---|")
        for name, (hit, small, n, ap, vus, found, false) in sorted(sums.items(), key=lambda s: -s[1][0])[:60]:
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
