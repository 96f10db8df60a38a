#!/usr/bin/env python3
"""What a Redis that has stopped answering costs jobs: it must be the cache deadline (5 ms) until the breaker opens, then nothing.

    blackhole.py BUILD_DIR [--repeats 5] [--rate 200] [--drop 1]

Jobs of the digits model, each with another input, at a fixed rate. Each repeat has three phases, so that the machine's noise meets all alike:
    up      Redis answers (1 s)
    hole    Redis is stopped with SIGSTOP just before: its connection stays, nothing comes back (0.5 s; the breaker opens in here)
    open    the breaker is open (1 s)
and then Redis goes on, and the broker finds it. With --drop 1 Redis is on another host (network namespaces; needs root) whose packets back are dropped
instead: nothing is answered, not even by its kernel. Figures are those of `penstock load --json`, medians over the repeats. Standard library only.
"""
import usage  # noqa: F401
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pool import ANY_PORT, ROOT, option, start  # noqa: E402

DEADLINE_US = 5000


class Frozen:
    """Redis here, stopped and continued."""
    prefix = redis_prefix = []
    address = "127.0.0.1"
    redis = None

    def hole(self):
        self.redis.send_signal(signal.SIGSTOP)

    def heal(self):
        self.redis.send_signal(signal.SIGCONT)

    def end(self):
        pass


class Dropped:
    """Redis in a network namespace of its own, the rest in another; in the hole what Redis' host sends back is dropped on its way out."""
    address, other = "10.124.0.2", "10.124.0.1"
    redis = None

    def __init__(self):
        self.here, self.there = (f"pen{os.getpid()}{name}" for name in ("here", "there"))
        self.prefix, self.redis_prefix = (["ip", "netns", "exec", name] for name in (self.here, self.there))
        for command in (f"netns add {self.here}", f"netns add {self.there}", f"link add net0 netns {self.here} type veth peer name net0 netns {self.there}",
                        *(f"-n {name} {what}" for name, own in ((self.here, self.other), (self.there, self.address))
                          for what in (f"address add {own}/24 dev net0", "link set net0 up", "link set lo up"))):
            if subprocess.run(["ip", *command.split()]).returncode != 0:
                self.end()
                sys.exit("network namespaces cannot be made here: --drop 1 needs root and ip")

    def hole(self):
        subprocess.run(["ip", "-n", self.there, "route", "add", "blackhole", f"{self.other}/32"], check=True)

    def heal(self):
        subprocess.run(["ip", "-n", self.there, "route", "delete", "blackhole", f"{self.other}/32"], check=True)

    def end(self):
        for name in (self.here, self.there):
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def load(prefix, build, clients, rate, ms):
    done = subprocess.run([*prefix, build / "bin/penstock", "load", "--broker", clients, "--model", "digits", "--unique", "--rate", str(rate), "--duration",
                           f"{ms}ms", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"penstock load failed: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)["latency_us"]


def cache_state(prefix, build, clients):
    done = subprocess.run([*prefix, build / "bin/penstock", "top", "--broker", clients, "--once", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["stats"]["cache_state"] if done.returncode == 0 else ""


def await_state(prefix, build, clients, wanted):
    for _ in range(500):
        if cache_state(prefix, build, clients).startswith(wanted):
            return
        time.sleep(0.02)
    sys.exit(f"the cache does not become '{wanted}': {cache_state(prefix, build, clients)}")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, repeats, rate = Path(sys.argv[1]).resolve(), option("--repeats", 5), option("--rate", 200)
    net = Dropped() if option("--drop", 0) else Frozen()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started, rows = [], []
    try:
        redis, _ = start(net.redis_prefix, ["redis-server", "--port", port, "--bind", net.address, "--protected-mode", "no", "--save", "", "--appendonly", "no"], "Ready to accept")
        net.redis = redis
        started.append(redis)
        broker, log = start(net.prefix, [build / "bin/penstock-broker", "--listen-clients", ANY_PORT, "--listen-workers", ANY_PORT, "--http", "none",
                                 "--cache", f"redis://{net.address}:{port}/0", "--detached", "none"], "evt=listening")
        started.append(broker)
        clients, workers = (re.search(rf"\b{name}=(tcp://\S+)", log).group(1) for name in ("clients", "workers"))
        worker, _ = start(net.prefix, [build / "bin/penstock-worker", "--broker", workers, "--models", ROOT / "deploy/models", "--backend", "xnnpack",
                               "--slots", "1", "--threads", "1"], "evt=welcome")
        started.append(worker)
        load(net.prefix, build, clients, rate, 500)
        for _ in range(repeats):
            await_state(net.prefix, build, clients, "ok")
            up = load(net.prefix, build, clients, rate, 1000)
            net.hole()
            hole = load(net.prefix, build, clients, rate, 500)
            await_state(net.prefix, build, clients, "open")
            opened = load(net.prefix, build, clients, rate, 1000)
            net.heal()
            rows.append((up, hole, opened))
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(10)
        net.end()
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
