"""Writes cases for run.py: a model as an exporter made it, inputs, and the answers of the exporter's own runtime.

A maker (make_*.py) calls Cases.onnx or Cases.golden for each model, then Cases.archive. Makers run by hand, in a venv of PyPI packages; run.py needs none.
"""

import json
import lzma
import os
import shutil
import tarfile


class Cases:
    """The cases of one exporter: ROOT/EXPORTER/FAMILY/NAME/..."""

    def __init__(self, root, exporter, fresh=True):
        self.folder = os.path.join(root, exporter)
        self.exporter = exporter
        if fresh:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder, exist_ok=True)
        self.failures = []

    def place(self, family, name):
        path = os.path.join(self.folder, family, name)
        os.makedirs(path)
        return path

    def onnx(self, family, name, model, sets):
        """model: bytes. sets: [(inputs, outputs)], arrays in the model's order. The layout of ONNX's own test folders."""
        from onnx import numpy_helper

        path = self.place(family, name)
        with open(os.path.join(path, "model.onnx"), "wb") as f:
            f.write(model)
        for number, values in enumerate(sets):
            folder = os.path.join(path, "test_data_set_%d" % number)
            os.makedirs(folder)
            for kind, arrays in zip(("input", "output"), values):
                for i, array in enumerate(arrays):
                    with open(os.path.join(folder, "%s_%d.pb" % (kind, i)), "wb") as f:
                        f.write(numpy_helper.from_array(array).SerializeToString())
        return path

    def golden(self, family, name, file, model, sets, entry="", beside=(), noise=()):
        """
        For formats other than ONNX, and for whole models. file: "model.tflite". sets: [(inputs, outputs)], each a list of (name, array). entry: which of the
        file's. beside: [(file, bytes)] that belong to the model. noise: for each output, how far another correct answer lies from it, as a share of its range.
        """
        path = self.place(family, name)
        with open(os.path.join(path, file), "wb") as f:
            f.write(model)
        for other, data in beside:
            with open(os.path.join(path, other), "wb") as f:
                f.write(data)
        os.makedirs(os.path.join(path, "golden"))
        for number, (inputs, outputs) in enumerate(sets):
            case = {"case": "set%d" % number, "model": file + ("#" + entry if entry else ""), "inputs": [], "outputs": []}
            for key, short, values in (("inputs", "in", inputs), ("outputs", "out", outputs)):
                for i, (value_name, array) in enumerate(values):
                    data = "set%d.%s%d.bin" % (number, short, i)
                    array.tofile(os.path.join(path, "golden", data))
                    case[key].append(
                        {"name": value_name, "dtype": str(array.dtype), "shape": list(array.shape), "file": data}
                    )
                    if key == "outputs" and i < len(noise):
                        case[key][-1]["second_rel_to_range"] = noise[i]
            with open(os.path.join(path, "golden", "set%d.json" % number), "w") as f:
                json.dump(case, f, indent=1)
        return path

    def archive(self, to, keep):
        """to/EXPORTER.tar.xz with the cases that keep(family, name, bytes) says yes to; gives how many. The same bytes for the same cases."""
        kept = []
        for family in sorted(os.listdir(self.folder)):
            for name in sorted(os.listdir(os.path.join(self.folder, family))):
                path = os.path.join(self.folder, family, name)
                size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files)
                if keep(family, name, size):
                    kept.append((path, "%s/%s/%s" % (self.exporter, family, name)))

        def plain(info):
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            return info

        with lzma.open(os.path.join(to, self.exporter + ".tar.xz"), "wb", preset=9) as packed:
            with tarfile.open(fileobj=packed, mode="w") as tar:
                for path, name in kept:
                    for folder, folders, files in os.walk(path):
                        folders.sort()
                        for f in sorted(files):
                            full = os.path.join(folder, f)
                            tar.add(full, name + full[len(path) :], filter=plain)
        return len(kept)
