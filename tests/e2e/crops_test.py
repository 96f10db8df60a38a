#!/usr/bin/env python3
"""Ensembles whose steps cut squares out of a picture: on one worker, and on workers that have one model each; the answers are the same bytes.

    crops_test.py BIN_DIR SOURCE_DIR

The first model finds boxes and points where its weights say; the second one gives the pixels of what was cut out. The last line is `N passed, N failed, N skipped`.
"""
import json
import struct
import sys
import tempfile
import zlib
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/gateway"))
import models
from pool import Pool, wait_for

passed = failed = 0
SIDE = 64
QUARTERS = [(220, 0, 0), (0, 220, 0), (0, 0, 220), (200, 200, 0)]  # of the picture: above left, above right, below left, below right
# left, top, right, bottom, score, then two points: the first box lies in the second quarter; the second one in the third and is turned by a quarter
ROWS = [[0.625, 0.125, 0.875, 0.375, 0.9, 0.7, 0.25, 0.8, 0.25], [0.125, 0.625, 0.375, 0.875, 0.8, 0.25, 0.7, 0.25, 0.8],
        [0.375, 0.375, 0.625, 0.625, 0.7, 0.45, 0.5, 0.55, 0.5]]


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, seen if not condition else "", flush=True)


def constant(name, rows):
    dims = (1, len(rows), len(rows[0]))
    data = b"".join(struct.pack(f"<{dims[2]}f", *row) for row in rows)
    return b"".join(models.field(1, d) for d in dims) + models.field(2, 1) + models.field(8, name) + models.field(9, data)


def finder(rows):
    node = lambda op, ins, out: models.field(1, b"".join(models.field(1, i) for i in ins) + models.field(2, out) + models.field(4, op))
    graph = node("Identity", ["weights"], "found") + node("Identity", ["image"], "seen") + models.field(2, "graph") + models.field(5, constant("weights", rows))
    graph += models.field(11, models.tensor_of("image", "FP32", [1, 16, 16, 3]))
    graph += models.field(12, models.tensor_of("found", "FP32", [1, len(rows), len(rows[0])])) + models.field(12, models.tensor_of("seen", "FP32", [1, 16, 16, 3]))
    return models.field(1, 8) + models.field(8, models.field(1, "") + models.field(2, 17)) + models.field(7, graph)


def find_config(score):
    return {"max_batch_size": 0, "picture": {"steps": [{"resize": {"width": 16, "height": 16}}, {"layout": "nhwc"}]},
            "answer": {"steps": [{"boxes": {"form": "plain", "boxes": "found", "order": "ltrb", "normalized": True, "scores_at": 4, "classes": 1, "points_at": 5, "points_count": 2,
                                            "score": score}}, {"nms": {"max": 8}}]}}


def ensemble(find, look, dims, points=True):
    crop = {"boxes": "boxes", "count": "count", "scale": 1.0, **({"points": "points", "level": [0, 1]} if points else {})}
    return {"platform": "ensemble", "max_batch_size": 0, "input": [{"name": "picture", "data_type": "TYPE_STRING", "dims": [1]}],
            "output": [{"name": "pixels", "data_type": "TYPE_FP32", "dims": dims}, {"name": "boxes", "data_type": "TYPE_FP32", "dims": [1, 8, 4]}],
            "ensemble_scheduling": {"step": [
                {"model_name": find, "input_map": {"image": "picture"}, "output_map": {"boxes": "boxes", "count": "count", "points": "points"}},
                {"model_name": look, "input_map": {"x": "picture"}, "output_map": {"y": "pixels"}, "crop": crop}]}}


def look_config(batch):
    return {"max_batch_size": batch, "picture": {"steps": [{"resize": {"width": 4, "height": 4}}, {"layout": "nhwc"}]}}


def save(root):
    models.save(root, "find", finder(ROWS), find_config(0.5))
    models.save(root, "find_none", finder(ROWS), find_config(0.99))
    for name, rows, batch in (("look", "n", 2), ("look_one", 1, 0)):
        models.save(root, name, models.model([("x", "FP32", [rows, 4, 4, 3])], [("Identity", ["x"], ["y"])], [("y", "FP32", [rows, 4, 4, 3])]), look_config(batch))
    for name, find, look, points in (("turned", "find", "look", True), ("upright", "find", "look_one", False), ("nothing", "find_none", "look", True)):
        models.save(root, name, None, ensemble(find, look, [-1, 4, 4, 3], points))


def picture():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    half = SIDE // 2
    rows = b"".join((b"\0" + bytes(QUARTERS[above]) * half + bytes(QUARTERS[above + 1]) * half) * half for above in (0, 2))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def ask(gateway, model, data, **parameters):
    head = json.dumps({"inputs": [{"name": "picture", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(data) + 4}}],
                       "parameters": {"binary_data_output": True, **parameters}}).encode()
    return gateway.ask(f"v2/models/{model}/infer", head + struct.pack("<I", len(data)) + data, Inference_Header_Content_Length=len(head))


