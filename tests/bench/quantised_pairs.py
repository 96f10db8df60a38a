#!/usr/bin/env python3
"""Quantised models beside their float twins on the xnnpack backend, in one interleaved run on one thread.

    quantised_pairs.py BUILD_DIR [--rounds 5] [--seconds 0.5]

Each round times every model once, in a fresh process; a figure is the median over the rounds of the medians. Models are those of ../shared; the float
MobileNetV2 is the ONNX file that cnn_vs_ort.sh makes (its pair is left out where it is not there). Fails when a quantised model is slower.
"""
import usage  # noqa: F401
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
SHARED = Path(os.environ.get("PENSTOCK_SHARED", HERE.parents[3] / "shared")) / "models"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock" / "bench-models"


def lite(name):
    return SHARED / "tflite" / name / "model.tflite"


PAIRS = [("MobileNetV2 1.0 / 224", CACHE / "mobilenet_v2.onnx", lite("mobilenet_v2_100_224_u8"))] + [
    (f"MLPerf Tiny {name}", lite(f"mlperf_tiny_{name}_float"), lite(f"mlperf_tiny_{name}_int8"))
    for name in ("vww", "ic_resnet8", "ad", "kws")]


def bench(build, model, seconds):
    command = [f"{build}/bin/penstock-engine", "bench", "--model", str(model), "--backend", "xnnpack", "--seconds", f"{seconds}s", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr}")
    return json.loads(done.stdout)


def main():
    arguments, rounds, seconds, build = sys.argv[1:], 5, 0.5, None
    while arguments:
        word = arguments.pop(0)
        if word == "--rounds":
            rounds = int(arguments.pop(0))
        elif word == "--seconds":
            seconds = float(arguments.pop(0))
        else:
            build = word
    if not build:
        sys.exit(__doc__)
    pairs = [pair for pair in PAIRS if pair[1].exists() and pair[2].exists()]
    times, notes = {}, {}
    for _ in range(rounds):
        for _, *models in pairs:
            for model in models:
                notes[model] = bench(build, model, seconds)
                times.setdefault(model, []).append(notes[model]["median_ms"])
    if not pairs:
        sys.exit(f"no models in {SHARED}")
    print(f"{rounds} interleaved rounds of {seconds} s each, 1 thread, {notes[pairs[0][2]]['library']}, {notes[pairs[0][2]]['device']}")
    print(f"{'model':24} {'float ms':>9} {'8 bit ms':>9} {'ratio':>7}   float load  8 bit load ms   placement of the quantised model")
    slower = 0
    for name, floats, quantised in pairs:
        a, b = statistics.median(times[floats]), statistics.median(times[quantised])
        slower += b > a
        print(f"{name:24} {a:9.3f} {b:9.3f} {b / a:6.2f}x   {notes[floats]['load_ms']:10.1f} {notes[quantised]['load_ms']:11.1f}      "
              f"{notes[quantised]['placement']}")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
