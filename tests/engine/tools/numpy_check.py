"""numpy_check.py ENGINE [--backend B]... - recomputes operators with NumPy from what `penstock-engine run` gives.

An independent check: the formulas below are written from the operators' definitions and share nothing with the engine or the official cases. Each check
is a one-node ONNX file with seeded inputs. The last line is `N passed, N failed, N skipped`.
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
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

OPSET = 21
rng = np.random.default_rng(20240521)
CHECKS = []


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def uniform(low, high, *shape):
    return rng.uniform(low, high, shape).astype(np.float32)


def check(op, inputs, expected, constants=(), rtol=1e-4, atol=1e-5, **attributes):
    """expected: an array, a tuple of arrays, or a function of the inputs as float64. constants: positions of inputs that are initialisers."""
    CHECKS.append((op, inputs, expected, set(constants), rtol, atol, attributes))


def erf(x):
    return np.vectorize(math.erf)(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def windows(x, kernel, strides, pads, fill):
    """x [n, c, h, w] -> [n, c, oh, ow, kh, kw]"""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    return sliding_window_view(x, kernel, axis=(2, 3))[:, :, :: strides[0], :: strides[1]]


def conv(x, w, b, strides, pads, group):
    outs = []
    for g in range(group):
        cin, cout = w.shape[1], w.shape[0] // group
        part = windows(x[:, g * cin : (g + 1) * cin], w.shape[2:], strides, pads, 0)
        outs.append(np.einsum("nchwij,ocij->nohw", part, w[g * cout : (g + 1) * cout]))
    return np.concatenate(outs, axis=1) + b[None, :, None, None]


def conv_transpose(x, w, stride):
    n, c, h, wd = x.shape
    _, m, kh, kw = w.shape
    y = np.zeros((n, m, (h - 1) * stride + kh, (wd - 1) * stride + kw))
    for i in range(h):
        for j in range(wd):
            y[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw] += np.einsum("nc,cmij->nmij", x[:, :, i, j], w)
    return y


def lstm(x, w, r, b):
    """One direction, gates i o f c; y [seq, 1, batch, hidden]."""
    hidden = r.shape[2]
    h = c = np.zeros((x.shape[1], hidden))
    bias = b[0, : 4 * hidden] + b[0, 4 * hidden :]
    ys = []
    for step in x:
        i, o, f, g = np.split(step @ w[0].T + h @ r[0].T + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        ys.append(h)
    return np.stack(ys)[:, None], h[None], c[None]


def gru(x, w, r):
    """One direction, gates z r h, linear_before_reset 0."""
    hidden = r.shape[2]
    h = np.zeros((x.shape[1], hidden))
    ys = []
    for step in x:
        wz, wr, wh = np.split(w[0], 3)
        rz, rr, rh = np.split(r[0], 3)
        z = sigmoid(step @ wz.T + h @ rz.T)
        reset = sigmoid(step @ wr.T + h @ rr.T)
        new = np.tanh(step @ wh.T + (reset * h) @ rh.T)
        h = (1 - z) * new + z * h
        ys.append(h)
    return np.stack(ys)[:, None], h[None]


def element_wise():
    x = normal(2, 3, 5)
    p = uniform(0.1, 3, 2, 3, 5)
    for op, f in {
        "Abs": np.abs, "Neg": np.negative, "Exp": np.exp, "Tanh": np.tanh, "Sin": np.sin, "Cos": np.cos, "Atan": np.arctan, "Sinh": np.sinh,
        "Erf": erf, "Sigmoid": sigmoid, "Relu": lambda v: np.maximum(v, 0), "Softplus": lambda v: np.log1p(np.exp(v)), "Floor": np.floor,
        "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign, "Softsign": lambda v: v / (1 + np.abs(v)),
        "Gelu": lambda v: v * 0.5 * (1 + erf(v / math.sqrt(2))), "HardSwish": lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
        "Mish": lambda v: v * np.tanh(np.log1p(np.exp(v))),
    }.items():
        check(op, [x * 2], f)
    check("Log", [p], np.log)
    check("Sqrt", [p], np.sqrt)
    check("Reciprocal", [p], lambda v: 1 / v)
    check("LeakyRelu", [x], lambda v: np.where(v < 0, 0.1 * v, v), alpha=0.1)
    check("Elu", [x], lambda v: np.where(v < 0, 1.5 * (np.exp(v) - 1), v), alpha=1.5)
    check("HardSigmoid", [x], lambda v: np.clip(0.25 * v + 0.5, 0, 1), alpha=0.25, beta=0.5)
    check("Clip", [x, np.float32(-0.5), np.float32(0.7)], lambda v, a, b: np.clip(v, a, b), constants=[1, 2])
    check("PRelu", [x, uniform(0, 1, 5)], lambda v, s: np.where(v < 0, s * v, v), constants=[1])
    y = normal(3, 1)
    check("Add", [x, y], lambda a, b: a + b)
    check("Sub", [x, y], lambda a, b: a - b)
    check("Mul", [x, y], lambda a, b: a * b)
    check("Div", [x, uniform(0.5, 2, 5)], lambda a, b: a / b)
    check("Pow", [p, uniform(-1, 2, 5)], lambda a, b: a**b)
    check("Max", [x, y], np.maximum)
    i, j = rng.integers(-50, 50, (4, 5)), rng.integers(1, 9, (5,))
    check("Mod", [i, j], lambda a, b: np.mod(a, b))
    check("Div", [i, j], np.trunc(i / j).astype(np.int64))
    check("Less", [x, y], x < y)
    check("Where", [x > 0, x, y], np.where(x > 0, x, y))
    check("Cast", [x * 9], (x * 9).astype(np.int32), to=TensorProto.INT32)


def matrices():
    check("MatMul", [normal(2, 3, 4, 5), normal(5, 6)], np.matmul)
    check("MatMul", [normal(2, 3, 4, 5), normal(3, 5, 6)], np.matmul)
    check("Gemm", [normal(7, 5), normal(6, 7), normal(6)], lambda a, b, c: 0.5 * (a.T @ b.T) + 2 * c, constants=[1, 2], transA=1, transB=1, alpha=0.5, beta=2.0)
    check("Einsum", [normal(2, 3, 4), normal(2, 4, 5)], lambda a, b: np.einsum("bij,bjk->bik", a, b), equation="bij,bjk->bik")
    check("Det", [normal(2, 4, 4)], np.linalg.det)
    x, w, b = normal(2, 4, 9, 8), normal(6, 4, 3, 3), normal(6)
    check("Conv", [x, w, b], lambda *a: conv(*a, (2, 1), (1, 1, 1, 1), 1), constants=[1, 2], strides=[2, 1], pads=[1, 1, 1, 1])
    check("Conv", [x, normal(4, 1, 3, 3), normal(4)], lambda *a: conv(*a, (1, 1), (0, 0, 0, 0), 4), constants=[1, 2], group=4)
    check("Conv", [x, normal(8, 2, 1, 1), normal(8)], lambda *a: conv(*a, (1, 1), (0, 0, 0, 0), 2), constants=[1, 2], group=2)
    check("ConvTranspose", [normal(1, 3, 4, 5), normal(3, 2, 3, 3)], lambda a, k: conv_transpose(a, k, 2), constants=[1], strides=[2, 2])


def pools_and_norms():
    x = normal(2, 4, 8, 7)
    check("MaxPool", [x], lambda v: windows(v, (3, 2), (2, 1), (1, 0, 1, 1), -np.inf).max(axis=(4, 5)), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    check("AveragePool", [x], lambda v: windows(v, (2, 2), (2, 2), (0, 0, 0, 0), 0).mean(axis=(4, 5)), kernel_shape=[2, 2], strides=[2, 2])
    check("GlobalAveragePool", [x], lambda v: v.mean(axis=(2, 3), keepdims=True))
    check("GlobalMaxPool", [x], lambda v: v.max(axis=(2, 3), keepdims=True))
    s, b, m, var = normal(4), normal(4), normal(4), uniform(0.5, 2, 4)
    shaped = lambda v: v.reshape(1, 4, 1, 1)
    check("BatchNormalization", [x, s, b, m, var], lambda v, *p: (v - shaped(p[2])) / np.sqrt(shaped(p[3]) + 1e-5) * shaped(p[0]) + shaped(p[1]), constants=[1, 2, 3, 4])

    def instance(v, scale, bias):
        mean, variance = v.mean(axis=(2, 3), keepdims=True), v.var(axis=(2, 3), keepdims=True)
        return (v - mean) / np.sqrt(variance + 1e-5) * shaped(scale) + shaped(bias)

    check("InstanceNormalization", [x, s, b], instance, constants=[1, 2])
    layer = lambda v, g, c: (v - v.mean(axis=-1, keepdims=True)) / np.sqrt(v.var(axis=-1, keepdims=True) + 1e-5) * g + c
    check("LayerNormalization", [x, normal(7), normal(7)], layer, constants=[1, 2])
    check("LpNormalization", [x], lambda v: v / np.linalg.norm(v, axis=1, keepdims=True), axis=1)
    for axis in (-1, 1):
        check("Softmax", [x], lambda v, a=axis: softmax(v, a), axis=axis)
    check("LogSoftmax", [x], lambda v: np.log(softmax(v, 2)), axis=2)


def reductions():
    x = normal(3, 4, 5)
    axes = np.array([1], np.int64)
    pair = np.array([0, -1], np.int64)
    check("ReduceSum", [x, pair], x.astype(float).sum(axis=(0, 2), keepdims=True), constants=[1])
    check("ReduceMean", [x, axes], x.astype(float).mean(axis=1), constants=[1], keepdims=0)
    check("ReduceMax", [x, axes], x.max(axis=1, keepdims=True), constants=[1])
    check("ReduceMin", [x, pair], x.min(axis=(0, 2), keepdims=True), constants=[1])
    check("ReduceProd", [x, axes], x.astype(float).prod(axis=1, keepdims=True), constants=[1])
    check("ReduceL1", [x, axes], np.abs(x.astype(float)).sum(axis=1, keepdims=True), constants=[1])
    check("ReduceL2", [x, axes], np.sqrt((x.astype(float) ** 2).sum(axis=1, keepdims=True)), constants=[1])
    check("ReduceSumSquare", [x, axes], (x.astype(float) ** 2).sum(axis=1, keepdims=True), constants=[1])
    check("ReduceLogSumExp", [x, axes], np.log(np.exp(x.astype(float)).sum(axis=1, keepdims=True)), constants=[1])
    check("ArgMax", [x], x.argmax(axis=1)[:, None], axis=1)
    check("ArgMin", [x], x.argmin(axis=2), axis=2, keepdims=0)
    check("CumSum", [x, np.array(1, np.int64)], np.cumsum(x.astype(float), axis=1), constants=[1])
    values = np.sort(x, axis=2)[:, :, ::-1][:, :, :3]
    check("TopK", [x, np.array([3], np.int64)], (values, np.argsort(-x, axis=2)[:, :, :3]), constants=[1], axis=2)


def movement():
    x = normal(3, 4, 5)
    ints = lambda *v: np.array(v, np.int64)
    check("Transpose", [x], x.transpose(2, 0, 1), perm=[2, 0, 1])
    check("Reshape", [x, ints(0, 2, -1)], x.reshape(3, 2, 10), constants=[1])
    check("Concat", [x, normal(3, 2, 5)], lambda a, b: np.concatenate([a, b], axis=1), axis=1)
    check("Split", [x, ints(1, 3)], (x[:, :1], x[:, 1:]), constants=[1], axis=1)
    check("Slice", [x, ints(-1, 0), ints(-9, 4), ints(1, 2), ints(-2, 3)], x[:, -1:-9:-2, 0:4:3], constants=[1, 2, 3, 4])
    check("Gather", [x, np.array([[0, -1], [2, 1]])], np.take(x, [[0, -1], [2, 1]], axis=1), axis=1)
    check("GatherElements", [x, np.array([[[0, 1, 2, 3, 0]]])], np.take_along_axis(x[:1], np.array([[[0, 1, 2, 3, 0]]]), axis=1), axis=1)
    check("GatherND", [x, np.array([[0, 1], [2, 3]])], x[[0, 2], [1, 3]])
    scattered = x.copy()
    scattered[[2, 0]] = normal(2, 4, 5)
    check("ScatterND", [x, np.array([[2], [0]]), scattered[[2, 0]]], scattered)
    for mode in ("constant", "reflect", "edge"):
        check("Pad", [x, ints(0, 1, 2, 1, 2, 1)], np.pad(x, ((0, 1), (1, 2), (2, 1)), mode=mode), constants=[1], mode=mode)
    check("Tile", [x, ints(1, 2, 3)], np.tile(x, (1, 2, 3)), constants=[1])
    check("Expand", [normal(4, 1), ints(2, 4, 3)], lambda v, _: np.broadcast_to(v, (2, 4, 3)), constants=[1])
    check("Trilu", [x, np.array(1, np.int64)], np.triu(x, 1), constants=[1], upper=1)
    check("DepthToSpace", [normal(1, 8, 2, 3)], lambda v: v.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6), blocksize=2)
    check("OneHot", [np.array([0, 3, -1]), np.array(4, np.int64), np.array([2, 7], np.float32)], 2 + 5 * np.eye(4, dtype=np.float32)[[0, 3, 3]], constants=[1, 2])
    check("Range", [np.float32(1), np.float32(9), np.float32(2.5)], np.arange(1, 9, 2.5, np.float32))
    sparse = np.where(x > 0.5, x, np.float32(0))
    check("NonZero", [sparse], np.stack(np.nonzero(sparse)))


def recurrent_signal_quantised():
    x = normal(4, 2, 3)
    check("LSTM", [x, normal(1, 20, 3), normal(1, 20, 5), normal(1, 40)], lstm, constants=[1, 2, 3], hidden_size=5)
    check("GRU", [x, normal(1, 15, 3), normal(1, 15, 5)], gru, constants=[1, 2], hidden_size=5)
    wave = normal(1, 16, 1)
    spectrum = np.fft.fft(wave[0, :, 0])
    check("DFT", [wave, "", np.array(1, np.int64)], np.stack([spectrum.real, spectrum.imag], axis=-1)[None], constants=[2])
    scale, zero = np.float32(0.03), np.uint8(9)
    q = np.clip(np.rint(x / scale) + 9, 0, 255).astype(np.uint8)
    check("QuantizeLinear", [x, scale, zero], q, constants=[1, 2])
    check("DequantizeLinear", [q, scale, zero], (q.astype(np.float32) - 9) * scale, constants=[1, 2])
    a, b = rng.integers(0, 255, (5, 8), np.uint8), rng.integers(0, 255, (8, 6), np.uint8)
    product = (a.astype(np.int64) - 7) @ (b.astype(np.int64) - 120)
    check("MatMulInteger", [a, b, np.uint8(7), np.uint8(120)], product.astype(np.int32), constants=[1, 2, 3])
    out = np.clip(np.rint(product * (0.02 * 0.01 / 0.5)) + 100, 0, 255).astype(np.uint8)
    check("QLinearMatMul", [a, np.float32(0.02), np.uint8(7), b, np.float32(0.01), np.uint8(120), np.float32(0.5), np.uint8(100)], out, constants=[1, 2, 3, 4, 5, 6, 7], atol=1)


def expected_of(item):
    op, inputs, expected = item[:3]
    if callable(expected):
        expected = expected(*[np.asarray(v).astype(np.float64) if np.asarray(v).dtype == np.float32 else v for v in inputs if not isinstance(v, str)])
    return [np.asarray(v) for v in (expected if isinstance(expected, tuple) else (expected,))]


def model_write(path, item, outputs):
    op, inputs, _, constants, _, _, attributes = item
    names = [f"x{i}" if not isinstance(v, str) else "" for i, v in enumerate(inputs)]
    arrays = [np.asarray(v) if not isinstance(v, str) else None for v in inputs]
    kinds = [TensorProto.FLOAT if o.dtype == np.float64 else helper.np_dtype_to_tensor_dtype(o.dtype) for o in outputs]
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"y{i}" for i in range(len(outputs))], **attributes)],
        op,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for i, (n, a) in enumerate(zip(names, arrays)) if n and i not in constants],
        [helper.make_tensor_value_info(f"y{i}", k, [None] * o.ndim) for i, (k, o) in enumerate(zip(kinds, outputs))],
        [numpy_helper.from_array(arrays[i], names[i]) for i in sorted(constants)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10), path)


def engine_run(engine, backend, item, outputs, folder):
    model_write(folder / "model.onnx", item, outputs)
    command = [engine, "run", "--model", folder / "model.onnx", "--output-dir", folder, "--json", "--backend", backend]
    for i, value in enumerate(item[1]):
        if i not in item[3] and not isinstance(value, str):
            np.save(folder / f"x{i}.npy", np.asarray(value))
            command += ["--input", f"x{i}={folder}/x{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["placement"], [np.load(folder / f"y{i}.npy") for i in range(len(outputs))]


def difference(item, got, want):
    """A sentence, or None when all outputs fit."""
    for i, (a, b) in enumerate(zip(got, want)):
        kind = np.float32 if b.dtype == np.float64 else b.dtype
        if a.shape != b.shape or a.dtype != kind:
            return f"output {i} is {a.dtype} {a.shape}, expected {kind} {b.shape}"
        exact = not np.issubdtype(kind, np.floating)
        bound = (item[5] if item[5] >= 1 else 0) if exact else item[5] + item[4] * np.abs(b)
        far = np.abs(a.astype(np.float64) - b.astype(np.float64)) > bound
        if far.any() or np.isnan(a.astype(np.float64)).any():
            at = tuple(int(v) for v in np.argwhere(far | np.isnan(a.astype(np.float64)))[0])
            return f"output {i} at {at} is {a[at]}, NumPy gives {b[at]}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("--backend", action="append")
    options = parser.parse_args()
    for group in (element_wise, matrices, pools_and_norms, reductions, movement, recurrent_signal_quantised):
        group()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name:
        for backend in options.backend or ["reference", "auto"]:
            for item in CHECKS:
                outputs = expected_of(item)
                try:
                    placement, got = engine_run(options.engine, backend, item, outputs, Path(name))
                    reason = difference(item, got, outputs)
                except (RuntimeError, ValueError) as error:
                    placement, reason = "-", str(error)
                passed, failed = passed + (reason is None), failed + (reason is not None)
                if reason is not None:
                    print(f"  wrong: {item[0]} {item[6]} on {backend} ({placement}): {reason}")
    print(f"{len({item[0] for item in CHECKS})} operators, {len(CHECKS)} checks on each backend")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
