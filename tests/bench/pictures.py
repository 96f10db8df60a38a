#!/usr/bin/env python3
"""The time from a JPEG to a model's float tensor, beside opencv-python-headless doing the same: decode at full size, resize, normalise, NHWC float32.

    pictures.py STEPS_RUN FILE.jpg [--size 224] [--rounds 200] [--filter area]      STEPS_RUN: build/bin/steps_run

Both take turns in one run, each with one thread. OpenCV resizes with INTER_AREA, which like ours looks at every pixel; --linear takes its INTER_LINEAR, which looks at
four and skips the others. Needs opencv-python-headless and NumPy (a venv of your own). Prints medians, p10/p90 and the ratio.
"""
import argparse
import statistics
import subprocess
import sys
import time

import cv2
import numpy as np


def opencv_once(data, size, how):
    begin = time.perf_counter()
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    small = cv2.cvtColor(cv2.resize(image, (size, size), interpolation=how), cv2.COLOR_BGR2RGB)
    tensor = (small.astype(np.float32) * np.float32(1 / 255) - MEAN) / STD
    return (time.perf_counter() - begin) * 1e3, tensor


MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def row(name, times):
    times = sorted(times)
    print(f"{name:28} ms  n={len(times)}  median {statistics.median(times):.3f}  p10 {times[len(times) // 10]:.3f}  p90 {times[len(times) * 9 // 10]:.3f}")
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("file")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--filter", default="area", choices=["area", "bilinear", "cubic"])
    parser.add_argument("--linear", action="store_true")
    asked = parser.parse_args()
    cv2.setNumThreads(1)
    data = open(asked.file, "rb").read()
    how = cv2.INTER_LINEAR if asked.linear else cv2.INTER_AREA
    steps = f"{asked.filter}:{asked.size}x{asked.size}:stretch"
    ours = subprocess.Popen([asked.program, "--time", str(asked.rounds + 5), asked.file, steps], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    times = ([], [])
    for turn in range(asked.rounds + 5):
        print(file=ours.stdin, flush=True)
        own, (peer, _) = float(ours.stdout.readline()), opencv_once(data, asked.size, how)
        if turn >= 5:
            times[0].append(own)
            times[1].append(peer)
    ours.stdin.close()
    a, b = row(f"penstock {asked.filter}", times[0]), row("opencv " + ("INTER_LINEAR" if asked.linear else "INTER_AREA"), times[1])
    print(f"ratio {a / b:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
