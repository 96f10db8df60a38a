#!/usr/bin/env python3
"""The Python client beside the C client: p50 of 1 KiB jobs at window 1, and jobs a second of one process with futures.

    python_client.py BUILD_DIR [--seconds 3]

One pool (an identity of 256 floats on the reference backend), one client after the other. The C client is `penstock load`.
Needs what the Python client needs (tests/python/package.py).
"""
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("python", "gateway")]  # tests/bench has a pool of its own
import package  # noqa: E402, F401
import models  # noqa: E402
import numpy as np  # noqa: E402
from pool import Pool, wait_for  # noqa: E402

from penstock import Client  # noqa: E402

MODEL = "same_fp32"


def c_client(build, broker, concurrency, seconds, file):
    words = [build / "bin/penstock", "load", "--broker", broker, "--model", MODEL, "--input", f"x={file}", "--concurrency", concurrency, "--duration",
             f"{seconds}s", "--no-cache", "--json"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"penstock load failed: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def one_by_one(client, inputs, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        client.run(MODEL, inputs, cache=False)
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def with_futures(client, inputs, seconds, window):
    waiting, done, begin = deque(), 0, time.perf_counter()
    while time.perf_counter() < begin + seconds or waiting:
        while len(waiting) < window and time.perf_counter() < begin + seconds:
            waiting.append(client.submit(MODEL, inputs, cache=False))
        waiting.popleft().result()
        done += 1
    return done / (time.perf_counter() - begin)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, seconds = Path(sys.argv[1]).resolve(), int(re.sub(r"\D", "", sys.argv[3])) if len(sys.argv) > 3 else 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save_all(folder / "models")
        pool = Pool(build / "bin", folder, [build / "bin/penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--backend", "reference"])
        array = np.arange(256, dtype=np.float32).reshape(1, 256)
        np.save(folder / "x.npy", array)
        with Client(pool.clients) as client:
            wait_for(lambda: any(model.name == MODEL for model in client.models()))
            c, python = c_client(build, pool.clients, 1, seconds, folder / "x.npy")["latency_us"]["p50"], one_by_one(client, {"x": array}, seconds)
            print(f"1 KiB, window 1:   C p50 {c:.0f} us, Python {python:.0f} us: {python / c:.2f} times (wanted: at most 1.5)")
            c = c_client(build, pool.clients, 256, seconds, folder / "x.npy")["throughput_per_s"]
            python = with_futures(client, {"x": array}, seconds, 256)
            print(f"1 KiB, window 256: C {c:.0f} jobs/s, Python with futures {python:.0f} jobs/s (wanted: at least 10000)")
        pool.stop()


main()
