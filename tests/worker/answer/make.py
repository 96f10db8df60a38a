#!/usr/bin/env python3
"""Writes cases.json: what the steps after a model must give, computed with NumPy from the formulas, in float64.

usage: make.py [cases.json]

Inputs are seeded numbers that test_answer.c makes again (splitmix64, as in tests/shared): the file has their seeds and the results. Hard suppression is compared with
onnxruntime's NonMaxSuppression where onnxruntime can be imported.
"""
import json
import sys

import numpy as np

from numbers_of import ACTIVATIONS, corners, iou, seeded, sigmoid, softmax

# ---- boxes ----


def propose(boxes, scores, objectness=None, score=0.3, multi=False, background=False, points=None):
    """The objects above the score, the best first: (box, score, class, points)."""
    if background:
        scores = scores[:, 1:]
    if objectness is not None:
        scores = scores * objectness[:, None]
    found = []
    for i in range(len(boxes)):
        classes = range(scores.shape[1]) if multi else [int(np.argmax(scores[i]))]
        for c in classes:
            if scores[i, c] >= score:
                found.append((boxes[i], float(scores[i, c]), c, None if points is None else points[i]))
    return sorted(found, key=lambda f: -f[1])


def rivals(a, b, per_class):
    return not per_class or a[2] == b[2]


def nms(found, kind="hard", threshold=0.5, per_class=True, most=100, sigma=0.5, score=0.001):
    kept, left = [], list(found)
    while left and len(kept) < most:
        best = max(range(len(left)), key=lambda i: left[i][1])
        one = left.pop(best)
        if kind in ("linear", "gaussian"):
            if one[1] < score:
                break
            kept.append(one)
            for i, f in enumerate(left):
                if rivals(one, f, per_class):
                    o = iou(one[0], f[0])
                    factor = np.exp(-o * o / sigma) if kind == "gaussian" else 1 - o if o > threshold else 1
                    left[i] = (f[0], f[1] * factor, f[2], f[3])
            continue
        same = [f for f in left if rivals(one, f, per_class) and iou(one[0], f[0]) > threshold]
        left = [f for f in left if not (rivals(one, f, per_class) and iou(one[0], f[0]) > threshold)]
        if kind == "weighted":
            group = [one] + same
            weights = np.array([f[1] for f in group])
            box = sum(w * f[0] for w, f in zip(weights, group)) / weights.sum()
            points = one[3]
            if points is not None:
                points = points.copy()
                points[:, :2] = sum(w * f[3][:, :2] for w, f in zip(weights, group)) / weights.sum()
            one = (box, one[1], one[2], points)
        kept.append(one)
    return kept


