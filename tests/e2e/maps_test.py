#!/usr/bin/env python3
"""Maps from the command line to a model and back: models of skl2onnx with onnxruntime's answers, through a broker and a worker.

    maps_test.py BIN_DIR SOURCE_DIR

The last line is `N passed, N failed, N skipped`.
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
    while time.monotonic() < end and process.poll() is None and not re.search(until, log.read_text()):
        time.sleep(0.02)
    return re.search(until, log.read_text())


def fields(message):
    """[(number, value)] of a protobuf message."""
    at, out = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            out.append((key >> 3, varint()))
        else:
            size = varint() if key & 7 == 2 else 4
            out.append((key >> 3, message[at:at + size]))
            at += size
    return out


def tensor(path):
    """(dims, values) of a TensorProto of texts, floats or int64."""
    parts = fields(path.read_bytes())
    kind, raw = dict(parts)[2], dict(parts).get(9, b"")
    texts = [v.decode() for n, v in parts if n == 6]
    dims = [v for n, v in parts if n == 1]
    return dims, texts if kind == 8 else list(struct.unpack(f"<{len(raw) // (4 if kind == 1 else 8)}{'f' if kind == 1 else 'q'}", raw))


def rows(path):
    dims, values = tensor(path)
    width = len(values) // dims[0]
    return [values[i * width:(i + 1) * width] for i in range(dims[0])]


def submit(broker, model, *words):
    done = subprocess.run([BIN / "penstock", "submit", model, "--broker", broker, "--json", *words], capture_output=True, text=True, timeout=60 * SLOW)
    try:
        return json.loads(done.stdout)["jobs"][0]
    except (ValueError, KeyError, IndexError):
        return {"status": "", "error": done.stdout + done.stderr}


def asked(broker, case, name, work):
    """Each map of the case is a job: its answers must be the case's rows."""
    sets, wrong = case / "test_data_set_0", []
    files = sorted(sets.glob("output_*.pb"))
    wanted = [rows(f) for f in files]
    for i, (keys, values) in enumerate(zip(rows(sets / "input_0.pb"), rows(sets / "input_1.pb"))):
        text = json.dumps({str(k): v for k, v in zip(keys, values)}, ensure_ascii=i % 2 == 0)
        if i == 0:  # once from a file
            (work / "map.json").write_text(text)
            text = str(work / "map.json")
        job = submit(broker, case.name, "--input", f"{name}={text}")
        got = [o["values"] for o in job.get("outputs", [])]
        same = job["status"] == "OK" and len(got) == len(files) and all(
            len(g) == len(w[i]) and all(a == b if isinstance(b, str) else abs(a - b) <= 1e-5 for a, b in zip(g, w[i])) for g, w in zip(got, wanted))
        if not same:
            wrong.append((text, job))
    check(not wrong, f"{case.parent.name}/{case.name}: maps give the exporter's answers", wrong)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        with tarfile.open(SOURCE / "tests/conformance/exporters/maps.tar.xz") as tar:
            tar.extractall(work / "cases", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        cases = sorted((work / "cases/maps").glob("*/*"))
        for case in cases:
            version = work / "models" / case.name / "1"
            version.mkdir(parents=True)
            (case / "model.onnx").rename(version / "model.onnx")
        found = start(work / "broker.log", "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http", "none",
                      until=r"evt=listening clients=(\S+) workers=(\S+)")
        broker, workers = found.group(1), found.group(2)
        ready = start(work / "worker.log", "penstock-worker", "--broker", workers, "--models", work / "models", until="evt=welcome")
        check(ready, "the worker serves models of maps", (work / "worker.log").read_text())
        for case in cases:
            asked(broker, case, "features" if case.parent.name == "skl2onnx" else "x", work)
        job = submit(broker, "dict_text_f32", "--input", 'x={"height": "tall"}')
        check(job["status"] == "DTYPE" and "tall" in job["error"], "a text in a map of numbers is refused with a sentence", job)
        job = submit(broker, "cast_sparse_to_float", "--input", 'x={"-4": 1}')
        check(job["status"] not in ("OK", ""), "a column below 0 is refused by the model", job)


try:
    main()
finally:
    for process in reversed(running):
        process.terminate()
        process.wait(30 * SLOW)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed or passed == 0 else 0)
