#!/usr/bin/env python3
"""install_test.py BUILD SOURCE CC CXX - installs the engine into a fresh folder and uses the library as a stranger would.
install_test.py --map SOURCE - writes engine/library/penstock-engine.map anew from the headers that package.cmake installs.

Headers as C and C++; the symbols that the headers declare, that penstock-engine.map lists and that both libraries export are the same; the manual page has every
prototype; the examples are built by pkg-config, by the CMake package and statically, and run; a program may link libpenstock, too.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

if sys.argv[1] == "--map":
    BUILD, SOURCE, CC, CXX = None, Path(sys.argv[2]).resolve(), None, None
else:
    BUILD, SOURCE, CC, CXX = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3], sys.argv[4]
LIBRARY, DIGITS = SOURCE / "engine/library", SOURCE / "deploy/models/digits/1/model.onnx"
COMMON = {"dtype.h", "precision.h", "status.h", "tensor.h"}
# Headers of engine/include for our own programs alone. A new header is either here or in engine/library/package.cmake.
PRIVATE = {"model_folder.h", "flags.def", "flag_settings.def"}
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
complaints, checks = [], 0


def expect(good, what):
    global checks
    checks += 1
    if not good:
        complaints.append(what)
        print("failed:", what)


def tried(command, what, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    expect(done.returncode == 0, f"{what}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def bare(path):
    """A header without comments, preprocessor and bodies."""
    text = re.sub(r"^#.*$", "", re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S), flags=re.M).replace('extern "C" {', "")
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", "", text)
    return [" ".join(statement.split()) for statement in text.split(";")]


def declared(path):
    """Function -> its prototype."""
    found = {}
    for statement in bare(path):
        name = re.search(r"\b(pen_\w+)\(", statement)
        if name and not statement.startswith("typedef"):
            found[name.group(1)] = statement
    return found


def map_write():
    public = re.search(r"^set\(public ([^)]*)\)", (LIBRARY / "package.cmake").read_text(), re.M).group(1).split()
    own = {name for header in public for name in declared(SOURCE / "engine/include/penstock" / header)}
    common = {name for header in COMMON for name in declared(SOURCE / "proto/include/penstock" / header)}
    lines = ["/* The symbols of libpenstock-engine: what its headers declare, by name, so that nothing else leaks. `install_test.py --map` writes it, install_test.py compares. */",
             "PENSTOCK_ENGINE_0 {", "global:", *(f"    {name};" for name in sorted(own)), "    /* of proto/include: libpenstock has the same */",
             *(f"    {name};" for name in sorted(common)), "local:", "    *;", "};"]
    (LIBRARY / "penstock-engine.map").write_text("\n".join(lines) + "\n")


def headers_compile(headers, flags, work):
    for header in headers:
        for compiler, language, standard in ((CC, "c", "c99"), (CC, "c", "c17"), (CXX, "c++", "c++11"), (CXX, "c++", "c++17")):
            source = work / "alone.h"
            source.write_text(f"#include <penstock/{header}>\nint use(void);\n")
            tried([compiler, "-x", language, f"-std={standard}", *WARN, "-fsyntax-only", source, *flags], f"{header} as {standard}")


def symbols(prototypes, libraries):
    listed = set(re.findall(r"^    (pen_\w+);", (LIBRARY / "penstock-engine.map").read_text(), re.M))
    expect(set(prototypes) == listed, f"headers and penstock-engine.map differ: {sorted(set(prototypes) ^ listed)}")
    lines = subprocess.run(["nm", "-D", "--defined-only", libraries / "libpenstock-engine.so"], capture_output=True, text=True).stdout.split()
    exported = {word for word in lines if word.startswith(("pen_", "_")) or "@" in word}
    wanted = {f"{name}@@PENSTOCK_ENGINE_0" for name in listed}
    expect(exported == wanted, f"the shared library and the list differ: {sorted(exported ^ wanted)[:5]}")
    lines = subprocess.run(["nm", "--defined-only", libraries / "libpenstock-engine.a"], capture_output=True, text=True).stdout.splitlines()
    words = [line.split() for line in lines]
    globals_ = {line[2] for line in words if len(line) == 3 and (line[1].isupper() and line[1] not in "U")}
    expect(globals_ == listed, f"the static library and the list differ: {sorted(globals_ ^ listed)[:5]}")
    told = subprocess.run(["readelf", "-d", libraries / "libpenstock-engine.so"], capture_output=True, text=True).stdout
    expect("SONAME" in told and "[libpenstock-engine.so.0]" in told, "the soname")


def page(prototypes, man):
    path = man / "man3/penstock-engine.3"
    text = path.read_text()
    synopsis = " ".join(text[:text.index(".SH DESCRIPTION")].split())
    for name, prototype in prototypes.items():
        expect(prototype + ";" in synopsis, f"penstock-engine(3) lacks {name}")
    short = [name for name in prototypes if name in {*declared(SOURCE / "engine/include/penstock/tensors.h"), *declared(SOURCE / "engine/include/penstock/backends.h")}]
    told = set(re.findall(r"pen_\w+", text[text.index(".SH DESCRIPTION"):]))
    plain = {"pen_backend_engine", "pen_tensor_dtype", "pen_tensor_place", "pen_scope_depth"}  # what they do is in their names
    expect(not set(short) - told - plain, f"the text of penstock-engine(3) does not speak of {sorted(set(short) - told - plain)}")
    unknown = told - set(prototypes) - {"pen_status"}
    expect(not unknown, f"penstock-engine(3) speaks of {sorted(unknown)}, which no header declares")
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", path], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
        expect(done.returncode == 0 and not done.stderr, f"man has a warning: {done.stderr}")
        expect("penstock-engine - " in tried(["lexgrog", path], "whatis finds it"), "whatis")


def runs(program, what, *arguments):
    out = tried([program, DIGITS, *arguments], f"{what} runs")
    expect(out.startswith("7 (") or arguments, f"{what}: {out}")
    return out


def examples(work, prefix, libraries):
    def config(*options, package="penstock-engine"):
        return tried(["pkg-config", *options, package], "pkg-config").split()
    code = SOURCE / "engine/examples"
    tried([CC, "-std=c11", *WARN, code / "digit.c", "-o", work / "digit", *config("--cflags", "--libs")], "digit.c by pkg-config")
    runs(work / "digit", "digit")
    picture = work / "one.txt"
    picture.write_text("   *#   \n" * 8)
    expect(runs(work / "digit", "digit", picture)[0] == "1", "digit of a picture")
    expect(subprocess.run([work / "digit", SOURCE / "README.md"], capture_output=True).returncode == 1, "a file that is no model")
    tried([CXX, "-std=c++17", *WARN, code / "digit.cpp", "-o", work / "digit_cpp", *config("--cflags", "--libs"), "-pthread"], "digit.cpp by pkg-config")
    expect("0 tensors are left" in runs(work / "digit_cpp", "digit_cpp"), "no tensor is left")
    static = [word if word != "-lpenstock-engine" else str(libraries / "libpenstock-engine.a") for word in config("--cflags", "--libs", "--static")]
    tried([CC, code / "digit.c", "-o", work / "digit_static", *static], "digit.c statically")
    needed = subprocess.run(["readelf", "-d", work / "digit_static"], capture_output=True, text=True).stdout
    expect("libpenstock" not in needed, "the static program needs no library of ours")
    runs(work / "digit_static", "digit_static")
    project = work / "project"
    project.mkdir()
    shutil.copy(code / "digit.c", project)
    shutil.copy(code / "digit.cpp", project)
    (project / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.20)
project(user C CXX)
find_package(penstock-engine 0.1 REQUIRED)
find_package(Threads REQUIRED)
add_executable(digit digit.c)
target_link_libraries(digit PRIVATE penstock::engine)
add_executable(digit_cpp digit.cpp)
target_compile_features(digit_cpp PRIVATE cxx_std_17)
target_link_libraries(digit_cpp PRIVATE penstock::engine Threads::Threads)
""")
    tried(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}"], "find_package(penstock-engine)")
    tried(["cmake", "--build", project / "build"], "the CMake package")
    runs(project / "build/digit", "digit of the CMake package")
    runs(project / "build/digit_cpp", "digit_cpp of the CMake package")


