"""Random networks of PyTorch, for models that nobody has looked at: `torch_random.py OUT SEED COUNT`.

In a venv: torch (CPU), onnx, onnxscript, onnxruntime. Each network is a chain of blocks drawn by the seed: convolutions of odd sizes, strides, paddings and groups, norms, pools,
gates, resizing, attention, recurrent layers, reshapes. Both exporters write it, with opsets and open sizes drawn too. A network then goes through onnxruntime's quantisers and its
optimiser. The answers are those of torch, or of onnxruntime for what onnxruntime made. `run.py BIN_DIR --cases OUT` tells what is right.
"""

import io
import os
import random
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as f

from case import Cases

warnings.filterwarnings("ignore")


class Do(nn.Module):
    """A function of x, with the layers that it needs."""

    def __init__(self, body, *layers):
        super().__init__()
        self.layers, self.body = nn.ModuleList(layers), body

    def forward(self, x):
        return self.body(x, *self.layers)


class Chain(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


ACTIVATIONS = [nn.ReLU, nn.SiLU, nn.GELU, nn.Hardswish, nn.Mish, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Tanh, nn.Hardsigmoid, nn.ReLU6, nn.CELU, nn.SELU, nn.Softsign,
               lambda: nn.GELU("tanh"), lambda: nn.Hardtanh(-0.7, 1.3), lambda: nn.PReLU(), lambda: nn.Threshold(0.1, -0.3), nn.LogSigmoid, nn.Tanhshrink, nn.Softshrink, nn.Hardshrink]


class Draw:
    """Blocks of images [n, c, h, w] and of sequences [n, t, c]; each call follows the shape of the last one."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def activation(self):
        return self.r.choice(ACTIVATIONS)()

    # ---- images

    def image(self, c, h, w):
        r = self.r
        kinds = [self.conv, self.conv, self.conv, self.depthwise, self.norm, self.pool, self.gate, self.residual, self.resize, self.shift, self.split, self.shuffle, self.mix, self.stats, self.transposed, self.pad]
        return r.choice(kinds)(c, h, w)

    def conv(self, c, h, w):
        r = self.r
        kernel, dilation = (r.choice([1, 2, 3, 5]), r.choice([1, 3, 4])), (r.choice([1, 2]), 1)
        kernel = tuple(min(k, (s - 1) // d + 1) for k, s, d in zip(kernel, (h, w), dilation))
        stride = (r.choice([1, 1, 2]), r.choice([1, 1, 3]))
        out = r.choice([3, 5, 8, 12, 17])
        groups = r.choice([g for g in (1, 1, 2, 3, 4) if c % g == 0 and out % g == 0])
        mode = r.choice(["zeros", "zeros", "zeros", "reflect", "circular", "replicate"])
        pad = tuple(min(r.choice([0, 1, 2]), (k - 1) if mode != "zeros" else 2, s - 1) for k, s in zip(kernel, (h, w)))
        return [nn.Conv2d(c, out, kernel, stride, pad, dilation, groups, bias=r.random() < 0.7, padding_mode=mode), self.activation()]

    def depthwise(self, c, h, w):
        k = self.r.choice([k for k in (1, 3, 5) if k <= min(h, w)])
        m = self.r.choice([1, 1, 2])
        return [nn.Conv2d(c, c * m, k, 1, k // 2, groups=c), nn.BatchNorm2d(c * m), self.activation()]

    def norm(self, c, h, w):
        r = self.r
        return [r.choice([
            lambda: nn.BatchNorm2d(c, affine=r.random() < 0.8), lambda: nn.GroupNorm(r.choice([g for g in range(1, c + 1) if c % g == 0]), c), lambda: nn.InstanceNorm2d(c, affine=True),
            lambda: nn.LocalResponseNorm(r.choice([2, 3, 5]), 0.3), lambda: nn.LayerNorm([h, w]),
            lambda: Do(lambda x, n: n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), nn.LayerNorm(c)),
            lambda: Do(lambda x: f.normalize(x, dim=1, p=r2), ) if (r2 := r.choice([1, 2])) else None])()]

    def pool(self, c, h, w):
        r = self.r
        k = (r.choice([k for k in (1, 2, 3) if k <= h]), r.choice([k for k in (1, 2, 3) if k <= w]))
        s, p, ceil = r.choice([1, 2]), tuple(r.choice([0, x // 2]) for x in k), r.random() < 0.4
        return [r.choice([lambda: nn.MaxPool2d(k, s, p, ceil_mode=ceil), lambda: nn.AvgPool2d(k, s, p, ceil_mode=ceil, count_include_pad=r.random() < 0.5),
                          lambda: nn.LPPool2d(2, k, s), lambda: nn.AdaptiveAvgPool2d((max(1, h // 2), 1)) if h % max(1, h // 2) == 0 else nn.AdaptiveAvgPool2d(1),
                          lambda: Do(lambda x: torch.cat([f.max_pool2d(x, k, 1), f.avg_pool2d(x, k, 1)], 1))])()]

    def gate(self, c, h, w):
        m = max(1, c // 3)
        r = self.r
        if r.random() < 0.5:
            return [Do(lambda x, a, b: x * torch.sigmoid(b(f.relu(a(x.mean((2, 3), keepdim=True))))), nn.Conv2d(c, m, 1), nn.Conv2d(m, c, 1))]
        return [Do(lambda x, a: x * f.hardsigmoid(a(torch.cat([x.amax(1, keepdim=True), x.mean(1, keepdim=True)], 1))), nn.Conv2d(2, 1, 3, padding=1))]

    def residual(self, c, h, w):
        return [Do(lambda x, a, b, n, act: act(x + n(b(act(a(x))))), nn.Conv2d(c, c + 1, 3, padding=1), nn.Conv2d(c + 1, c, 1, bias=False), nn.BatchNorm2d(c), self.activation())]

    def resize(self, c, h, w):
        r = self.r
        if h * w > 400:
            return self.pool(c, h, w)
        how = r.choice([("nearest", None), ("bilinear", False), ("bilinear", True), ("bicubic", False)])
        if r.random() < 0.5:
            return [Do(lambda x: f.interpolate(x, scale_factor=(2.0, 1.5), mode=how[0], align_corners=how[1]))]
        size = (h + r.choice([1, 3]), w + r.choice([0, 2]))
        return [Do(lambda x: f.interpolate(x, size=size, mode=how[0], align_corners=how[1]))]

    def shift(self, c, h, w):
        r = self.r
        a, b = r.choice([1, 2]), r.choice([2, 3])
        return [r.choice([lambda: Do(lambda x: torch.roll(x, (a, -1), (2, 3))), lambda: Do(lambda x: x.flip(b)), lambda: Do(lambda x: x.transpose(2, 3)),
                          lambda: Do(lambda x: torch.rot90(x, a, (2, 3))), lambda: Do(lambda x: x.cumsum(b) / 4), lambda: Do(lambda x: x.softmax(b)), lambda: Do(lambda x: x.clamp(-1.5, 2).abs().add(0.1).log())])()]

    def split(self, c, h, w):
        if c < 2:
            return self.conv(c, h, w)
        k = self.r.randrange(1, c)
        return [self.r.choice([lambda: Do(lambda x, a: torch.cat([a(x[:, :k]), x[:, k:]], 1), nn.Conv2d(k, k + 2, 1)), lambda: Do(lambda x: torch.cat([x[:, k:].sigmoid(), x[:, :k].tanh()], 1)),
                               lambda: Do(lambda x: torch.stack([x, x * 0.5 - 1], 2).flatten(1, 2)), lambda: Do(lambda x: torch.cat([x[:, :, ::2], x[:, :, 1::2]], 2))])()]

    def shuffle(self, c, h, w):
        r = self.r
        options = [lambda: Do(lambda x: f.unfold(x, 2, stride=1).view(x.shape[0], c * 4, h - 1, w - 1))] if h > 1 and w > 1 and c < 6 else []
        options += [lambda: nn.PixelShuffle(2)] if c % 4 == 0 else []
        options += [lambda: nn.PixelUnshuffle(2)] if h % 2 == 0 and w % 2 == 0 and c < 6 else []
        options += [lambda g=g: nn.ChannelShuffle(g) for g in (2, 3) if c % g == 0]
        return [r.choice(options)()] if options else self.norm(c, h, w)

    def mix(self, c, h, w):
        heads = self.r.choice([k for k in (1, 2, 3, 4) if c % k == 0])

        def attend(x, q, o):
            n = x.shape[0]
            a, b, v = q(x).view(n, 3, heads, c // heads, h * w).unbind(1)
            y = f.scaled_dot_product_attention(a.mT, b.mT, v.mT).mT.reshape(n, c, h, w)
            return x + o(y)

        return [Do(attend, nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1))]

    def stats(self, c, h, w):
        r = self.r
        return [r.choice([lambda: Do(lambda x: (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 0.1).sqrt()), lambda: Do(lambda x: x / (1 + x.norm(dim=(2, 3), keepdim=True))),
                          lambda: Do(lambda x: x - x.logsumexp(3, keepdim=True)), lambda: Do(lambda x: torch.where(x > x.mean(), x, x * x)), lambda: Do(lambda x: torch.minimum(x, x.std((2, 3), keepdim=True) + 1) if h * w > 1 else x)])()]

    def transposed(self, c, h, w):
        r = self.r
        if h * w > 300:
            return self.pool(c, h, w)
        out, s, k = r.choice([2, 4, 6]), r.choice([1, 2]), r.choice([1, 2, 3, 4])
        k = max(k, s)
        groups = 2 if c % 2 == 0 and r.random() < 0.4 else 1
        return [nn.ConvTranspose2d(c, out, (k, max(s, 2)), s, min(1, k - 1) if h > 1 and w > 1 else 0, r.choice([0, s - 1]), groups), self.activation()]

    def pad(self, c, h, w):
        r = self.r
        sizes = [r.choice([0, 1, 2]) for _ in range(4)]
        return [r.choice([lambda: nn.ConstantPad2d(sizes, 0.7), lambda: nn.ReplicationPad2d(sizes), lambda: nn.ReflectionPad2d([min(p, (w if i < 2 else h) - 1) for i, p in enumerate(sizes)]),
                          lambda: Do(lambda x: f.pad(x, (-1, 1, 0, -1))) if h > 2 and w > 2 else nn.ZeroPad2d(1)])()]

    # ---- sequences

    def sequence(self, t, c):
        r = self.r
        heads = r.choice([k for k in (1, 2, 3, 4) if c % k == 0])
        d = r.choice([4, 6, 9])
        two = r.random() < 0.5
        norm = r.choice([nn.LayerNorm(c), nn.RMSNorm(c)])
        return r.choice([
            lambda: [nn.Linear(c, d, bias=two), self.activation()], lambda: [norm],
            lambda: [nn.TransformerEncoderLayer(c, heads, 2 * c + 1, 0.0, r.choice(["relu", "gelu"]), batch_first=True, norm_first=two)],
            lambda: [Do(lambda x, m: x + m(x, x, x, need_weights=False)[0], nn.MultiheadAttention(c, heads, batch_first=True, bias=two))],
            lambda: [Do(lambda x, m: m(x)[0], nn.GRU(c, d, 1, batch_first=True, bidirectional=two))], lambda: [Do(lambda x, m: m(x)[0], nn.LSTM(c, d, r.choice([1, 2]), batch_first=True, bidirectional=two))],
            lambda: [Do(lambda x, m: m(x)[0], nn.RNN(c, d, 1, nonlinearity=r.choice(["tanh", "relu"]), batch_first=True))],
            lambda: [Do(lambda x, m, a: a(m(x.mT)).mT, nn.Conv1d(c, d, r.choice([1, 3]), padding=1, dilation=1), self.activation())],
            lambda: [Do(lambda x, a: f.glu(a(x), -1), nn.Linear(c, 2 * d))], lambda: [Do(lambda x: x + torch.arange(t).float().unsqueeze(1).div(t).sin())],
            lambda: [Do(lambda x: x.sort(1)[0])], lambda: [Do(lambda x: torch.einsum("ntc,nsc->nts", x, x).softmax(-1) @ x)], lambda: [Do(lambda x: x.tril() if t > 1 else x)],
            lambda: [Do(lambda x: f.scaled_dot_product_attention(x, x, x, is_causal=True))], lambda: [Do(lambda x: x.masked_fill(x > 1, 1) - x.cummax(1)[0] / 7)], lambda: [Do(lambda x: x.gather(1, x.argsort(1)))]])()


def network(seed):
    """(module, input) that torch can run."""
    draw = Draw(seed)
    r = draw.r
    torch.manual_seed(seed)
    picture = r.random() < 0.65
    x = torch.randn(r.choice([1, 2]), r.choice([1, 3, 4, 6]), r.choice([5, 8, 12, 15]), r.choice([6, 7, 12, 16])) if picture else torch.randn(r.choice([1, 2, 3]), r.choice([1, 4, 7]), r.choice([4, 6, 8, 12]))
    blocks, y = [], x
    for _ in range(r.choice([3, 4, 6, 9])):
        if y.dim() == 4 and r.random() < 0.06:
            added = [Do(lambda v: v.flatten(2).mT)]
        else:
            added = draw.image(*y.shape[1:]) if y.dim() == 4 else draw.sequence(*y.shape[1:])
        block = Chain(added).eval()
        try:
            with torch.no_grad():
                z = block(y)
        except (RuntimeError, ValueError):
            continue
        if 0 < z.numel() < 60000 and z.isfinite().all() and z.abs().max() < 1e4:
            blocks, y = blocks + [block], z
    if r.random() < 0.5:
        width = y.shape[1] if y.dim() == 4 else y.shape[2]
        blocks.append(Chain([Do(lambda v: v.mean((2, 3)) if v.dim() == 4 else v.mean(1)), nn.Linear(width, 5), nn.Softmax(-1)]))
    whole = Chain(blocks).eval()
    for module in whole.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
    return whole, x


def exported(module, x, dynamo, r):
    buffer = io.BytesIO()
    dims = {"x": {0: "n"}} if r.random() < 0.4 else None
    if dynamo:
        program = torch.onnx.export(module, (x,), dynamo=True, opset_version=r.choice([18, 20, 21, 23]), verbose=False, input_names=["x"], optimize=r.random() < 0.7)
        return program.model_proto.SerializeToString()
    torch.onnx.export(module, (x,), buffer, dynamo=False, opset_version=r.choice([11, 13, 14, 16, 17, 18, 20]), input_names=["x"], dynamic_axes=dims, do_constant_folding=r.random() < 0.7)
    return buffer.getvalue()


def run_ort(model, x, level="none"):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = {"none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL, "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
                                        "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED}[level]
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def requantised(model, x, r):
    """(how, bytes) by onnxruntime's quantisers and optimiser."""
    import onnxruntime as ort
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Feed(CalibrationDataReader):
        def __init__(self):
            self.left = [{"x": x}, {"x": x * 0.7}]

        def get_next(self):
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        with open(at("a.onnx"), "wb") as out:
            out.write(model)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = at("o.onnx")
        ort.InferenceSession(at("a.onnx"), options, providers=["CPUExecutionProvider"])
        yield "optimised", open(at("o.onnx"), "rb").read()
        how = r.choice(["dynamic", "qdq", "qdq", "qoperator"])
        quant_pre_process(at("a.onnx"), at("p.onnx"), skip_symbolic_shape=True)
        kind = r.choice([QuantType.QInt8, QuantType.QUInt8])
        if how == "dynamic":
            quantize_dynamic(at("p.onnx"), at("q.onnx"), weight_type=kind, per_channel=r.random() < 0.5)
        else:
            quantize_static(at("p.onnx"), at("q.onnx"), Feed(), quant_format=QuantFormat.QDQ if how == "qdq" else QuantFormat.QOperator, per_channel=r.random() < 0.5,
                            activation_type=QuantType.QInt8 if kind == QuantType.QInt8 and how == "qdq" else QuantType.QUInt8, weight_type=QuantType.QInt8)
        yield how, open(at("q.onnx"), "rb").read()


def main():
    out, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    cases = {name: Cases(out, name) for name in ("torch_script", "torch_dynamo", "onnxruntime")}
    lost = 0
    for i in range(count):
        r = random.Random(seed * 1000 + i)
        module, x = network(seed * 100003 + i)
        with torch.no_grad():
            y = module(x)
        for dynamo in (False, True) if i % 2 else (False,):
            name = "torch_dynamo" if dynamo else "torch_script"
            try:
                model = exported(module, x, dynamo, r)
                told = run_ort(model, x.numpy())
            except Exception as why:
                lost += 1
                print("no case: %s/%d: %s" % (name, i, str(why).splitlines()[0][:150] if str(why) else type(why)))
                continue
            answer = y.numpy() if np.allclose(told[0], y.numpy(), 1e-3, 1e-4) else told[0]
            cases[name].onnx("random", "%03d" % i, model, [([x.numpy()], [answer])])
            if dynamo or i % 3:
                continue
            try:
                for how, other in requantised(model, x.numpy(), r):
                    names = [o.name for o in onnx.load_from_string(other).graph.output]
                    cases["onnxruntime"].golden(how, "%03d" % i, "model.onnx", other, [([("x", x.numpy())], list(zip(names, run_ort(other, x.numpy()))))])
            except Exception as why:
                print("no case: onnxruntime/%d: %s" % (i, str(why).splitlines()[0][:150] if str(why) else type(why)))
    print("%d models could not be exported" % lost)


if __name__ == "__main__":
    main()