def ort_agrees(found, threshold, most):
    """Suppression over all classes, by another's code."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return
    h = onnx.helper
    graph = h.make_graph([h.make_node("NonMaxSuppression", ["b", "s", "m", "t"], ["i"])], "g", [
        h.make_tensor_value_info("b", 1, [1, None, 4]), h.make_tensor_value_info("s", 1, [1, None, None]),
        h.make_tensor_value_info("m", 7, [1]), h.make_tensor_value_info("t", 1, [1])],
        [h.make_tensor_value_info("i", 7, [None, 3])])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    classes = max(f[2] for f in found) + 1
    scores = np.zeros((1, classes, len(found)), np.float32)
    for i, f in enumerate(found):
        scores[0, f[2], i] = f[1]
    boxes = np.array([[f[0][[1, 0, 3, 2]] for f in found]], np.float32)
    picked = session.run(None, {"b": boxes, "s": scores, "m": np.array([most]), "t": np.array([threshold], np.float32)})[0]
    theirs = sorted((int(c), int(i)) for _, c, i in picked if scores[0, c, i] > 0)
    ours = nms(found, threshold=threshold, most=10**6)
    mine = sorted((f[2], next(i for i, g in enumerate(found) if g is f)) for f in ours)
    assert theirs == mine, (theirs, mine)


def grid(height, width, stride, at):
    gy, gx = np.meshgrid(np.arange(int(np.ceil(height / stride))), np.arange(int(np.ceil(width / stride))), indexing="ij")
    n = gx.size
    return np.stack([(gx.ravel() + at) * stride, (gy.ravel() + at) * stride, np.full(n, stride), np.full(n, stride)], -1).astype(float)


# ---- cases ----

cases = []


def mapped(points, m):
    m = np.array(m).reshape(2, 3)
    return points @ m[:, :2].T + m[:, 2]


def objects_tensors(rows, most, points_count=0):
    """The tensors of an answer, padded with zeros."""
    n = len(rows)
    out = {"count": np.array([min(len(r), most) for r in rows], float), "boxes": np.zeros((n, most, 4)),
           "scores": np.zeros((n, most)), "classes": np.zeros((n, most))}
    if points_count:
        out["points"] = np.zeros((n, most, points_count, 3))
    for r, found in enumerate(rows):
        for i, f in enumerate(found[:most]):
            out["boxes"][r, i], out["scores"][r, i], out["classes"][r, i] = f[0], f[1], f[2]
            if points_count:
                out["points"][r, i] = f[3]
    return out


def case(name, answer, outputs, expect, size=None, batched=True, rows=1, maps=None, tolerance=1e-4, labels=None):
    """outputs: (name, dims with rows, seed, low, high[, dtype])."""
    answer = dict(answer, steps=[{s["step"]: {k: v for k, v in s.items() if k != "step"}} for s in answer["steps"]])
    cases.append({
        "name": name, "answer": answer, "size": size or [0, 0], "batched": batched, "rows": rows, "maps": maps,
        "labels": labels or [], "tolerance": tolerance,
        "outputs": [dict(zip(("name", "dims", "seed", "low", "high", "dtype"), o)) for o in outputs],
        "expect": {k: {"dims": list(np.shape(v)), "values": [float(f"{x:.8g}") for x in np.ravel(v)]} for k, v in expect.items()}})


def value(output):
    return seeded(output[2], output[1], output[3], output[4])


def top_cases():
    for i, (dims, k, activation) in enumerate([((1, 5), 3, "softmax"), ((4, 100), 5, "none"), ((2, 1, 1, 1000), 10, "softmax"), ((3, 7), 7, "sigmoid")]):
        o = ("y", list(dims), 100 + i, -5, 5)
        x = ACTIVATIONS[activation](value(o).reshape(dims[0], -1))
        order = np.argsort(-x, axis=1, kind="stable")[:, :k]
        case(f"top_{i}", {"steps": [{"step": "top_k", "output": "y", "k": k, "activation": activation}]}, [o],
             {"classes": order, "scores": np.take_along_axis(x, order, 1)}, rows=dims[0], tolerance=1e-5)
    o = ("y", [2, 3, 4, 5], 110, -3, 3)
    x = sigmoid(softmax(value(o), axis=-3)).reshape(2, -1)
    order = np.argsort(-x, axis=1, kind="stable")[:, :6]
    case("softmax_axis_then_sigmoid", {"steps": [{"step": "softmax", "output": "y", "axis": -3}, {"step": "sigmoid", "output": "y"},
                                                 {"step": "top_k", "output": "y", "k": 6}]}, [o],
         {"classes": order, "scores": np.take_along_axis(x, order, 1)}, rows=2, tolerance=1e-5)


def plain_cases():
    orders = {"ltrb": lambda v: v, "tlbr": lambda v: v[:, [1, 0, 3, 2]], "cxcywh": lambda v: corners(*v.T),
              "cycxhw": lambda v: corners(*v[:, [1, 0, 3, 2]].T), "ltwh": lambda v: np.concatenate([v[:, :2], v[:, :2] + v[:, 2:]], 1)}
    for i, (order, decode) in enumerate(orders.items()):
        n, c = 40 + 13 * i, 2 + i
        boxes, scores = ("b", [2, n, 4], 200 + i, 0, 1), ("s", [2, n, c], 220 + i, 0, 1)
        normalized = i % 2 == 0
        factor = np.array([320, 240, 320, 240]) if normalized else 1
        factor = factor[[1, 0, 3, 2]] if normalized and order in ("tlbr", "cycxhw") else factor
        rows = [nms(propose(decode(value(boxes)[r] * factor), value(scores)[r], score=0.6, background=i == 1), threshold=0.45)
                for r in range(2)]
        answer = {"steps": [{"step": "boxes", "boxes": "b", "scores": "s", "order": order, "normalized": normalized, "score": 0.6,
                             "background": i == 1}, {"step": "nms", "iou": 0.45, "max": 30}]}
        case(f"plain_{order}", answer, [boxes, scores], objects_tensors(rows, 30), [240, 320], rows=2)
        found = propose(decode(value(boxes)[0] * factor), value(scores)[0], score=0.6)
        ort_agrees([f for f in found if (f[0][2:] > f[0][:2]).all()], 0.45, 1000)
    found = propose(corners(*value(("b", [60, 4], 230, 20, 100)).T), value(("s", [60, 3], 231, 0, 1)), score=0.5)
    ort_agrees(found, 0.3, 1000)
    for i, (kind, per_class) in enumerate([("hard", True), ("hard", False), ("linear", True), ("linear", False), ("gaussian", True),
                                           ("gaussian", False), ("weighted", True), ("weighted", False)]):
        o = ("y", [1, 50 + i, 4 + 3 + 6], 240 + i, 20, 100)
        s = ("s", [1, 50 + i, 3], 260 + i, 0, 1)
        v, points = value(o)[0], np.zeros((50 + i, 3, 3))
        points[:, :, :2] = v[:, 7:].reshape(-1, 3, 2)
        points[:, :, 2] = 1
        found = propose(corners(*v[:, :4].T), value(s)[0], score=0.2, multi=i % 2 == 1, points=points)
        rows = [nms(found, kind, 0.3, per_class, most=20, sigma=0.4, score=0.25)]
        m = [1.5, 0, -10, 0, 2, 5]
        rows = [[(np.concatenate([mapped(f[0][:2], m), mapped(f[0][2:], m)]), f[1], f[2],
                  np.concatenate([mapped(f[3][:, :2], m), f[3][:, 2:]], 1)) for f in r] for r in rows]
        case(f"nms_{kind}_{'classes' if per_class else 'all'}",
             {"steps": [{"step": "boxes", "boxes": "y", "scores": "s", "order": "cxcywh", "score": 0.2, "points": "y", "points_at": 7,
                         "points_count": 3, "multi_label": i % 2 == 1},
                        {"step": "nms", "kind": kind, "iou": 0.3, "per_class": per_class, "max": 20, "sigma": 0.4, "score": 0.25}]},
             [o, s], objects_tensors(rows, 20, 3), [128, 128], maps=[{"width": 200, "height": 300, "m": m}])


def ssd_anchors(height, width, strides, aspects, low, high, interpolated, reduce_lowest):
    anchors, n, i = [], len(strides), 0
    scale = lambda k: low + (high - low) * k / (n - 1)
    while i < n:
        kinds, j = [], i
        while j < n and strides[j] == strides[i]:
            following = 1.0 if j == n - 1 else scale(j + 1)
            if j == 0 and reduce_lowest:
                kinds += [(0.1, 1), (scale(0), 2), (scale(0), 0.5)]
            else:
                kinds += [(scale(j), a) for a in aspects]
                if interpolated:
                    kinds.append((np.sqrt(scale(j) * following), interpolated))
            j += 1
        gh, gw = int(np.ceil(height / strides[i])), int(np.ceil(width / strides[i]))
        for y in range(gh):
            for x in range(gw):
                for s, a in kinds:
                    anchors.append([(x + .5) / gw * width, (y + .5) / gh * height, s * np.sqrt(a) * width, s / np.sqrt(a) * height])
        i = j
    return np.array(anchors)


def ssd_cases():
    for i, (h, w, strides, reduce_lowest) in enumerate([(64, 96, [16, 32, 64], True), (80, 80, [8, 16, 16], False)]):
        generate = {"strides": strides, "aspects": [1, 2, 0.5], "min_scale": 0.2, "max_scale": 0.9, "interpolated": 1, "reduce_lowest": reduce_lowest}
        a = ssd_anchors(h, w, strides, [1, 2, 0.5], 0.2, 0.9, 1, reduce_lowest)
        b, s = ("b", [1, len(a), 4], 300 + i, -2, 2), ("s", [1, len(a), 4], 310 + i, -3, 3)
        t = value(b)[0]
        v = [0.1, 0.1, 0.2, 0.2]
        boxes = corners(a[:, 0] + t[:, 1] * v[0] * a[:, 2], a[:, 1] + t[:, 0] * v[1] * a[:, 3],
                        a[:, 2] * np.exp(t[:, 3] * v[2]), a[:, 3] * np.exp(t[:, 2] * v[3]))
        found = nms(propose(boxes, softmax(value(s)[0]), score=0.5, background=True), threshold=0.6, most=25)
        case(f"ssd_{i}", {"steps": [{"step": "boxes", "form": "ssd", "boxes": "b", "scores": "s", "activation": "softmax", "background": True,
                                     "score": 0.5, "anchors": {"generate": generate}}, {"step": "nms", "iou": 0.6, "max": 25}]},
             [b, s], objects_tensors([found], 25), [h, w])
    # several outputs, boxes of layers by hand
    a = []
    for (gh, gw), kinds in (((4, 6), [(10, 20), (30, 10)]), ((2, 3), [(40, 40)])):
        a += [[(x + .5) / gw * 96, (y + .5) / gh * 64, bw, bh] for y in range(gh) for x in range(gw) for bw, bh in kinds]
    a = np.array(a, float)
    o = [("b0", [1, 48, 4], 320, -1, 1), ("b1", [1, 6, 4], 321, -1, 1), ("s0", [1, 48, 1], 322, -3, 3), ("s1", [1, 6, 1], 323, -3, 3)]
    t = np.concatenate([value(o[0])[0], value(o[1])[0]])
    s = np.concatenate([value(o[2])[0], value(o[3])[0]])
    boxes = corners(a[:, 0] + t[:, 0] * a[:, 2] * .1, a[:, 1] + t[:, 1] * a[:, 3] * .1, a[:, 2] * np.exp(t[:, 2] * .2), a[:, 3] * np.exp(t[:, 3] * .2))
    found = nms(propose(boxes, sigmoid(s), score=0.6), threshold=0.3, most=10)
    case("ssd_layers", {"steps": [{"step": "boxes", "form": "ssd", "boxes": ["b0", "b1"], "scores": ["s0", "s1"], "order": "cxcywh", "activation": "sigmoid",
                                   "score": 0.6, "anchors": {"layers": [{"grid": [4, 6], "boxes": [[10, 20], [30, 10]]}, {"stride": 32, "boxes": [[40, 40]]}]}},
                                  {"step": "nms", "iou": 0.3, "max": 10}]}, o, objects_tensors([found], 10), [64, 96])


def blazeface_cases():
    a = []
    for side, each in ((16, 2), (8, 6)):
        a += [[(x + .5) * 128 / side, (y + .5) * 128 / side] for y in range(side) for x in range(side) for _ in range(each)]
    a = np.array(a)
    points = np.ones((896, 6, 3))
    steps = [{"step": "boxes", "form": "blazeface", "boxes": "y", "boxes_at": 1, "scores": "y", "scores_at": 0, "points_at": 5, "points_count": 6,
              "classes": 1, "score": 0.95, "anchors": {"generate": {"strides": [8, 16, 16, 16], "fixed_size": True}}},
             {"step": "nms", "iou": 1, "max": 5}]
    o = ("y", [1, 896, 17], 330, -4, 4)
    v = value(o)[0]
    boxes = corners(a[:, 0] + v[:, 1], a[:, 1] + v[:, 2], v[:, 3], v[:, 4])
    points[:, :, :2] = v[:, 5:].reshape(-1, 6, 2) + a[:, None]
    found = propose(boxes, sigmoid(v[:, :1]), score=0.95, points=points)[:5]
    case("blazeface", {"steps": steps}, [o], objects_tensors([found], 5, 6), [128, 128])


def yolo_cases():
    size, strides = (64, 96), [8, 16, 32]
    a = np.concatenate([grid(*size, s, 0) for s in strides])
    o = ("y", [2, len(a), 5 + 3], 340, 0, 1)
    rows = []
    for r in range(2):
        v = value(o)[r]
        boxes = corners(a[:, 0] + v[:, 0] * a[:, 2], a[:, 1] + v[:, 1] * a[:, 2], np.exp(v[:, 2]) * a[:, 2], np.exp(v[:, 3]) * a[:, 3])
        rows.append(nms(propose(boxes, v[:, 5:], v[:, 4], score=0.3), threshold=0.4, per_class=False, most=20))
    case("yolox", {"steps": [{"step": "boxes", "form": "yolox", "boxes": "y", "score": 0.3}, {"step": "nms", "iou": 0.4, "per_class": False, "max": 20}]},
         [o], objects_tensors(rows, 20), list(size), rows=2)
    o = ("y", [1, 4 + 5, 77], 341, 0, 1)
    v = value(o)[0].T
    boxes = corners(*v[:, :4].T)
    case("yolov8", {"steps": [{"step": "boxes", "form": "yolov8", "boxes": "y", "score": 0.8}, {"step": "nms", "iou": 0.5, "max": 40}]}, [o],
         objects_tensors([nms(propose(boxes, v[:, 4:], score=0.8), most=40)], 40), list(size))
    o = ("y", [1, 4 + 1 + 6, 50], 342, 0, 1)
    v = value(o)[0].T
    points = v[:, 5:].reshape(-1, 2, 3)
    case("yolov8_points", {"steps": [{"step": "boxes", "form": "yolov8", "boxes": "y", "score": 0.5, "points_at": 5, "points_count": 2, "points_scored": True},
                                     {"step": "nms", "iou": 0.9, "max": 40}]}, [o],
         objects_tensors([nms(propose(corners(*v[:, :4].T), v[:, 4:5], score=0.5, points=points), threshold=0.9, most=40)], 40, 2), list(size))
    heads = [("p8", 8, [[10, 13], [16, 30]]), ("p16", 16, [[33, 23], [30, 61]])]
    for form in ("yolov3", "yolov5"):
        for k, layout in enumerate(("joined_first", "split_first", "joined_last", "split_last", "apart")):
            outputs, boxes, scores, obj, where = [], [], [], [], []
            for j, (name, stride, anchors) in enumerate(heads):
                gh, gw, n = size[0] // stride, size[1] // stride, 5 + 4
                dims = {"joined_first": [2 * n, gh, gw], "split_first": [2, n, gh, gw], "joined_last": [gh, gw, 2 * n], "split_last": [gh, gw, 2, n],
                        "apart": [2, gh, gw, n]}[layout]
                o = (name, [1] + dims, 350 + 10 * k + j, -3, 3)
                x = value(o)[0]
                if layout.endswith("first"):
                    x = x.reshape(2, n, gh, gw).transpose(0, 2, 3, 1)
                elif layout.endswith("last"):
                    x = x.reshape(gh, gw, 2, n).transpose(2, 0, 1, 3)
                gy, gx = np.meshgrid(np.arange(gh), np.arange(gw), indexing="ij")
                for q, (aw, ah) in enumerate(anchors):
                    t = x[q]
                    if form == "yolov3":
                        b = corners((sigmoid(t[..., 0]) + gx) * stride, (sigmoid(t[..., 1]) + gy) * stride, np.exp(t[..., 2]) * aw, np.exp(t[..., 3]) * ah)
                    else:
                        b = corners((2 * sigmoid(t[..., 0]) - .5 + gx) * stride, (2 * sigmoid(t[..., 1]) - .5 + gy) * stride,
                                    (2 * sigmoid(t[..., 2]))**2 * aw, (2 * sigmoid(t[..., 3]))**2 * ah)
                    boxes.append(b.reshape(-1, 4)), scores.append(sigmoid(t[..., 5:]).reshape(-1, 4)), obj.append(sigmoid(t[..., 4]).ravel())
                outputs.append(o)
            found = nms(propose(np.concatenate(boxes), np.concatenate(scores), np.concatenate(obj), score=0.5), threshold=0.5, most=25)
            case(f"{form}_{layout}", {"steps": [{"step": "boxes", "form": form, "score": 0.5,
                                                "heads": [{"output": n, "stride": s, "anchors": a} for n, s, a in heads]},
                                               {"step": "nms", "iou": 0.5, "max": 25}]}, outputs, objects_tensors([found], 25), list(size))
    a = np.concatenate([grid(*size, s, 0.5) for s in (16, 32)])
    for bins in (0, 8):
        o, s = ("d", [1, len(a), 4 * (bins or 1)], 410 + bins, 0, 3), ("s", [1, len(a), 2], 412 + bins, -4, 4)
        d = value(o)[0]
        if bins:
            d = (softmax(d.reshape(-1, 4, bins)) * np.arange(bins)).sum(-1)
        b = np.stack([a[:, 0] - d[:, 0] * a[:, 2], a[:, 1] - d[:, 1] * a[:, 2], a[:, 0] + d[:, 2] * a[:, 2], a[:, 1] + d[:, 3] * a[:, 2]], -1)
        step = {"step": "boxes", "form": "distance", "boxes": "d", "scores": "s", "activation": "sigmoid", "strides": [16, 32], "score": 0.7}
        if bins:
            step["bins"] = bins
        case(f"distance_{bins}", {"steps": [step, {"step": "nms", "iou": 0.6, "max": 20}]}, [o, s],
             objects_tensors([nms(propose(b, sigmoid(value(s)[0]), score=0.7), threshold=0.6, most=20)], 20), list(size))


def centernet_cases():
    for first in (True, False):
        c, h, w = 3, 12, 17
        dims = lambda n: [1, n, h, w] if first else [1, h, w, n]
        o = [("heat", dims(c), 500, -4, 2), ("size", dims(2), 501, 1, 6), ("off", dims(2), 502, 0, 1)]
        chw = lambda x: x[0] if first else x[0].transpose(2, 0, 1)
        heat, size, off = sigmoid(chw(value(o[0]))), chw(value(o[1])), chw(value(o[2]))
        padded = np.pad(heat, ((0, 0), (1, 1), (1, 1)), constant_values=-1)
        peak = np.max([padded[:, dy:dy + h, dx:dx + w] for dy in range(3) for dx in range(3)], axis=0) == heat
        found = []
        for k, y, x in zip(*np.nonzero(peak & (heat >= 0.5))):
            b = corners(x + off[0, y, x], y + off[1, y, x], size[0, y, x], size[1, y, x]) * 4
            found.append((b, heat[k, y, x], k, None))
        found = sorted(found, key=lambda f: -f[1])[:40]
        case(f"centernet_{'first' if first else 'last'}", {"steps": [{"step": "centernet", "heat": "heat", "size": "size", "offset": "off", "channels_first": first,
                                                                      "activation": "sigmoid", "score": 0.5, "candidates": 40}]}, o, objects_tensors([found], 40), [48, 68])


def points_cases():
    o, p = ("y", [2, 30], 520, 0, 1), ("p", [2, 1], 521, -3, 3)
    v = value(o).reshape(2, 10, 3).copy()
    v[:, :, 0] *= 160
    v[:, :, 1] *= 120
    presence = sigmoid(value(p)[:, 0])
    v[presence < 0.5] = 0
    case("points", {"steps": [{"step": "points", "output": "y", "values": 3, "normalized": True, "presence": "p", "presence_activation": "sigmoid", "score": 0.5}]},
         [o, p], {"points": v, "presence": presence}, [120, 160], rows=2)
    o = ("y", [1, 1, 17, 3], 522, 0, 1)
    v = value(o).reshape(1, 17, 3)[:, :, [1, 0, 2]] * [192, 192, 1]
    m = [2, 0.5, -3, -0.5, 2, 7]
    v[0, :, :2] = mapped(v[0, :, :2], m)
    case("points_yx_turned", {"steps": [{"step": "points", "output": "y", "values": 3, "yx": True, "normalized": True}]}, [o],
         {"points": v, "presence": np.ones(1)}, [192, 192], maps=[{"width": 400, "height": 400, "m": m}])


# ---- poses ----

EDGES = [(0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15), (0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16)]


def pose_cases():
    stride, radius = 16, 20
    for i, (h, w) in enumerate([(9, 9), (12, 7)]):
        o = [("heat", [1, h, w, 17], 600 + i, -6, 2), ("off", [1, h, w, 34], 610 + i, -8, 8), ("fwd", [1, h, w, 32], 620 + i, -40, 40), ("bwd", [1, h, w, 32], 630 + i, -40, 40)]
        logits, off, fwd, bwd = (value(x)[0] for x in o)
        heat = sigmoid(logits)
        cell = lambda p, n: int(np.clip(np.rint(p / stride), 0, n - 1))
        at = lambda y, x, k: np.array([x * stride + off[y, x, 17 + k], y * stride + off[y, x, k]])

        def follow(disp, e, source, k):
            y, x = cell(source[1], h), cell(source[0], w)
            p = source + [disp[y, x, 16 + e], disp[y, x, e]]
            for _ in range(2):
                p = at(cell(p[1], h), cell(p[0], w), k)
            return p, heat[cell(p[1], h), cell(p[0], w), k]
        peaks = []
        for y in range(h):
            for x in range(w):
                for k in range(17):
                    near = heat[max(0, y - 1):y + 2, max(0, x - 1):x + 2, k]
                    if heat[y, x, k] >= 0.6 and heat[y, x, k] == near.max():
                        peaks.append((heat[y, x, k], y, x, k))
        people = []
        taken = lambda k, p: any(np.sum((q["p"][k] - p)**2) <= radius**2 for q in people)
        for score, y, x, k in sorted(peaks, key=lambda q: -q[0]):
            if len(people) == 6:
                break
            root = at(y, x, k)
            if taken(k, root):
                continue
            p, s = np.zeros((17, 2)), np.full(17, -1.0)
            p[k], s[k] = root, heat[y, x, k]
            for e in range(15, -1, -1):
                a, b = EDGES[e][1], EDGES[e][0]
                if s[a] >= 0 and s[b] < 0:
                    p[b], s[b] = follow(bwd, e, p[a], b)
            for e in range(16):
                a, b = EDGES[e]
                if s[a] >= 0 and s[b] < 0:
                    p[b], s[b] = follow(fwd, e, p[a], b)
            total = sum(s[j] for j in range(17) if not taken(j, p[j])) / 17
            if total >= 0.1:
                people.append({"p": p, "s": s, "t": total})
        found = [(np.concatenate([q["p"].min(0), q["p"].max(0)]), q["t"], 0, np.concatenate([q["p"], q["s"][:, None]], 1)) for q in people]
        case(f"poses_{i}", {"steps": [{"step": "poses", "heat": "heat", "offsets": "off", "forward": "fwd", "backward": "bwd", "score": 0.1, "point_score": 0.6, "max": 6}]},
             o, objects_tensors([found], 6, 17), tolerance=1e-3)
        best = [np.unravel_index(np.argmax(heat[:, :, k]), (h, w)) for k in range(17)]
        p = np.array([at(y, x, k) for k, (y, x) in enumerate(best)])
        s = np.array([heat[y, x, k] for k, (y, x) in enumerate(best)])
        found = [(np.concatenate([p.min(0), p.max(0)]), s.mean(), 0, np.concatenate([p, s[:, None]], 1))]
        case(f"pose_single_{i}", {"steps": [{"step": "poses", "heat": "heat", "offsets": "off", "single": True}]}, o[:2], objects_tensors([found], 1, 17), tolerance=1e-3)


# ---- masks ----


def resized(scores, size, height, width, m, align, nearest):
    """scores [h, w, c] at each pixel of the picture; m: from the input's pixels to the picture's."""
    h, w = scores.shape[:2]
    full = np.vstack([np.array(m).reshape(2, 3), [0, 0, 1]])
    inverse = np.linalg.inv(full)
    px, py = np.meshgrid(np.arange(width) + .5, np.arange(height) + .5)
    ix = inverse[0, 0] * px + inverse[0, 1] * py + inverse[0, 2]
    iy = inverse[1, 0] * px + inverse[1, 1] * py + inverse[1, 2]
    if align:
        gx, gy = (ix - .5) * (w - 1) / (size[1] - 1), (iy - .5) * (h - 1) / (size[0] - 1)
    else:
        gx, gy = ix * w / size[1] - .5, iy * h / size[0] - .5
    gx, gy = np.clip(gx, 0, w - 1), np.clip(gy, 0, h - 1)
    if nearest:
        return scores[np.floor(gy + .5).astype(int), np.floor(gx + .5).astype(int)]
    x0, y0 = np.floor(gx).astype(int), np.floor(gy).astype(int)
    x1, y1 = np.minimum(x0 + 1, w - 1), np.minimum(y0 + 1, h - 1)
    fx, fy = (gx - x0)[..., None], (gy - y0)[..., None]
    return scores[y0, x0] * (1 - fx) * (1 - fy) + scores[y0, x1] * fx * (1 - fy) + scores[y1, x0] * (1 - fx) * fy + scores[y1, x1] * fx * fy


def mask_cases():
    identity = [1, 0, 0, 0, 1, 0]
    for i, (first, align, nearest, m, picture) in enumerate([(False, False, False, identity, None), (True, True, False, [1.5, 0, 0, 0, 0.75, 0], (48, 60)),
                                                            (False, False, True, [2, 0, -8, 0, 2, 0], (64, 72)), (True, False, False, [1, .3, 0, -.3, 1, 10], (50, 50))]):
        h, w, c, size = 8, 10, 4, (32, 40)
        o = ("y", [1, c, h, w] if first else [1, h, w, c], 700 + i, -3, 3)
        x = value(o)[0].transpose(1, 2, 0) if first else value(o)[0]
        height, width = picture or size
        scores = resized(softmax(x), size, height, width, m, align, nearest)
        maps = [{"width": width, "height": height, "m": m}] if picture else None
        step = {"step": "mask", "output": "y", "form": "argmax", "activation": "softmax", "channels_first": first, "corners": align, "nearest": nearest}
        case(f"mask_argmax_{i}", {"steps": [step]}, [o], {"mask": scores.argmax(-1)[None]}, list(size), maps=maps)
        whole = resized(sigmoid(x), size, height, width, m, align, nearest)
        step = dict(step, form="threshold", channel=2, threshold=0.4, activation="sigmoid")
        case(f"mask_threshold_{i}", {"steps": [step]}, [o], {"mask": np.where(whole[..., 2] >= 0.4, 255, 0)[None]}, list(size), maps=maps)
    o, g = ("y", [2, 6, 5, 3], 720, -1, 1), ("g", [2, 6, 5, 1], 721, -2, 2)
    want = np.where(sigmoid(value(g)[..., 0]) >= 0.5, value(o).argmax(-1) + 1, 0)
    case("mask_where_model", {"steps": [{"step": "mask", "output": "y", "form": "argmax", "where": "g", "where_activation": "sigmoid", "size": "model"}]}, [o, g],
         {"mask": want}, rows=2)


def instance_cases():
    """YOLO-seg's form: [4 + classes + coefficients, n] and prototypes."""
    size, grid_size, classes, k, n = (48, 64), (12, 16), 2, 6, 40
    identity = [1, 0, 0, 0, 1, 0]
    for i, (first, m, picture, model) in enumerate([(True, identity, None, False), (True, [1.25, 0, 0, 0, 1.25, -5], (50, 80), False),
                                                    (False, [0.9, 0.2, 3, -0.2, 0.9, 9], (60, 70), False), (True, identity, None, True)]):
        o = ("y", [1, 4 + classes + k, n], 730 + i, 0, 1)
        p = ("p", [1, k, *grid_size] if first else [1, *grid_size, k], 740 + i, -3, 3)
        v = value(o)[0].T.copy()
        protos = value(p)[0].transpose(1, 2, 0) if first else value(p)[0]
        boxes = corners(v[:, 0] * 64, v[:, 1] * 48, v[:, 2] * 64, v[:, 3] * 48)
        found = nms([(boxes[j], s, c, v[j, 4 + classes:]) for _, s, c, j in propose(boxes, v[:, 4:4 + classes], score=0.6, points=np.arange(n))], threshold=0.4, most=12)
        height, width = picture or (grid_size if model else size)
        to = [grid_size[1] / size[1], 0, 0, 0, grid_size[0] / size[0], 0] if model else m
        mask = np.zeros((height, width))
        inverse = np.linalg.inv(np.vstack([np.array(to).reshape(2, 3), [0, 0, 1]]))
        px, py = np.meshgrid(np.arange(width) + .5, np.arange(height) + .5)
        ix, iy = (inverse[q, 0] * px + inverse[q, 1] * py + inverse[q, 2] for q in range(2))
        for number, f in enumerate(found, 1):
            scores = resized((protos @ f[3])[..., None], size, height, width, to, False, False)[..., 0]
            b = f[0]
            mask[(mask == 0) & (ix >= b[0]) & (ix < b[2]) & (iy >= b[1]) & (iy < b[3]) & (sigmoid(scores) >= 0.5)] = number
        around = lambda b: mapped(np.array([[b[0], b[1]], [b[2], b[1]], [b[2], b[3]], [b[0], b[3]]]), m)
        rows = [(np.concatenate([around(f[0]).min(0), around(f[0]).max(0)]), f[1], f[2], None) for f in found]
        maps = [{"width": width, "height": height, "m": m}] if picture else None
        step = {"step": "mask", "form": "instances", "output": "p", "channels_first": first}
        if model:
            step["size"] = "model"
        case(f"instances_{i}", {"steps": [{"step": "boxes", "form": "yolov8", "boxes": "y", "normalized": True, "score": 0.6, "coefficients": k},
                                          {"step": "nms", "iou": 0.4, "max": 12}, step]}, [o, p],
             dict(objects_tensors([rows], 12), mask=mask[None]), list(size), maps=maps, tolerance=2e-4)


