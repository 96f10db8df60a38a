#!/usr/bin/env python3
"""Cases of PyTorch's two exporters: `make_torch.py OUT [FAMILY...] [--second] [--zoo] [--keep]`.

torch 2.9, torchvision, timm, onnx, onnxscript, onnxruntime, transformers 4.57. torch_script is torch.onnx.export(dynamo=False), with opsets 7 to 20 in turn; torch_dynamo
is dynamo=True, with opsets 18 to 23 in turn, with and without `optimize`, with fixed and dynamic shapes. The letters in a case's name tell which. The answers are those of
torch; where onnxruntime gives others for the file, they are onnxruntime's. --second makes other sizes and seeds; --zoo makes whole models of torchvision and timm; neither
is kept. --keep writes the archives of the small cases. What cannot be exported is listed in OUT/failures.txt.
"""

import contextlib
import io
import os
import re
import signal
import sys
import tempfile
import traceback
import warnings
import zlib

import numpy
import onnx
import onnxruntime
import torch

import torch_families
import torch_functions
import torch_layers
from case import Cases
from torch_cases import List

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT_OPSETS = (7, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
KEPT = {"torch_script": 6000, "torch_dynamo": 9000}  # bytes of the cases that the archives have
DYNAMO_OPSETS = (18, 18, 18, 19, 20, 21, 22, 23)
warnings.filterwarnings("ignore")


def turn(text, choices):
    """One of choices, the same for the same text."""
    return choices[zlib.crc32(text.encode()) % len(choices)]


def coarse(module):
    """Weights in steps of 1/64: the archive packs them well, and sums of them are no less random."""
    for p in list(module.parameters()) + list(module.buffers()):
        if p.is_floating_point() and p.dim() > 1 and p.element_size() > 1:
            p.data = (p.data * 64).round() / 64
    return module


def array(tensor):
    """A tensor or a number as numpy; the small floats have types of their own."""
    import ml_dtypes

    t = torch.as_tensor(tensor).detach().cpu().contiguous()
    if t.is_complex():
        t = torch.view_as_real(t).contiguous()
    small = {torch.bfloat16: (torch.int16, ml_dtypes.bfloat16)}
    if t.dtype in small:
        bits, dtype = small[t.dtype]
        return t.view(bits).numpy().view(dtype)
    return t.numpy()


def flat(value):
    if isinstance(value, dict) or hasattr(value, "to_tuple"):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [] if value is None else [value]


def dynamic_axes(inputs):
    return {"in%d" % i: {k: "d%d_%d" % (i, k) for k in range(min(x.dim(), 2))} for i, x in enumerate(inputs)}


@contextlib.contextmanager
def quiet(seconds):
    """No words of the exporter, and an end to what does not end."""

    def ring(*_):
        raise TimeoutError("no end after %d s" % seconds)

    old = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def by_script(module, inputs, names, opset, dynamic, script):
    if script:
        module = torch.jit.script(module)
    to = io.BytesIO()
    axes = dynamic_axes(inputs) if dynamic else None
    torch.onnx.export(module, inputs, to, dynamo=False, opset_version=opset, input_names=names, dynamic_axes=axes)
    return to.getvalue()


def by_dynamo(module, inputs, names, opset, dynamic, optimize):
    shapes = tuple({k: torch.export.Dim.DYNAMIC for k in range(min(x.dim(), 2))} for x in inputs) if dynamic else None
    if shapes is not None and any(p.kind == p.VAR_POSITIONAL for p in __import__("inspect").signature(module.forward).parameters.values()):
        shapes = (shapes,)
    program = torch.onnx.export(module, inputs, None, dynamo=True, opset_version=opset, input_names=names, optimize=optimize, dynamic_shapes=shapes, verbose=False)
    return program.model_proto.SerializeToString()


def ways(case, second):
    """[(exporter, mark, opset, function)] for one case; the second set takes other turns."""
    o, key = case.options, "%s/%s%s" % (case.family, case.name, "2" if second else "")
    heavy = o.get("heavy") or o.get("zoo")
    dynamic = bool(o.get("dynamic"))
    list_ = []
    opset = turn(key, (14, 17, 18, 20) if heavy or o.get("low") else SCRIPT_OPSETS)
    if not o.get("scriptless"):
        list_.append(("torch_script", lambda m, i, n, v: by_script(m, i, n, v, dynamic, o.get("script")), opset, "d" if dynamic else ""))
    if not o.get("script") and not o.get("dynamoless"):
        opset = turn(key + "d", DYNAMO_OPSETS)
        plain = turn(key + "o", (True, True, False))
        open_ = dynamic and turn(key + "s", (True, True, False))
        list_.append(("torch_dynamo", lambda m, i, n, v: by_dynamo(m, i, n, v, open_, plain), opset, ("d" if open_ else "") + ("" if plain else "u")))
    if o.get("brief") and len(list_) > 1:
        list_ = [list_[zlib.crc32(key.encode()) % 2]]
    return list_


def answers_of(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})


