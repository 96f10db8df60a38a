"""Keeps the small ones of the random networks: `make_random.py OUT FROM...`; each FROM is an OUT of torch_random.py or keras_random.py.

In a venv: pip install onnx. Of each exporter the smallest cases are kept, and those with a loop, a reversed sequence or an enlarged picture. Files lose what the exporter wrote
about the machine (traces, notes). random.tar.xz gets them, a family for each exporter.
"""

import glob
import os
import shutil
import sys

import onnx

from case import Cases

EACH, MORE, MORE_BYTES = 6, 10, 14000
TELLING = ("Loop", "ReverseSequence", "Resize")


def size_of(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files)


def telling(path):
    file = os.path.join(path, "model.onnx")
    return os.path.exists(file) and any(n.op_type in TELLING for n in onnx.load(file).graph.node)


def nodes_clean(nodes):
    for n in nodes:
        del n.metadata_props[:]
        n.doc_string = ""
        for a in n.attribute:
            for g in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                graph_clean(g)


def graph_clean(g):
    nodes_clean(g.node)
    for part in [g, *g.value_info, *g.input, *g.output]:
        del part.metadata_props[:]
        part.doc_string = ""


def model_clean(file):
    model = onnx.load(file)
    graph_clean(model.graph)
    del model.metadata_props[:]
    model.doc_string = ""
    for function in model.functions:
        function.doc_string = ""
        nodes_clean(function.node)
    onnx.save(model, file)


def main():
    cases = Cases(sys.argv[1], "random")
    for number, source in enumerate(sys.argv[2:]):
        for exporter in sorted(os.listdir(source)):
            rows = sorted((size_of(p), p) for p in glob.glob(os.path.join(source, exporter, "*", "*")))
            more = [row for row in rows if row[0] < MORE_BYTES and telling(row[1])][:MORE]
            for _, path in sorted(set(rows[:EACH] + more)):
                to = os.path.join(cases.folder, exporter, "%s_%d_%s" % (path.split(os.sep)[-2], number, os.path.basename(path)))
                shutil.copytree(path, to)
                if os.path.exists(os.path.join(to, "model.onnx")):
                    model_clean(os.path.join(to, "model.onnx"))
    print("%d kept" % cases.archive(os.path.dirname(os.path.abspath(__file__)), lambda *_: True))


if __name__ == "__main__":
    main()
