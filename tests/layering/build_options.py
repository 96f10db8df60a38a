#!/usr/bin/env python3
"""Every build option does what it says: build_options.py SOURCE SCRATCH.

Options are configured and the commands that would compile are read; one small engine with one importer, one backend and a few kernels is built and
asked. An option of CMakeLists.txt without a check here fails, and so does one that README.md does not name.
"""
import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE, SCRATCH = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
DIGITS = SOURCE / "deploy/models/digits/1/model.onnx"
complaints, checks = [], 0


def expect(good, what):
    global checks
    checks += 1
    if not good:
        complaints.append(what)
        print("failed:", what)


class Build:
    """A configured folder: what cmake printed, and every command that compiles."""

    def __init__(self, *options):
        self.folder = SCRATCH / str(len(list(SCRATCH.iterdir())))
        shutil.rmtree(self.folder, ignore_errors=True)
        done = subprocess.run(["cmake", "-S", SOURCE, "-B", self.folder, "-DPENSTOCK_FOLDERS=proto;picture;engine", "-DPENSTOCK_TESTS=OFF", *options],
                              capture_output=True, text=True)
        self.good, self.printed = done.returncode == 0, " ".join((done.stdout + done.stderr).split())
        commands = self.folder / "compile_commands.json"
        self.commands = json.loads(commands.read_text()) if self.good and commands.exists() else []

    def compiles(self, part):
        return any(str(SOURCE / part) in c["file"] for c in self.commands)

    def says(self, flag):
        return any(flag in c.get("command", "") for c in self.commands)

    def needs(self, part):
        """The symbols that the object of one file asks others for."""
        command = next(c for c in self.commands if c["file"].endswith(part))
        subprocess.run(command["command"], shell=True, cwd=command["directory"], check=True)
        made = Path(command["directory"]) / re.search(r" -o (\S+)", command["command"]).group(1)
        return set(subprocess.run(["nm", "-u", made], capture_output=True, text=True).stdout.split())

    def run(self, *arguments):
        done = subprocess.run([self.folder / "bin/penstock-engine", *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


@functools.cache
def plain():
    return Build()


def importers():
    whole, one = plain(), Build("-DPENSTOCK_IMPORTERS=tflite")
    for part in ("engine/import/tflite", "engine/import/tfjs", "engine/import/onnx/scope.c"):
        expect(whole.compiles(part), f"PENSTOCK_IMPORTERS: all compiles {part}")
        expect(one.compiles(part) == ("tflite" in part), f"PENSTOCK_IMPORTERS=tflite and {part}")
    wrong = Build("-DPENSTOCK_IMPORTERS=caffe")
    expect(not wrong.good and "PENSTOCK_IMPORTERS names 'caffe'" in wrong.printed, "PENSTOCK_IMPORTERS: an unknown format is refused by name")


def backends():
    one = Build("-DPENSTOCK_BACKENDS=reference")
    expect(one.compiles("engine/backend/reference") and not one.compiles("engine/backend/xnnpack"), "PENSTOCK_BACKENDS=reference leaves xnnpack out")
    expect("engine backends: reference " in one.printed + " ", "PENSTOCK_BACKENDS is told")
    wrong = Build("-DPENSTOCK_BACKENDS=quantum")
    expect(not wrong.good and "PENSTOCK_BACKENDS names 'quantum'" in wrong.printed, "PENSTOCK_BACKENDS: an unknown backend is refused by name")


def kernels():
    wrong = SCRATCH / "wrong.txt"
    wrong.write_text("Relu\nRellu\n")
    build = Build(f"-DPENSTOCK_KERNELS={wrong}")
    wrong.unlink()
    expect(not build.good and "without a kernel: Rellu" in build.printed, "PENSTOCK_KERNELS: an operator that is none is refused by name")


def tables():
    """The tables of every backend, of the importers and of the shapes lose what the list does not name."""
    listed = SCRATCH / "tables.txt"
    listed.write_text("Relu i32 reference # a remark\nSoftmax f32 xnnpack\nClip any graph\nSoftmax f32 vulkan\nimport onnx Clip\nprecision f32\n")
    build = Build(f"-DPENSTOCK_KERNELS={listed}")
    asked = {part: build.needs(part) for part in ("reference/kernel_table.c", "graph/rules.c", "onnx/upgrade.c")}
    expect("kernel_unary" in asked["reference/kernel_table.c"] and "kernel_conv" not in asked["reference/kernel_table.c"], "PENSTOCK_KERNELS: the reference's table")
    expect("infer_same" in asked["graph/rules.c"] and "infer_conv" not in asked["graph/rules.c"], "PENSTOCK_KERNELS: the shape rules")
    if build.compiles("engine/backend/xnnpack"):
        rows = build.needs("xnnpack/emit_table.c")
        expect("emit_softmax" in rows and "emit_conv_either" not in rows, "PENSTOCK_KERNELS: XNNPACK's table")
        expect("own_gemm_half_plain" not in build.needs("xnnpack/own_table.c"), "PENSTOCK_KERNELS: products of two-byte weights go with the models that have some")
        expect(not build.needs("xnnpack/fusion_plan.c") & {"fusion_attention_find", "fusion_product_find"}, "PENSTOCK_KERNELS: what joins products goes with them")
        expect("own_gemm_pairs" not in build.needs("xnnpack/dense.c"), "PENSTOCK_KERNELS: bf16 goes with the precision")
        whole = plain()
        expect("own_gemm_half_plain" in whole.needs("xnnpack/own_table.c") and "fusion_attention_find" in whole.needs("xnnpack/fusion_plan.c"), "without a list all of it is there")
    if build.compiles("engine/backend/vulkan"):
        rows = build.needs("vulkan/ops/table.c")
        shaders = (build.folder / "engine/backend/vulkan/shaders/shader_table.c").read_text()
        expect("vk_op_softmax" in rows and "vk_op_conv" not in rows, "PENSTOCK_KERNELS: Vulkan's table")
        expect("softmax_f32.inc" in shaders and "softmax_f16" not in shaders and "conv_f32" not in shaders, "PENSTOCK_KERNELS: shaders of the operators and precisions")
    kept = (build.folder / "engine/kept/kept_list.def").read_text()
    expect("KEPT_import_onnx_Clip" in kept and "KEPT_import_onnx 1" not in kept and "KEPT_import_tfjs 1" in kept, "PENSTOCK_KERNELS: parts of an importer: " + kept)
    expect("KEPT_precision_f32" in kept and "f16" not in kept, "PENSTOCK_KERNELS: precisions")
    refused_lists(build, listed)


def refused_lists(build, listed):
    """Lines of a list that mean nothing."""
    for line, words in (("Relu f33", "names no type"), ("Relu f32 quantum", "names no backend"), ("import caffe Relu", "is no line"), ("precision f17", "no precision is called 'f17'"),
                        ("Relu f32 xnnpack more", "more than three words"), ("DeformConv f32 xnnpack", "without a kernel: DeformConv")):
        listed.write_text(line + "\n")
        done = subprocess.run(["cmake", build.folder], capture_output=True, text=True)
        expect(done.returncode != 0 and words in " ".join(done.stderr.split()), f"PENSTOCK_KERNELS refuses '{line}': {done.stderr[-300:]}")


def static():
    build = Build("-DPENSTOCK_STATIC=ON", "-DPENSTOCK_FOLDERS=proto;engine")
    links = "".join(path.read_text() for path in build.folder.glob("engine/tools/CMakeFiles/penstock-engine.dir/link.txt")) or (build.folder / "build.ninja").read_text()
    expect("libsodium.a" in links and "libprotobuf-c.a" in links, "PENSTOCK_STATIC: the tool contains what has static libraries")
    expect("libpng" not in links, "PENSTOCK_FOLDERS without picture: the tool links no library for pictures")


def pictures():
    off, on = (Build(f"-DPENSTOCK_PICTURES={switch}", "-DPENSTOCK_FOLDERS=proto;picture;engine;worker") for switch in ("OFF", "ON"))
    expect(off.compiles("worker/models/pictures_none.c") and not off.compiles("worker/models/pictures.c"), "PENSTOCK_PICTURES off: no decoders in workers")
    expect(on.compiles("worker/models/pictures.c") and not on.compiles("worker/models/pictures_none.c"), "PENSTOCK_PICTURES: workers decode pictures")


def answers():
    off, on = (Build(f"-DPENSTOCK_ANSWERS={switch}", "-DPENSTOCK_FOLDERS=proto;picture;engine;worker") for switch in ("OFF", "ON"))
    expect(off.compiles("worker/answer/answer_none.c") and not off.compiles("worker/answer/nms.c"), "PENSTOCK_ANSWERS off: no steps behind models")
    expect(on.compiles("worker/answer/nms.c") and not on.compiles("worker/answer/answer_none.c"), "PENSTOCK_ANSWERS: a worker with them")


def redis_tls():
    """Debian 12's hiredis has no TLS: a hiredis_ssl that is only named shows what the build would make of one."""
    named = SCRATCH / "hiredis_ssl"
    folder = named / "lib/pkgconfig"
    folder.mkdir(parents=True)
    for name in ("hiredis_ssl", "libssl", "libcrypto"):
        (folder / f"{name}.pc").write_text(f"Name: {name}\nDescription: named only\nVersion: 1.2.0\nLibs: -l{name}\n")
    broker, path = "-DPENSTOCK_FOLDERS=proto;broker", f"-DCMAKE_PREFIX_PATH={named}"
    expect(Build(broker, path).says("-DREDIS_TLS"), "PENSTOCK_REDIS_TLS: with hiredis_ssl the broker speaks TLS to Redis")
    expect(not Build(broker, path, "-DPENSTOCK_REDIS_TLS=OFF").says("-DREDIS_TLS"), "PENSTOCK_REDIS_TLS=OFF")
    if subprocess.run(["pkg-config", "--exists", "hiredis_ssl"]).returncode != 0:
        wrong = Build(broker, "-DPENSTOCK_REDIS_TLS=ON")
        expect(not wrong.good and "PENSTOCK_REDIS_TLS=ON needs hiredis_ssl" in wrong.printed, "PENSTOCK_REDIS_TLS=ON: a hiredis without TLS is refused by name")


def a_small_engine():
    """Importers, backends and kernels together, as a program."""
    listed = SCRATCH / "kernels.txt"
    listed.write_text("Relu\nIdentity\n")
    build = Build("-DPENSTOCK_IMPORTERS=onnx", "-DPENSTOCK_BACKENDS=reference", f"-DPENSTOCK_KERNELS={listed}", "-DCMAKE_BUILD_TYPE=Debug",
                  "-DCMAKE_C_FLAGS=-O0 -g0")
    built = subprocess.run(["cmake", "--build", build.folder, "--parallel", "2", "--target", "penstock-engine", "penstock_engine_shared", "penstock_engine_static", "penstock_engine_page"], capture_output=True, text=True)
    expect(built.returncode == 0, "a small engine builds: " + built.stdout[-2000:])
    code, text = build.run("info")
    expect(code == 0 and "reads onnx\n" in text and "xnnpack" not in text, "a small engine tells what it has: " + text)
    code, text = build.run("info", DIGITS)
    expect(code == 4 and "no kernel in this build" in text, "PENSTOCK_KERNELS: what was left out is named: " + text)
    expect("add to the list of -DPENSTOCK_KERNELS: \"" in text and "\"Conv f32\"" in text, "PENSTOCK_KERNELS: the lines to add are named: " + text)
    lite, web = SCRATCH / "lite.bin", SCRATCH / "web.json"
    lite.write_bytes(b"\x1c\0\0\0TFL3" + bytes(64))
    web.write_text('{"modelTopology": {}, "weightsManifest": []}')
    for path, name in ((lite, "tflite"), (web, "tfjs")):
        code, text = build.run("info", path)
        expect(code == 4 and "no importer for it" in text and "PENSTOCK_IMPORTERS" in text and name in text,
               f"PENSTOCK_IMPORTERS: a {name} model is refused with the option's name: " + text)
    a_small_library(build)


def a_small_library(build):
    """libpenstock-engine of a list has the kernels of the list, all of its symbols, and refuses models that need more."""
    library, prefix = build.folder / "lib/libpenstock-engine.so", build.folder / "prefix"
    names = subprocess.run(["nm", library], capture_output=True, text=True).stdout
    expect(" kernel_unary" in names and " kernel_conv" not in names and " kernel_matmul" not in names, "PENSTOCK_KERNELS: the library has the kernels of the list and no others")
    listed = set(re.findall(r"^    (pen_\w+);", (SOURCE / "engine/library/penstock-engine.map").read_text(), re.M))
    exported = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True).stdout
    expect(listed <= set(re.findall(r"pen_\w+", exported)), "PENSTOCK_KERNELS: the library has all its symbols")
    for component in ("enginelib", "enginedev"):
        done = subprocess.run(["cmake", "--install", build.folder / "engine", "--prefix", prefix, "--component", component], capture_output=True, text=True)
        expect(done.returncode == 0, "a small library installs: " + done.stderr)
    program = build.folder / "digit"
    place = next(prefix.rglob("libpenstock-engine.so")).parent
    done = subprocess.run(["cc", SOURCE / "engine/examples/digit.c", "-o", program, f"-I{prefix}/include/penstock-engine", f"-L{place}", f"-Wl,-rpath,{place}", "-lpenstock-engine"],
                          capture_output=True, text=True)
    expect(done.returncode == 0, "the example links with a small library: " + done.stderr)
    done = subprocess.run([program, DIGITS], capture_output=True, text=True)
    expect(done.returncode == 1 and "no kernel in this build" in done.stderr and "Conv f32" in done.stderr, "a small library names what it lacks: " + done.stderr)


def sanitize():
    without, address, thread = plain(), Build("-DPENSTOCK_SANITIZE=address"), Build("-DPENSTOCK_SANITIZE=thread")
    expect(not without.says("-fsanitize"), "PENSTOCK_SANITIZE: none without it")
    expect(address.says("-fsanitize=address"), "PENSTOCK_SANITIZE=address")
    expect(thread.says("-fsanitize=thread"), "PENSTOCK_SANITIZE=thread")
    expect(address.says("-DPENSTOCK_CHECKS") and thread.says("-DPENSTOCK_CHECKS"), "PENSTOCK_SANITIZE checks what is slow to check, too")


def fuzz():
    clang = shutil.which("clang") or shutil.which("clang-14")
    if clang is None:
        print("[SKIP] PENSTOCK_FUZZ: no clang")
        return
    build = Build("-DPENSTOCK_FUZZ=ON", f"-DCMAKE_C_COMPILER={clang}")
    expect(build.says("-fsanitize=fuzzer-no-link"), "PENSTOCK_FUZZ")
    expect(build.says("-DPENSTOCK_CHECKS"), "PENSTOCK_FUZZ checks what is slow to check, too")


def small():
    """What deploy/custom builds with: small programs, whose kernels stay fast."""
    build = Build("-DCMAKE_BUILD_TYPE=MinSizeRel")
    wanted = {"graph/graph.c": "-Os"}
    if build.compiles("engine/backend/xnnpack"):
        wanted |= {"xnnpack/emit_pool.c": "-O2", "xnnpack/own_gemm.c": "-O3"}
    for part, level in wanted.items():
        command = next(c["command"] for c in build.commands if c["file"].endswith(part))
        expect(re.findall(r" (-O\S+)", command)[-1] == level, f"MinSizeRel: {part} is compiled with {level}: {command}")
    expect(build.says("-fno-asynchronous-unwind-tables"), "MinSizeRel leaves out what unwinds stacks")


def slow_checks():
    expect(not plain().says("-DPENSTOCK_CHECKS"), "PENSTOCK_CHECKS is off: releases check what is quick to check")
    expect(Build("-DPENSTOCK_CHECKS=ON").says("-DPENSTOCK_CHECKS"), "PENSTOCK_CHECKS=ON")
    expect("-DPENSTOCK_CHECKS=ON" in (SOURCE / "tests/run.sh").read_text(), "tests/run.sh tests with PENSTOCK_CHECKS")


def werror():
    expect(plain().says("-Werror"), "PENSTOCK_WERROR is on")
    expect(not Build("-DPENSTOCK_WERROR=OFF").says("-Werror"), "PENSTOCK_WERROR=OFF")


def folders():
    expect(not plain().compiles("broker/"), "PENSTOCK_FOLDERS leaves the broker out")
    expect(Build("-DPENSTOCK_FOLDERS=proto;broker").compiles("broker/"), "PENSTOCK_FOLDERS takes the broker in")
    off, on = (Build(f"-DPENSTOCK_FOLDERS=proto;{registry}engine;worker") for registry in ("", "registry;"))
    expect(off.compiles("worker/models/fetched_none.c") and not off.compiles("registry/"), "PENSTOCK_FOLDERS without registry: workers read folders alone")
    expect(on.compiles("worker/models/fetched.c") and on.compiles("registry/"), "PENSTOCK_FOLDERS with registry: workers pull models")


def tests():
    few = Build("-DPENSTOCK_TESTS=ON", "-DPENSTOCK_ONLY_TESTS=support;proto", "-DPENSTOCK_SHARED=/no/such/folder")
    expect(not plain().compiles("tests/"), "PENSTOCK_TESTS=OFF builds no test")
    expect(few.compiles("tests/proto"), "PENSTOCK_TESTS builds tests")
    expect(not few.compiles("tests/engine"), "PENSTOCK_ONLY_TESTS leaves others out")
    expect(few.says("/no/such/folder"), "PENSTOCK_SHARED reaches the tests")


CHECKED = {
    "PENSTOCK_IMPORTERS": importers, "PENSTOCK_BACKENDS": backends, "PENSTOCK_KERNELS": kernels, "PENSTOCK_STATIC": static, "PENSTOCK_SANITIZE": sanitize, "PENSTOCK_FUZZ": fuzz,
    "PENSTOCK_CHECKS": slow_checks, "PENSTOCK_WERROR": werror, "PENSTOCK_FOLDERS": folders, "PENSTOCK_TESTS": tests, "PENSTOCK_ONLY_TESTS": tests, "PENSTOCK_SHARED": tests,
    "PENSTOCK_PICTURES": pictures, "PENSTOCK_ANSWERS": answers, "PENSTOCK_REDIS_TLS": redis_tls,
}


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    declared, readme = set(), (SOURCE / "README.md").read_text()
    listed = [*SOURCE.glob("CMakeLists.txt"), *SOURCE.glob("*/CMakeLists.txt"), *SOURCE.glob("*/*/CMakeLists.txt"), *SOURCE.glob("deploy/*.cmake")]
    for path in listed:
        text = path.read_text()
        declared |= set(re.findall(r"set\((PENSTOCK_\w+) .*CACHE (?:STRING|PATH|FILEPATH|BOOL)", text)) | set(re.findall(r"option\((PENSTOCK_\w+)", text))
    expect(declared == set(CHECKED), f"options and checks differ: {sorted(declared ^ set(CHECKED))}")
    for name in declared:
        expect(f"`{name}" in readme, f"README.md does not name {name}")
    for check in dict.fromkeys(CHECKED.values()):
        check()
    small()
    tables()
    a_small_engine()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    print(f"{checks - len(complaints)} passed, {len(complaints)} failed, 0 skipped")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
