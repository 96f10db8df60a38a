#!/usr/bin/env python3
"""A MiniLM-shaped transformer encoder (tests/support/encoder.h) on xnnpack beside ONNX Runtime: the numbers once, then times, interleaved.

    encoder_vs_ort.sh BUILD_DIR [--rounds 5] [--seconds 2]
"""
import usage  # noqa: F401
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SHAPES = ((1, 128), (4, 32))

# In a process of its own: threads of an earlier session must not linger.
PEER = """
import sys, time, numpy, onnxruntime
path, batch, length, threads, seconds = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
feed = {i.name: numpy.random.default_rng(1).integers(0, 9, (batch, length)) for i in session.get_inputs()}
for _ in range(5):
    session.run(None, feed)
times, until = [], time.perf_counter() + seconds
while time.perf_counter() < until or len(times) < 10:
    begin = time.perf_counter()
    session.run(None, feed)
    times.append((time.perf_counter() - begin) * 1e3)
print(sorted(times)[len(times) // 2])
"""


def engine(build, *arguments):
    done = subprocess.run([f"{build}/bin/penstock-engine", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"penstock-engine {' '.join(arguments)} failed: {done.stderr}")
    return done.stdout


def difference(build, model, batch, length):
    """Largest |ours - peer's| over the range of the peer's output."""
    rng = np.random.default_rng(7)
    mask = np.ones((batch, length), np.int64)
    mask[-1, length - length // 4:] = 0
    feed = dict(zip(INPUTS, (rng.integers(0, 30522, (batch, length)), mask, rng.integers(0, 2, (batch, length)))))
    want = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)[0]
    with tempfile.TemporaryDirectory() as folder:
        for name, data in feed.items():
            np.save(f"{folder}/{name}.npy", data)
        engine(build, "run", "--model", model, "--backend", "xnnpack", "--strict", "--output-dir", folder,
               *(word for name in INPUTS for word in ("--input", f"{name}={folder}/{name}.npy")))
        got = np.load(Path(folder) / "last_hidden_state.npy")
    return float(np.abs(got - want).max() / (want.max() - want.min()))


def ours_ms(build, model, batch, length, threads, seconds):
    shapes = (word for name in INPUTS for word in ("--shape", f"{name}={batch}x{length}"))
    text = engine(build, "bench", "--model", model, "--backend", "xnnpack", "--threads", str(threads), "--seconds", f"{seconds}s", "--json", *shapes)
    return json.loads(text)["median_ms"]


def peer_ms(model, *case):
    done = subprocess.run([sys.executable, "-c", PEER, model, *map(str, case)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ONNX Runtime failed: {done.stderr}")
    return float(done.stdout.split()[-1])


def main():
    arguments, values = sys.argv[1:], {"--rounds": 5, "--seconds": 2}
    for name in values:
        if name in arguments:
            at = arguments.index(name)
            values[name] = int(arguments[at + 1])
            del arguments[at:at + 2]
    model, build = arguments
    for shape in SHAPES:
        far = difference(build, model, *shape)
        print(f"batch {shape[0]}, length {shape[1]}: largest difference to ONNX Runtime {far:.1e} of the output's range, all nodes on xnnpack")
        if not far < 1e-4:
            sys.exit("the numbers differ")
    ours, peer = {}, {}
    cases = [(*shape, threads) for shape in SHAPES for threads in (1, 2)]
    for _ in range(values["--rounds"]):
        for case in cases:
            ours.setdefault(case, []).append(ours_ms(build, model, *case, values["--seconds"]))
            peer.setdefault(case, []).append(peer_ms(model, *case, values["--seconds"]))
    print(f"{values['--rounds']} interleaved rounds of {values['--seconds']} s; peer: ONNX Runtime {onnxruntime.__version__}; medians of medians")
    print(f"{'batch':>5} {'length':>6} {'threads':>7} {'ours ms':>9} {'peer ms':>9} {'ratio':>6}")
    for case in cases:
        a, b = statistics.median(ours[case]), statistics.median(peer[case])
        print(f"{case[0]:5} {case[1]:6} {case[2]:7} {a:9.2f} {b:9.2f} {a / b:5.2f}x")


if __name__ == "__main__":
    main()
