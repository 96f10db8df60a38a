#!/usr/bin/env python3
"""What the pool adds to a digits job, and what a cache hit costs: client p50 at window 1 over loopback TCP, pinned to one core and free.

    overhead.py BUILD_DIR [--seconds 4] [--repeats 3]

cases   computed  cache off: client p50 minus the worker's compute p50       memory, redis  every job the same image, answered from the cache
The figures are those of `penstock load --json`; redis runs on a port of its own. Standard library only.
"""
import usage  # noqa: F401
import json
import os
import re
import socket
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pool import ANY_PORT, ROOT, option, start, stop  # noqa: E402


def measure(build, prefix, cache, load_flags, seconds):
    started = []
    try:
        if cache == "redis":
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            redis, _ = start(prefix, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], "Ready to accept")
            started.append(redis)
            cache = f"redis://127.0.0.1:{port}/0"
        broker, log = start(prefix, [build / "bin/penstock-broker", "--listen-clients", ANY_PORT, "--listen-workers", ANY_PORT, "--cache", cache],
                            "evt=listening")
        started.append(broker)
        clients, workers = (re.search(rf"\b{name}=(tcp://\S+)", log).group(1) for name in ("clients", "workers"))
        worker, _ = start(prefix, [build / "bin/penstock-worker", "--broker", workers, "--models", ROOT / "deploy/models", "--backend", "xnnpack",
                                   "--slots", "1", "--threads", "1"], "evt=welcome")
        started.append(worker)
        load = [build / "bin/penstock", "load", "--broker", clients, "--model", "digits", "--concurrency", "1", "--duration", f"{seconds}s", "--json"]
        done = subprocess.run(prefix + [str(word) for word in load + load_flags], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"penstock load failed: {done.stderr}{done.stdout}")
        return json.loads(done.stdout)
    finally:
        for process in reversed(started):
            stop(process)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, seconds, repeats = Path(sys.argv[1]), option("--seconds", 4), option("--repeats", 3)
    core = str(sorted(os.sched_getaffinity(0))[-1])
    cases = [("computed", "none", ["--no-cache"]), ("memory", "memory:16MiB", []), ("redis", "redis", [])]
    figures = {}
    for _ in range(repeats):
        for place, prefix in [("pinned", ["taskset", "-c", core]), ("free", [])]:
            for name, cache, flags in cases:
                figures.setdefault((name, place), []).append(measure(build, prefix, cache, flags, seconds))

    def median(case, *keys):
        values = []
        for figure in figures[case]:
            for key in keys:
                figure = figure[key]
            values.append(figure)
        return statistics.median(values)

    print(f"digits on xnnpack, window 1, median of {repeats} interleaved repeats of {seconds} s")
    print(f"{'case':10} {'place':7} {'client p50 us':>13} {'compute p50 us':>14} {'overhead us':>11} {'hits':>9} {'requests':>9}")
    for place in ["pinned", "free"]:
        for name, _, _ in cases:
            case = (name, place)
            p50, compute = median(case, "latency_us", "p50"), median(case, "compute_us", "p50") if name == "computed" else 0
            overhead = f"{p50 - compute:.0f}"
            print(f"{name:10} {place:7} {p50:13.0f} {compute:14.0f} {overhead:>11} {median(case, 'cache_hits'):9.0f} {median(case, 'requests'):9.0f}")


if __name__ == "__main__":
    main()
