#!/usr/bin/env python3
"""Pictures in a real browser: the gateway's page /try, and the dashboard's last pictures (--http-preview), before a real pool.

    try_test.py BIN_DIR SOURCE_DIR [--shots FOLDER]

The model finds two boxes where its weights say, and as a mask what is red. Skips with a message where no Chromium is installed. The last line is
`N passed, N failed, N skipped`.
"""
import base64
import json
import re
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zlib
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SHOTS = Path(sys.argv[4]) if "--shots" in sys.argv else None
sys.path[:0] = [str(SOURCE / "tests/e2e"), str(SOURCE / "tests/gateway")]
import browser
import models
from pool import Pool, wait_for

passed = failed = 0
WIDTH, HEIGHT = 160, 80
ROWS = [[0.125, 0.25, 0.5, 0.75, 0.9, 0.1], [0.625, 0.5, 0.875, 1.0, 0.2, 0.7]]  # left, top, right, bottom, cat, dog


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, seen if not condition else "", flush=True)


def weights(name, rows):
    """An initializer [1, rows, columns]."""
    dims = (1, len(rows), len(rows[0]))
    data = b"".join(struct.pack(f"<{dims[2]}f", *row) for row in rows)
    return b"".join(models.field(1, d) for d in dims) + models.field(2, 1) + models.field(8, name) + models.field(9, data)


def finder():
    node = lambda op, ins, out: models.field(1, b"".join(models.field(1, i) for i in ins) + models.field(2, out) + models.field(4, op))
    graph = node("Identity", ["weights"], "boxes") + node("Identity", ["image"], "red") + models.field(2, "graph") + models.field(5, weights("weights", ROWS))
    graph += models.field(11, models.tensor_of("image", "FP32", [1, 16, 16, 3]))
    graph += models.field(12, models.tensor_of("boxes", "FP32", [1, 2, 6])) + models.field(12, models.tensor_of("red", "FP32", [1, 16, 16, 3]))
    return models.field(1, 8) + models.field(8, models.field(1, "") + models.field(2, 17)) + models.field(7, graph)


CONFIG = {
    "max_batch_size": 0,
    "picture": {"steps": [{"resize": {"width": 16, "height": 16}}, {"normalize": {"range": [0, 1]}}, {"layout": "nhwc"}]},
    "output": {"labels": ["cat", "dog"]},
    "answer": {"format": "json", "steps": [
        {"boxes": {"form": "plain", "boxes": "boxes", "order": "ltrb", "normalized": True, "scores_at": 4, "classes": 2, "score": 0.5}},
        {"mask": {"output": "red", "form": "threshold", "channel": 0, "channels_first": False, "png": True}}]},
}


def picture():
    """The left half is red, the right half blue; RGB."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\0" + bytes([220, 0, 0]) * (WIDTH // 2) + bytes([0, 0, 220]) * (WIDTH // 2)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * HEIGHT)) + chunk(b"IEND", b"")


# The colour of a canvas at a point of the picture.
PIXEL = """(canvas => [...canvas.getContext("2d").getImageData(%d * canvas.width / %d, %d * canvas.height / %d, 1, 1).data].slice(0, 3))(document.querySelector("%s"))"""


def pixel(page, canvas, x, y):
    return page.run(PIXEL % (x, WIDTH, y, HEIGHT, canvas))


def close(a, b, within=30):
    return all(abs(one - other) <= within for one, other in zip(a, b))


def drawing(page, canvas, where):
    """Boxes' edges are green and blue (of classes 0 and 1), the mask is green over red, the rest is as it was."""
    check(page.run(f"document.querySelector('{canvas}').width / document.querySelector('{canvas}').height") == 2, where + ": the drawing has the picture's proportions")
    check(close(pixel(page, canvas, 80, 40), (80, 220, 120), 60), where + ": the first box has its right edge there", pixel(page, canvas, 80, 40))
    check(close(pixel(page, canvas, 100, 60), (64, 160, 255), 60), where + ": the second one its left edge", pixel(page, canvas, 100, 60))
    check(close(pixel(page, canvas, 10, 70), (157, 99, 54)), where + ": the mask lies over what is red", pixel(page, canvas, 10, 70))
    check(close(pixel(page, canvas, 150, 10), (0, 0, 220)), where + ": and over nothing else", pixel(page, canvas, 150, 10))


DROP = """(async (name, data) => {
  const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0)), given = new DataTransfer();
  given.items.add(new File([bytes], name));
  document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: given, bubbles: true, cancelable: true}));
})("%s", "%s")"""


def drop(page, name, data):
    page.run(DROP % (name, base64.b64encode(data).decode()))


TURNED = """(async () => {
  const {answerOf, paint} = await import(performance.getEntriesByType("resource").map(one => one.name).find(name => name.endsWith("draw.js")));
  const answer = answerOf({boxes: {shape: [1, 1, 4], data: [40, 10, 80, 50]}, count: {shape: [1], data: [1]},
                           corners: {shape: [1, 1, 4, 2], data: [60, 10, 80, 30, 60, 50, 40, 30]}});
  const canvas = Object.assign(document.createElement("canvas"), {id: "turned"});
  document.body.append(canvas);
  await paint(canvas, await createImageBitmap(new ImageData(160, 80)), answer);
  window.painted = true;
})()"""


