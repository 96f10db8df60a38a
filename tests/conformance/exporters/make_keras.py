#!/usr/bin/env python3
"""Keras models and TensorFlow functions through the TFLite converter, with the answers of its own interpreter.

    make_keras.py OUT [SEED]

In a venv: pip install tensorflow-cpu tf_keras. Every case goes below OUT; keras_tflite.tar.xz beside this file gets the small ones when no SEED is given. Another SEED makes
other weights and inputs. A case is FAMILY/NAME.MODE: float, dynamic (8-bit weights), float16, int8, int4 (weights of 4 bits, as quantisers of TFLite files write them), int16 (activations, with 8-bit weights), lists (TensorFlow's lists are kept; the
interpreter of the package cannot run those, so that the answers are those of TensorFlow itself).
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
KEEP_BYTES = 32000


def randomise(model, rng):
    for v in model.weights:
        if "float" not in str(v.dtype):
            continue
        shape = tuple(v.shape)
        fan = max(1, int(np.prod(shape[:-1])))
        low = rng.uniform(0.5, 1.5, shape) if "variance" in v.name or "gamma" in v.name else None
        v.assign((rng.normal(0, 0.1 if len(shape) < 2 else fan**-0.5, shape) if low is None else low).astype("float32"))


def specs_of(model):
    return model.specs if isinstance(model, km.Function) else model.inputs


def draw(model, rng):
    """Inputs: an open dimension is 3 long."""
    out = []
    for spec in specs_of(model):
        kind = spec.dtype if isinstance(spec.dtype, str) else spec.dtype.name
        shape = [3 if d is None else d for d in spec.shape]
        if getattr(model, "feed", None):
            out.append(model.feed(rng, spec))
        elif kind.startswith("float"):
            out.append(rng.normal(size=shape).astype(kind))
        else:
            out.append(rng.integers(0, 6, shape).astype(kind))
    return out


def converter_of(model):
    if isinstance(model, tf.Module) and not isinstance(model, keras.Model):
        return tf.lite.TFLiteConverter.from_concrete_functions([model.__call__.get_concrete_function()], model)
    if isinstance(model, km.Saved):
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder)  # the converter reads it later
        model.model.save(folder, save_format="tf")
        return tf.lite.TFLiteConverter.from_saved_model(folder)
    if isinstance(model, km.Function):
        f = tf.function(model.body, input_signature=model.specs)
        return tf.lite.TFLiteConverter.from_concrete_functions([f.get_concrete_function()])
    return tf.lite.TFLiteConverter.from_keras_model(model)


def convert(model, mode, rng):
    c, ops = converter_of(model), tf.lite.OpsSet
    examples = [draw(model, rng) for _ in range(8)]
    c.representative_dataset = (lambda: iter(examples)) if mode in ("int8", "int16") else None
    if mode == "lists":
        c._experimental_lower_tensor_list_ops = False
        c.target_spec.supported_ops = [ops.TFLITE_BUILTINS, ops.SELECT_TF_OPS]
    elif mode != "float":
        c.optimizations = [tf.lite.Optimize.DEFAULT]
    if mode == "float16":
        c.target_spec.supported_types = [tf.float16]
    if mode == "int8":
        c.target_spec.supported_ops = [ops.TFLITE_BUILTINS_INT8, ops.TFLITE_BUILTINS]
        if all(str(s.dtype).find("float32") >= 0 for s in specs_of(model)):
            c.inference_input_type = c.inference_output_type = tf.int8
    if mode == "int16":
        c.target_spec.supported_ops = [ops.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8, ops.TFLITE_BUILTINS]
    blob = c.convert()
    return halved(blob) if mode == "int4" else blob


def halved(blob):
    """The file with weights of 4 bits for those of 8."""
    from tensorflow.lite.python import schema_py_generated as schema
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(blob))
    for t in [t for graph in model.subgraphs for t in graph.tensors]:
        data = model.buffers[t.buffer].data
        if t.type != schema.TensorType.INT8 or data is None or len(data) == 0:
            continue
        q = np.clip(np.round(np.frombuffer(bytes(bytearray(data)), np.int8) / 18.0), -7, 7).astype(int)
        q = np.append(q, np.zeros(len(q) % 2, int))
        model.buffers[t.buffer].data = ((q[0::2] & 15) | (q[1::2] & 15) << 4).astype(np.uint8)
        t.type, t.quantization.scale = schema.TensorType.INT4, [float(s) * 18.0 for s in t.quantization.scale]
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def placed(details, arrays):
    """The arrays in the order of the file's inputs: each goes where its shape and type fit."""
    left, out = list(arrays), []
    for d in details:
        want = list(d["shape_signature"]) if len(d["shape_signature"]) else list(d["shape"])
        for i, a in enumerate(left):
            same = a.dtype == d["dtype"] or d["dtype"] in (np.int8, np.int16)
            if same and a.ndim == len(want) and all(w in (-1, n) for w, n in zip(want, a.shape)):
                break
        a = left.pop(i)
        if d["dtype"] in (np.int8, np.int16) and a.dtype == np.float32:
            scale, zero = d["quantization"]
            limits = np.iinfo(d["dtype"])
            a = np.clip(np.round(a / scale) + zero, limits.min, limits.max).astype(d["dtype"])
        out.append(a)
    return out


