"""Encoders in the form that exports from PyTorch have: separate products, Erf for Gelu, the mask added to the scores."""
import math

from onnx import TensorProto

from net import Net


def heads_of(net, x, length, heads, size, perm):
    return net.node("Transpose", [net.node("Reshape", [x, net.ints(1, length, heads, size)])], perm=perm)


def attention(net, x, length, width, heads, mask):
    size = width // heads
    q, k, v = (net.linear(x, width, width) for _ in range(3))
    q, v = (heads_of(net, part, length, heads, size, [0, 2, 1, 3]) for part in (q, v))
    k = heads_of(net, k, length, heads, size, [0, 2, 3, 1])
    scores = net.node("Div", [net.node("MatMul", [q, k]), net.constant(math.sqrt(size))])
    scores = net.node("Add", [scores, mask]) if mask else scores
    y = net.node("MatMul", [net.node("Softmax", [scores], axis=-1), v])
    y = net.node("Reshape", [net.node("Transpose", [y], perm=[0, 2, 1, 3]), net.ints(1, length, width)])
    return net.linear(y, width, width)


def bert(name, seed, layers, width, heads, length):
    net = Net(seed)
    words = net.node("Gather", [net.normal((4000, width), 0.05), "input_ids"])
    kinds = net.node("Gather", [net.normal((2, width), 0.05), "token_type_ids"])
    x = net.node("Add", [net.node("Add", [words, kinds]), net.normal((1, length, width), 0.05)])
    mask = net.node("Cast", [net.node("Unsqueeze", ["attention_mask", net.ints(1, 2)])], to=TensorProto.FLOAT)
    mask = net.node("Mul", [net.node("Sub", [net.constant(1), mask]), net.constant(-10000)])
    x = net.norm(x, width)
    for _ in range(layers):
        x = net.norm(net.node("Add", [attention(net, x, length, width, heads, mask), x]), width)
        y = net.linear(net.gelu(net.linear(x, width, 4 * width)), 4 * width, width)
        x = net.norm(net.node("Add", [y, x]), width)
    inputs = {n: (TensorProto.INT64, [1, length]) for n in ("input_ids", "attention_mask", "token_type_ids")}
    return net.model(name, inputs, x, [1, length, width])


def bert_base():
    return bert("bert_base", 20, 12, 768, 12, 128)


def minilm():
    return bert("minilm", 21, 6, 384, 12, 128)


def vit_b16():
    net, width, length = Net(22), 768, 197
    x = net.node("Reshape", [net.conv("input", 3, width, 16, 16, pad=0), net.ints(1, width, 196)])
    x = net.node("Concat", [net.normal((1, 1, width), 0.02), net.node("Transpose", [x], perm=[0, 2, 1])], axis=1)
    x = net.node("Add", [x, net.normal((1, length, width), 0.02)])
    for _ in range(12):
        x = net.node("Add", [attention(net, net.norm(x, width), length, width, 12, None), x])
        y = net.gelu(net.linear(net.norm(x, width), width, 4 * width))
        x = net.node("Add", [x, net.linear(y, 4 * width, width)])
    x = net.node("Gather", [net.norm(x, width), net.constant(0, "int64")], axis=1)
    return net.picture_model("vit_b16", net.gemm(x, width, 1000), [1, 1000])


BUILDERS = {b.__name__: b for b in (bert_base, minilm, vit_b16)}
