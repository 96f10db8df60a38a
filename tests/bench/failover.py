#!/usr/bin/env python3
"""How soon the work of a lost worker is given to others: killed (SIGKILL) and frozen (SIGSTOP) workers under load.

    failover.py BUILD_DIR [--kills 100] [--stops 10]

The time from the signal to the broker's line evt=worker_lost, which it writes in the turn that queues the worker's jobs again in front of all
others. The log counts milliseconds. Standard library only.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone


def start(command, log):
    return subprocess.Popen(command, stdout=log, stderr=log)


def wait_line(path, pattern, since, timeout_s):
    """The first line from byte `since` on that matches; (match, its time in s)."""
    until = time.time() + timeout_s
    while time.time() < until:
        with open(path, errors="replace") as file:
            file.seek(since)
            for line in file:
                if re.search(pattern, line) and line.endswith("\n"):
                    stamp = re.search(r"ts=(\S+)Z", line)
                    at = datetime.fromisoformat(stamp.group(1)).replace(tzinfo=timezone.utc).timestamp() if stamp else time.time()
                    return line, at
        time.sleep(0.002)
    sys.exit(f"no line {pattern} in {path}")


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


class Pool:
    def __init__(self, build, folder):
        self.bin, self.folder, self.count = f"{build}/bin", folder, 0
        subprocess.run([f"{self.bin}/penstock", "torture", "--write-model", folder], check=True)
        self.log = f"{folder}/broker.log"
        self.broker = start([f"{self.bin}/penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*",
                             "--http", "none"], open(self.log, "w"))
        line, _ = wait_line(self.log, "evt=listening .*workers=", 0, 10)
        self.clients, self.endpoint = (re.search(rf"{name}=(tcp://\S+)", line).group(1) for name in ("clients", "workers"))

    def worker(self):
        self.count += 1
        path = f"{self.folder}/worker{self.count}.log"
        process = start([f"{self.bin}/penstock-worker", "--broker", self.endpoint, "--models", f"{self.folder}/models", "--slots", "1", "--threads",
                         "1", "--name", f"w{self.count}"], open(path, "w"))
        wait_line(path, "evt=welcome", 0, 20)
        process.name = f"w{self.count}"
        return process

    def lose(self, process, how):
        since, at = os.path.getsize(self.log), time.time()
        process.send_signal(how)
        line, seen = wait_line(self.log, rf"evt=worker_lost worker={process.name} ", since, 10)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return (seen - at) * 1000, re.search(r"reason=(\w+)", line).group(1)


def main():
    arguments, values = sys.argv[1:], {"--kills": 100, "--stops": 10}
    for name in values:
        if name in arguments:
            at = arguments.index(name)
            values[name] = int(arguments[at + 1])
            del arguments[at:at + 2]
    if len(arguments) != 1:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        pool = Pool(arguments[0], folder)
        steady, figures = pool.worker(), {}
        load = start([f"{pool.bin}/penstock", "load", "--broker", pool.clients, "--model", "twice", "--no-cache", "--concurrency", "32",
                      "--duration", "1h", "--json"], subprocess.DEVNULL)
        for how, count in [(signal.SIGKILL, values["--kills"]), (signal.SIGSTOP, values["--stops"])]:
            for _ in range(count):
                figures.setdefault(how.name, []).append(pool.lose(pool.worker(), how))
        for process in (load, steady, pool.broker):
            process.terminate()
            process.wait()
        for how, seen in figures.items():
            times = [t for t, _ in seen]
            reasons = {r: sum(1 for _, x in seen if x == r) for _, r in seen}
            print(f"{how:8} n {len(times):4}  p50 {quantile(times, 0.5):8.1f} ms  p99 {quantile(times, 0.99):8.1f} ms  max {max(times):8.1f} ms  {reasons}")


if __name__ == "__main__":
    main()
