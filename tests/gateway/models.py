"""Small ONNX models, written field by field (onnx.proto), for the tests of the gateway."""
import json
import struct
import zlib

TYPES = {"FP32": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BYTES": 8, "BOOL": 9, "FP16": 10, "FP64": 11, "UINT32": 12,
         "UINT64": 13, "BF16": 16}


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A text or message, or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor_of(name, datatype, dims):
    shape = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, TYPES[datatype]) + field(2, shape)))


def model(inputs, nodes, outputs):
    """inputs, outputs: (name, datatype, dims); nodes: (operator, inputs, outputs)."""
    graph = b"".join(field(1, b"".join(field(1, i) for i in ins) + b"".join(field(2, o) for o in outs) + field(4, op)) for op, ins, outs in nodes)
    graph += field(2, "graph") + b"".join(field(11, tensor_of(*i)) for i in inputs) + b"".join(field(12, tensor_of(*o)) for o in outputs)
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph)


def save(root, name, data, config):
    folder = root / name / "1"
    folder.mkdir(parents=True)
    if data:
        (folder / "model.onnx").write_bytes(data)
    (root / name / "config.json").write_text(json.dumps(config))


def png(rgb):
    """A PNG of 3 x 2 pixels, from its 18 bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress(b"\0" + rgb[:9] + b"\0" + rgb[9:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 2, 0, 0, 0)) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def save_all(root):
    """One identity per datatype; two inputs; running sums; a chain of two as an ensemble; files of pictures; one that looks up by an index;
    one whose numbers are rounded; one that is not loadable."""
    save(root, "look", model([("x", "FP32", ["n", 2, 3, 3])], [("Identity", ["x"], ["y"])], [("y", "FP32", ["n", 2, 3, 3])]),
         {"max_batch_size": 4, "picture": {"steps": [{"crop": {"width": 3, "height": 2}}, {"layout": "nhwc"}]}})
    for datatype in TYPES:
        save(root, "same_" + datatype.lower(), model([("x", datatype, ["n", "k"])], [("Identity", ["x"], ["y"])], [("y", datatype, ["n", "k"])]), {"max_batch_size": 0})
    save(root, "batched", model([("x", "FP32", ["n", 4])], [("Identity", ["x"], ["y"])], [("y", "FP32", ["n", 4])]), {"max_batch_size": 8})
    save(root, "share", model([("x", "FP32", ["n", 4])], [("Softmax", ["x"], ["y"])], [("y", "FP32", ["n", 4])]), {"max_batch_size": 8})
    save(root, "lookup", model([("x", "FP32", [4]), ("i", "INT64", [1])], [("Gather", ["x", "i"], ["y"])], [("y", "FP32", [1])]), {"max_batch_size": 0})
    dims = [1, 2]
    save(root, "sums", model([("a", "INT32", dims), ("b", "INT32", dims)], [("Add", ["a", "b"], ["sum"]), ("Sub", ["a", "b"], ["difference"])],
                             [("sum", "INT32", dims), ("difference", "INT32", dims)]), {"max_batch_size": 0})
    save(root, "adder", model([("x", "FP32", dims), ("sum", "FP32", dims)], [("Add", ["x", "sum"], ["total"]), ("Identity", ["total"], ["y"])],
                              [("y", "FP32", dims), ("total", "FP32", dims)]),
         {"sequence_batching": {"state": [{"input_name": "sum", "output_name": "total", "data_type": "TYPE_FP32", "dims": dims}]}, "max_batch_size": 0})
    step = [{"model_name": "same_fp32", "input_map": {"x": "in"}, "output_map": {"y": "between"}},
            {"model_name": "same_fp32", "input_map": {"x": "between"}, "output_map": {"y": "out"}}]
    save(root, "chain", None, {"max_batch_size": 0, "platform": "ensemble", "input": [{"name": "in", "data_type": "TYPE_FP32", "dims": [-1, -1]}],
                               "output": [{"name": "out", "data_type": "TYPE_FP32", "dims": [-1, -1]}], "ensemble_scheduling": {"step": step}})
