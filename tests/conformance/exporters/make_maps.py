"""Models whose input is a map: `make_maps.py OUT`.

In a venv: pip install skl2onnx scikit-learn onnx onnxruntime numpy. DictVectorizer of scikit-learn through skl2onnx, alone and before other estimators, and the two operators of
ai.onnx.ml by hand in all forms. The answers are onnxruntime's, a map at a time. Each map becomes the inputs NAME.keys and NAME.values, a row per map. maps.tar.xz gets all cases.
"""

import os
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper

from case import Cases

WORDS = ["city=Bern", "city=Oslo", "height", "üben", "", "a key with spaces", "z"]


def rows_of(rng, keys, kind, count, entries):
    """Maps with the same number of entries, in no order; some keys are in no vocabulary."""
    maps = []
    for _ in range(count):
        chosen = rng.permutation(len(keys))[:entries]
        values = rng.integers(-9, 9, entries) if kind is np.int64 else np.round(rng.normal(size=entries), 3).astype(kind)
        maps.append({keys[i]: values[at].item() for at, i in enumerate(chosen)})
    return maps


def tensors(maps, key_kind, kind):
    keys = np.array([list(m.keys()) for m in maps], dtype=object if key_kind is str else np.int64)
    return [keys, np.array([list(m.values()) for m in maps], dtype=kind)]


def answers(model, maps, name):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    per_map = [session.run(None, {name: m}) for m in maps]
    return [np.concatenate([row[i] for row in per_map]) for i in range(len(per_map[0]))]


def operator_models():
    """(name, model, key type, value type, keys to draw from)"""

    def model(op, key, value, out, **attributes):
        info = helper.make_value_info("x", helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, None)))
        node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
        graph = helper.make_graph([node], "maps", [info], [helper.make_tensor_value_info("y", out, None)])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8)

    yield "dict_text_f32", model("DictVectorizer", T.STRING, T.FLOAT, T.FLOAT, string_vocabulary=WORDS[:5]), str, np.float32, WORDS
    yield "dict_int_f32", model("DictVectorizer", T.INT64, T.FLOAT, T.FLOAT, int64_vocabulary=[7, -3, 2**40, 0]), np.int64, np.float32, [0, 7, 2**40, 5, -3]
    for to, out in (("TO_FLOAT", T.FLOAT), ("TO_INT64", T.INT64)):
        yield "cast_dense_" + to.lower(), model("CastMap", T.INT64, T.FLOAT, out, cast_to=to), np.int64, np.float32, [-5, 3, 9, 1, 10**12]
        yield "cast_sparse_" + to.lower(), model("CastMap", T.INT64, T.FLOAT, out, cast_to=to, map_form="SPARSE", max_map=6), np.int64, np.float32, [0, 5, 3, 6, 90, 2]


def sklearn_models():
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DictionaryType, FloatTensorType, Int64TensorType, StringTensorType
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    rng = np.random.default_rng(17)
    train = rows_of(rng, WORDS[:6], np.float32, 60, 3)
    labels = np.array(["low", "mid", "high"])[rng.integers(0, 3, 60)]
    steps = {
        "vectorizer": make_pipeline(DictVectorizer(sparse=False, sort=False)),
        "linear": make_pipeline(DictVectorizer(sparse=False), LinearRegression()),
        "logistic": make_pipeline(DictVectorizer(sparse=False), MaxAbsScaler(), LogisticRegression()),
        "forest": make_pipeline(DictVectorizer(sparse=False), RandomForestClassifier(7, max_depth=4, random_state=1)),
    }
    for name, pipeline in steps.items():
        pipeline.fit(train, labels if name in ("logistic", "forest") else rng.normal(size=60))
        types = [("features", DictionaryType(StringTensorType([1]), FloatTensorType([1])))]
        options = {id(pipeline.steps[-1][1]): {"zipmap": False}} if name in ("logistic", "forest") else None
        yield name, convert_sklearn(pipeline, initial_types=types, target_opset=17, options=options)


def main():
    cases = Cases(sys.argv[1], "maps")
    rng = np.random.default_rng(3)
    for name, model, key_kind, kind, keys in operator_models():
        maps = rows_of(rng, keys, kind, 4, 3)
        cases.onnx("operators", name, model.SerializeToString(), [(tensors(maps, key_kind, kind), answers(model, maps, "x"))])
    for name, model in sklearn_models():
        maps = rows_of(rng, WORDS, np.float32, 5, 3)
        cases.onnx("skl2onnx", name, model.SerializeToString(), [(tensors(maps, str, np.float32), answers(model, maps, "features"))])
    print("%d kept" % cases.archive(os.path.dirname(os.path.abspath(__file__)), lambda *_: True))


if __name__ == "__main__":
    main()
