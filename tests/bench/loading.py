#!/usr/bin/env python3
"""What loading and unloading a model costs those who are served meanwhile: p50, p90 and p99 without and with it, interleaved, and beside a control.

    loading.py BUILD_DIR [--seconds 2] [--repeats 15] [--threads 1]

A calm client of mnist_8 at a third of what one slot can do; beside it yolox_nano is unloaded and loaded again and again, by one client that stays connected.
The control is another process that loads the same file again and again at nice 19: what the machine's scheduler makes of any such neighbour. Windows are short
and many, each compared with the quiet one before it; the medians of the ratios count, and the spread of the quiet windows says what they are worth. The aim: a ratio of p99 of at
most 1.2. Models of ../shared. Standard library only.
"""
import usage  # noqa: F401
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402
from pool import ROOT, answer, busy, load, option  # noqa: E402

SHARED = ROOT.parent / "shared" / "models" / "onnx"
SERVED, LOADED = "mnist_8", "yolox_nano"
PAUSE_MS = 30
ALWAYS = 1000000  # loads of the control, which is ended before


def model_folder(stack):
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name in (SERVED, LOADED):
        (folder / name / "1").mkdir(parents=True)
        shutil.copy(SHARED / name / "model.onnx", folder / name / "1")
    return folder


def nothing(build, clients, seconds):
    return None


def orders(build, clients, seconds):
    return subprocess.Popen([build / "tests/bench_orders", clients, LOADED, str(seconds), str(PAUSE_MS)], stdout=subprocess.PIPE, text=True)


def stranger(build, clients, seconds):
    return subprocess.Popen([build / "tests/bench_load", SHARED / LOADED / "model.onnx", "xnnpack", str(ALWAYS)], stdout=subprocess.PIPE, text=True,
                            preexec_fn=lambda: os.nice(19))


BESIDE = {"quiet": nothing, "loading": orders, "stranger": stranger}


def window(build, clients, rate, seconds, name):
    """(latencies, what the loads say of themselves)"""
    job = load(build, clients, SERVED, seconds, "--rate", rate)
    beside = BESIDE[name](build, clients, seconds)
    latency = answer(job)["latency_us"]
    if name == "stranger":
        beside.kill()
        beside.communicate()
    told = json.loads(beside.communicate()[0] or "{}") if name == "loading" else {}
    if name == "loading" and beside.returncode != 0:
        sys.exit("loading: an order failed")
    return latency, told


def show(name, quantile, figures):
    ratios = [b[quantile] / a[quantile] for a, b in zip(figures["quiet"], figures[name])]
    quiet = [f[quantile] for f in figures["quiet"]]
    print(f"{name:8}  {quantile}  {statistics.median(quiet):5.0f} us quiet ({min(quiet):.0f}-{max(quiet):.0f})  "
          f"{statistics.median(f[quantile] for f in figures[name]):5.0f} us  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})  "
          f"n={len(ratios)}")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if not SHARED.is_dir():
        sys.exit(f"skipped: {SHARED} is not there")
    build, seconds, repeats = Path(sys.argv[1]), option("--seconds", 2), option("--repeats", 15)
    noise = busy()
    with ExitStack() as stack:
        broker = pool.start_broker(stack, build, "--http", "none")
        pool.start_worker(stack, build, broker["workers"], model_folder(stack), "xnnpack", "--threads", option("--threads", 1))
        clients = broker["clients"]
        solo = answer(load(build, clients, SERVED, 2, "--concurrency", 2))
        rate = round(solo["throughput_per_s"] / 3, 1)
        figures, told = {name: [] for name in BESIDE}, []
        for _ in range(repeats):
            for name in BESIDE:
                latency, said = window(build, clients, rate, seconds, name)
                figures[name].append(latency)
                told += [said] if said else []
        loads = sum(one["loads"] for one in told)
        print(f"{SERVED} at {rate}/s; {loads} loads of {LOADED} in {seconds * repeats} s, {statistics.median(one['load_ms'] for one in told):.0f} ms each")
        for name in ("loading", "stranger"):
            for quantile in ("p50", "p90", "p99"):
                show(name, quantile, figures)
        if noise:
            print(noise)


if __name__ == "__main__":
    main()
