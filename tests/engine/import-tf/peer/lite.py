"""What the TFLite case writer builds with: models described by plain lists, written as flatbuffers, and run by the real interpreter.

The description is what the case file keeps and what case_lite.c writes again, so that the committed test needs no Python:
  tensor  {"n": name, "t": type, "s": shape, "d": values of a constant, "q": [scales, zeros, axis], "v": 1 when variable}
  op      {"c": index into codes, "i": inputs (-1 = omitted), "o": outputs, "ot": kind of options, "f": [[slot, type, value]], "x": custom bytes,
           "b": tensors of which only the scales count}
"""
import json
import os
import pickle
import random
import re

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9, "uint32": 15, "uint16": 16, "resource": 13}
NUMPY = {"bool": np.bool_, "float16": np.float16}
VERSIONS = {schema.BuiltinOperator.BROADCAST_TO: 2}  # where the first version is not taken any more
CUSTOM_VERSIONS = {"TransformTensorBilinear": [2]}  # others are of version 1
SOURCE = open(schema.__file__).read()
lines = []
chance = random.Random(5)


def numpy_type(name):
    return NUMPY.get(name, getattr(np, name, None))


def rnd(shape, low=-2.0, high=2.0):
    """Multiples of 1/64: short to write, exact in binary."""
    return [int((low + (high - low) * chance.random()) * 64) / 64 for _ in range(int(np.prod(shape)))]


def rint(shape, low, high):
    return [chance.randint(low, high) for _ in range(int(np.prod(shape)))]


def T(type, shape, data=None, q=None, var=False, feed=None, name=None):
    """A tensor: constant when it has data, an input of the model when it has a feed."""
    t = {"t": type, "s": list(shape)}
    if data is not None:
        t["d"] = list(data)
    if q is not None:
        scales, zeros = (q[0], q[1]) if isinstance(q[0], list) else ([q[0]], [q[1]])
        t["q"] = [[float(np.float32(s)) for s in scales], zeros, q[2] if len(q) > 2 else 0]
    if var:
        t["v"] = 1
    t["_feed"], t["_name"] = feed, name
    return t


def F(shape, feed=None):
    return T("float32", shape, feed=feed if feed is not None else rnd(shape))


def C(shape, data=None):
    return T("float32", shape, data if data is not None else rnd(shape))


def I(*values):
    return T("int32", [len(values)], list(values))


def IS(value):
    return T("int32", [], [value])


def Q(type, shape, q, feed=None):
    low, high = (0, 255) if type == "uint8" else (-128, 127) if type == "int8" else (-32768, 32767)
    return T(type, shape, q=q, feed=feed if feed is not None else rint(shape, low, high))


def kind_of(written, value):
    if written == "UOffsetTRelative":
        return "text" if isinstance(value, str) else "floats" if any(isinstance(v, float) for v in value) else "list"
    return {"Bool": "int8"}.get(written, written.lower())


def slots(kind, values):
    """Named options to [slot, type, value]."""
    found = []
    for name, value in values.items():
        m = re.search(r"def %sAdd%s\(builder, \w+\):\s+builder\.Prepend(\w+)Slot\((\d+)" % (kind, name), SOURCE)
        if not m:
            raise KeyError(f"{kind}.{name}")
        found.append([int(m.group(2)), kind_of(m.group(1), value), int(value) if isinstance(value, bool) else value])
    return sorted(found)


