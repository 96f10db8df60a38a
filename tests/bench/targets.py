#!/usr/bin/env python3
"""Targets of the message path in one interleaved run: our broker beside zmq_proxy and beside every other job system that is installed.

    targets.py BUILD_DIR [--repeats 3] [--quick] [--no-peers]

latency     1 KiB, window 1: everything on one core (pinned) and as the system schedules (free)
throughput  1 KiB, window 64, pinned and free
large       600 KiB in, 4 KiB out, window 8, pinned: beside the proxy with two frames, header and payload, neither copied
memory      bytes per queued job of 1 KiB; resident memory idle, and five seconds after 100000 jobs had waited and were done

systems     proxy: zmq_proxy, no tracking    echo: penstock-broker, a worker without an engine    null: penstock-broker, penstock-worker with a real slot
            gearmand, beanstalkd, redis-server (list; streams), nats-server: each starts on a port of its own; what is not installed is left out with a word

Ratios of one run count, microseconds of two do not compare. --quick: a tenth of the jobs. Standard library only.
"""
import usage  # noqa: F401
import json
import os
import re
import socket
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pool import ANY_PORT, WAIT_S, busy, option  # noqa: E402
from pool_vs_proxy import Programs, free_endpoint, measure  # noqa: E402

LARGE, ANSWER = 600 << 10, 4096
# name: (program, its arguments at a port, how often it must lose to the echo pool at one core; None: it tracks no jobs, only shown)
PEERS = {
    "gearmand": ("gearmand", lambda port: ["-p", port, "-L", "127.0.0.1", "-l", "none"], 3.0),
    "beanstalkd": ("beanstalkd", lambda port: ["-l", "127.0.0.1", "-p", port, "-z", "1048576"], 1.0),
    "redis-streams": ("redis-server", lambda port: ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], 1.0),
    "redis-list": ("redis-server", lambda port: ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], None),
    "nats": ("nats-server", lambda port: ["-a", "127.0.0.1", "-p", port], 1.7),
}
ABSENT = {"RabbitMQ": "its protocol needs a client library of its own", "BullMQ": "it is a library of npm", "Majordomo": "an example in a book, not packaged"}


def rss(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1)) * 1024


