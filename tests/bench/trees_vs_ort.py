#!/usr/bin/env python3
"""Trees: penstock-engine (xnnpack) beside ONNX Runtime on the same cores; times, and load of a large forest.

    trees_vs_ort.py BIN_DIR [THREADS]

In a venv: pip install skl2onnx onnxmltools xgboost onnxruntime scikit-learn. 100 trees of depth 8 on rows of 30 features, batch 1 and 1000; a RandomForest of 1000 trees for the load.
The best time of each counts: neighbours on the machine disturb the others.
"""

import usage  # noqa: F401
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import xgboost
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as ToolsFloat
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

WIDTH = 30
SECONDS = 2.0


def models():
    random = np.random.RandomState(0)
    x = random.normal(size=(8000, WIDTH)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] + x[:, 2] + random.normal(size=len(x)) * 0.5 > 0).astype(int)

    def skl(model):
        opset = {"": 17, "ai.onnx.ml": 3}
        options = {"zipmap": False} if hasattr(model, "classes_") else None
        return convert_sklearn(model, initial_types=[("x", FloatTensorType([None, WIDTH]))], options=options, target_opset=opset)

    yield "forest_reg", skl(RandomForestRegressor(100, max_depth=8, n_jobs=-1).fit(x, y))
    yield "forest_3", skl(RandomForestClassifier(100, max_depth=8, n_jobs=-1).fit(x, y + (x[:, 3] > 0)))
    boosted = xgboost.XGBClassifier(n_estimators=100, max_depth=8).fit(x, y)
    yield "xgboost", convert_xgboost(boosted, initial_types=[("x", ToolsFloat([None, WIDTH]))], target_opset=15)
    yield "forest_1000", skl(RandomForestClassifier(1000, max_depth=12, n_jobs=-1).fit(x[:4000], y[:4000]))


def peer_load(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    best, session = 1e9, None
    for _ in range(5):
        begin = time.perf_counter()
        session = onnxruntime.InferenceSession(path, options)
        best = min(best, time.perf_counter() - begin)
    return session, best


def peer_run(session, rows):
    feeds = {session.get_inputs()[0].name: np.random.RandomState(1).uniform(-1, 1, (rows, WIDTH)).astype(np.float32)}
    best, end = 1e9, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        session.run(None, feeds)
        best = min(best, time.perf_counter() - begin)
    return best


def ours(engine, path, rows, threads):
    command = [engine, "bench", "--json", "--model", path, "--backend", "xnnpack", "--threads", str(threads), "--shape", "x=%dx%d" % (rows, WIDTH)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    engine, threads = os.path.join(sys.argv[1], "penstock-engine"), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models():
            path = os.path.join(folder, name + ".onnx")
            with open(path, "wb") as f:
                f.write(model.SerializeToString())
            session, load = peer_load(path, threads)
            mine = min(ours(engine, path, 1, threads)["load_ms"] * 1e3 for _ in range(5))
            print("%-12s load        %10.0f us  peer %10.0f us  ratio %.2f" % (name, mine, load * 1e6, mine / load / 1e6))
            for rows in (1, 1000):
                mine, peer = ours(engine, path, rows, threads)["min_ms"] * 1e3, peer_run(session, rows) * 1e6
                print("%-12s batch %4d  %10.1f us  peer %10.1f us  ratio %.2f" % (name, rows, mine, peer, mine / peer), flush=True)


if __name__ == "__main__":
    main()
