#!/usr/bin/env python3
"""Convolutions and products with constant weights: penstock-engine (xnnpack) beside oneDNN's primitives, one thread, f32 and bf16.

    onednn.py PRIMITIVES BUILD_DIR [--turns N] [--rounds N] [--seconds S] [--precision f32|bf16] [--shapes FILE] MODEL.onnx...

PRIMITIVES is the program made of primitives.c; onednn.sh makes it. Prints a Markdown table. In each turn ours and oneDNN's run one after the other, each for --seconds and at least
--rounds times. --shapes writes each layer's times, and the layers where oneDNN is faster by 10 %.
"""
import argparse
import json
import os
import subprocess
import time

import onnx

KINDS = {"Conv": "conv", "ConvTranspose": "deconv", "Gemm": "gemm", "MatMul": "gemm"}


class Layers:
    """The layers of a model that oneDNN would run: name -> the line for primitives.c."""

    def __init__(self, path):
        graph = onnx.shape_inference.infer_shapes(onnx.load(path)).graph
        self.shapes = {t.name: list(t.dims) for t in graph.initializer}
        self.constants = set(self.shapes) | {n.output[0] for n in graph.node if n.op_type == "Constant"}
        for value in list(graph.input) + list(graph.value_info) + list(graph.output):
            self.shapes.setdefault(value.name, [d.dim_value for d in value.type.tensor_type.shape.dim])
        self.users = {}
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
        self.lines = {}
        for node in graph.node:
            if node.op_type in KINDS and node.input[1] in self.constants:
                self.lines[node.name] = self.line(node)

    def activation(self, node):
        """What follows the layer and our engine fuses into it. A product's bias is an Add behind it."""
        users = self.users.get(node.output[0], [])
        if node.op_type == "MatMul" and len(users) == 1 and users[0].op_type == "Add" and set(users[0].input) & self.constants:
            users = self.users.get(users[0].output[0], [])
        kinds = sorted(u.op_type for u in users)
        if kinds == ["Div", "Mul"]:
            return "gelu"
        names = {"Relu": "relu", "Clip": "clip", "HardSwish": "hardswish", "Sigmoid": "sigmoid", "Mul+Sigmoid": "swish"}
        return names.get("+".join(kinds), "none")

    def line(self, node):
        x, w, y = (self.shapes[name] for name in (node.input[0], node.input[1], node.output[0]))
        values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        kind, numbers = KINDS[node.op_type], []
        if kind == "gemm":
            rows = 1
            for dim in y[:-1]:
                rows *= dim
            numbers = [rows, x[-1], y[-1]]
        else:
            dilations, strides = values.get("dilations", [1, 1]), values.get("strides", [1, 1])
            kernel, pads = w[2:], values.get("pads", [0, 0, 0, 0])
            if values.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
                raise SystemExit("%s: auto_pad is not known here" % node.name)
            numbers = x + [y[1]] + kernel + y[2:] + strides + pads + dilations + [values.get("group", 1)]
        return " ".join([kind, self.activation(node)] + [str(n) for n in numbers])


def ours(engine, path, precision, rounds, seconds, least):
    """Each node's least time in us. A bench of one run gives each node's time in that run; the least of many such processes counts."""
    end = time.monotonic() + seconds
    while rounds > 0 or time.monotonic() < end:
        rounds -= 1
        command = [engine, "bench", "--json", "--profile", "--model", path, "--backend", "xnnpack", "--threads", "1", "--precision", precision, "--runs", "1"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for node in report["nodes"]:
            least[node["node"]] = min(least.get(node["node"], 1e18), node["us"])


def theirs(program, layers, precision, rounds, seconds, least):
    """The same of oneDNN's primitives: (us, name of the implementation)."""
    done = subprocess.run([program, precision, str(rounds), str(seconds)], check=True, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"),
                          input="".join(line + "\n" for line in layers.lines.values()))
    for name, line in zip(layers.lines, done.stdout.splitlines()):
        us, kernel = line.split(" ", 1)
        least[name] = min(least.get(name, (1e18, "")), (float(us), kernel))


def by_shape(layers, least):
    """Layers of one shape all take the least time of them: the more they are, the surer one of them met a quiet moment."""
    best = {}
    for name, line in layers.lines.items():
        if name in least:
            best[line] = min(best.get(line, least[name]), least[name])
    return {name: best[line] for name, line in layers.lines.items() if name in least}


def both(options, engine, path, layers, precision):
    """In turns, so that a busy spell of the machine meets both."""
    own, other = {}, {}
    for _ in range(options.turns):
        ours(engine, path, precision, options.rounds, options.seconds, own)
        theirs(options.program, layers, precision, options.rounds, options.seconds, other)
    return by_shape(layers, own), by_shape(layers, other)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("build")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--precision", action="append", choices=["f32", "bf16"])
    parser.add_argument("--shapes", type=argparse.FileType("w"))
    options = parser.parse_args()
    engine = os.path.join(options.build, "bin", "penstock-engine")
    totals, wins = {}, {}
    print("| model | precision | layers | ours us | oneDNN us | oneDNN / ours | the better of both / ours |\n|---|---|---|---|---|---|---|")
    for path in options.models:
        layers = Layers(path)
        model = os.path.splitext(os.path.basename(path))[0]
        for precision in options.precision or ["f32", "bf16"]:
            own, other = both(options, engine, path, layers, precision)
            # A layer that our engine runs inside another one's step is in that one's time.
            ours_us = sum(own.get(name, 0) for name in layers.lines)
            theirs_us = sum(us for us, _ in other.values())
            best_us = sum(min(own[name], other[name][0]) if name in own else 0 for name in layers.lines)
            joined = [name for name in layers.lines if name not in own]
            count = "%d" % len(layers.lines) + (" (%d inside others)" % len(joined) if joined else "")
            print("| %s | %s | %s | %.0f | %.0f | %.2f | %.2f |" % (model, precision, count, ours_us, theirs_us, theirs_us / ours_us, best_us / ours_us), flush=True)
            total = totals.setdefault(precision, [0, 0, 0])
            for index, us in enumerate((ours_us, theirs_us, best_us)):
                total[index] += us
            for name, line in layers.lines.items():
                if options.shapes and name in own:
                    options.shapes.write("%s\t%s\t%s\t%s\t%.1f\t%.1f\t%s\n" % (model, precision, name, line, own[name], other[name][0], other[name][1]))
                if name in own and other[name][0] * 1.1 < own[name]:
                    won = wins.setdefault((precision, line), [0, 0, 0, other[name][1]])
                    won[0], won[1], won[2] = won[0] + 1, won[1] + own[name], won[2] + other[name][0]
    for precision, (a, b, c) in totals.items():
        print("| all | %s | | %.0f | %.0f | %.2f | %.2f |" % (precision, a, b, b / a, c / a))
    if options.shapes:
        for (precision, line), (times, a, b, kernel) in sorted(wins.items(), key=lambda i: i[1][2] - i[1][1]):
            options.shapes.write("faster\t%s\t%s\t%d times\t%.1f\t%.1f\t%s\n" % (precision, line, times, a, b, kernel))


main()
