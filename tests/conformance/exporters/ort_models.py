"""Small float models for make_onnxruntime.py to quantise and optimise: networks of the usual kinds, made with onnx.helper as exporters write them.

Each function of MODELS gives (model, feeds): feeds(rng) draws one set of inputs.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """A graph by expressions: each operator gives the name of its output."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.seed = seed
        self.nodes, self.weights, self.inputs, self.draws = [], [], [], {}

    def pick(self, *items):
        return items[(self.seed - 1) % len(items)]

    def input(self, name, *shape, low=-1.0, high=1.0, ints=None, fixed=None):
        kind = TensorProto.INT64 if ints or (fixed is not None and fixed.dtype == np.int64) else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        if fixed is not None:
            self.draws[name] = lambda rng: fixed
        elif ints:
            self.draws[name] = lambda rng: rng.integers(0, ints, shape)
        else:
            self.draws[name] = lambda rng: rng.uniform(low, high, shape).astype(np.float32)
        return name

    def const(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, scale=None):
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 10
        return self.const((self.rng.standard_normal(shape) * (scale or 1 / np.sqrt(fan))).astype(np.float32))

    def __call__(self, op, *inputs, outs=1, **attrs):
        names = [f"{op}_{len(self.nodes)}" + (f"_{i}" if outs > 1 else "") for i in range(outs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"n{len(self.nodes)}", **attrs))
        return names[0] if outs == 1 else names

    def conv(self, x, cin, cout, k=3, stride=1, group=1, **attrs):
        pad = attrs.pop("pads", [k // 2] * 4)
        return self("Conv", x, self.weight(cout, cin // group, k, k), self.weight(cout, scale=0.1), kernel_shape=[k, k], strides=[stride] * 2, pads=pad, group=group, **attrs)

    def norm(self, x, channels):
        ones = lambda: self.const(self.rng.uniform(0.6, 1.4, channels).astype(np.float32))
        return self("BatchNormalization", x, ones(), self.weight(channels, scale=0.1), self.weight(channels, scale=0.1), ones())

    def dense(self, x, cin, cout):
        return self("Gemm", x, self.weight(cout, cin), self.weight(cout, scale=0.1), transB=1)

    def linear(self, x, cin, cout):
        """As torch writes it over three dimensions: MatMul, Add with the bias in front."""
        return self("Add", self.weight(cout, scale=0.1), self("MatMul", x, self.const((self.rng.standard_normal((cin, cout)) / np.sqrt(cin)).astype(np.float32))))

    def gelu(self, x):
        erf = self("Erf", self("Div", x, self.const(np.float32(np.sqrt(2)))))
        return self("Mul", self("Mul", x, self("Add", erf, self.const(np.float32(1)))), self.const(np.float32(0.5)))

    def fast_gelu(self, x):
        cube = self("Mul", self("Pow", x, self.const(np.float32(3))), self.const(np.float32(0.044715)))
        tanh = self("Tanh", self("Mul", self("Add", x, cube), self.const(np.float32(np.sqrt(2 / np.pi)))))
        return self("Mul", self("Mul", x, self.const(np.float32(0.5))), self("Add", tanh, self.const(np.float32(1))))

    def layer_norm(self, x, width, epsilon=1e-5):
        apart = self("Sub", x, self("ReduceMean", x, axes=[-1]))
        spread = self("ReduceMean", self("Pow", apart, self.const(np.float32(2))), axes=[-1])
        y = self("Div", apart, self("Sqrt", self("Add", spread, self.const(np.float32(epsilon)))))
        gain = self.const(self.rng.uniform(0.6, 1.4, width).astype(np.float32))
        return self("Add", self("Mul", y, gain), self.weight(width, scale=0.1))

    def rms_norm(self, x, width):
        spread = self("ReduceMean", self("Pow", x, self.const(np.float32(2))), axes=[-1])
        y = self("Mul", x, self("Reciprocal", self("Sqrt", self("Add", spread, self.const(np.float32(1e-6))))))
        return self("Mul", y, self.const(self.rng.uniform(0.6, 1.4, width).astype(np.float32)))

    def attention(self, x, width, heads, mask):
        """Self-attention as torch's exporter writes BERT's."""
        shape = self.const(np.array([0, 0, heads, width // heads]))
        q, k, v = (self("Reshape", self.linear(x, width, width), shape) for _ in range(3))
        q, v = (self("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        k = self("Transpose", k, perm=[0, 2, 3, 1])
        scores = self("Div", self("MatMul", q, k), self.const(np.float32(np.sqrt(width // heads))))
        scores = self("Add", scores, mask) if mask else scores
        y = self("Transpose", self("MatMul", self("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.linear(self("Reshape", y, self.const(np.array([0, 0, width]))), width, width)

    def model(self, *outputs, opset=17):
        values = [helper.make_empty_tensor_value_info(o) for o in outputs]
        graph = helper.make_graph(self.nodes, "model", self.inputs, values, self.weights)
        for o in graph.output:
            o.type.tensor_type.elem_type = TensorProto.FLOAT
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return made, lambda rng: {name: draw(rng) for name, draw in self.draws.items()}


def mlp(g):
    n = g.pick(24, 16, 40)
    x = g("Relu", g.dense(g.input("x", 3, n), n, 20))
    x = g("Tanh", g.dense(x, 20, 16))
    return g.model(g("Softmax", g.dense(x, 16, 10), axis=1))


def matrices(g):
    n = g.pick(16, 24, 32)
    x = g.gelu(g.linear(g.input("x", 2, 5, n), n, 32))
    return g.model(g.layer_norm(g.linear(x, 32, n), n))


def network(g):
    x, c = g.input("x", 1, 3, *g.pick((16, 16), (13, 11), (20, 12))), g.pick(8, 12, 16)
    x = g("Relu", g.norm(g.conv(x, 3, c, stride=2), c))
    x = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g("Relu", g.conv(x, c, 16))
    x = g("Flatten", g("GlobalAveragePool", x))
    return g.model(g.dense(x, 16, 10))


def mobile(g):
    c = g.pick(8, 16, 12)
    clip = lambda v: g("Clip", v, g.const(np.float32(0)), g.const(np.float32(6)))
    x = clip(g.conv(g.input("x", 1, 3, 12, g.pick(12, 10, 14)), 3, c))
    y = clip(g.conv(x, c, 3 * c, k=1, pads=[0] * 4))
    y = clip(g.conv(y, 3 * c, 3 * c, group=3 * c))
    x = g("Add", x, g.conv(y, 3 * c, c, k=1, pads=[0] * 4))
    x = g("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return g.model(g("Softmax", g.dense(g("Flatten", g("GlobalAveragePool", x)), c, 6), axis=-1))


def residual(g):
    c = g.pick(16, 8, 24)
    x = g("Relu", g.norm(g.conv(g.input("x", 1, 3, 14, g.pick(14, 9, 16)), 3, c), c))
    y = g.norm(g.conv(g("Relu", g.norm(g.conv(x, c, c), c)), c, c), c)
    x = g("Relu", g("Add", y, x))
    y = g.norm(g.conv(x, c, 2 * c, k=1, stride=2, pads=[0] * 4), 2 * c)
    z = g.norm(g.conv(x, c, 2 * c, stride=2), 2 * c)
    x = g("Flatten", g("GlobalAveragePool", g("Relu", g("Add", y, z))))
    return g.model(g.dense(x, 2 * c, 5))


def segmenter(g):
    c = g.pick(8, 6, 12)
    x = g.input("x", 1, 3, 12, 16)
    a = g("LeakyRelu", g.conv(x, 3, c), alpha=0.1)
    b = g("Sigmoid", g.conv(a, c, c, stride=2))
    up = g("Resize", b, "", g.const(np.array([1, 1, 2, 2], np.float32)), mode=g.pick("nearest", "linear", "nearest"))
    x = g("Concat", a, up, axis=1)
    x = g("Pad", x, g.const(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
    x = g.conv(x, 2 * c, c, pads=[0] * 4)
    left, right = g("Split", x, g.const(np.array([c // 2, c // 2])), axis=1, outs=2)
    return g.model(g("Sigmoid", g.conv(g("Mul", left, right), c // 2, 2, k=1, pads=[0] * 4)))


def upwards(g):
    c = g.pick(6, 8, 4)
    x = g("Relu", g.conv(g.input("x", 1, 3, 8, 8), 3, c))
    x = g("ConvTranspose", x, g.weight(c, c, 2, 2, scale=0.3), g.weight(c, scale=0.1), strides=[2, 2], kernel_shape=[2, 2])
    x = g("InstanceNormalization", x, g.const(np.ones(c, np.float32)), g.weight(c, scale=0.1))
    x = g("DepthToSpace", g("HardSwish", g.conv(x, c, 8)), blocksize=2)
    return g.model(g("Tanh", x))


def moves(g):
    """Operators that only move or compare: what a quantiser passes bytes through."""
    x = g.conv(g.input("x", 1, 4, 8, 8), 4, 8)
    x = g("Slice", x, g.const(np.array([1, 0])), g.const(np.array([7, 8])), g.const(np.array([2, 3])))
    x = g("Reshape", g("Transpose", x, perm=[0, 2, 3, 1]), g.const(np.array([6, 8, 8])))
    x = g("Unsqueeze", g("Squeeze", g("Unsqueeze", x, g.const(np.array([0]))), g.const(np.array([0]))), g.const(np.array([0])))
    x = g("Gather", x, g.const(np.array([5, 1, 2])), axis=1)
    y = g("Where", g("Greater", x, g.const(np.float32(0))), x, g("Mul", x, g.const(np.float32(0.2))))
    y = g("ReduceMean", g("Max", y, g("Min", x, g.const(np.float32(0.3)))), axes=[2])
    return g.model(g("MatMul", y, g.weight(8, 5)))


def recurrent(g):
    n, h = g.pick(6, 8, 5), g.pick(8, 6, 12)
    both = g.pick(1, 2, 1)
    x = g.input("x", 5, 2, n)
    y, _, _ = g("LSTM", x, g.weight(both, 4 * h, n, scale=0.4), g.weight(both, 4 * h, h, scale=0.3), g.weight(both, 8 * h, scale=0.1), hidden_size=h, outs=3, **({"direction": "bidirectional"} if both == 2 else {}))
    y = g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.const(np.array([5, 2, both * h])))
    return g.model(g.linear(y, both * h, 4))


def gated(g):
    n, h = g.pick(6, 8, 5), g.pick(8, 6, 12)
    y, _ = g("GRU", g.input("x", 4, 2, n), g.weight(1, 3 * h, n, scale=0.4), g.weight(1, 3 * h, h, scale=0.3), hidden_size=h, outs=2)
    return g.model(g.linear(g("Squeeze", y, g.const(np.array([1]))), h, 3))


def encoder(g, gelu="gelu"):
    """A BERT layer with its embedding, as torch exports it."""
    width, heads, length = g.pick(32, 24, 48), g.pick(4, 2, 4), g.pick(6, 9, 5)
    ids, kinds = g.input("input_ids", 2, length, ints=30), g.input("token_type_ids", 2, length, ints=2)
    flags = g.input("attention_mask", 2, length, fixed=np.array([[1] * length, [1] * (length - 2) + [0, 0]]))
    table = g.weight(30, width, scale=0.5)
    x = g("Add", g("Gather", table, ids), g("Gather", g.weight(2, width, scale=0.3), kinds))
    x = g("Add", x, g("Gather", g.weight(16, width, scale=0.3), g.const(np.arange(length)[None])))
    x = g.layer_norm(x, width, 1e-12)
    mask = g("Unsqueeze", g("Unsqueeze", flags, g.const(np.array([1]))), g.const(np.array([2])))
    mask = g("Mul", g("Sub", g.const(np.float32(1)), g("Cast", mask, to=TensorProto.FLOAT)), g.const(np.float32(-10000)))
    for _ in range(2):
        x = g.layer_norm(g("Add", g.attention(x, width, heads, mask), x), width, 1e-12)
        y = g.linear(getattr(g, gelu)(g.linear(x, width, 2 * width)), 2 * width, width)
        x = g.layer_norm(g("Add", y, x), width, 1e-12)
    return g.model(x)


def encoder_tanh(g):
    return encoder(g, "fast_gelu")


def decoder(g):
    """Causal, with root mean square norms and gates, as small language models have them."""
    width, heads, length = g.pick(32, 24, 48), g.pick(4, 2, 4), g.pick(6, 4, 5)
    x = g("Gather", g.weight(40, width, scale=0.5), g.input("input_ids", 1, length, ints=40))
    mask = g.const(np.triu(np.full((length, length), -1e4, np.float32), 1)[None, None])
    for _ in range(2):
        x = g("Add", x, g.attention(g.rms_norm(x, width), width, heads, mask))
        y = g.rms_norm(x, width)
        gate = g.linear(y, width, 2 * width)
        gate = g("Mul", gate, g("Sigmoid", gate))
        x = g("Add", x, g.linear(g("Mul", gate, g.linear(y, width, 2 * width)), 2 * width, width))
    return g.model(g("MatMul", g.rms_norm(x, width), g.weight(width, 40)))


def patches(g):
    """A vision transformer's first layers."""
    width = g.pick(32, 16, 24)
    x = g("Conv", g.input("x", 1, 3, 16, 16), g.weight(width, 3, 4, 4), g.weight(width), kernel_shape=[4, 4], strides=[4, 4])
    x = g("Transpose", g("Reshape", x, g.const(np.array([1, width, 16]))), perm=[0, 2, 1])
    x = g("Concat", g.weight(1, 1, width, scale=0.3), x, axis=1)
    x = g("Add", x, g.weight(1, 17, width, scale=0.3))
    x = g("Add", x, g.attention(g.layer_norm(x, width), width, 2, None))
    x = g("Add", x, g.linear(g.gelu(g.linear(g.layer_norm(x, width), width, 2 * width)), 2 * width, width))
    return g.model(g.dense(g("Gather", x, g.const(np.int64(0)), axis=1), width, 7))


MODELS = {f.__name__: f for f in (mlp, matrices, network, mobile, residual, segmenter, upwards, moves, recurrent, gated, encoder, encoder_tanh, decoder, patches)}


def build(name, seed):
    return MODELS[name](Graph(seed))
