#!/usr/bin/env python3
"""Two versions of a model in a real pool: `penstock compare`, shadow traffic, and a label that goes back by itself.

    compare_test.py BIN_DIR SOURCE_DIR

Version 2 answers with the classes in another order. The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
PICTURES = sorted((SOURCE / "deploy/models/digits/samples").glob("*.png"))
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = 0


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def start(log, program, *words, until):
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen([BIN / program, *map(str, words)], stdout=out, stderr=subprocess.STDOUT)
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end and process.poll() is None:
        found = re.search(until, log.read_text())
        if found:
            return process, found
        time.sleep(0.02)
    raise SystemExit(f"{program} did not start:\n{log.read_text()}")


def models(work):
    """digits in two versions: the second has another preprocessing, so its answers differ."""
    folder = work / "models/digits"
    source = SOURCE / "deploy/models/digits"
    for version in ("1", "2"):
        shutil.copytree(source / "1", folder / version)
    config = json.loads((source / "config.json").read_text())
    (folder / "1/config.json").write_text(json.dumps(config))
    config["input"]["preprocess"]["mean"] = [200.0]
    (folder / "2/config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"version_policy": {"all": {}}}))
    return folder.parent


def main():
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        broker, found = start(work / "broker.log", "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers",
                              "tcp://127.0.0.1:*", "--http", "127.0.0.1:*", until=r"clients=(\S+) workers=(\S+).*http=(\S+)")
        clients, workers, http = found.groups()
        worker, _ = start(work / "worker.log", "penstock-worker", "--broker", workers, "--models", models(work), "--backend", "reference",
                          "--measure", "off", until=r"evt=welcome")
        try:
            run(work, clients, http)
        finally:
            for process in (worker, broker):
                process.terminate()
                process.wait(30 * SLOW)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def penstock(clients, *words, code=0):
    ran = subprocess.run([BIN / "penstock", *map(str, words), "--broker", clients], capture_output=True, text=True, timeout=60 * SLOW, check=False)
    check(ran.returncode == code, f"penstock {' '.join(map(str, words[:3]))} ends with {code}", f"{ran.returncode} {ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def compare(work, clients):
    folder = work / "pictures"
    folder.mkdir()
    for picture in PICTURES:
        shutil.copy(picture, folder)
    same = json.loads(penstock(clients, "compare", "digits:1", "digits:1", folder, "--json", "--each"))
    count = len(same["files"])
    check(count >= 5 and same["pairs"] == count and same["first"]["failed"] == same["second"]["failed"] == 0, "each file of the folder goes through both", same)
    check(same["largest_error"] == 0 and same["top1_agreement"] == 1, "a version agrees with itself", same)
    check(same["first"]["p50_us"] > 0 and same["second"]["p99_us"] >= same["second"]["p50_us"], "and both have times", same)
    other = json.loads(penstock(clients, "compare", "digits:1", "digits:2", folder, "--json"))
    check(other["largest_error"] > 0.01 and 0 < other["mean_error"] <= other["largest_error"], "two versions that differ have an error", other)
    check(other["rows"] == count and "files" not in other, "a row per picture", other)
    text = penstock(clients, "compare", "digits:1", "digits:2", folder)
    check(re.search(r"\d+ pairs: largest error [\d.e-]+, mean [\d.e-]+; first class the same in \d+ of \d+ rows", text), "people read a sentence", text)
    drawn = json.loads(penstock(clients, "compare", "digits:1", "digits:2", "--count", 7, "--json"))
    check(drawn["pairs"] == 7, "without files drawn inputs do", drawn)
    penstock(clients, "compare", "digits:1", "digits:9", folder, code=1)
    penstock(clients, "compare", "digits", "digits:2", folder, code=2)
    return other


def metric(http, name):
    text = urllib.request.urlopen(f"http://{http}/metrics", timeout=10).read().decode()
    return sum(float(v) for v in re.findall(rf"^penstock_{name}(?:{{[^}}]*}})? (\S+)$", text, re.M))


def run(work, clients, http):
    other = compare(work, clients)
    penstock(clients, "model", "label", "digits", "stable", 1)
    penstock(clients, "model", "label", "digits", "canary", 2)
    penstock(clients, "model", "shadow", "digits", code=1)
    told = penstock(clients, "model", "shadow", "digits", 2, "--share", "100%", "--label", "canary", "--back", 1, "--max-disagreement", "1%", "--after", 5)
    check("copied" in told, "the figures have names", told)
    for _ in range(4):
        for file in PICTURES:
            penstock(clients, "submit", "digits", file, "--no-cache")
    end = time.monotonic() + 20 * SLOW
    while metric(http, 'shadow_jobs_total') < 4 * len(PICTURES) and time.monotonic() < end:
        time.sleep(0.1)
    figures = json.loads(penstock(clients, "model", "shadow", "digits", "--json"))
    check(figures["compared"] >= 5 and figures["failed"] == 0, "jobs were copied and compared", figures)
    check(figures["largest_error"] > 0.01, "and the difference was seen", figures)
    state = json.loads(urllib.request.urlopen(f"http://{http}/api/state.json", timeout=10).read())
    check(state["shadows"][0]["model"] == "digits" and state["shadows"][0]["compared"] >= 5, "the dashboard's data have them", state.get("shadows"))
    if other["top1_agreement"] < 0.99:
        while metric(http, "labels_went_back_total") < 1 and time.monotonic() < end:
            time.sleep(0.1)
        check("evt=label_went_back model=digits label=canary from=2 to=1" in (work / "broker.log").read_text(), "the label went back by itself",
              (work / "broker.log").read_text())
        check(metric(http, "labels_went_back_total") == 1, "and the metrics say so")
    penstock(clients, "model", "shadow", "digits", "none")
    penstock(clients, "model", "shadow", "digits", code=1)


if __name__ == "__main__":
    sys.exit(main())
