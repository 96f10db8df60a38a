#!/usr/bin/env python3
"""Operators that onnxruntime has no kernel for on a CPU: `make_formulas.py OUT [SEED]`. The answers are formulas in NumPy, written from the operators' documents.

In a venv: pip install onnx numpy. formulas.tar.xz beside this file gets the cases when no SEED is given.
"""

import math
import os
import sys

import numpy as np
from onnx import helper, numpy_helper

from case import Cases

MS = "com.microsoft"


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def fast_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def group_norm(x, scale, bias, groups, epsilon):
    """x [n, h, w, c]"""
    n, h, w, c = x.shape
    g = x.reshape(n, h * w, groups, c // groups)
    mean, var = g.mean((1, 3), keepdims=True), g.var((1, 3), keepdims=True)
    return ((g - mean) / np.sqrt(var + epsilon)).reshape(x.shape) * scale + bias


def convolve(x, w, bias, stride, pad):
    """x [n, h, w, c], w [out, c, kh, kw], channels last."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    kh, kw = w.shape[2:]
    rows, columns = (x.shape[1] - kh) // stride + 1, (x.shape[2] - kw) // stride + 1
    y = np.zeros((x.shape[0], rows, columns, w.shape[0]))
    for i in range(rows):
        for j in range(columns):
            part = x[:, i * stride : i * stride + kh, j * stride : j * stride + kw]
            y[:, i, j] = np.einsum("nhwc,ochw->no", part, w)
    return y + (0 if bias is None else bias)


def attend(q, k, v, ends, heads, scale, bias=None):
    """Tokens of all sequences one behind the other; each looks at its own sequence alone. bias [batch, heads, length, length]"""
    out = np.zeros((len(q), v.shape[1]))
    for b, (first, last) in enumerate(zip(ends[:-1], ends[1:])):
        for h in range(heads):
            part = [t[first:last].reshape(last - first, heads, -1)[:, h] for t in (q, k, v)]
            scores = part[0] @ part[1].T * scale
            scores = scores if bias is None else scores + bias[b % len(bias), h, : last - first, : last - first]
            size = v.shape[1] // heads
            out[first:last, h * size : (h + 1) * size] = softmax(scores) @ part[2]
    return out


def paddings(lengths, most):
    """token_offset of RemovePadding: the places of tokens, then those of padding."""
    places = [b * most + i for b, n in enumerate(lengths) for i in range(n)]
    rest = [b * most + i for b, n in enumerate(lengths) for i in range(n, most)]
    return np.array(places + rest, "int32").reshape(len(lengths), most), np.concatenate([[0], np.cumsum(lengths)]).astype("int32")


def cases_of(rng):
    """(name, operator, domain, inputs, fed, attributes, answers)"""
    f = lambda *shape: rng.normal(size=shape).astype("float32")
    x, w, b = f(2, 5, 6), f(6, 4), f(4)
    yield "gemm_fast_gelu", "GemmFastGelu", MS, [x[0], w, b], {0}, {}, [fast_gelu(x[0] @ w + b)]
    yield "bias_split_gelu", "BiasSplitGelu", MS, [f(2, 3, 8), f(8)], {0}, {}, lambda x, b: [(x + b)[..., :4] * gelu((x + b)[..., 4:])]
    yield "bias_add", "BiasAdd", MS, [f(2, 3, 4), f(4), f(2, 3, 4)], {0, 2}, {}, lambda x, b, s: [x + b + s]
    scores = f(2, 3, 4, 4)
    yield "bias_softmax_inner", "BiasSoftmax", MS, [scores, f(2, 1, 1, 4)], {0, 1}, {"axis": 3, "is_inner_broadcast": 1}, lambda x, b: [softmax(x + b)]
    yield "bias_softmax_outer", "BiasSoftmax", MS, [scores, f(1, 1, 4, 4)], {0, 1}, {"axis": 3, "is_inner_broadcast": 0}, lambda x, b: [softmax(x + b)]
    for activation in (0, 1):
        swish = lambda y, a=activation: y * sigmoid(y) if a else y
        more = {"groups": 2, "epsilon": 1e-4, "activation": activation}
        yield "group_norm_%d" % activation, "GroupNorm", MS, [f(2, 3, 4, 6), f(6), f(6)], {0}, {**more, "channels_last": 1}, lambda x, s, b, g=swish: [g(group_norm(x, s, b, 2, 1e-4))]
        yield (
            "skip_group_norm_%d" % activation, "SkipGroupNorm", MS, [f(2, 3, 4, 6), f(6), f(6), f(2, 6), f(6)], {0, 3}, {**more, "channels_last": 1},
            lambda x, s, b, skip, more, g=swish: [g(group_norm(x + skip[:, None, None] + more, s, b, 2, 1e-4)), x + skip[:, None, None] + more],
        )
    image, kernel = f(1, 6, 5, 4), f(3, 4, 3, 3)
    yield "nhwc_conv", "NhwcConv", MS, [image, kernel, f(3)], {0}, {"kernel_shape": [3, 3], "pads": [1] * 4}, lambda x, w, b: [convolve(x, w, b, 1, 1)]
    yield "nhwc_fused", "NhwcFusedConv", MS, [image, kernel, f(3)], {0}, {"kernel_shape": [3, 3], "strides": [2, 2], "activation": "Relu"}, lambda x, w, b: [np.maximum(convolve(x, w, b, 2, 0), 0)]
    yield "nhwc_sum", "NhwcFusedConv", MS, [image, kernel, f(3), f(1, 6, 5, 3)], {0, 3}, {"pads": [1] * 4, "activation": "Relu"}, lambda x, w, b, z: [np.maximum(convolve(x, w, b, 1, 1) + z, 0)]
    rms = lambda x, s, e: x / np.sqrt((x * x).mean(-1, keepdims=True) + e) * s
    yield "simplified_norm", "SimplifiedLayerNormalization", "", [f(2, 3, 6), f(6)], {0}, {"axis": -1, "epsilon": 1e-3}, lambda x, s: [rms(x, s, 1e-3)]
    lengths, most, heads, size = [3, 1, 4], 4, 2, 3
    offset, ends = paddings(lengths, most)
    tokens, hidden = sum(lengths), heads * size
    data, weights, bias = f(tokens, 5), f(5, 3 * hidden), f(3 * hidden)
    packed = lambda x, w, b, o, e: [attend(*np.split(x @ w + b, 3, axis=1), e, heads, size**-0.5)]
    yield "packed_attention", "PackedAttention", MS, [data, weights, bias, offset, ends], {0, 3, 4}, {"num_heads": heads}, packed
    many = lambda q, k, v, b, o, e: [attend(q + b[:hidden], k + b[hidden : 2 * hidden], v + b[2 * hidden :], e, heads, 0.3)]
    yield "packed_heads", "PackedMultiHeadAttention", MS, [f(tokens, hidden), f(tokens, hidden), f(tokens, hidden), bias, offset, ends], {0, 1, 2, 4, 5}, {"num_heads": heads, "scale": 0.3}, many
    plain = lambda q, k, v, o, e, a: [attend(q, k, v, e, heads, size**-0.5, a)]
    fed = [f(tokens, hidden), f(tokens, hidden), f(tokens, hidden), "", offset, ends, f(3, heads, most, most)]
    yield "packed_heads_bias", "PackedMultiHeadAttention", MS, fed, {0, 1, 2, 4, 5, 6}, {"num_heads": heads}, plain
    wide = np.concatenate([x for x in f(3, most, 5)]).reshape(3, most, 5)
    removed = lambda x, n: [x.reshape(-1, 5)[offset.reshape(-1)[:tokens]], offset, ends, np.array([most], "int32")]
    yield "remove_padding", "RemovePadding", MS, [wide, np.array(lengths, "int32")], {0, 1}, {}, removed

    def restored(x, o):
        y = np.zeros((3 * most, x.shape[1]))
        y[o.reshape(-1)[: len(x)]] = x
        return [y.reshape(3, most, -1)]

    yield "restore_padding", "RestorePadding", MS, [data, offset], {0, 1}, {}, restored
    swiglu = lambda a, b: [a * sigmoid(1.5 * a) * b]
    yield "swiglu", "SwiGLU", "", [f(3, 4), f(3, 4)], {0, 1}, {"alpha": 1.5}, swiglu
    yield "mod_floats", "Mod", "", [f(3, 4) * 5, f(3, 4)], {0, 1}, {"fmod": 0}, lambda a, b: [a - np.floor(a.astype("f8") / b) * b]
    shifts = rng.integers(0, 40, 12).astype("int32")
    signed = rng.integers(-(2**31), 2**31, 12).astype("int32")
    yield "shift_signed", "BitShift", "", [signed, shifts], {0, 1}, {"direction": "RIGHT"}, lambda a, b: [a >> np.minimum(b, 31)]
    deep = lambda x: [x.reshape(2, 3, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 12, 2, 3)]
    yield "space_to_depth_columns", "SpaceToDepth", "", [f(2, 3, 4, 6)], {0}, {"blocksize": 2, "mode": "CRD"}, deep
    places = rng.integers(0, 7, (2, 5)).astype("int64")
    yield "torch_embedding", "TorchEmbedding", MS, [f(7, 3), places, np.array(2, "int64"), np.array(False)], {1}, {}, lambda w, i, *_: [w[i]]
    turned = lambda x, n: [np.stack([np.concatenate([x[b, :n[b]][::-1], x[b, n[b]:]]) for b in range(len(n))])]
    yield "reverse_sequence", "ReverseSequence", "", [f(3, 4, 2, 3), np.array([4, 0, 3], "int64")], {0, 1}, {"batch_axis": 0, "time_axis": 1}, turned
    scale = np.float32(13 / 9)  # tf2onnx writes scales: 13 rows in single precision, 12.9999998 in double
    steps = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    larger = lambda x, s: [x[:, :, np.floor(np.arange(13) / float(scale)).astype(int)]]
    yield "resize_rounded", "Resize", "", [f(1, 2, 9, 3), "", np.array([1, 1, scale, 1], "float32")], {0}, steps, larger


def model_make(operator, domain, inputs, fed, attributes, outputs):
    names = ["" if isinstance(a, str) else "x%d" % i for i, a in enumerate(inputs)]
    node = helper.make_node(operator, names, ["y%d" % i for i in range(len(outputs))], domain=domain, **attributes)
    kind = lambda a: helper.np_dtype_to_tensor_dtype(a.dtype)
    graph = helper.make_graph(
        [node], operator,
        [helper.make_tensor_value_info("x%d" % i, kind(inputs[i]), inputs[i].shape) for i in sorted(fed)],
        [helper.make_tensor_value_info("y%d" % i, kind(a), None) for i, a in enumerate(outputs)],
        [numpy_helper.from_array(a, names[i]) for i, a in enumerate(inputs) if i not in fed and names[i]],
    )
    newest = domain == "" and operator != "SimplifiedLayerNormalization"
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28 if newest else 17), helper.make_opsetid(MS, 1)], ir_version=8)


def main():
    cases = Cases(sys.argv[1], "formulas")
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for name, operator, domain, inputs, fed, attributes, answer in cases_of(rng):
        given = [a for a in inputs if not isinstance(a, str)]
        outputs = answer(*given) if callable(answer) else answer
        outputs = [a if a.dtype.kind == "i" else a.astype("float32") for a in map(np.asarray, outputs)]
        model = model_make(operator, domain, inputs, fed, attributes, outputs)
        cases.onnx("contrib" if domain else "standard", name, model.SerializeToString(), [([inputs[i] for i in sorted(fed)], outputs)])
    if len(sys.argv) < 3:
        print(cases.archive(os.path.dirname(os.path.abspath(__file__)), lambda f, n, size: True), "kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