def beside_the_client(work, prefix, libraries):
    """Both libraries in one program: they have a few functions in common."""
    tried(["cmake", "--install", BUILD / "client-lib", "--prefix", prefix], "the client library installs beside it")
    both = work / "both.c"
    both.write_text("#include <penstock/client.h>\n#include <penstock/backends.h>\n#include <string.h>\n"
                    "int main(void) { return strcmp(pen_client_version(), pen_engine_version()) != 0 || pen_backend_set(\"reference\", NULL) != PEN_OK || !pen_status_name(PEN_OK); }\n")
    flags = tried(["pkg-config", "--cflags", "--libs", "penstock", "penstock-engine"], "pkg-config of both").split()
    tried([CC, both, "-o", work / "both", *flags], "a program with both")
    tried([work / "both"], "a program with both runs")
    flags = tried(["pkg-config", "--cflags", "--libs", "--static", "penstock-engine"], "pkg-config --static").split()
    flags = [word if word != "-lpenstock-engine" else str(libraries / "libpenstock-engine.a") for word in flags]
    flags += tried(["pkg-config", "--cflags", "penstock"], "pkg-config of penstock").split()
    needs = tried(["pkg-config", "--libs", "libzmq", "libprotobuf-c", "libpng", "libjpeg", "libwebp", "libwebpdemux"], "what libpenstock.a needs").split()
    tried([CC, both, "-o", work / "both_static", libraries / "libpenstock.a", *flags, *needs], "a program with both, static")
    expect((work / "both_static").exists() and subprocess.run([work / "both_static"]).returncode == 0, "a program with both, static, runs")


def main():
    if BUILD is None:
        map_write()
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        prefix = work / "usr"
        tried(["cmake", "--install", BUILD / "engine", "--prefix", prefix], "cmake --install")
        libraries = next(prefix.rglob("penstock-engine.pc")).parent.parent
        os.environ.update(PKG_CONFIG_PATH=str(libraries / "pkgconfig"), LD_LIBRARY_PATH=str(libraries))
        installed = {path.name for path in (prefix / "include/penstock-engine/penstock").glob("*")}
        ours = {path.name for path in (SOURCE / "engine/include/penstock").glob("*")}
        expect(installed == (ours - PRIVATE) | COMMON, f"installed headers, and those of engine/include without {PRIVATE}, differ: {sorted(installed ^ ((ours - PRIVATE) | COMMON))}")
        prototypes = {}
        for header in sorted(installed):
            found = declared(prefix / "include/penstock-engine/penstock" / header)
            prototypes.update(found)
        own = {name: text for header in installed - COMMON for name, text in declared(prefix / "include/penstock-engine/penstock" / header).items()}
        headers_compile(sorted(installed - COMMON), [f"-I{prefix / 'include/penstock-engine'}"], work)
        symbols(prototypes, libraries)
        page(own, prefix / "share/man")
        examples(work, prefix, libraries)
        if (BUILD / "client-lib/cmake_install.cmake").exists():
            beside_the_client(work, prefix, libraries)
    print(f"{checks - len(complaints)} passed, {len(complaints)} failed, 0 skipped")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
