#!/usr/bin/env python3
"""penstock-engine beside onnxruntime, openvino and ai-edge-litert on every model of some folders, in one interleaved run.

    tests/bench/peers.sh BUILD_DIR [FOLDER|MODEL...] [options]

    --generate FOLDER    write the seeded models of models.py there first (those that are missing), and take them, too
    --threads 1,2        numbers of threads
    --precision f32      or bf16: where a peer has none it is left out. Models of integers are compared as they are
    --rounds 5           each round times every engine once, in turn; a figure is the median over the rounds
    --seconds 0.5        of one slice
    --only TEXT          models whose name has TEXT
    --shape NAME=1x3x8   of an input whose dims the model leaves open (else 1 for the first, 224 for pictures, 128)
    --svg FILE           a picture of the ratios
    --json FILE          all figures

Ours is a fresh process in each slice; each peer is a process that waits for its turn. The outputs are compared with those of the first peer that takes the
model: the largest difference over the range of that output. The ratio is ours over the best peer's; "best" compares the fastest single runs, which a busy
host disturbs least. Packages: numpy, onnx, onnxruntime, openvino, ai-edge-litert (peers.sh makes the environment).
"""
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import picture

HERE = Path(__file__).resolve().parent
PEERS = {".onnx": ("onnxruntime", "openvino"), ".tflite": ("litert", "openvino")}


class Peer:
    def __init__(self, kind, model, threads, precision):
        self.kind, self.refused = kind, None
        self.process = subprocess.Popen([sys.executable, str(HERE / "peer.py"), kind, str(model), str(threads), precision], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ask(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or '{"error": "the process ended"}')
        except BrokenPipeError:
            answer = {"error": "the process ended"}
        if "error" in answer:
            self.refused = answer["error"]
        return answer.get("ok")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def dims_of(name, dims, shapes):
    if name in shapes:
        return shapes[name]
    other = 224 if len(dims) == 4 else 128
    return [d if d is not None else 1 if at == 0 else other for at, d in enumerate(dims)]


def feed_of(inputs, shapes):
    """Seeded values: floats of 0 to 1, bytes of all values, other integers of 0 and 1 (they may be positions or masks)."""
    rng, feed = np.random.default_rng(1), {}
    for name, dims, dtype in inputs:
        kind, size = np.dtype(dtype), dims_of(name, dims, shapes)
        if kind.kind == "f":
            feed[name] = rng.random(size).astype(kind)
        elif kind.itemsize == 1 and kind.kind in "iu":
            feed[name] = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, size).astype(kind)
        else:
            feed[name] = rng.integers(0, 2, size).astype(kind)
    return feed


