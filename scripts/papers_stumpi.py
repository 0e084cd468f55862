"""Left discords by stumpy's stumpi beside `bin/bench discord-left`: samples a second of one core, by the length of the window.

    python3 -m venv v && v/bin/pip install stumpy
    NUMBA_NUM_THREADS=1 v/bin/python scripts/papers_stumpi.py
"""

import time

import numpy
import stumpy

LENGTH, WARM, SAMPLES = 64, 20, 400
rng = numpy.random.default_rng(1)
for n in (1024, 4096, 16384, 65536, 100000):
    walk = numpy.cumsum(rng.standard_normal(n + SAMPLES))
    profile = stumpy.stumpi(walk[:n], LENGTH, egress=True)
    for v in walk[n : n + WARM]:  # numba compiles
        profile.update(v)
    begun = time.process_time()
    for v in walk[n + WARM :]:
        profile.update(v)
    print(n, round((SAMPLES - WARM) / (time.process_time() - begun), 1), "samples/s", flush=True)
