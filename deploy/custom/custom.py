"""Builds with nothing else in them: custom.py FILE [--engine PATH] [--plan]. FILE is a custom.json, or the custom.lock.json of an earlier build.

models (or kernels) -> the list of -DPENSTOCK_KERNELS= -> cmake -> stripped programs -> a lock file with what is in them and what they weigh.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
KEYS = ("kernels", "models", "backends", "importers", "precisions", "pictures", "answers", "static", "output")
LOCK_KEYS = ("version", "sizes")  # what a lock file says beside them; a build from it makes them anew
BACKENDS, IMPORTERS = ("reference", "xnnpack", "vulkan"), ("onnx", "tfjs", "tflite")
PRECISIONS = ("f32", "f16_storage", "f16_mma", "f16_math", "bf16", "int8")
PROGRAMS, LIBRARY, STATIC = ("penstock-engine", "penstock-worker"), "libpenstock-engine", "penstock-run"


def refuse(sentence):
    sys.exit(f"build.sh: {sentence}")


def words(config, key, known, default):
    """A list of words of `known`, without repeats."""
    given = config.get(key, default)
    if not isinstance(given, list) or not given or not all(isinstance(word, str) for word in given):
        refuse(f"{key} is a list of names, such as {json.dumps(list(known)[:2])}")
    for word in given:
        if word not in known:
            refuse(f"{key} names '{word}': there are {', '.join(known)}")
    return list(dict.fromkeys(given))


def read(path):
    """The keys of the file, checked."""
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        refuse(f"{path} cannot be read: {error}")
    if not isinstance(config, dict):
        refuse(f"{path} is no JSON object")
    for key in config:
        if key not in KEYS + LOCK_KEYS:
            refuse(f"{path} has the key '{key}', which means nothing: there are {', '.join(KEYS)}")
    if ("kernels" in config) == ("models" in config):
        refuse("one of kernels and models is needed: lines of a list, or files of models")
    source = config.get("kernels", config.get("models"))
    if not isinstance(source, list) or not source or not all(isinstance(item, str) for item in source):
        refuse("kernels and models are lists of texts: [\"Conv f32 xnnpack\"], [\"model.onnx\"]")
    if not isinstance(config.get("pictures", False), bool):
        refuse(f"{path}: pictures is true or false: whether the worker decodes JPEG, PNG and WebP")
    if not isinstance(config.get("answers", False), bool) or (config.get("answers") and not config.get("pictures")):
        refuse(f"{path}: answers is true or false, and needs pictures: whether the worker runs the steps behind a model")
    if not isinstance(config.get("static", False), bool):
        refuse(f"{path}: static is true or false: whether penstock-run is built, which loads no library at all")
    if not isinstance(config.get("output"), str):
        refuse("output is missing: the folder for what is built")
    return config


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        refuse(f"`{' '.join(str(word) for word in command[:6])} ...` failed:\n{(done.stdout + done.stderr).strip()[-3000:]}")
    return done.stdout


def built(folder, *options, targets):
    run(["cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja" if shutil.which("ninja") else "Unix Makefiles", "-DPENSTOCK_TESTS=OFF", *options])
    run(["cmake", "--build", folder, "--parallel", str(os.cpu_count() or 1), "--target", *targets])


def whole_engine(given, output):
    """An engine with everything in it tells what models need, and is what the new one is compared with."""
    if given:
        return Path(given).resolve()
    print("building the whole engine first (--engine PATH names one that is there)", flush=True)
    built(output / "whole", "-DPENSTOCK_FOLDERS=proto;picture;engine;worker", targets=[*PROGRAMS, "penstock_engine_shared"])
    return output / "whole/bin/penstock-engine"


def precision_of(engine, backend, precisions):
    """Those of the wanted precisions in which the backend computes floats here. Vulkan's are known without a device; bf16 has the operators of f32."""
    if backend == "vulkan":
        return [p for p in precisions if p.startswith("f")]
    return ["f32"]


def looked_at(engine, models, backends, precisions):
    """The lines that the models need, and which models' formats they have."""
    lines = {}
    for backend in backends:
        for precision in precision_of(engine, backend, precisions) or ["f32"]:
            text = run([engine, "kernels", "--backend", backend, "--precision", precision, "--vk-allow-software", *models])
            for line in text.splitlines():
                if line.startswith("# ") and "was loaded and not run" in line:
                    print("note:", line[2:])
                elif line and not line.startswith("#"):
                    lines[line] = None
    return sorted(lines)


