#!/usr/bin/env python3
"""Keras models and TensorFlow functions through tensorflowjs_converter, with the answers of TensorFlow.js.

    PENSTOCK_TFJS_MODULES=<node_modules> make_tfjs.py OUT [SEED]

In a venv: pip install tensorflow-cpu tf_keras; pip install --no-deps tensorflowjs tensorflow-hub (whose imports of jax and of the decision forests may be taken out: the
formats here need neither). Node with @tensorflow/tfjs 4.22 gives the answers; where it cannot load or run a model, or differs from TensorFlow, they are TensorFlow's.
Families: functions of tfjs_models.py and keras_models.py as graph models, with control flow of both kinds; layers2 and layers3: layers models of Keras 2 and 3; graph: the same as
graph models; quantised: weights in float16, uint8 and uint16.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
KEEP_BYTES = 14000
HERE = os.path.dirname(os.path.abspath(__file__))
CONVERTED = {"int64": "int32", "float64": "float32", "bool": "bool"}


def plain(array):
    array = np.asarray(array)
    return array.astype(CONVERTED.get(str(array.dtype), str(array.dtype)))


def fed(specs, rng, feed):
    out = []
    for spec in specs:
        shape = [3 if d is None else d for d in spec.shape]
        if feed is not None:
            out.append(np.asarray(feed(rng, spec)))
        elif "int" in str(spec.dtype):
            out.append(rng.integers(0, 6, shape).astype("int32"))
        else:
            out.append(rng.normal(size=shape).astype("float32"))
    return out


class Work:
    """A converted model that waits for its answers."""

    def __init__(self, family, name, folder, arrays, truth, random=False):
        self.family, self.name, self.folder, self.arrays, self.truth, self.random = family, name, folder, arrays, truth, random


def graph_model(source, to, *more):
    converter.convert(["--input_format=tf_saved_model", "--output_format=tfjs_graph_model", *more, source, to])


def function_save(body, specs, keep, folder):
    module = tf.Module()
    module.kept = keep
    named = [tf.TensorSpec(s.shape, s.dtype, "x%d" % i) for i, s in enumerate(specs)]

    def call(*args):
        out = body(*args)
        out = out if isinstance(out, (tuple, list)) else [out]
        return {"y%d" % i: y for i, y in enumerate(out)}

    module.call = tf.function(call, input_signature=named)
    tf.saved_model.save(module, folder, signatures=module.call.get_concrete_function())
    return module.call


def function_work(scratch, family, name, row, rng, flags):
    body, specs, feed, keep = (*row, None)[:4]
    source, to = tempfile.mkdtemp(dir=scratch), tempfile.mkdtemp(dir=scratch)
    call = function_save(body, specs, keep, source)
    arrays = fed(specs, rng, feed)
    truth = call(*[tf.constant(a, s.dtype) for a, s in zip(arrays, specs)])
    graph_model(source, to, *flags)
    return Work(family, name, to, [("x%d" % i, plain(a)) for i, a in enumerate(arrays)], [(k, plain(v)) for k, v in sorted(truth.items())], family == "random")


def randomise(model, rng):
    for v in model.weights:
        if "float" in str(v.dtype) and "seed" not in v.name:
            shape = tuple(v.shape)
            fan = max(1, int(np.prod(shape[:-1])))
            positive = "variance" in v.name or "gamma" in v.name
            v.assign((rng.uniform(0.5, 1.5, shape) if positive else rng.normal(0, 0.1 if len(shape) < 2 else fan**-0.5, shape)).astype("float32"))


def model_truth(model, arrays):
    out = model(arrays if len(arrays) > 1 else arrays[0], training=False)
    return [plain(y) for y in (out if isinstance(out, (list, tuple)) else [out])]


def layers_work(scratch, family, name, make, rng, keras3, flags=()):
    model = make()
    randomise(model, rng)
    arrays = fed([tf.TensorSpec([2, *x.shape[1:]], x.dtype) for x in model.inputs], rng, None)
    to, kind = tempfile.mkdtemp(dir=scratch), "keras" if keras3 else "h5"
    source = os.path.join(scratch, "model." + kind)
    model.save(source)
    converter.convert(["--input_format=" + ("keras_keras" if keras3 else "keras"), "--output_format=tfjs_layers_model", *flags, source, to])
    truth = model_truth(model, arrays)
    return Work(family, name, to, [(x.name.split(":")[0], a) for x, a in zip(model.inputs, arrays)], [("", y) for y in truth])


def graph_work(scratch, family, name, make, rng, flags=()):
    model = make()
    if isinstance(model, km.Function):
        return function_work(scratch, family, name, (model.body, model.specs, model.feed), rng, flags)
    randomise(model, rng)
    specs = [tf.TensorSpec(x.shape, x.dtype) for x in model.inputs]
    body = lambda *a: model(list(a) if len(a) > 1 else a[0], training=False)
    return function_work(scratch, family, name, (body, specs, None, model), rng, flags)


def everything():
    """[(family, name, make(scratch, rng) -> Work)]"""
    out = []
    lists = {name: (*row, None)[:3] for name, row in lm.functions().items()}
    for family, rows in {**tm.functions(), "growing": lists}.items():
        for name, row in rows.items():
            out.append((family, name, lambda s, r, f=family, n=name, row=row: function_work(s, f, n, row, r, ["--control_flow_v2=True"])))
            if family in ("control", "growing"):
                out.append((family, name + ".v1", lambda s, r, f=family, n=name, row=row: function_work(s, f, n + ".v1", row, r, [])))
    for family, rows in km.FAMILIES.items():
        for name, (make, modes) in rows.items():
            if family in ("state", "growing"):
                continue
            both = ["", ".v1"] if family in ("control", "recurrent") else [""]
            for kind in both:
                flags = ["--control_flow_v2=True"] if kind == "" else []
                out.append((family, "keras_" + name + kind, lambda s, r, f=family, n="keras_" + name + kind, m=make, g=flags: graph_work(s, f, n, m, r, g)))
    for keras3, space in ((False, tf_keras), (True, keras)):
        for name, make in tm.stacks(space.layers, space, keras3).items():
            family = "layers3" if keras3 else "layers2"
            out.append((family, name, lambda s, r, f=family, n=name, m=make, k=keras3: layers_work(s, f, n, m, r, k)))
            if name in ("cnn", "lstm", "attention", "conv_lstm", "masked"):
                out.append(("graph", "%s.keras%d" % (name, 2 + keras3), lambda s, r, n="%s.keras%d" % (name, 2 + keras3), m=make: graph_work(s, "graph", n, m, r)))
            if name in ("cnn", "embedded") and not keras3:
                for kind in ("float16", "uint8", "uint16"):
                    label = "%s.keras%d.%s" % (name, 2 + keras3, kind)
                    out.append(("quantised", label, lambda s, r, n=label, m=make, k=keras3, q=kind: layers_work(s, "quantised", n, m, r, k, ["--quantize_%s=*" % q])))
                    out.append(("quantised", label + ".graph", lambda s, r, n=label + ".graph", m=make, q=kind: graph_work(s, "quantised", n, m, r, ["--quantize_%s=*" % q])))
    return out


def jobs_of(work, scratch):
    jobs = []
    for number, w in enumerate(work):
        inputs = []
        for i, (name, a) in enumerate(w.arrays):
            file = os.path.join(scratch, "in.%d.%d" % (number, i))
            a.tofile(file)
            inputs.append({"name": name, "dtype": str(a.dtype), "shape": list(a.shape), "file": file})
        jobs.append({"model": os.path.join(w.folder, "model.json"), "inputs": inputs, "out": os.path.join(scratch, "out.%d" % number)})
    return jobs


def near(a, b):
    return a.shape == b.shape and (np.allclose(a, b, 1e-3, 1e-4, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a, b))


def ports_of(w):
    """The names of the outputs as the file has them, in its order, and in the order of w.truth."""
    with open(os.path.join(w.folder, "model.json")) as f:
        model = json.load(f)
    if "signature" in model:
        outputs = model["signature"]["outputs"]
        number = lambda n: int((re.findall(r"_(\d+):", outputs[n]["name"]) or [0])[0])
        return list(outputs), sorted(outputs, key=number)
    config = model["modelTopology"]
    config = config.get("model_config", config)["config"]
    ends = config.get("output_layers") or [[config["layers"][-1]["config"]["name"]]]
    names = [end[0] for end in ([ends] if isinstance(ends[0], str) else ends)]
    return names, names


def answers_of(w, job):
    """[(name, array)] in the file's order, and who gave them."""
    names, order = ports_of(w)
    with open(job["out"] + ".json") as f:
        said = json.load(f)
    truth = list(zip(order, [a for _, a in w.truth]))
    truth = truth if names == order else [(n, dict(truth)[n]) for n in names]
    if "error" in said:
        return None if w.random or w.family == "quantised" else truth, "tensorflow: " + said["error"]
    given = [(n, np.fromfile(o["file"], o["dtype"]).reshape(o["shape"])) for n, o in zip(names, said["outputs"])]
    same = len(given) == len(truth) and all(near(a, b) for (_, a), (_, b) in zip(given, truth))
    return (given, "tfjs") if same or w.random or w.family == "quantised" else (truth, "tensorflow: tfjs differs")


