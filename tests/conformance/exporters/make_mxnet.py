#!/usr/bin/env python3
"""Networks of MXNet's Gluon through its own exporter to ONNX, with MXNet's answers: make_mxnet.py OUT [SEED].

In a venv: pip install "numpy==1.23.5" "protobuf<4" "onnx==1.14.1" requests graphviz; pip install --no-deps mxnet==1.9.1. mxnet.tar.xz gets the small ones when no SEED is
given.
"""

import os
import sys
import tempfile

import mxnet as mx
import numpy as np
import onnx
import onnx.checker
from mxnet.gluon import nn, rnn

from case import Cases

KEEP_BYTES = 20000
onnx.defs.onnx_opset_version = lambda: 13  # the newest that this exporter knows; it asks the package
onnx.checker.DEFAULT_CONTEXT.opset_imports = {"": 13}
IMAGE, ROWS, STEPS = (2, 3, 8, 8), (2, 6), (5, 2, 4)


class Of(nn.HybridBlock):
    """A function of symbols as a network."""

    def __init__(self, body, **weights):
        super().__init__()
        self.body = body
        for name, shape in weights.items():
            setattr(self, name, self.params.get(name, shape=shape))

    def hybrid_forward(self, F, *args, **weights):
        return self.body(F, *args, **weights)


