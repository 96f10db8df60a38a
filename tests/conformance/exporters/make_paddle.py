#!/usr/bin/env python3
"""Cases of paddle2onnx: `make_paddle.py OUT [SEED]`.

In a venv: pip install paddlepaddle paddle2onnx onnx onnxruntime. Layers and functions of Paddle through paddle.onnx.export, opsets 9 to 19 in turn, sizes fixed and open. The answers
are Paddle's; where onnxruntime gives others for the file, they are onnxruntime's. paddle.tar.xz beside this file gets the small ones when no SEED is given. A process
makes each case, because the exporter may end with a signal. What cannot be exported is printed.
"""

import os
import subprocess
import sys
import tempfile

os.environ["GLOG_minloglevel"] = "3"
KEEP_BYTES = 9000
OPSETS = (11, 13, 9, 14, 15, 12, 16, 17, 18, 19)
F, I = "float32", "int64"


def models():
    """{family: {name: (layer, [(shape, type)])}}; None in a shape is open."""
    import paddle
    import paddle.nn as nn
    import paddle.nn.functional as f

    class Of(nn.Layer):
        def __init__(self, body, *layers):
            super().__init__()
            self.layers, self.body = nn.LayerList(layers), body

    class One(Of):  # the exporter wants to see each input
        def forward(self, x0):
            return self.body(*self.layers, x0)

    class Two(Of):
        def forward(self, x0, x1):
            return self.body(*self.layers, x0, x1)

    class Three(Of):
        def forward(self, x0, x1, x2):
            return self.body(*self.layers, x0, x1, x2)

    def of(body, *specs, layers=()):
        return (One, Two, Three)[len(specs) - 1](body, *layers), [(s, F) if isinstance(s, list) else s for s in specs]

    image, open_image, table, steps = [1, 4, 9, 7], [None, 4, 9, 7], [3, 6], [2, 5, 6]
    out = {}
    out["conv"] = {
        "plain": of(lambda a, b, x: b(f.relu(a(x))), image, layers=(nn.Conv2D(4, 6, 3, padding=1), nn.BatchNorm2D(6))),
        "strided": of(lambda a, x: a(x), open_image, layers=(nn.Conv2D(4, 6, 3, stride=2, padding=[1, 2], dilation=2),)),
        "depthwise": of(lambda a, b, x: f.relu6(b(a(x))), image, layers=(nn.Conv2D(4, 8, 3, groups=4), nn.Conv2D(8, 3, 1))),
        "same": of(lambda a, x: f.hardswish(a(x)), image, layers=(nn.Conv2D(4, 5, 3, stride=2, padding="SAME"),)),
        "transposed": of(lambda a, x: a(x), image, layers=(nn.Conv2DTranspose(4, 5, 3, stride=2, output_padding=1),)),
        "one": of(lambda a, x: a(x), steps, layers=(nn.Conv1D(5, 4, 3, padding=1),)),
        "three": of(lambda a, x: a(x), [1, 2, 5, 6, 4], layers=(nn.Conv3D(2, 3, 3, padding=1),)),
    }
    out["norm"] = {
        "layer": of(lambda a, x: a(x), steps, layers=(nn.LayerNorm(6),)),
        "group": of(lambda a, x: a(x), image, layers=(nn.GroupNorm(2, 4),)),
        "instance": of(lambda a, x: a(x), image, layers=(nn.InstanceNorm2D(4),)),
        "local": of(lambda a, x: a(x), image, layers=(nn.LocalResponseNorm(3),)),
        "unit": of(lambda x: f.normalize(x, axis=-1), table),
    }
    names = "relu relu6 leaky_relu elu selu gelu silu mish softplus softsign hardsigmoid hardswish hardtanh sigmoid tanh swish log_sigmoid softshrink tanhshrink thresholded_relu"
    out["activation"] = {n: of(lambda x, n=n: getattr(f, n)(x), table) for n in names.split()}
    out["activation"]["softmax"] = of(lambda x: (f.softmax(x, 1), f.log_softmax(x, -1)), steps)
    out["activation"]["prelu"] = of(lambda a, x: a(x), image, layers=(nn.PReLU(4),))
    out["pool"] = {
        "max": of(lambda x: f.max_pool2d(x, 3, 2, 1), image),
        "mean": of(lambda x: f.avg_pool2d(x, 3, 2, 1, exclusive=False), image),
        "mean_out": of(lambda x: f.avg_pool2d(x, 2, 2, 1), open_image),
        "adaptive": of(lambda x: (f.adaptive_avg_pool2d(x, 1), f.adaptive_max_pool2d(x, 1)), image),
        "up": of(lambda x: f.max_pool2d(x, 2, 2, ceil_mode=True), image),
    }
    out["recurrent"] = {
        "lstm": of(lambda a, x: a(x)[0], steps, layers=(nn.LSTM(6, 5),)),
        "lstm_two": of(lambda a, x: a(x)[0], steps, layers=(nn.LSTM(6, 4, num_layers=2, direction="bidirect"),)),
        "gru": of(lambda a, x: a(x)[0], steps, layers=(nn.GRU(6, 5),)),
        "rnn": of(lambda a, x: a(x)[0], steps, layers=(nn.SimpleRNN(6, 5),)),
    }
    out["attention"] = {
        "heads": of(lambda a, x: a(x, x, x), steps, layers=(nn.MultiHeadAttention(6, 2),)),
        "encoder": of(lambda a, x: a(x), steps, layers=(nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0),)),
        "encoder_open": of(lambda a, x: a(x), [None, 5, 6], layers=(nn.TransformerEncoderLayer(6, 3, 8, dropout=0.0, activation="gelu"),)),
        "words": of(lambda a, b, x: b(a(x)), ([2, 4], I), layers=(nn.Embedding(6, 5), nn.Linear(5, 3))),
    }
    out["dense"] = {
        "mlp": of(lambda a, b, x: b(f.relu(a(x))), [None, 6], layers=(nn.Linear(6, 8), nn.Linear(8, 3))),
        "rank3": of(lambda a, x: a(x), steps, layers=(nn.Linear(6, 4),)),
        "product": of(lambda x, y: paddle.matmul(x, y, transpose_y=True), steps, steps),
        "bilinear": of(lambda x, y: paddle.einsum("bij,bkj->bik", x, y), steps, steps),
        "addmm": of(lambda x, y: paddle.addmm(x[:, :3], x, y, beta=0.5, alpha=2.0), [4, 6], [6, 3]),
    }
    out["math"] = {
        "curves": of(lambda x: (paddle.sin(x), paddle.cos(x), paddle.exp(x), paddle.log(abs(x) + 1), paddle.rsqrt(abs(x) + 1), paddle.erf(x), paddle.atan(x)), table),
        "round": of(lambda x: (paddle.floor(x), paddle.ceil(x), paddle.round(x), paddle.sign(x)), table),
        "pairs": of(lambda x, y: (x + y, x - y, x * y, x / (y + 9), paddle.maximum(x, y), paddle.minimum(x, y)), table, [6]),
        "powers": of(lambda x: (paddle.pow(abs(x), 1.5), paddle.square(x), paddle.sqrt(abs(x))), table),
        "whole": of(lambda x: (x // 3, x % 3, x * 2), ([5], I)),
        "sums": of(lambda x: (x.sum(), x.mean(1), x.max(-1, keepdim=True), x.min(0), x.prod(1), paddle.logsumexp(x, 1)), steps),
        "norms": of(lambda x: (paddle.norm(x, 2, 1), paddle.norm(x, 1, -1)), steps),
        "running": of(lambda x: paddle.cumsum(x, 1), table),
        "truths": of(lambda x: ((x > 0), (x > 0) & (x < 1), paddle.logical_not(x > 0)), table),
        "clip": of(lambda x: (paddle.clip(x, -0.5, 0.5), paddle.scale(x, 2.0, 1.0)), table),
        "std": of(lambda x: (paddle.std(x, 1), paddle.var(x, 0)), table),
    }
    out["shape"] = {
        "turned": of(lambda x: x.transpose([2, 0, 1]).reshape([6, -1]), steps),
        "open": of(lambda x: x.reshape([x.shape[0], -1]), open_image),
        "split": of(lambda x: paddle.split(x, [2, -1], axis=-1) + paddle.unstack(x, axis=1)[:2], steps),
        "joined": of(lambda x: (paddle.concat([x, x * 2], 1), paddle.stack([x, -x], 0)), table),
        "cut": of(lambda x: (x[:, 1:4:2], x[0], x[..., -1], x[:, ::-1]), steps),
        "tiled": of(lambda x: (paddle.tile(x, [2, 3]), paddle.expand(x, [4, 3, 6])), table),
        "padded": of(lambda x: (f.pad(x, [1, 2, 0, 1]), f.pad(x, [1, 1, 2, 2], mode="reflect"), f.pad(x, [1, 1, 2, 2], mode="replicate")), image),
        "squeezed": of(lambda x: paddle.unsqueeze(x, [0, 2]).squeeze(0), table),
        "flat": of(lambda x: paddle.flatten(x, 1, 2), image),
        "rolled": of(lambda x: paddle.roll(x, 2, 1), table),
        "shuffled": of(lambda x: (f.pixel_shuffle(x, 2), f.channel_shuffle(x, 2)), image),
        "cast": of(lambda x: (x.astype("int32"), x.astype("float64"), (x > 0).astype(F)), table),
        "ranges": of(lambda x: x + paddle.arange(6, dtype=F), table),
        "filled": of(lambda x: (paddle.full_like(x, 2.5), paddle.zeros_like(x) + x, paddle.ones([2, 3])), table),
        "meshes": of(lambda x: paddle.meshgrid(x, x * 2), [4]),
        "lower": of(lambda x: (paddle.tril(x), paddle.triu(x, 1)), table),
    }
    out["index"] = {
        "gather": of(lambda x, i: paddle.gather(x, i, axis=0), [6, 3], ([4], I)),
        "gather_nd": of(lambda x, i: paddle.gather_nd(x, i), [6, 6], ([4, 2], I)),
        "along": of(lambda x, i: paddle.take_along_axis(x, i, 1), [3, 6], ([3, 2], I)),
        "select": of(lambda x: paddle.index_select(x, paddle.to_tensor([2, 0]), 1), table),
        "where": of(lambda x, y: paddle.where(x > 0, x, y), table, table),
        "top": of(lambda x: paddle.topk(x, 2, axis=1), table),
        "sorted": of(lambda x: (paddle.sort(x, 1), paddle.argsort(x, 1)), table),
        "arg": of(lambda x: (paddle.argmax(x, 1), paddle.argmin(x, 0)), table),
        "hot": of(lambda x: f.one_hot(x, 6), ([4], I)),
        "masked": of(lambda x: paddle.masked_select(x, x > 0), table),
        "places": of(lambda x: paddle.nonzero(x > 0), table),
        "scatter": of(lambda x, i, u: paddle.scatter(x, i, u), [6, 3], ([2], I), [2, 3]),
    }
    out["vision"] = {
        "larger": of(lambda x: (f.interpolate(x, scale_factor=2, mode="nearest"), f.interpolate(x, size=[5, 11], mode="bilinear")), image),
        "corners": of(lambda x: f.interpolate(x, size=[12, 5], mode="bilinear", align_corners=True), image),
        "cubic": of(lambda x: f.interpolate(x, scale_factor=1.5, mode="bicubic"), image),
        "grid": of(lambda x, g: f.grid_sample(x, paddle.tanh(g)), image, [1, 4, 5, 2]),
        "unfold": of(lambda x: f.unfold(x, 3, 1, 1), image),
    }
    return out


def draw(rng, specs):
    arrays = []
    for shape, kind in specs:
        shape = [3 if d is None else d for d in shape]
        arrays.append(rng.integers(0, 6, shape).astype(kind) if kind == I else rng.normal(size=shape).astype(kind))
    return arrays


def case_make(cases, family, name, layer, specs, opset, seed):
    import numpy as np
    import onnxruntime
    import paddle

    rng = np.random.default_rng(seed)
    for p in layer.parameters():
        p.set_value(rng.normal(0, 0.4, p.shape).astype(F))
    layer.eval()
    with tempfile.TemporaryDirectory() as folder:
        spec = [paddle.static.InputSpec(list(s), k, "x%d" % i) for i, (s, k) in enumerate(specs)]
        paddle.onnx.export(layer, folder + "/m", input_spec=spec, opset_version=opset)
        with open(folder + "/m.onnx", "rb") as f:
            blob = f.read()
    fed = draw(rng, specs)
    y = layer(*[paddle.to_tensor(a) for a in fed])
    want = [t.numpy() for t in (y if isinstance(y, (list, tuple)) else [y])]
    session = onnxruntime.InferenceSession(blob, providers=["CPUExecutionProvider"])
    fed = {i.name: fed[int(i.name[1:])] for i in session.get_inputs()}
    got = session.run(None, fed)
    same = len(got) == len(want) and all(g.shape == w.shape and g.dtype == w.dtype and np.allclose(g, w, 1e-4, 1e-5) for g, w in zip(got, want))
    cases.onnx(family, "%s_%d" % (name, opset), blob, [(list(fed.values()), want if same else got)])


def main():
    if sys.argv[1] == "--one":
        from case import Cases

        out, family, name, opset, seed = sys.argv[2:]
        import paddle

        paddle.seed(int(seed))
        layer, specs = models()[family][name]
        case_make(Cases(out, "paddle", fresh=False), family, name, layer, specs, int(opset), int(seed))
        return 0
    from case import Cases

    cases, seed = Cases(sys.argv[1], "paddle"), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    work = [(family, name) for family, makes in models().items() for name in makes]
    for number, (family, name) in enumerate(work):
        command = [sys.executable, __file__, "--one", sys.argv[1], family, name, str(OPSETS[(number + seed) % len(OPSETS)]), str(seed)]
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if p.returncode != 0:
            print("no %s/%s: %d %s" % (family, name, p.returncode, p.stdout.strip().splitlines()[-1:]), flush=True)
    if len(sys.argv) < 3:
        print(cases.archive(os.path.dirname(os.path.abspath(__file__)), lambda f, n, size: size <= KEEP_BYTES), "kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
