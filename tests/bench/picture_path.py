#!/usr/bin/env python3
"""What the whole path of pictures keeps of the engine's own throughput: JPEGs of many clients through broker, decoders and batches into a model.

    picture_path.py BUILD_DIR MODEL_FOLDER FILE.jpg [--clients 64] [--rounds 5] [--seconds 3] [--decoders N]

MODEL_FOLDER is a model that takes pictures (`picture` in its config.json), such as deploy/answers/mobilenet_v2 with its file. In turns: `penstock-engine bench` on the
model's file (one thread, batches of 1 and of max_batch_size; the better one counts), and a pool of one worker with one slot of one thread under `penstock load
--concurrency 64 --image FILE.jpg`. Free processors for the decoders, broker and clients are part of the claim: with fewer than three the engine's own thread has to
share. So the share of the slot's time in which the model ran is printed, too: that one does not depend on the others' speed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pool


def engine_rate(build, model, batch):
    """Rows a second of the engine alone."""
    command = [build / "bin/penstock-engine", "bench", "--model", model, "--threads", "1", "--json", "--runs", "12"]
    if batch > 1:
        command += ["--batch", str(batch)]
    told = json.loads(subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout)
    return batch * 1e3 / told["median_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--decoders", type=int, default=0)
    options = parser.parse_args()
    batch = json.loads((options.model / "config.json").read_text()).get("max_batch_size", 1)
    file = next(p for p in sorted((options.model / "1").iterdir()) if p.suffix in (".onnx", ".tflite", ".json"))
    alone, path, busy = [], [], []
    with ExitStack() as stack:
        ends = pool.start_broker(stack, options.build, "--http", "none")
        pool.start_worker(stack, options.build, ends["workers"], options.model.parent, "auto", "--model", options.model.name, "--measure", "off", "--decoders",
                          str(options.decoders))
        for _ in range(options.rounds):
            alone.append(max(engine_rate(options.build, file, size) for size in {1, batch}))
            run = pool.load(options.build, ends["clients"], options.model.name, options.seconds, "--concurrency", options.clients, "--image", options.picture)
            told = json.loads(run.communicate()[0])
            if told["errors"]:
                sys.exit(f"{told['errors']} jobs failed")
            path.append(told["throughput_per_s"])
            busy.append(told["throughput_per_s"] * told["slot_us_mean"] / 1e6)
            print(f"engine {alone[-1]:8.1f} pictures/s   path {path[-1]:8.1f}   ratio {path[-1] / alone[-1]:.3f}   slot computes {100 * busy[-1]:5.1f} % of the time   "
                  f"load average {os.getloadavg()[0]:.1f}", flush=True)
    print(f"median ratio {statistics.median(p / a for p, a in zip(path, alone)):.3f}, best of each {max(path) / max(alone):.3f}, "
          f"slot computes {100 * statistics.median(busy):.1f} % of the time; {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
