#!/usr/bin/env python3
"""What tenants have used, with real processes: two brokers, a folder of files, a kill, and the ledger of penstock torture.

    usage_test.py BIN_DIR SOURCE_DIR

The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SAMPLE = SOURCE / "deploy/models/digits/samples/00_zero.png"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = 0
running = []


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def start(log, program, *words, until):
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen([BIN / program, *map(str, words)], stdout=out, stderr=subprocess.STDOUT)
    running.append(process)
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end and process.poll() is None:
        found = re.search(until, log.read_text())
        if found:
            return process, found
        time.sleep(0.02)
    raise SystemExit(f"{program} did not start:\n{log.read_text()}")


class Pool:
    """A broker that keeps its usage in `files`, and a worker."""

    def __init__(self, work, name, files, models):
        self.broker, found = start(work / f"{name}.log", "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*",
                                   "--listen-workers", "tcp://127.0.0.1:*", "--http", "none", "--usage-dir", files,
                                   "--usage-every", "100ms", until=r"clients=(\S+) workers=(\S+)")
        self.clients = found[1]
        self.worker, _ = start(work / f"{name}-worker.log", "penstock-worker", "--broker", found[2], "--models", models,
                               "--backend", "reference", "--measure", "off", until=r"evt=(joined|welcome|serving)\S*")

    def end(self):
        for process in (self.worker, self.broker):
            process.terminate()
            process.wait(30 * SLOW)


def penstock(*words, code=0):
    ran = subprocess.run([BIN / "penstock", *map(str, words)], capture_output=True, text=True, timeout=120 * SLOW,
                         check=False)
    check(ran.returncode == code, f"penstock {words[0]} ends with {code}", ran.stdout + ran.stderr)
    return ran.stdout


def usage(*words):
    return json.loads(penstock("usage", "--json", *words))


def total(answer, name):
    return sum(row[name] for row in answer["rows"])


def submit(pool, tenant, count):
    for _ in range(count):
        penstock("submit", "digits", SAMPLE, "--broker", pool.clients, "--tenant", tenant, "--timeout", "20s")


def two_brokers(work):
    files = work / "files"
    models = SOURCE / "deploy/models"
    one, two = (Pool(work, name, files, models) for name in ("one", "two"))
    submit(one, "red", 2)  # the second is answered by the cache
    submit(two, "red", 1)
    submit(two, "blue", 1)
    both = f"{one.clients},{two.clients}"
    live = usage("--broker", both)
    rows = {(row["tenant"], row["model"]): row for row in live["rows"]}
    check(set(rows) == {("red", "digits"), ("blue", "digits")}, "a row per tenant and model", live)
    red = rows[("red", "digits")]
    check(red["jobs"] == red["ok"] == 3 and red["cached"] == 1 and red["computed"] == 2, "jobs of two brokers add up", red)
    check(red["device_us"] > 0 and red["bytes_in"] > 0 and red["bytes_out"] > 0, "time and bytes are counted", red)
    table = penstock("usage", "--broker", both)
    check("red" in table and "33.3%" in table and re.search(r"total\s.*\s4 ", table), "people get a table with a sum", table)
    by = usage("--broker", both, "--by", "hour")
    check(len(by["rows"]) <= 2 and total(by, "jobs") == 4 and "tenant" not in by["rows"][0], "--by says what is told apart", by)
    check(usage("--broker", both, "--since", "1h", "--until", "30h")["rows"] == [], "--until leaves out what is younger")
    penstock("usage", "--broker", both, "--by", "colour", code=2)
    one.end()
    two.end()
    kept = usage("--dir", files, "--since", "0")
    check(kept["rows"] == live["rows"], "the files say the same", f"{kept}\n{live}")
    check(kept["files"] >= 2 and kept["broken_lines"] == 0, "a file per broker", kept)
    (files / "usage-2026-01-01T00Z-0000000000000001.jsonl").write_text('{"half a li')
    broken = usage("--dir", files, "--since", "0")
    check(broken["rows"] == kept["rows"] and broken["broken_lines"] == 1, "half a line is left out and told", broken)
    penstock("usage", "--dir", files / "none", code=1)


def killed(work):
    files = work / "killed"
    pool = Pool(work, "killed", files, SOURCE / "deploy/models")
    submit(pool, "red", 1)
    end = time.monotonic() + 20 * SLOW
    while time.monotonic() < end and not any("red" in path.read_text() for path in files.glob("usage-*.jsonl")):
        time.sleep(0.05)
    pool.broker.send_signal(signal.SIGKILL)
    pool.broker.wait(10)
    kept = usage("--dir", files)
    check(total(kept, "ok") == 1, "a broker that is killed has kept what is older than --usage-every", kept)
    pool.worker.send_signal(signal.SIGKILL)
    pool.worker.wait(10)


def ledger(work):
    files, models = work / "torture", work / "torture-models"
    models.mkdir()
    penstock("torture", "--write-model", models)
    pool = Pool(work, "torture", files, models / "models")
    verdict = json.loads(penstock("torture", "--broker", pool.clients, "--duration", "3s", "--interval", "300ms",
                                  "--seed", "9", "--json"))
    live = usage("--broker", pool.clients)
    check(verdict["accepted"] > 0 and verdict["faults_by_kind"]["client_cut"] > 0, "torture cut its clients off", verdict)
    check(total(live, "jobs") == verdict["accepted"], "each job that torture's ledger has was counted once",
          f"{live}\n{verdict}")
    pool.end()
    kept = usage("--dir", files)
    check(kept["total"] == live["total"], "and so say the files", f"{kept}\n{live}")


def main():
    with tempfile.TemporaryDirectory(prefix="penstock-usage-") as folder:
        try:
            for test in (two_brokers, killed, ledger):
                test(Path(folder))
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
