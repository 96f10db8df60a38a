#!/usr/bin/env python3
"""Compares decoding and steps with Pillow on pictures that other programs than Pillow wrote, and on those that few write; by hand.

    unseen.py STEPS_RUN [--count N] [--seed N] [--verbose]      STEPS_RUN: build/tests/steps_run; needs Pillow, NumPy and ImageMagick (convert)

ImageMagick writes JPEG (4:1:1, 4:4:0, 4:1:0, CMYK, grey, progressive), PNG (every colour type and depth, interlaced, all row filters), BMP (1 to 24 bits, OS/2's too) and WebP. This
program writes PNG with a transparent colour, part-transparent palettes and interlaced low depths, Exif in both byte orders, behind other segments and in PNG. Sizes go from 1 x 1 to
1 x 3000. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import io
import random
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import pillow
from pillow import Image, ImageOps, chunk, np, scene

ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def magick(array, options, form):
    """The pixels through `convert`."""
    height, width, channels = array.shape
    depth = {1: b"P5", 3: b"P6"}[channels]
    done = subprocess.run(["convert", "-", *options, form + ":-"], input=depth + b" %d %d 255\n" % (width, height) + array.tobytes(), capture_output=True)
    return done.stdout if done.returncode == 0 else None


def jpeg_magick(rng, width, height):
    sampling = rng.choice(["4:1:1", "4:4:0", "4:1:0", "1x2", "2x2", "4:4:4", "4:2:2"])
    options = ["-sampling-factor", sampling, "-quality", str(rng.choice([5, 50, 88, 99, 100])), "-interlace", rng.choice(["None", "JPEG"]), "-colorspace", rng.choice(["sRGB", "sRGB", "Gray", "CMYK"])]
    return magick(scene(rng, width, height, 3), options, "JPEG"), "JPEG of ImageMagick " + " ".join(options)


def png_magick(rng, width, height):
    colour = rng.choice([0, 2, 3, 4, 6])
    depth = rng.choice({0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}[colour])
    options = ["-define", f"png:color-type={colour}", "-define", f"png:bit-depth={depth}", "-interlace", rng.choice(["None", "PNG"]), "-define", f"png:compression-filter={rng.randrange(6)}"]
    if colour == 3:
        options = ["-colors", str(2 ** depth), *options]
    return magick(scene(rng, width, height, 3), options, "PNG"), "PNG of ImageMagick " + " ".join(options)


def bmp_magick(rng, width, height):
    form = rng.choice(["BMP", "BMP3", "BMP2"])
    options = rng.choice([[], ["-colors", "16"], ["-type", "Grayscale"], ["-monochrome"], ["-type", "Palette", "-colors", "256"]]) + ["-compress", "None"]
    return magick(scene(rng, width, height, 3), options, form), f"{form} of ImageMagick {' '.join(options)}"


def webp_magick(rng, width, height):
    options = ["-define", f"webp:lossless={rng.choice(['true', 'false'])}", "-quality", str(rng.choice([1, 60, 100])), "-define", f"webp:method={rng.randrange(7)}"]
    return magick(scene(rng, width, height, 3), options, "WEBP"), "WebP of ImageMagick " + " ".join(options)


# ---- PNG, byte by byte

def packed(row, depth):
    """A row of samples as bits."""
    if depth == 16:
        return np.asarray(row, ">u2").tobytes()
    if depth == 8:
        return np.asarray(row, np.uint8).tobytes()
    bits = "".join(format(int(v), f"0{depth}b") for v in np.asarray(row).ravel())
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def filtered(rng, lines, stride):
    """Each line by a filter of its own."""
    out, before = b"", b""
    for line in lines:
        kind, up = rng.randrange(5), before or bytes(len(line))
        coded = bytearray()
        for i, v in enumerate(line):
            a, b, c = line[i - stride] if i >= stride else 0, up[i], up[i - stride] if i >= stride else 0
            p = a + b - c
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            coded.append((v - (0, a, b, (a + b) // 2, paeth)[kind]) & 255)
        out, before = out + bytes([kind]) + bytes(coded), line
    return out


def png_own(rng, width, height):
    colour = rng.choice([0, 2, 3, 3, 4, 6])
    depth = rng.choice({0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}[colour])
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    samples = scene(rng, width, height, channels).astype(np.uint32)
    samples = samples * 257 ^ rng.randrange(256) if depth == 16 else samples >> (8 - depth)
    interlaced, stride = rng.random() < 0.5, max(1, channels * depth // 8)
    parts = [samples[y0::dy, x0::dx] for x0, y0, dx, dy in ADAM7] if interlaced else [samples]
    data = b"".join(filtered(rng, [packed(line, depth) for line in part], stride) for part in parts if part.size)
    chunks = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))]
    clear = rng.random() < 0.6 and (depth == 8 or colour == 3)  # of other depths Pillow compares what is no sample
    if colour == 3:
        entries = rng.randrange(max(1, int(samples.max()) + 1), 2 ** depth + 1) if int(samples.max()) + 1 <= 2 ** depth else 2 ** depth
        chunks.append(chunk(b"PLTE", bytes(rng.randrange(256) for _ in range(3 * entries))))
        if clear:
            chunks.append(chunk(b"tRNS", bytes(rng.randrange(256) for _ in range(rng.randrange(1, entries + 1)))))
    elif colour in (0, 2) and clear:
        at = samples[rng.randrange(height), rng.randrange(width)]
        chunks.append(chunk(b"tRNS", b"".join(struct.pack(">H", int(v)) for v in at)))
    orientation = rng.randrange(0, 9)
    if orientation:
        chunks.append(chunk(b"eXIf", tiff(rng, orientation)))
    coded = zlib.compress(data, rng.randrange(10))
    cut = rng.randrange(len(coded))
    chunks += [chunk(b"IDAT", coded[:cut]), chunk(b"IDAT", b""), chunk(b"IDAT", coded[cut:]), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks), f"own PNG, colour type {colour}, {depth} bits, interlaced={interlaced}, clear={clear}, exif={orientation}"


# ---- Exif

def tiff(rng, orientation):
    """The entry in one of both byte orders, with others around it."""
    order = rng.choice("<>")
    entries = [struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)]
    if rng.random() < 0.5:
        entries.insert(0, struct.pack(order + "HHII", 0x0100, 4, 1, 17))
    if rng.random() < 0.5:
        entries.append(struct.pack(order + "HHII", 0x0128, 4, 1, 2))
    pad = b"\0" * rng.choice([0, 0, 6])
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8 + len(pad)) + pad
    return head + struct.pack(order + "H", len(entries)) + b"".join(entries) + struct.pack(order + "I", 0)


def jpeg_exif(rng, width, height):
    """Exif behind JFIF, comments and XMP."""
    out, orientation = io.BytesIO(), rng.randrange(1, 9)
    Image.fromarray(scene(rng, width, height, 3), "RGB").save(out, "JPEG", quality=90, progressive=rng.random() < 0.5)
    data = out.getvalue()
    segment = lambda marker, body: b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body
    others = [segment(0xFE, b"a comment"), segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"), segment(0xED, b"Photoshop 3.0\0" + bytes(20))]
    rng.shuffle(others)
    extra = b"".join(others[:rng.randrange(4)]) + segment(0xE1, b"Exif\0\0" + tiff(rng, orientation)) + b"".join(others[2:])
    end = 4 + struct.unpack(">H", data[4:6])[0]  # behind JFIF's own
    return data[:end] + extra + data[end:], f"JPEG with Exif {orientation} between other segments"


def size_of(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice([(1, 1), (1, 2), (2, 1), (3, 3), (7, 1), (8, 8), (9, 17)])
    if kind == 1:
        return rng.choice([(1, 3000), (3000, 1), (2, 900), (900, 2), (1500, 3), (5, 1200)])
    return rng.randrange(1, 300), rng.randrange(1, 300)


def steps_of(rng, width, height):
    """Every filter with every fit, also twice, far smaller and larger."""
    if rng.random() < 0.5:
        return pillow.steps_of(rng, width, height)
    filter = rng.choice(["bilinear", "area", "cubic", "nearest"])
    w, h = rng.choice([(1, 1), (2, 3), (224, 224), (31, 257), (300, 5)]) if rng.random() < 0.5 else (rng.randrange(1, 260), rng.randrange(1, 260))
    fits = ["stretch", "crop", "pad"]
    if min(round(height / width * w), round(width / height * h)) < 1:
        fits.remove("pad")
    steps = [f"{filter}:{w}x{h}:{rng.choice(fits)}"]
    if rng.random() < 0.3:
        steps.append(f"middle:{rng.randrange(1, w + 1)}x{rng.randrange(1, h + 1)}")
    if rng.random() < 0.2:
        steps.append(f"{rng.choice(['bilinear', 'area'])}:{rng.randrange(1, 60)}x{rng.randrange(1, 60)}:stretch")
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    rng, failed, skipped = random.Random(asked.seed), 0, 0
    runner = pillow.Runner(asked.program)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.count):
            width, height = size_of(rng)
            data, what = rng.choice([jpeg_magick, png_magick, bmp_magick, webp_magick, png_own, png_own, jpeg_exif, pillow.jpeg, pillow.png])(rng, width, height)
            grey, background = rng.random() < 0.25, rng.choice([None, (255, 255, 255), (10, 200, 90)])
            try:
                upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).size
            except Exception as error:  # Pillow itself does not read it
                skipped += 1
                print(f"{number}: {what}: Pillow: {error}")
                continue
            steps = steps_of(rng, *upright)
            why = pillow.compare(runner, Path(folder), data, what, steps, grey, background)
            if why or asked.verbose:
                print(f"{number}: {what}, {width}x{height}, steps {'+'.join(steps)}, grey={grey}, background={background}: {why or 'as Pillow'}")
            failed += why is not None
    print(f"{asked.count - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