def keep_case(cases, w, values):
    files = sorted(os.listdir(w.folder))
    beside = [(f, open(os.path.join(w.folder, f), "rb").read()) for f in files if f != "model.json"]
    with open(os.path.join(w.folder, "model.json"), "rb") as f:
        model = json.loads(f.read())
    model.pop("convertedBy", None)
    text = json.dumps(model, separators=(",", ":")).encode()
    cases.golden(w.family, w.name, "model.json", text, [(w.arrays, values)], beside=beside)


def main():
    seed, only = int(sys.argv[2]) if len(sys.argv) > 2 else 5, sys.argv[3] if len(sys.argv) > 3 else ""
    cases, work = Cases(sys.argv[1], "tfjs"), []
    with tempfile.TemporaryDirectory() as scratch:
        for family, name, make in everything():
            if only and not (family + "/" + name).startswith(only):
                continue
            keras.utils.set_random_seed(seed + 1)
            keras.backend.clear_session()
            tf_keras.backend.clear_session()
            try:
                with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
                    work.append(make(scratch, np.random.default_rng(seed)))
            except BaseException as problem:  # the exporter's own limits
                print("no %s/%s: %s" % (family, name, str(problem).replace("\n", " ")[:200]), flush=True)
        jobs = jobs_of(work, scratch)
        with open(os.path.join(scratch, "jobs.json"), "w") as f:
            json.dump(jobs, f)
        subprocess.run(["node", os.path.join(HERE, "tfjs_answers.mjs"), os.path.join(scratch, "jobs.json")], check=True)
        for w, job in zip(work, jobs):
            values, who = answers_of(w, job)
            if who != "tfjs":
                print("%s/%s by %s" % (w.family, w.name, who), flush=True)
            if values is not None:
                keep_case(cases, w, values)
    if len(sys.argv) < 3:
        print(cases.archive(HERE, lambda f, n, size: size <= (KEEP_BYTES if f != "quantised" else 21000)), "kept")
    return 0


if __name__ == "__main__":
    import contextlib

    from case import Cases

    import keras
    import keras_models as km
    import list_models as lm
    import numpy as np
    import tensorflow as tf
    import tf_keras
    import tfjs_models as tm
    from tensorflowjs.converters import converter

    sys.exit(main())
