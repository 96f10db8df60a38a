#!/usr/bin/env python3
"""Small jobs beside large ones: p99 of 1 KiB jobs alone, beside jobs of 100 MB in chunks and in whole frames, and beside controls.

    bulk.py BUILD_DIR [--seconds 2] [--bytes 104857600] [--rate 500] [--repeats 5] [--cases apart,chunks,whole,copies,idle,solo]

Two workers of one slot each, a tag for each kind, an Identity as the model, cache off; the small jobs come at a fixed rate, the large ones one behind the
other. Each case is measured right behind the small jobs alone, so that what others do on the machine meets both, and all cases in turn, `--repeats` times:
    apart   chunks at addresses of their own (--bulk-clients, --bulk-workers)
    chunks  chunks at the ordinary addresses
    whole   whole frames
    copies  one process per processor that does nothing but copy 100 MB in memory: what the machine's scheduler makes of any such neighbour
    idle    the same processes, which the scheduler lets run only when nobody else wants to
    solo    the large jobs without small ones, at addresses of their own and at the ordinary ones: only their throughput
The aim: beside chunks the p99 at most doubles. Ratios are of a case to the small jobs alone just before it. Stolen: time that the host of a virtual machine
took from it while the case ran; no program can answer then. Standard library only.
"""
import usage  # noqa: F401
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402
from pool import answer, busy, option  # noqa: E402

ROW = 1024


def noise(path, rows):
    return pool.npy(path, (rows, ROW), (os.urandom(ROW) for _ in range(rows)))


def model_folder(build, folder):
    subprocess.run([build / "tests/bench_null_model", folder], check=True)
    (folder / "null" / "config.json").write_text('{"platform": "onnx", "max_batch_size": 0}\n')
    return folder


def new_pool(stack, build, models, *flags):
    """Address for clients."""
    broker = pool.start_broker(stack, build, "--http", "none", "--sealed-from", 0, *flags)
    for tag in ("small", "large"):
        pool.start_worker(stack, build, broker["workers"], models, "reference", "--tag", tag)
    return broker["clients"]


def load(build, clients, tag, file, seconds, *flags):
    return pool.load(build, clients, "null", seconds, "--input", f"bytes={file}", "--tag", tag, *flags)


COPIES = "import sys, time; a = bytes(100 << 20); b = bytearray(a); end = time.time() + float(sys.argv[1])\nwhile time.time() < end: b[:] = a"
IDLE = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
CONTROLS = {"copies": COPIES, "idle": IDLE + COPIES}
POOLS = {"apart": ("--bulk-clients", pool.ANY_PORT, "--bulk-workers", pool.ANY_PORT), "chunks": (), "whole": ("--bulk-from", 0)}


def stolen():
    """Seconds of all processors so far that the host of this virtual machine gave to others."""
    return int(Path("/proc/stat").read_text().split()[8]) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, stack, build, size, seconds, rate):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = model_folder(build, folder / "models")
        self.build, self.size, self.seconds, self.rate = build, size, seconds, rate
        self.files = {"small": noise(folder / "small.npy", 1), "large": noise(folder / "large.npy", size // ROW)}
        self.pools = {name: new_pool(stack, build, models, *flags) for name, flags in POOLS.items()}

    def small(self, where):
        """Percentiles of the small jobs' latency."""
        return answer(load(self.build, self.pools[where], "small", self.files["small"], self.seconds, "--rate", self.rate))["latency_us"]

    def large(self, where, seconds):
        return load(self.build, self.pools[where], "large", self.files["large"], seconds, "--concurrency", 1)

    def solo(self, where):
        """MB/s of the large ones alone."""
        return answer(self.large(where, self.seconds))["throughput_per_s"] * self.size / 1e6

    def beside(self, case):
        """Percentiles of the small jobs alone and beside it, MB/s of the large ones, seconds stolen."""
        where = case if case in POOLS else "chunks"
        alone = self.small(where)
        large = self.large(where, self.seconds + 2) if case in POOLS else None
        others = [subprocess.Popen([sys.executable, "-c", CONTROLS[case], str(self.seconds + 2)]) for _ in range(0 if large else os.cpu_count())]
        time.sleep(1)
        before = stolen()
        latency, lost = self.small(where), stolen() - before
        for process in others:
            process.wait()
        return alone, latency, answer(large)["throughput_per_s"] * self.size / 1e6 if large else 0, lost


def median_of(found, part, percentile):
    return statistics.median(row[part][percentile] for row in found)


def show(case, found, rate):
    """Prints a line. The median of the ratios of p99."""
    ratios = sorted(row[1]["p99"] / row[0]["p99"] for row in found)
    told = ", ".join(f"{name} {median_of(found, 1, name):.0f} us ({median_of(found, 0, name):.0f} alone)" for name in ("p50", "p90", "p99"))
    middle = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    rates = statistics.median(row[2] for row in found)
    print(f"bulk    1 KiB jobs at {rate}/s beside {case:6}: {told}; p99 {middle[1]:.2f}x alone, half of all {middle[0]:.2f}-{middle[2]:.2f}, "
          f"all {ratios[0]:.2f}-{ratios[-1]:.2f}, n={len(found)}; {f'large ones {rates:.0f} MB/s, ' if rates else ''}stolen {sum(row[3] for row in found):.2f} s")
    return middle[1]


def show_solo(found):
    apart, chunks = (statistics.median(values) for values in zip(*found))
    print(f"bulk    large ones alone: apart {apart:.0f} MB/s, chunks {chunks:.0f} MB/s: {statistics.median(a / c for a, c in found):.2f}x, n={len(found)}")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, others, repeats = Path(sys.argv[1]), busy(), option("--repeats", 5)
    cases = sys.argv[sys.argv.index("--cases") + 1].split(",") if "--cases" in sys.argv else [*POOLS, *CONTROLS, "solo"]
    if unknown := set(cases) - {*POOLS, *CONTROLS, "solo"}:
        sys.exit(f"--cases: {', '.join(unknown)} is none; see {sys.argv[0]} without arguments")
    found = {case: [] for case in cases}
    with ExitStack() as stack:
        bench = Bench(stack, build, option("--bytes", 100 << 20), option("--seconds", 2), option("--rate", 500))
        for _ in range(repeats):
            for case in cases:
                found[case].append((bench.solo("apart"), bench.solo("chunks")) if case == "solo" else bench.beside(case))
    ratios = {case: show(case, found[case], bench.rate) for case in cases if case != "solo"}
    if "solo" in cases:
        show_solo(found["solo"])
    if "apart" in cases:
        print(f"        beside 100 MB jobs in chunks at addresses of their own: {ratios['apart']:.2f}x, target 2.00: {'met' if ratios['apart'] <= 2 else 'missed'}")
    if others:
        print(f"        {others}")


if __name__ == "__main__":
    main()
