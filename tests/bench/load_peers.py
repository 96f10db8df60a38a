#!/usr/bin/env python3
"""From a model's file to the first answer, and the memory that takes, beside ONNX Runtime (.onnx) or LiteRT (.tflite), interleaved.

    load_peers.sh BUILD_DIR FOLDER|MODEL... [options]

    --rounds 5           of each engine, each in a process of its own
    --threads 1          of each engine
    --precision f32      of ours: f32 or bf16
    --generate FOLDER    the models of peers/models.py are written there and measured (--only NAME)
    --only TEXT          models whose path has TEXT
    --json FILE          all figures

load: the model's file becomes a model, or a session (LiteRT: interpreter and allocate_tensors); warm: what we do up to the first run (pen_session_warm);
first: the first run behind that. Of load + warm over the peer's load alone: "ratio" in elapsed time, "cpu" in processor time, which neighbours on a full
machine do not change. "answer" compares what passes up to the first answer. Medians.
peak: the most memory of the process (file pages that are mapped count) beyond what it had before the load; some megabytes of code are in it, and of a small
model it may have been opening the engine that took the most. bound: 1.1 x (weights + activations), which `penstock-engine bench` prints. Models of
TensorFlow.js (.json) have no peer. Packages: numpy, onnx, onnxruntime, ai-edge-litert.
"""
import usage  # noqa: F401
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = {".onnx": "onnxruntime", ".tflite": "litert"}


# ---- the peer's process ----

