"""Processor and wall-clock seconds, and which of them a comparison uses."""

import os
import time


def use_threads(n):
    """Call before importing numpy: sets the number of threads for it, and for programs started from here."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(n)


def timed(run):
    """The result of `run`, and its seconds: processor time of all threads together, and wall-clock time."""
    elapsed, processor = time.perf_counter(), time.process_time()
    result = run()
    seconds = {"processor": time.process_time() - processor, "elapsed": time.perf_counter() - elapsed}
    return result, seconds


def least(seconds):
    """The minimum of several runs, for each clock."""
    seconds = list(seconds)
    return {clock: min(s[clock] for s in seconds) for clock in ("processor", "elapsed")}


def deciding(n_threads):
    """Processor time for one thread, which other programs do not disturb; wall-clock time for several."""
    return "processor" if n_threads == 1 else "elapsed"


def threads(n):
    return "one thread" if n == 1 else f"{n} threads"