class System:
    """A middle and its worker; ends with the block."""

    def __init__(self, name, build, prefix, models, answer=None, worker=True):
        self.name, self.tools, self.prefix, self.programs = name, build / "tests", prefix, Programs(prefix)
        own = [str(answer)] if answer else []
        if name == "proxy":
            self.clients, workers = free_endpoint(), free_endpoint()
            self.programs.start([f"{self.tools}/bench_proxy", self.clients, workers], "listening")
            if worker:
                self.programs.start([f"{self.tools}/bench_echo_worker", "proxy", workers, *own], "ready")
            return
        log = self.programs.start([f"{build}/bin/penstock-broker", "--listen-clients", ANY_PORT, "--listen-workers", ANY_PORT, "--cache", "memory:16MiB", "--http", "none",
                                   "--queue-limit", "1000000", "--queue-bytes", "4GiB", "--liveness", "60s", "--worker-wait", "60s"], "evt=listening")
        self.clients, workers = (re.search(rf"\b{side}=(tcp://\S+)", log).group(1) for side in ("clients", "workers"))
        self.idle = rss(self.programs.started[0].pid)
        if name == "echo":
            self.programs.start([f"{self.tools}/bench_echo_worker", "broker", workers, *own], "ready")
        else:
            self.programs.start([f"{build}/bin/penstock-worker", "--broker", workers, "--models", models, "--backend", "reference", "--slots", "1", "--threads",
                                 "1"], "evt=welcome")

    def measure(self, size, window, jobs):
        return measure(self.prefix, self.tools, "proxy" if self.name == "proxy" else "broker", self.clients, size, window, jobs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.programs.__exit__()


class Peer:
    """Another job system on a port of its own; its worker is bench_peer's."""

    def __init__(self, name, build, prefix):
        program, arguments, _ = PEERS[name]
        self.name, self.tool, self.prefix = name, f"{build}/tests/bench_peer", prefix
        self.port = free_endpoint().rsplit(":", 1)[1]
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(prefix + [where(program), *arguments(self.port)], cwd=self.folder.name, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self.await_port()

    def await_port(self):
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            try:
                return socket.create_connection(("127.0.0.1", int(self.port))).close()
            except ConnectionRefusedError:
                time.sleep(0.01)
        sys.exit(f"{self.name} does not listen on port {self.port} after {WAIT_S} s")

    def measure(self, size, window, jobs):
        done = subprocess.run([*self.prefix, self.tool, self.name, self.port, str(size), str(window), str(jobs)], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            sys.exit(f"bench_peer {self.name}: {done.stderr}")
        return json.loads(done.stdout)

    def bytes_per_job(self, jobs):
        before = rss(self.process.pid)
        fill = subprocess.Popen([self.tool, self.name, self.port, "1024", "fill", str(jobs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = fill.stdout.readline().strip()
        found = (rss(self.process.pid) - before) / jobs if said == "filled" else None
        fill.communicate("")
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.folder.cleanup()


def where(program):
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


def queued(build, models, jobs):
    """(bytes per queued job, idle bytes, bytes five seconds after the last of them was done)"""
    with System("echo", build, [], models) as system:
        broker, worker = system.programs.started
        system.measure(1024, 64, 2000)
        before = rss(broker.pid)
        worker.send_signal(signal.SIGSTOP)
        client = subprocess.Popen([f"{build}/tests/bench_client", "broker", system.clients, "1024", str(jobs), str(jobs)], stdout=subprocess.PIPE, text=True)
        peak, until = 0, time.time() + 6
        while time.time() < until:
            now = rss(broker.pid)
            if now == peak and now > before + 500 * jobs:
                break
            peak = max(peak, now)
            time.sleep(0.25)
        worker.send_signal(signal.SIGCONT)
        client.communicate(timeout=60)
        time.sleep(5)
        return (peak - before) / jobs, system.idle, rss(broker.pid)


def verdict(what, found, goal, met, unit=""):
    print(f"{'met   ' if met else 'MISSED'} {what:62} {found:9.2f}{unit}  target {goal}")
    return met


def collect(build, repeats, few, many, large, models, peers):
    core = str(sorted(os.sched_getaffinity(0))[-1])
    figures = {}

    def note(key, value):
        figures.setdefault(key, []).append(value)
    for _ in range(repeats):
        for place, prefix in [("pinned", ["taskset", "-c", core]), ("free", [])]:
            for name in ["proxy", "echo", "null"]:
                with System(name, build, prefix, models) as system:
                    note((name, place, "p50"), system.measure(1024, 1, few)["p50_us"])
                    note((name, place, "rate"), system.measure(1024, 64, many)["jobs_per_s"])
            for name in peers:
                with Peer(name, build, prefix) as peer:
                    slow = 10 if name == "beanstalkd" else 1
                    note((name, place, "p50"), peer.measure(1024, 1, few // slow)["p50_us"])
                    note((name, place, "rate"), peer.measure(1024, 64, many // slow // 2)["jobs_per_s"])
            for name in ["proxy", "echo"]:
                with System(name, build, prefix, models, answer=ANSWER) as system:
                    note((name, place, "large"), system.measure(LARGE, 8, large)["jobs_per_s"])
    return {key: statistics.median(values) for key, values in figures.items()}


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    quick, repeats, others = "--quick" in sys.argv, option("--repeats", 3), busy()
    build, scale = Path(sys.argv[1]), 10 if quick else 1
    peers = [] if "--no-peers" in sys.argv else [name for name, (program, _, _) in PEERS.items() if where(program)]
    with tempfile.TemporaryDirectory() as models:
        subprocess.run([f"{build}/tests/bench_null_model", models], check=True)
        f = collect(build, repeats, 3000 // scale, 40000 // scale, 4000 // scale, models, peers)
        per_job, idle, after = queued(build, models, 100000 // scale)
        memory = {}
        for name in peers:
            with Peer(name, build, []) as peer:
                memory[name] = peer.bytes_per_job(20000 // scale)
    print(f"median of {repeats} interleaved repeats, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}")
    print(f"{'system':14} {'p50 us pinned':>14} {'free':>6} {'jobs/s pinned':>14} {'free':>8} {'600 KiB pinned':>15} {'free':>6} {'bytes/queued':>13}")
    for name in ["proxy", "echo", "null", *peers]:
        large = [f"{f[name, place, 'large']:.0f}" if (name, place, "large") in f else "-" for place in ("pinned", "free")]
        held = per_job if name == "echo" else memory.get(name)
        print(f"{name:14} {f[name, 'pinned', 'p50']:14.0f} {f[name, 'free', 'p50']:6.0f} {f[name, 'pinned', 'rate']:14.0f} {f[name, 'free', 'rate']:8.0f} "
              f"{large[0]:>15} {large[1]:>6} {'-' if held is None else f'{held:.0f}':>13}")
    for name, (program, _, _) in PEERS.items():
        if name not in peers and "--no-peers" not in sys.argv:
            print(f"{name:14} left out: {program} is not installed")
    for name, why in ABSENT.items():
        print(f"{name:14} left out: {why}")
    judge(f, per_job, idle, after, peers)
    if others:
        print(others)


def judge(f, per_job, idle, after, peers):
    base = {key[1:]: value for key, value in f.items() if key[0] == "proxy"}
    kept = [
        verdict("1a p50 pinned, echo worker, minus the proxy's", f["echo", "pinned", "p50"] - base["pinned", "p50"], "<= 5", f["echo", "pinned", "p50"] - base["pinned", "p50"] <= 5, " us"),
        verdict("1b p50 pinned, a real slot, minus the proxy's", f["null", "pinned", "p50"] - base["pinned", "p50"], "<= 15", f["null", "pinned", "p50"] - base["pinned", "p50"] <= 15, " us"),
        verdict("1b the same as a share: the proxy took 47 us where 15 were set", f["null", "pinned", "p50"] / base["pinned", "p50"], f"<= {62 / 47:.2f}",
                f["null", "pinned", "p50"] / base["pinned", "p50"] <= 62 / 47, "x"),
        verdict("1c p50 free, echo worker, of the proxy's", f["echo", "free", "p50"] / base["free", "p50"], "<= 0.5", f["echo", "free", "p50"] <= base["free", "p50"] / 2, "x"),
        verdict("2a jobs/s one core, echo worker, of the proxy's", f["echo", "pinned", "rate"] / base["pinned", "rate"], ">= 0.85", f["echo", "pinned", "rate"] >= 0.85 * base["pinned", "rate"], "x"),
        verdict("2b jobs/s one core, a real slot, of the proxy's", f["null", "pinned", "rate"] / base["pinned", "rate"], ">= 0.7", f["null", "pinned", "rate"] >= 0.7 * base["pinned", "rate"], "x"),
    ]
    for name in peers:
        goal = PEERS[name][2]
        if goal:
            ratio = f["echo", "pinned", "rate"] / f[name, "pinned", "rate"]
            kept.append(verdict(f"2  jobs/s one core, echo worker, of {name}'s", ratio, f">= {goal}", ratio >= goal, "x"))
    ratio = f["echo", "pinned", "large"] / base["pinned", "large"]
    kept.append(verdict("3  jobs/s 600 KiB in, 4 KiB out, one core, of the proxy's", ratio, ">= 0.95", ratio >= 0.95, "x"))
    kept.append(verdict("4a bytes per queued job of 1 KiB", per_job, "<= 1500", per_job <= 1500))
    kept.append(verdict("4b resident memory idle", idle / 2**20, "<= 8", idle <= 8 << 20, " MiB"))
    kept.append(verdict("4c resident memory 5 s after, of idle", after / idle, "<= 1.5", after <= 1.5 * idle, "x"))
    print(f"{sum(kept)} of {len(kept)} targets met")


if __name__ == "__main__":
    main()