class Graph:
    """One subgraph being described."""

    def __init__(self):
        self.tensors, self.ops, self.ins, self.outs = [], [], [], []

    def add(self, t):
        if t is None:
            return -1
        if "_at" in t and t.get("_in") is self:
            return t["_at"]
        t["_at"], t["_in"] = len(self.tensors), self
        t["n"] = t.get("_name") or f"t{t['_at']}"
        self.tensors.append(t)
        if t.get("_feed") is not None:
            self.ins.append(t["_at"])
        return t["_at"]

    def op(self, model, code, inputs, outputs, options=None, kind=None, custom=None, between=None):
        entry = {"c": model.code(code), "i": [self.add(t) for t in inputs], "o": [self.add(t) for t in outputs]}
        if options is not None:
            kind = kind or "".join(p.capitalize() for p in code.split("_")) + "Options"
            entry["ot"], entry["f"] = getattr(schema.BuiltinOptions, kind, 0), slots(kind, options)
        if custom is not None:
            entry["x"] = list(custom)
        if between is not None:
            entry["b"] = [self.add(t) for t in between]
        self.ops.append(entry)
        return outputs


class Model:
    def __init__(self):
        self.codes, self.graphs = [], []

    def graph(self):
        self.graphs.append(Graph())
        return self.graphs[-1]

    def code(self, name):
        row = [getattr(schema.BuiltinOperator, name)] if hasattr(schema.BuiltinOperator, name) else [32, name, *CUSTOM_VERSIONS.get(name, [])]
        if row not in self.codes:
            self.codes.append(row)
        return self.codes.index(row)

    def description(self):
        keep = lambda t: {k: v for k, v in t.items() if not k.startswith("_")}
        return {"codes": self.codes,
                "sub": [{"t": [keep(t) for t in g.tensors], "i": g.ins, "o": g.outs, "ops": g.ops} for g in self.graphs]}


# ---- the flatbuffer ---------------------------------------------------------------------------------------------------------


def vector(b, items, size, put):
    b.StartVector(size, len(items), max(size, 4))
    for item in reversed(items):
        put(item)
    return b.EndVector()


def offsets(b, items):
    return vector(b, items, 4, b.PrependUOffsetTRelative)


def table(b, fields):
    """fields: [slot, type, value]; offsets are made already."""
    b.StartObject(16)
    for slot, kind, value in fields:
        getattr(b, {"int8": "PrependInt8Slot", "uint8": "PrependUint8Slot", "int32": "PrependInt32Slot", "uint32": "PrependUint32Slot",
                    "float32": "PrependFloat32Slot", "int64": "PrependInt64Slot", "offset": "PrependUOffsetTRelativeSlot"}[kind])(slot, value, None if kind != "offset" else 0)
    return b.EndObject()


def ints(b, items):
    return vector(b, items, 4, b.PrependInt32)


def write(d):
    b = flatbuffers.Builder(1024)
    buffers = [table(b, [])]
    subs = []
    for g in d["sub"]:
        tensors = []
        for t in g["t"]:
            fields = [[0, "offset", ints(b, t["s"])], [1, "int8", TYPES[t["t"]]], [3, "offset", b.CreateString(t["n"])]]
            if "d" in t:
                raw = np.array(t["d"], dtype=numpy_type(t["t"])).tobytes()
                b.StartVector(1, len(raw), 16)
                b.head -= len(raw)
                b.Bytes[b.head:b.head + len(raw)] = raw
                fields.append([2, "uint32", len(buffers)])
                buffers.append(table(b, [[0, "offset", b.EndVector()]]))
            if "q" in t:
                scales, zeros, axis = t["q"]
                fields.append([4, "offset", table(b, [[2, "offset", vector(b, scales, 4, b.PrependFloat32)],
                                                      [3, "offset", vector(b, zeros, 8, b.PrependInt64)], [6, "int32", axis]])])
            if "v" in t:
                fields.append([5, "int8", 1])
            tensors.append(fields)
        tensors = [table(b, f) for f in tensors]
        ops = []
        for o in g["ops"]:
            fields = [[0, "uint32", o["c"]], [1, "offset", ints(b, o["i"])], [2, "offset", ints(b, o["o"])]]
            if "f" in o:
                put = {"list": lambda v: ints(b, v), "text": b.CreateString, "floats": lambda v: vector(b, v, 4, b.PrependFloat32)}
                options = [[s, "offset", put[k](v)] if k in put else [s, k, v] for s, k, v in o["f"]]
                fields += [[3, "uint8", o["ot"]], [4, "offset", table(b, options)]]
            if "x" in o:
                fields.append([5, "offset", vector(b, o["x"], 1, b.PrependUint8)])
            if "b" in o:
                fields.append([8, "offset", ints(b, o["b"])])
            ops.append(table(b, fields))
        subs.append(table(b, [[0, "offset", offsets(b, tensors)], [1, "offset", ints(b, g["i"])], [2, "offset", ints(b, g["o"])],
                              [3, "offset", offsets(b, ops)]]))
    codes = []
    for c in d["codes"]:
        fields = [[0, "int8", min(c[0], 127)], [2, "int32", c[2] if len(c) > 2 else VERSIONS.get(c[0], 1)], [3, "int32", c[0]]]
        if len(c) > 1:
            fields.append([1, "offset", b.CreateString(c[1])])
        codes.append(table(b, fields))
    root = table(b, [[0, "uint32", 3], [1, "offset", offsets(b, codes)], [2, "offset", offsets(b, subs)], [4, "offset", offsets(b, buffers)]])
    b.Finish(root, b"TFL3")
    return bytes(b.Output())


