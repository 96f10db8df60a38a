"""Networks of convolutions, by their papers' tables, in the form that torchvision's exports have."""
from onnx import TensorProto

from net import Net


def bottlenecks(name, seed, groups, wider):
    """ResNet-50's table; each 3 x 3 convolution has so many groups, and `wider` times the channels."""
    net = Net(seed)
    x = net.node("Relu", [net.conv("input", 3, 64, 7, stride=2)])
    x = net.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inside = 64
    for base, repeats, first in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        width, outside = base * wider, 4 * base
        for repeat in range(repeats):
            stride = first if repeat == 0 else 1
            y = net.node("Relu", [net.conv(x, inside, width, 1)])
            y = net.node("Relu", [net.conv(y, width, width, 3, stride, groups=groups)])
            y = net.conv(y, width, outside, 1, gain=0.5)
            x = net.node("Relu", [net.node("Add", [y, x if repeat else net.conv(x, inside, outside, 1, stride)])])
            inside = outside
    return net.picture_model(name, net.pooled_head(x, 2048), [1, 1000])


def resnet50():
    return bottlenecks("resnet50", 50, 1, 1)


def resnext50():
    return bottlenecks("resnext50", 51, 32, 2)


def gate(net, x, channels, squeezed, inner, outer):
    """Squeeze and excite: `inner` and `outer` are the activations of its two layers."""
    y = inner(net.conv(net.node("GlobalAveragePool", [x]), channels, squeezed, 1))
    return net.node("Mul", [outer(net.conv(y, squeezed, channels, 1)), x])


def separable(net, x, inside, wide, outside, kernel, stride, act, gated=None):
    """Expansion, depthwise, gate, projection; added where the shapes allow it."""
    y = x if wide == inside else act(net.conv(x, inside, wide, 1))
    y = act(net.conv(y, wide, wide, kernel, stride, groups=wide))
    y = gated(y, wide) if gated else y
    adds = stride == 1 and inside == outside
    y = net.conv(y, wide, outside, 1, gain=0.5 if adds else 1.0)
    return net.node("Add", [x, y]) if adds else y


def mobilenet_v2():
    net = Net(2)
    relu6 = lambda x: net.node("Clip", [x, net.constant(0), net.constant(6)])
    x, inside = relu6(net.conv("input", 3, 32, 3, 2)), 32
    for expansion, outside, repeats, first in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for repeat in range(repeats):
            x = separable(net, x, inside, inside * expansion, outside, 3, first if repeat == 0 else 1, relu6)
            inside = outside
    return net.picture_model("mobilenet_v2", net.pooled_head(relu6(net.conv(x, 320, 1280, 1)), 1280), [1, 1000])


