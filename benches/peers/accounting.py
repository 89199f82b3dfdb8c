"""Runs each workload in dp_accounting and in our accountant, alternately, and prints a table.

Every measurement is a separate process with one thread. All times are processor seconds, user and system. The peer's
time is that of one call, without imports and without building the event. Ours is the time per call, averaged over as
many calls as take 0.2 s together, after a first call that is not counted; another column has the time of a whole
process with a single call, from start to exit. Memory is the peak of a whole process.
"""

import argparse
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import time

from record import record

INTERVAL = 1e-4
DELTA = 1e-5

# The peer is stopped after this many processor seconds.
LIMIT = 120

WORKLOADS = {
    "sgm-10k": "sampled Gaussian, sigma 1, q .01, 10,000 steps",
    "sgm-sigma": "sigma for epsilon 1, q .01, 10,000 steps",
    "sgm-sigma-file": "the same from JSON, with a proved lower end",
    "gaussians-40": "40 different Gaussians",
    "sgm-1m": "sampled Gaussian, sigma 1, q .001, 10^6 steps",
    "tree-300": "300 Gaussians, Laplaces and sampled Gaussians",
    "tree-1000": "1000 of them",
}

# Workloads that take the peer so long that they are run only three times.
SLOW = ("sgm-sigma", "tree-300", "tree-1000")

# The peer's workload that ours is compared with, where it has another name.
PEER_OF = {"sgm-sigma-file": "sgm-sigma"}

# Tolerance of the peer's calibration, in units of sigma; also its default.
TOLERANCE = 1e-6


def mixed_parameters(n):
    """Noise multipliers of n mechanisms, a third of each kind; the same as in the Rust side."""
    widen = n / 300 if n > 300 else 1.0
    parameters = []
    for i in range(n):
        step = (i // 3) / n
        parameters.append(
            (
                ("gaussian", (20 + 60 * step) * widen),
                ("laplace", (60 + 90 * step) * widen),
                ("sampled", 1 + 2 * step),
            )[i % 3]
        )
    return parameters


def peer_event(workload):
    import dp_accounting as dpa

    def sgm(sigma, q, steps):
        step = dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(sigma))
        return dpa.SelfComposedDpEvent(step, steps)

    def mixed(kind, z):
        if kind == "laplace":
            return dpa.LaplaceDpEvent(z)
        event = dpa.GaussianDpEvent(z)
        return event if kind == "gaussian" else dpa.PoissonSampledDpEvent(0.01, event)

    if workload == "sgm-10k":
        return sgm(1.0, 0.01, 10_000)
    if workload == "sgm-1m":
        return sgm(1.0, 0.001, 1_000_000)
    if workload == "gaussians-40":
        return dpa.ComposedDpEvent([dpa.GaussianDpEvent(10.0 + i) for i in range(40)])
    n = int(workload.rsplit("-", 1)[1])
    return dpa.ComposedDpEvent([mixed(*p) for p in mixed_parameters(n)])


def peer_epsilon(event):
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant(value_discretization_interval=INTERVAL).compose(event).get_epsilon(DELTA)


def peer_sigma():
    import dp_accounting as dpa
    from dp_accounting.pld import PLDAccountant

    def event(sigma):
        step = dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(sigma))
        return dpa.SelfComposedDpEvent(step, 10_000)

    def accountant():
        return PLDAccountant(value_discretization_interval=INTERVAL)

    return dpa.calibrate_dp_mechanism(accountant, event, 1.0, DELTA, tol=TOLERANCE)


def run_peer(workload):
    """Runs the peer once in a separate process."""
    import dp_accounting.pld  # noqa: F401  (not part of the time)

    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 1))
    calibrates = workload == "sgm-sigma"
    event = None if calibrates else peer_event(workload)
    start = time.process_time()
    if calibrates:
        value = peer_sigma()
    else:
        value = peer_epsilon(event)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"value": value, "seconds": seconds, "megabytes": peak}))


