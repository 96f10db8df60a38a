"""Collects the nodes and seeded weights of an ONNX graph, in the order and form that PyTorch's exporter writes. Every method takes and gives names."""
import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8


class Net:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.known = [], [], {}

    def constant(self, array, dtype=np.float32):
        array = np.asarray(array, dtype=dtype)
        key = (array.shape, str(array.dtype), array.tobytes()) if array.size < 16 else None
        if key is None or key not in self.known:
            name = f"w{len(self.weights)}"
            self.weights.append(numpy_helper.from_array(array, name))
            self.known[key] = name
            return name
        return self.known[key]

    def ints(self, *values):
        return self.constant(values, np.int64)

    def normal(self, shape, deviation):
        return self.constant(self.rng.normal(0, deviation, shape))

    def node(self, op, inputs, outputs=1, **attributes):
        out = [f"{op.lower()}_{len(self.nodes)}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, out, name=out[0], **attributes))
        return out[0] if outputs == 1 else out

    def conv(self, x, inside, outside, kernel, stride=1, groups=1, gain=1.0, pad=None):
        """With a bias: exporters fold the batch norm behind it."""
        fan_in = inside // groups * kernel * kernel
        weight = self.normal((outside, inside // groups, kernel, kernel), gain * math.sqrt(2 / fan_in))
        return self.node("Conv", [x, weight, self.normal((outside,), 0.1)], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                         pads=[kernel // 2 if pad is None else pad] * 4, group=groups, dilations=[1, 1])

    def linear(self, x, inside, outside, gain=1.0):
        """Of rank 3 and more: a product and an addition."""
        product = self.node("MatMul", [x, self.normal((inside, outside), gain / math.sqrt(inside))])
        return self.node("Add", [self.normal((outside,), 0.02), product])

    def gemm(self, x, inside, outside):
        return self.node("Gemm", [x, self.normal((outside, inside), 1 / math.sqrt(inside)), self.normal((outside,), 0.02)], transB=1)

    def norm(self, x, width):
        gain = self.constant(self.rng.uniform(0.8, 1.2, width))
        return self.node("LayerNormalization", [x, gain, self.normal((width,), 0.02)], axis=-1, epsilon=1e-5)

    def silu(self, x):
        return self.node("Mul", [x, self.node("Sigmoid", [x])])

    def gelu(self, x):
        half = self.node("Erf", [self.node("Div", [x, self.constant(math.sqrt(2))])])
        whole = self.node("Mul", [x, self.node("Add", [half, self.constant(1)])])
        return self.node("Mul", [whole, self.constant(0.5)])

    def pooled_head(self, x, features, classes=1000):
        return self.gemm(self.node("Flatten", [self.node("GlobalAveragePool", [x])], axis=1), features, classes)

    def model(self, name, inputs, output, shape, opset=OPSET):
        """inputs: {name: (type, shape)}"""
        self.nodes.append(helper.make_node("Identity", [output], ["output"]))
        given = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()]
        graph = helper.make_graph(self.nodes, name, given, [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="penstock bench")
        model.ir_version = IR_VERSION if opset == OPSET else helper.find_min_ir_version_for(model.opset_import)
        onnx.checker.check_model(model)
        return model

    def picture_model(self, name, output, shape, side=224, channels=3):
        return self.model(name, {"input": (TensorProto.FLOAT, [1, channels, side, side])}, output, shape)