class Ours:
    def __init__(self, build, model, threads, precision, seconds):
        self.program, self.seconds, self.refused = f"{build}/bin/penstock-engine", seconds, None
        self.common = ["--model", str(model), "--threads", str(threads), "--precision", precision, "--json"]
        self.shapes = []

    def call(self, verb, *arguments):
        done = subprocess.run([self.program, verb, *self.common, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            self.refused = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
            return None
        return json.loads(done.stdout)

    def infer(self, feed, folder):
        words = []
        for at, (name, data) in enumerate(feed.items()):
            np.save(f"{folder}/in{at}.npy", data)
            words += ["--input", f"{name}={folder}/in{at}.npy"]
            self.shapes += ["--shape", f"{name}={'x'.join(map(str, data.shape))}"] if data.ndim else []
        done = self.call("run", *words, "--output-dir", folder)
        return None if done is None else {o["name"]: np.load(Path(folder) / Path(o["file"]).name) for o in done["outputs"]}

    def time(self):
        done = self.call("bench", "--seconds", f"{self.seconds}s", *self.shapes)
        return None if done is None else {"median": done["median_ms"], "best": done["min_ms"], "library": done["library"]}


def difference(got, want):
    """Largest difference over the range, of outputs of the same sizes (their order is each engine's own)."""
    worst, left = 0.0, [np.asarray(g, np.float64).ravel() for g in got]
    for w in (np.asarray(w, np.float64).ravel() for w in want):
        fits = [g for g in left if g.size == w.size]
        if not fits:
            return math.nan
        span = (w.max() - w.min() or 1.0) if w.size else 1.0
        worst = max(worst, min(float(np.abs(g - w).max() / span) if w.size else 0.0 for g in fits))
    return worst


def compare(build, model, threads, options):
    """One row: the engines' medians of medians and of best runs, or why there are none."""
    row = {"model": name_of(model), "threads": threads, "ms": {}, "best_ms": {}, "refused": {}}
    precision = options["precision"]
    ours = Ours(build, model, threads, precision, options["seconds"])
    peers = [Peer(kind, model, threads, precision) for kind in PEERS[model.suffix]]
    with tempfile.TemporaryDirectory() as folder:
        inputs = next((found for found in (p.ask("inputs") for p in peers) if found), None)
        if inputs:
            feed = feed_of(inputs, options["shapes"])
            np.savez(f"{folder}/feed.npz", **feed)
            outputs = ours.infer(feed, folder)
            want = None
            for peer in (p for p in peers if not p.refused):
                if peer.ask(f"infer {folder}/feed.npz {folder}/out.npz") and want is None:
                    with np.load(f"{folder}/out.npz") as file:
                        want = list(file.values())
            if outputs is not None and want is not None:
                row["difference"] = difference(outputs.values(), want)
        slices = {}
        for _ in range(options["rounds"]):
            for engine, ask in [("penstock", ours.time)] + [(p.kind, lambda p=p: p.ask(f"time {options['seconds']}")) for p in peers]:
                who = ours if engine == "penstock" else next(p for p in peers if p.kind == engine)
                if not who.refused and inputs:
                    slices.setdefault(engine, []).append(ask())
    for peer in peers:
        peer.close()
    for who, engine in [(ours, "penstock")] + [(p, p.kind) for p in peers]:
        if who.refused:
            row["refused"][engine] = who.refused
        elif slices.get(engine):
            row["ms"][engine] = statistics.median(s["median"] for s in slices[engine])
            row["best_ms"][engine] = min(s["best"] for s in slices[engine])
    for key, name in (("ms", "ratio"), ("best_ms", "best")):
        others = [ms for engine, ms in row[key].items() if engine != "penstock"]
        if others and "penstock" in row[key]:
            row[name] = row[key]["penstock"] / min(others)
    return row


def name_of(model):
    return model.parent.name if model.stem == "model" else model.stem


def models_of(places, only):
    found = []
    for place in map(Path, places):
        found += [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.suffix in PEERS)
    return [m for m in found if only in name_of(m)]


def options_of(words):
    options = {"threads": "1,2", "precision": "f32", "rounds": 5, "seconds": 0.5, "only": "", "svg": None, "json": None, "generate": None}
    places, shapes = [], {}
    while words:
        word = words.pop(0)
        if word == "--shape":
            name, dims = words.pop(0).rsplit("=", 1)
            shapes[name] = [int(d) for d in dims.split("x")]
        elif word.startswith("--") and word[2:] in options and words:
            key, value = word[2:], words.pop(0)
            options[key] = type(options[key])(value) if options[key] is not None else value
        elif word.startswith("--"):
            sys.exit(f"compare.py: unknown option or missing value: {word}\n\n{__doc__}")
        else:
            places.append(word)
    options["shapes"] = shapes
    return options, places


def cell(row, key, engine):
    return f"{row[key][engine]:.3f}" if engine in row[key] else "-"


def summary(rows, threads):
    mine = [row["ratio"] for row in rows if row["threads"] == threads and "ratio" in row]
    if not mine:
        return f"{threads} threads: nothing to compare"
    mean = math.exp(sum(map(math.log, mine)) / len(mine))
    return f"{threads} thread(s): geometric mean {mean:.2f} of {len(mine)} models, {sum(r > 1.0 for r in mine)} above 1.0, {sum(r > 1.05 for r in mine)} above 1.05"


def report(rows, options):
    engines = ["penstock", *dict.fromkeys(e for row in rows for e in [*row["ms"], *row["refused"]] if e != "penstock")]
    print(f"\n{options['rounds']} interleaved rounds of {options['seconds']} s a slice, {options['precision']}; ms, medians\n")
    print("| model | threads | " + " | ".join(engines) + " | ratio | best | difference |")
    print("|---|---|" + "---|" * (len(engines) + 3))
    for row in rows:
        ratio, best = (f"{row[k]:.2f}" if k in row else "-" for k in ("ratio", "best"))
        far = f"{row['difference']:.1e}" if "difference" in row else "-"
        print(f"| {row['model']} | {row['threads']} | " + " | ".join(cell(row, "ms", e) for e in engines) + f" | {ratio} | {best} | {far} |")
    for row in rows:
        for engine, why in row["refused"].items():
            print(f"{row['model']}, {row['threads']} thread(s): {engine} refused: {why}")
    for threads in dict.fromkeys(row["threads"] for row in rows):
        print(summary(rows, threads))


def main():
    words = sys.argv[1:]
    if not words or words[0].startswith("-"):
        sys.exit(__doc__)
    options, places = options_of(words[1:])
    if options["generate"]:
        import models
        models.write_missing(Path(options["generate"]), options["only"])
        places.append(options["generate"])
    found = models_of(places, options["only"])
    if not found:
        sys.exit("compare.py: no .onnx or .tflite model there; name a folder, or write some with --generate FOLDER")
    rows = []
    for model in found:
        for threads in map(int, options["threads"].split(",")):
            rows.append(compare(words[0], model, threads, options))
            print(f"{rows[-1]['model']} {threads}: {rows[-1].get('ratio', math.nan):.2f}", file=sys.stderr)
    report(rows, options)
    if options["svg"]:
        Path(options["svg"]).write_text(picture.ratios(rows))
    if options["json"]:
        Path(options["json"]).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
