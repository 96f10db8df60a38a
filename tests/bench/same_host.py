#!/usr/bin/env python3
"""Inputs of 2 MB on one host: throughput beside the engine's own, and what the way through sealed memory adds to a job.

    same_host.py BUILD_DIR [--seconds 2] [--repeats 5]

The model is three convolutions on f32 [1, 3, 418, 418], about 270 million multiply-adds: what a MobileNet takes. All cases run in turn, `--repeats` times, so that
what else the machine does meets all of them. Printed are medians.
engine      `penstock-engine bench` in two processes at once, one thread each: two slots without a pool
sealed      a worker with two slots, eight jobs at a time, cache off
bytes       the same with --sealed-from 0
The share is a pool's jobs a second by the engine's. Beside it stands what a way adds: with one job at a time and an Identity as the model, client p50 less the
worker's compute p50, of a job of 2 MB in and out less that of one of 1 KiB. The last line is `bench_sealed`'s: what one payload's way takes of a processor, step by
step; its path is the path itself. Standard library only.
"""
import usage  # noqa: F401
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402
from pool import option  # noqa: E402

SIDE, BYTES = 418, 2 << 20


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def part(number, data):
    """A field of ONNX's protobuf: text or bytes, or a number."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def weights(name, dims):
    count, scale = 1, 0.05
    for dim in dims:
        count *= dim
    values = struct.pack(f"<{count}f", *(scale * ((i * 2654435761 >> 7) % 2001 - 1000) / 1000 for i in range(count)))
    return part(5, b"".join(part(1, dim) for dim in dims) + part(2, 1) + part(8, name) + part(9, values))


def value(number, name, dims):
    shape = b"".join(part(1, part(1, dim)) for dim in dims)
    return part(number, part(1, name) + part(2, part(1, part(1, 1) + part(2, shape))))


def node(kind, inputs, output, **lists):
    listed = b"".join(part(5, part(1, name) + b"".join(part(8, i) for i in ints) + part(20, 7)) for name, ints in lists.items())
    return part(1, b"".join(part(1, name) for name in inputs) + part(2, output) + part(4, kind) + listed)


def write_model(folder):
    graph, last = part(2, "convolutions"), "x"
    for i, (old, new, stride) in enumerate(((3, 16, 2), (16, 32, 2), (32, 64, 1))):
        graph += weights(f"w{i}", (new, old, 3, 3))
        graph += node("Conv", [last, f"w{i}"], f"c{i}", kernel_shape=(3, 3), strides=(stride, stride), pads=(1, 1, 1, 1)) + node("Relu", [f"c{i}"], f"r{i}")
        last = f"r{i}"
    graph += node("GlobalAveragePool", [last], "y") + value(11, "x", (1, 3, SIDE, SIDE)) + value(12, "y", (1, 64, 1, 1))
    (folder / "1").mkdir(parents=True)
    (folder / "1/model.onnx").write_bytes(part(1, 8) + part(7, graph) + part(8, part(2, 13)))
    (folder / "config.json").write_text('{"platform": "onnx", "max_batch_size": 0}\n')
    return folder / "1/model.onnx"


def engine_rate(build, model, seconds):
    """Runs a second of two processes at once."""
    command = [build / "bin/penstock-engine", "bench", "--model", model, "--threads", "1", "--seconds", f"{seconds}s", "--json"]
    slots = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return sum(json.loads(slot.communicate()[0])["runs_per_s"] for slot in slots)


def steps(build):
    return json.loads(subprocess.run([build / "tests/bench_sealed", str(BYTES), "300"], check=True, capture_output=True, text=True).stdout)


class Bench:
    def __init__(self, stack, build, seconds):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.build, self.seconds, self.model = build, seconds, write_model(folder / "models/convolutions")
        subprocess.run([build / "tests/bench_null_model", folder / "models"], check=True)
        (folder / "models/null/config.json").write_text('{"platform": "onnx", "max_batch_size": 0}\n')
        self.files = {"x": pool.npy(folder / "small.npy", (1, 1024), [os.urandom(1024)]),
                      "large": pool.npy(folder / "large.npy", (BYTES // 1024, 1024), (os.urandom(1024) for _ in range(BYTES // 1024)))}
        self.pools = {}
        for name, flags in (("sealed", ()), ("bytes", ("--sealed-from", 0))):
            broker = pool.start_broker(stack, build, "--http", "none", *flags)
            pool.start_worker(stack, build, broker["workers"], folder / "models", "xnnpack", "--slots", "2", "--threads", "1")
            self.pools[name] = broker["clients"]

    def rate(self, where):
        return pool.answer(pool.load(self.build, self.pools[where], "convolutions", self.seconds, "--concurrency", 8))["throughput_per_s"]

    def beside_compute(self, where, file):
        """What a job takes besides its computing, in us."""
        done = pool.answer(pool.load(self.build, self.pools[where], "null", self.seconds, "--concurrency", 1, "--input", f"bytes={self.files[file]}"))
        return done["latency_us"]["p50"] - done["compute_us"]["p50"]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, seconds, repeats = Path(sys.argv[1]).resolve(), option("--seconds", 2), option("--repeats", 5)
    shares, adds, ways = {"sealed": [], "bytes": []}, {"sealed": [], "bytes": []}, []
    with ExitStack() as stack:
        bench = Bench(stack, build, seconds)
        for _ in range(repeats):
            for where in shares:
                shares[where].append(bench.rate(where) / engine_rate(build, bench.model, seconds))
                adds[where].append(bench.beside_compute(where, "large") - bench.beside_compute(where, "x"))
            ways.append(steps(build))
    middle = statistics.median
    for where in shares:
        print(f"{where:8s} share of the engine's own {middle(shares[where]):5.2f}   adds to a job of 2 MB in and out {middle(adds[where]):7.0f} us")
    told = ("memory", "copy", "path", "read", "free")
    print("one way  " + "   ".join(f"{name} {middle([way[name + '_us'] for way in ways]):.0f} us" for name in told))


if __name__ == "__main__":
    main()