def mobilenet_v3():
    net = Net(3)
    relu, swish = (lambda x, op=op: net.node(op, [x]) for op in ("Relu", "HardSwish"))
    hard = lambda x: net.node("HardSigmoid", [x], alpha=1 / 6)
    gated = lambda x, wide: gate(net, x, wide, (wide // 4 + 7) // 8 * 8, relu, hard)
    x, inside = swish(net.conv("input", 3, 16, 3, 2)), 16
    # kernel, expanded, out, gate, activation, stride: table 1 of the paper
    for kernel, wide, outside, has_gate, act, stride in [
            (3, 16, 16, 0, relu, 1), (3, 64, 24, 0, relu, 2), (3, 72, 24, 0, relu, 1), (5, 72, 40, 1, relu, 2), (5, 120, 40, 1, relu, 1),
            (5, 120, 40, 1, relu, 1), (3, 240, 80, 0, swish, 2), (3, 200, 80, 0, swish, 1), (3, 184, 80, 0, swish, 1), (3, 184, 80, 0, swish, 1),
            (3, 480, 112, 1, swish, 1), (3, 672, 112, 1, swish, 1), (5, 672, 160, 1, swish, 2), (5, 960, 160, 1, swish, 1), (5, 960, 160, 1, swish, 1)]:
        x = separable(net, x, inside, wide, outside, kernel, stride, act, gated if has_gate else None)
        inside = outside
    x = swish(net.conv(x, 160, 960, 1))
    x = swish(net.gemm(net.node("Flatten", [net.node("GlobalAveragePool", [x])], axis=1), 960, 1280))
    return net.picture_model("mobilenet_v3", net.gemm(x, 1280, 1000), [1, 1000])


def efficientnet_b0():
    net = Net(4)
    sigmoid = lambda x: net.node("Sigmoid", [x])
    x, inside = net.silu(net.conv("input", 3, 32, 3, 2)), 32
    for expansion, outside, repeats, first, kernel in [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
                                                       (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]:
        for repeat in range(repeats):
            gated = lambda y, wide, squeezed=inside // 4: gate(net, y, wide, squeezed, net.silu, sigmoid)
            x = separable(net, x, inside, inside * expansion, outside, kernel, first if repeat == 0 else 1, net.silu, gated)
            inside = outside
    return net.picture_model("efficientnet_b0", net.pooled_head(net.silu(net.conv(x, 320, 1280, 1)), 1280), [1, 1000])


def convnext_t():
    net = Net(5)
    turned = lambda x: net.node("Transpose", [x], perm=[0, 2, 3, 1])
    back = lambda x: net.node("Transpose", [x], perm=[0, 3, 1, 2])
    x, inside = net.conv("input", 3, 96, 4, 4, pad=0), 3
    x = back(net.norm(turned(x), 96))
    for stage, (width, repeats) in enumerate([(96, 3), (192, 3), (384, 9), (768, 3)]):
        if stage:
            x = net.conv(back(net.norm(turned(x), inside)), inside, width, 2, 2, pad=0)
        for _ in range(repeats):
            y = net.norm(turned(net.conv(x, width, width, 7, groups=width)), width)
            y = net.linear(net.gelu(net.linear(y, width, 4 * width)), 4 * width, width)
            x = net.node("Add", [net.node("Mul", [net.constant(0.1 * net.rng.uniform(0.5, 1, (width, 1, 1))), back(y)]), x])
        inside = width
    x = back(net.norm(turned(net.node("GlobalAveragePool", [x])), 768))
    return net.picture_model("convnext_t", net.gemm(net.node("Flatten", [x], axis=1), 768, 1000), [1, 1000])


def unet():
    net = Net(6)

    def double(x, inside, outside):
        for width in (inside, outside):
            x = net.node("Relu", [net.conv(x, width, outside, 3)])
        return x

    x, kept, inside = "input", [], 3
    for width in (32, 64, 128, 256):
        x = double(x, inside, width)
        kept.append((x, width))
        x, inside = net.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2]), width
    x, inside = double(x, 256, 512), 512
    for skip, width in reversed(kept):
        weight = net.normal((inside, width, 2, 2), (1 / inside) ** 0.5)
        x = net.node("ConvTranspose", [x, weight, net.normal((width,), 0.1)], kernel_shape=[2, 2], strides=[2, 2])
        x, inside = double(net.node("Concat", [skip, x], axis=1), 2 * width, width), width
    return net.picture_model("unet", net.node("Sigmoid", [net.conv(x, 32, 1, 1)]), [1, 1, 192, 192], side=192)


def shufflenet_v2():
    net = Net(7)
    relu = lambda x: net.node("Relu", [x])

    def branch(x, inside, width, stride):
        y = relu(net.conv(x, inside, width, 1))
        return relu(net.conv(net.conv(y, width, width, 3, stride, groups=width), width, width, 1))

    def shuffled(a, b, width, side):
        x = net.node("Reshape", [net.node("Concat", [a, b], axis=1), net.ints(1, 2, width, side, side)])
        x = net.node("Transpose", [x], perm=[0, 2, 1, 3, 4])
        return net.node("Reshape", [x, net.ints(1, 2 * width, side, side)])

    x = net.node("MaxPool", [relu(net.conv("input", 3, 24, 3, 2))], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inside, side = 24, 56
    for outside, repeats in [(116, 4), (232, 8), (464, 4)]:
        width, side = outside // 2, side // 2
        left = relu(net.conv(net.conv(x, inside, inside, 3, 2, groups=inside), inside, width, 1))
        x = shuffled(left, branch(x, inside, width, 2), width, side)
        for _ in range(repeats - 1):
            left, right = net.node("Split", [x, net.ints(width, width)], outputs=2, axis=1)
            x = shuffled(left, branch(right, width, width, 1), width, side)
        inside = outside
    x = net.node("ReduceMean", [relu(net.conv(x, 464, 1024, 1))], axes=[2, 3], keepdims=0)
    return net.picture_model("shufflenet_v2", net.gemm(x, 1024, 1000), [1, 1000])


def regnet_y():
    """RegNetY-400MF: groups of 8 channels, and gates."""
    net = Net(11)
    relu, sigmoid = (lambda x, op=op: net.node(op, [x]) for op in ("Relu", "Sigmoid"))
    x, inside = relu(net.conv("input", 3, 32, 3, 2)), 32
    for width, repeats in [(48, 1), (104, 3), (208, 6), (440, 6)]:
        for repeat in range(repeats):
            stride = 2 if repeat == 0 else 1
            y = relu(net.conv(relu(net.conv(x, inside, width, 1)), width, width, 3, stride, groups=width // 8))
            y = net.conv(gate(net, y, width, inside // 4, relu, sigmoid), width, width, 1, gain=0.5)
            x = relu(net.node("Add", [net.conv(x, inside, width, 1, stride) if repeat == 0 else x, y]))
            inside = width
    return net.picture_model("regnet_y", net.pooled_head(x, 440), [1, 1000])


def squeeze_excite():
    """Small and narrow: what a camera's detector is made of. Gates and additions weigh as much as products."""
    net = Net(8)
    relu, sigmoid = (lambda x, op=op: net.node(op, [x]) for op in ("Relu", "Sigmoid"))
    x, inside = relu(net.conv("input", 3, 16, 5, 2)), 16
    for outside, stride in [(16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (32, 1), (64, 2), (64, 1), (64, 1), (96, 2), (96, 1)]:
        y = relu(net.conv(net.conv(x, inside, inside, 5, stride, groups=inside), inside, outside, 1))
        y = gate(net, y, outside, outside // 4, relu, sigmoid)
        x = relu(net.node("Add", [x, y])) if inside == outside and stride == 1 else y
        inside = outside
    return net.picture_model("squeeze_excite", net.conv(x, 96, 16, 1), [1, 16, 4, 4], side=128)


def pyramid():
    """A detector of narrow separable convolutions: two rounds of a feature pyramid with weighted additions, both ways between its levels."""
    net, width = Net(10), 48
    node = lambda op, *inputs, **attributes: net.node(op, list(inputs), **attributes)

    def separate(x, inside, outside, stride=1):
        return net.silu(net.conv(net.conv(x, inside, inside, 3, stride, groups=inside), inside, outside, 1))

    def mixed(*terms):
        """Each level has weights of its own, which learning found."""
        scaled = [node("Mul", x, net.constant(net.rng.uniform(0.2, 0.6))) for x in terms]
        while len(scaled) > 1:
            scaled = [node("Add", *scaled[:2]), *scaled[2:]]
        return net.silu(net.conv(net.conv(net.silu(scaled[0]), width, width, 3, groups=width), width, width, 1))

    up = lambda x: node("Resize", x, "", net.constant([1, 1, 2, 2]), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    down = lambda x: node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x, levels = net.silu(net.conv("input", 3, 24, 3, 2)), []
    for inside, outside in [(24, 40), (40, 64), (64, 96), (96, 128)]:
        x = separate(x, inside, outside, 2)
        x = node("Add", x, separate(x, outside, outside))
        levels.append(net.conv(x, outside, width, 1))
    for _ in range(2):
        tops = [levels[-1]]
        for level in reversed(levels[:-1]):
            tops.insert(0, mixed(level, up(tops[0])))
        levels = [tops[0]] + [None] * 3
        for at in range(1, 4):
            levels[at] = mixed(tops[at], down(levels[at - 1]))
    heads = [node("Reshape", node("Transpose", net.conv(separate(x, width, width), width, 18, 1), perm=[0, 2, 3, 1]), net.ints(1, -1, 6)) for x in levels]
    return net.picture_model("pyramid", node("Concat", *heads, axis=1), [1, 3 * sum((256 // s) ** 2 for s in (4, 8, 16, 32)), 6], side=256)


def lstm():
    net = Net(9)
    x, inside, hidden = "input", 80, 256
    for _ in range(2):
        w, r, b = (net.normal(s, 0.05) for s in [(1, 4 * hidden, inside), (1, 4 * hidden, hidden), (1, 8 * hidden)])
        zero = net.constant([[[0.0] * hidden]])
        y = net.node("LSTM", [x, w, r, b, "", zero, zero], outputs=3, hidden_size=hidden)[0]
        x, inside = net.node("Squeeze", [y, net.ints(1)]), hidden
    return net.model("lstm", {"input": (TensorProto.FLOAT, [100, 1, 80])}, net.linear(x, hidden, 64), [100, 1, 64])


BUILDERS = {b.__name__: b for b in (resnet50, resnext50, regnet_y, mobilenet_v2, mobilenet_v3, efficientnet_b0, convnext_t, unet, shufflenet_v2, squeeze_excite, pyramid, lstm)}
