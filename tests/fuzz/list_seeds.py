#!/usr/bin/env python3
"""Seeds of fuzz_tfjs and fuzz_tflite from the exporters' models with lists, loops and branches, those of TensorFlow 1's control flow too.

    list_seeds.py EXPORTERS_FOLDER CORPUS

fuzz_tfjs has two shards of small numbers of its own. Weights of padding stand in front of each constant, so that it lies where the shard has its numbers.
"""

import base64
import io
import json
import re
import struct
import sys
import tarfile
from pathlib import Path

LONGEST = 8192  # of an input: -max_len of run.sh
FAMILIES = ("growing", "control")
# The shard of fuzz_tfjs.c.
NUMBERS = [((i * 2654435761 & 0xFFFFFFFF) >> 29) - 1 for i in range(16384)]


def archive(folder, name):
    """{path: bytes} of the families that have lists, loops and branches."""
    with tarfile.open(folder / f"{name}.tar.xz") as tar:
        inside = [m for m in tar.getmembers() if m.isfile() and m.name.split("/")[1] in FAMILIES]
        return {m.name: io.BytesIO(tar.extractfile(m).read()).getvalue() for m in inside}


def short(nodes):
    """The nodes with short names: the models of the converter have paths of a hundred characters."""
    names = {node["name"]: f"n{i}" for i, node in enumerate(nodes)}

    def renamed(text):
        mark, name, port = re.fullmatch(r"(\^?)([^:]*)(:.*)?", text).groups()
        return mark + names.get(name, name) + (port or "")

    for node in nodes:
        node["name"] = names[node["name"]]
        node["input"] = [renamed(text) for text in node.get("input", [])]
        frame = node.get("attr", {}).get("frame_name")
        if frame:
            frame["s"] = base64.b64encode(b"f%d" % (len(base64.b64decode(frame["s"])) % 100)).decode()
    return names


def placed(manifest, data, names):
    """The manifest with its constants where the shard has the same numbers, as far as it has them."""
    at, read, weights = 0, 0, []
    for weight in manifest["weights"]:
        count = 1
        for dim in weight["shape"]:
            count *= dim
        size = {"int32": 4, "float32": 4, "bool": 1, "uint8": 1}.get(weight["dtype"], 4)
        if weight["dtype"] == "int32":
            wanted = list(struct.unpack_from(f"<{count}i", data, read))
            found = next((i for i in range(at, len(NUMBERS) - count) if NUMBERS[i : i + count] == wanted), at)
            if found > at:
                weights.append({"name": f"p{at}", "shape": [found - at], "dtype": "int32"})
                at = found
        weights.append({"name": names.get(weight["name"], weight["name"]), "shape": weight["shape"], "dtype": weight["dtype"]})
        read += count * size
        at += (count * size + 3) // 4
    return {"paths": ["w.bin"], "weights": weights}


def topology(model, data):
    graph = model["modelTopology"]
    nodes = [{key: node[key] for key in ("name", "op", "input", "attr") if key in node} for node in graph["node"]]
    for node in nodes:
        node.get("attr", {}).pop("_output_shapes", None)
    names = short(nodes)
    library = graph.get("library", {})
    small = {"node": nodes, "library": library} if library.get("function") else {"node": nodes}
    return {"format": "graph-model", "modelTopology": small, "weightsManifest": [placed(model["weightsManifest"][0], data, names)]}


def main():
    exporters, corpus = Path(sys.argv[1]), Path(sys.argv[2])
    graphs, lites, written = archive(exporters, "tfjs"), archive(exporters, "keras_tflite"), 0
    for name in ("fuzz_tfjs", "fuzz_tflite"):
        (corpus / name).mkdir(parents=True, exist_ok=True)
    for path, data in graphs.items():
        folder, _, file = path.rpartition("/")
        model = json.loads(data) if file == "model.json" else {}
        shards = model.get("weightsManifest", [{}])[0].get("paths", [])
        if len(shards) != 1 or "node" not in model["modelTopology"]:
            continue
        text = json.dumps(topology(model, graphs[f"{folder}/{shards[0]}"]), separators=(",", ":"))
        if len(text) <= LONGEST:
            (corpus / "fuzz_tfjs" / folder.replace("/", "-")).write_text(text)
            written += 1
    for path, data in lites.items():
        if path.endswith(".tflite") and len(data) <= LONGEST:
            (corpus / "fuzz_tflite" / path.replace("/", "-")).write_bytes(data)
            written += 1
    print(f"list_seeds: {written} models")
    return 0 if written > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
