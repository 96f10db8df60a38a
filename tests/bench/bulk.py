#!/usr/bin/env python3
"""A large job beside small ones: p99 of 1 KiB jobs alone, beside jobs of 100 MB in chunks, and beside the same in whole frames; and beside a control.

    bulk.py BUILD_DIR [--seconds 5] [--bytes 104857600] [--rate 200] [--repeats 3]

Two workers of one slot each, a tag for each kind, an Identity as the model, cache off; the small jobs come at a fixed rate, the large ones one behind the
other. The control is one process per processor that does nothing but copy 100 MB in memory: what the machine's scheduler makes of any such neighbour. alone / chunks /
whole / copies are measured in turn, `--repeats` times. The aim: beside chunks the p99 at most doubles. Standard library only.
"""
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


def new_pool(stack, build, models, bulk_from):
    """Address for clients."""
    broker = pool.start_broker(stack, build, "--http", "none", "--bulk-from", bulk_from)
    for tag in ("small", "large"):
        pool.start_worker(stack, build, broker["workers"], models, "reference", "--tag", tag)
    return broker["clients"]


def load(build, clients, tag, file, seconds, *flags):
    return pool.load(build, clients, "null", seconds, "--input", f"bytes={file}", "--tag", tag, *flags)


COPIES = "import sys, time; a = bytes(100 << 20); b = bytearray(a); end = time.time() + float(sys.argv[1])\nwhile time.time() < end: b[:] = a"


def copies(seconds):
    return [subprocess.Popen([sys.executable, "-c", COPIES, str(seconds)]) for _ in range(os.cpu_count())]


def measure(build, clients, files, seconds, rate, beside):
    """(p99 of the small ones, large jobs a second)"""
    large = load(build, clients, "large", files["large"], seconds + 2, "--concurrency", 1) if beside == "jobs" else None
    control = copies(seconds + 2) if beside == "copies" else []
    time.sleep(1)
    p99 = answer(load(build, clients, "small", files["small"], seconds, "--rate", rate))["latency_us"]["p99"]
    for process in control:
        process.wait()
    return p99, answer(large)["throughput_per_s"] if large else 0


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, seconds, size = Path(sys.argv[1]), option("--seconds", 5), option("--bytes", 100 << 20)
    rate, repeats, others = option("--rate", 200), option("--repeats", 3), busy()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = model_folder(build, folder / "models")
        files = {"small": noise(folder / "small.npy", 1), "large": noise(folder / "large.npy", size // ROW)}
        pools = {"chunks": new_pool(stack, build, models, 1 << 20), "whole": new_pool(stack, build, models, 0)}
        cases = {"alone": ("chunks", None), "chunks": ("chunks", "jobs"), "whole": ("whole", "jobs"), "copies": ("chunks", "copies")}
        found = {name: [] for name in cases}
        for _ in range(repeats):
            for name, (which, beside) in cases.items():
                found[name].append(measure(build, pools[which], files, seconds, rate, beside))
        beside_alone = {}
        for name, values in found.items():
            ratios = [p99 / alone for (p99, _), (alone, _) in zip(values, found["alone"])]
            beside_alone[name] = statistics.median(ratios)
            print(f"bulk    1 KiB jobs at {rate}/s {name:6}: p99 {statistics.median(p for p, _ in values):6.0f} us, {statistics.median(ratios):5.2f}x alone "
                  f"({min(ratios):.2f}-{max(ratios):.2f}); large ones {statistics.median(r for _, r in values) * size / 1e6:.0f} MB/s, n={repeats}")
        ratio, control = beside_alone["chunks"], beside_alone["copies"]
        print(f"        beside 100 MB jobs in chunks: {ratio:.2f}x, target 2.00: {'met' if ratio <= 2 else 'missed'}; "
              f"{ratio / control:.2f} of what copying in memory alone costs ({control:.2f}x)")
        if others:
            print(f"        {others}")


if __name__ == "__main__":
    main()
