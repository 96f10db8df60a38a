#!/usr/bin/env python3
"""Runs each page of deploy/ways-in as it stands, before a pool and a gateway on the usual ports of a network of their own, and compares what it prints.

    ways_in_test.py BIN_DIR SOURCE_DIR [--sanitized]   # a library with a sanitizer: C and C++ are left out

A block behind a line <!-- file: NAME --> is written to NAME; a block of shell is run; a block of text behind it is what it prints. Numbers with a point are
compared to two places, because processors differ in the last ones. What a page needs and the machine lacks leaves the rest of that page out, with a word.
Needs `unshare -n` (root, or user namespaces). The last line is `N passed, N failed, N skipped`.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docs_test import BIN, SOURCE, namespace, run

PAGES = SOURCE / "deploy/ways-in"
CLIENTS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock/clients/bin"
PACKAGES = {"python.md": "zmq, xxhash, google.protobuf, PIL", "tritonclient.md": "tritonclient.http, numpy", "grpc.md": "grpc, google.protobuf"}
PROGRAMS = {"c.md": "cc", "cpp.md": "c++", "curl.md": "curl", "node.md": "node", "grpc.md": "curl"}
counts = {"passed": 0, "FAILED": 0, "skipped": 0}


def tell(how, what):
    counts[how] += 1
    print(f"{how}: {what}", flush=True)


def blocks(page):
    """(file or None, language, text) of each fenced block."""
    return re.findall(r"(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)```", page.read_text(), re.S)


def rounded(text):
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found.group()):.2f}", text).strip()


def python():
    """The one of the environment that tests/run.sh makes, else the system's."""
    return str(CLIENTS / "python3") if (CLIENTS / "python3").exists() else "python3"


def lacks(page, code):
    """What this machine does not have for these commands; "" when it has all."""
    if "python3 " in code and subprocess.run([python(), "-c", f"import {PACKAGES[page.name]}"], capture_output=True).returncode:
        return f"a package of {PACKAGES[page.name]}"
    for program in (PROGRAMS.get(page.name), *(name for name in ("grpcurl", "protoc") if re.search(rf"^{name} ", code, re.M))):
        if program and not shutil.which(program):
            return program
    return "a library without a sanitizer" if "--sanitized" in sys.argv and page.name in ("c.md", "cpp.md") else ""


def place(folder):
    """What a reader has after a build."""
    (folder / "build").mkdir()
    for name, to in (("build/bin", BIN), ("build/lib", BIN.parent / "lib"), *((name, SOURCE / name) for name in ("deploy", "client-lib", "proto"))):
        (folder / name).symlink_to(to)
    package = folder / "package/penstock"
    shutil.copytree(SOURCE / "client-lib/python/penstock", package, ignore=shutil.ignore_patterns("__pycache__", "schema.binpb"))
    subprocess.run([python(), SOURCE / "client-lib/python/setup.py", "schema", package / "schema.binpb"], check=True)
    tools = folder / "tools"
    tools.mkdir()
    (tools / "python3").write_text(f'#!/bin/sh\nexec {python()} "$@"\n')
    (tools / "python3").chmod(0o755)


def steps(page, folder):
    """Writes the page's files; (commands, what they print or None) of each block of shell that can be run here."""
    found = []
    everything = blocks(page)
    for (name, language, code), following in zip(everything, [*everything[1:], ("", "", "")]):
        if name:
            (folder / name).write_text(code)
        if language != "sh":
            continue
        missing = lacks(page, code)
        if missing:
            tell("skipped", f"{page.name}: {code.strip().splitlines()[0][:60]}: no {missing} here")
        else:
            found.append((page, code, following[2] if following[1] == "text" else None))
    return found


def compare(page, code, wanted, status, out):
    good = status == 0 and (wanted is None or rounded(out) == rounded(wanted))
    tell("passed" if good else "FAILED", f"{page.name}: {code.strip().splitlines()[0][:90]}" + ("" if good else f"\n  status {status}, wanted:\n{wanted}\n  came:\n{out}"))


BEFORE = """
penstock-broker > broker.txt 2> broker.log &
penstock-worker --models deploy/models --slots 1 --threads 1 2> worker.log &
penstock-gateway > gateway.txt 2> gateway.log &
for i in $(seq 200); do curl -sf http://127.0.0.1:8000/v2/models/digits/ready && break; sleep 0.1; done
"""


def names(pages):
    """The index names each page, and README.md leads to the index."""
    listed = set(re.findall(r"\]\((\w+\.md)\)", (PAGES / "README.md").read_text()))
    tell("passed" if listed == {page.name for page in pages} else "FAILED", f"ways-in/README.md names its pages: {listed}")
    tell("passed" if "(deploy/ways-in/README.md)" in (SOURCE / "README.md").read_text() else "FAILED", "README.md leads to the ways in")
    for page in [*pages, PAGES / "README.md"]:
        gone = [link for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()) if not (page.parent / link).exists()]
        tell("FAILED" if gone else "passed", f"{page.name} leads to what there is: {gone}")


def main():
    pages = sorted(page for page in PAGES.glob("*.md") if page.name != "README.md")
    names(pages)
    words = namespace()
    if not words or not shutil.which("curl"):
        tell("skipped", "no network namespaces or no curl here: the pages were not run")
    else:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            place(folder)
            todo = [step for page in pages for step in steps(page, folder)]
            path = f"{folder}/tools:{BIN}:{os.environ['PATH']}"
            for (page, code, wanted), (status, out) in zip(todo, run(words, folder, [code for _, code, _ in todo], BEFORE, "\nkill $(jobs -p); wait\n",
                                                                    {"PATH": path, "PYTHONPATH": f"{folder}/package"})):
                compare(page, code, wanted, status, out)
    print(f"{counts['passed']} passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    return counts["FAILED"] > 0


if __name__ == "__main__":
    sys.exit(main())