# ---- running ------------------------------------------------------------------------------------------------------------------


def interpret(content, feeds, resolver):
    i = Interpreter(model_content=content, experimental_op_resolver_type=resolver, num_threads=1)
    i.allocate_tensors()
    details = i.get_input_details()
    for d, t in zip(details, feeds):
        i.set_tensor(d["index"], np.array(t["_feed"], dtype=numpy_type(t["t"])).reshape(t["s"]))
    i.invoke()
    return [i.get_tensor(d["index"]) for d in i.get_output_details()]


def apart(*args):
    """In a process of its own: a model that ends the interpreter ends no more than that."""
    read, out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            answer = interpret(*args)
        except BaseException as e:  # noqa: the child reports everything
            answer = str(e)
        with os.fdopen(out, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(out)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else "the interpreter ended"


def number(v):
    if isinstance(v, (bool, np.bool_)) or isinstance(v, (int, np.integer)):
        return int(v)
    v = float(v)
    return "nan" if v != v else "inf" if v == float("inf") else "-inf" if v == float("-inf") else float("%.8g" % v)


def record(name, type, array):
    return [name, type, list(array.shape), [number(v) for v in array.reshape(-1)]]


def keep(name, model, tol=None, resolver=OpResolverType.AUTO, answer=None):
    for g in model.graphs:
        g.outs = [] if g.outs == [None] else g.outs or g.ops[-1]["o"]
    d = model.description()
    feeds = [model.graphs[0].tensors[k] for k in model.graphs[0].ins]
    answer = answer or apart(write(d), feeds, resolver)
    if isinstance(answer, str):
        print(f"{name}: the peer refuses: {answer.strip()[:160]}")
        return
    main = model.graphs[0]
    line = {"n": name, **d,
            "in": [record(t["n"], t["t"], np.array(t["_feed"], dtype=numpy_type(t["t"])).reshape(t["s"])) for t in feeds],
            "out": [record(main.tensors[o]["n"], main.tensors[o]["t"], a) for o, a in zip(main.outs, answer)]}
    if tol:
        line["tol"] = tol
    lines.append(json.dumps(line, separators=(",", ":")))


def op(code, inputs, outputs, options=None, name="", kind=None, custom=None, tol=None, resolver=OpResolverType.AUTO, between=None):
    """A model of one operator. outputs: tensors, or a shape or list of shapes of floats."""
    m = Model()
    g = m.graph()
    g.op(m, code, inputs, outputs, options, kind, custom, between)
    g.outs = [t["_at"] for t in outputs if t is not None]
    keep(f"{code} {name}".strip(), m, tol, resolver)


def O(shape, type="float32", q=None):
    return T(type, shape, q=q)


def save(path):
    with open(path, "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{path}: {len(lines)} cases, {sum(map(len, lines))} bytes")
