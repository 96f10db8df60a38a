#!/usr/bin/env python3
"""TFLite files with variables and entry points in a pool: a variable lives from job to job of a sequence, each entry point is a model of its own.

    variables_test.py BIN_DIR SOURCE_DIR

The models are fixtures of tests/conformance/exporters. The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = 0


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def model(models, name, case, config):
    """A model folder from a fixture."""
    folder = models / name / "1"
    folder.mkdir(parents=True)
    with tarfile.open(SOURCE / "tests/conformance/exporters/keras_tflite.tar.xz") as archive:
        (folder / "model.tflite").write_bytes(archive.extractfile(f"keras_tflite/state/{case}/model.tflite").read())
    (models / name / "config.json").write_text(json.dumps(config))


def start(log, program, *options):
    return subprocess.Popen([BIN / program, *map(str, options)], stdout=log.open("w"), stderr=subprocess.STDOUT)


def wait_for(log, pattern):
    end = time.monotonic() + 20 * SLOW
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text())
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"{pattern} does not appear in:\n{log.read_text()}")


def submit(broker, *words):
    done = subprocess.run([BIN / "penstock", "submit", "--broker", broker, "--json", *map(str, words)], capture_output=True, text=True, timeout=60 * SLOW)
    try:
        return done, [job["outputs"] for job in json.loads(done.stdout)["jobs"]]
    except (ValueError, KeyError):
        return done, []


def floats(folder, name, *values):
    path = folder / name
    path.write_bytes(struct.pack(f"<{len(values)}f", *values))
    return path


def pool(folder):
    models = folder / "models"
    state = {"input_name": "Variable", "output_name": "Variable.next"}
    model(models, "counter", "counter", {"signature": "+variables", "sequence_batching": {"state": [state]}})
    for entry in ("encode", "decode"):
        model(models, entry, "codec.encode", {"signature": entry})
    broker_log, log = folder / "broker.log", folder / "worker.log"
    programs = [start(broker_log, "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http", "none")]
    try:
        found = wait_for(broker_log, r"evt=listening.*clients=(\S+) workers=(\S+)")
        programs.append(start(log, "penstock-worker", "--broker", found.group(2), "--models", models, "--backend", "reference", "--slots", "1", "--threads", "1"))
        wait_for(log, r"evt=welcome")
        asked(found.group(1), folder, log)
    finally:
        for p in programs:
            p.terminate()
        for p in programs:
            p.wait(20)


def asked(broker, folder, log):
    jobs = [floats(folder, f"x{i}.bin", i + 1.0, 0.5, -1.0) for i in range(3)]
    done, answers = submit(broker, "--sequence", 7, "counter", *jobs)
    sums = [outputs[0]["values"] for outputs in answers]
    detail = done.stdout + done.stderr + log.read_text()
    check(sums == [[1, 0.5, -1], [3, 1, -2], [6, 1.5, -3]], "a variable lives from job to job of a sequence", detail)
    check(all(len(outputs) == 1 for outputs in answers), "and does not travel", detail)
    done, answers = submit(broker, "--sequence", 8, "counter", jobs[0])
    check(answers and answers[0][0]["values"] == [1, 0.5, -1], "another sequence has its own", done.stdout + done.stderr)
    done, answers = submit(broker, "encode", floats(folder, "x.bin", *[1.0] + 7 * [0.0]))
    code = answers[0][0] if answers else {}
    check(code.get("name") == "code" and code.get("dims") == [2, 3], "an entry point is a model", done.stdout + done.stderr)
    done, answers = submit(broker, "decode", floats(folder, "z.bin", *6 * [0.0]))
    check(answers and answers[0][0]["name"] == "y" and answers[0][0]["dims"] == [2, 4], "and another one of the same file, too", done.stdout + done.stderr)


with tempfile.TemporaryDirectory() as place:
    pool(Path(place))
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)
