#!/usr/bin/env python3
"""Writes the ONNX files the benches run; weights are seeded, so every host gets the same bytes.

    make_models.py DIR [mobilenet_v2] [resnet50] [small]        # the first two by default

mobilenet_v2  MobileNetV2 1.0/224 (Sandler et al. 2018), He-initialised: conv + batch norm + ReLU6, as training frameworks export it
resnet50      ResNet-50 (He et al. 2015) with the stride in the 3x3 convolution, He-initialised
small         a perceptron of 256, 1024, 1280 and 10 numbers: some 100 us of computing

Package: onnx (tests/support/venv.sh makes the environment).
"""
import usage  # noqa: F401
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION, SEED = 17, 8, 224


class Net:
    """Collects nodes and weights; every method takes and returns the name of an activation."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def constant(self, name, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype=np.float32), name))
        return name

    def node(self, op, inputs, **attributes):
        out = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    def conv_bn(self, x, channels_in, channels_out, kernel, stride=1, groups=1, gain=1.0):
        """Convolution without a bias and the batch norm behind it. `gain` scales the norm: residual branches take a small one."""
        fan_in = channels_in // groups * kernel * kernel
        shape = (channels_out, channels_in // groups, kernel, kernel)
        weight = self.rng.normal(0, np.sqrt(2 / fan_in), shape)
        name = f"conv_{len(self.nodes)}"
        x = self.node("Conv", [x, self.constant(name + ".weight", weight)], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                      pads=[kernel // 2] * 4, group=groups, dilations=[1, 1])
        parts = {
            "scale": gain * self.rng.uniform(0.8, 1.2, channels_out),
            "bias": self.rng.normal(0, 0.1, channels_out),
            "mean": self.rng.normal(0, 0.1, channels_out),
            "var": self.rng.uniform(0.8, 1.2, channels_out),
        }
        return self.node("BatchNormalization", [x, *(self.constant(f"{name}.{k}", v) for k, v in parts.items())], epsilon=1e-5)

    def relu6(self, x):
        return self.node("Clip", [x, "relu6.min", "relu6.max"])

    def relu(self, x):
        return self.node("Relu", [x])

    def classifier(self, x, features, classes):
        x = self.node("Flatten", [self.node("GlobalAveragePool", [x])], axis=1)
        weight = self.rng.normal(0, np.sqrt(1 / features), (classes, features))
        operands = [x, self.constant("classifier.weight", weight), self.constant("classifier.bias", np.zeros(classes))]
        self.nodes.append(helper.make_node("Gemm", operands, ["logits"], name="classifier", transB=1))

    def model(self, name, inputs, outputs):
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="penstock bench")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model


def image_model(net, name):
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, 224, 224])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 1000])]
    return net.model(name, inputs, outputs)


def mobilenet_v2():
    net = Net(SEED)
    net.constant("relu6.min", 0.0), net.constant("relu6.max", 6.0)
    x = net.relu6(net.conv_bn("input", 3, 32, 3, stride=2))
    channels = 32
    # (expansion, channels, repeats, stride of the first): table 2 of the paper
    for expansion, out, repeats, first_stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                                  (6, 320, 1, 1)]:
        for repeat in range(repeats):
            stride, wide = first_stride if repeat == 0 else 1, channels * expansion
            y = x if expansion == 1 else net.relu6(net.conv_bn(x, channels, wide, 1))
            y = net.relu6(net.conv_bn(y, wide, wide, 3, stride=stride, groups=wide))
            residual = stride == 1 and channels == out
            y = net.conv_bn(y, wide, out, 1, gain=0.5 if residual else 1.0)
            x = net.node("Add", [x, y]) if residual else y
            channels = out
    net.classifier(net.relu6(net.conv_bn(x, 320, 1280, 1)), 1280, 1000)
    return image_model(net, "mobilenet_v2")


def resnet50():
    net = Net(SEED + 1)
    x = net.relu(net.conv_bn("input", 3, 64, 7, stride=2))
    x = net.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, repeats, first_stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            y = net.relu(net.conv_bn(x, channels, width, 1))
            y = net.relu(net.conv_bn(y, width, width, 3, stride=stride))
            y = net.conv_bn(y, width, 4 * width, 1, gain=0.5)
            shortcut = x if repeat else net.conv_bn(x, channels, 4 * width, 1, stride=stride)
            x = net.relu(net.node("Add", [y, shortcut]))
            channels = 4 * width
    net.classifier(x, 2048, 1000)
    return image_model(net, "resnet50")


def small():
    net, x, sizes = Net(SEED + 2), "input", (256, 1024, 1280, 10)
    for layer, (size_in, size_out) in enumerate(zip(sizes, sizes[1:])):
        weight = net.constant(f"layer{layer}.weight", net.rng.normal(0, np.sqrt(2 / size_in), (size_in, size_out)))
        operands = [x, weight, net.constant(f"layer{layer}.bias", np.zeros(size_out))]
        if size_out == sizes[-1]:
            net.nodes.append(helper.make_node("Gemm", operands, ["logits"], name="classifier"))
        else:
            x = net.relu(net.node("Gemm", operands))
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", sizes[0]])]
    return net.model("small", inputs, [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", sizes[-1]])])


def write_image_model(path, model):
    path.write_bytes(model.SerializeToString())
    weights = sum(int(np.prod(w.dims)) for w in model.graph.initializer)
    print(f"{path}: {len(model.graph.node)} nodes, {weights} weights, {path.stat().st_size} bytes")


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    folder, names = Path(arguments[0]), arguments[1:] or ["mobilenet_v2", "resnet50"]
    folder.mkdir(parents=True, exist_ok=True)
    builders = {"mobilenet_v2": mobilenet_v2, "resnet50": resnet50, "small": small}
    for name in names:
        if name in builders:
            write_image_model(folder / f"{name}.onnx", builders[name]())
        else:
            print(f"make_models.py: unknown model '{name}'; there are {', '.join(builders)}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
