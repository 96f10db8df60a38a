"""Random networks of Keras, for models that nobody has looked at: `keras_random.py OUT SEED COUNT [tflite|tfjs|tf2onnx]...`.

tflite: the venv of make_keras.py; each network in float, with 8-bit weights, float16, int8 and 16x8 in turn. tfjs: that of make_tfjs.py; layers models of Keras 2 and 3 and graph
models, with Keras's own answers. tf2onnx: pip install tf2onnx tensorflow-cpu==2.15.* "numpy<2" onnxruntime. `run.py BIN_DIR --cases OUT` tells what is right.
"""

import os
import random
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

from case import Cases

ACTIVATIONS = ["relu", "relu6", "swish", "gelu", "elu", "selu", "softplus", "softsign", "tanh", "sigmoid", "hard_sigmoid", "exponential", None]


def image_block(l, r, x):
    """One block behind x [n, h, w, c]; None: it does not fit."""
    _, h, w, c = x.shape
    act, pad = r.choice(ACTIVATIONS[:-2]), r.choice(["same", "valid"])
    k = (r.choice([1, 2, 3, 5]), r.choice([1, 3, 4]))
    if pad == "valid" and (k[0] > h or k[1] > w):
        k = (1, 1)
    strides = r.choice([1, 1, 2])
    rows = r.choice([1, 2])
    groups = r.choice([g for g in (1, 1, 2, 3) if c % g == 0])
    blocks = [
        lambda: l.Conv2D(groups * r.choice([2, 3, 5]), k, strides, pad, activation=act, groups=groups, use_bias=r.random() < 0.7)(x),
        lambda: l.Conv2D(r.choice([4, 7]), k, 1, "same", dilation_rate=rows, activation=act)(x),
        lambda: l.DepthwiseConv2D(3, strides, "same", depth_multiplier=rows, activation=act)(x),
        lambda: l.SeparableConv2D(r.choice([3, 6]), 3, padding="same", activation=act)(x),
        lambda: l.Conv2DTranspose(r.choice([2, 5]), r.choice([2, 3, 4]), 2, pad, activation=act)(x) if h * w < 200 else None,
        lambda: l.ReLU(6.0, 0.1 if r.random() < 0.5 else 0.0)(l.BatchNormalization()(x)),
        lambda: l.BatchNormalization(scale=False)(l.Conv2D(c, 1, use_bias=False)(x)),
        lambda: l.LayerNormalization(axis=r.choice([-1, [1, 2], [1, 2, 3]]))(x),
        lambda: l.MaxPooling2D((2, rows), strides, pad)(x) if h > 2 and w > 2 else None,
        lambda: l.AveragePooling2D((rows, 3), strides, pad)(x) if h > 3 and w > 3 else None,
        lambda: l.Add()([x, l.Conv2D(c, 3, padding="same", activation=act)(x)]),
        lambda: l.Multiply()([x, l.Dense(c, activation="sigmoid")(l.Dense(max(1, c // 2), activation=act)(l.GlobalAveragePooling2D(keepdims=True)(x)))]),
        lambda: l.Concatenate()([l.MaxPooling2D(3, 1, "same")(x), l.Conv2D(3, 1, activation=act)(x)]),
        lambda: l.Maximum()([x, l.PReLU(shared_axes=[1, 2])(x)]),
        lambda: l.UpSampling2D((2, rows))(x) if h * w < 200 else None,
        lambda: l.ZeroPadding2D(((0, 1), (rows, 2)))(x),
        lambda: l.Cropping2D(((1, 0), (0, 1)))(x) if h > 2 and w > 2 else None,
        lambda: l.Permute((2, 1, 3))(x),
        lambda: l.LeakyReLU()(x),
        lambda: l.Subtract()([x, l.GlobalMaxPooling2D(keepdims=True)(x)]),
        lambda: l.Average()([x, l.Activation("tanh")(x), l.Activation("softplus")(x)]),
        lambda: l.Dense(r.choice([3, 6]), activation=act)(x),
        lambda: l.Softmax(axis=r.choice([-1, 1]))(x),
        lambda: l.Reshape((h * w, c))(x) if r.random() < 0.3 else None,
        lambda: l.TimeDistributed(l.Dense(4, activation=act))(x),
    ]
    return r.choice(blocks)()


def sequence_block(l, r, x):
    """One block behind x [n, t, c]."""
    _, t, c = x.shape
    act, units = r.choice(ACTIVATIONS[:-2]), r.choice([3, 4, 7])
    blocks = [
        lambda: l.Dense(units, activation=act)(x),
        lambda: l.LayerNormalization()(x),
        lambda: l.Conv1D(units, 3, padding=r.choice(["causal", "same"]), dilation_rate=r.choice([1, 2]), activation=act)(x),
        lambda: l.SeparableConv1D(units, 2, padding="same")(x),
        lambda: l.MaxPooling1D(2, r.choice([1, 2]), "same")(x),
        lambda: l.LSTM(units, return_sequences=True, go_backwards=r.random() < 0.3)(x),
        lambda: l.GRU(units, return_sequences=True, reset_after=r.random() < 0.6)(x),
        lambda: l.SimpleRNN(units, return_sequences=True, activation=r.choice(["tanh", "relu"]))(x),
        lambda: l.Bidirectional(l.LSTM(units, return_sequences=True), merge_mode=r.choice(["concat", "sum", "ave"]))(x),
        lambda: l.Add()([x, l.MultiHeadAttention(2, 3)(x, x)]),
        lambda: l.Add()([x, l.MultiHeadAttention(1, 4, value_dim=3)(x, x, use_causal_mask=True)]),
        lambda: l.Attention(use_scale=False)([x, x]),
        lambda: l.Dot(axes=(2, 2), normalize=r.random() < 0.5)([x, x]),
        lambda: l.Permute((2, 1))(x),
        lambda: l.Concatenate(axis=1)([x, l.Cropping1D((0, 1))(x)]) if t > 2 else None,
        lambda: l.Multiply()([x, l.Softmax(axis=1)(x)]),
        lambda: l.UpSampling1D(2)(x) if t < 20 else None,
        lambda: l.ZeroPadding1D((1, 0))(x),
        lambda: l.Reshape((t, c, 1))(x) if r.random() < 0.3 else None,
    ]
    return r.choice(blocks)()


def network(space, seed):
    """A model of keras or tf_keras."""
    r, l = random.Random(seed), space.layers
    picture = r.random() < 0.6
    x = first = space.Input((r.choice([5, 8, 13]), r.choice([6, 8, 11]), r.choice([1, 3, 4])) if picture else (r.choice([4, 9]), r.choice([3, 5, 8])))
    for _ in range(r.choice([3, 5, 7])):
        y = (image_block if len(x.shape) == 4 else sequence_block)(l, r, x)
        if y is not None and 0 < np.prod([d for d in y.shape if d]) < 30000 and all(d is None or d > 0 for d in y.shape):
            x = y
    if r.random() < 0.6:
        x = l.Dense(4, activation=r.choice(["softmax", "sigmoid", None]))(l.Flatten()(x) if r.random() < 0.5 else (l.GlobalAveragePooling2D() if len(x.shape) == 4 else l.GlobalMaxPooling1D())(x))
    return space.Model(first, x)


def tflite(out, seed, count):
    import keras

    import keras_models as km
    import make_keras as mk

    mk.km, mk.keras, mk.np, mk.tf = km, keras, np, tf
    cases, modes = Cases(out, "keras_tflite"), ["float", "dynamic", "float", "int8", "float16", "float", "int16", "int8"]
    for i in range(count):
        rng, mode = np.random.default_rng(seed + i), modes[i % len(modes)]
        try:
            keras.backend.clear_session()
            model = network(keras, seed * 7919 + i)
            mk.randomise(model, rng)
            values = mk.answer(blob := mk.convert(model, mode, rng), model, mode, mk.draw(model, rng))
        except Exception as why:
            print("no case: tflite/%d.%s: %s" % (i, mode, str(why).replace("\n", " ")[:150]), flush=True)
            continue
        if not all(np.isfinite(y).all() for _, y in values[1] if y.dtype.kind == "f"):
            print("no case: tflite/%d.%s: the interpreter answers no numbers" % (i, mode), flush=True)
            continue
        cases.golden("random_" + mode, "%03d" % i, "model.tflite", blob, [values])


def tfjs(out, seed, count):
    import contextlib

    import keras
    import tf_keras
    from tensorflowjs.converters import converter

    import keras_models as km
    import make_tfjs as mt

    mt.km, mt.np, mt.tf, mt.converter = km, np, tf, converter
    cases = Cases(out, "tfjs")
    for i in range(count):
        space = (tf_keras, keras)[i % 2]
        with tempfile.TemporaryDirectory() as scratch, open(os.devnull, "w") as null:
            try:
                space.backend.clear_session()
                make = lambda: network(space, seed * 7919 + i)
                with contextlib.redirect_stdout(null):
                    if i % 3 == 2:
                        work = mt.graph_work(scratch, "graph", "%03d" % i, make, np.random.default_rng(i), ["--control_flow_v2=True"])
                    else:
                        work = mt.layers_work(scratch, "layers%d" % (2 + i % 2), "%03d" % i, make, np.random.default_rng(i), space is keras)
                names, order = mt.ports_of(work)
                truth = dict(zip(order, [a for _, a in work.truth]))
                mt.keep_case(cases, work, [(n, truth[n]) for n in names])
            except BaseException as why:
                print("no case: tfjs/%d: %s" % (i, str(why).replace("\n", " ")[:150]), flush=True)


def tf2onnx(out, seed, count):
    import onnxruntime as ort
    import tf2onnx as exporter

    keras = tf.keras
    cases = Cases(out, "tf2onnx")
    for i in range(count):
        rng = np.random.default_rng(seed + i)
        try:
            keras.backend.clear_session()
            model = network(keras, seed * 7919 + i)
            for v in model.weights:
                shape = tuple(v.shape)
                v.assign(rng.uniform(0.5, 1.5, shape) if "variance" in v.name or "gamma" in v.name else rng.normal(0, 0.1 if len(shape) < 2 else max(1, np.prod(shape[:-1])) ** -0.5, shape))
            x = rng.normal(size=[2, *model.inputs[0].shape[1:]]).astype("float32")
            file, _ = exporter.convert.from_keras(model, opset=random.Random(i).choice([9, 11, 13, 15, 17, 18]), inputs_as_nchw=[model.inputs[0].name] if i % 5 == 0 and len(x.shape) == 4 else None)
            fed = x.transpose(0, 3, 1, 2).copy() if i % 5 == 0 and x.ndim == 4 else x
            told = ort.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {file.graph.input[0].name: fed})
            truth = model(x, training=False).numpy()
            answer = truth if np.allclose(truth, told[0], 1e-3, 1e-4) else told[0]
        except Exception as why:
            print("no case: tf2onnx/%d: %s" % (i, str(why).replace("\n", " ")[:150]), flush=True)
            continue
        cases.onnx("random", "%03d" % i, file.SerializeToString(), [([fed], [answer])])


if __name__ == "__main__":
    makers = {"tflite": tflite, "tfjs": tfjs, "tf2onnx": tf2onnx}
    for name in sys.argv[4:] or makers:
        makers[name](sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
