#!/usr/bin/env python3
"""Precision as a contract, with real processes: what workers measure, keep and offer; who gets a job that states a bound; what its answer says.

    contracts_test.py BIN_DIR SOURCE_DIR

The worker of f16 needs a Vulkan device (Mesa's lavapipe will do). The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/gateway"))
import models as gateway_models  # noqa: E402
sys.path.insert(0, str(SOURCE / "tests/support"))
from ports import free_port  # noqa: E402
SAMPLE = SOURCE / "deploy/models/digits/samples/00_zero.png"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = skipped = 0
running = []


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def start(log, program, *words, until):
    """Starts a program and waits until its log has `until`, or the program has ended. Gives it and what was found."""
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen([BIN / program, *map(str, words)], stdout=out, stderr=subprocess.STDOUT)
    running.append(process)
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end:
        ended = process.poll() is not None
        found = re.search(until, log.read_text())
        if found or ended:
            return process, found
        time.sleep(0.02)
    return process, None


def stop(process):
    process.terminate()
    return process.wait(30 * SLOW)


def folder(work, name, **settings):
    """The digits model, for any device, with more settings."""
    home = work / name / "digits"
    (home / "1").mkdir(parents=True)  # the model alone: another test's worker may have left a result beside it
    shutil.copy(SOURCE / "deploy/models/digits/1/model.onnx", home / "1")
    config = json.loads((SOURCE / "deploy/models/digits/config.json").read_text())
    config["instance_group"] = [{"kind": "KIND_AUTO"}]
    (home / "config.json").write_text(json.dumps({**config, **settings}))
    for file in (SOURCE / "deploy/models/digits").glob("*.txt"):
        shutil.copy(file, home)
    return home.parent


def npy(path, values, dims):
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {tuple(dims)}, }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(values))


def counts(address):
    page = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
    return tuple(int(re.search(rf"^penstock_worker_{name} (\d+)", page, re.M).group(1)) for name in ("measurements_total", "measurements_recalled_total"))


def submit(broker, *words):
    done = subprocess.run([BIN / "penstock", "submit", "--broker", broker, "digits", SAMPLE, "--json", *words], capture_output=True, text=True, timeout=60 * SLOW)
    try:
        return json.loads(done.stdout)["jobs"][0]
    except (ValueError, KeyError, IndexError):
        return {"status": "", "error": done.stdout + done.stderr}


def offers(broker):
    done = subprocess.run([BIN / "penstock", "models", "--broker", broker, "--json"], capture_output=True, text=True, timeout=60 * SLOW)
    return {offer["worker"]: offer for model in json.loads(done.stdout)["models"] for offer in model["offers"]}


def kept(work, broker, workers):
    """A second start measures nothing; a broken file and another calibration are measured."""
    models, address = folder(work, "kept"), f"127.0.0.1:{free_port()}"
    words = ("--broker", workers, "--models", models, "--backend", "xnnpack", "--measure", "first", "--metrics", address)
    log = work / "kept.log"
    worker, ready = start(log, "penstock-worker", *words, until="evt=welcome")
    check(ready and counts(address) == (1, 0), "the first start measures", log.read_text())
    file = models / "digits/1/.penstock-measured"
    check(file.is_file(), "and keeps the result beside the model")
    stop(worker)
    worker, ready = start(log, "penstock-worker", *words, until="evt=welcome")
    check(ready and counts(address) == (0, 1), "the second one measures nothing", log.read_text())
    stop(worker)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    worker, ready = start(log, "penstock-worker", *words, until="evt=welcome")
    check(ready and counts(address) == (1, 0), "a broken file is not believed", log.read_text())
    stop(worker)
    npy(models / "digits/x.npy", range(64), (1, 8, 8, 1))
    config = json.loads((models / "digits/config.json").read_text())
    (models / "digits/config.json").write_text(json.dumps({**config, "calibration": {"sets": [{"image": "x.npy"}]}}))
    worker, ready = start(log, "penstock-worker", *words, "--name", "calibrated", until="evt=welcome")
    found = offers(broker).get("calibrated", {}).get("measured") or {}
    check(found.get("source") == "calibration" and found.get("inputs") == 1, "its own files take the place of drawn inputs", f"{found}\n{log.read_text()}")
    stop(worker)


def stated(work, workers):
    """What config.json states, the worker keeps or does not serve."""
    for name, text, good, part in (("wide", "max_relative_error=1e-3", True, ""), ("narrow", "max_relative_error=1e-12", False, "the largest error here is"),
                                   ("exact", "f32-exact", True, ""), ("wrong", "f33", False, "is no precision")):
        log, models = work / f"{name}.log", folder(work, name, precision=text)
        worker, found = start(log, "penstock-worker", "--broker", workers, "--models", models, "--backend", "xnnpack", until="evt=welcome")
        check(bool(found) == good and part in log.read_text(), f"config.json states {text}", log.read_text())
        stop(worker)


def beside(work, broker, workers):
    """Without --measure first a job with a bound waits until the measurement beside serving is done."""
    log = work / "beside.log"
    worker, _ = start(log, "penstock-worker", "--broker", workers, "--models", folder(work, "beside"), "--backend", "xnnpack", until="evt=welcome")
    check("model_measured" not in log.read_text(), "the hello does not wait for a measurement")
    job = submit(broker, "--precision", "max_relative_error=1e-3")
    check(job["status"] == "OK" and job["measured"]["max_relative_error"] <= 1e-3, "the job waits for it", job)
    stop(worker)
    worker, _ = start(log, "penstock-worker", "--broker", workers, "--models", folder(work, "off"), "--backend", "xnnpack", "--measure", "off", until="evt=welcome")
    job = submit(broker, "--precision", "max_relative_error=1e-3", "--no-cache")
    check(job["status"] == "UNSUPPORTED" and "none of them has been measured" in job["error"], "--measure off: nobody keeps a bound", job)
    check(not (work / "off/digits/1/.penstock-measured").exists(), "and nothing is written")
    stop(worker)


def routed(work, broker, workers):
    global skipped
    models, log, address = folder(work, "routed"), work / "half.log", f"127.0.0.1:{free_port()}"
    full, _ = start(work / "full.log", "penstock-worker", "--broker", workers, "--models", models, "--backend", "xnnpack", "--measure", "first", "--name", "full",
                    until="evt=welcome")
    words = ("--broker", workers, "--models", models, "--backend", "vulkan", "--vk-allow-software", "--precision", "f16_storage", "--measure", "first", "--name", "half",
             "--metrics", address)
    half, found = start(log, "penstock-worker", *words, until="evt=welcome")
    if not found:
        skipped += 1
        print(f"skipped: no Vulkan device: {log.read_text()}")
        stop(full)
        return
    told = offers(broker)
    error = told["half"]["measured"]["max_relative_error"]
    check(told["full"]["measured"]["max_relative_error"] < 1e-5 < error < 1e-1, "both offer what was measured", told)
    on_half = submit(broker, "--precision", f"max_relative_error={2 * error:g}", "--backend", "vulkan")
    check(on_half["status"] == "OK" and on_half["precision"] == "f16_storage" and on_half["measured"]["max_relative_error"] == error, "a bound lets f16 answer", on_half)
    check(re.fullmatch(r"[0-9a-f]{16}|none", on_half["build"]) and on_half["isa"] and on_half["library"] and on_half["device"], "the answer says what it rests on", on_half)
    for text in (f"max_relative_error={error / 2:g}", "f32-exact", "f32", "any"):
        job = submit(broker, "--precision", text, "--no-cache")
        check(job["status"] == "OK" and job["worker"] == "full", f"{text} goes to f32", job)
    stop(full)
    for text, part in ((f"max_relative_error={error / 2:g}", "the best is vulkan in f16_storage: largest relative error"), ("f32-exact", "no worker keeps f32-exact")):
        job = submit(broker, "--precision", text, "--no-cache")
        check(job["status"] == "UNSUPPORTED" and part in job["error"], f"{text} is refused where nobody keeps it", job)
    again = submit(broker, "--precision", f"max_relative_error={2 * error:g}", "--backend", "vulkan")
    check(again["cached"] and again["age_us"] > 0 and again["measured"]["max_relative_error"] == error, "the cache keeps the bound, and tells its age", again)
    check(counts(address) == (2, 0), "a trial of f16 and a measurement", log.read_text())
    stop(half)
    half, found = start(log, "penstock-worker", *words, until="evt=welcome")
    check(found and counts(address) == (0, 2), "a second start tries and measures nothing", log.read_text())
    stop(half)


def workers_of(broker, *words):
    done = subprocess.run([BIN / "penstock", "workers", "--broker", broker, *words], capture_output=True, text=True, timeout=60 * SLOW)
    return json.loads(done.stdout)["workers"] if "--json" in words else done.stdout


def ensemble(work, broker, workers):
    """digits, then the exponential of its scores: one worker has both and measures the whole; two workers have one each."""
    both = folder(work, "both")
    exponent = gateway_models.model([("x", "FP32", ["n", 10])], [("Exp", ["x"], ["y"])], [("y", "FP32", ["n", 10])])
    steps = [{"model_name": "digits", "input_map": {"image": "image"}, "output_map": {"probabilities": "between"}},
             {"model_name": "exponent", "input_map": {"x": "between"}, "output_map": {"y": "out"}}]
    config = {"max_batch_size": 16, "platform": "ensemble", "input": [{"name": "image", "data_type": "TYPE_UINT8", "dims": [8, 8, 1]}],
              "output": [{"name": "out", "data_type": "TYPE_FP32", "dims": [10]}], "ensemble_scheduling": {"step": steps}}
    gateway_models.save(both, "exponent", exponent, {"max_batch_size": 16})
    gateway_models.save(both, "pair", None, config)
    npy(work / "image.npy", range(0, 256, 4), (1, 8, 8, 1))

    def run(*words):
        done = subprocess.run([BIN / "penstock", "submit", "--broker", broker, "pair", work / "image.npy", "--json", "--no-cache", *words], capture_output=True, text=True,
                              timeout=60 * SLOW)
        try:
            return json.loads(done.stdout)["jobs"][0]
        except (ValueError, KeyError, IndexError):
            return {"status": "", "error": done.stdout + done.stderr}
    log, address = work / "both.log", f"127.0.0.1:{free_port()}"
    words = ("--broker", workers, "--models", both, "--backend", "xnnpack", "--name", "both", "--metrics", address)
    worker, _ = start(log, "penstock-worker", *words, until="evt=welcome")
    job = run("--precision", "max_relative_error=1e-3")
    measured = job.get("measured") or {}
    check(job["status"] == "OK" and measured["source"] == "seeded" and 0 < measured["max_relative_error"] < 1e-3 and measured["inputs"] > 1,
          "a job with a bound waits until the ensemble is measured as a whole", f"{job}\n{log.read_text()}")
    told = {e["model"]: e for e in workers_of(broker, "--json")[0]["errors"]}
    check(told.keys() == {"digits:1", "exponent:1", "pair:1"} and told["pair:1"]["measured"] == measured and told["digits:1"]["measured"]["source"] == "seeded",
          "`penstock workers --json` has the errors of all three", told)
    text = workers_of(broker)
    check(re.search(r"model digits:1 in f32: error at most \S+, \S+ on average \(\d seeded sets of inputs\)", text), "`penstock workers` tells them in words", text)
    stop(worker)
    worker, _ = start(log, "penstock-worker", *words, "--measure", "first", until="evt=welcome")
    check(counts(address) == (0, 3), "the second start finds the errors of both models and of the whole", log.read_text())
    stop(worker)
    (work / "one").mkdir()
    shutil.move(both / "exponent", work / "one")
    first, _ = start(work / "first.log", "penstock-worker", "--broker", workers, "--models", both, "--backend", "xnnpack", "--measure", "first", until="evt=welcome")
    second, _ = start(work / "second.log", "penstock-worker", "--broker", workers, "--models", work / "one", "--backend", "xnnpack", "--measure", "first", until="evt=welcome")
    job = run()
    check(job["status"] == "OK" and job["measured"] is None and job["worker"], "apart it runs, and says no error that nobody has measured", job)
    job = run("--precision", "max_relative_error=1e-3")
    check(job["status"] == "UNSUPPORTED" and "step 1 needs model 'digits' with no error at all" in job["error"], "and keeps no bound", job)
    stop(first)
    first, _ = start(work / "first.log", "penstock-worker", "--broker", workers, "--models", both, "--backend", "reference", until="evt=welcome")
    job = run("--precision", "max_relative_error=1e-3")
    check(job["status"] == "OK" and job["measured"]["source"] == "steps" and job["measured"]["max_relative_error"] < 1e-3,
          "behind an exact step the last one's error is that of the whole", job)
    stop(first)
    stop(second)


def in_bf16(work, broker, workers):
    """A CPU offers bf16 with the error that it measured, and answers jobs whose bound allows that."""
    log, address = work / "bf16.log", f"127.0.0.1:{free_port()}"
    words = ("--broker", workers, "--models", folder(work, "bf16"), "--backend", "xnnpack", "--precision", "bf16", "--measure", "first", "--name", "bf16", "--metrics", address)
    worker, _ = start(log, "penstock-worker", *words, until="evt=welcome")
    error = ((offers(broker).get("bf16") or {}).get("measured") or {}).get("max_relative_error", 0)
    check(1e-6 < error < 5e-2 and counts(address) == (1, 0), "bf16 is offered with its error", f"{error} {log.read_text()}")
    job = submit(broker, "--precision", f"max_relative_error={2 * error:g}", "--no-cache")
    check(job["status"] == "OK" and job["precision"] == "bf16" and job["measured"]["max_relative_error"] == error, "a bound lets bf16 answer", job)
    for text, part in ((f"max_relative_error={error / 2:g}", "the best is xnnpack in bf16"), ("f32-exact", "no worker keeps f32-exact")):
        job = submit(broker, "--precision", text, "--no-cache")
        check(job["status"] == "UNSUPPORTED" and part in job["error"], f"{text} is refused by bf16", job)
    stop(worker)
    worker, found = start(log, "penstock-worker", *words, until="evt=welcome")
    check(found and counts(address) == (0, 1), "a second start recalls it", log.read_text())
    stop(worker)


with tempfile.TemporaryDirectory() as temporary:
    work = Path(temporary)
    try:
        _, found = start(work / "broker.log", "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http", "none",
                         until=r"evt=listening clients=(\S+) workers=(\S+)")
        ends = found.group(1), found.group(2)
        kept(work, *ends)
        stated(work, ends[1])
        beside(work, *ends)
        routed(work, *ends)
        ensemble(work, *ends)
        in_bf16(work, *ends)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0)