def turned_corners(b):
    """[cx, cy, w, h, angle] -> 4 x 2."""
    c, s = np.cos(b[4]), np.sin(b[4])
    sides = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * np.array(b[2:4]) / 2
    return sides @ np.array([[c, s], [-s, c]]) + np.array(b[:2])


def shared_area(a, b):
    """Of two convex quadrilaterals: corners of each within the other, and where sides cross, around their middle."""
    cross = lambda u, v: u[0] * v[1] - u[1] * v[0]
    def inside(p, q):
        turns = [cross(q[(i + 1) % 4] - q[i], p - q[i]) for i in range(4)]
        return min(turns) >= -1e-9 or max(turns) <= 1e-9
    points = [p for p in a if inside(p, b)] + [p for p in b if inside(p, a)]
    for i in range(4):
        for j in range(4):
            d, e, f = a[(i + 1) % 4] - a[i], b[(j + 1) % 4] - b[j], b[j] - a[i]
            bottom = cross(d, e)
            if abs(bottom) > 1e-12:
                t, u = cross(f, e) / bottom, cross(f, d) / bottom
                if 0 <= t <= 1 and 0 <= u <= 1:
                    points.append(a[i] + t * d)
    if len(points) < 3:
        return 0.0
    points = np.array(points)
    middle = points.mean(0)
    points = points[np.argsort(np.arctan2(*(points - middle).T[::-1]))]
    x, y = points.T
    return abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def turned_cases():
    """YOLO-obb's form: [4 + classes + 1, n], the angle last."""
    for i, (kind, m, picture) in enumerate([("hard", None, None), ("hard", [1.5, 0, -8, 0, 0.75, 4], (60, 90)), ("linear", [0.8, 0.6, 0, -0.6, 0.8, 30], (99, 120)), ("gaussian", None, None)]):
        classes, n, size = 3, 60, (64, 96)
        o = ("y", [1, 4 + classes + 1, n], 760 + i, 0, 1)
        v = value(o)[0].T.copy()
        whole = np.concatenate([v[:, :4] * [96, 64, 96, 64], (v[:, -1:])], 1)
        found = propose(whole, v[:, 4:4 + classes], score=0.5)
        global iou
        upright, iou = iou, lambda a, b: (lambda s: s / (a[2] * a[3] + b[2] * b[3] - s))(shared_area(turned_corners(a), turned_corners(b)))
        kept = nms(found, kind, 0.3, True, most=15, sigma=0.5, score=0.3)
        iou = upright
        places = [turned_corners(f[0]) if m is None else mapped(turned_corners(f[0]), m) for f in kept]
        rows = [(np.concatenate([p.min(0), p.max(0)]), f[1], f[2], None) for p, f in zip(places, kept)]
        want = objects_tensors([rows], 15)
        want["corners"] = np.zeros((1, 15, 4, 2))
        want["corners"][0, :len(places)] = places
        maps = [{"width": picture[1], "height": picture[0], "m": m}] if m else None
        case(f"turned_{i}", {"steps": [{"step": "boxes", "form": "yolov8", "boxes": "y", "normalized": True, "turned": True, "score": 0.5},
                                       {"step": "nms", "kind": kind, "iou": 0.3, "max": 15, "score": 0.3}]}, [o], want, list(size), maps=maps, tolerance=1e-3)


