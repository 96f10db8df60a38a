#!/usr/bin/env python3
"""Configurations of deploy/answers, and other forms of detectors, on models that are made here: their outputs are constants with known objects, whatever the picture.

    answers_test.py BIN_DIR SOURCE_DIR

Each model has the inputs and outputs of a well-known export. The picture is 320 x 160, so that letterboxes and stretches differ. The last line is
`N passed, N failed, N skipped`.
"""
import base64
import json
import math
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/gateway"))
import models
from pool import Pool, wait_for

passed = failed = 0
WIDTH, HEIGHT = 320, 160
FLOAT, INT64 = 1, 7


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, seen if not condition else "", flush=True)


class Constant:
    """An output of these dims that is `rest` but where it was set."""

    def __init__(self, name, dims, rest=0.0, dtype=FLOAT):
        self.name, self.dims, self.dtype, self.form = name, dims, dtype, "<f" if dtype == FLOAT else "<q"
        self.size = struct.calcsize(self.form)
        self.data = bytearray(struct.pack(self.form, rest) * math.prod(dims))

    def along(self, place, values):
        """values at place with None for the axis that they run along."""
        for i, value in enumerate(values):
            at = 0
            for dim, p in zip(self.dims, place):
                at = at * dim + (i if p is None else p)
            struct.pack_into(self.form, self.data, at * self.size, value)
        return self


def onnx(image, outputs, dtype="FP32"):
    """image: (name, dims). The outputs are constants, and one more is the picture, so that the input is in use."""
    node = lambda op, ins, out: models.field(1, b"".join(models.field(1, i) for i in ins) + models.field(2, out) + models.field(4, op))
    tensor = lambda o: b"".join(models.field(1, d) for d in o.dims) + models.field(2, o.dtype) + models.field(8, "w_" + o.name) + models.field(9, bytes(o.data))
    graph = b"".join(node("Identity", ["w_" + o.name], o.name) for o in outputs) + node("Identity", [image[0]], "seen") + models.field(2, "graph")
    graph += b"".join(models.field(5, tensor(o)) for o in outputs) + models.field(11, models.tensor_of(image[0], dtype, image[1]))
    graph += b"".join(models.field(12, models.tensor_of(o.name, "FP32" if o.dtype == FLOAT else "INT64", o.dims)) for o in outputs)
    graph += models.field(12, models.tensor_of("seen", dtype, image[1]))
    return models.field(1, 8) + models.field(8, models.field(1, "") + models.field(2, 17)) + models.field(7, graph)


