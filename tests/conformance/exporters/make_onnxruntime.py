"""make_onnxruntime.py OUT [--seed N] [--part nodes|models] [--join] - ONNX Runtime's own graphs: quantised, optimised, and of single operators of com.microsoft.

    pip install onnxruntime onnx onnxscript numpy sympy

The answers are ONNX Runtime's. With --seed other than 1 the archive is not written: such cases measure what the kept ones do not show.
"""

import argparse
import collections
import logging
import multiprocessing
import os
import sys
import tempfile
import zlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers import float16

import ort_models
import ort_nodes
from case import Cases

HERE = os.path.dirname(os.path.abspath(__file__))


def answers(model, feed, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def answers_apart(model, feed, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
    """In a process of its own: a model that the runtime does not like may end it."""
    here, there = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=answers_send, args=(there, model, feed, level))
    child.start()
    there.close()
    try:
        done, what = here.recv()
    except EOFError:
        done, what = False, "it ended the process"
    child.join()
    if not done:
        raise RuntimeError(what)
    return what


def answers_send(to, model, feed, level):
    try:
        to.send((True, answers(model, feed, level)))
    except Exception as error:  # noqa: BLE001 - the runtime's own types are not public
        to.send((False, str(error).replace("\n", " ")))


def element(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def node_model(op, domain, inputs, fed, attrs, outputs):
    """-> (model, feed)"""
    attrs = dict(attrs)
    opset = attrs.pop("opset", 21) if op != "QLinearSoftmax" else 21
    names = ["" if isinstance(v, str) else f"x{i}" for i, v in enumerate(inputs)]
    arrays = [None if isinstance(v, str) else np.asarray(v) for v in inputs]
    while names and not names[-1]:
        names.pop()
    wanted = ["" if outputs == 4 and op in SKIPS and i in (1, 2) else f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, wanted, domain=domain, **attrs)],
        op,
        [helper.make_tensor_value_info(names[i], element(arrays[i]), arrays[i].shape) for i in sorted(fed)],
        [helper.make_empty_tensor_value_info(name) for name in wanted if name],
        [numpy_helper.from_array(a, n) for i, (n, a) in enumerate(zip(names, arrays)) if n and i not in fed],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ort_nodes.MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {names[i]: arrays[i] for i in sorted(fed)}


SKIPS = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")


def declare(model, outputs):
    """Outputs of a graph get the types and shapes that came out."""
    names = [o.name for o in model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(n, element(a), a.shape) for n, a in zip(names, outputs))


# Bytes between bytes: the standard does not say how they are rounded.
LOOSE = ("resize_half", "resize_asym", "resize_align")


def case_write(cases, family, name, model, feed, want, whole, second=None):
    """whole: bounds of a whole model (1e-4 of the range, two steps) instead of those of an operator."""
    if whole:
        names = [o.name for o in model.graph.output]
        apart = [float(np.abs(a.astype(float) - b.astype(float)).max() / np.ptp(a.astype(float))) for a, b in zip(want, second or [])]
        cases.golden(family, name, "model.onnx", model.SerializeToString(), [(list(feed.items()), list(zip(names, want)))], noise=apart)
    else:
        cases.onnx(family, name, model.SerializeToString(), [(list(feed.values()), want)])


def nodes_write(cases, seed, unmade):
    for family, rows in ort_nodes.FAMILIES.items():
        for name, op, domain, inputs, fed, attrs, outputs in rows(ort_nodes.Draw(seed)):
            model, feed = node_model(op, domain, inputs, fed, attrs, outputs)
            try:
                want = answers_apart(model, feed)
            except RuntimeError as error:
                unmade[f"{family}/{name}"] = str(error)[:200]
                continue
            declare(model, want)
            case_write(cases, family, name, model, feed, want, name.startswith(LOOSE))


# ---- what the quantiser writes ---------------------------------------------------------------------------------------------------------


class Reader(CalibrationDataReader):
    def __init__(self, feeds, seed, count=8):
        rng = np.random.default_rng(seed + 100)
        self.rest = [feeds(rng) for _ in range(count)]

    def get_next(self):
        return self.rest.pop(0) if self.rest else None


def static(**options):
    def run(source, target, feeds, seed):
        more = dict(options.get("extra", {}))
        plain = {k: v for k, v in options.items() if k != "extra"}
        plain.setdefault("quant_format", QuantFormat.QDQ)
        quantize_static(source, target, Reader(feeds, seed), extra_options=more, **plain)

    return run


def dynamic(**options):
    return lambda source, target, feeds, seed: quantize_dynamic(source, target, **options)


def few_bits(**options):
    def run(source, target, feeds, seed):
        quantizer = MatMulNBitsQuantizer(onnx.load(source), algo_config=DefaultWeightOnlyQuantConfig(**options))
        quantizer.process()
        quantizer.model.save_model_to_file(target)

    return run


def bitsandbytes(kind, block):
    def run(source, target, feeds, seed):
        quantizer = MatMulBnb4Quantizer(onnx.load(source), kind, block)
        quantizer.process()
        quantizer.model.save_model_to_file(target)

    return run


def half(**options):
    def run(source, target, feeds, seed):
        onnx.save(float16.convert_float_to_float16(onnx.load(source), **options), target)

    return run


T, C, F = QuantType, CalibrationMethod, QuantFormat
WEIGHTS_ONLY = ("MatMul", "Gather")
QUANTISERS = {
    "dynamic": {
        "i8": dynamic(weight_type=T.QInt8),
        "u8": dynamic(weight_type=T.QUInt8),
        "i8_channel": dynamic(weight_type=T.QInt8, per_channel=True),
        "u8_reduced": dynamic(weight_type=T.QUInt8, reduce_range=True),
        "symmetric": dynamic(weight_type=T.QInt8, extra_options={"WeightSymmetric": True, "MatMulConstBOnly": False, "DefaultTensorType": 1}),
    },
    "qdq": {
        "u8u8": static(activation_type=T.QUInt8, weight_type=T.QUInt8),
        "u8i8": static(activation_type=T.QUInt8, weight_type=T.QInt8),
        "i8i8": static(),
        "channel": static(per_channel=True),
        "u8i8_channel_reduced": static(activation_type=T.QUInt8, per_channel=True, reduce_range=True),
        "symmetric": static(extra={"ActivationSymmetric": True, "WeightSymmetric": True}),
        "entropy": static(calibrate_method=C.Entropy),
        "percentile": static(activation_type=T.QUInt8, calibrate_method=C.Percentile),
        "u16i8": static(activation_type=T.QUInt16, weight_type=T.QInt8, extra={"UseQDQContribOps": True}),
        "i16i16": static(activation_type=T.QInt16, weight_type=T.QInt16, extra={"UseQDQContribOps": True}),
        "u16u8": static(activation_type=T.QUInt16, weight_type=T.QUInt8),
        "i4": static(activation_type=T.QUInt8, weight_type=T.QInt4),
        "u4": static(activation_type=T.QUInt16, weight_type=T.QUInt4, per_channel=True),
        "dedicated": static(extra={"DedicatedQDQPair": True, "QuantizeBias": False}),
        "weights_apart": static(activation_type=T.QUInt8, extra={"AddQDQPairToWeight": True, "QDQKeepRemovableActivations": True}),
        "contrib": static(activation_type=T.QUInt8, extra={"UseQDQContribOps": True}),
    },
    "qoperator": {
        "u8u8": static(quant_format=F.QOperator, activation_type=T.QUInt8, weight_type=T.QUInt8),
        "u8i8": static(quant_format=F.QOperator, activation_type=T.QUInt8, weight_type=T.QInt8),
        "i8i8": static(quant_format=F.QOperator),
        "channel": static(quant_format=F.QOperator, activation_type=T.QUInt8, per_channel=True),
        "reduced": static(quant_format=F.QOperator, activation_type=T.QUInt8, weight_type=T.QInt8, reduce_range=True),
        "symmetric": static(quant_format=F.QOperator, extra={"ActivationSymmetric": True}),
        "forced": static(quant_format=F.QOperator, activation_type=T.QUInt8, extra={"ForceQuantizeNoInputCheck": True}),
    },
    "few_bits": {
        "4_16": few_bits(block_size=16),
        "4_32_symmetric": few_bits(block_size=32, is_symmetric=True),
        "8_32": few_bits(block_size=32, bits=8),
        "4_qdq": few_bits(block_size=16, quant_format=F.QDQ),
        "4_qdq_symmetric": few_bits(block_size=32, is_symmetric=True, quant_format=F.QDQ),
        "4_gather": few_bits(block_size=32, op_types_to_quantize=WEIGHTS_ONLY, quant_axes=(("MatMul", 0), ("Gather", 1))),
        "nf4": bitsandbytes(MatMulBnb4Quantizer.NF4, 32),
        "fp4": bitsandbytes(MatMulBnb4Quantizer.FP4, 16),
    },
    "half": {"io": half(keep_io_types=True), "all": half(keep_io_types=False)},
}
LEVELS = {
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def optimised(model, level):
    """The graph that a session writes at this level."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = LEVELS[level]
        options.optimized_model_filepath = os.path.join(folder, "o.onnx")
        options.log_severity_level = 4
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # floats stay floats
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def quantised(source, run, feeds, seed):
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "q.onnx")
        run(source, target, feeds, seed)
        return onnx.load(target)


def model_write(cases, unmade, family, name, make, feeds, seed, other=None):
    """
    make() gives the model; the answers are those of a session that optimises nothing: others round activations to bytes where the model does not.
    other: a model that means the same; how far its answer lies from this one is written beside it.
    """
    feed = feeds(np.random.default_rng(seed))
    given = dict(feed)
    try:
        model = make()
        for value in model.graph.input:
            if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16:
                feed[value.name] = feed[value.name].astype(np.float16)
        want = answers_apart(model, feed)
        second = answers_apart(other, given) if other is not None else None
        if family == "qdq":
            second = answers_apart(model, feed, LEVELS["basic"])
    except Exception as error:  # noqa: BLE001 - a tool may refuse a model in many ways
        unmade[f"{family}/{name}"] = (type(error).__name__ + ": " + str(error)).replace("\n", " ")[:200]
        return
    case_write(cases, family, name, model, feed, want, True, second)


def models_write(cases, seed, unmade):
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        for name in ort_models.MODELS:
            model, feeds = ort_models.build(name, seed)
            source, prepared = os.path.join(folder, name + ".onnx"), os.path.join(folder, name + ".p.onnx")
            onnx.save(model, source)
            quant_pre_process(source, prepared, skip_symbolic_shape=True)
            for level in LEVELS:
                model_write(cases, unmade, "optimised", f"{name}.{level}", lambda: optimised(model, level), feeds, seed)
            for family, kinds in QUANTISERS.items():
                for kind, run in kinds.items():
                    make = lambda: quantised(source if family == "half" else prepared, run, feeds, seed)
                    model_write(cases, unmade, family, f"{name}.{kind}", make, feeds, seed, model if family == "half" else None)
            for family, kind, level in (("qdq", "u8i8", "extended"), ("qdq", "channel", "all"), ("dynamic", "i8", "extended"), ("qoperator", "u8i8", "all")):
                try:
                    plain = quantised(prepared, QUANTISERS[family][kind], feeds, seed)
                except Exception:  # noqa: BLE001 - it is counted above
                    continue
                model_write(cases, unmade, "optimised_" + family, f"{name}.{kind}.{level}", lambda: optimised(plain, level), feeds, seed, plain)


def keep(family, name, size):
    """Small operators, and one model in nine: the archive stays below a megabyte."""
    if family in ort_nodes.FAMILIES:
        return size <= 7000
    return size <= 40000 and zlib.crc32(f"{family}/{name}".encode()) % 9 == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=("nodes", "models"), help="only these")
    parser.add_argument("--join", action="store_true", help="beside what ort_transformers.py has written to OUT")
    options = parser.parse_args()
    unmade = collections.OrderedDict()
    cases = Cases(options.out, "onnxruntime", not options.join)
    if options.part != "models":
        nodes_write(cases, options.seed, unmade)
    if options.part != "nodes":
        models_write(cases, options.seed, unmade)
    for name, reason in unmade.items():
        print(f"ONNX Runtime cannot: {name}: {reason}", file=sys.stderr)
    if options.seed == 1 and not options.part:
        print(cases.archive(HERE, keep), "cases kept")


if __name__ == "__main__":
    main()
