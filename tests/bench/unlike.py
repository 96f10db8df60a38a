#!/usr/bin/env python3
"""Unlike workers in one pool, real processes: one takes five times as long as the other.

    unlike.py BUILD_DIR [--seconds 6] [--repeats 3] [--fast-us 4000] [--times 5]

together  throughput of both (closed loop, 32 in flight) over the sum of what each does alone in the same pool; asked for: 0.95
p99       open loop at half of what the fast worker can do, from eight clients with rates of their own, so that arrivals come close together and far apart: the
          client's p99 with both workers over that with the fast one alone; asked for: not above 1
Each repeat measures every case once; ratios are of one repeat, the median is printed and the range beside it. The workers are bench_echo_worker with a service
time: they sleep, so that what they do does not depend on how many processors there are, and what is measured is where the broker sends the jobs.
Exit code 1 when a figure is missed. Standard library only.
"""
import usage  # noqa: F401
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402
from pool import answer, option, start, stop  # noqa: E402

OWN_BYTES = 16384  # of an answer
CLIENTS = 8
SETTLE_S = 1
INPUT = tempfile.NamedTemporaryFile(suffix=".npy")  # uint8 [1, 64]


def new_pool(stack, build, services_us):
    """Address for clients of a broker with a worker for each service time."""
    broker = pool.start_broker(stack, build, "--http", "none")
    for service_us in services_us:
        worker, _ = start([], [build / "tests/bench_echo_worker", "broker", broker["workers"], OWN_BYTES, service_us], "ready")
        stack.callback(stop, worker)
    return broker["clients"]


def load(build, clients, seconds, *flags):
    return pool.load(build, clients, "null", seconds, "--input", f"bytes={INPUT.name}", *flags)


def throughput(build, seconds, services_us):
    with ExitStack() as stack:
        clients = new_pool(stack, build, services_us)
        answer(load(build, clients, SETTLE_S, "--concurrency", 32))
        return answer(load(build, clients, seconds, "--concurrency", 32))["throughput_per_s"]


def p99(build, seconds, services_us, rate):
    """Of all clients: the p99 of each, weighted by its jobs. Rates that have no common measure shift against each other all the time."""
    with ExitStack() as stack:
        clients = new_pool(stack, build, services_us)
        answer(load(build, clients, SETTLE_S, "--concurrency", 4))
        parts = [1 + 0.07 * (i * 1.618 % 1) for i in range(CLIENTS)]
        running = [load(build, clients, seconds, "--rate", round(rate * part / sum(parts), 3)) for part in parts]
        results = [answer(process) for process in running]
        jobs = [result["throughput_per_s"] for result in results]
        return sum(result["latency_us"]["p99"] * n for result, n in zip(results, jobs)) / sum(jobs)


def told(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f}, n={len(values)})"


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, seconds, repeats = Path(sys.argv[1]), option("--seconds", 6), option("--repeats", 3)
    fast_us = option("--fast-us", 4000)
    slow_us = fast_us * option("--times", 5)
    pool.npy(INPUT.name, (1, 64), [bytes(64)])
    together, ratios, lines = [], [], []
    for _ in range(repeats):
        fast, slow, both = (throughput(build, seconds, services) for services in ([fast_us], [slow_us], [fast_us, slow_us]))
        together.append(both / (fast + slow))
        alone, beside = (p99(build, seconds, services, fast / 2) for services in ([fast_us], [fast_us, slow_us]))
        ratios.append(beside / alone)
        lines.append(f"repeat    {fast:.1f} + {slow:.1f} alone, {both:.1f} jobs/s together; p99 at {fast / 2:.0f}/s: {alone:.0f} us alone, {beside:.0f} us "
                     f"with both")
    print("\n".join(lines))
    print(f"together  {told(together)} of the sum of {fast_us} us and {slow_us} us workers")
    print(f"p99       {told(ratios)} of the fast one's alone, at half of its load")
    sys.exit(statistics.median(together) < 0.95 or statistics.median(ratios) > 1)


if __name__ == "__main__":
    main()