def peer(workload):
    command = [sys.executable, __file__, "--peer", workload]
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | one_thread)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if done.returncode != 0:
        sys.exit(f"{workload}: the peer failed\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(binary, workload, *flags):
    """Our answer, with processor seconds and megabytes of the process that computed it."""
    command = [binary, workload, *flags]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = child.stdout.read(), child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{workload}: ours failed\n{err}")
    answer = json.loads(out)
    answer["process"] = usage.ru_utime + usage.ru_stime
    answer["megabytes"] = usage.ru_maxrss / 1024
    return answer


def measure(binary, workload, runs, known):
    """Results of `runs` alternating runs; the peer's are taken from `known` if present."""
    other = PEER_OF.get(workload, workload)
    theirs, mine, whole = known.get(other, []), [], []
    measured = other in known
    for _ in range(runs):
        if not measured and theirs is not None:
            result = peer(other)
            theirs = None if result is None else theirs + [result]
        mine.append(ours(binary, workload))
        whole.append(ours(binary, workload, "--once"))
    known[other] = theirs
    return mine, whole, theirs


def median(results, key):
    return statistics.median(result[key] for result in results)


def width(lower, upper):
    return f"{(upper - lower) / upper:.1e}"


def row(workload, mine, whole, theirs):
    answer, seconds = mine[0], median(mine, "seconds")
    cells = [workload]
    cells.append(f"over {LIMIT}" if theirs is None else f"{median(theirs, 'seconds'):.4g}")
    cells.append(f"{seconds:.3g}")
    cells.append("" if theirs is None else f"{median(theirs, 'seconds') / seconds:.0f}x")
    cells.append(f"{median(whole, 'process'):.2g}")
    cells.append("" if theirs is None else peer_error(theirs[0], answer))
    cells.append(width(answer["lower"], answer["upper"]) if "lower" in answer else "")
    cells.append("" if theirs is None else f"{median(theirs, 'megabytes'):.0f}")
    cells.append(f"{median(whole, 'megabytes'):.0f}")
    cells.append(answer["method"])
    return cells


def peer_error(theirs, mine):
    """Relative distance of the peer's answer from ours, whose bracket has the width printed with it.

    (The peer's own bracket, from its optimistic estimates, is wider.)
    """
    return f"{abs(theirs['value'] - mine['value']) / mine['value']:.1e}"


HEAD = ["workload", "peer s", "ours s", "ratio", "process s", "peer error", "our width"]
HEAD += ["peer MB", "our MB", "method"]
WIDTHS = [14, 8, 9, 7, 9, 10, 9, 7, 6, 12]


def print_row(cells):
    """Prints one row immediately: the slow workloads come last."""
    first, rest = cells[0].ljust(WIDTHS[0]), zip(cells[1:], WIDTHS[1:])
    print("  ".join([first] + [cell.rjust(w) for cell, w in rest]), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", help="the built program accounting_peer")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("workloads", nargs="*")
    args = parser.parse_args()
    if args.peer:
        run_peer(args.peer)
        return
    from importlib.metadata import version

    print(f"Python {platform.python_version()}, dp-accounting {version('dp-accounting')}, "
          f"numpy {version('numpy')}, scipy {version('scipy')}")
    print(f"processor seconds, median of {args.runs} runs in turns; delta {DELTA}; "
          f"the peer at interval {INTERVAL}, its calibration to {TOLERANCE}\n")
    print_row(HEAD)
    known = {}
    for workload in args.workloads or WORKLOADS:
        if workload not in WORKLOADS:
            parser.error(f"no workload {workload}; there are {', '.join(WORKLOADS)}")
        slow = PEER_OF.get(workload, workload) in SLOW
        runs = min(args.runs, 3) if slow else args.runs
        mine, whole, theirs = measure(args.ours, workload, runs, known)
        print_row(row(workload, mine, whole, theirs))
        peer_seconds = None if theirs is None else median(theirs, "seconds")
        name = f"dp-accounting {version('dp-accounting')}"
        record(WORKLOADS[workload], name, peer_seconds, median(mine, "seconds"))
    print()
    for workload in args.workloads or WORKLOADS:
        print(f"{workload:<16}{WORKLOADS[workload]}")


if __name__ == "__main__":
    main()
