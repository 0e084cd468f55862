"""SCAMP and STUMPY beside `bin/worker discords`: processor time, on one core, of the top discord of a length in a random walk.

    python3 -m venv v && v/bin/pip install stumpy pyscamp cmake
    NUMBA_NUM_THREADS=1 v/bin/python scripts/papers_profiles.py bin/worker

SCAMP and STUMPY compute the whole matrix profile, of which the largest value is the discord; SCAMP's is by its default double precision,
without a GPU.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy
import pyscamp
import stumpy


def worker(walk, length):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
        print("v", *walk, sep="\n", file=f, flush=True)
        before = os.times()
        text = subprocess.run(
            [sys.argv[1], "discords", f.name, "-min", str(length), "-max", str(length), "-executor", "cpu", "-workers", "1", "-json", "-quiet"],
            check=True, capture_output=True, text=True, env=os.environ | {"GOMAXPROCS": "1"},
        ).stdout
        after = os.times()
    first = json.loads(text)["lengths"][0]["discords"][0]
    return first["row"] - 1, first["distance"], sum(after[2:4]) - sum(before[2:4])


def scamp(walk, length):
    return pyscamp.selfjoin(walk, length, threads=1)[0]


def stump(walk, length):
    return stumpy.stump(walk, length)[:, 0].astype(float)


stump(numpy.random.default_rng(0).standard_normal(1000), 64)  # numba compiles
for n, length in ((20_000, 128), (50_000, 512), (100_000, 512)):
    walk = numpy.cumsum(numpy.random.default_rng(1).standard_normal(n))
    at, distance, seconds = worker(walk, length)
    print(f"n={n} length={length}: worker discords {seconds:.2f} s, at {at}, {distance:.6f}", flush=True)
    for name, profile in (("SCAMP", scamp), ("STUMPY", stump)):
        begun = time.process_time()
        p = profile(walk, length)
        seconds = time.process_time() - begun
        top = int(numpy.argmax(p))
        print(f"  {name} {seconds:.2f} s, at {top}, {p[top]:.6f}", flush=True)
