#!/usr/bin/env python3
"""The unmodified perf_analyzer before a gateway and a real pool: over HTTP and gRPC, one at a time and at once, streams, shared memory, JSON, sequences, an
ensemble.

    perf_analyzer_test.py BIN_DIR

The program comes with tritonclient 2.50.0 (PyPI); later ones and the package perf-analyzer have none. Beside it stand the CUDA run-time (PyPI: nvidia-cuda-runtime-cu12) and
libb64 (Debian), which it is linked with. tests/run.sh makes the environment `perf_analyzer`. Skips with a message where that cannot be had.
The last line is `N passed, N failed, N skipped`.
"""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import models
from pool import SLOW, Pool, wait_for

BIN = Path(sys.argv[1]).resolve()
PLACE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock/perf_analyzer"
PROGRAM = PLACE / "bin/perf_analyzer"
REQUESTS = 40
passed = failed = 0


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print(f"FAILED: {what} {seen}", flush=True)


def environment():
    libraries = [str(file.parent) for file in PLACE.glob("lib/python3*/site-packages/nvidia/cuda_runtime/lib/libcudart.so.*")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}


def usable():
    if not PROGRAM.exists():
        return f"{PROGRAM} is not installed"
    missing = re.findall(r"(\S+) => not found", subprocess.run(["ldd", PROGRAM], env=environment(), capture_output=True, text=True).stdout)
    return f"perf_analyzer lacks {', '.join(missing)}" if missing else None


def answered(gateway, model):
    """Successes of a model so far, and what is wrong at the gateway once nothing is under way there: requests without an answer, and failures."""

    def under_way():
        return [int(number) for number in re.findall(r"^penstock_gateway_inferences (\d+)", gateway.ask("metrics").body.decode(), re.M)]

    idle = wait_for(lambda: under_way() == [0])
    told = gateway.ask(f"v2/models/{model}/stats").json["model_stats"][0]["inference_stats"]
    wrong = "" if idle and int(told["fail"]["count"]) == 0 else f"under way: {under_way()}, failed: {told['fail']}"
    return int(told["success"]["count"]), wrong


def runs(gateway, kind, model, *arguments):
    """REQUESTS requests; the program itself reads metadata, config, extensions and statistics before and after."""
    at = f"{gateway.host}:{gateway.port if kind == 'http' else gateway.grpc_port}"
    words = [PROGRAM, "-m", model, "-u", at, "-i", kind, "--request-count", REQUESTS, "--percentile", "95", *arguments]
    try:
        done = subprocess.run([str(word) for word in words], env=environment(), capture_output=True, text=True, timeout=25 * SLOW)
    except subprocess.TimeoutExpired:
        return None, {}, f"no end after {25 * SLOW} s"
    told = {}  # the first of each: an ensemble's own, not its steps'
    for key, value in re.findall(r"(Request count|Inference count|Successful request count): (\d+)", done.stdout):
        told.setdefault(key, int(value))
    return done.returncode, told, (done.stdout + done.stderr)[-600:]


def runs_again(gateway, kind, model, *arguments):
    """A case that did not end, by itself. With --request-count, perf_analyzer waits for ever when its requests are all answered before it starts to count
    them, as happens on a busy machine. So each try that does not end must have had an answer to every request; anything else is a fault of ours."""
    for _ in range(5):
        if "--shared-memory" in arguments:  # an ended try has left its regions
            gateway.ask("v2/systemsharedmemory/unregister", body=b"")
        before, _ = answered(gateway, model)
        code, told, text = runs(gateway, kind, model, *arguments)
        if code is not None:
            break
        after, wrong = answered(gateway, model)
        if wrong or after - before < REQUESTS:
            return None, {}, f"{text}; {after - before} requests of {REQUESTS} answered; {wrong}"
    return code, told, text


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        models.save_all(folder / "m")
        pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "m", "--slots", "1", "--threads", "1"])
        gateway = pool.gateway("--grpc", "127.0.0.1:*")
        check(wait_for(lambda: gateway.ask("v2/models/chain/ready").status == 200), "the models are there")
        cases = {"HTTP, one at a time": ("http", "batched", "--concurrency-range", 1),
                 "HTTP, four at once": ("http", "batched", "--concurrency-range", 4, "--async"),
                 "HTTP, batches": ("http", "batched", "-b", 4),
                 "HTTP, JSON both ways": ("http", "batched", "--input-tensor-format", "json", "--output-tensor-format", "json"),
                 "HTTP, shared memory": ("http", "batched", "--shared-memory", "system", "--output-shared-memory-size", 1024),
                 "HTTP, an ensemble": ("http", "chain", "--shape", "in:1,4"),
                 "HTTP, sequences": ("http", "adder", "--sequence-length", 5, "--concurrency-range", 2),
                 "HTTP, texts": ("http", "same_bytes", "--shape", "x:1,3"),
                 "gRPC, an ensemble": ("grpc", "chain", "--shape", "in:1,4"),
                 "gRPC, sequences in a stream": ("grpc", "adder", "--streaming", "--async", "--sequence-length", 5, "--sequence-id-range", "1000:2000", "--concurrency-range", 2),
                 "gRPC, one at a time": ("grpc", "batched", "--concurrency-range", 1),
                 "gRPC, a stream": ("grpc", "batched", "--streaming", "--async", "--concurrency-range", 3),
                 "gRPC, packed": ("grpc", "batched", "--grpc-compression-algorithm", "gzip")}
        # Side by side, because perf_analyzer waits a second each; sequences with numbers of their own, for those of one identity are common.
        with ThreadPoolExecutor(len(cases)) as threads:
            seen = {name: threads.submit(runs, gateway, *case) for name, case in cases.items()}
        for name, one in seen.items():
            code, told, text = one.result()
            if code is None:
                _, wrong = answered(gateway, cases[name][1])
                check(not wrong, f"{name}: every request has its answer", wrong)
                code, told, text = runs_again(gateway, *cases[name])
            check(code == 0 and told.get("Request count", 0) >= REQUESTS and told.get("Successful request count", 0) > 0, name, f"exit {code}: {text}")
        check(gateway.ask("v2/systemsharedmemory/status").json == [], "it has left no region behind")
        check(set(pool.stop()) == {0}, "all end in order")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if why := usable():
    print(f"skipped: {why}; tests/run.sh makes the environment")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)
main()