def near(a, b):
    """Whether two runtimes mean the same: looser than any test."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fV":
        return bool((a == b).all())
    x, y = a.astype(numpy.float64), b.astype(numpy.float64)
    finite = numpy.isfinite(y)
    room = (0.03 if a.dtype.itemsize < 4 else 2e-4) * (numpy.abs(y[finite]).max() if finite.any() else 1) + 1e-6
    return bool(numpy.array_equal(numpy.isfinite(x), finite) and (numpy.abs(x[finite] - y[finite]) <= room).all())


def judged(model, inputs, names, expected):
    """(inputs that the file has, answers, who gave them)."""
    graph = onnx.load_from_string(model).graph
    stored = {i.name for i in graph.initializer}
    kept = [i.name for i in graph.input if i.name not in stored]
    feeds = {n: array(x) for n, x in zip(names, inputs)}
    lost = [k for k in kept if k not in feeds]
    if lost:
        raise ValueError("the file has other inputs: %s" % lost)
    given = [feeds[k] for k in kept]
    try:
        got = answers_of(model, feeds)
    except Exception as error:  # noqa: BLE001 - onnxruntime's own list of what it cannot run
        if "INVALID_GRAPH" in str(error) or "Fail to load" in str(error):
            raise
        if len(expected) != len(graph.output):
            raise
        return given, expected, "torch alone: %s" % str(error)[:150].replace("\n", " ")
    if len(got) == len(expected) and all(near(g, e) for g, e in zip(got, expected)):
        return given, expected, "both"
    return given, got, "onnxruntime"


def export(l, case, way, cases, second):
    exporter, function, opset, mark = way
    module, inputs = l.make(case)
    module = module if case.options.get("zoo") else coarse(module)
    names = ["in%d" % i for i in range(len(inputs))]
    error = None
    last = 23 if exporter == "torch_dynamo" else 20
    for version in [opset] + [v for v in (9, 11, 13, 14, 16, 17, 18, 20) if v > opset and v <= last]:
        try:
            with quiet(240 if case.options.get("heavy") else 60), torch.no_grad():
                expected = [array(t) for t in flat(module(*[i.clone() for i in inputs]))]
                model = function(module, tuple(i.clone() for i in inputs), names, version)
            break
        except Exception as e:  # noqa: BLE001 - an exporter that refuses is asked again with a newer opset
            error = e
            if exporter == "torch_dynamo" or not ("opset" in str(e) or "nsupported" in type(e).__name__):
                raise
    else:
        raise error
    given, answers, who = judged(model, inputs, names, expected)
    cases[exporter].onnx(case.family, "%s_%s%d" % (case.name, mark, version), model, [(given, [numpy.asarray(a) for a in answers])])
    return who


def made(folder, case):
    """Whether an earlier run has made it: a run goes on where another was stopped."""
    at = os.path.join(folder, case.family)
    return os.path.isdir(at) and any(re.fullmatch(re.escape(case.name) + r"_[du]*\d+", name) for name in os.listdir(at))


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    flags = [a for a in sys.argv[1:] if a.startswith("--")]
    out, wanted = arguments[0], arguments[1:]
    second = "--second" in flags
    l = List(second)
    if "--zoo" in flags:
        torch_families.fill_zoo(l)
    else:
        for part in (torch_layers, torch_functions, torch_families):
            part.fill(l)
    cases = {name: Cases(out, name, fresh=False) for name in ("torch_script", "torch_dynamo")}
    torch.set_num_threads(1)
    notes = open(os.path.join(out, "failures.txt"), "a")
    for case in l.cases:
        if wanted and case.family not in wanted and "%s/%s" % (case.family, case.name) not in wanted:
            continue
        for way in ways(case, second):
            if made(cases[way[0]].folder, case):
                continue
            try:
                who = export(l, case, way, cases, second)
            except Exception as error:  # noqa: BLE001 - the list of what an exporter refuses is part of the result
                who = "not exported: %s: %s" % (type(error).__name__, str(error).strip()[:300].replace("\n", " "))
                if "--debug" in flags:
                    traceback.print_exc()
            if who != "both":
                print("%s %s/%s: %s" % (way[0], case.family, case.name, who), file=notes, flush=True)
    if "--keep" in flags:
        for name, c in cases.items():
            print(name, c.archive(HERE, lambda family, case, size: size < KEPT[name]))


if __name__ == "__main__":
    main()