def settled(config, lines):
    """Lines with the choices of backends, importers and precisions applied, and those choices."""
    backends = words(config, "backends", BACKENDS, list(BACKENDS))
    needed = list(dict.fromkeys(line.split()[1] for line in lines if line.startswith("import ")))
    importers = words(config, "importers", IMPORTERS, needed or list(IMPORTERS))
    precisions = words(config, "precisions", PRECISIONS, [line.split()[1] for line in lines if line.startswith("precision ")] or ["f32"])
    for format_ in needed:
        if format_ not in importers:
            refuse(f"the models need the importer {format_}, which importers leaves out")
    if "models" in config and "precision int8" in lines and "int8" not in precisions:
        refuse("a model computes in int8, which precisions leaves out")
    kept = []
    for line in lines:
        parts = line.split("#")[0].split()
        elsewhere = len(parts) > 2 and parts[0] != "import" and parts[2] not in backends + ["reference", "graph"]
        if parts and parts[0] != "precision" and not elsewhere:
            kept.append(" ".join(parts))
    return kept + [f"precision {p}" for p in precisions], backends, importers, precisions


def static_check(config, backends, importers):
    """What a program without shared libraries can be made of here."""
    if config.get("static") and (backends != ["reference"] or "tfjs" in importers):
        refuse("static needs backends [\"reference\"] and importers without tfjs: there is no static libXNNPACK and libcjson in Debian, and Vulkan's loader is never static")


def cut(output, listed, backends, importers, pictures, answers, static):
    folder = output / "build"
    programs = [*PROGRAMS, *([STATIC] if static else [])]
    built(folder, f"-DPENSTOCK_KERNELS={listed}", f"-DPENSTOCK_BACKENDS={';'.join(backends)}", f"-DPENSTOCK_IMPORTERS={';'.join(importers)}",
          "-DCMAKE_BUILD_TYPE=MinSizeRel", f"-DPENSTOCK_ANSWERS={'ON' if answers else 'OFF'}", "-DPENSTOCK_STATIC=ON", "-DCMAKE_INSTALL_LIBDIR=lib",
          f"-DPENSTOCK_FOLDERS=proto;{'picture;' if pictures else ''}engine;worker",
          targets=[*programs, "penstock_engine_shared", "penstock_engine_static", "penstock_engine_page"])
    (output / "bin").mkdir(exist_ok=True)
    for program in programs:
        run(["strip", "-o", output / "bin" / program, folder / "bin" / program])
    for component in ("enginelib", "enginedev"):
        run(["cmake", "--install", folder / "engine", "--prefix", output, "--component", component, "--strip"])
    for library in (output / "lib").glob("libpenstock-engine.a"):
        run(["strip", "--strip-debug", library])


def weighed(output, engine, static):
    """What each program weighs, beside that of the whole engine where its map is there."""
    sizes = {}
    for program in (*PROGRAMS, LIBRARY, *([STATIC] if static else [])):
        place = output / "bin" / program if program != LIBRARY else output / "lib" / f"{LIBRARY}.so.0"
        before = engine.parent.parent / "maps" / f"{program}.map" if engine else None
        compared = before is not None and before.exists()
        options = ["--before", before, "--svg", output / f"{program}.svg"] if compared else []
        told = json.loads(run([output / "bin/penstock-engine", "sizes", "--json", "--program", place, "--map", output / "build/maps" / f"{program}.map", *options]))
        sizes[program] = {"file_bytes": told["file_bytes"], "code": told["code"], "engine": told["engine"], "parts": {p["name"]: p["code"] + p["other"] for p in told["parts"] if p["code"] + p["other"]},
                          "libraries": {item["path"]: item["bytes"] for item in told["libraries"]}, "libraries_bytes": told["libraries_bytes"]}
        if compared:
            sizes[program]["whole_engine"] = told["before"]["engine"]
    return sizes


NUMPY = {"f32": ("f4", 4), "f64": ("f8", 8), "f16": ("f2", 2), "u8": ("u1", 1), "i8": ("i1", 1), "i32": ("i4", 4), "i64": ("i8", 8), "bool": ("b1", 1)}


def inputs_of(engine, model, folder):
    """Files of seeded bytes for every input: floats in [0, 1), 0 or 1 otherwise. None: an input has a type that has none."""
    told = json.loads(run([engine, "info", "--json", model]))["models"][0]
    options, rng = [], random.Random(7)
    for index, port in enumerate(told["inputs"]):
        shape = [1 if d < 0 else d for d in port.get("shape", [1])]
        count = 1
        for d in shape:
            count *= d
        if port["type"] not in NUMPY:
            return None
        code, width = NUMPY[port["type"]]
        if code == "f4":
            import array
            data = array.array("f", (rng.random() for _ in range(count))).tobytes()
        else:
            data = bytes(b for _ in range(count) for b in (rng.getrandbits(1) if code[0] in "uib" else 0, *([0] * (width - 1))))
        header = repr({"descr": ("<" if width > 1 else "|") + code, "fortran_order": False, "shape": tuple(shape)}).encode()
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        path = folder / f"in{index}.npy"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data)
        options += ["--input", f"{port['name']}={path}"]
    return options