def onnxruntime_peer(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    kinds = {"float": "float32", "double": "float64"}

    def load():
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def feed(session):
        import compare
        inputs = [[i.name, [d if isinstance(d, int) else None for d in i.shape], kinds.get(i.type[7:-1], i.type[7:-1])] for i in session.get_inputs()]
        return compare.feed_of(inputs, {})

    return load, feed, lambda session, data: session.run(None, data)


def litert_peer(path, threads):
    from ai_edge_litert.interpreter import Interpreter

    def load():
        interpreter = Interpreter(path, num_threads=threads)
        interpreter.allocate_tensors()
        return interpreter

    def feed(interpreter):
        import compare
        return compare.feed_of([[i["index"], list(i["shape"]), i["dtype"]] for i in interpreter.get_input_details()], {})

    def run(interpreter, data):
        for index, tensor in data.items():
            interpreter.set_tensor(index, tensor)
        interpreter.invoke()

    return load, feed, run


def now_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peer_main(kind, path, threads):
    sys.path.insert(0, str(HERE / "peers"))
    import compare  # noqa: F401 - before memory is looked at
    load, feed, run = {"onnxruntime": onnxruntime_peer, "litert": litert_peer}[kind](path, int(threads))
    before, begin, busy = now_bytes(), time.perf_counter(), time.process_time()
    session = load()
    loaded, busy = time.perf_counter(), time.process_time() - busy
    data = feed(session)
    fed = time.perf_counter()
    run(session, data)
    ran = time.perf_counter()
    print(json.dumps({"load": (loaded - begin) * 1e3, "first": (ran - fed) * 1e3, "cpu": busy * 1e3, "peak": peak_bytes() - before}))


# ---- measuring ----

def called(command):
    """Its line of JSON, or its last line of complaint."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return (json.loads(lines[-1]), None) if done.returncode == 0 else (None, lines[-1] if lines else f"exit {done.returncode}")


def ours(build, model, options):
    told, why = called([f"{build}/bin/penstock-engine", "bench", "--model", model, "--runs", 1, "--json", "--threads", options["threads"],
                        "--precision", options["precision"]])
    return told and {"load": told["load_ms"], "warm": told["warmup_ms"], "first": told["first_run_ms"], "cpu": told["start_cpu_ms"],
                     "peak": told["peak_rss_bytes"] - told["before_rss_bytes"], "weights": told["weights_bytes"],
                     "activations": told["activations_bytes"]}, why


def peer(model, options):
    return called([sys.executable, __file__, "--peer", PEERS[model.suffix], model, options["threads"]])


def measure(build, model, options):
    row = {"model": str(model), "peer": PEERS.get(model.suffix), "refused": {}}
    engines = {"ours": lambda: ours(build, model, options)} | ({"theirs": lambda: peer(model, options)} if row["peer"] else {})
    rounds = {name: [] for name in engines}
    for _ in range(options["rounds"]):
        for name, ask in engines.items():
            figures, why = ask() if name not in row["refused"] else (None, None)
            if why:
                row["refused"][name] = why
            elif figures:
                rounds[name].append(figures)
    for name, told in rounds.items():
        if told and name not in row["refused"]:
            row[name] = {key: statistics.median(t[key] for t in told) for key in told[0]}
    mine, other = row.get("ours"), row.get("theirs")
    if mine:
        row["bound"] = 1.1 * (mine["weights"] + mine["activations"])
    if mine and other:
        row["ratio"] = (mine["load"] + mine["warm"]) / other["load"]
        row["cpu_ratio"] = mine["cpu"] / other["cpu"]
        row["first_ratio"] = (mine["load"] + mine["warm"] + mine["first"]) / (other["load"] + other["first"])
    return row


# ---- telling ----

def name_of(row):
    path = Path(row["model"])
    return path.parent.name if path.stem == "model" else path.stem


def cell(figures, key, scale=1.0):
    return f"{figures[key] / scale:9.1f}" if figures and key in figures else f"{'-':>9}"


def line(row):
    mine, other = row.get("ours"), row.get("theirs")
    ratios = "".join(f"{row[key]:7.2f}" if key in row else f"{'-':>7}" for key in ("ratio", "cpu_ratio", "first_ratio"))
    return (f"{name_of(row):26}" + "".join(cell(mine, key) for key in ("load", "warm", "first")) + "".join(cell(other, key) for key in ("load", "first")) + ratios
            + cell(mine, "peak", 1e6) + cell(other, "peak", 1e6) + "".join(cell(mine, key, 1e6) for key in ("weights", "activations")) + cell(row, "bound", 1e6))


def report(rows, options):
    print(f"{options['rounds']} interleaved rounds, {options['threads']} thread(s), {options['precision']}; ms, MB of 10^6 bytes")
    print(f"{'model':26}{'load':>9}{'warm':>9}{'first':>9}{'p.load':>9}{'p.first':>9}{'ratio':>7}{'cpu':>7}{'answer':>7}{'peak':>9}{'p.peak':>9}{'weights':>9}{'activat.':>9}{'bound':>9}")
    for row in rows:
        print(line(row))
    for row in rows:
        for who, why in row["refused"].items():
            print(f"{name_of(row)}: {'penstock-engine' if who == 'ours' else row['peer']} refused: {why}")
    print(f"load + warm above half of the peer's load: {', '.join(name_of(r) for r in rows if r.get('ratio', 0) > 0.5) or 'none'}")
    print(f"peak beyond its bound: {', '.join(name_of(r) for r in rows if 'bound' in r and r['ours']['peak'] > r['bound']) or 'none'}")


def options_of(words):
    options = {"rounds": 5, "threads": 1, "precision": "f32", "only": "", "generate": None, "json": None}
    places = []
    while words:
        word = words.pop(0)
        if word.startswith("--") and word[2:] in options and words:
            key, value = word[2:], words.pop(0)
            options[key] = type(options[key])(value) if options[key] is not None else value
        elif word.startswith("--"):
            sys.exit(f"load_peers.py: unknown option or missing value: {word}\n\n{__doc__}")
        else:
            places.append(Path(word))
    return options, places


def is_model(path):
    return path.suffix in PEERS or (path.suffix == ".json" and "weightsManifest" in path.read_text(errors="ignore"))


def models_of(places, only):
    found = []
    for place in places:
        found += [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file() and is_model(p))
    return [m for m in found if only in str(m)]


def main():
    words = sys.argv[1:]
    if words[:1] == ["--peer"]:
        return peer_main(*words[1:])
    if not words or words[0].startswith("-"):
        sys.exit(__doc__)
    options, places = options_of(words[1:])
    if options["generate"]:
        sys.path.insert(0, str(HERE / "peers"))
        import models
        models.write_missing(Path(options["generate"]), options["only"])
        places.append(Path(options["generate"]))
    found = models_of(places, options["only"])
    if not found:
        sys.exit("load_peers.py: no model there; name a folder or file, or write some with --generate FOLDER")
    rows = []
    for model in found:
        rows.append(measure(words[0], model, options))
        print(f"{name_of(rows[-1])}: {rows[-1].get('ratio', 0):.2f}", file=sys.stderr)
    report(rows, options)
    if options["json"]:
        Path(options["json"]).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
