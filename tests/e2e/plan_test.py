#!/usr/bin/env python3
"""`penstock plan` and the recordings of `penstock load`, on a real pool: measured, planned, applied, proved; recorded and replayed.

    plan_test.py BIN_DIR SOURCE_DIR

The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
EASY = ["--slo", "p99=20s", "--rate", "20", "--point", "20ms"]  # any machine holds this
passed = failed = 0


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def started(command, wait_for, log):
    process = subprocess.Popen([str(word) for word in command], stdout=open(log, "w"), stderr=subprocess.STDOUT)
    limit = time.monotonic() + 60 * SLOW
    while wait_for not in log.read_text():
        if process.poll() is not None or time.monotonic() > limit:
            sys.exit(f"{command[0]} did not say {wait_for}:\n{log.read_text()}")
        time.sleep(0.02)
    return process


class Pool:
    def __init__(self, folder):
        self.models, self.temporary = folder / "models", folder / "tmp"
        self.temporary.mkdir()
        shutil.copytree(SOURCE / "deploy/models/digits", self.models / "digits", ignore=shutil.ignore_patterns("samples", "*.py", "*.npz", ".penstock-measured"))
        self.broker = started([BIN / "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http", "none"],
                              "evt=listening", folder / "broker.log")
        ends = dict(re.findall(r"\b(clients|workers)=(\S+)", (folder / "broker.log").read_text()))
        self.clients = ends["clients"]
        self.worker = started([BIN / "penstock-worker", "--broker", ends["workers"], "--models", self.models, "--slots", "1", "--threads", "1", "--measure", "off"],
                              "evt=welcome", folder / "worker.log")

    def command(self, *words):
        return [str(w) for w in [BIN / "penstock", *words, "--broker", self.clients]]

    def run(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=120 * SLOW, env=os.environ | {"TMPDIR": str(self.temporary)})

    def stop(self):
        for process in (self.worker, self.broker):
            process.terminate()
            process.wait(30)


def recordings(pool, folder):
    record = subprocess.Popen(pool.command("load", "--record", folder / "day", "--duration", "60s", "--json"), stdout=subprocess.PIPE, text=True)
    while not (folder / "day").exists() and record.poll() is None:
        time.sleep(0.02)
    sent = json.loads(pool.run("load", "digits", "--rate", "200", "--arrivals", "poisson", "--duration", "500ms", "--priority", "3", "--json").stdout)
    time.sleep(0.5)
    record.terminate()
    told = json.loads(record.communicate(timeout=30)[0])
    lines = [json.loads(line) for line in (folder / "day").read_text().splitlines()]
    check(told["arrivals"] == sent["requests"] == len(lines) - 1 and told["missed"] == 0, "every job is recorded once, from the cache or not", f"{told} {sent}")
    check(all(a["model"] == "digits" and a["rows"] == 1 and a["bytes"] == 64 and a["priority"] == 3 for a in lines[1:]), "with model, rows, bytes and priority", lines[1])
    span = lines[-1]["at_us"] - lines[1]["at_us"]
    check(100_000 < span < 2_000_000 * SLOW, "and its time", span)
    again = pool.run("load", "--replay", folder / "day", "--speed", "2", "--no-cache", "--json")
    replayed = json.loads(again.stdout)
    check(again.returncode == 0 and replayed["arrivals"] == told["arrivals"] == replayed["requests"], "a replay sends as many", again.stdout + again.stderr)
    other = pool.run("load", "nobody", "--replay", folder / "day")
    check(other.returncode == 1 and "no arrival of a model" in other.stderr, "of a model that is not in it nothing", other.stderr)


def plans(pool, folder):
    curves, svg = folder / "curves.json", folder / "plan.svg"
    done = pool.run("plan", "digits", *EASY, "--save", curves, "--svg", svg, "--json")
    told = json.loads(done.stdout)
    check(done.returncode == 0 and told["settings"] and told["refusal"] == "", "a pool is measured and planned", done.stdout + done.stderr)
    sizes = [size["rows"] for size in told["curves"][0]["sizes"]]
    check(sizes == [1, 2, 4, 8, 16], "every batch size of the pool is measured", sizes)
    check("</svg>" in svg.read_text(), "and drawn")
    read = subprocess.run([BIN / "penstock", "plan", *EASY, "--curves", curves, "--json", "--broker", "tcp://127.0.0.1:9"], capture_output=True, text=True)
    same = read.stdout and [(s["workers"], s["batch"], s["delay_us"]) for s in json.loads(read.stdout)["settings"]]
    check(same == [(s["workers"], s["batch"], s["delay_us"]) for s in told["settings"]], "saved curves give the same plan without a pool", f"{same} {read.stderr}")
    never = pool.run("plan", "--curves", curves, "--slo", "p99=1us", "--rate", "5")
    check(never.returncode == 1 and re.search(r"no number of workers holds p99 below .* one job alone takes", never.stdout), "what cannot be held is refused",
          never.stdout)
    text = pool.run("plan", "--curves", curves, *EASY)
    check("workers slots threads" in text.stdout and "limit 20000 ms" in text.stdout, "people get a table and a chart", text.stdout)


def applied(pool):
    config = pool.models / "digits/config.json"
    before = json.loads(config.read_text())
    done = pool.run("plan", "digits", *EASY, "--batch-max", "8", "--models", pool.models, "--apply", "--prove", "--prove-duration", "300ms", "--json")
    told, after = json.loads(done.stdout), json.loads(config.read_text())
    best, proof = told["settings"][0], told.get("proof", {})
    check(done.returncode == 0 and told["applied"] == str(config), "the plan is applied", done.stdout[-500:] + done.stderr)
    check((after["max_batch_size"], after["dynamic_batching"]["max_queue_delay_microseconds"]) == (best["batch"], best["delay_us"]), "config.json says what the plan says", after)
    kept = ("platform", "input", "output", "response_cache")
    check(all(after[key] == before[key] for key in kept), "and keeps the rest")
    check(proof.get("held") and proof["errors"] == 0 and proof["workers"] == 1, "a run proves it", proof)
    models = json.loads(pool.run("models", "--json").stdout)["models"][0]
    check(models["offers"][0]["max_batch_size"] == best["batch"], "the pool serves it", models)


def own(pool):
    done = pool.run("plan", "digits", *EASY, "--batch-max", "4", "--models", pool.models, "--try-slots", "1", "--prove", "--prove-duration", "300ms", "--json")
    told = json.loads(done.stdout)
    check(done.returncode == 0 and told["curves"][0]["own"] and told["proof"]["held"], "workers of plan's own are measured, and prove it", done.stdout[-500:] + done.stderr)
    check(not list(pool.temporary.iterdir()), "they leave nothing behind", list(pool.temporary.iterdir()))


def refusals(pool):
    for words, code, part in ((["digits", "--slo", "20ms", "--rate", "5"], 2, "p99=20ms"), (["digits", "--slo", "p99=20ms"], 2, "--rate"),
                              (["digits", *EASY, "--apply"], 2, "--models DIR"), (["digit", *EASY], 1, 'did you mean "digits"'),
                              (["--slo", "p99=1s", "--rate", "5"], 2, "name a model"), (["digits", *EASY, "--margin", "1"], 2, "--margin"),
                              (["digits", *EASY, "--try-slots", "0", "--models", "x"], 2, "--try-slots")):
        done = pool.run("plan", *words)
        check(done.returncode == code and part in done.stderr, f"plan {' '.join(words)} is refused", f"{done.returncode} {done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as name:
        pool = Pool(Path(name))
        try:
            recordings(pool, Path(name))
            plans(pool, Path(name))
            own(pool)
            applied(pool)
            refusals(pool)
        finally:
            pool.stop()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
