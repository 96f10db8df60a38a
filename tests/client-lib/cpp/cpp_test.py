#!/usr/bin/env python3
"""penstock.hpp as its users have it: built by gcc and clang as C++17 and C++20, with all warnings as errors, and run before real pools.

    cpp_test.py BIN_DIR SOURCE_DIR

Compilers that are not here are left out with a message. The last line is `N passed, N failed, N skipped`.
"""
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/gateway"))
import models
from pool import SLOW, Pool, wait_for

HERE = Path(__file__).resolve().parent
FORMS = [("g++", "c++17", []), ("clang++", "c++20", []), ("g++", "c++20", ["-fno-exceptions"]), ("clang++", "c++17", ["-fsyntax-only"]), ("g++", "c++20", ["-fsyntax-only"])]
SAMPLE = SOURCE / "deploy/models/digits/samples/09_nine.png"


def example(folder, clients):
    """examples/one_image.cpp says the same as one_image.c."""
    source, said = SOURCE / "client-lib/examples/one_image.cpp", []
    build = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", f"-I{SOURCE}/client-lib/include", f"-I{SOURCE}/proto/include", source, "-o",
             folder / "one_image_cpp", f"-L{BIN.parent}/lib", "-lpenstock", f"-Wl,-rpath,{BIN.parent}/lib", "-pthread"]
    done = subprocess.run([str(word) for word in build], capture_output=True, text=True)
    for program in (folder / "one_image_cpp", BIN / "one_image") if done.returncode == 0 else ():
        out = subprocess.run([program, SAMPLE, clients], capture_output=True, text=True)
        said.append([line.split(" (")[0] for line in out.stdout.splitlines()] + [out.stderr])
    return said and said[0] == said[1] and said[0][0].endswith(": nine"), said or done.stderr


def build(folder, number, form):
    """The program, "" where only its words were checked, or the compiler's complaint."""
    compiler, standard, more = form
    cache = ["ccache"] if shutil.which("ccache") else []
    compiled, program = folder / f"uses{number}.o", folder / f"uses{number}"
    only_read = "-fsyntax-only" in more
    words = [*([] if only_read else cache), compiler, f"-std={standard}", *more, "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror",
             f"-I{SOURCE}/client-lib/include", f"-I{SOURCE}/proto/include", "-pthread", "-c", HERE / "uses.cpp", "-o", compiled]
    link = [compiler, compiled, "-o", program, f"-L{BIN.parent}/lib", "-lpenstock", f"-Wl,-rpath,{BIN.parent}/lib", "-pthread"]
    for step in [words] if only_read else [words, link]:
        done = subprocess.run([str(word) for word in step], capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr
    return "" if only_read else program


def main():
    passed = failed = 0
    forms = [form for form in FORMS if shutil.which(form[0])]
    for form in FORMS:
        if form not in forms:
            print(f"[SKIP] no {form[0]} here: {form[1]} was not tried with it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save_all(folder / "models")
        (folder / "models/digits").symlink_to(SOURCE / "deploy/models/digits")
        worker = [BIN / "penstock-worker", "--broker", "{workers}", "--models", folder / "models", "--slots", "1", "--threads", "1", "--backend", "reference", "--allow-debug"]
        pool = Pool(BIN, folder, worker, ["--journal", folder / "journal"])
        slow = Pool(BIN, folder, [BIN.parent / "tests/bench_echo_worker", "broker", "{workers}", "0", "3000000"], ["--cache", "none"])
        with ThreadPoolExecutor(2) as builders:
            programs = list(builders.map(lambda pair: build(folder, *pair), enumerate(forms)))

        def served(broker, model):
            return model in subprocess.run([BIN / "penstock", "models", "--broker", broker], capture_output=True, text=True).stdout
        ready = wait_for(lambda: served(pool.clients, "chain") and served(pool.clients, "digits") and served(slow.clients, "null"))
        for form, program in zip(forms, programs):
            seen = program
            if ready and isinstance(program, Path):
                done = subprocess.run([program, pool.clients, slow.clients, SAMPLE], capture_output=True, text=True, timeout=100 * SLOW)
                seen = "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
            good = ready and not seen
            passed, failed = passed + good, failed + (not good)
            print(f"{'passed' if good else 'FAILED'}: {' '.join([form[0], form[1], *form[2]])} {seen}", flush=True)
        if shutil.which("g++"):
            good, seen = example(folder, pool.clients)
            passed, failed = passed + bool(good), failed + (not good)
            print("passed: the example" if good else f"FAILED: the example {seen}", flush=True)
        slow.stop()
        pool.stop()
    print(f"{passed} passed, {failed} failed, {len(FORMS) - len(forms)} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
