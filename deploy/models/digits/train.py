#!/usr/bin/env python3
"""Trains the digits model and writes all that stands in this folder beside the scripts and config.json.

    deploy/models/digits/train.py            # ten seconds on one core

Data: the 1797 handwritten digits that scikit-learn ships (UCI, 43 people, 8x8 pixels of 0..16), four fifths to train on, one fifth to test.
They are scaled to 0..255 as an image file holds them, and the net sees pixel / 255, which is what config.json tells the worker to compute.
Net: (conv 3x3, batch norm, relu) x 2, max pool, (conv, batch norm, relu), max pool, dense, softmax; about 15,000 parameters.

Packages: numpy, scikit-learn, onnx. Where they are missing the script makes a virtual environment in $XDG_CACHE_HOME/penstock/digits
(~/.cache/penstock/digits) and runs itself there. Everything is seeded; another BLAS may still change the last digits of a weight.
"""
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread: sums in one order
HERE = Path(__file__).resolve().parent
PACKAGES = ["numpy", "scikit-learn", "onnx"]
SEED, EPOCHS, BATCH, RATE = 8, 40, 64, 4e-3
SAMPLE_ENLARGE = 8  # the samples are 64x64 pictures: people can see them, and the CLI has something to shrink


def ensure_packages():
    """Runs this script again inside its own virtual environment when a package is missing."""
    try:
        import numpy, onnx, sklearn  # noqa: F401,E401
    except ImportError:
        if os.environ.get("PENSTOCK_DIGITS_VENV"):
            raise
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        python = cache / "penstock" / "digits" / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        os.execve(python, [str(python), *sys.argv], dict(os.environ, PENSTOCK_DIGITS_VENV="1"))


ensure_packages()
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402

import net  # noqa: E402


def load_data():
    """Returns (train images, test images, train labels, test labels); images are uint8 [n, 8, 8, 1]."""
    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    return train_test_split(pixels, digits.target.astype(np.uint8), test_size=0.2, random_state=SEED, stratify=digits.target)


def build(rng):
    return [
        net.Conv(rng, 1, 16), net.BatchNorm(16), net.Relu(),
        net.Conv(rng, 16, 32), net.BatchNorm(32), net.Relu(), net.MaxPool(),
        net.Conv(rng, 32, 32), net.BatchNorm(32), net.Relu(), net.MaxPool(),
        net.Flatten(), net.Dense(rng, 128, 10),
    ]


def forward(layers, x, training=False):
    for layer in layers:
        x = layer.forward(x, training)
    return x


def shifted(rng, images):
    """Each image moved by -1, 0 or 1 pixel both ways: people do not centre their digits."""
    out = np.zeros_like(images)
    for index, (dy, dx) in enumerate(rng.integers(-1, 2, (len(images), 2))):
        rows, columns = slice(max(0, dy), 8 + min(0, dy)), slice(max(0, dx), 8 + min(0, dx))
        from_rows, from_columns = slice(max(0, -dy), 8 - max(0, dy)), slice(max(0, -dx), 8 - max(0, dx))
        out[index, rows, columns] = images[index, from_rows, from_columns]
    return out