def chain(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


class Stated(nn.HybridBlock):
    """The exporter takes recurrent layers whose states are inputs."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def hybrid_forward(self, F, x, *states):
        y, after = self.cell(x, list(states))
        return (y, *after)


def recurrent(kind, rows=1, **options):
    states = [(rows, 2, 4)] * (2 if kind is rnn.LSTM else 1)
    return Stated(kind(4, **options)), [STEPS, *states]


def residual(F, x):
    return F.Activation(x, act_type="relu") + x


def layers():
    """{family: {name: (network, shapes of inputs)}}"""
    conv = {
        "plain": (nn.Conv2D(4, 3, padding=1, activation="relu"), [IMAGE]),
        "strided": (nn.Conv2D(4, 3, strides=2, use_bias=False), [IMAGE]),
        "grouped": (nn.Conv2D(6, 3, groups=3), [IMAGE]),
        "dilated": (nn.Conv2D(4, 3, dilation=2), [IMAGE]),
        "transposed": (nn.Conv2DTranspose(4, 3, strides=2, padding=1, output_padding=1), [IMAGE]),
        "one": (nn.Conv1D(4, 3), [(2, 3, 9)]),
        "three": (nn.Conv3D(2, 2), [(1, 2, 4, 4, 4)]),
    }
    pool = {
        "max": (nn.MaxPool2D(3, 2, 1), [IMAGE]),
        "max_ceil": (nn.MaxPool2D(3, 2, ceil_mode=True), [IMAGE]),
        "average": (nn.AvgPool2D(2), [IMAGE]),
        "average_padded": (nn.AvgPool2D(3, 2, 1, count_include_pad=False), [IMAGE]),
        "whole_max": (nn.GlobalMaxPool2D(), [IMAGE]),
        "whole_average": (nn.GlobalAvgPool2D(), [IMAGE]),
    }
    norm = {
        "batch": (nn.BatchNorm(), [IMAGE]),
        "batch_unscaled": (nn.BatchNorm(scale=False, center=False), [IMAGE]),
        "instance": (nn.InstanceNorm(), [IMAGE]),
        "layer": (nn.LayerNorm(), [ROWS]),
        "group": (nn.GroupNorm(1), [IMAGE]),
        "local": (Of(lambda F, x: F.LRN(x, nsize=3)), [IMAGE]),
        "l2_channel": (Of(lambda F, x: F.L2Normalization(x, mode="channel")), [IMAGE]),
        "l2_instance": (Of(lambda F, x: F.L2Normalization(x, mode="instance")), [IMAGE]),
    }
    dense = {
        "one": (nn.Dense(5), [ROWS]),
        "flattened": (nn.Dense(5), [IMAGE]),
        "rows": (nn.Dense(5, flatten=False), [(2, 3, 4)]),
        "unbiased": (nn.Dense(5, use_bias=False, activation="tanh"), [ROWS]),
        "dropped": (chain(nn.Dense(5), nn.Dropout(0.5)), [ROWS]),
        "dot": (Of(lambda F, a, b: F.dot(a, b)), [(3, 4), (4, 5)]),
        "batches": (Of(lambda F, a, b: F.batch_dot(a, b, transpose_b=True)), [(2, 3, 4), (2, 5, 4)]),
    }
    activation = {kind: (nn.Activation(kind), [ROWS]) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")}
    activation.update(
        leaky=(nn.LeakyReLU(0.2), [ROWS]), prelu=(nn.PReLU(), [IMAGE]), elu=(nn.ELU(), [ROWS]), selu=(nn.SELU(), [ROWS]), gelu=(nn.GELU(), [ROWS]),
        swish=(nn.Swish(), [ROWS]), softmax=(Of(lambda F, x: F.softmax(x, axis=1)), [IMAGE]), hot=(Of(lambda F, x: F.softmax(x, temperature=2.0)), [ROWS]),
        log_softmax=(Of(lambda F, x: F.log_softmax(x)), [ROWS]), hard_sigmoid=(Of(lambda F, x: F.hard_sigmoid(x, alpha=0.3)), [ROWS]),
        softmax_output=(Of(lambda F, x: F.SoftmaxOutput(x, F.zeros((2,)))), [ROWS]), logistic=(Of(lambda F, x: F.LogisticRegressionOutput(x, F.zeros((2, 6)))), [ROWS]),
    )
    one = lambda **bodies: {name: (Of(body), [(2, 3, 4)]) for name, body in bodies.items()}
    shape = one(
        reshape=lambda F, x: F.reshape(x, (0, -1)), reshape_join=lambda F, x: F.reshape(x, (-3, 0)), reshape_rest=lambda F, x: F.reshape(x, (0, -2)),
        reshape_split=lambda F, x: F.reshape(x, (0, 0, -4, 2, 2)), transpose=lambda F, x: F.transpose(x, (2, 0, 1)), swap=lambda F, x: F.SwapAxis(x, 0, 2),
        slices=lambda F, x: F.slice(x, (0, 1, None), (2, 3, None)), slice_axis=lambda F, x: F.slice_axis(x, 2, 1, -1), flip=lambda F, x: F.reverse(x, axis=1),
        expand=lambda F, x: F.expand_dims(x, 1), squeeze=lambda F, x: F.squeeze(F.expand_dims(x, 1), axis=1), tile=lambda F, x: F.tile(x, (1, 2, 1)),
        repeat=lambda F, x: F.repeat(x, 2, axis=1), pads=lambda F, x: F.pad(F.expand_dims(x, 0), mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 2, 1), constant_value=3),
        edges=lambda F, x: F.pad(F.expand_dims(x, 0), mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 1, 0)), stack=lambda F, x: F.stack(x, x * 2, axis=1),
        concat=lambda F, x: F.concat(x, x + 1, dim=2), split=lambda F, x: F.concat(*reversed(F.split(x, 2, axis=2)), dim=1), broadcast=lambda F, x: F.broadcast_to(F.sum(x, axis=1, keepdims=True), (2, 3, 4)),
        like=lambda F, x: F.ones_like(x) + F.zeros_like(x) + x, take=lambda F, x: F.take(x, F.clip(F.slice_axis(F.slice_axis(F.reshape(x, (-1,)), 0, 0, 2), 0, 0, 2), 0, 2), axis=1),
        top=lambda F, x: F.topk(x, k=2, ret_typ="value"), argmax=lambda F, x: F.argmax(x, axis=1), argmin=lambda F, x: F.argmin(x, axis=2, keepdims=True), sort=lambda F, x: F.sort(x, axis=1),
        depth=lambda F, x: F.space_to_depth(F.reshape(x, (1, 2, 2, 6)), 2), flat=lambda F, x: F.Flatten(x), shape=lambda F, x: F.shape_array(x), size=lambda F, x: F.size_array(x),
        where=lambda F, x: F.where(x > 0, x, x * 0.1), hot=lambda F, x: F.one_hot(F.argmax(x, axis=1), 4), arange=lambda F, x: F.broadcast_add(x, F.arange(4)),
        pick=lambda F, x: F.pick(x, F.argmax(x, axis=2), axis=2),
    )
    math = one(
        sums=lambda F, x: F.sum(x, axis=1), means=lambda F, x: F.mean(x, axis=(0, 2), keepdims=True), maxima=lambda F, x: F.max(x, axis=2), minima=lambda F, x: F.min(x), products=lambda F, x: F.prod(x, axis=1),
        norms=lambda F, x: F.norm(x, ord=2, axis=1), norms_1=lambda F, x: F.norm(x, ord=1, axis=2), scalars=lambda F, x: (3 - x * 2 + 1) / 2, powers=lambda F, x: (F.abs(x) + 1) ** 1.5 + 2 / (F.abs(x) + 1),
        curves=lambda F, x: F.exp(x) + F.log(F.abs(x) + 1) + F.sqrt(F.abs(x)) + F.sin(x) + F.cos(x) + F.tan(x * 0.1), angles=lambda F, x: F.arcsin(F.tanh(x)) + F.arccos(F.tanh(x)) + F.arctan(x),
        rounds=lambda F, x: F.floor(x) + F.ceil(x) + F.square(x) + F.reciprocal(F.abs(x) + 1), clip=lambda F, x: F.clip(x, -0.5, 0.5), compare=lambda F, x: (x > 0.5) + (x < -0.5) + (x == x) + (x >= 0) + (x <= 0),
        logic=lambda F, x: F.logical_not(x > 0), pairs=lambda F, x: F.maximum(x, 0.1) + F.minimum(x, -0.1), log2=lambda F, x: F.log2(F.abs(x) + 1), cast=lambda F, x: F.cast(x, "int32"),
        sum_n=lambda F, x: F.add_n(x, x * 2, x * 3), stop=lambda F, x: F.BlockGrad(x) + F.identity(x), random=lambda F, x: F.zeros_like(x) * F.random.uniform(shape=(2, 3, 4)),
    )
    steps = {}
    for kind in (rnn.LSTM, rnn.GRU, rnn.RNN):
        name = kind.__name__.lower()
        steps.update({name: recurrent(kind), name + "_two": recurrent(kind, 2, num_layers=2), name + "_both": recurrent(kind, 2, bidirectional=True)})
    steps["rnn_tanh"] = recurrent(rnn.RNN, activation="tanh")
    vision = {
        "cnn": (chain(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Flatten(), nn.Dense(3)), [IMAGE]),
        "residual": (chain(nn.Conv2D(4, 3, padding=1), Of(residual), nn.GlobalAvgPool2D(), nn.Dense(2)), [IMAGE]), "upsampled": (Of(lambda F, x: F.UpSampling(x, scale=2, sample_type="nearest")), [IMAGE]),
        "resized": (Of(lambda F, x: F.contrib.BilinearResize2D(x, height=12, width=10)), [IMAGE]), "adaptive": (Of(lambda F, x: F.contrib.AdaptiveAvgPooling2D(x, output_size=1)), [IMAGE]),
        "crop": (Of(lambda F, x: F.Crop(x, h_w=(4, 5), offset=(1, 2))), [IMAGE]), "roi": (Of(lambda F, x, b: F.ROIPooling(x, F.broadcast_mul(F.clip(F.abs(b), 1, 7), F.concat(F.zeros((1, 1)), F.ones((1, 4)), dim=1)), pooled_size=(2, 2), spatial_scale=1.0)), [(1, 2, 8, 8), (1, 5)]),
        "anchors": (Of(lambda F, x: F.contrib.MultiBoxPrior(x, sizes=(0.5, 0.25), ratios=(1, 2))), [IMAGE]), "box": (Of(lambda F, x: F.contrib.box_decode(F.reshape(x, (1, -1, 4)), F.abs(F.reshape(x, (1, -1, 4))))), [(2, 3, 4)]),
        "attention": (Of(lambda F, x: F.contrib.interleaved_matmul_selfatt_qk(x, heads=2)), [(5, 2, 12)]),
    }
    return {"conv": conv, "pool": pool, "norm": norm, "dense": dense, "activation": activation, "shape": shape, "math": math, "recurrent": steps, "vision": vision}


def drawn(net, rng, inputs):
    net.initialize()
    net(*inputs)
    for name, p in net.collect_params().items():
        if p.grad_req == "null" and "running" not in name:
            continue  # a gamma that counts as 1
        low = rng.uniform(0.5, 1.5, p.shape) if "var" in name or "gamma" in name else rng.normal(0, 0.4, p.shape)
        p.set_data(mx.nd.array(low))


def made(net, shapes, rng, scratch):
    """(model, inputs, outputs)"""
    inputs = [mx.nd.array(rng.normal(size=s)) for s in shapes]
    drawn(net, rng, inputs)
    net.hybridize()
    out = net(*inputs)
    names = ["data"] if len(inputs) == 1 else ["data%d" % i for i in range(len(inputs))]
    path = os.path.join(scratch, "net")
    net.export(path)
    file = mx.onnx.export_model(path + "-symbol.json", path + "-0000.params", shapes, [np.float32] * len(names), path + ".onnx")
    with open(file, "rb") as f:
        return f.read(), [a.asnumpy() for a in inputs], [y.asnumpy() for y in (out if isinstance(out, (list, tuple)) else [out])]


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    cases = Cases(sys.argv[1], "mxnet")
    for family, rows in layers().items():
        for name, (net, shapes) in rows.items():
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    model, inputs, outputs = made(net, shapes, np.random.default_rng(seed), scratch)
            except Exception as problem:  # the exporter's own limits
                print("no %s/%s: %s" % (family, name, str(problem).strip().split("\n")[-1][:160]), flush=True)
                continue
            cases.onnx(family, name, model, [(inputs, outputs)])
    if len(sys.argv) < 3:
        print(cases.archive(os.path.dirname(os.path.abspath(__file__)), lambda f, n, size: size <= KEEP_BYTES), "kept")


if __name__ == "__main__":
    main()
