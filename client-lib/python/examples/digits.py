#!/usr/bin/env python3
"""Sends pictures to the model digits of a pool and draws what came back.

    digits.py [--broker tcp://127.0.0.1:5550] [--to digits.png] FILE.png...

`deploy/quickstart.sh --keep` starts such a pool; deploy/models/digits/samples has pictures. Needs Pillow; without matplotlib the bars are drawn as text.
"""
import argparse

from penstock import Client
from PIL import Image


def draw(pictures, results, to):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        for file, result in zip(pictures, results):
            for found in result.classes:
                print(f"{file[-24:]:24} {found.name or found.index!s:8} {'#' * round(found.score * 40)} {found.score:.3f}")
        return
    figure, places = pyplot.subplots(len(results), 2, figsize=(6, 1.6 * len(results)), squeeze=False)
    for (left, right), file, result in zip(places, pictures, results):
        left.imshow(Image.open(file), cmap="gray")
        left.axis("off")
        right.barh([found.name or str(found.index) for found in result.classes], [found.score for found in result.classes])
        right.set_xlim(0, 1)
        right.set_title(f"{result.backend}, {result.timings.compute * 1e6:.0f} us", fontsize=8)
    figure.tight_layout()
    figure.savefig(to)
    print(f"wrote {to}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="tcp://127.0.0.1:5550")
    parser.add_argument("--to", default="digits.png")
    parser.add_argument("pictures", nargs="+")
    words = parser.parse_args()
    with Client(words.broker) as client:
        jobs = [client.submit("digits", Image.open(file), top_k=3, deadline=10.0) for file in words.pictures]
        draw(words.pictures, [job.result() for job in jobs], words.to)


main()