def train(layers, images, labels, rng):
    optimiser = net.Adam(layers)
    steps_all = EPOCHS * -(-len(images) // BATCH)
    for epoch in range(EPOCHS):
        loss_sum = 0.0
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            chosen = order[start:start + BATCH]
            x = shifted(rng, images[chosen]) / np.float32(255)
            probabilities = net.softmax(forward(layers, x, training=True))
            rows = np.arange(len(chosen))
            loss_sum -= np.log(probabilities[rows, labels[chosen]] + 1e-12).sum()
            grad = probabilities
            grad[rows, labels[chosen]] -= 1  # d(cross entropy of softmax) / d(logits) = p - y
            grad /= len(chosen)
            for layer in reversed(layers):
                grad = layer.backward(grad)
            rate = RATE * 0.5 * (1 + np.cos(np.pi * optimiser.step / steps_all))  # cosine, to zero at the end
            optimiser.update(rate)
        print(f"epoch {epoch + 1:2d}/{EPOCHS}  loss {loss_sum / len(images):.4f}", flush=True)


def export(layers):
    """The net as an ONNX model with batch norms left in, as training frameworks export it: folding them is the engine's work."""
    nodes, weights, value = [], [], "image"

    def add(op, inputs, out, **attributes):
        nodes.append(helper.make_node(op, inputs, [out], name=out + "/" + op, **attributes))
        return out

    def constant(name, array):
        weights.append(numpy_helper.from_array(np.ascontiguousarray(array, dtype=np.float32), name))
        return name

    for index, layer in enumerate(layers):
        out, kind = f"{type(layer).__name__.lower()}_{index}", type(layer)
        if kind is net.Conv:
            value = add("Conv", [value, constant(out + ".weight", layer.onnx_weight())], out, kernel_shape=[3, 3], pads=[1] * 4)
        elif kind is net.BatchNorm:
            parts = {"scale": layer.params["scale"], "bias": layer.params["bias"], "mean": layer.mean, "var": layer.var}
            names = [constant(f"{out}.{part}", array) for part, array in parts.items()]
            value = add("BatchNormalization", [value, *names], out, epsilon=layer.EPSILON)
        elif kind is net.Relu:
            value = add("Relu", [value], out)
        elif kind is net.MaxPool:
            value = add("MaxPool", [value], out, kernel_shape=[2, 2], strides=[2, 2])
        elif kind is net.Flatten:
            value = add("Flatten", [value], out, axis=1)
        elif kind is net.Dense:
            operands = [value, constant(out + ".weight", layer.params["weight"].T), constant(out + ".bias", layer.params["bias"])]
            value = add("Gemm", operands, out, transB=1)
    add("Softmax", [value], "probabilities", axis=1)

    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])]
    outputs = [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])]
    graph = helper.make_graph(nodes, "digits", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="penstock digits")
    model.ir_version = 8  # what goes with opset 17
    onnx.checker.check_model(model, full_check=True)
    return model


def png(pixels):
    """The bytes of an 8-bit grey PNG of pixels [height, width]."""
    height, width = pixels.shape
    rows = b"".join(b"\0" + bytes(row) for row in pixels)  # filter 0 on each row

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def write_samples(images, labels, names):
    """The first test image of each digit and of two digits a second one, with labels.txt: file name, label."""
    folder = HERE / "samples"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    first = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
    second = [int(np.flatnonzero(labels == digit)[1]) for digit in (3, 8)]
    lines = []
    for number, index in enumerate(first + second):
        label = names[labels[index]]
        name = f"{number:02d}_{label}.png"
        enlarged = images[index, :, :, 0].repeat(SAMPLE_ENLARGE, 0).repeat(SAMPLE_ENLARGE, 1)
        (folder / name).write_bytes(png(enlarged))
        lines.append(f"{name}\t{label}\n")
    (folder / "labels.txt").write_text("".join(lines))


def write_testset(images, labels, correct):
    folder = HERE / "testset"
    folder.mkdir(exist_ok=True)
    np.save(folder / "images.npy", images)
    np.save(folder / "labels.npy", labels)
    (folder / "accuracy.json").write_text(json.dumps({"images": len(labels), "correct": correct}) + "\n")


def main():
    rng = np.random.default_rng(SEED)
    train_images, test_images, train_labels, test_labels = load_data()
    layers = build(rng)
    train(layers, train_images, train_labels, rng)

    model = export(layers)
    path = HERE / "1" / "model.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(model.SerializeToString())

    # The figure is that of the exported file, run by the onnx package's own evaluator.
    x = test_images.transpose(0, 3, 1, 2) / np.float32(255)
    probabilities, = ReferenceEvaluator(str(path)).run(None, {"image": x})
    correct = int((probabilities.argmax(1) == test_labels).sum())

    names = json.loads((HERE / "config.json").read_text())["output"]["labels"]
    write_samples(test_images, test_labels, names)
    write_testset(test_images, test_labels, correct)
    print(f"model      {path.relative_to(HERE)}  {path.stat().st_size} bytes")
    print(f"accuracy   {correct / len(test_labels):.4f}  ({correct} of {len(test_labels)} test images)")


if __name__ == "__main__":
    main()
