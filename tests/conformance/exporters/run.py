#!/usr/bin/env python3
"""Models as exporters write them: do they load, and are they right?

    run.py BIN_DIR [--cases FOLDER] [--update] [--verbose]

Unpacks each EXPORTER.tar.xz beside this file (or takes FOLDER, with EXPORTER/FAMILY/NAME below it) and runs `penstock-engine verify` on it: on reference, and strictly
on xnnpack where this build has it. expected.tsv names the cases that may fail and why. On reference every other case must be right; on xnnpack nothing may be wrong.
The tables of README.md (each exporter) and MATRIX.md (each family) must say what came out; --update writes them. The last line is `N passed, N failed, N skipped`.
"""

import collections
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- table -->\n", "<!-- /table -->\n"


def unpack(to):
    for name in sorted(os.listdir(HERE)):
        if name.endswith(".tar.xz"):
            with tarfile.open(os.path.join(HERE, name)) as tar:
                tar.extractall(to, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def expected():
    """{case: reason}; a case is EXPORTER/FAMILY/NAME, and * stands for any text."""
    rows = {}
    with open(os.path.join(HERE, "expected.tsv")) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                name, reason = line.rstrip("\n").split("\t")
                rows[name] = reason
    return rows


def verify(engine, backend, folder):
    """[(case, result, reason)] or None when the backend is not there."""
    command = [engine, "verify", "--json", "--backend", backend, "--jobs", str(os.cpu_count()), folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
    if done.returncode == 3:
        return None
    if done.returncode not in (0, 1):
        sys.exit("%s ended with %d: %s" % (" ".join(command), done.returncode, done.stderr[-2000:]))
    rows = []
    for case in json.loads(done.stdout)["cases"]:
        name = case["name"]
        at = name.find(folder)
        name = name[at + len(folder) :] if at >= 0 else name
        rows.append((re.sub(r"/golden/[^/]*$|/model\.onnx$", "", name).strip("/"), case["result"], case["reason"]))
    return rows


def listed(rules, name):
    for pattern, reason in rules.items():
        if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name):
            return reason
    return None


FLOATS = {"f32", "f16", "bf16"}
NARROW = re.compile(r".*/(q_.*|qdq|qoperator|quantised|dynamic|few_bits|hybrid|optimised_.*)/.*|.*\.(int8|int16|int4|dynamic)")


def model_of(folder):
    """The model of a case's folder, as penstock-engine takes it: FILE or FILE#ENTRY."""
    golden = os.path.join(folder, "golden", "set0.json")
    if not os.path.exists(golden):
        return os.path.join(folder, "model.onnx")
    with open(golden) as f:
        return os.path.join(folder, json.load(f)["model"])


def computes_in_floats(model, name):
    """The rule of README.md. model: what `info` tells of it."""
    types = {value["type"] for value in model["inputs"] + model["outputs"]}
    wide = model["precision"] in FLOATS and types & FLOATS and not types & {"f64", "string"}
    return bool(wide) and not NARROW.fullmatch(name)


def floats(engine, at, names):
    """The cases among these that compute in floats."""
    found, names, step = set(), sorted(names), 200
    for first in range(0, len(names), step):
        some = names[first : first + step]
        command = [engine, "info", "--json", *(model_of(os.path.join(at, name)) for name in some)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
        if done.returncode != 0:
            sys.exit("%s ended with %d: %s" % (" ".join(command[:3]), done.returncode, done.stderr[-2000:]))
        models = json.loads(done.stdout)["models"]
        found.update(name for name, model in zip(some, models, strict=True) if computes_in_floats(model, name))
    return found


COLUMNS = ("cases", "reference", "xnnpack", "float", "float_xnnpack")
HEADS = "cases | right on reference | strictly on xnnpack | float | of them strictly on xnnpack | percent"


def total(rows):
    out = collections.Counter()
    for row in rows:
        out.update(row)
    return out


def cells(row):
    """The columns of a row, and what part of the float cases runs strictly on xnnpack."""
    part = "%.1f" % (100 * row["float_xnnpack"] / row["float"]) if row["float"] else "-"
    return " | ".join([str(row[c]) for c in COLUMNS] + [part])


def head(first, second):
    return ["| %s | %s | %s |\n" % (first, second, HEADS), "|---" * 8 + "|\n"]


def table(counts):
    """A row for each exporter and family."""
    rows = ["| %s | %s | %s |\n" % (*key, cells(row)) for key, row in sorted(counts.items())]
    return "".join(head("exporter", "family") + rows)


def table_sums(counts):
    """A row for each exporter, and one for all."""
    lines = head("exporter", "families")
    for exporter in sorted({e for e, _ in counts}):
        rows = [row for (e, _), row in counts.items() if e == exporter]
        lines.append("| %s | %d | %s |\n" % (exporter, len(rows), cells(total(rows))))
    lines.append("| all | %d | %s |\n" % (len(counts), cells(total(counts.values()))))
    return "".join(lines)


def table_check(page, text, update):
    """Whether the page has this table; with `update` it has it afterwards."""
    path = os.path.join(HERE, page)
    with open(path) as f:
        before, rest = f.read().split(BEGIN)
    old, after = rest.split(END)
    if update:
        with open(path, "w") as f:
            f.write(before + BEGIN + text + END + after)
    return update or old == text


def main():
    arguments = sys.argv[1:]
    folder = arguments[arguments.index("--cases") + 1] if "--cases" in arguments else None
    verbose, update = "--verbose" in arguments, "--update" in arguments
    engine = os.path.join(os.path.abspath(arguments[0]), "penstock-engine")
    rules, problems, counts, other = expected(), [], collections.defaultdict(collections.Counter), 0
    wide = None
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            unpack(scratch)
        at = os.path.abspath(folder or scratch) + "/"
        backends = 0
        for backend in ("reference", "xnnpack"):
            rows = verify(engine, backend, at)
            backends += rows is not None
            wide = floats(engine, at, {name for name, _, _ in rows}) if wide is None else wide
            for name, result, reason in rows or []:
                row, why = counts[tuple(name.split("/")[:2])], listed(rules, name)
                row["cases"] += backend == "reference"
                row[backend] += result == "pass"
                row["float"] += backend == "reference" and name in wide
                row["float_xnnpack"] += backend == "xnnpack" and name in wide and result == "pass"
                bad = result != "pass" if backend == "reference" else result == "fail"
                if verbose and (bad or result != "pass"):
                    print("%s %s %s: %s" % (backend, result, name, reason))
                if bad and (why is None or "CORRUPT" in reason):
                    problems.append("%s, %s: %s" % (name, backend, reason))
                elif bad or result == "skip":
                    other += 1
                elif why is not None and backend == "reference":
                    problems.append("%s is right now: take it off expected.tsv" % name)
    for page, text in (("MATRIX.md", table(counts)), ("README.md", table_sums(counts))):
        if folder is not None:
            print(text)
        elif backends == 2 and not table_check(page, text, update):
            problems.append("%s has another table: run.py BIN_DIR --update writes it" % page)
    for problem in problems:
        print("  " + problem)
    passed = sum(row["reference"] + row["xnnpack"] for row in counts.values())
    print("%d not counted: xnnpack alone does not run them, or expected.tsv has them" % other)
    print("%d passed, %d failed, 0 skipped" % (passed, len(problems)))
    return 1 if problems or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
