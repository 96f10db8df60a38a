#!/usr/bin/env python3
"""Kept ONNX models in other versions of the format: `make_versions.py OUT [EACH]`.

In a venv: pip install onnx onnxruntime numpy. Takes the models of the archives beside this file, every EACH-th (default 6), and rewrites each to opsets from 7 to the newest by
onnx.version_converter, and to each IR version from 3 to the newest (before 4, weights are inputs too). The answers stay; where onnxruntime gives others for the rewritten
file, they are onnxruntime's. What the converter cannot rewrite, and what onnx.checker then refuses, is counted and left out. versions.tar.xz gets the first model of each opset and IR version
when no EACH is given.
"""

import collections
import os
import sys
import tarfile
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, version_converter

from case import Cases

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("torch_script", "torch_dynamo", "skl2onnx", "onnxmltools")
OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)
IRS = range(3, onnx.IR_VERSION + 1)
KEEP_BYTES = 8000


def cases_of(folder):
    """(name, model, inputs, outputs) of each case."""
    for source in SOURCES:
        with tarfile.open(os.path.join(HERE, source + ".tar.xz")) as tar:
            tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        for at, _, files in sorted(os.walk(os.path.join(folder, source))):
            if "model.onnx" not in files:
                continue
            values = {"input": [], "output": []}
            for kind, arrays in values.items():
                while os.path.exists(os.path.join(at, "test_data_set_0", "%s_%d.pb" % (kind, len(arrays)))):
                    arrays.append(numpy_helper.to_array(onnx.load_tensor(os.path.join(at, "test_data_set_0", "%s_%d.pb" % (kind, len(arrays))))))
            yield os.path.relpath(at, folder).replace("/", "_"), onnx.load(os.path.join(at, "model.onnx")), values["input"], values["output"]


def opset_of(model):
    return next((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), 0)


def with_ir(model, version):
    out = onnx.ModelProto()
    out.CopyFrom(model)
    out.ir_version = version
    inputs = {i.name for i in out.graph.input}
    for t in out.graph.initializer if version < 4 else []:
        if t.name not in inputs:
            out.graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    return out


def answers(model, inputs):
    """What onnxruntime gives; None where it does not run the file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        held = {t.name for t in model.graph.initializer}
        names = [i.name for i in model.graph.input if i.name not in held]
        return session.run(None, dict(zip(names, inputs)))
    except Exception:
        return None


def alike(a, b):
    return all(isinstance(y, np.ndarray) and x.shape == y.shape and x.dtype == y.dtype and (x.dtype == object or np.allclose(x, y, 1e-4, 1e-5, True)) for x, y in zip(a, b))


def rewritten(model):
    """(family, model) of every version that can be had."""
    start = opset_of(model)
    for target in OPSETS:
        if target != start and start > 0:
            try:
                out = version_converter.convert_version(model, target)
                onnx.checker.check_model(out, full_check=True)
                yield "opset%d" % target, out
            except Exception:
                yield "opset%d" % target, None
    for version in IRS:
        yield "ir%d" % version, with_ir(model, version)


def main():
    each = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    cases, counts, first = Cases(sys.argv[1], "versions"), collections.Counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, model, inputs, outputs) in enumerate(cases_of(folder)):
            if number % each or model.functions or any(a.dtype == object for a in outputs):
                continue
            for family, out in rewritten(model):
                counts["not rewritten" if out is None else "rewritten"] += 1
                if out is None:
                    continue
                got = answers(out, inputs)
                counts["without onnxruntime"] += got is None
                maps = got is not None and not all(isinstance(y, np.ndarray) for y in got)
                want = outputs if got is None or maps or alike(outputs, got) else got
                path = cases.onnx(family, name, out.SerializeToString(), [(inputs, want)])
                if os.path.getsize(os.path.join(path, "model.onnx")) <= KEEP_BYTES:
                    first.setdefault(family, []).append(name)
    print(dict(counts))
    if len(sys.argv) < 3:
        chosen = {(f, names[hash_of(f) % len(names)]) for f, names in first.items()}
        print(cases.archive(HERE, lambda f, n, size: (f, n) in chosen), "kept")
    return 0


def hash_of(text):
    return sum(text.encode())


if __name__ == "__main__":
    sys.exit(main())
