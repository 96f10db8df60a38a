#!/usr/bin/env python3
"""`penstock import`: a model file becomes a folder that a worker serves; what it saw, guessed and could not know; never half a model.

    import_test.py BIN_DIR SOURCE_DIR

Models are written here, byte by byte. The last line is `N passed, N failed, N skipped`.
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
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SAMPLE = SOURCE / "deploy/models/digits/samples/00_zero.png"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = 0


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


# ---- models

def field(number, value):
    """One field of a protobuf message: an int as a varint, all else as bytes."""
    def varint(n):
        out = b""
        while n > 0x7F:
            out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
        return out + bytes([n])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, dims, dtype=1):
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def onnx(inputs, outputs, nodes, weights=b""):
    """nodes: (operator, inputs, outputs)."""
    graph = b"".join(field(1, b"".join(field(1, i) for i in ins) + b"".join(field(2, o) for o in outs) + field(3, f"n{k}") + field(4, op))
                     for k, (op, ins, outs) in enumerate(nodes))
    graph += field(2, "g") + weights + b"".join(field(11, value_info(*i)) for i in inputs) + b"".join(field(12, value_info(*o)) for o in outputs)
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph)


def mean_of_channels(dims, outs):
    """A classifier: the mean of each channel."""
    return onnx([("pixels", dims)], [("scores", outs)], [("GlobalAveragePool", ["pixels"], ["pooled"]), ("Flatten", ["pooled"], ["scores"])])


def tfjs(folder):
    """y = x + b, b in a shard."""
    node = [{"name": "x", "op": "Placeholder", "attr": {"dtype": {"type": "DT_FLOAT"}, "shape": {"shape": {"dim": [{"size": "-1"}, {"size": "2"}]}}}},
            {"name": "b", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}, "value": {"tensor": {"dtype": "DT_FLOAT", "tensorShape": {"dim": [{"size": "2"}]}}}}},
            {"name": "y", "op": "AddV2", "input": ["x", "b"], "attr": {"T": {"type": "DT_FLOAT"}}}]
    manifest = [{"paths": ["group1-shard1of1.bin"], "weights": [{"name": "b", "shape": [2], "dtype": "float32"}]}]
    folder.mkdir()
    (folder / "any.json").write_text(json.dumps({"format": "graph-model", "modelTopology": {"node": node, "versions": {"producer": 1}}, "weightsManifest": manifest}))
    (folder / "group1-shard1of1.bin").write_bytes(struct.pack("<2f", 1, 2))
    return folder / "any.json"


def onnx_external(folder):
    """y = x + b, b in a file of a folder below."""
    entries = field(13, field(1, "location") + field(2, "data/b.bin")) + field(13, field(1, "length") + field(2, "8"))
    bias = field(5, field(1, 2) + field(2, 1) + field(8, "b") + entries + field(14, 1))
    (folder / "data").mkdir(parents=True)
    (folder / "data/b.bin").write_bytes(struct.pack("<2f", 1, 2))
    (folder / "x.onnx").write_bytes(onnx([("x", ["batch", 2])], [("y", ["batch", 2])], [("Add", ["x", "b"], ["y"])], bias))
    return folder / "x.onnx"


# ---- the command

def run(*words, program="penstock", env=None, **options):
    return subprocess.run([BIN / program, *map(str, words)], capture_output=True, text=True, timeout=60 * SLOW, env={**os.environ, **(env or {})}, **options)


def imported(file, name, models, *options):
    """The answer of --json and the config that was written."""
    done = run("import", file, name, "--models", models, "--json", *options)
    if done.returncode != 0:
        check(False, f"import of {name}", done.stdout + done.stderr)
        return None, {}
    answer = json.loads(done.stdout)
    return answer, json.loads(Path(answer["config"]).read_text())


def has(sentences, *words):
    return any(all(word in sentence for word in words) for sentence in sentences)


def tree(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def signature(folder, models):
    colour = folder / "colour.onnx"
    colour.write_bytes(mean_of_channels(["N", 3, 32, 48], ["N", 3]))
    answer, config = imported(colour, "colour", models, "--preset", "imagenet")
    pre = config["input"]["preprocess"]
    check(config["max_batch_size"] == 8 and has(answer["seen"], "batch"), "an open batch that is named like one is seen", answer)
    check((pre["layout"], pre["channels"], pre["height"], pre["width"], pre["order"]) == ("NCHW", 3, 32, 48, "RGB"), "NCHW and its size are seen", pre)
    check(all(abs(a - b) < 1e-6 for a, b in zip([*pre["mean"], *pre["scale"]], [123.675, 116.28, 103.53, 1 / 58.395, 1 / 57.12, 1 / 57.375])), "imagenet's constants", pre)
    check(has(answer["unknown"], "3 values of 'scores'", "--labels"), "what the classes are called is nobody's to guess", answer)
    check(tree(models / "colour") == ["1/model.onnx", "config.json"], "NAME/VERSION/model.onnx and NAME/config.json", tree(models))
    for preset, want in (("tf", ("RGB", [127.5], 1 / 127.5)), ("caffe", ("BGR", [103.939, 116.779, 123.68], 1)), ("none", (None, None, None))):
        _, config = imported(colour, preset, models, "--preset", preset)
        pre = config["input"]["preprocess"]
        check((pre.get("order"), pre.get("mean")) == want[:2] and abs((pre.get("scale") or [0])[0] - (want[2] or 0)) < 1e-9, f"--preset {preset}", pre)
    answer, config = imported(colour, "plain", models)
    check(config["input"]["preprocess"]["scale"] == [1 / 255] and has(answer["unknown"], "range of pixels", "--preset"), "without a preset 0..1 is written, and said to be unknown", answer)

    fixed = folder / "fixed.onnx"
    fixed.write_bytes(onnx([("pixels", [1, 64, 40, 3])], [("same", [1, 64, 40, 3])], [("Neg", ["pixels"], ["same"])]))
    answer, config = imported(fixed, "fixed", models)
    check(config["max_batch_size"] == 0 and has(answer["seen"], "no batches"), "a fixed batch is none", answer)
    check(config["input"]["preprocess"]["layout"] == "NHWC", "NHWC is seen", config)
    opened = folder / "open.onnx"
    opened.write_bytes(mean_of_channels(["N", 3, "h", "w"], ["N", 3]))
    answer, config = imported(opened, "open", models)
    check(has(answer["unknown"], "size of pictures", "--size") and config["input"]["preprocess"]["height"] == 224, "an open size is unknown", answer)
    answer, config = imported(opened, "sized", models, "--size", "20x10")
    check((config["input"]["preprocess"]["width"], config["input"]["preprocess"]["height"]) == (20, 10) and not has(answer["unknown"], "size of"), "--size says it", answer)
    either = folder / "either.onnx"
    either.write_bytes(onnx([("x", ["N", "a", "b", "c"])], [("y", ["N", "a", "b", "c"])], [("Neg", ["x"], ["y"])]))
    answer, config = imported(either, "either", models)
    check(config["input"]["preprocess"]["layout"] == "NCHW" and has(answer["guessed"], "layout NCHW", "--layout"), "dims that fit both layouts are a guess", answer)
    text = folder / "text.onnx"
    text.write_bytes(onnx([("ids", ["batch", "tokens"])], [("y", ["batch", "tokens"])], [("Neg", ["ids"], ["y"])]))
    answer, config = imported(text, "text", models)
    check("input" not in config and has(answer["unknown"], "dimension 1", "'ids'", "model_warmup"), "an input that is no picture gets none, and its open dimension is named", answer)


def labels(folder, models):
    colour = folder / "colour.onnx"
    (folder / "two").write_text("a\nb\n")
    (folder / "three").write_text("red\ngreen\nblue")
    done = run("import", colour, "named", "--models", models, "--labels", folder / "two")
    check(done.returncode == 1 and "2 lines" in done.stderr and "3 classes" in done.stderr and not (models / "named").exists(), "labels that are too few are refused, and nothing is left", done.stderr)
    answer, config = imported(colour, "named", models, "--labels", folder / "three", "--preset", "none")
    check(config["output"] == {"labels_file": "labels.txt", "softmax": True} and (models / "named/labels.txt").read_text() == "red\ngreen\nblue", "labels are copied", config)
    check(has(answer["guessed"], "softmax"), "scores that end in no softmax get one, as a guess", answer)


def files(folder, models):
    answer, _ = imported(onnx_external(folder / "external"), "external", models)
    check(tree(models / "external/1") == ["data/b.bin", "model.onnx"] and sorted(answer["files"]) == ["data/b.bin", "model.onnx"], "external data goes along, by its place", answer)
    answer, _ = imported(tfjs(folder / "tfjs"), "shards", models)
    check(tree(models / "shards/1") == ["group1-shard1of1.bin", "model.json"], "shards go along, and the topology gets the worker's name", answer)
    (folder / "external/data/b.bin").unlink()
    done = run("import", folder / "external/x.onnx", "missing", "--models", models)
    check(done.returncode == 1 and "data/b.bin" in done.stderr and not (models / "missing").exists(), "a file that is not there is named, and nothing is left", done.stderr)


def refusals(folder, models):
    colour = folder / "colour.onnx"
    before = (models / "colour/1/model.onnx").stat().st_ino
    done = run("import", colour, "colour", "--models", models)
    check(done.returncode == 1 and "--version N" in done.stderr and "--force" in done.stderr and (models / "colour/1/model.onnx").stat().st_ino == before, "what is there stays", done.stderr)
    answer, _ = imported(colour, "colour", models, "--version", 2, "--preset", "tf")
    check(answer["config"].endswith("colour/2/config.json") and (models / "colour/2/model.onnx").exists(), "--version makes another, with a config of its own", answer)
    imported(colour, "colour", models, "--force", "--preset", "caffe")
    check((models / "colour/1/model.onnx").stat().st_ino != before and json.loads((models / "colour/1/config.json").read_text())["input"]["preprocess"]["order"] == "BGR", "--force replaces")
    for words, code, sentence in ((("import", colour), 2, "penstock import FILE NAME"), (("import", colour, "a/b"), 2, "no name for a model"), (("import", colour, ".hidden"), 2, "no name for a model"),
                                  (("import", colour, "x", "--preset", "pytorch"), 2, "imagenet"), (("import", colour, "x", "--size", "5"), 2, "224x224"),
                                  (("import", folder / "none.onnx", "x"), 1, "none.onnx"), (("import", folder / "text.onnx", "x", "--preset", "tf"), 1, "could be a picture"),
                                  (("import", SAMPLE, "x"), 1, "not a model"), (("import", colour, "x", "--size", "5x5"), 1, "the model takes"),
                                  (("import", colour, "x", "--layout", "NHWC"), 1, "does not fit")):
        done = run(*words, "--models", models)
        check(done.returncode == code and sentence in done.stderr and not (models / "x").exists(), f"{' '.join(map(str, words[2:]))}: {sentence}", done.stderr)
    check(not [p for p in models.iterdir() if p.name.startswith(".")], "no folder of work is left behind", list(models.iterdir()))
    alone = folder / "alone"
    alone.mkdir()
    shutil.copy(BIN / "penstock", alone)
    done = subprocess.run([alone / "penstock", "import", colour, "x"], capture_output=True, text=True, env={**os.environ, "PATH": str(alone)})
    check(done.returncode == 1 and "penstock-engine" in done.stderr and "PATH" in done.stderr, "without penstock-engine it says what is missing", done.stderr)
    tables = [run("import", "--settings-markdown", program=program).stdout for program in ("penstock", "penstock-engine")]
    check("--preset" in tables[0] and tables[0] == tables[1], "both programs have the same options", tables)


# ---- a pool that watches

def start(log, *words):
    return subprocess.Popen([BIN / words[0], *map(str, words[1:])], stdout=subprocess.DEVNULL, stderr=open(log, "w"))


def wait_for(log, pattern, seconds=20):
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text())
        if found:
            return found
        time.sleep(0.02)
    return None


def served(folder, models):
    loose = models / "loose.onnx"
    shutil.copy(folder / "colour.onnx", loose)
    broker_log, log = folder / "broker.log", folder / "worker.log"
    broker = start(broker_log, "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http", "none")
    found = wait_for(broker_log, r"evt=listening.*clients=(\S+) workers=(\S+)")
    worker = start(log, "penstock-worker", "--broker", found.group(2), "--models", models, "--watch", "100ms", "--backend", "reference", "--slots", "1", "--threads", "1")
    check(wait_for(log, r"evt=welcome"), "a worker serves what was imported", log.read_text())
    check(not re.search(r"evt=model_failed", log.read_text()), "all of it", log.read_text())
    note = re.search(r"evt=model_loose.*", log.read_text())
    check(note and f"penstock import {loose} loose --models {models}" in note.group(0), "a model beside the folders is noticed, with the command that mends it", log.read_text())
    done = run("submit", "--broker", found.group(1), "named", SAMPLE)
    check(done.returncode == 0 and re.search("red|green|blue", done.stdout), "a picture is answered by name", done.stdout + done.stderr)
    for i in range(8):  # the worker looks ten times a second: never at half of one
        imported(folder / "colour.onnx", f"late{i}", models, "--preset", "tf")
        imported(folder / "colour.onnx", "colour", models, "--force")
    wanted, end = {f"late{i}" for i in range(8)}, time.monotonic() + 20 * SLOW
    while wanted and time.monotonic() < end:  # the log leaves lines out where there are many of one kind
        wanted -= set(re.findall(r"late\d", run("models", "--broker", found.group(1)).stdout))
        time.sleep(0.1)
    check(not wanted, "what is imported later is served without a restart", f"{wanted}\n{log.read_text()}")
    check(not re.search(r"evt=model_(failed|waits) ", log.read_text()), "and none was ever seen half", re.findall(r"evt=model_(?:failed|waits).*", log.read_text()))
    for process in (worker, broker):
        process.terminate()
        check(process.wait(30 * SLOW) == 0, "it drains")


with tempfile.TemporaryDirectory() as temporary:
    work = Path(temporary)
    target = work / "deep/models"
    for part in (signature, labels, files, refusals, served):
        part(work, target)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
