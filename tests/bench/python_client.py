#!/usr/bin/env python3
"""The Python client beside the C client: p50 of 1 KiB jobs at window 1, and jobs a second of one process with futures.

    python_client.py BUILD_DIR [--seconds 0.5] [--rounds 9] [--json]

One pool (an identity of 256 floats on the reference backend). The C client, `penstock load`, and the Python client take turns of --seconds; the ratio is the
median of the rounds' own, so that a machine that is busy elsewhere upsets it little. Beside it stands the processor time that a job costs the calling thread.
Needs what the Python client needs (tests/python/package.py).
"""
import usage  # noqa: F401
import argparse
import json
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
             f"{round(seconds * 1000)}ms", "--no-cache", "--json"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"penstock load failed: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def one_by_one(client, inputs, seconds):
    """p50 in us, and the thread's processor time per job in us."""
    times, end, cpu = [], time.perf_counter() + seconds, time.thread_time()
    while time.perf_counter() < end:
        begin = time.perf_counter()
        client.run(MODEL, inputs, cache=False)
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times), (time.thread_time() - cpu) / len(times) * 1e6


def with_futures(client, inputs, seconds, window):
    waiting, done, begin = deque(), 0, time.perf_counter()
    while time.perf_counter() < begin + seconds or waiting:
        while len(waiting) < window and time.perf_counter() < begin + seconds:
            waiting.append(client.submit(MODEL, inputs, cache=False))
        waiting.popleft().result()
        done += 1
    return done / (time.perf_counter() - begin)


def rounds(build, client, broker, file, words):
    inputs = {"x": np.load(file)}
    one_by_one(client, inputs, 0.1)
    alone, window = [], []
    for _ in range(words.rounds):
        c = c_client(build, broker, 1, words.seconds, file)["latency_us"]["p50"]
        p50, cpu = one_by_one(client, inputs, words.seconds)
        alone.append({"c_p50_us": c, "python_p50_us": p50, "python_cpu_us": cpu, "ratio": p50 / c})
        c = c_client(build, broker, 256, words.seconds, file)["throughput_per_s"]
        window.append({"c_jobs_per_s": c, "python_jobs_per_s": with_futures(client, inputs, words.seconds, 256)})
    return {name: statistics.median(entry[name] for entry in entries) for entries in (alone, window) for name in entries[0]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    build = words.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save_all(folder / "models")
        pool = Pool(build / "bin", folder, [build / "bin/penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--backend", "reference"])
        np.save(folder / "x.npy", np.arange(256, dtype=np.float32).reshape(1, 256))
        with Client(pool.clients) as client:
            wait_for(lambda: any(model.name == MODEL for model in client.models()))
            found = rounds(build, client, pool.clients, folder / "x.npy", words)
        pool.stop()
    if words.json:
        print(json.dumps(found))
        return
    print(f"1 KiB, window 1:   C p50 {found['c_p50_us']:.0f} us, Python {found['python_p50_us']:.0f} us: {found['ratio']:.2f} times (wanted: at most 1.5); "
          f"a job costs the calling thread {found['python_cpu_us']:.0f} us")
    print(f"1 KiB, window 256: C {found['c_jobs_per_s']:.0f} jobs/s, Python with futures {found['python_jobs_per_s']:.0f} jobs/s (wanted: at least 10000)")


main()
