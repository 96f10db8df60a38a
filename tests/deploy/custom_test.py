#!/usr/bin/env python3
"""deploy/custom/build.sh: every key does something and others are refused: custom_test.py BIN SOURCE. Lists alone are made; tests/layering/build_options.py builds from one.

The list of a model is also what `penstock-engine kernels` prints, and `sizes` weighs the programs of this build.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
ENGINE, MODEL = BIN / "penstock-engine", SOURCE / "deploy/models/digits/1/model.onnx"
complaints, checks = [], 0


def expect(good, what):
    global checks
    checks += 1
    if not good:
        complaints.append(what)
        print("failed:", what)


def plan(folder, name="custom.json", **config):
    """Exit status, what was said, and the list."""
    (folder / name).write_text(json.dumps(config))
    listed = folder / config.get("output", "out") / "kernels.txt"
    listed.unlink(missing_ok=True)
    done = subprocess.run([SOURCE / "deploy/custom/build.sh", folder / name, "--plan", *(["--engine", ENGINE] if "models" in config else [])], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr, listed.read_text() if listed.exists() else ""


def refusals(folder):
    fine = {"kernels": ["Relu f32"], "output": "out"}
    for config, words in (({**fine, "backend": ["xnnpack"]}, "has the key 'backend', which means nothing: there are kernels, models, backends"),
                          ({"output": "out"}, "one of kernels and models is needed"), ({**fine, "models": [str(MODEL)]}, "one of kernels and models is needed"),
                          ({"kernels": ["Relu f32"]}, "output is missing"), ({**fine, "backends": ["cuda"]}, "backends names 'cuda': there are reference, xnnpack, vulkan"),
                          ({**fine, "importers": ["caffe"]}, "importers names 'caffe'"), ({**fine, "precisions": "f32"}, "precisions is a list of names"),
                          ({**fine, "kernels": []}, "kernels and models are lists of texts"), ({"models": ["none.onnx"], "output": "out"}, "there is no model"),
                          ({**fine, "static": "yes"}, "static is true or false"), ({**fine, "static": True}, "static needs backends"),
                          ({**fine, "static": True, "backends": ["reference"], "importers": ["onnx", "tfjs"]}, "static needs backends"),
                          ({"models": [str(MODEL)], "importers": ["tfjs"], "backends": ["reference"], "output": "out"}, "need the importer onnx, which importers leaves out")):
        status, said, listed = plan(folder, **config)
        expect(status != 0 and words in said and not listed, f"{config} is refused: {said}")


def effects(folder):
    status, said, listed = plan(folder, kernels=["Relu f32 xnnpack", "Conv f32 vulkan", "Pad any graph"], backends=["xnnpack"], output="one/two")
    expect(status == 0 and "Relu f32 xnnpack" in listed and "Conv" not in listed and "Pad any graph" in listed, f"backends choose among lines, output the folder: {said}{listed}")
    _, _, plain = plan(folder, models=[str(MODEL)], backends=["reference"], output="out")
    expect("Conv f32 reference" in plain and "import onnx Conv" in plain and "precision f32" in plain and "xnnpack" not in plain, f"models decide the list: {plain}")
    _, _, half = plan(folder, models=[str(MODEL)], backends=["reference"], precisions=["f32", "f16_storage"], output="out")
    expect("precision f16_storage" in half, f"precisions are in the list: {half}")
    has = json.loads(subprocess.run([ENGINE, "info", "--json"], capture_output=True, text=True).stdout)
    if any(b["name"] == "xnnpack" and b["available"] for b in has["backends"]):
        _, _, fast = plan(folder, models=[str(MODEL)], backends=["xnnpack"], output="out")
        expect("Conv f32 xnnpack" in fast and "Conv f32 reference" not in fast, f"backends decide whose kernels: {fast}")
    locked = {"kernels": plain.splitlines()[1:], "backends": ["reference"], "importers": ["onnx"], "precisions": ["f32"], "output": "again", "version": "0.1.0", "sizes": {}}
    status, said, again = plan(folder, name="custom.lock.json", **locked)
    expect(status == 0 and again.splitlines()[1:] == plain.splitlines()[1:], f"a lock file gives its list again: {said}")


def told_by_the_engine(folder):
    told = json.loads(subprocess.run([ENGINE, "kernels", "--backend", "reference", "--json", MODEL], capture_output=True, text=True).stdout)
    expect({"operator": "Conv", "type": "f32", "backend": "reference"} in told["kernels"], "penstock-engine kernels --json: kernels")
    expect({"format": "onnx", "operator": "Conv"} in told["imports"] and told["precisions"] == ["f32"], "penstock-engine kernels --json: imports, precisions")
    library = BIN.parent / "lib/libpenstock-engine.so.0"
    whole = json.loads(subprocess.run([ENGINE, "sizes", "--json", "--program", library, "--map", BIN.parent / "maps/libpenstock-engine.map"], capture_output=True, text=True).stdout or "{}")
    parts = {part["name"]: part["code"] for part in whole.get("parts", [])}
    expect(parts.get("engine/library", 0) > 1000 and any("libc.so" in item["path"] for item in whole["libraries"]), "penstock-engine sizes of the library")
    svg, image = folder / "sizes.svg", folder / "image"
    before = BIN.parent / "maps/penstock-worker.map"
    sizes = subprocess.run([ENGINE, "sizes", "--json", "--svg", svg, "--image", image, *(["--before", before] if before.exists() else [])], capture_output=True, text=True)
    told = json.loads(sizes.stdout or "{}")
    parts = {part["name"]: part["code"] + part["other"] for part in told.get("parts", [])}
    expect(parts.get("engine/graph", 0) > 10000 and told["engine"] < told["code"] + told["other"], f"penstock-engine sizes: parts {sizes.stderr}")
    expect(sum(parts.values()) == told["code"] + told["other"], "penstock-engine sizes: the parts are the whole")
    expect(any("libc.so" in item["path"] for item in told["libraries"]), "penstock-engine sizes: shared libraries")
    expect(svg.exists() and svg.read_text().count("<rect") >= len(parts) and "engine/graph" in svg.read_text(), "penstock-engine sizes --svg: a rectangle for each part")
    inside = image / "rootfs/usr/bin/penstock-engine"
    if os.geteuid() == 0 and shutil.which("chroot"):  # what a container of it would see, without a daemon that makes one
        ran = subprocess.run(["chroot", image / "rootfs", "/usr/bin/penstock-engine", "--version"], capture_output=True, text=True)
        expect(ran.returncode == 0 and ran.stdout.startswith("penstock "), f"penstock-engine sizes --image: it runs with nothing else around it: {ran.stderr}")
    expect(inside.exists() and "FROM scratch" in (image / "Dockerfile").read_text() and len(list(image.rglob("*.so*"))) == len(told["libraries"]), "penstock-engine sizes --image: the program, its libraries, a Dockerfile")
    status = subprocess.run([ENGINE, "sizes", "--map", SOURCE / "README.md"], capture_output=True, text=True)
    expect(status.returncode == 1 and "is no map of the linker" in status.stderr, "penstock-engine sizes refuses what is no map")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        refusals(Path(scratch))
        effects(Path(scratch))
        told_by_the_engine(Path(scratch))
    print(f"{checks - len(complaints)} passed, {len(complaints)} failed, 0 skipped")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
