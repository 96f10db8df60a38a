#!/usr/bin/env python3
"""One engine with one model in a process of its own, for compare.py: reads commands from stdin, answers each with a line of JSON.

    peer.py onnxruntime|openvino|litert MODEL THREADS f32|bf16

    inputs                  [[name, [dims], dtype], ...]; a dim that the model leaves open is null
    infer FEED.npz OUT.npz  one run on FEED; the outputs in the model's order
    time SECONDS            runs on the last feed for that long: {"median": ms, "best": ms}
"""
import json
import sys
import time

import numpy as np


class OnnxRuntime:
    def __init__(self, path, threads, precision):
        import onnxruntime
        if precision != "f32":
            raise ValueError("no bf16 on this processor")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def inputs(self):
        kinds = {"float": "float32", "double": "float64"}
        return [[i.name, [d if isinstance(d, int) else None for d in i.shape], kinds.get(i.type[7:-1], i.type[7:-1])] for i in self.session.get_inputs()]

    def run(self, feed):
        return self.session.run(None, feed)


class OpenVino:
    def __init__(self, path, threads, precision):
        import openvino
        core = openvino.Core()
        hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
        self.model = core.compile_model(core.read_model(path), "CPU", hints)
        self.request = self.model.create_infer_request()

    def inputs(self):
        return [[i.get_any_name(), [d.get_length() if d.is_static else None for d in i.partial_shape], np.dtype(i.element_type.to_dtype()).name]
                for i in self.model.inputs]

    def run(self, feed):
        done = self.request.infer(dict(enumerate(feed.values())), share_inputs=True, share_outputs=True)
        return [done[output] for output in self.model.outputs]


class LiteRt:
    def __init__(self, path, threads, precision):
        from ai_edge_litert.interpreter import Interpreter
        if precision != "f32":
            raise ValueError("f32 and integers only")
        self.interpreter = Interpreter(path, num_threads=threads)
        self.interpreter.allocate_tensors()
        self.details = self.interpreter.get_input_details()

    def inputs(self):
        return [[i["name"], [None if d < 0 else int(d) for d in i["shape_signature"]], np.dtype(i["dtype"]).name] for i in self.details]

    def run(self, feed):
        for detail, data in zip(self.details, feed.values()):
            if tuple(detail["shape"]) != data.shape:
                self.interpreter.resize_tensor_input(detail["index"], data.shape)
                self.interpreter.allocate_tensors()
            self.interpreter.set_tensor(detail["index"], data)
        self.interpreter.invoke()
        return [self.interpreter.get_tensor(o["index"]) for o in self.interpreter.get_output_details()]


def timed(engine, feed, seconds):
    times, until = [], time.perf_counter() + seconds
    engine.run(feed)
    while time.perf_counter() < until or len(times) < 3:
        begin = time.perf_counter()
        engine.run(feed)
        times.append((time.perf_counter() - begin) * 1e3)
    return {"median": sorted(times)[len(times) // 2], "best": min(times)}


def answer(engine, words, state):
    if words[0] == "inputs":
        return engine.inputs()
    if words[0] == "time":
        return timed(engine, state["feed"], float(words[1]))
    with np.load(words[1]) as file:
        state["feed"] = dict(file)
    np.savez(words[2], *engine.run(state["feed"]))
    return "done"


def main():
    kind, path, threads, precision = sys.argv[1:]
    engine, state = None, {}
    for line in sys.stdin:
        try:
            engine = engine or {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "litert": LiteRt}[kind](path, int(threads), precision)
            print(json.dumps({"ok": answer(engine, line.split(), state)}), flush=True)
        except Exception as error:  # a peer that cannot take the model is left out, and why is said
            print(json.dumps({"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}), flush=True)


if __name__ == "__main__":
    main()
