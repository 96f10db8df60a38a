#!/usr/bin/env python3
"""The models of the ancestor's table on our backends beside TensorFlow.js's wasm and cpu backends in Node, in one interleaved run on one thread each.

    seed_table.sh BUILD_DIR [--rounds 3] [--seconds 1] [--check]

Each round runs every model once on every backend, each in a fresh process (slow ones, reference and cpu, in the first round only); a figure is the median
over the rounds of the medians. Loading is from the files on disk to a model that can run, without the start of the process; peak is the memory of the whole
process. --check: exit 1 where xnnpack needs more than a quarter of wasm's time or loads slower. seed_table.sh installs the peer from npm into the cache
folder.
"""
import usage  # noqa: F401
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
MODELS = Path(os.environ.get("PENSTOCK_SHARED", HERE.parents[3] / "shared")) / "models" / "tfjs"
TABLE = [("BlazeFace", "blazeface", {"input": [1, 128, 128, 3]}),
         ("FaceMesh", "facemesh", {"input_1": [1, 192, 192, 3]}),
         ("PoseNet 0.75 / 257", "posenet_mobilenet075_q16", {"sub_2": [1, 257, 257, 3]}),
         ("BodyPix 0.50 / 257", "bodypix_mobilenet050", {"sub_2": [1, 257, 257, 3]}),
         ("MobileNet v2 0.50 / 96", "mobilenet_v2_050_96_features", {"images": [1, 96, 96, 3]}),
         ("MobileNet v2 1.0 / 224", "mobilenet_v2_100_224_nsfw_q8", {"input_1": [1, 224, 224, 3]})]
SLOW = {"reference", "cpu", "vulkan"}  # timed for a few runs, in the first round only; vulkan: on a software device
LIMIT = 0.25


def topology(folder):
    for path in sorted(folder.glob("*.json")):
        if path.name != "meta.json" and b'"weightsManifest"' in path.read_bytes():
            return path
    sys.exit(f"no topology in {folder}")


def answer(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def ours(build, backend, file, shapes, seconds):
    command = [f"{build}/bin/penstock-engine", "bench", "--json", "--backend", backend, "--model", str(file), "--threads", "1"]
    command += ["--runs", "3"] if backend in SLOW else ["--seconds", f"{seconds}s"]
    for name, shape in shapes.items():
        command += ["--shape", f"{name}={'x'.join(map(str, shape))}"]
    return answer(command)


def peer(folder, backend, file, shapes, seconds):
    return answer(["node", str(HERE.with_name("seed_table.js")), folder, backend, str(file), json.dumps(shapes), str(0 if backend in SLOW else seconds)])


def our_backends(build):
    info = answer([f"{build}/bin/penstock-engine", "info", "--json"])
    there = {b["name"]: b["device"] for b in info["backends"] if b.get("available")}
    if "llvmpipe" not in there.get("vulkan", "llvmpipe"):
        SLOW.discard("vulkan")
    return [name for name in ("vulkan", "xnnpack", "reference") if name in there]


def parse():
    words, values, check = sys.argv[1:], {"--rounds": 3.0, "--seconds": 1.0}, False
    places = []
    while words:
        word = words.pop(0)
        if word in values:
            values[word] = float(words.pop(0))
        elif word == "--check":
            check = True
        else:
            places.append(word)
    if len(places) != 2:
        sys.exit(__doc__)
    return places[0], places[1], int(values["--rounds"]), values["--seconds"], check


def line(name, backend, figures, wasm_ms):
    ms, load, first = (statistics.median(f[key] for f in figures) for key in ("median_ms", "load_ms", "first_run_ms"))
    least = min(f["min_ms"] for f in figures)
    peak = statistics.median(f["peak_rss_bytes"] for f in figures) / 1048576
    print(f"{name:24} {backend:12} {ms:10.2f} {least:9.2f} {ms / wasm_ms:8.3f}x {load:9.1f} {first:9.1f} {peak:9.1f}")
    return ms, load


def main():
    build, folder, rounds, seconds, check = parse()
    backends = our_backends(build)
    figures = {}
    for turn in range(rounds):
        for name, model, shapes in TABLE:
            file = topology(MODELS / model)
            for backend in backends:
                if turn > 0 and backend in SLOW:
                    continue
                figures.setdefault((name, backend), []).append(ours(build, backend, file, shapes, seconds))
            for backend in ("wasm", "cpu") if turn == 0 else ("wasm",):
                figures.setdefault((name, "tfjs " + backend), []).append(peer(folder, backend, file, shapes, seconds))
    one = figures[(TABLE[0][0], "xnnpack")][0]
    other = figures[(TABLE[0][0], "tfjs wasm")][0]
    print(f"{rounds} interleaved rounds, 1 thread; {one['device']}, {one['library']}; {other['library']} (SIMD: {other['simd']})")
    print(f"{'model':24} {'backend':12} {'ms':>10} {'least':>9} {'of wasm':>9} {'load ms':>9} {'first ms':>9} {'peak MiB':>9}")
    missed = []
    for name, _, _ in TABLE:
        wasm = figures[(name, "tfjs wasm")]
        wasm_ms = statistics.median(f["median_ms"] for f in wasm)
        for backend in backends + ["tfjs wasm", "tfjs cpu"]:
            ms, load = line(name, backend, figures[(name, backend)], wasm_ms)
            if backend == "xnnpack":
                missed += [f"{name}: {ms / wasm_ms:.3f}x of wasm's time"] if ms > LIMIT * wasm_ms else []
                missed += [f"{name}: loads slower than wasm"] if load > statistics.median(f["load_ms"] for f in wasm) else []
    if check and missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
