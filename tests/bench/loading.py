#!/usr/bin/env python3
"""What loading and unloading a model costs those who are served meanwhile: p99 without and with it, interleaved.

    loading.py BUILD_DIR [--seconds 6] [--repeats 5]

A calm client of mnist_8 at a third of what one slot of one thread can do; beside it `penstock model unload|load` of yolox_nano again and again.
Models of ../shared. Standard library only.
"""
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402
from pool import ROOT, answer, load, option  # noqa: E402

SHARED = ROOT.parent / "shared" / "models" / "onnx"
SERVED, LOADED = "mnist_8", "yolox_nano"


def model_folder(stack):
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name in (SERVED, LOADED):
        (folder / name / "1").mkdir(parents=True)
        shutil.copy(SHARED / name / "model.onnx", folder / name / "1")
    return folder


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if not SHARED.is_dir():
        sys.exit(f"skipped: {SHARED} is not there")
    build, seconds, repeats = Path(sys.argv[1]), option("--seconds", 6), option("--repeats", 5)
    with ExitStack() as stack:
        broker = pool.start_broker(stack, build, "--http", "none")
        pool.start_worker(stack, build, broker["workers"], model_folder(stack), "xnnpack")
        clients = broker["clients"]
        solo = answer(load(build, clients, SERVED, 2, "--concurrency", 2))
        rate = round(solo["throughput_per_s"] / 3, 1)
        figures = {"quiet": [], "loading": []}
        loads = 0
        for _ in range(repeats):
            for name in figures:
                job = load(build, clients, SERVED, seconds, "--rate", rate)
                while name == "loading" and job.poll() is None:
                    for verb in ("unload", "load"):
                        done = subprocess.run([build / "bin/penstock", "model", verb, LOADED, "--broker", clients], capture_output=True, text=True)
                        if done.returncode != 0:
                            sys.exit(f"penstock model {verb}: {done.stdout}{done.stderr}")
                    loads += 1
                    time.sleep(0.05)
                figures[name].append(answer(job)["latency_us"])
        for quantile in ("p50", "p99"):
            ratios = [b[quantile] / a[quantile] for a, b in zip(*figures.values())]
            print(f"loading {SERVED} at {rate}/s beside {loads} loads of {LOADED}: {quantile} "
                  f"{statistics.median(f[quantile] for f in figures['quiet']):.0f} us quiet, "
                  f"{statistics.median(f[quantile] for f in figures['loading']):.0f} us loading, ratio {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f}-{max(ratios):.2f}), n={repeats}")


if __name__ == "__main__":
    main()