def pixels_of(answer):
    """The rows of `pixels`: one for each object, of 4 x 4 pixels as 48 numbers."""
    head = int(answer.headers["Inference-Header-Content-Length"])
    at = head
    for output in json.loads(answer.body[:head])["outputs"]:
        size = output["parameters"]["binary_data_size"]
        if output["name"] == "pixels":
            numbers = struct.unpack(f"<{size // 4}f", answer.body[at:at + size])
            return output["shape"], [numbers[i:i + 48] for i in range(0, len(numbers), 48)]
        at += size
    return None, []


def pool_of(folder, workers):
    """workers: lists of models, one worker each."""
    folder.mkdir()
    pool = None
    for i, names in enumerate(workers):
        models_of = folder / f"worker{i}"
        models_of.mkdir()
        for name in names:
            (models_of / name).symlink_to(folder.parent / "models" / name)
        words = [BIN / "penstock-worker", "--broker", "{workers}", "--models", models_of, "--slots", "1", "--threads", "1", "--name", f"w{i}"]
        if pool is None:
            pool = Pool(BIN, folder, words)
        else:
            pool.start("worker", [str(word).format(workers=pool.workers) for word in words])
    return pool


def answers(pool):
    gateway = pool.gateway()
    wait_for(lambda: all(gateway.ask(f"v2/models/{name}/ready").status == 200 for name in ("find", "find_none", "look", "look_one")))
    told = {name: ask(gateway, name, picture()) for name in ("turned", "upright", "nothing")}
    again = ask(gateway, "turned", picture())
    broken = ask(gateway, "turned", b"\x89PNG\r\n\x1a\nno more")
    return told, again, broken, gateway


def right(where, told):
    shape, rows = pixels_of(told["turned"])
    check(shape == [3, 4, 4, 3], f"{where}: a row for each of three objects", shape or told["turned"].body)
    check(rows and all(rows[0][i:i + 3] == QUARTERS[1] for i in range(0, 48, 3)), f"{where}: the first was cut where it is", rows[:1])
    check(len(rows) > 1 and all(rows[1][i:i + 3] == QUARTERS[2] for i in range(0, 48, 3)), f"{where}: so was the second, turned", rows[1:2])
    corners = [tuple(rows[2][i:i + 3]) for i in (0, 9, 36, 45)] if len(rows) > 2 else None
    check(corners == QUARTERS, f"{where}: the third has all four quarters in their places", corners)
    shape, rows = pixels_of(told["upright"])
    check(shape == [3, 4, 4, 3] and rows[1][:3] == QUARTERS[2], f"{where}: a model without batches, without points", shape or told["upright"].body)
    check(pixels_of(told["nothing"])[0] == [0, 4, 4, 3], f"{where}: without objects there are no rows", told["nothing"].body[:300])


def without_head(answer):
    return answer.body[int(answer.headers.get("Inference-Header-Content-Length", 0)):]


def main():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        save(root / "models")
        every = ["find", "find_none", "look", "look_one", "turned", "upright", "nothing"]
        one = pool_of(root / "one", [every])
        told, _, broken, _ = answers(one)
        right("one worker", told)
        check(broken.status == 400 and "step 1 (model 'find')" in broken.error, "one worker: a broken picture names the step", broken.body)
        codes = one.stop()
        check(not any(codes), "the programs end in good order", codes)
        spread = pool_of(root / "spread", [["find", "find_none", "turned", "upright", "nothing"], ["look", "look_one"]])
        apart, again, broken, gateway = answers(spread)
        right("two workers", apart)
        ready = gateway.ask("v2/models/turned/ready")
        check(ready.status == 200, "two workers: the ensemble is ready, although no worker has it whole", ready.body)
        check(all(without_head(apart[name]) == without_head(told[name]) for name in told), "two workers give the same bytes as one")
        check(without_head(again) == without_head(apart["turned"]), "and give them again, from the cache")
        check(broken.status == 400 and "step 1 (model 'find')" in broken.error, "two workers: a broken picture names the step", broken.body)
        plain = gateway.infer("look_one", [{"name": "crop.boxes", "datatype": "FP32", "shape": [1], "data": [1]}])
        check(plain.status != 200 and "crop.boxes" in plain.error, "a client's own job has no such inputs", plain.body)
        logs = "".join(path.read_text() for path in (root / "spread").glob("worker*.log"))
        check("evt=ensemble_waits model=turned" in logs and "evt=ensemble_ready" not in logs, "no worker had the whole ensemble")
        codes = spread.stop()
        check(not any(codes), "the programs end in good order", codes)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