def answer(blob, model, mode, arrays):
    """[(name, array)] of the inputs as fed and of the outputs."""
    it = tf.lite.Interpreter(model_content=blob)
    if mode == "int8" and any(o["op_name"] == "BATCH_MATMUL" for o in it._get_ops_details()):
        kind = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        it = tf.lite.Interpreter(model_content=blob, experimental_op_resolver_type=kind)  # the delegate's product is wrong
    ins = it.get_input_details()
    fed = placed(ins, arrays)
    if mode == "lists":
        body = tf.function(model.body) if isinstance(model, km.Function) else lambda *a: model(list(a) if len(a) > 1 else a[0])
        out = body(*[tf.constant(a) for a in arrays])
        out = [np.array(y) for y in (out if isinstance(out, (list, tuple)) else [out])]
    else:
        for d, a in zip(ins, fed):
            it.resize_tensor_input(d["index"], a.shape)
        it.allocate_tensors()
        for d, a in zip(ins, fed):
            it.set_tensor(d["index"], a)
        it.invoke()
        out = [it.get_tensor(d["index"]) for d in it.get_output_details()]
    names = [d["name"] for d in it.get_output_details()]
    return list(zip([d["name"] for d in ins], fed)), list(zip(names, out))


def entries_make(cases, family, name, model):
    """One file, a case for each entry point."""
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(model.module, folder, signatures={n: getattr(model.module, n) for n in model.names})
        blob = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=model.names).convert()
    for entry in model.names:
        run = tf.lite.Interpreter(model_content=blob).get_signature_runner(entry)
        fed = {k: np.random.default_rng(1).normal(size=d["shape"]).astype("float32") for k, d in run.get_input_details().items()}
        cases.golden(family, "%s.%s" % (name, entry), "model.tflite", blob, [(list(fed.items()), list(run(**fed).items()))], entry)


def steps_make(cases, family, name, model, rng):
    """The interpreter keeps the variable; here it goes in, and comes out."""
    c = converter_of(model.model)
    c.experimental_enable_resource_variables = True
    blob = c.convert()
    it = tf.lite.Interpreter(model_content=blob)
    it.allocate_tensors()
    (x,), (y,) = it.get_input_details(), it.get_output_details()
    keras_model = isinstance(model.model, keras.Model)
    variable = model.model.layers[-1].states[0] if keras_model else model.model.variables[0]
    held, sets = np.zeros(y["shape"], "float32"), []
    shared = getattr(variable, "path", None) or variable.name.split(":")[0]
    for _ in range(model.count):
        fed = rng.normal(size=x["shape"]).astype("float32")
        it.set_tensor(x["index"], fed)
        it.invoke()
        out = it.get_tensor(y["index"])
        sets.append(([(x["name"], fed), (shared, held)], [(y["name"], out), (shared + ".next", out)]))
        held = out
    cases.golden(family, name, "model.tflite", blob, sets, "+variables")


def family_make(cases, family, first, seed):
    """The cases of one family from number `first` on. The converter may crash: who calls goes on behind the one it was at."""
    work = [(n, make, mode) for n, (make, modes) in km.FAMILIES[family].items() for mode in modes]
    for number in range(first, len(work)):
        name, make, mode = work[number]
        print("at %d %s.%s" % (number, name, mode), flush=True)
        keras.utils.set_random_seed(seed + 1)
        rng = np.random.default_rng(seed)
        model = make()
        if isinstance(model, keras.Model):
            randomise(model, rng)
        try:
            if isinstance(model, km.Entries):
                entries_make(cases, family, name, model)
                continue
            if isinstance(model, km.Steps):
                steps_make(cases, family, name, model, rng)
                continue
            blob = convert(model, mode, rng)
            values = answer(blob, model, mode, draw(model, rng))
        except Exception as problem:  # the exporter's own limits
            print("no %s.%s: %s" % (name, mode, str(problem).replace("\n", " ")[:160]), flush=True)
            continue
        cases.golden(family, "%s.%s" % (name, mode), "model.tflite", blob, [values])


def family_run(out, family, seed):
    first, last = 0, -1
    while True:
        p = subprocess.run([sys.executable, __file__, "--family", family, str(first), out, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in p.stdout.splitlines():
            if line.startswith("at "):
                last = int(line.split()[1])
            elif line.startswith("no "):
                print(family, line, flush=True)
        if p.returncode >= 0 or last < first:
            return p.returncode
        print(family, "no %d: the converter ended with signal %d" % (last, -p.returncode), flush=True)
        first = last + 1


def main():
    if sys.argv[1] == "--family":
        family, first, out, seed = sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
        family_make(Cases(out, "keras_tflite", fresh=False), family, first, seed)
        return 0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    cases = Cases(sys.argv[1], "keras_tflite")
    failed = sum(family_run(sys.argv[1], family, seed) != 0 for family in km.FAMILIES)
    if len(sys.argv) < 3:
        print(cases.archive(os.path.dirname(os.path.abspath(__file__)), lambda f, n, size: size <= KEEP_BYTES), "kept")
    return failed


if __name__ == "__main__":
    from case import Cases

    import keras_models as km
    import keras
    import numpy as np
    import tensorflow as tf

    sys.exit(main())
