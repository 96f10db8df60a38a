"""ort_check.py ENGINE [--seed N] [--backend B] - operators that the official cases leave out, beside ONNX Runtime.

The quantised operators (must agree bit for bit; whole models of them within one step) and those of com.microsoft, each a one-node ONNX file with seeded inputs, ONNX Runtime's graph
optimisation off. An operator that the engine refuses by name is listed. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

MS = "com.microsoft"


class Draw:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def f(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def q(self, dtype, *shape):
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def scale(self, low=0.003, high=0.2):
        return np.float32(self.rng.uniform(low, high))


def quantised(d):
    u8, i8 = np.uint8, np.int8
    for t in (u8, i8):
        x, bias = d.q(t, 2, 5, 9, 9), d.rng.integers(-1000, 1000, 8).astype(np.int32)
        pair = lambda low=0.003, high=0.2: [d.scale(low, high), d.q(t)]
        kernel, per_channel = d.q(i8, 8, 5, 3, 3), d.rng.uniform(0.003, 0.1, 8).astype(np.float32)
        yield "QLinearConv", "", [x, *pair(), kernel, d.scale(), i8(0), *pair(0.5, 3), bias], {0}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        yield "QLinearConv", "", [x, *pair(), kernel, per_channel, np.zeros(8, i8), *pair(0.5, 3)], {0}, {"kernel_shape": [3, 3], "strides": [2, 2]}
        yield "QLinearConv", "", [x, *pair(), d.q(i8, 5, 1, 3, 3), d.scale(), i8(0), *pair()], {0}, {"kernel_shape": [3, 3], "group": 5}
        yield "QLinearMatMul", "", [d.q(t, 7, 32), *pair(), d.q(t, 32, 9), *pair(), *pair(0.5, 3)], {0}, {}
        yield "QuantizeLinear", "", [5 * d.f(40, 50), *pair()], {0}, {}
        yield "DequantizeLinear", "", [d.q(t, 40, 50), *pair()], {0}, {}
        for op in ("QLinearAdd", "QLinearMul"):
            yield op, MS, [x, *pair(), d.q(t, 2, 5, 9, 9), *pair(), *pair()], {0, 3}, {}
        unit = [np.float32(1 / 256), t(np.iinfo(t).min)]
        yield "QLinearSigmoid", MS, [x, *pair(), *unit], {0}, {}
        yield "QLinearLeakyRelu", MS, [x, *pair(), *pair()], {0}, {"alpha": 0.1}
        yield "QLinearAveragePool", MS, [x, *pair(), *pair()], {0}, {"kernel_shape": [3, 3]}
        yield "QLinearGlobalAveragePool", MS, [x, *pair(), *pair()], {0}, {}
        yield "QLinearSoftmax", MS, [d.q(t, 4, 40), *pair(), *unit], {0}, {"opset": 13, "axis": -1}
        yield "QLinearConcat", MS, [*pair(), x, *pair(), d.q(t, 2, 3, 9, 9), *pair()], {2, 5}, {"axis": 1}
        yield "QGemm", MS, [d.q(t, 7, 32), *pair(), d.q(i8, 32, 9), d.scale(), i8(0), bias[:1].repeat(9), *pair(0.5, 3)], {0}, {}
        yield "MatMulInteger", "", [d.q(t, 7, 32), d.q(t, 32, 9), d.q(t), d.q(t)], {0}, {}
        yield "ConvInteger", "", [d.q(u8, 1, 3, 7, 7), d.q(u8, 4, 3, 3, 3), d.q(u8), d.q(u8)], {0}, {}
    yield "DynamicQuantizeLinear", "", [5 * d.f(40, 50)], {0}, {}


def contrib(d):
    x, g = d.f(2, 6, 16), d.f(16)
    yield "MatMulNBits", MS, [d.f(3, 64), d.q(np.uint8, 8, 2, 16), d.f(16)], {0}, {"K": 64, "N": 8, "bits": 4, "block_size": 32}
    yield "Attention", MS, [x, d.f(16, 48), d.f(48)], {0}, {"num_heads": 4}
    yield "Attention", MS, [x, d.f(16, 48), d.f(48), np.array([4, 6], np.int32)], {0}, {"num_heads": 2}
    yield "Attention", MS, [x, d.f(16, 48), d.f(48)], {0}, {"num_heads": 2, "unidirectional": 1}
    yield "MultiHeadAttention", MS, [x, d.f(2, 5, 16), d.f(2, 5, 16)], {0, 1, 2}, {"num_heads": 4}
    yield "MultiHeadAttention", MS, [x, d.f(2, 6, 16), d.f(2, 6, 16), d.f(48)], {0, 1, 2}, {"num_heads": 2}
    yield "Gelu", MS, [x], {0}, {}
    yield "QuickGelu", MS, [x], {0}, {"alpha": 1.702}
    yield "FastGelu", MS, [x], {0}, {}
    yield "FastGelu", MS, [x, g], {0}, {}
    yield "BiasGelu", MS, [x, g], {0}, {}
    yield "FusedMatMul", MS, [d.f(5, 4, 6), d.f(5, 7, 6)], {0, 1}, {"transB": 1, "alpha": 0.5}
    yield "FusedMatMul", MS, [d.f(5, 6, 4), d.f(6, 7)], {0, 1}, {"transA": 1}
    yield "FusedGemm", MS, [d.f(5, 6), d.f(6, 7), d.f(7)], {0}, {"activation": "Relu"}
    yield "FusedConv", MS, [d.f(1, 3, 8, 8), d.f(4, 3, 3, 3), d.f(4)], {0}, {"kernel_shape": [3, 3], "activation": "Relu"}
    yield "FusedConv", MS, [d.f(1, 3, 8, 8), d.f(4, 3, 3, 3), d.f(4)], {0}, {"kernel_shape": [3, 3], "activation": "LeakyRelu", "activation_params": [0.1]}
    yield "SkipLayerNormalization", MS, [x, d.f(2, 6, 16), g, d.f(16), d.f(16)], {0, 1}, {"epsilon": 1e-5}
    yield "SkipLayerNormalization", MS, [x, d.f(2, 6, 16), g], {0, 1}, {"epsilon": 1e-5}
    yield "SkipSimplifiedLayerNormalization", MS, [x, d.f(2, 6, 16), g], {0, 1}, {"epsilon": 1e-5}
    ids = d.rng.integers(0, 9, (2, 4)).astype(np.int32)
    yield "EmbedLayerNormalization", MS, [ids, np.minimum(ids, 1), d.f(10, 8), d.f(6, 8), d.f(2, 8), d.f(8), d.f(8)], {0, 1}, {"epsilon": 1e-5}
    yield "DynamicQuantizeMatMul", MS, [d.f(3, 16), d.q(np.int8, 16, 8), d.scale(), np.int8(0)], {0}, {}
    yield "MatMulIntegerToFloat", MS, [d.q(np.uint8, 3, 16), d.q(np.int8, 16, 8), d.scale(), d.scale(), d.q(np.uint8), np.int8(0)], {0}, {}
    yield "BiasSoftmax", MS, [d.f(2, 4, 6), d.f(1, 4, 6)], {0, 1}, {"axis": 2, "is_inner_broadcast": 0}
    yield "QAttention", MS, [d.q(np.uint8, 2, 6, 16), d.q(np.int8, 16, 48), d.f(48), d.scale(), d.scale(), "", d.q(np.uint8), np.int8(0)], {0}, {"num_heads": 4}
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    yield "Attention", MS, [x, d.f(16, 48), d.f(48), mask], {0}, {"num_heads": 4}
    yield "Attention", MS, [x, d.f(16, 48), d.f(48), mask, "", d.f(2, 4, 6, 6)], {0, 3, 5}, {"num_heads": 4, "scale": 0.3}
    yield "MultiHeadAttention", MS, [x, d.f(2, 6, 16), d.f(2, 6, 16), d.f(48), mask], {0, 1, 2, 4}, {"num_heads": 2}
    yield "MultiHeadAttention", MS, [x, d.f(2, 6, 16), d.f(2, 6, 16), "", "", d.f(1, 4, 6, 6)], {0, 1, 2}, {"num_heads": 4, "unidirectional": 1}
    yield "MultiHeadAttention", MS, [d.f(2, 3, 16), d.f(2, 4, 5, 4), d.f(2, 4, 5, 4)], {0, 1, 2}, {"num_heads": 4}
    angles = d.rng.uniform(0, 3, (10, 4)).astype(np.float32)
    where = d.rng.integers(0, 10, (2, 6))
    for form in (0, 1):
        yield "RotaryEmbedding", MS, [d.f(2, 4, 6, 8), where, np.cos(angles), np.sin(angles)], {0, 1}, {"interleaved": form}
        yield "RotaryEmbedding", MS, [d.f(2, 6, 32), where, np.cos(angles), np.sin(angles)], {0, 1}, {"interleaved": form}
    wide = d.rng.uniform(0, 3, (10, 8)).astype(np.float32)
    table = [np.cos(wide), np.sin(wide)]
    for heads in ({"num_heads": 4, "kv_num_heads": 2}, {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 3, "softcap": 2.0}):
        empty, total, fed = np.zeros((2, 2, 0, 16), np.float32), np.array([5], np.int32), {0, 1, 2, 3, 4, 5, 6}
        prompt = [d.f(2, 5, 64), d.f(2, 5, 32), d.f(2, 5, 32), empty, empty, np.array([4, 4], np.int32), total]
        yield "GroupQueryAttention", MS, [*prompt, *table], fed, {**heads, "do_rotary": 1}
        step = [d.f(2, 1, 64), d.f(2, 1, 32), d.f(2, 1, 32), d.f(2, 2, 6, 16), d.f(2, 2, 6, 16), np.array([6, 6], np.int32), np.array([7], np.int32)]
        yield "GroupQueryAttention", MS, [*step, *table], fed, {**heads, "do_rotary": 1, "rotary_interleaved": 1}
        yield "GroupQueryAttention", MS, step, fed, heads
    for last in (0, 1):
        image = d.f(2, 5, 7, 8) if last else d.f(2, 8, 5, 7)
        yield "GroupNorm", MS, [image, d.f(8), d.f(8)], {0}, {"groups": 2, "activation": last, "channels_last": last}
    yield "SkipGroupNorm", MS, [d.f(2, 5, 7, 8), d.f(8), d.f(8), d.f(2, 5, 7, 8), d.f(8)], {0, 3}, {"groups": 4}
    yield "BiasSplitGelu", MS, [x, g], {0}, {}
    yield "BiasAdd", MS, [x, g, d.f(2, 6, 16)], {0}, {}
    yield "GatherBlockQuantized", MS, [int4_table(d, 7, 64), np.array([[1, 6], [0, 1]]), d.f(7, 2)], {1}, {"block_size": 32}
    yield "GatherBlockQuantized", MS, [int4_table(d, 7, 64), np.array([[1, 6], [0, 1]]), d.f(7, 4), int4_table(d, 7, 4)], {1}, {"block_size": 16}
    yield "NhwcMaxPool", MS, [d.q(np.uint8, 1, 9, 8, 5)], {0}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield "NhwcMaxPool", MS, [d.q(np.int8, 1, 9, 8, 5)], {0}, {"kernel_shape": [2, 2]}
    for t in (np.uint8, np.int8, np.int16, np.uint16):
        yield "QuantizeLinear", MS, [5 * d.f(40, 50), d.scale(), d.q(t)], {0}, {}
        yield "DequantizeLinear", MS, [d.q(t, 40, 50), d.scale(), d.q(t)], {0}, {}
    yield "Inverse", MS, [d.f(2, 4, 4)], {0}, {}
    yield "TransposeMatMul", MS, [d.f(4, 5), d.f(4, 6)], {0, 1}, {"transA": 1}


def group_norm(x, scale, bias, groups, activation=0, channels_last=1):
    first = np.moveaxis(x, 3, 1) if channels_last else x
    parts = first.reshape(first.shape[0], groups, -1).astype(np.float64)
    y = ((parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)).reshape(first.shape)
    y = y * scale[:, None, None] + bias[:, None, None]
    y = y / (1 + np.exp(-y)) if activation else y
    return np.moveaxis(y, 1, 3) if channels_last else y


def split_gelu(x, bias):
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    return left * right * 0.5 * (1 + np.vectorize(math.erf)(right / np.sqrt(2)))


# What ONNX Runtime has for other devices only, in NumPy.
FORMULAS = {
    "GroupNorm": group_norm,
    "SkipGroupNorm": lambda x, scale, bias, skip, add, **rest: group_norm(x + skip + add, scale, bias, **rest),
    "BiasSplitGelu": split_gelu,
    "BiasAdd": lambda x, bias, skip: x + bias + skip,
}


def int4_table(d, rows, columns):
    return helper.make_tensor("", onnx.TensorProto.UINT4, (rows, columns), d.rng.integers(0, 16, rows * columns))


def constant(value, name):
    made = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value, name)
    made.name = name
    return made


def qdq_model(d, t):
    """Float operators between DequantizeLinear and QuantizeLinear, as exporters write quantised models."""
    zero, nodes, weights = np.iinfo(t).min + 128, [], []

    def const(a, name):
        weights.append(numpy_helper.from_array(np.asarray(a), name))
        return name

    def pair(op, x, scale, point, name, **rest):
        nodes.append(helper.make_node(op, [x, const(np.asarray(scale, np.float32), name + "_s"), const(point, name + "_z")], [name], **rest))
        return name

    now, scale, point, channels = pair("QuantizeLinear", "x", 0.02, t(zero), "xq"), 0.02, t(zero), 3
    for i, more in enumerate((8, 12, 16)):
        ws = (d.rng.uniform(0.5, 1.5, more) * 0.02 / np.sqrt(channels * 9)).astype(np.float32)
        kernel = pair("DequantizeLinear", const(d.q(np.int8, more, channels, 3, 3), f"w{i}"), ws, np.zeros(more, np.int8), f"wf{i}", axis=0)
        bias = pair("DequantizeLinear", const(d.rng.integers(-500, 500, more).astype(np.int32), f"b{i}"), ws * np.float32(scale), np.zeros(more, np.int32), f"bf{i}", axis=0)
        nodes.append(helper.make_node("Conv", [pair("DequantizeLinear", now, scale, point, f"xf{i}"), kernel, bias], [f"c{i}"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1 + i % 2] * 2))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        now, point, channels = pair("QuantizeLinear", f"r{i}", 0.02, t(np.iinfo(t).min), f"q{i}"), t(np.iinfo(t).min), more
    for op, name in (("MaxPool", "mp"), ("GlobalAveragePool", "gap"), ("Flatten", "fl")):
        kernel = {"kernel_shape": [2, 2], "strides": [2, 2]} if op == "MaxPool" else {}
        nodes.append(helper.make_node(op, [pair("DequantizeLinear", now, 0.02, point, name + "f")], [name], **kernel))
        now = pair("QuantizeLinear", name, 0.02, point, name + "q")
    matrix = pair("DequantizeLinear", const(d.q(np.int8, channels, 10), "wm"), 0.002, np.int8(0), "wmf")
    nodes.append(helper.make_node("MatMul", [pair("DequantizeLinear", now, 0.02, point, "ff"), matrix], ["mm"]))
    pair("QuantizeLinear", "mm", 0.05, t(zero), "y0")
    graph = helper.make_graph(nodes, "qdq", [helper.make_tensor_value_info("x", 1, [1, 3, 16, 16])], [helper.make_empty_tensor_value_info("y0")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), {"x": d.f(1, 3, 16, 16)}


def whole(d):
    for t in (np.uint8, np.int8):
        yield "QDQ model", "", [], set(), {}, qdq_model(d, t)


def model_of(check):
    if len(check) > 5:
        return check[5]
    op, domain, inputs, fed, attributes = check
    names = ["" if isinstance(v, str) else f"x{i}" for i, v in enumerate(inputs)]
    arrays = [None if isinstance(v, str) else v if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in inputs]
    count = 3 if op in ("DynamicQuantizeLinear", "GroupQueryAttention") else 2 if op == "EmbedLayerNormalization" else 1
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"y{i}" for i in range(count)], domain=domain, **attributes)],
        op,
        [helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(arrays[i].dtype), arrays[i].shape) for i in sorted(fed)],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in range(count)],
        [constant(a, n) for i, (n, a) in enumerate(zip(names, arrays)) if n and i not in fed],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), {names[i]: arrays[i] for i in sorted(fed)}


def peer_run(model, feed):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def engine_run(engine, backend, model, feed, want, folder):
    del model.graph.output[:]
    for i, w in enumerate(want):
        model.graph.output.append(helper.make_tensor_value_info(f"y{i}", helper.np_dtype_to_tensor_dtype(w.dtype), w.shape))
    onnx.save(model, folder / "model.onnx")
    command = [engine, "run", "--model", folder / "model.onnx", "--output-dir", folder, "--json", "--backend", backend]
    for name, array in feed.items():
        np.save(folder / f"{name}.npy", array)
        command += ["--input", f"{name}={folder}/{name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    json.loads(done.stdout)
    return [np.load(folder / f"y{i}.npy") for i in range(len(want))]


def difference(got, want, steps=0):
    for i, (a, b) in enumerate(zip(got, want)):
        d = np.abs(a.astype(np.float64) - b.astype(np.float64))
        bound = 1e-5 + 1e-4 * np.abs(b) if b.dtype == np.float32 else steps
        if a.shape != b.shape or a.dtype != b.dtype or not (d <= bound).all():
            return f"output {i}: {int((~(d <= bound)).sum())} of {d.size} differ, by up to {d.max():.3g}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="reference")
    options = parser.parse_args()
    passed = failed = 0
    refused, absent = set(), set()
    with tempfile.TemporaryDirectory() as name:
        for group in (quantised, contrib, whole):
            for check in group(Draw(options.seed)):
                model, feed = model_of(check)
                try:
                    want = peer_run(model, feed)
                except Exception as error:  # noqa: BLE001 - the peer's own types are not public
                    want = None
                    if check[0] in FORMULAS:
                        want = [FORMULAS[check[0]](*check[2], **check[4]).astype(np.float32)]
                if want is None:
                    absent.add(check[0])
                    continue
                try:
                    reason = difference(engine_run(options.engine, options.backend, model, feed, want, Path(name)), want, len(check) > 5)
                except RuntimeError as error:
                    if "does not know" in str(error):
                        refused.add(check[0])
                        continue
                    reason = str(error)
                passed, failed = passed + (reason is None), failed + (reason is not None)
                if reason is not None:
                    print(f"  wrong: {check[0]} {check[4]}: {reason}")
    if absent:
        print("ONNX Runtime cannot: " + "; ".join(sorted(absent)))
    if refused:
        print("the engine refuses by name: " + ", ".join(sorted(refused)))
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
