#!/usr/bin/env python3
"""A pool that goes down to no worker and comes up again, with real processes. A scaler of this test's own does what an
autoscaler would: it reads penstock_desired_workers and penstock_workers, starts a worker while one is wanted, and ends
all of them when nothing was wanted for a while. KEDA itself is not run.

    scaler_test.py BIN_DIR SOURCE_DIR

The last line is `N passed, N failed, N skipped`.
"""
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SAMPLE = SOURCE / "deploy/models/digits/samples/00_zero.png"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
ROUNDS = 3
COOLDOWN_S = 0.8
passed = failed = 0


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def start(log, program, *words):
    with open(log, "w", encoding="utf-8") as out:
        return subprocess.Popen([BIN / program, *map(str, words)], stdout=out, stderr=subprocess.STDOUT)


def until(log, process, pattern):
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end and process.poll() is None:
        found = re.search(pattern, log.read_text())
        if found:
            return found
        time.sleep(0.02)
    raise SystemExit(f"it never said {pattern}:\n{log.read_text()}")


def end(process):
    if process.poll() is None:
        process.terminate()
    return process.wait(30 * SLOW)


class Scaler(threading.Thread):
    """Zero to one worker, by the broker's own figure."""

    def __init__(self, work, http, workers):
        super().__init__(daemon=True)
        self.work, self.http, self.address = work, http, workers
        self.worker, self.starts, self.ends, self.codes = None, 0, 0, []
        self.quiet_since, self.stopped = time.monotonic(), False

    def figure(self, name):
        text = urllib.request.urlopen(f"http://{self.http}/metrics", timeout=10).read().decode()
        return sum(float(v) for v in re.findall(rf"^penstock_{name}(?:{{[^}}]*}})? (\S+)$", text, re.M))

    def up(self):
        self.starts += 1
        self.worker = start(self.work / f"worker{self.starts}.log", "penstock-worker", "--broker", self.address, "--models",
                            SOURCE / "deploy/models", "--backend", "reference", "--measure", "off")

    def step(self):
        wanted = self.figure("desired_workers")
        now = time.monotonic()
        if wanted > 0 or self.figure("running_jobs") > 0:
            self.quiet_since = now
        if wanted > 0 and self.worker is None:
            self.up()
        elif self.worker and now - self.quiet_since > COOLDOWN_S * SLOW:
            self.codes.append(end(self.worker))
            self.worker, self.ends = None, self.ends + 1

    def run(self):
        while not self.stopped:
            self.step()
            time.sleep(0.1)
        if self.worker:
            self.codes.append(end(self.worker))


def submit(clients, results):
    ran = subprocess.run([BIN / "penstock", "submit", "digits", str(SAMPLE), "--broker", clients, "--no-cache"],
                         capture_output=True, text=True, timeout=100 * SLOW, check=False)
    results.append((ran.returncode, ran.stdout + ran.stderr))


def ready(http):
    try:
        return urllib.request.urlopen(f"http://{http}/v2/health/ready", timeout=10).status == 200
    except urllib.error.HTTPError:
        return False


def round_of(scaler, clients, number):
    """All workers are gone; three people come at once."""
    deadline = time.monotonic() + 30 * SLOW
    while (scaler.worker or scaler.figure("workers") > 0) and time.monotonic() < deadline:
        time.sleep(0.05)
    check(scaler.worker is None and scaler.figure("workers") == 0, f"round {number}: the pool has gone down to nothing")
    check(ready(scaler.http), f"round {number}: and the broker is ready all the same")
    results = []
    people = [threading.Thread(target=submit, args=(clients, results)) for _ in range(3)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    check([code for code, _ in results] == [0, 0, 0], f"round {number}: each job was held and answered", results)


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        log = work / "broker.log"
        broker = start(log, "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*",
                       "--http", "127.0.0.1:*", "--wake-wait", "2min", "--restart-wait", "0")
        try:
            clients, workers = until(log, broker, r"clients=(\S+) workers=(\S+)").groups()
            http = until(log, broker, r"http=(\S+)")[1]
            scaler = Scaler(work, http, workers)
            scaler.up()  # as a new pool begins: the broker learns what there is
            until(work / "worker1.log", scaler.worker, r"evt=welcome")
            scaler.start()
            for number in range(ROUNDS):
                round_of(scaler, clients, number)
            scaler.stopped = True
            scaler.join(60 * SLOW)
            check(scaler.starts == 1 + ROUNDS, f"a worker was started for each round: {scaler.starts}")
            check(scaler.codes and set(scaler.codes) == {0}, f"and drained well: {scaler.codes}")
            check(scaler.figure("jobs_held_total") >= 2 * ROUNDS, "the broker says that it held them")
        finally:
            end(broker)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