def picture():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(range(256)) * (3 * WIDTH // 256 + 1))[:1 + 3 * WIDTH] * HEIGHT
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


# ---- models: (model, config: a folder of deploy/answers or a dict, what is found)

NCHW = ("images", [1, 3, 640, 640])
# In a letterbox of 640 x 640 the picture is twice as large, 160 rows down: input (240, 360, 80, 120) is (120, 100), 40 wide, 60 high.
FOUND = [(3, 0.8 * 0.9, [100, 70, 140, 130])]


def yolov5():
    y = Constant("output0", [1, 25200, 85]).along((0, 900, None), [240, 360, 80, 120, 0.8, 0, 0, 0, 0.9])
    y.along((0, 901, None), [242, 361, 80, 120, 0.7, 0, 0, 0, 0.9])  # overlaps
    return onnx(NCHW, [y]), "yolov5", FOUND


def yolov8():
    y = Constant("output0", [1, 84, 8400]).along((0, None, 77), [240, 360, 80, 120, 0, 0, 0, 0.72]).along((0, None, 78), [241, 360, 80, 120, 0, 0, 0, 0.6])
    return onnx(NCHW, [y]), "yolov8", FOUND


def yolov8_seg():
    """The object's mask is the left half of its box."""
    y, p = Constant("output0", [1, 116, 8400]), Constant("output1", [1, 32, 160, 160])
    for i, score in ((77, 0.72), (78, 0.6)):
        y.along((0, None, i), [240 + i - 77, 360, 80, 120, 0, 0, 0, score] + [0] * 76 + [10])
    for row in range(160):
        p.along((0, 0, row, None), [1.0] * 60 + [-1.0] * 100)
    return onnx(NCHW, [y, p]), "yolov8_seg", FOUND


def yolov8_pose():
    y = Constant("output0", [1, 56, 8400]).along((0, None, 77), [240, 360, 80, 120, 0.72] + [0, 0, 0.1] * 2 + [220, 360, 0.9])
    return onnx(NCHW, [y]), "yolov8_pose", [(0, 0.72, [100, 70, 140, 130], [110, 100])]


def yolov8_obb():
    """A box of 40 x 60, turned by a quarter; the second one is the same area with its sides named the other way round."""
    y = Constant("output0", [1, 20, 21504]).along((0, None, 77), [384, 576, 128, 192, 0, 0, 0, 0.72] + [0] * 11 + [math.pi / 2])
    y.along((0, None, 78), [384, 576, 192, 128, 0, 0, 0, 0.6])
    return onnx(("images", [1, 3, 1024, 1024]), [y]), "yolov8_obb", [(3, 0.72, [90, 80, 150, 120])]


def yolov10():
    y = Constant("output0", [1, 300, 6]).along((0, 0, None), [200, 300, 280, 420, 0.72, 3]).along((0, 1, None), [0, 0, 10, 10, 0.1, 79])
    return onnx(NCHW, [y]), "yolov10", FOUND


def end_to_end(rows):
    """[found, 7]: batch, box, class, score, as many rows as there are objects."""
    y = Constant("output", [rows, 7])
    for i in range(rows):
        y.along((i, None), [0, 200 - 20 * i, 300, 280 - 20 * i, 420, 3, 0.72 - 0.1 * i])
    config = {**config_of("yolov10"), "answer": {"format": "json", "steps": [{"boxes": {
        "form": "plain", "boxes": "output", "boxes_at": 1, "scores_at": 6, "classes": 1, "class_ids": "output", "class_ids_at": 5, "score": 0.25}}]}}
    return onnx(NCHW, [y]), config, [(3, 0.72 - 0.1 * i, [100 - 10 * i, 70, 140 - 10 * i, 130]) for i in range(rows)]


def torchvision(rows):
    """boxes [found, 4], labels [found], scores [found]; class 0 is the background."""
    boxes, labels, scores = Constant("boxes", [rows, 4]), Constant("labels", [rows], 0, INT64), Constant("scores", [rows])
    for i in range(rows):
        boxes.along((i, None), [200, 300, 280, 420 - 20 * i])
        labels.along((None,), [4] * rows)
        scores.along((None,), [0.72 - 0.1 * k for k in range(rows)])
    config = {**config_of("yolov10"), "answer": {"format": "json", "steps": [{"boxes": {"form": "plain", "boxes": "boxes", "scores": "scores", "class_ids": "labels", "classes": 1, "score": 0.25}}]}}
    return onnx(NCHW, [boxes, labels, scores]), config, [(4, 0.72 - 0.1 * i, [100, 70, 140, 130 - 10 * i]) for i in range(rows)]


def ssd_postprocess():
    name = "TFLite_Detection_PostProcess"
    boxes, ids, scores, count = Constant(name, [1, 10, 4]), Constant(name + ":1", [1, 10]), Constant(name + ":2", [1, 10]), Constant(name + ":3", [1], 1)
    boxes.along((0, 0, None), [0.25, 0.125, 0.75, 0.5])  # top, left, bottom, right
    ids.along((0, None), [16])
    scores.along((0, None), [0.9, 0.2])
    return onnx(("normalized_input_image_tensor", [1, 300, 300, 3]), [boxes, ids, scores, count], "UINT8"), "ssd_postprocess", [(16, 0.9, [40, 40, 160, 120])]


def centerface():
    h, w, y, x = 120, 160, 30, 50
    heat, size, offset, points = Constant("537", [1, 1, h, w]), Constant("538", [1, 2, h, w]), Constant("539", [1, 2, h, w]), Constant("540", [1, 10, h, w])
    heat.along((0, None, y, x), [0.9])
    size.along((0, None, y, x), [math.log(20), math.log(10)])  # height, width, in cells
    offset.along((0, None, y, x), [0.25, -0.25])
    points.along((0, None, y, x), [0.25, 0.5] * 5)
    left, top = (50 + 0.5 - 0.25) * 4 - 20, (30 + 0.5 + 0.25) * 4 - 40  # of 40 x 80
    box = [left / 2, top / 3, (left + 40) / 2, (top + 80) / 3]
    return onnx(("input.1", [1, 3, 480, 640]), [heat, size, offset, points]), "centerface", [(0, 0.9, box, [(left + 20) / 2, (top + 20) / 3])]


def ultraface():
    scores, boxes = Constant("scores", [1, 4420, 2]), Constant("boxes", [1, 4420, 4])
    for i, score in ((7, 0.95), (8, 0.9)):
        scores.along((0, i, None), [1 - score, score])
        boxes.along((0, i, None), [0.25, 0.5, 0.5, 0.75])
    return onnx(("input", [1, 3, 240, 320]), [scores, boxes]), "ultraface", [(0, 0.95, [80, 80, 160, 120])]


def nanodet_plus():
    y = Constant("output", [1, 3598, 112])
    bins = [0.0] * 32
    for side, distance in enumerate((1, 2, 3, 4)):
        bins[8 * side + distance] = 60.0  # a softmax that is one there
    y.along((0, 2704 + 26 * 5 + 10, None), [0, 0, 0.8] + [0] * 77 + bins)  # stride 16, row 5, column 10: at (160, 80)
    return onnx(("data", [1, 3, 416, 416]), [y]), "nanodet_plus", [(2, 0.8, [144 * 320 / 416, 48 * 160 / 416, 208 * 320 / 416, 144 * 160 / 416])]


def deeplab():
    y = Constant("ResizeBilinear_2", [1, 257, 257, 21])
    for row in range(128, 257):
        for column in range(257):
            y.along((0, row, column, None), [0] * 12 + [5])
    return onnx(("sub_7", [1, 257, 257, 3]), [y]), "deeplab_v3", {"above": 0, "below": 12}


def segmented():
    """The model's own argmax."""
    y = Constant("classes", [1, 64, 64], 0, INT64)
    for row in range(32, 64):
        y.along((0, row, None), [12] * 64)
    config = {"max_batch_size": 0, "picture": {"steps": [{"resize": {"width": 64, "height": 64}}, {"layout": "nhwc"}]},
              "answer": {"format": "json", "steps": [{"mask": {"output": "classes", "form": "classes"}}]}}
    return onnx(("image", [1, 64, 64, 3]), [y]), config, {"above": 0, "below": 12}


def resnet50():
    y = Constant("resnetv17_dense0_fwd", [1, 1000]).along((0, None), [0] * 281 + [12.0, 10.0])
    total = math.exp(12) + math.exp(10) + 998
    return onnx(("data", [1, 3, 224, 224]), [y]), "resnet50", [(281, math.exp(12) / total), (282, math.exp(10) / total)]


def config_of(name):
    return json.loads((SOURCE / "deploy/answers" / name / "config.json").read_text())


CASES = {"yolov5": yolov5, "yolov8": yolov8, "yolov8_seg": yolov8_seg, "yolov8_pose": yolov8_pose, "yolov8_obb": yolov8_obb, "yolov10": yolov10, "end_to_end": lambda: end_to_end(3), "end_to_end_one": lambda: end_to_end(1), "torchvision": lambda: torchvision(2),
         "torchvision_one": lambda: torchvision(1), "ssd_postprocess": ssd_postprocess, "centerface": centerface, "ultraface": ultraface, "nanodet_plus": nanodet_plus,
         "deeplab_v3": deeplab, "segmented": segmented, "resnet50": resnet50}


def near(a, b, within):
    return len(a) == len(b) and all(abs(x - y) <= within for x, y in zip(a, b))


def lines_of(png, step=1):
    """The rows of a PNG of `step` bytes a pixel."""
    at, data, width = 8, b"", 0
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        width = step * struct.unpack(">I", body[:4])[0] if kind == b"IHDR" else width
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    raw, rows, before = zlib.decompress(data), [], bytes(width)
    for i in range(0, len(raw), width + 1):
        kind, line = raw[i], bytearray(raw[i + 1:i + 1 + width])
        for x in range(width):
            a, b, c = line[x - step] if x >= step else 0, before[x], before[x - step] if x >= step else 0
            p = a + b - c
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            line[x] = line[x] + (0, a, b, (a + b) // 2, paeth)[kind] & 255
        rows.append(bytes(line))
        before = rows[-1]
    return rows


def right(answer, found):
    if isinstance(found, dict):
        rows = lines_of(base64.b64decode(answer["mask"]["png"]))
        return (len(rows), len(rows[0])) == (HEIGHT, WIDTH) and set(rows[40]) == {found["above"]} and set(rows[130]) == {found["below"]}
    if len(found[0]) == 2:
        return near([c["class"] for c in answer["classes"][:2]], [f[0] for f in found], 0) and near([c["score"] for c in answer["classes"][:2]], [f[1] for f in found], 1e-4)
    objects = answer["objects"]
    good = len(objects) == len(found) and all(o["class"] == f[0] and abs(o["score"] - f[1]) < 1e-3 and near(o["box"], f[2], 0.1) for o, f in zip(objects, found))
    return good and all(len(f) < 4 or (len(o["points"]) >= 5 and near(o["points"][2][:2], f[3], 0.1)) for o, f in zip(objects, found))


def drawn(pool, folder, case, changed, same):
    """--draw colours the pixels of `changed` and leaves those of `same`."""
    subprocess.run([BIN / "penstock", "submit", "--broker", pool.clients, case, folder / "picture.png", "--draw", folder / "out.png"], capture_output=True)
    before, after = lines_of(picture(), 3), lines_of((folder / "out.png").read_bytes(), 3)
    touched = lambda x, y: before[y][3 * x:3 * x + 3] != after[y][3 * x:3 * x + 3]
    check(all(touched(*p) for p in changed) and not any(touched(*p) for p in same), case + " is drawn", [[p, touched(*p)] for p in changed + same])


def details(pool, folder):
    """What only some answers have: masks of objects, corners."""
    def answer(case):
        done = subprocess.run([BIN / "penstock", "submit", "--broker", pool.clients, case, folder / "picture.png", "--json"], capture_output=True, text=True)
        return json.loads(done.stdout)["jobs"][0]["answer"]
    mask = answer("yolov8_seg")["mask"]
    rows = lines_of(base64.b64decode(mask["png"]))
    check(mask["of"] == "objects" and [rows[100][x] for x in (95, 110, 130, 145)] == [0, 1, 0, 0], "a mask has the numbers of objects", rows[100])
    box = answer("yolov8_obb")["objects"][0]
    check(near(sum(box["corners"], []), [150, 80, 150, 120, 90, 120, 90, 80], 0.1) and abs(box["angle"] - math.pi / 2) < 1e-3, "a turned box has corners", box)
    drawn(pool, folder, "yolov8_seg", [(110, 110), (110, 125)], [(130, 120), (60, 120)])
    drawn(pool, folder, "yolov8_obb", [(90, 110), (150, 110), (120, 120)], [(105, 110), (130, 75)])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder, expected = Path(name), {}
        for case, make in CASES.items():
            model, config, expected[case] = make()
            models.save(folder / "models", case, model, config if isinstance(config, dict) else config_of(config))
        (folder / "picture.png").write_bytes(picture())
        pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--slots", "1", "--threads", "1", "--backend", "reference", "--measure", "off"])
        wait_for(lambda: "evt=ready" in (folder / "worker2.log").read_text() or pool.worker.poll() is not None, 60)
        for case, found in expected.items():
            done = subprocess.run([BIN / "penstock", "submit", "--broker", pool.clients, case, folder / "picture.png", "--json"], capture_output=True, text=True)
            answer = json.loads(done.stdout)["jobs"][0].get("answer") if done.returncode == 0 else None
            check(answer and right(answer, found), case, f"{found} {json.dumps(answer)[:600]} {done.stderr} {[l for l in (folder / 'worker2.log').read_text().splitlines() if case in l][:2]}")
        details(pool, folder)
        codes = pool.stop()
        check(not any(codes), "the programs end in good order", codes)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
