#!/usr/bin/env python3
"""Compares decoding and steps with Pillow and NumPy, on pictures of every kind that it makes itself.

    pillow.py STEPS_RUN [--count N] [--seed N] [--verbose]      STEPS_RUN: build/tests/steps_run

Decoding, area and bilinear may differ by 1 of 255, cubic by 2. Pictures come from a seeded generator: JPEG (baseline, progressive, all samplings, grey, CMYK,
Exif 1 to 8), PNG (1 to 16 bits, grey, colour, palette, alpha, interlaced), WebP (lossy, lossless, alpha, animated). The last line is `N passed, N failed, N skipped`.
"""
import argparse
import io
import os
import random
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

try:
    import numpy as np
    import PIL
    from PIL import Image, ImageOps
except ImportError:
    other = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock/clients/bin/python"  # tests/run.sh makes it
    if other.exists() and Path(sys.prefix) != other.parent.parent:
        os.execv(other, [str(other), *sys.argv])
    print("Pillow and NumPy are not here: install python3-pil and python3-numpy.\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

LIMITS = {"cubic": 2}
FILTERS = {"bilinear": Image.BILINEAR, "area": Image.BOX, "cubic": Image.BICUBIC, "nearest": Image.NEAREST}
FILL = (114, 20, 200)  # that of steps_run


whole_resize = Image.Image.resize


def resize_in_order(image, size, resample, box=None, reducing_gap=None):
    """Pillow's resize before version 12 always begins across; later ones begin down where that leaves fewer numbers, which matters where an axis clips at 0 or 255."""
    (w, h), (left, top, right, bottom) = size, box or (0, 0, *image.size)
    across, down = w != image.width or (left, right) != (0, image.width), h != image.height or (top, bottom) != (0, image.height)
    fewer = image.height - h
    if not (across and down and fewer > 0 and fewer > 2 * (image.width - w)):
        return whole_resize(image, size, resample, box)
    scaled = whole_resize(image, (image.width, h), resample, (0, top, image.width, bottom))
    return whole_resize(scaled, size, resample, (left, 0, right, h))


if int(PIL.__version__.split(".")[0]) < 12:
    Image.Image.resize = resize_in_order


def scene(rng, width, height, channels):
    """Smooth colours, edges and noise: [height, width, channels] of uint8."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = []
    for _ in range(channels):
        wave = 127 + 120 * np.sin(x / rng.uniform(3, 40) + rng.uniform(0, 6)) * np.cos(y / rng.uniform(3, 40))
        box = (x > rng.uniform(0, width)) & (y > rng.uniform(0, height))
        planes.append(np.where(box, 255 - wave, wave) + np.random.default_rng(rng.getrandbits(32)).normal(0, 12, (height, width)))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def exif_of(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


def jpeg(rng, width, height):
    mode = rng.choice(["RGB", "RGB", "RGB", "L", "CMYK"])
    array = scene(rng, width, height, {"RGB": 3, "L": 1, "CMYK": 4}[mode])
    image = Image.fromarray(array[:, :, 0] if mode == "L" else array, mode)
    options = {"quality": rng.choice([30, 75, 95]), "progressive": rng.random() < 0.4, "optimize": rng.random() < 0.3}
    if mode == "RGB":
        options["subsampling"] = rng.choice(["4:4:4", "4:2:2", "4:2:0"])
    orientation = rng.randrange(0, 9)
    if orientation:
        options["exif"] = exif_of(orientation)
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue(), f"JPEG {mode} {options.get('subsampling', '')} progressive={options['progressive']} exif={orientation}"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_deep(rng, width, height, colour):
    """16 bits a channel; Pillow writes those of grey alone."""
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    array = scene(rng, width, height, channels).astype(">u2") * 257 ^ rng.randrange(256)
    rows = b"".join(b"\0" + array[y].astype(">u2").tobytes() for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    gamma = chunk(b"gAMA", struct.pack(">I", 100000)) if rng.random() < 0.3 else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + gamma + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""), f"PNG of 16 bits, colour type {colour}"


def png_adam7(rng, width, height, colour):
    """Interlaced, which Pillow does not write."""
    channels = {0: 1, 2: 3, 6: 4}[colour]
    array = scene(rng, width, height, channels)
    rows = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        part = array[y0::dy, x0::dx]
        if part.size:
            rows += b"".join(b"\0" + np.ascontiguousarray(line).tobytes() for line in part)
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""), f"PNG interlaced, colour type {colour}"


def png(rng, width, height):
    kind = rng.choice(["L", "RGB", "RGBA", "LA", "P", "P clear", "1", "deep", "deep", "adam7", "adam7"])
    if kind == "deep":
        return png_deep(rng, width, height, rng.choice([0, 2, 4, 6]))
    if kind == "adam7":
        return png_adam7(rng, width, height, rng.choice([0, 2, 6]))
    options = {}
    if kind.startswith("P") or kind == "1":
        image = Image.fromarray(scene(rng, width, height, 3)).convert("1") if kind == "1" else Image.fromarray(scene(rng, width, height, 3)).quantize(rng.choice([2, 4, 13, 256]))
        if kind == "P clear":
            options["transparency"] = rng.randrange(2)
    else:
        array = scene(rng, width, height, len(kind) if kind != "L" else 1)
        image = Image.fromarray(array[:, :, 0] if kind == "L" else array, kind)
    orientation = rng.randrange(0, 9)
    if orientation:
        options["exif"] = exif_of(orientation)
    out = io.BytesIO()
    image.save(out, "PNG", **options)
    return out.getvalue(), f"PNG {kind} exif={orientation}"


def webp(rng, width, height):
    mode = rng.choice(["RGB", "RGBA"])
    image = Image.fromarray(scene(rng, width, height, len(mode)), mode)
    options = {"lossless": rng.random() < 0.5, "quality": rng.choice([20, 80]), "exact": True}
    orientation = rng.randrange(0, 9)
    if orientation:
        options["exif"] = exif_of(orientation)
    animated = rng.random() < 0.2
    if animated:
        options |= {"save_all": True, "append_images": [Image.fromarray(scene(rng, width, height, len(mode)), mode)]}
    out = io.BytesIO()
    image.save(out, "WEBP", **options)
    return out.getvalue(), f"WebP {mode} lossless={options['lossless']} exif={orientation} animated={animated}"


def deep_grey(image):
    return image.mode.startswith("I")


def decoded(data, grey, background):
    """As Pillow has it: upright, RGB or L, alpha dropped or laid over the background."""
    image = Image.open(io.BytesIO(data))
    image.seek(0)
    image = ImageOps.exif_transpose(image)
    if deep_grey(image):  # Pillow's own conversion clips at 255: the high byte is what its colour of 16 bits keeps
        image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    if background:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, background + (255,)), clear)
    image = image.convert("RGB")
    return image.convert("L") if grey else image


def step_one(image, word, grey):
    """The same step by Pillow."""
    fill = Image.new("RGB", (1, 1), FILL).convert("L").getpixel((0, 0)) if grey else FILL
    name, rest = word.split(":", 1)
    if name == "crop":
        x, y, size = rest.split(",")
        w, h = map(int, size.split("x"))
        return image.crop((int(x), int(y), int(x) + w, int(y) + h))
    if name == "middle":
        w, h = map(int, rest.split("x"))
        left, top = round((image.width - w) / 2.0), round((image.height - h) / 2.0)
        return image.crop((left, top, left + w, top + h))
    if name.endswith("-short"):
        short, small = int(rest), min(image.size)
        size = tuple(short if side == small else int(short * side / small) for side in image.size)
        return image.resize(size, FILTERS[name[:-6]])
    size, fit = rest.split(":")
    size = tuple(map(int, size.split("x")))
    if fit == "stretch":
        return image.resize(size, FILTERS[name])
    if fit == "crop":
        return ImageOps.fit(image, size, FILTERS[name])
    return ImageOps.pad(image, size, FILTERS[name], color=fill)


def steps_of(rng, width, height):
    """Words of steps_run for a picture of that upright size."""
    filter = rng.choice(["bilinear", "bilinear", "area", "cubic"])
    w, h = rng.randrange(1, 150), rng.randrange(1, 150)
    kind = rng.randrange(7)
    if kind == 0:
        return ["-"]
    if kind == 1:
        short = rng.randrange(8, 100)
        side = rng.randrange(1, short + 1)
        return [f"{filter}-short:{short}", f"middle:{side}x{side}"]
    if kind == 2:
        cw, ch = rng.randrange(1, width + 1), rng.randrange(1, height + 1)
        x, y = rng.randrange(width - cw + 1), rng.randrange(height - ch + 1)
        return [f"crop:{x},{y},{cw}x{ch}"] + ([f"{filter}:{w}x{h}:stretch"] if rng.random() < 0.5 else [])
    fits = ["stretch", "stretch", "crop", "pad"]
    if min(round(height / width * w), round(width / height * h)) < 1:
        fits.remove("pad")  # Pillow's becomes nothing but border then; ours keeps a pixel
    return [f"{filter}:{w}x{h}:{rng.choice(fits)}"]


class Runner:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().rstrip("\n")


def compare(runner, folder, data, what, steps, grey, background):
    """None, or what differs."""
    path, out = folder / "picture", folder / "out"
    path.write_bytes(data)
    line = runner.ask(path, 1 if grey else 3, "%02x%02x%02x" % background if background else "drop", "+".join(steps), out)
    if not line.startswith("ok "):
        return line
    image = decoded(data, grey, background)
    original = image.size
    for word in steps:
        image = image if word == "-" else step_one(image, word, grey)
    numbers = line.split()[1:]
    width, height = int(numbers[0]), int(numbers[1])
    if (width, height) != image.size or (int(numbers[2]), int(numbers[3])) != original:
        return f"{width}x{height}, Pillow's is {image.size}"
    ours = np.frombuffer(out.read_bytes(), np.uint8).reshape(height, width, 1 if grey else 3).astype(int)
    theirs = np.asarray(image).reshape(ours.shape).astype(int)
    worst = int(np.abs(ours - theirs).max())
    limit = max([1] + [LIMITS.get(word.split(":")[0].split("-")[0], 1) for word in steps])
    return None if worst <= limit else f"differs by {worst}, {float(np.mean(np.abs(ours - theirs) > limit)):.4f} of all numbers by more than {limit}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    rng, failed = random.Random(asked.seed), 0
    runner = Runner(asked.program)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.count):
            width, height = rng.randrange(1, 200), rng.randrange(1, 200)
            data, what = rng.choice([jpeg, png, webp])(rng, width, height)
            grey, background = rng.random() < 0.25, rng.choice([None, (255, 255, 255), (10, 200, 90)])
            upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).size
            steps = steps_of(rng, *upright)
            why = compare(runner, Path(folder), data, what, steps, grey, background)
            if why or asked.verbose:
                print(f"{number}: {what}, {width}x{height}, steps {'+'.join(steps)}, grey={grey}, background={background}: {why or 'as Pillow'}")
            failed += why is not None
    print(f"{asked.count - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