def answers(engine, model, options, backend, folder):
    run([engine, "run", "--model", model, *options, "--backend", backend, "--vk-allow-software", "--output-dir", folder])
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.npy"))}


def raw(path):
    """The values of a .npy file of version 1."""
    data = path.read_bytes()
    return data[10 + int.from_bytes(data[8:10], "little"):]


def static_proved(output, model, options, folder, wanted):
    """penstock-run gives the same values, one output behind the other, and needs no shared library."""
    files = [option.split("=", 1)[1] for option in options if option != "--input"]
    inputs = []
    for index, path in enumerate(files):
        inputs.append(folder / f"in{index}.raw")
        inputs[-1].write_bytes(raw(Path(path)))
    done = subprocess.run([output / "bin" / STATIC, model, *inputs], capture_output=True)
    parts = [raw(folder / "0" / name) for name in wanted]
    if done.returncode != 0 or sorted(parts, key=done.stdout.find) == [] or b"".join(sorted(parts, key=done.stdout.find)) != done.stdout:
        refuse(f"{model}: {STATIC} answers otherwise than the whole engine: {done.stderr.decode(errors='replace')[-300:]}")
    if b"not a dynamic executable" not in subprocess.run(["ldd", output / "bin" / STATIC], capture_output=True).stderr:
        refuse(f"{STATIC} loads shared libraries")
    print(f"same answers: {model}, wholly static")


def proved(output, engine, models, backends, static):
    """Both engines give the same bytes for the same inputs."""
    for model in models:
        for backend in backends:
            with tempfile.TemporaryDirectory() as scratch:
                scratch = Path(scratch)
                options = inputs_of(engine, model, scratch)
                if options is None:
                    continue
                got = [answers(program, model, options, backend, scratch / str(i)) for i, program in enumerate((engine, output / "bin/penstock-engine"))]
                if got[0] != got[1] or not got[0]:
                    refuse(f"{model} on {backend}: the new engine answers otherwise than the whole one")
                print(f"same answers: {model} on {backend}")
                if static:
                    static_proved(output, model, options, scratch, list(got[0]))


def report(sizes):
    for program, told in sizes.items():
        share = f", engine {told['engine']} ({100 * told['engine'] / told['whole_engine']:.1f} % of the whole)" if "whole_engine" in told else ""
        print(f"{program}: {told['file_bytes']} bytes{share}; {len(told['libraries'])} shared libraries, {told['libraries_bytes']} bytes")


def main():
    parser = argparse.ArgumentParser(prog="build.sh", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="custom.json, or custom.lock.json of an earlier build")
    parser.add_argument("--engine", help="a penstock-engine with everything in it; built when it is missing and models are named")
    parser.add_argument("--plan", action="store_true", help="write the list and stop")
    options = parser.parse_args()
    config = read(options.file)
    beside = options.file.resolve().parent
    output = (beside / config["output"]).resolve()
    output.mkdir(parents=True, exist_ok=True)
    models = [str((beside / model).resolve()) for model in config.get("models", [])]
    for model in models:
        if not Path(model).exists():
            refuse(f"there is no model {model}")
    backends = words(config, "backends", BACKENDS, list(BACKENDS))
    precisions = words(config, "precisions", PRECISIONS, ["f32", "int8"])
    engine = whole_engine(options.engine, output) if models or options.engine else None
    lines = looked_at(engine, models, backends, precisions) if models else config["kernels"]
    lines, backends, importers, precisions = settled(config, lines)
    static_check(config, backends, importers)
    static = config.get("static", False)
    listed = output / "kernels.txt"
    listed.write_text(f"# {' '.join(models) or 'from a list'}\n" + "\n".join(lines) + "\n")
    print(f"{len(lines)} lines: {listed}", flush=True)
    if options.plan:
        return
    cut(output, listed, backends, importers, config.get("pictures", False), config.get("answers", False), static)
    sizes = weighed(output, engine, static)
    lock = {"version": run([output / "bin/penstock-engine", "--version"]).split()[1], "kernels": lines, "backends": backends, "importers": importers, "precisions": precisions,
            "pictures": config.get("pictures", False), "answers": config.get("answers", False), "static": static, "output": str(output), "sizes": sizes}
    (output / "custom.lock.json").write_text(json.dumps(lock, indent=1) + "\n")
    if engine:
        proved(output, engine, models, backends, static)
    report(sizes)
    print(f"lock file: {output / 'custom.lock.json'}")


if __name__ == "__main__":
    main()
