"""Seconds of both clocks, and which of them a comparison goes by."""

import os
import time


def use_threads(n):
    """Before numpy is imported: so many threads for it, and for the programs started from here."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(n)


def timed(run):
    """What `run` gives, and its seconds: of the processor, all threads together, and by the clock on the wall."""
    elapsed, processor = time.perf_counter(), time.process_time()
    result = run()
    seconds = {"processor": time.process_time() - processor, "elapsed": time.perf_counter() - elapsed}
    return result, seconds


def least(seconds):
    """The least by each clock, of several runs."""
    seconds = list(seconds)
    return {clock: min(s[clock] for s in seconds) for clock in ("processor", "elapsed")}


def deciding(n_threads):
    """The processor's clock for one thread, which other programs do not disturb; the wall's for several."""
    return "processor" if n_threads == 1 else "elapsed"


def threads(n):
    return "one thread" if n == 1 else f"{n} threads"
