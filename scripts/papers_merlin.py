"""MERLIN beside `bin/worker discords`: processor time, on one core, of the top discord of each length, in a random walk of 10,000 values.

    python3 -m venv v && v/bin/pip install aeon
    NUMBA_NUM_THREADS=1 v/bin/python scripts/papers_merlin.py bin/worker [FOLDER]

FOLDER has the authors' discord_discovery_gemm3.m, of the UCR archive of anomalies (introducingMERLIN); octave-cli runs it, by
MERLIN3_1.m's rule. Its time includes Octave's start. aeon's MERLIN compares squared distances with a radius that is not squared, so
that it takes minutes for several lengths.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy

RULE = """
maxNumCompThreads(1); addpath('%s'); a = load('%s'); best = []; r = 2*sqrt(%d);
for m = %d:%d
  n = length(best); less = 0.99;
  if n == 0, less = 0.5;
  elseif n < 5, r = 0.99*best(n);
  else, r = mean(best(n-4:n)) - 2*std(best(n-4:n));
  end
  while true
    [at, d] = discord_discovery_gemm3(a, m, r);
    if any(d >= r), break; end
    r = less*r;
  end
  [best(n+1), first] = max(d);
  printf('%%d %%.9g\\n', at(first), best(n+1));
end
"""


def child(command):
    """Runs a command on one core, and returns its output and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GOMAXPROCS": "1"}
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return text, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def worker(walk, low, high):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
        print("v", *walk, sep="\n", file=f, flush=True)
        text, seconds = child([sys.argv[1], "discords", f.name, "-min", str(low), "-max", str(high), "-executor", "cpu", "-workers", "1", "-json", "-quiet"])
    return [(d["discords"][0]["row"], d["discords"][0]["distance"]) for d in json.loads(text)["lengths"]], seconds


def authors(walk, low, high):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        print(*walk, sep="\n", file=f, flush=True)
        text, seconds = child(["octave-cli", "--no-gui", "--eval", RULE % (sys.argv[2], f.name, low, low, high)])
    return [(int(at), float(d)) for at, d in (line.split() for line in text.splitlines())], seconds


def aeon(walk, low, high):
    from aeon.anomaly_detection.series.distance_based import MERLIN

    MERLIN(8, 9).fit_predict(walk[:200])  # numba compiles
    begun = time.process_time()
    marked = MERLIN(low, high).fit_predict(walk)
    return numpy.flatnonzero(marked), time.process_time() - begun


LENGTH = 128
walk = numpy.cumsum(numpy.random.default_rng(1).standard_normal(10000))
for high in (128, 143, 159):
    found, seconds = worker(walk, LENGTH, high)
    print(f"lengths {LENGTH} to {high}: worker discords {seconds:.2f} s", flush=True)
    if len(sys.argv) > 2:
        theirs, seconds = authors(walk, LENGTH, high)
        same = sum(a[0] == b[0] and abs(a[1] - b[1]) < 1e-6 for a, b in zip(found, theirs, strict=True))
        print(f"  the authors' in Octave {seconds:.2f} s, {same} of {len(found)} discords the same", flush=True)
rows, seconds = aeon(walk, LENGTH, LENGTH)
print(f"length {LENGTH}: aeon {seconds:.2f} s, marks {rows + 1} of {found[0]}")
