"""One thread a test process: several processes share the cores, and spinning threads would starve each other."""

import os

os.environ.setdefault("PACELINE_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