def turned_box(page):
    page.run(TURNED)
    check(page.await_true("window.painted === true") and max(pixel(page, "#turned", 70, 40)) > 100, "a turned box is drawn by its corners", pixel(page, "#turned", 70, 40))
    check(max(pixel(page, "#turned", 80, 49)) == 0, "and not as the upright one around it", pixel(page, "#turned", 80, 49))


def page_try(page, gateway):
    page.open(f"http://{gateway.address}/try")
    check(page.await_true("document.querySelector('#model')?.value === 'finder'"), "/try lists the model that takes pictures, and no other")
    drop(page, "half.png", picture())
    check(page.await_true("/^2 objects, a mask in/.test(document.querySelector('#status').textContent)"), "a dropped picture is answered", page.run("document.querySelector('#status').textContent"))
    drawing(page, "#drawing", "/try")
    check(page.run("[...document.querySelectorAll('#found li')].map(li => li.textContent)") == ["cat 0.90", "dog 0.70"], "labels and scores are listed")
    turned_box(page)
    if SHOTS:
        page.shot(SHOTS / "try.png")
    drop(page, "text.png", b"this is no picture")
    check(page.await_true("document.querySelector('#status').className === 'bad' && /picture/.test(document.querySelector('#status').textContent)"), "what is no picture is refused with the worker's sentence")
    sources = page.run("performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))")
    check(sources, "nothing comes from elsewhere")


def fetch(http, path):
    try:
        with urllib.request.urlopen(f"http://{http}{path}", timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, None, error.read()


def rows(http):
    return json.loads(fetch(http, "/api/preview/")[2])["previews"]


def kept(pool, http, file):
    """What the broker keeps: the last of a busy model, the bytes as they came, the answer as it went."""
    wait_for(lambda: len(rows(http)) >= 1)
    row = rows(http)[0]
    check((row["model"], row["type"], row["bytes"]) == ("finder", "image/png", len(picture())), "the picture of /try is kept", row)
    status, kind, body = fetch(http, f"/api/preview/{row['id']}")
    check((status, kind, body) == (200, "image/png", picture()), "byte by byte")
    status, kind, body = fetch(http, f"/api/preview/{row['id']}.json")
    check(status == 200 and kind == "application/json" and len(json.loads(body)["objects"]) == 2, "with its answer", body[:200])
    for path in ("/api/preview/999", "/api/preview/x", f"/api/preview/{row['id']}.txt"):
        check(fetch(http, path)[0] == 404, f"{path} is not there")
    for _ in range(9):
        subprocess.run([BIN / "penstock", "submit", "--broker", pool.clients, "finder", file, "--no-cache"], check=True, capture_output=True)
    check(wait_for(lambda: rows(http)[0]["id"] > row["id"]) and len(rows(http)) <= 6, "of one model at most six are kept", len(rows(http)))


def dashboard(page, http):
    page.open(f"http://{http}/")
    check(page.await_true("document.querySelectorAll('#previews figure').length === 6"), "the dashboard shows them")
    check(page.await_true("/cat 0.90, dog 0.70/.test(document.querySelector('#previews figcaption').textContent)"), "with what was found")
    drawing(page, "#previews canvas", "dashboard")
    if SHOTS:
        page.resize(1400, 2000)
        page.idle(1.5)
        page.shot(SHOTS / "previews.png")


def off(page, folder):
    """Without the option nothing is kept, and nothing is shown."""
    pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--slots", "1", "--threads", "1"], ["--http", "127.0.0.1:*"])
    http = address(pool)
    subprocess.run([BIN / "penstock", "submit", "--broker", pool.clients, "finder", folder / "half.png"], check=True, capture_output=True)
    check(rows(http) == [] and fetch(http, "/api/preview/1")[0] == 404, "without --http-preview nothing is kept")
    page.open(f"http://{http}/")
    check(page.await_true("document.querySelectorAll('#workers tbody tr.live').length === 1"), "the dashboard comes")
    check(page.run("document.querySelector('#previews').hidden && getComputedStyle(document.querySelector('#previews')).display === 'none'"), "and has no place for pictures")
    codes = pool.stop()
    check(not any(codes), "the programs end in good order", codes)


def address(pool):
    """Of the pages; the line that says it was read by Pool."""
    return re.search(r"http=(127\S+)", (pool.folder / "broker1.log").read_text()).group(1)


def main():
    if not browser.program():
        print("no chromium here (package chromium): pictures were not looked at\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save(folder / "models", "finder", finder(), CONFIG)
        models.save(folder / "models", "plain", models.model([("x", "FP32", ["n", 4])], [("Identity", ["x"], ["y"])], [("y", "FP32", ["n", 4])]), {"max_batch_size": 8})
        (folder / "half.png").write_bytes(picture())
        pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--slots", "1", "--threads", "1"], ["--http", "127.0.0.1:*", "--http-preview"])
        http, gateway = address(pool), pool.gateway()
        wait_for(lambda: gateway.ask("v2/models/finder/ready").status == 200)
        with browser.Browser() as page:
            page_try(page, gateway)
            kept(pool, http, folder / "half.png")
            dashboard(page, http)
            codes = pool.stop()
            check(not any(codes), "the programs end in good order", codes)
            (folder / "off").mkdir()
            (folder / "off/models").symlink_to(folder / "models")
            (folder / "off/half.png").symlink_to(folder / "half.png")
            complaints = [one for one in page.complaints if not re.search("400|ERR_|Canvas2D", one)]  # the refused picture; the pool that has ended; how this test reads pixels
            check(not complaints, f"the console is silent: {complaints[:3]}")
            off(page, folder / "off")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
