#!/usr/bin/env python3
"""How long the first job for a sleeping model takes, from the submit to its answer, and the same job when the model is awake.

    wake.py BUILD_DIR [--cycles 20] [--idle 100] [--threads 1]

A worker with --idle-unload lets MobileNetV2 (1.0, 224 x 224) go; a client asks again when it sleeps. The aim: at most 60 ms for half of the wakes.
Models of ../shared; --model DIR names another folder with a model. Standard library only.
"""
import usage  # noqa: F401
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402
from pool import ROOT, busy, option  # noqa: E402

SHARED = ROOT.parent / "shared" / "models"
MODELS = {"mobilenet_v2": SHARED / "tfjs" / "mobilenet_v2_100_224_nsfw_q8", "mobilenet_v2_u8": SHARED / "tflite" / "mobilenet_v2_100_224_u8"}


def model_folder(stack, name, source):
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (folder / name / "1").mkdir(parents=True)
    for file in source.iterdir():
        if file.is_file() and file.suffix != ".md":
            shutil.copy(file, folder / name / "1")
    return folder


def measure(build, name, source):
    with ExitStack() as stack:
        broker = pool.start_broker(stack, build, "--http", "none")
        pool.start_worker(stack, build, broker["workers"], model_folder(stack, name, source), "xnnpack", "--idle-unload", f"{option('--idle', 100)}ms",
                          "--measure", "off", "--threads", option("--threads", 1))
        run = subprocess.run([build / "tests/bench_wake", broker["clients"], name, str(option("--cycles", 20)), str(option("--idle", 100))],
                             capture_output=True, text=True, timeout=600)
        if run.returncode != 0:
            sys.exit(f"wake: {run.stderr}")
        told = json.loads(run.stdout)
        print(f"{name:16}  asleep {told['asleep_ms']['p50']:6.1f} ms (p90 {told['asleep_ms']['p90']:.1f}, max {told['asleep_ms']['max']:.1f})  "
              f"awake {told['awake_ms']['p50']:5.1f} ms  n={told['cycles']}")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, noise = Path(sys.argv[1]), busy()
    if "--model" in sys.argv:
        source = Path(sys.argv[sys.argv.index("--model") + 1])
        measure(build, source.name, source)
    elif not SHARED.is_dir():
        sys.exit(f"skipped: {SHARED} is not there")
    else:
        for name, source in MODELS.items():
            measure(build, name, source)
    if noise:
        print(noise)


if __name__ == "__main__":
    main()
