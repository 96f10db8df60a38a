#!/usr/bin/env python3
"""Our broker beside zmq_proxy with the same frames, in one interleaved run.

    pool_vs_proxy.py BUILD_DIR [--repeats 5] [--bytes 1024] [--curve]    --curve: encrypted on both hops, ours and the proxy's

systems   proxy        bench client - zmq_proxy - echo worker
          plain        bench client - penstock-broker - echo worker, one message per job, as peers of version 1.1 send
          echo         bench client - penstock-broker - echo worker, which share messages among jobs that are there at the same time
          null         bench client - penstock-broker - penstock-worker with the null model in a real slot
cases     pinned, window 1: everything on one core, the length of the software path     free, window 1: as the system schedules
          pinned and free, window 64: throughput

Prints the median over the repeats for each and its ratio to the proxy; compare ratios of one run, never microseconds of two. The last columns are the
processor time that all processes took per job at window 64, and how often the proxy takes that: they say the same where other programs use the machine, too.
Standard library only.
"""
import usage  # noqa: F401
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

START_TIMEOUT_S = 15
NULL_ROW = 1024  # bytes of a row that the null model takes


def environment(plain):
    return {**os.environ, "BENCH_PLAIN": "1"} if plain else None


class Programs:
    """What one measurement starts; all of it ends with the block."""

    def __init__(self, prefix):
        self.prefix, self.started, self.logs = prefix, [], []

    def start(self, command, wait_for, plain=False):
        log = tempfile.TemporaryFile("w+")
        process = subprocess.Popen(self.prefix + command, stdout=log, stderr=subprocess.STDOUT, env=environment(plain))
        self.started.append(process)
        self.logs.append(log)
        for _ in range(START_TIMEOUT_S * 200):
            log.seek(0)
            text = log.read()
            if wait_for in text:
                return text
            if process.poll() is not None:
                break
            try:
                process.wait(0.005)
            except subprocess.TimeoutExpired:
                pass
        sys.exit(f"{command[0]} did not say '{wait_for}':\n{text}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            process.terminate()
        for process in reversed(self.started):
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


KEYS = {}  # name -> (file, public key); empty: not encrypted


def make_keys(bin_dir, folder):
    """A pair for the middle and one for each side, the list that lets them in, and the environment that the tools read."""
    lines = []
    for name, roles in [("broker", "admin"), ("client", "submit"), ("worker", "worker")]:
        line = subprocess.run([f"{bin_dir}/penstock", "keygen", f"{folder}/{name}", "--name", name, "--roles", roles], check=True,
                              capture_output=True, text=True).stdout
        KEYS[name] = (f"{folder}/{name}", line.split()[0])
        lines.append(line)
    Path(f"{folder}/keys").write_text("".join(lines))
    os.environ["BENCH_BROKER_KEY"] = KEYS["broker"][1]


def act_as(name):
    if KEYS:
        os.environ["BENCH_KEY"] = KEYS[name][0]


def start_system(system, programs, tools, bin_dir, models):
    """Returns (how the client speaks, its endpoint)."""
    if system == "proxy":
        clients, workers = free_endpoint(), free_endpoint()
        act_as("broker")
        programs.start([f"{tools}/bench_proxy", clients, workers], "listening")
        act_as("worker")
        programs.start([f"{tools}/bench_echo_worker", "proxy", workers], "ready")
        return "proxy", clients
    any_port = "tcp://127.0.0.1:*"
    guard = ["--key", KEYS["broker"][0], "--keys", str(Path(KEYS["broker"][0]).parent / "keys")] if KEYS else []
    guest = ["--key", KEYS["worker"][0], "--broker-key", KEYS["broker"][1]] if KEYS else []
    act_as("worker")
    log = programs.start([f"{bin_dir}/penstock-broker", *guard, "--listen-clients", any_port, "--listen-workers", any_port, "--cache", "memory:16MiB"],
                         "evt=listening")
    clients, workers = (re.search(rf"\b{name}=(tcp://\S+)", log).group(1) for name in ("clients", "workers"))
    if system in ("echo", "plain"):
        programs.start([f"{tools}/bench_echo_worker", "broker", workers], "ready", system == "plain")
    else:
        programs.start([f"{bin_dir}/penstock-worker", "--broker", workers, "--models", models, "--backend", "reference", "--slots", "1",
                        "--threads", "1", *guest], "evt=welcome")
    return "broker", clients


def free_endpoint():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def measure(prefix, tools, speak, endpoint, size, window, jobs, plain=False):
    act_as("client")
    done = subprocess.run(prefix + [f"{tools}/bench_client", speak, endpoint, str(size), str(window), str(jobs)], capture_output=True, text=True,
                          env=environment(plain))
    if done.returncode != 0:
        sys.exit(f"bench_client failed: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def processor_us(process):
    """What all threads of a process have taken so far."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat")) / 1e3


def measure_wide(programs, jobs, *arguments):
    """As measure(), with the processor time of a job in the answer."""
    def taken():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(map(processor_us, programs.started)) + (used.ru_utime + used.ru_stime) * 1e6

    before = taken()
    found = measure(*arguments)
    return {**found, "cpu_us": (taken() - before) / (jobs + jobs // 10)}


def options():
    arguments, values = sys.argv[1:], {"--repeats": 5, "--bytes": 1024}
    curve = "--curve" in arguments
    arguments = [a for a in arguments if a != "--curve"]
    for name in values:
        if name in arguments:
            at = arguments.index(name)
            values[name] = int(arguments[at + 1])
            del arguments[at:at + 2]
    if len(arguments) != 1:
        sys.exit(__doc__)
    return Path(arguments[0]), values["--repeats"], values["--bytes"], curve


def main():
    build, repeats, size, curve = options()
    tools, bin_dir = build / "tests", build / "bin"
    core = str(sorted(os.sched_getaffinity(0))[-1])
    few, many = (3000, 40000) if size <= 65536 else (400, 2000)
    systems = ["proxy", "plain", "echo"] + (["null"] if size == NULL_ROW else [])
    figures = {}
    with tempfile.TemporaryDirectory() as models:
        subprocess.run([f"{tools}/bench_null_model", models], check=True)
        if curve:
            os.mkdir(f"{models}/.keys")
            make_keys(bin_dir, f"{models}/.keys")
        for _ in range(repeats):
            for place, prefix in [("pinned", ["taskset", "-c", core]), ("free", [])]:
                for system in systems:
                    with Programs(prefix) as programs:
                        speak, endpoint = start_system(system, programs, tools, bin_dir, models)
                        one = measure(prefix, tools, speak, endpoint, size, 1, few, system == "plain")
                        wide = measure_wide(programs, many, prefix, tools, speak, endpoint, size, 64, many, system == "plain")
                    figures.setdefault((place, system, "p50"), []).append(one["p50_us"])
                    figures.setdefault((place, system, "rate"), []).append(wide["jobs_per_s"])
                    figures.setdefault((place, system, "cpu"), []).append(wide["cpu_us"])
    print(f"{size} bytes in and out, median of {repeats} interleaved repeats, {os.cpu_count()} CPUs{', CURVE' if curve else ''}")
    if "null" not in systems:
        print(f"null is left out: its model takes rows of {NULL_ROW} bytes")
    print(f"{'system':8} {'place':7} {'p50 us, window 1':>17} {'minus proxy':>12} {'jobs/s, window 64':>18} {'of proxy':>9} {'cpu us per job':>15} {'proxy takes':>12}")
    for place in ["pinned", "free"]:
        for system in systems:
            p50 = statistics.median(figures[place, system, "p50"])
            rate = statistics.median(figures[place, system, "rate"])
            base_p50 = statistics.median(figures[place, "proxy", "p50"])
            base_rate = statistics.median(figures[place, "proxy", "rate"])
            cpu, base_cpu = (statistics.median(figures[place, name, "cpu"]) for name in (system, "proxy"))
            print(f"{system:8} {place:7} {p50:17.0f} {p50 - base_p50:+12.0f} {rate:18.0f} {rate / base_rate:8.2f}x {cpu:15.2f} {base_cpu / cpu:11.2f}x")


if __name__ == "__main__":
    main()
