"""Models of one node for make_onnxruntime.py: the operators that ONNX Runtime's quantiser and optimisers write, with their attributes and optional inputs.

Each generator yields (name, operator, domain, inputs, fed, attributes, outputs): inputs are arrays ("" = left out), fed the indices that are inputs of the
graph (the others are constants), outputs their number.
"""

import numpy as np

MS = "com.microsoft"
U8, I8, U16, I16 = np.uint8, np.int8, np.uint16, np.int16


class Draw:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.seed = seed

    def f(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def q(self, dtype, *shape):
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def scale(self, low=0.003, high=0.2):
        return np.float32(self.rng.uniform(low, high))

    def scales(self, count, low=0.003, high=0.1):
        return self.rng.uniform(low, high, count).astype(np.float32)

    def ints(self, low, high, *shape, dtype=np.int64):
        return self.rng.integers(low, high, shape).astype(dtype)

    def pick(self, *items):
        """One of them, another with every seed: sizes."""
        return items[(self.seed - 1) % len(items)]


def label(dtype):
    return np.dtype(dtype).name.replace("uint", "u").replace("int", "i")


# ---- QLinear* ------------------------------------------------------------------------------------------------------------------------


def q_convolutions(d):
    """QLinearConv and ConvInteger: data types, groups, layouts, zero points."""
    c, out, size = d.pick(6, 4, 10), d.pick(8, 12, 4), d.pick(9, 7, 11)
    for x in (U8, I8):
        for w in (U8, I8):
            if (x, w) == (I8, U8):
                continue
            pair = lambda low=0.003, high=0.2: [d.scale(low, high), d.q(x)]
            kinds = {
                "plain": (c, 1, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
                "stride": (c, 1, {"kernel_shape": [3, 3], "strides": [2, 2]}),
                "point": (c, 1, {"kernel_shape": [1, 1]}),
                "groups": (c // 2, 2, {"kernel_shape": [3, 3], "group": 2, "dilations": [2, 2], "pads": [2, 2, 2, 2]}),
                "same": (c, 1, {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
            }
            for kind, (inner, _, attrs) in kinds.items():
                kernel = d.q(w, out, inner, *attrs["kernel_shape"])
                zero = d.q(w) if w == U8 else I8(0)
                bias = d.ints(-1000, 1000, out, dtype=np.int32)
                inputs = [d.q(x, 2, c, size, size), *pair(), kernel, d.scale(), zero, *pair(0.5, 3)]
                yield f"conv_{kind}_{label(x)}{label(w)}", "QLinearConv", "", inputs + ([bias] if kind != "stride" else []), {0}, attrs, 1
            wide = [d.q(x, 1, c, size, size), *pair(), d.q(w, c, 1, 3, 3), d.scales(c), np.full(c, 128 if w == U8 else 0, w), *pair()]
            yield f"conv_depthwise_{label(x)}{label(w)}", "QLinearConv", "", wide, {0}, {"kernel_shape": [3, 3], "group": c}, 1
            line = [d.q(x, 2, c, 17), *pair(), d.q(w, out, c, 3), d.scales(out), np.zeros(out, w), *pair(0.5, 3)]
            yield f"conv_1d_{label(x)}{label(w)}", "QLinearConv", "", line, {0}, {"kernel_shape": [3]}, 1
            cube = [d.q(x, 1, 3, 5, 5, 5), *pair(), d.q(w, 4, 3, 2, 2, 2), d.scale(), w(0), *pair(0.5, 3)]
            yield f"conv_3d_{label(x)}{label(w)}", "QLinearConv", "", cube, {0}, {"kernel_shape": [2, 2, 2]}, 1
            last = [d.q(x, 1, size, size, c), *pair(), d.q(w, out, c, 3, 3), d.scale(), w(0), *pair(0.5, 3)]
            yield f"conv_last_{label(x)}{label(w)}", "QLinearConv", MS, last, {0}, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "channels_last": 1}, 1
    for w in (U8, I8):
        inputs = [d.q(U8, 1, 3, 7, 7), d.q(w, 4, 3, 3, 3), d.q(U8), d.q(w) if w == U8 else I8(0)]
        yield f"conv_integer_{label(w)}", "ConvInteger", "", inputs, {0}, {"kernel_shape": [3, 3]}, 1
        yield f"conv_integer_plain_{label(w)}", "ConvInteger", "", inputs[:2], {0}, {"pads": [1, 0, 0, 1], "strides": [2, 1]}, 1


def q_products(d):
    """QLinearMatMul, QGemm, MatMulInteger and what the quantiser makes of them."""
    m, k, n = d.pick(7, 5, 11), d.pick(32, 24, 19), d.pick(9, 16, 6)
    for a in (U8, I8):
        for b in (U8, I8):
            if (a, b) == (I8, U8):
                continue
            pair = lambda low=0.003, high=0.2: [d.scale(low, high), d.q(a)]
            right = lambda *shape: [d.q(b, *shape), d.scale(), d.q(b)]
            t = label(a) + label(b)
            yield f"matmul_{t}", "QLinearMatMul", "", [d.q(a, m, k), *pair(), *right(k, n), *pair(0.5, 3)], {0}, {}, 1
            yield f"matmul_batch_{t}", "QLinearMatMul", "", [d.q(a, 2, 3, m, k), *pair(), *right(3, k, n), *pair(0.5, 3)], {0, 3}, {}, 1
            yield f"matmul_columns_{t}", "QLinearMatMul", "", [d.q(a, m, k), *pair(), d.q(b, k, n), d.scales(n), d.q(b, n), *pair(0.5, 3)], {0}, {}, 1
            bias = d.ints(-2000, 2000, n, dtype=np.int32)
            yield f"gemm_{t}", "QGemm", MS, [d.q(a, m, k), *pair(), *right(k, n), bias, *pair(0.5, 3)], {0}, {}, 1
            yield f"gemm_trans_{t}", "QGemm", MS, [d.q(a, k, m), *pair(), d.q(b, n, k), d.scales(n), d.q(b, n), bias, *pair(0.5, 3)], {0}, {"transA": 1, "transB": 1, "alpha": 1.0}, 1
            yield f"gemm_float_{t}", "QGemm", MS, [d.q(a, m, k), *pair(), *right(k, n), bias], {0}, {}, 1
            yield f"gemm_alpha_{t}", "QGemm", MS, [d.q(a, m, k), *pair(), *right(k, n), "", *pair(0.5, 3)], {0}, {"alpha": 0.5}, 1
            yield f"integer_{t}", "MatMulInteger", "", [d.q(a, m, k), d.q(b, k, n), d.q(a), d.q(b)], {0}, {}, 1
            yield f"integer_columns_{t}", "MatMulInteger", "", [d.q(a, 2, m, k), d.q(b, k, n), d.q(a), d.q(b, n)], {0}, {}, 1
            yield f"to_float_{t}", "MatMulIntegerToFloat", MS, [d.q(a, m, k), d.q(b, k, n), d.scale(), d.scale(), d.q(a), d.q(b)], {0}, {}, 1
            yield f"to_float_columns_{t}", "MatMulIntegerToFloat", MS, [d.q(a, 2, m, k), d.q(b, k, n), d.scale(), d.scales(n), d.q(a), d.q(b, n), d.f(n)], {0}, {}, 1
            yield f"to_float_plain_{t}", "MatMulIntegerToFloat", MS, [d.q(a, m, k), d.q(b, k, n), d.scale(), d.scale()], {0}, {}, 1
    for b in (U8, I8):
        yield f"dynamic_{label(b)}", "DynamicQuantizeMatMul", MS, [d.f(m, k), d.q(b, k, n), d.scale(), d.q(b)], {0}, {}, 1
        yield f"dynamic_columns_{label(b)}", "DynamicQuantizeMatMul", MS, [d.f(2, m, k), d.q(b, k, n), d.scales(n), d.q(b, n), d.f(n)], {0}, {}, 1
        yield f"dynamic_plain_{label(b)}", "DynamicQuantizeMatMul", MS, [d.f(m, k), d.q(b, k, n), d.scale()], {0}, {}, 1
    yield "integer16", "MatMulInteger16", MS, [d.q(I16, m, k) // 16, d.q(I16, k, n) // 16], {0}, {}, 1


def q_elements(d):
    """Element-wise and pooling operators on bytes."""
    n, c, h = d.pick(2, 1, 3), d.pick(5, 8, 3), d.pick(9, 6, 12)
    for t in (U8, I8):
        x = d.q(t, n, c, h, h)
        pair = lambda low=0.003, high=0.2: [d.scale(low, high), d.q(t)]
        unit, s = [np.float32(1 / 256), t(np.iinfo(t).min)], label(t)
        for op in ("QLinearAdd", "QLinearMul"):
            short = op[7:].lower()
            yield f"{short}_{s}", op, MS, [x, *pair(), d.q(t, n, c, h, h), *pair(), *pair()], {0, 3}, {}, 1
            yield f"{short}_channel_{s}", op, MS, [x, *pair(), d.q(t, c, 1, 1), *pair(), *pair()], {0}, {}, 1
            yield f"{short}_scalar_{s}", op, MS, [d.q(t), *pair(), x, *pair(), *pair()], {3}, {}, 1
        yield f"sigmoid_{s}", "QLinearSigmoid", MS, [x, *pair(), *unit], {0}, {}, 1
        yield f"leaky_{s}", "QLinearLeakyRelu", MS, [x, *pair(), *pair()], {0}, {"alpha": 0.1}, 1
        yield f"leaky_default_{s}", "QLinearLeakyRelu", MS, [x, *pair(), *pair()], {0}, {}, 1
        yield f"average_{s}", "QLinearAveragePool", MS, [x, *pair(), *pair()], {0}, {"kernel_shape": [3, 3]}, 1
        yield f"average_pad_{s}", "QLinearAveragePool", MS, [x, *pair(), *pair()], {0}, {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "count_include_pad": 1}, 1
        yield f"average_ceil_{s}", "QLinearAveragePool", MS, [x, *pair(), *pair()], {0}, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, 1
        yield f"average_last_{s}", "QLinearAveragePool", MS, [d.q(t, n, h, h, c), *pair(), *pair()], {0}, {"kernel_shape": [3, 3], "channels_last": 1}, 1
        yield f"global_{s}", "QLinearGlobalAveragePool", MS, [x, *pair(), *pair()], {0}, {}, 1
        yield f"global_last_{s}", "QLinearGlobalAveragePool", MS, [d.q(t, n, h, h, c), *pair(), *pair()], {0}, {"channels_last": 1}, 1
        yield f"softmax_{s}", "QLinearSoftmax", MS, [d.q(t, 4, 40), *pair(), *unit], {0}, {"opset": 13, "axis": -1}, 1
        yield f"softmax_axis_{s}", "QLinearSoftmax", MS, [d.q(t, 2, 12, 5), *pair(), *unit], {0}, {"opset": 13, "axis": 1}, 1
        yield f"softmax_old_{s}", "QLinearSoftmax", MS, [d.q(t, 2, 3, 5), *pair(), *unit], {0}, {"opset": 11, "axis": 1}, 1
        parts = [d.q(t, n, 3, h, h), d.q(t, n, 2, h, h)]
        yield f"concat_{s}", "QLinearConcat", MS, [*pair(), x, *pair(), parts[0], *pair(), parts[1], *pair()], {2, 5, 8}, {"axis": 1}, 1
        yield f"concat_same_{s}", "QLinearConcat", MS, [d.scale(0.05, 0.05), t(3), parts[0], np.float32(0.05), t(3), parts[1], np.float32(0.05), t(3)], {2, 5}, {"axis": -3}, 1
        flags = d.ints(0, 2, n, 1, h, 1, dtype=np.bool_)
        yield f"where_{s}", "QLinearWhere", MS, [flags, x, *pair(), d.q(t, c, h, h), *pair(), *pair()], {0, 1, 4}, {}, 1
        yield f"where_scalar_{s}", "QLinearWhere", MS, [flags, x, *pair(), d.q(t), *pair(), *pair()], {0, 1}, {}, 1
        yield f"max_pool_{s}", "MaxPool", "", [x], {0}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 1
        yield f"max_pool_last_{s}", "NhwcMaxPool", MS, [d.q(t, n, h, h, c)], {0}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 1
        yield f"clip_{s}", "Clip", "", [x, t(5), t(90)], {0}, {}, 1
        yield f"pad_{s}", "Pad", "", [x, np.array([0, 0, 1, 2, 0, 0, 2, 1]), t(7)], {0}, {}, 1
        yield f"gather_{s}", "Gather", "", [d.q(t, 12, 6), d.ints(0, 12, 3, 2)], {1}, {"axis": 0}, 1
        yield f"split_{s}", "Split", "", [d.q(t, 2, 9), np.array([2, 3, 4])], {0}, {"axis": 1}, 3
        yield f"transpose_{s}", "Transpose", "", [x], {0}, {"perm": [0, 2, 3, 1]}, 1
        yield f"argmax_{s}", "ArgMax", "", [x], {0}, {"axis": 1, "keepdims": 0}, 1
        sizes, x = np.array([n, c, 2 * h, 2 * h]), np.minimum(x, 90)
        x[0, 0, 0, 0] = 120
        yield f"resize_nearest_{s}", "Resize", "", [x, "", "", sizes], {0}, {"mode": "nearest"}, 1
        for where in ("half_pixel", "asymmetric", "align_corners"):
            yield f"resize_{where}_{s}", "Resize", "", [x, "", np.array([1, 1, 3, 2], np.float32)], {0}, {"mode": "linear", "coordinate_transformation_mode": where}, 1


def q_scales(d):
    """QuantizeLinear and DequantizeLinear of both domains: types, axes, blocks."""
    x, rows, columns = 5 * d.f(d.pick(6, 4, 8), 32), d.pick(6, 4, 8), 32
    for domain, short in (("", "onnx"), (MS, "ms")):
        for t in (U8, I8, U16, I16):
            s = label(t)
            yield f"quantise_{short}_{s}", "QuantizeLinear", domain, [x, d.scale(0.02, 0.1), d.q(t)], {0}, {}, 1
            yield f"dequantise_{short}_{s}", "DequantizeLinear", domain, [d.q(t, rows, columns), d.scale(), d.q(t)], {0}, {}, 1
            yield f"quantise_{short}_axis_{s}", "QuantizeLinear", domain, [x, d.scales(rows, 0.02, 0.1), d.q(t, rows)], {0}, {"axis": 0}, 1
            yield f"dequantise_{short}_axis_{s}", "DequantizeLinear", domain, [d.q(t, rows, columns), d.scales(columns), d.q(t, columns)], {0}, {"axis": -1}, 1
        yield f"dequantise_{short}_i32", "DequantizeLinear", domain, [d.ints(-9000, 9000, rows, columns, dtype=np.int32), d.scale()], {0}, {}, 1
    for t in (U8, I8, I16):
        yield f"quantise_block_{label(t)}", "QuantizeLinear", "", [x, d.scales((rows, 2), 0.02, 0.1), d.q(t, rows, 2)], {0}, {"axis": 1, "block_size": 16}, 1
        yield f"dequantise_block_{label(t)}", "DequantizeLinear", "", [d.q(t, rows, columns), d.scales((rows // 2, columns)), d.q(t, rows // 2, columns)], {0}, {"axis": 0, "block_size": 2}, 1
    yield "quantise_dynamic", "DynamicQuantizeLinear", "", [x], {0}, {}, 3


def q_small_weights(d):
    """Weights of few bits: MatMulNBits, MatMulBnb4, GatherBlockQuantized."""
    n = d.pick(6, 9, 16)
    for bits in (2, 4, 8):
        for block in (16, 32, 64, 128, 256):
            k = block * d.pick(2, 1, 3) - (block // 2 if block > 32 and bits == 4 else 0)
            blocks, blob = -(-k // block), block * bits // 8
            attrs = {"K": k, "N": n, "bits": bits, "block_size": block}
            a, b = d.f(3, k), d.q(U8, n, blocks, blob)
            scales = d.scales(n * blocks).reshape(n, blocks)
            packed = d.q(U8, n, -(-blocks * bits // 8))
            yield f"nbits_{bits}_{block}", "MatMulNBits", MS, [a, b, scales], {0}, attrs, 1
            yield f"nbits_{bits}_{block}_zero", "MatMulNBits", MS, [a[None], b, scales, packed], {0}, attrs, 1
            if block == 32:
                yield f"nbits_{bits}_{block}_float_zero", "MatMulNBits", MS, [a, b, scales, d.f(n, blocks)], {0}, attrs, 1
                yield f"nbits_{bits}_{block}_bias", "MatMulNBits", MS, [a, b, scales, packed, "", d.f(n)], {0}, attrs, 1
                yield f"nbits_{bits}_{block}_flat", "MatMulNBits", MS, [a, b, scales.reshape(-1), packed.reshape(-1)], {0}, attrs, 1
    for kind, word in ((0, "fp4"), (1, "nf4")):
        for block in (16, 64):
            k = d.pick(64, 32, 96)
            inputs = [d.f(2, 3, k), d.q(U8, n * k // 2), d.scales(-(-n * k // block))]
            yield f"bnb_{word}_{block}", "MatMulBnb4", MS, inputs, {0}, {"K": k, "N": n, "block_size": block, "quant_type": kind}, 1
    rows, k = d.pick(7, 5, 12), d.pick(64, 32, 96)
    at = d.ints(0, rows, 2, 3)
    for bits in (2, 4, 8):
        for zero in (False, True):
            data, blocks = d.q(U8, rows, k * bits // 8), k // 16
            inputs = [data, at, d.scales((rows, blocks))] + ([d.q(U8, rows, -(-blocks * bits // 8))] if zero else [])
            yield f"gather_{bits}" + ("_zero" if zero else ""), "GatherBlockQuantized", MS, inputs, {1}, {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}, 1
    yield "gather_3d", "GatherBlockQuantized", MS, [d.q(U8, rows, 4, k // 2), at.astype(np.int32)[0], d.scales((rows, 4, k // 32))], {1}, {"bits": 4, "block_size": 32, "gather_axis": 0, "quantize_axis": 2}, 1


def q_recurrent(d):
    length, batch, width, hidden = d.pick(5, 3, 7), d.pick(2, 3, 1), d.pick(6, 9, 4), d.pick(8, 5, 12)
    for direction, dirs in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        for t in (U8, I8):
            for rest in ("", "columns", "all"):
                per = 4 * hidden if rest == "columns" else 1
                scale = lambda: d.scales((dirs, per), 0.003, 0.01) if per > 1 else d.scales(dirs, 0.003, 0.01)
                zero = lambda: np.zeros((dirs, per) if per > 1 else dirs, t) + (U8(128) if t == U8 else I8(0))
                inputs = [d.f(length, batch, width), d.q(t, dirs, width, 4 * hidden), d.q(t, dirs, hidden, 4 * hidden), 0.1 * d.f(dirs, 8 * hidden)]
                if rest == "all":
                    inputs += [np.maximum(d.ints(1, length + 1, batch, dtype=np.int32), 1), 0.3 * d.f(dirs, batch, hidden), 0.3 * d.f(dirs, batch, hidden), 0.1 * d.f(dirs, 3 * hidden)]
                else:
                    inputs += ["", "", "", ""]
                inputs += [scale(), zero(), scale(), zero()]
                fed = {0, 4, 5, 6} if rest == "all" else {0}
                yield "_".join(filter(None, ["lstm", direction, label(t), rest])), "DynamicQuantizeLSTM", MS, inputs, fed, {"hidden_size": hidden, "direction": direction}, 3


def q_attention(d):
    batch, length, heads = d.pick(2, 1, 3), d.pick(6, 5, 9), d.pick(4, 2, 3)
    hidden = heads * d.pick(4, 8, 6)
    for w in (U8, I8):
        s, x = label(w), [d.q(U8, batch, length, hidden), d.q(w, hidden, 3 * hidden), d.f(3 * hidden)]
        zero, scale = [d.q(U8), d.q(w) if w == U8 else I8(0)], [d.scale(0.003, 0.02), d.scale(0.003, 0.02)]
        flags = (np.arange(length)[None] < d.ints(1, length + 1, batch)[:, None]).astype(np.int32)
        yield f"plain_{s}", "QAttention", MS, [*x, *scale, "", *zero], {0}, {"num_heads": heads}, 1
        yield f"columns_{s}", "QAttention", MS, [*x, scale[0], d.scales(3 * hidden, 0.003, 0.02), "", zero[0], np.zeros(3 * hidden, w) + zero[1]], {0}, {"num_heads": heads}, 1
        yield f"causal_{s}", "QAttention", MS, [*x, *scale, "", *zero], {0}, {"num_heads": heads, "unidirectional": 1}, 1
        yield f"flags_{s}", "QAttention", MS, [*x, *scale, flags, *zero], {0, 5}, {"num_heads": heads}, 1
        yield f"lengths_{s}", "QAttention", MS, [*x, *scale, flags.sum(1).astype(np.int32), *zero], {0, 5}, {"num_heads": heads}, 1
        past = d.f(2, batch, heads, 3, hidden // heads)
        yield f"past_{s}", "QAttention", MS, [*x, *scale, "", *zero, past], {0, 8}, {"num_heads": heads, "unidirectional": 1}, 2
        yield f"first_{s}", "QAttention", MS, [*x, *scale, "", *zero, past[:, :, :, :0]], {0, 8}, {"num_heads": heads, "unidirectional": 1}, 2
    for t in (U8, I8):
        tables = lambda: [d.q(t, 20, hidden), d.q(t, 12, hidden), d.q(t, 2, hidden)]
        ids, kinds = d.ints(0, 20, batch, length, dtype=np.int32), d.ints(0, 2, batch, length, dtype=np.int32)
        for name, mask, segments in (("embed", "", True), ("embed_mask", flags, True), ("embed_plain", "", False)):
            word, place, segment = tables()
            inputs = [ids, kinds if segments else "", word, place, segment if segments else "", d.q(t, hidden), d.q(t, hidden), mask]
            inputs += [d.scale(), d.scale(), d.scale() if segments else "", d.scale(), d.scale()] + [d.q(t), d.q(t), d.q(t) if segments else "", d.q(t), d.q(t)]
            fed = {0} | ({1} if segments else set()) | ({7} if name == "embed_mask" else set())
            yield f"{name}_{label(t)}", "QEmbedLayerNormalization", MS, inputs, fed, {"epsilon": 1e-5}, 2


# ---- what optimisers fuse ------------------------------------------------------------------------------------------------------------------


def activations(d):
    x, g = d.f(2, d.pick(6, 5, 3), d.pick(16, 12, 20)), None
    g = d.f(x.shape[2])
    yield "gelu", "Gelu", MS, [x], {0}, {}, 1
    yield "gelu_onnx", "Gelu", "", [x], {0}, {"opset": 20, "approximate": "tanh"}, 1
    yield "quick_gelu", "QuickGelu", MS, [x], {0}, {"alpha": 1.702}, 1
    yield "quick_gelu_silu", "QuickGelu", MS, [x], {0}, {"alpha": 1.0}, 1
    yield "quick_gelu_default", "QuickGelu", MS, [x], {0}, {}, 1
    yield "fast_gelu", "FastGelu", MS, [x], {0}, {}, 1
    yield "fast_gelu_bias", "FastGelu", MS, [x, g], {0}, {}, 1
    yield "bias_gelu", "BiasGelu", MS, [x, g], {0}, {}, 1
    yield "bias_gelu_fed", "BiasGelu", MS, [x, g], {0, 1}, {}, 1
    yield "scaled_silu", "ScaledSiLU", MS, [x], {0}, {}, 1
    yield "inverse", "Inverse", MS, [d.f(2, 3, 4, 4) + 3 * np.eye(4, dtype=np.float32)], {0}, {}, 1
    yield "inverse_flat", "Inverse", MS, [d.f(5, 5) + 3 * np.eye(5, dtype=np.float32)], {0}, {}, 1
    for upper in (0, 1):
        yield f"trilu_{upper}", "Trilu", MS, [x], {0}, {"upper": upper}, 1
        yield f"trilu_{upper}_k", "Trilu", MS, [x, np.int64(-1)], {0}, {"upper": upper}, 1
    yield "trilu_i64", "Trilu", MS, [d.ints(-9, 9, 5, 6), np.int64(2)], {0}, {}, 1
    yield "unique", "Unique", MS, [d.ints(0, 5, 12).astype(np.float32)], {0}, {}, 3
    yield "expand_dims", "ExpandDims", MS, [x, np.int32(1)], {0}, {}, 1
    yield "expand_dims_back", "ExpandDims", MS, [x, np.int32(-1)], {0}, {}, 1
    for t in (np.float32, np.int32, np.int64, np.float64, np.int16):
        yield f"range_{np.dtype(t).name}", "Range", MS, [t(2), t(11), t(3)], set(), {}, 1
    yield "range_default", "Range", MS, [np.float32(-2), np.float32(3.5)], set(), {}, 1
    yield "range_back", "Range", MS, [np.array([7], np.int64), np.array([-3], np.int64), np.array([-2], np.int64)], set(), {}, 1
    for mode in ("constant", "reflect", "edge"):
        yield f"pad_{mode}", "Pad", MS, [x, np.array([0, 1, 2, 0, 2, 1])], {0}, {"mode": mode}, 1
    yield "pad_value", "Pad", MS, [x, np.array([[0, 1, -2, 1, 0, 3]]), np.float32(1.5)], {0}, {}, 1
    yield "pad_reflect_fed", "Pad", MS, [x, np.array([0, 1, 2, 0, 2, 1])], {0, 1}, {"mode": "reflect"}, 1
    boxes = np.sort(d.rng.uniform(-0.1, 1.1, (4, 2, 2)), axis=1).reshape(4, 4).astype(np.float32)
    for mode in ("bilinear", "nearest"):
        inputs = [d.f(2, 3, 8, 9), boxes, np.array([0, 1, 1, 0], np.int32), np.array([4, 3], np.int32)]
        yield f"crop_{mode}", "CropAndResize", MS, inputs, {0, 1, 2}, {"mode": mode}, 1
        yield f"crop_{mode}_outside", "CropAndResize", MS, inputs, {0, 1, 2}, {"mode": mode, "extrapolation_value": 2.5}, 1
    yield "crop_one", "CropAndResize", MS, [d.f(1, 2, 6, 6), boxes[:2], np.zeros(2, np.int32), np.array([1, 1], np.int32)], {0, 1}, {}, 1
    yield "gather_nd", "GatherND", MS, [x, d.ints(0, 2, 3, 2)], {0, 1}, {}, 1
    yield "grid_sample", "GridSample", MS, [d.f(1, 2, 5, 5), d.rng.uniform(-1.2, 1.2, (1, 4, 6, 2)).astype(np.float32)], {0, 1}, {"mode": "bilinear", "padding_mode": "border"}, 1
    for name, attrs in (("", {}), ("_zeros", {"mode": "nearest"}), ("_cubic", {"mode": "bicubic", "padding_mode": "reflection", "align_corners": 1})):
        yield f"grid_sample{name or '_default'}", "GridSample", MS, [d.f(2, 2, 5, 6), d.rng.uniform(-1.2, 1.2, (2, 3, 4, 2)).astype(np.float32)], {0, 1}, attrs, 1
    for metric in ("euclidean", "sqeuclidean"):
        yield f"cdist_{metric}", "CDist", MS, [d.f(5, 7), d.f(4, 7)], {0, 1}, {"metric": metric}, 1
    yield "hash", "MurmurHash3", MS, [d.ints(-99, 99, 5, dtype=np.int32)], {0}, {"seed": 7}, 1
    yield "hash_signed", "MurmurHash3", MS, [d.ints(-99, 99, 3, 2)], {0}, {"positive": 0}, 1
    yield "hash_float", "MurmurHash3", MS, [d.f(4)], {0}, {}, 1
    yield "sample_op", "SampleOp", MS, [x], {0}, {}, 1


def convolutions(d):
    x, w, b = d.f(2, d.pick(6, 4, 8), 9, 8), None, d.f(8)
    w = d.f(8, x.shape[1], 3, 3)
    acts = {"Relu": {}, "Sigmoid": {}, "Tanh": {}, "LeakyRelu": {"activation_params": [0.1]}, "Clip": {"activation_params": [-0.5, 0.8]}, "HardSigmoid": {"activation_params": [0.25, 0.4]}}
    for act, more in acts.items():
        yield f"fused_{act.lower()}", "FusedConv", MS, [x, w, b], {0}, {"kernel_shape": [3, 3], "activation": act, **more}, 1
    yield "fused_sum", "FusedConv", MS, [x, w, b, d.f(2, 8, 7, 6)], {0, 3}, {"kernel_shape": [3, 3], "activation": "Relu"}, 1
    yield "fused_sum_plain", "FusedConv", MS, [x, w, "", d.f(2, 8, 5, 4)], {0, 3}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 1
    yield "fused_groups", "FusedConv", MS, [x, d.f(8, x.shape[1] // 2, 3, 3), b], {0}, {"group": 2, "auto_pad": "SAME_LOWER", "activation": "Relu"}, 1
    yield "fused_line", "FusedConv", MS, [d.f(2, 4, 12), d.f(6, 4, 3), d.f(6)], {0}, {"kernel_shape": [3], "activation": "Tanh"}, 1
    yield "fused_cube", "FusedConv", MS, [d.f(1, 2, 5, 6, 7), d.f(3, 2, 2, 2, 2)], {0}, {"kernel_shape": [2, 2, 2], "activation": "Relu"}, 1
    last = np.ascontiguousarray(np.moveaxis(x, 1, 3))
    for act, more in acts.items():
        yield f"nhwc_{act.lower()}", "NhwcFusedConv", MS, [last, w, b], {0}, {"kernel_shape": [3, 3], "activation": act, **more}, 1
    yield "nhwc_sum", "NhwcFusedConv", MS, [last, w, b, d.f(2, 9, 8, 8)], {0, 3}, {"pads": [1, 1, 1, 1], "activation": "Relu"}, 1
    yield "nhwc_plain", "NhwcFusedConv", MS, [last, w], {0}, {"pads": [1, 1, 1, 1], "strides": [2, 2]}, 1
    yield "dynamic_pads", "ConvTransposeWithDynamicPads", MS, [x, d.f(x.shape[1], 3, 3, 3), np.array([1, 1, 0, 1]), d.f(3)], {0}, {"strides": [2, 2], "kernel_shape": [3, 3]}, 1


def matrices(d):
    for act, more in (("Relu", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {}), ("Elu", {"activation_alpha": 0.7}), ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}), ("Softplus", {}), ("ThresholdedRelu", {"activation_alpha": 0.4}), ("ScaledTanh", {"activation_alpha": 0.4, "activation_beta": 0.7}), ("ParametricSoftplus", {"activation_alpha": 0.4, "activation_beta": 0.7}), ("Softsign", {})):
        yield f"gemm_{act.lower()}", "FusedGemm", MS, [d.f(5, 6), d.f(6, 7), d.f(7)], {0}, {"activation": act, **more}, 1
    yield "gemm_trans", "FusedGemm", MS, [d.f(6, 5), d.f(7, 6), d.f(5, 1)], {0}, {"activation": "Relu", "transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}, 1
    for ta in (0, 1):
        for tb in (0, 1):
            a, b = d.f(2, 5, *((6, 4) if ta else (4, 6))), d.f(2, 5, *((7, 6) if tb else (6, 7)))
            yield f"fused_{ta}{tb}", "FusedMatMul", MS, [a, b], {0, 1}, {"transA": ta, "transB": tb, "alpha": 0.25}, 1
            yield f"fused_wide_{ta}{tb}", "FusedMatMul", MS, [a, b[0, 0]], {0}, {"transA": ta, "transB": tb}, 1
            swap = lambda x, t: np.ascontiguousarray(np.moveaxis(x, -2, 0)) if t else x
            # transBatch: [dims, batch..., dims] -> the first axis is moved behind the batch
            yield f"fused_batch_{ta}{tb}", "FusedMatMul", MS, [swap(a, 1), swap(b, 1)], {0, 1}, {"transA": ta, "transB": tb, "transBatchA": 1, "transBatchB": 1}, 1
            yield f"fused_batch_left_{ta}{tb}", "FusedMatMul", MS, [swap(a, 1), b], {0, 1}, {"transA": ta, "transB": tb, "transBatchA": 1}, 1
    yield "transpose_matmul", "TransposeMatMul", MS, [d.f(4, 5), d.f(4, 6)], {0, 1}, {"transA": 1}, 1


def norms(d):
    h = d.pick(16, 12, 24)
    x, skip, g, b = d.f(2, 6, h), d.f(2, 6, h), d.f(h), d.f(h)
    yield "skip", "SkipLayerNormalization", MS, [x, skip, g, b], {0, 1}, {"epsilon": 1e-5}, 1
    yield "skip_bias", "SkipLayerNormalization", MS, [x, skip, g, b, d.f(h)], {0, 1}, {}, 1
    yield "skip_gain", "SkipLayerNormalization", MS, [x, skip, g], {0, 1}, {"epsilon": 1e-5}, 1
    yield "skip_sum", "SkipLayerNormalization", MS, [x, skip, g, b, d.f(h)], {0, 1}, {"epsilon": 1e-5}, 4
    yield "skip_wide", "SkipLayerNormalization", MS, [x, skip[:1], g, b], {0, 1}, {}, 1
    yield "skip_flat", "SkipLayerNormalization", MS, [x, skip[0], g, b], {0, 1}, {}, 1
    yield "skip_rows", "SkipLayerNormalization", MS, [x[0], skip[0], g, b], {0, 1}, {}, 1
    yield "skip_rms", "SkipSimplifiedLayerNormalization", MS, [x, skip, g], {0, 1}, {"epsilon": 1e-5}, 1
    yield "skip_rms_bias", "SkipSimplifiedLayerNormalization", MS, [x, skip, g, d.f(h)], {0, 1}, {}, 1
    yield "skip_rms_sum", "SkipSimplifiedLayerNormalization", MS, [x, skip, g], {0, 1}, {"epsilon": 1e-6}, 4
    yield "rms", "SimplifiedLayerNormalization", "", [x, g], {0}, {"epsilon": 1e-6, "axis": -1}, 1
    yield "rms_default", "SimplifiedLayerNormalization", "", [x, g], {0}, {}, 1
    yield "rms_axis", "SimplifiedLayerNormalization", "", [x, d.f(6, h)], {0}, {"axis": 1}, 1
    yield "rms_deviation", "SimplifiedLayerNormalization", "", [x, g], {0}, {"axis": 2}, 2
    ids, kinds = d.ints(0, 10, 2, 5, dtype=np.int32), d.ints(0, 2, 2, 5, dtype=np.int32)
    word, place, segment = d.f(10, h), d.f(8, h), d.f(2, h)
    flags = (np.arange(5)[None] < np.array([[3], [5]])).astype(np.int32)
    yield "embed", "EmbedLayerNormalization", MS, [ids, kinds, word, place, segment, g, b], {0, 1}, {"epsilon": 1e-5}, 2
    yield "embed_mask", "EmbedLayerNormalization", MS, [ids, kinds, word, place, segment, g, b, flags], {0, 1, 7}, {"epsilon": 1e-5}, 2
    yield "embed_sum", "EmbedLayerNormalization", MS, [ids, kinds, word, place, segment, g, b], {0, 1}, {}, 3
    yield "embed_positions", "EmbedLayerNormalization", MS, [ids, "", word, place, "", g, b, "", d.ints(0, 8, 2, 5, dtype=np.int32)], {0, 8}, {}, 2
    yield "embed_positions_one", "EmbedLayerNormalization", MS, [ids, "", word, place, "", g, b, "", d.ints(0, 8, 1, 5, dtype=np.int32)], {0, 8}, {}, 2
    yield "embed_mask_type", "EmbedLayerNormalization", MS, [ids, "", word, place, "", g, b, flags], {0, 7}, {"mask_index_type": 1}, 2


def heads_of(d):
    heads = d.pick(4, 2, 3)
    return d.pick(2, 1, 3), d.pick(6, 5, 4), heads, heads * d.pick(4, 8, 8)


def attentions(d):
    batch, length, heads, hidden = heads_of(d)
    size, x = hidden // heads, d.f(batch, length, hidden)
    w, b = 0.3 * d.f(hidden, 3 * hidden), d.f(3 * hidden)
    many = d.ints(1, length + 1, batch, dtype=np.int32)
    flags = (np.arange(length)[None] < many[:, None]).astype(np.int32)
    h = {"num_heads": heads}
    yield "plain", "Attention", MS, [x, w, b], {0}, h, 1
    yield "no_bias", "Attention", MS, [x, w], {0}, h, 1
    yield "causal", "Attention", MS, [x, w, b], {0}, {**h, "unidirectional": 1}, 1
    yield "scale", "Attention", MS, [x, w, b], {0}, {**h, "scale": 0.2}, 1
    yield "lengths", "Attention", MS, [x, w, b, many], {0, 3}, h, 1
    yield "ends_starts", "Attention", MS, [x, w, b, np.concatenate([many, np.zeros_like(many)])], {0, 3}, h, 1
    yield "left_padding", "Attention", MS, [x, w, b, np.concatenate([np.full(batch, length, np.int32), np.minimum(many - 1, 2)])], {0, 3}, h, 1
    yield "flags", "Attention", MS, [x, w, b, flags], {0, 3}, h, 1
    yield "flags_filter", "Attention", MS, [x, w, b, flags], {0, 3}, {**h, "mask_filter_value": -3.0}, 1
    yield "flags_rows", "Attention", MS, [x, w, b, np.repeat(flags[:, None], length, 1)], {0, 3}, h, 1
    yield "flags_causal", "Attention", MS, [x, w, b, flags], {0, 3}, {**h, "unidirectional": 1}, 1
    yield "bias", "Attention", MS, [x, w, b, "", "", d.f(batch, heads, length, length)], {0, 5}, h, 1
    yield "bias_wide", "Attention", MS, [x, w, b, flags, "", d.f(1, heads, length, length)], {0, 3, 5}, h, 1
    past = d.f(2, batch, heads, 3, size)
    yield "past", "Attention", MS, [x, w, b, "", past], {0, 4}, {**h, "unidirectional": 1}, 2
    yield "past_empty", "Attention", MS, [x, w, b, "", past[:, :, :, :0]], {0, 4}, {**h, "unidirectional": 1}, 2
    yield "past_flags", "Attention", MS, [x, w, b, np.concatenate([np.ones((batch, 3), np.int32), flags], 1), past], {0, 3, 4}, {**h, "unidirectional": 1}, 2
    yield "present", "Attention", MS, [x, w, b], {0}, {**h, "unidirectional": 1}, 2
    yield "widths", "Attention", MS, [x, 0.3 * d.f(hidden, 2 * hidden + 2 * heads), d.f(2 * hidden + 2 * heads)], {0}, {**h, "qkv_hidden_sizes": [hidden, hidden, 2 * heads]}, 1
    yield "rotary", "Attention", MS, [d.f(batch, length, 64), 0.2 * d.f(64, 192), d.f(192)], {0}, {"num_heads": 2, "do_rotary": 1}, 1


def multi_heads(d):
    batch, length, heads, hidden = heads_of(d)
    keys, size, h = length + 2, hidden // heads, {"num_heads": heads}
    q, k, v = d.f(batch, length, hidden), d.f(batch, keys, hidden), d.f(batch, keys, hidden)
    many = d.ints(1, keys + 1, batch, dtype=np.int32)
    flags = (np.arange(keys)[None] < many[:, None]).astype(np.int32)
    same = [d.f(batch, length, hidden) for _ in range(3)]
    yield "cross", "MultiHeadAttention", MS, [q, k, v], {0, 1, 2}, h, 1
    yield "self_bias", "MultiHeadAttention", MS, [*same, d.f(3 * hidden)], {0, 1, 2}, h, 1
    yield "cross_bias", "MultiHeadAttention", MS, [q, k, v, d.f(3 * hidden)], {0, 1, 2}, h, 1
    yield "widths", "MultiHeadAttention", MS, [q, k, d.f(batch, keys, 2 * heads), d.f(2 * hidden + 2 * heads)], {0, 1, 2}, h, 1
    yield "flags", "MultiHeadAttention", MS, [q, k, v, "", flags], {0, 1, 2, 4}, h, 1
    yield "flags_filter", "MultiHeadAttention", MS, [q, k, v, "", flags], {0, 1, 2, 4}, {**h, "mask_filter_value": -2.0, "scale": 0.3}, 1
    yield "flags_3d", "MultiHeadAttention", MS, [q, k, v, "", np.repeat(flags[:, None], length, 1)], {0, 1, 2, 4}, h, 1
    yield "bias", "MultiHeadAttention", MS, [q, k, v, "", "", d.f(1, heads, length, keys)], {0, 1, 2, 5}, h, 1
    yield "bias_all", "MultiHeadAttention", MS, [q, k, v, "", flags, d.f(batch, 1, length, keys)], {0, 1, 2, 4, 5}, h, 1
    yield "causal", "MultiHeadAttention", MS, same, {0, 1, 2}, {**h, "unidirectional": 1}, 1
    by_head = [d.f(batch, heads, keys, size), d.f(batch, heads, keys, size)]
    yield "by_head", "MultiHeadAttention", MS, [q, *by_head], {0, 1, 2}, h, 1
    yield "by_head_bias", "MultiHeadAttention", MS, [q, *by_head, d.f(3 * hidden)], {0, 1, 2}, h, 1
    yield "packed_kv", "MultiHeadAttention", MS, [q, d.f(batch, keys, heads, 2, size)], {0, 1}, h, 1
    yield "packed_qkv", "MultiHeadAttention", MS, [d.f(batch, length, heads, 3, size)], {0}, h, 1
    past = [d.f(batch, heads, 3, size), d.f(batch, heads, 3, size)]
    yield "past", "MultiHeadAttention", MS, [*same, "", "", "", *past], {0, 1, 2, 6, 7}, {**h, "unidirectional": 1}, 3
    yield "past_one", "MultiHeadAttention", MS, [*(s[:, :1] for s in same), d.f(3 * hidden), "", "", *past], {0, 1, 2, 6, 7}, h, 3
    yield "past_flags", "MultiHeadAttention", MS, [*same, "", np.concatenate([np.ones((batch, 3), np.int32), flags[:, :length]], 1), "", *past], {0, 1, 2, 4, 6, 7}, h, 3
    yield "scores", "MultiHeadAttention", MS, [q, k, v], {0, 1, 2}, h, 4
    one = [d.f(batch, 1, hidden) for _ in range(3)]
    yield "decoder", "DecoderMaskedMultiHeadAttention", MS, [*one, "", "", *past, np.array([3], np.int32)], {0, 1, 2, 5, 6}, {**h, "past_present_share_buffer": 0}, 3
    yield "decoder_cross", "DecoderMaskedMultiHeadAttention", MS, [one[0], *by_head], {0, 1, 2}, h, 1
    room = [np.concatenate([p, np.zeros((batch, heads, 4, size), np.float32)], 2) for p in past]
    yield "decoder_shared", "DecoderMaskedMultiHeadAttention", MS, [*one, "", "", *room, np.array([3], np.int32)], {0, 1, 2, 5, 6, 7}, {**h, "past_present_share_buffer": 1}, 3
    yield "decoder_mask", "DecoderMaskedMultiHeadAttention", MS, [*one, np.concatenate([np.ones((batch, 3), np.int32), np.ones((batch, 1), np.int32)], 1), d.f(1, heads, 1, 4), *past, np.array([3], np.int32)], {0, 1, 2, 3, 4, 5, 6}, h, 3


def groups(d):
    batch, heads, kv, size = d.pick(2, 1, 3), d.pick(4, 6, 8), 2, d.pick(16, 8, 16)
    length, past = d.pick(5, 3, 4), d.pick(4, 6, 3)
    angle = d.rng.uniform(0, 3, (32, size // 2)).astype(np.float32)
    table, attrs = [np.cos(angle), np.sin(angle)], {"num_heads": heads, "kv_num_heads": kv}
    def step(new, room, packed=False):
        q, k, v = d.f(batch, new, heads * size), d.f(batch, new, kv * size), d.f(batch, new, kv * size)
        first = [np.concatenate([q, k, v], 2), "", ""] if packed else [q, k, v]
        total = past + new if room else new
        return [*first, d.f(batch, kv, past if room else 0, size), d.f(batch, kv, past if room else 0, size), np.full(batch, total - 1, np.int32), np.array([total], np.int32)]
    fed, packed = {0, 1, 2, 3, 4, 5, 6}, {0, 3, 4, 5, 6}
    yield "prompt", "GroupQueryAttention", MS, step(length, False), fed, attrs, 3
    yield "token", "GroupQueryAttention", MS, step(1, True), fed, attrs, 3
    yield "prompt_rotary", "GroupQueryAttention", MS, [*step(length, False), *table], fed, {**attrs, "do_rotary": 1}, 3
    yield "token_rotary", "GroupQueryAttention", MS, [*step(1, True), *table], fed, {**attrs, "do_rotary": 1}, 3
    yield "token_interleaved", "GroupQueryAttention", MS, [*step(1, True), *table], fed, {**attrs, "do_rotary": 1, "rotary_interleaved": 1}, 3
    yield "packed", "GroupQueryAttention", MS, [*step(length, False, True), *table], packed, {**attrs, "do_rotary": 1}, 3
    yield "packed_token", "GroupQueryAttention", MS, step(1, True, True), packed, attrs, 3
    yield "window", "GroupQueryAttention", MS, step(length, False), fed, {**attrs, "local_window_size": 2, "softcap": 3.0}, 3
    yield "smooth", "GroupQueryAttention", MS, step(length, False), fed, {**attrs, "smooth_softmax": 1, "scale": 0.3}, 3
    yield "sink", "GroupQueryAttention", MS, [*step(1, True), "", "", "", "", d.f(heads)], fed, attrs, 3
    several = step(2, True)
    yield "chunk", "GroupQueryAttention", MS, [a[:1] if a.ndim > 1 or a.size == batch and a.size > 1 else a for a in several], fed, attrs, 3
    ids = np.tile(np.arange(length), (batch, 1))
    yield "positions", "GroupQueryAttention", MS, [*step(length, False), *table, ids], fed | {9}, {**attrs, "do_rotary": 1}, 3
    yield "positions_back", "GroupQueryAttention", MS, [*step(1, True), *table, np.full((batch, 1), past - 1)], fed | {9}, {**attrs, "do_rotary": 1}, 3
    yield "bias", "GroupQueryAttention", MS, [*step(length, False), "", "", "", d.f(1, heads, length, length)], fed | {10}, attrs, 3
    yield "bias_token", "GroupQueryAttention", MS, [*step(1, True), "", "", "", d.f(batch, 1, 1, past + 1)], fed | {10}, attrs, 3


def rotary(d):
    angles, where = d.rng.uniform(0, 3, (10, 4)).astype(np.float32), d.ints(0, 10, 2, 6)
    table = [np.cos(angles), np.sin(angles)]
    for form in (0, 1):
        yield f"heads_{form}", "RotaryEmbedding", MS, [d.f(2, 4, 6, 8), where, *table], {0, 1}, {"interleaved": form}, 1
        yield f"flat_{form}", "RotaryEmbedding", MS, [d.f(2, 6, 32), where, *table], {0, 1}, {"interleaved": form}, 1
        yield f"first_{form}", "RotaryEmbedding", MS, [d.f(2, 6, 32), np.array([3]), *table], {0, 1}, {"interleaved": form}, 1
        yield f"part_{form}", "RotaryEmbedding", MS, [d.f(2, 6, 48), where, *table], {0, 1}, {"interleaved": form, "num_heads": 4, "rotary_embedding_dim": 8}, 1
        yield f"part_heads_{form}", "RotaryEmbedding", MS, [d.f(2, 4, 6, 12), where, *table], {0, 1}, {"interleaved": form, "num_heads": 4, "rotary_embedding_dim": 8}, 1


def experts(d):
    rows, hidden, inter, count = d.pick(6, 4, 9), d.pick(32, 32, 64), d.pick(32, 64, 32), d.pick(4, 3, 8)
    x, router = d.f(rows, hidden), d.f(rows, count)
    w = lambda o, i: d.f(count, o, i) / np.float32(np.sqrt(i))
    for act in ("relu", "gelu", "silu", "identity"):
        yield f"moe_{act}", "MoE", MS, [x, router, w(inter, hidden), d.f(count, inter), w(hidden, inter), d.f(count, hidden)], {0, 1}, {"activation_type": act, "k": 1}, 1
    yield "moe_two", "MoE", MS, [x, router, w(inter, hidden), "", w(hidden, inter), ""], {0, 1}, {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1}, 1
    yield "moe_plain", "MoE", MS, [x[None], router, w(inter, hidden), "", w(hidden, inter)], {0, 1}, {"activation_type": "relu", "k": 2}, 1
    yield "moe_three", "MoE", MS, [x, router, w(inter, hidden), "", w(hidden, inter), "", w(inter, hidden), ""], {0, 1}, {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1}, 1
    yield "moe_swiglu", "MoE", MS, [x, router, w(2 * inter, hidden), d.f(count, 2 * inter), w(hidden, inter), d.f(count, hidden)], {0, 1}, {"activation_type": "swiglu", "k": 2, "normalize_routing_weights": 1, "swiglu_fusion": 1, "swiglu_limit": 7.0, "activation_alpha": 1.702, "activation_beta": 1.0}, 1
    for bits in (4, 8):
        codes = lambda o, i: d.q(U8, count, o, i * bits // 8)
        scale = lambda o: d.scales(count * o, 0.003, 0.02).reshape(count, o)
        yield f"qmoe_{bits}", "QMoE", MS, [x, router, codes(inter, hidden), scale(inter), "", codes(hidden, inter), scale(hidden), ""], {0, 1}, {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1, "expert_weight_bits": bits}, 1
        yield f"qmoe_{bits}_swiglu", "QMoE", MS, [x, router, codes(2 * inter, hidden), scale(2 * inter), d.f(count, 2 * inter), codes(hidden, inter), scale(hidden), d.f(count, hidden)], {0, 1}, {"activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 7.0, "activation_alpha": 1.702, "activation_beta": 1.0, "k": 2, "normalize_routing_weights": 1, "expert_weight_bits": bits}, 1
        blocks = lambda o, i: d.scales(count * o * (i // 16), 0.003, 0.02).reshape(count, o, i // 16)
        yield f"qmoe_{bits}_blocks", "QMoE", MS, [x, router, codes(inter, hidden), blocks(inter, hidden), "", codes(hidden, inter), blocks(hidden, inter), ""], {0, 1}, {"activation_type": "relu", "k": 1, "expert_weight_bits": bits, "block_size": 16}, 1


FAMILIES = {
    "q_convolution": q_convolutions,
    "q_product": q_products,
    "q_element": q_elements,
    "q_scale": q_scales,
    "q_small_weight": q_small_weights,
    "q_recurrent": q_recurrent,
    "q_attention": q_attention,
    "activation": activations,
    "convolution": convolutions,
    "matrix": matrices,
    "norm": norms,
    "attention": attentions,
    "multi_head": multi_heads,
    "group_query": groups,
    "rotary": rotary,
    "expert": experts,
}
