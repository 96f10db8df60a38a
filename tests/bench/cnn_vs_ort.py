#!/usr/bin/env python3
"""MobileNetV2 and ResNet-50 on our xnnpack backend beside ONNX Runtime, in one interleaved run at 1 and 2 threads.

    cnn_vs_ort.sh BUILD_DIR [--rounds 5] [--seconds 2] [--model FILE.onnx]...

Each round times ours, then the peer, for every model and thread count, each in a fresh process; a figure is the median over the rounds of the
medians. cnn_vs_ort.sh makes the Python environment (numpy, onnx, onnxruntime by name) and the models.
"""
import usage  # noqa: F401
import json
import statistics
import subprocess
import sys
from pathlib import Path

# Run in a process of its own: threads of an earlier session must not linger.
PEER = """
import sys, time, numpy, onnxruntime
path, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
feed = {i.name: numpy.random.default_rng(1).random([d if isinstance(d, int) else 1 for d in i.shape], dtype=numpy.float32) for i in session.get_inputs()}
for _ in range(5):
    session.run(None, feed)
times, until = [], time.perf_counter() + seconds
while time.perf_counter() < until or len(times) < 10:
    begin = time.perf_counter()
    session.run(None, feed)
    times.append((time.perf_counter() - begin) * 1e3)
print(sorted(times)[len(times) // 2])
"""


def ours_ms(build, model, threads, seconds):
    command = [f"{build}/bin/penstock-engine", "bench", "--model", model, "--backend", "xnnpack", "--threads", str(threads),
               "--seconds", f"{seconds}s", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr}")
    return json.loads(done.stdout)


def peer_ms(model, threads, seconds):
    done = subprocess.run([sys.executable, "-c", PEER, model, str(threads), str(seconds)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ONNX Runtime failed: {done.stderr}")
    return float(done.stdout.split()[-1])


def parse():
    arguments, values, models = sys.argv[1:], {"--rounds": 5, "--seconds": 2}, []
    build = None
    while arguments:
        word = arguments.pop(0)
        if word in values:
            values[word] = int(arguments.pop(0))
        elif word == "--model":
            models.append(arguments.pop(0))
        else:
            build = word
    if not build or not models:
        sys.exit(__doc__)
    return build, models, values["--rounds"], values["--seconds"]


def main():
    import onnxruntime
    build, models, rounds, seconds = parse()
    cases = [(model, threads) for model in models for threads in (1, 2)]
    ours, peer, note = {}, {}, {}
    for _ in range(rounds):
        for case in cases:
            result = ours_ms(build, *case, seconds)
            ours.setdefault(case, []).append(result["median_ms"])
            note[case] = result
            peer.setdefault(case, []).append(peer_ms(*case, seconds))
    library = next(iter(note.values()))["library"]
    print(f"{rounds} interleaved rounds of {seconds} s each; ours: {library}; peer: ONNX Runtime {onnxruntime.__version__}")
    print(f"{'model':16} {'threads':>7} {'ours ms':>9} {'peer ms':>9} {'ratio':>6}   load ms  first ms  peak MiB  placement")
    for case in cases:
        a, b, last = statistics.median(ours[case]), statistics.median(peer[case]), note[case]
        print(f"{Path(case[0]).stem:16} {case[1]:7} {a:9.2f} {b:9.2f} {a / b:5.2f}x {last['load_ms']:9.1f} {last['first_run_ms']:9.1f} "
              f"{last['peak_rss_bytes'] / 1048576:9.1f}  {last['placement']}")


if __name__ == "__main__":
    main()
