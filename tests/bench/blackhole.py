#!/usr/bin/env python3
"""What a Redis that has stopped answering costs jobs: it must be the cache deadline (5 ms) until the breaker opens, then nothing.

    blackhole.py BUILD_DIR [--repeats 5] [--rate 200]

Jobs of the digits model, each with another input, at a fixed rate. Each repeat has three phases, so that the machine's noise meets all alike:
    up      Redis answers (1 s)
    hole    Redis is stopped with SIGSTOP just before: its connection stays, nothing comes back (0.5 s; the breaker opens in here)
    open    the breaker is open (1 s)
and then Redis goes on, and the broker finds it. Figures are those of `penstock load --json`, medians over the repeats. Standard library only.
"""
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from overhead import ANY_PORT, ROOT, option, start  # noqa: E402

DEADLINE_US = 5000


def load(build, clients, rate, ms):
    done = subprocess.run([build / "bin/penstock", "load", "--broker", clients, "--model", "digits", "--unique", "--rate", str(rate), "--duration",
                           f"{ms}ms", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"penstock load failed: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)["latency_us"]


def cache_state(build, clients):
    done = subprocess.run([build / "bin/penstock", "top", "--broker", clients, "--once", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["stats"]["cache_state"] if done.returncode == 0 else ""


def await_state(build, clients, wanted):
    for _ in range(500):
        if cache_state(build, clients).startswith(wanted):
            return
        time.sleep(0.02)
    sys.exit(f"the cache does not become '{wanted}': {cache_state(build, clients)}")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, repeats, rate = Path(sys.argv[1]), option("--repeats", 5), option("--rate", 200)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started, rows = [], []
    try:
        redis, _ = start([], ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], "Ready to accept")
        started.append(redis)
        broker, log = start([], [build / "bin/penstock-broker", "--listen-clients", ANY_PORT, "--listen-workers", ANY_PORT, "--http", "none",
                                 "--cache", f"redis://127.0.0.1:{port}/0", "--detached", "none"], "evt=listening")
        started.append(broker)
        clients, workers = (re.search(rf"\b{name}=(tcp://\S+)", log).group(1) for name in ("clients", "workers"))
        worker, _ = start([], [build / "bin/penstock-worker", "--broker", workers, "--models", ROOT / "deploy/models", "--backend", "xnnpack",
                               "--slots", "1", "--threads", "1"], "evt=welcome")
        started.append(worker)
        load(build, clients, rate, 500)
        for _ in range(repeats):
            await_state(build, clients, "ok")
            up = load(build, clients, rate, 1000)
            redis.send_signal(signal.SIGSTOP)
            hole = load(build, clients, rate, 500)
            await_state(build, clients, "open")
            opened = load(build, clients, rate, 1000)
            redis.send_signal(signal.SIGCONT)
            rows.append((up, hole, opened))
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(10)
    print(f"digits at {rate} jobs/s, each another input; medians of {repeats} repeats, us; the cache deadline is {DEADLINE_US}")
    medians = {}
    for i, name in enumerate(("up", "hole", "open")):
        medians[name] = {key: statistics.median(row[i][key] for row in rows) for key in ("p50", "p90", "p99", "max")}
        print(f"{name:6} p50 {medians[name]['p50']:8.0f}  p90 {medians[name]['p90']:8.0f}  p99 {medians[name]['p99']:8.0f}  max {medians[name]['max']:8.0f}")
    rise = [row[1]["p99"] - row[0]["p99"] for row in rows]
    after = [row[2]["p99"] - row[0]["p99"] for row in rows]
    print(f"rise of p99 until the breaker opens: median {statistics.median(rise):+.0f} us ({statistics.median(rise) / DEADLINE_US:.2f} of the deadline)")
    print(f"rise of p99 afterwards: median {statistics.median(after):+.0f} us")


if __name__ == "__main__":
    main()
