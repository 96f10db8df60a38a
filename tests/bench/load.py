#!/usr/bin/env python3
"""Load time and memory after load of each model, ONNX models beside ONNX Runtime with its default optimisations and one thread, interleaved.

    load.sh BUILD_DIR [--rounds 5]

Every figure comes from processes of their own, the median over the rounds. first: the first load of a process; again: the least processor time of eight loads
in one process, when memory and code are warm: what others run meanwhile does not show in it. RSS: of the whole process after the load, libraries included. bound: 1.2 times the weights in the precision they are computed in,
plus 5 MB.
"""
import usage  # noqa: F401
import json
import statistics
import subprocess
import sys
from pathlib import Path

# In a process of its own, as ours.
PEER = """
import sys, time, onnxruntime
def load():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    begin, busy = time.perf_counter(), time.process_time()
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    return (time.perf_counter() - begin) * 1e3, (time.process_time() - busy) * 1e3
times = [load() for _ in range(8)]
print(times[0][0], min(t[1] for t in times))
"""


def ours(build, model):
    done = subprocess.run([f"{build}/tests/bench_load", str(model), "xnnpack", "8"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench_load {model} failed: {done.stderr}")
    return json.loads(done.stdout)


def peer(model):
    done = subprocess.run([sys.executable, "-c", PEER, str(model)], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    return [float(x) for x in done.stdout.split()]


def model_files(folders):
    found = []
    for folder in folders:
        found += sorted(folder.glob("*.onnx"))
        for pattern in ("onnx/*/*.onnx", "tflite/*/*.tflite"):
            found += sorted(folder.glob(pattern))
        found += [f for f in sorted(folder.glob("tfjs/*/*.json")) if "weightsManifest" in f.read_text(errors="ignore")]
    return found


def name_of(path):
    return path.stem if path.parent.name == "bench-models" else f"{path.parent.parent.name}/{path.parent.name}"


def main():
    arguments, rounds = sys.argv[1:], 5
    if "--rounds" in arguments:
        at = arguments.index("--rounds")
        rounds = int(arguments[at + 1])
        del arguments[at:at + 2]
    if len(arguments) < 2:
        sys.exit(__doc__)
    build, models = arguments[0], model_files([Path(f) for f in arguments[1:]])
    mine, theirs = {}, {}
    for _ in range(rounds):
        for model in models:
            mine.setdefault(model, []).append(ours(build, model))
            if model.suffix == ".onnx":
                theirs.setdefault(model, []).append(peer(model))
    print(f"{rounds} interleaved rounds; ms, MB of 10^6 bytes")
    print(f"{'model':32} {'first':>8} {'peer':>8} {'ratio':>6} {'again':>8} {'peer':>8} {'ratio':>6} {'weights':>8} {'RSS':>7} {'bound':>7} {'peak':>7}")
    beyond, slower = [], []
    for model in models:
        def median(key):
            return statistics.median(m[key] for m in mine[model])
        first, again = median("first_ms"), median("best_cpu_ms")
        weights, rss, peak = (median(k) / 1e6 for k in ("weights_bytes", "rss_after", "rss_peak"))
        bound = 1.2 * weights + 5
        line = f"{name_of(model):32} {first:8.2f} "
        if theirs.get(model) and None not in theirs[model]:
            peer_first, peer_again = (statistics.median(t[i] for t in theirs[model]) for i in (0, 1))
            slower += [name_of(model)] if first > peer_first or again > peer_again else []
            line += f"{peer_first:8.2f} {first / peer_first:5.2f}x {again:8.2f} {peer_again:8.2f} {again / peer_again:5.2f}x"
        else:
            line += f"{'':8} {'':6} {again:8.2f} {'':8} {'':6}"
        beyond += [name_of(model)] if rss > bound else []
        print(f"{line} {weights:8.2f} {rss:7.2f} {bound:7.2f} {peak:7.2f}")
    print(f"slower than the peer: {', '.join(slower) or 'none'}")
    print(f"beyond the bound of memory: {', '.join(beyond) or 'none'}")


if __name__ == "__main__":
    main()