def dtype_cases():
    o = ("y", [2, 9], 800, -5, 5, "f16")
    x = value(o[:5]).astype(np.float16).astype(float)
    order = np.argsort(-x, axis=1, kind="stable")[:, :4]
    case("halves", {"steps": [{"step": "top_k", "output": "y", "k": 4}]}, [o], {"classes": order, "scores": np.take_along_axis(x, order, 1)}, rows=2)
    o = ("y", [1, 9], 801, 0, 255.99, "u8")
    x = (np.floor(value(o[:5])) - 3) * 0.5
    order = np.argsort(-x, axis=1, kind="stable")[:, :4]
    case("quantised", {"steps": [{"step": "top_k", "output": "y", "k": 4}]}, [o], {"classes": order, "scores": np.take_along_axis(x, order, 1)})
    boxes, scores = ("b", [20, 4], 802, 0, 50), ("s", [20], 803, 0, 1)
    ids = ("c", [20], 804, 0, 6.99, "i64")
    found = sorted([(value(boxes)[i], value(scores)[i], int(np.floor(value(ids[:5])[i])), None) for i in range(20) if value(scores)[i] >= 0.5], key=lambda f: -f[1])
    case("classes_given_no_batch", {"steps": [{"step": "boxes", "boxes": "b", "scores": "s", "class_ids": "c", "score": 0.5, "candidates": 20}]}, [boxes, scores, ids],
         objects_tensors([found], 20), batched=False)


def main():
    for make in (top_cases, plain_cases, ssd_cases, blazeface_cases, yolo_cases, centernet_cases, points_cases, pose_cases, mask_cases, instance_cases, turned_cases, dtype_cases):
        make()
    path = sys.argv[1] if len(sys.argv) > 1 else "cases.json"
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
    print(f"{len(cases)} cases in {path}")


if __name__ == "__main__":
    main()
