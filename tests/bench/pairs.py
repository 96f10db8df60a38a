#!/usr/bin/env python3
"""The message path of two builds in interleaved pairs: is the second slower than the first?

    pairs.py BUILD_BEFORE BUILD_NOW [--pairs 20] [--loss 3]

What targets.py measures: 1 KiB jobs at window 1 (p50) and window 64 (jobs/s) and 600 KiB jobs at window 8, an echo worker and a worker with a real slot,
everything on one core (pinned) and as the system schedules (free). A pair starts both builds' pools anew, beside each other, and measures in short slices,
before, now, now, before: what the machine does meanwhile meets both alike, and a process that happened to start badly counts once. Each line
gives the median of the pairs' ratios, now / before, with its 95 % interval (order statistics of the median). Exit 0: every interval excludes a loss above
--loss percent. Standard library only.
"""
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pool import busy, option  # noqa: E402
from targets import ANSWER, LARGE, System  # noqa: E402


SLICES = (0, 1, 1, 0)
KINDS = [("p50, window 1", (1024, 1, 1500), "p50_us"), ("jobs/s, window 64", (1024, 64, 15000), "jobs_per_s")]


def cases():
    """(place, worker, size of the answer or None, [(what, arguments of measure, key)])"""
    for place in ("pinned", "free"):
        for name in ("echo", "null"):
            yield place, name, None, KINDS
        yield place, "echo", ANSWER, [("jobs/s of 600 KiB", (LARGE, 8, 1000), "jobs_per_s")]


def ratio_of(systems, arguments, key):
    """now / before"""
    found = ([], [])
    for system in systems:
        system.measure(*arguments[:2], arguments[2] // 5)
    for which in SLICES:
        found[which].append(systems[which].measure(*arguments)[key])
    return sum(found[1]) / sum(found[0])


def measure_pair(builds, models, core, ratios):
    for place, name, answer, kinds in cases():
        prefix = ["taskset", "-c", core] if place == "pinned" else []
        with System(name, builds[0], prefix, models, answer=answer) as before, System(name, builds[1], prefix, models, answer=answer) as now:
            for what, arguments, key in kinds:
                ratios.setdefault((f"{what}, {name}, {place}", key), []).append(ratio_of((before, now), arguments, key))


def interval(values):
    """The 95 % interval of the median by order statistics: (low, high)."""
    ordered, n = sorted(values), len(values)
    below = lambda k: sum(math.comb(n, i) for i in range(k)) / 2**n  # noqa: E731
    rank = max(k for k in range(1, n // 2 + 1) if below(k) <= 0.025)
    return ordered[rank - 1], ordered[n - rank]


def judge(what, values, more, loss):
    low, high = interval(values)
    good = low >= 1 - loss / 100 if more else high <= 1 + loss / 100
    print(f"{'met   ' if good else 'MISSED'} {what:36} {statistics.median(values):6.3f}  [{low:.3f}, {high:.3f}]  {'more' if more else 'less'} is better", flush=True)
    return good


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    builds, pairs, loss, others = [Path(arg).resolve() for arg in sys.argv[1:3]], option("--pairs", 20), option("--loss", 3), busy()
    if pairs < 6:
        sys.exit("pairs.py: --pairs must be 6 or more: fewer have no 95 % interval")
    core, ratios = str(sorted(os.sched_getaffinity(0))[-1]), {}
    with tempfile.TemporaryDirectory() as models:
        subprocess.run([f"{builds[1]}/tests/bench_null_model", models], check=True)
        for pair in range(pairs):
            print(f"\rpair {pair + 1} of {pairs} ", end="", file=sys.stderr, flush=True)
            measure_pair(builds, models, core, ratios)
    print(file=sys.stderr)
    print(f"{pairs} interleaved pairs, now / before; {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}")
    kept = all([judge(what, values, key != "p50_us", loss) for (what, key), values in ratios.items()])
    if others:
        print(others)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
