#!/usr/bin/env python3
"""Runs the commands of the tutorial and of the runbook, and the first program of README.md, in a network of their own where the usual ports are free;
compares pages with the code.

    docs_test.py BIN_DIR SOURCE_DIR [--sanitized]   # a library with a sanitizer: the first program is left out
    docs_test.py BIN_DIR SOURCE_DIR --root ROOT     # the tutorial alone, with the packages that are installed in that root

A line <!-- expect: REGEX --> before a block of shell says what its output must hold. Needs `unshare -n` (root, or user namespaces). The last line is
`N passed, N failed, N skipped`.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
ROOT = Path(sys.argv[4]) if sys.argv[3:4] == ["--root"] else None
DEPLOY = SOURCE / "deploy"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = 0


def check(condition, what):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, flush=True)


def blocks(file):
    """(what the output must match, the commands) of each shell block, in order."""
    return [(expect or "", code) for expect, code in re.findall(r"(?:<!-- expect: (.*?) -->\n)?```sh\n(.*?)```", file.read_text(), re.S)]


def namespace():
    for words in (["unshare", "-n"], ["unshare", "-rn"]):
        if shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    return None


def run(words, folder, parts, before="", after="", env=None, path=None):
    """One shell for all blocks; what each printed is cut out by marks. Returns [(status, output)]. path: of a shell that is told nothing else."""
    script = "ip link set lo up 2>/dev/null || ifconfig lo up\nset -o pipefail\n" + before
    for i, code in enumerate(parts):
        script += f"\necho '@@begin {i}'\n{{\n{code}\n}} 2>&1\necho \"@@end {i} $?\"\n"
    script += after
    environment = {**os.environ, "PATH": path or f"{BIN}:{os.environ['PATH']}", **(env or {})}
    for name in [name for name in environment if path and name.startswith("PENSTOCK") and name != "PENSTOCK_SLOW"]:
        del environment[name]
    process = subprocess.Popen([*words, "bash", "-c", script], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=120 * SLOW)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    found = []
    for i in range(len(parts)):
        match = re.search(rf"^@@begin {i}\n(.*?)^@@end {i} (\d+)$", out, re.S | re.M)
        found.append((int(match.group(2)), match.group(1)) if match else (-1, out[-1500:]))
    return found


def first_line(code):
    return code.strip().splitlines()[0][:90]


def repository(folder):
    """What a reader has after a build: this repository's documents, and build/bin."""
    (Path(folder) / "build").mkdir()
    (Path(folder) / "build/bin").symlink_to(BIN)
    (Path(folder) / "deploy").symlink_to(DEPLOY)


def tutorial(words, folder, path=os.defpath):
    if ROOT is None:
        repository(folder)
    parts = blocks(DEPLOY / "TUTORIAL.md")
    check(len(parts) >= 10, "the tutorial has its steps")
    for (expect, code), (status, out) in zip(parts, run(words, folder, [code for _, code in parts], path=path)):
        good = status == 0 and re.search(expect, out)
        check(good, f"tutorial: {first_line(code)}" + ("" if good else f"\n  status {status}, wanted {expect!r}\n{out}"))


def tutorial_fails(words, folder):
    """A model that cannot be served ends the wait, with the worker's sentence."""
    repository(folder)
    parts = [code for _, code in blocks(DEPLOY / "TUTORIAL.md")]
    upto = next(i for i, code in enumerate(parts) if "penstock-worker" in code) + 1
    broken = "truncate -s 100 pool/models/first/1/model.onnx"
    parts = [part.replace("seq 100", "seq 15") for part in parts[:upto]]
    status, out = run(words, folder, [*parts[:-1], broken, parts[-1]], after="\nkill $(jobs -p) 2>/dev/null; wait\n", path=os.defpath)[-1]
    good = status == 1 and "'first:1' did not come" in out and "model_failed" in out
    check(good, "tutorial: a model that fails is told, not waited for" + ("" if good else f"\n  status {status}\n{out}"))


def first_program(words, folder):
    """README.md's program, built with the command below it, and asked."""
    text = (SOURCE / "README.md").read_text()
    code, command = re.search(r"```c\n(.*?)```\n```\n(.*?)```", text, re.S).groups()
    (Path(folder) / "first.c").write_text(code)
    repository(folder)
    (Path(folder) / "build/lib").symlink_to(BIN.parent / "lib")
    for name in ("client-lib", "proto"):
        (Path(folder) / name).symlink_to(SOURCE / name)
    command = command.strip().replace("cc ", "cc -std=c17 -Wall -Wextra -Wpedantic -Wconversion -Werror ", 1)
    before = "penstock-broker > broker.txt 2> broker.log &\npenstock-worker --models deploy/models --slots 1 --threads 1 2> worker.log &\n"
    wait = "for i in $(seq 100); do penstock models 2> wait.log | grep -q digits && break; sleep 0.2; done"
    _, (status, out) = run(words, folder, [wait, command], before, "\npenstock drain workers; penstock drain; wait\n")
    check(status == 0 and out == "one\n", "README.md: the first program" + ("" if out == "one\n" else f"\n  status {status}\n{out}"))


def runbook(words, folder):
    alerts = re.findall(r"alert: (\S+)", (DEPLOY / "prometheus/alerts.yml").read_text())
    sections = re.findall(r"^## (Penstock\w+)", (DEPLOY / "RUNBOOK.md").read_text(), re.M)
    check(sorted(alerts) == sorted(sections), f"each alert has its section: {set(alerts) ^ set(sections)}")
    before = ("penstock keygen alice.key --name alice --list keys.txt > alice.txt\n"
              "penstock-broker > broker.txt 2> broker.log &\n"
              f"penstock-worker --models {DEPLOY}/models --slots 1 --threads 1 2> worker.log &\n"
              "for i in $(seq 100); do penstock models 2> wait.log | grep -q digits && break; sleep 0.2; done\n"
              f"penstock submit digits {DEPLOY}/models/digits/samples/*.png > submit.txt\n")
    parts = blocks(DEPLOY / "RUNBOOK.md")
    for (_, code), (status, out) in zip(parts, run(words, folder, [code for _, code in parts], before, "\npenstock drain workers; penstock drain; wait\n", {"HTTP": "127.0.0.1:8002", "KEYS": "keys.txt"})):
        check(status == 0, f"runbook: {first_line(code)}" + ("" if status == 0 else f"\n  status {status}\n{out}"))


def files():
    """What the documents name is there: files, programs' options, subcommands."""
    commands = set(re.findall(r"^  ([a-z-]+)  ", subprocess.run([BIN / "penstock", "--help"], capture_output=True, text=True).stdout, re.M))
    known = {"config", "help", "version", "build", "target", "set", "profile"}
    for program in (["penstock-broker"], ["penstock-worker"], *(["penstock", c] for c in commands)):
        known |= set(re.findall(r"`--(?:\[no-\])?([a-z-]+)", subprocess.run([BIN / program[0], *program[1:], "--settings-markdown"], capture_output=True, text=True).stdout))
    for name in ("TUTORIAL.md", "MODELS.md", "REGISTRY.md", "RUNBOOK.md", "METRICS.md", "LIMITS.md"):
        text = (DEPLOY / name).read_text()
        used = set(re.findall(r"\bpenstock ([a-z-]+)\b", " ".join(re.findall(r"`(penstock [^`]*)`", text) + [c for _, c in blocks(DEPLOY / name)])))
        check(used <= commands, f"{name} uses subcommands that there are: {used - commands}")
        named = set(re.findall(r"`--([a-z-]+)", text))
        check(named <= known, f"{name} names options that there are: {named - known}")
        for path in re.findall(r"`((?:deploy|tests|worker|client-lib|prometheus)/[\w./-]+)`", text):
            check((SOURCE / path).exists() or (DEPLOY / path).exists(), f"{name}: {path} exists")


def figures():
    """The table of benches: each command can be run as it stands there, and none is left out."""
    text = (SOURCE / "tests/README.md").read_text()
    commands = set(re.findall(r"^\| `(tests/[\w/.-]+)", text, re.M))
    for path in sorted(commands):
        check(os.access(SOURCE / path, os.X_OK), f"tests/README.md: {path} can be run")
    benches = {f"tests/bench/{file.name}" for file in (SOURCE / "tests/bench").iterdir() if file.is_file() and os.access(file, os.X_OK)}
    for path in sorted(benches):
        helped = subprocess.run([SOURCE / path, "--help"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
        check(helped.returncode == 0 and len(helped.stdout) > 50 and not helped.stderr, f"{path} --help says what it measures{helped.stderr[-200:]}")
    helpers = {path for path in benches if any(Path(path).name in other.read_text() for other in (SOURCE / "tests/bench").glob("*.sh"))}
    helpers -= {path for path in benches if path.endswith(".sh")}
    check(benches - helpers <= commands, f"tests/README.md names every bench: {sorted(benches - helpers - commands)}")


def rooms_named(folder):
    """The page of each room names its files."""
    for room, names in re.findall(r"^room\((\w+)([^)]*)\)", (SOURCE / folder / "CMakeLists.txt").read_text(), re.M):
        text = (SOURCE / folder / room / "README.md").read_text()
        lacks = [name for name in names.split() if f"`{name}`" not in text]
        check(not lacks and text.count("\n") <= 40, f"{folder}/{room}/README.md names its files in 40 lines: {lacks}")


def client_states():
    """The tables of states of a job and of a session are those that the client's code goes by; to stay in a state needs no row."""
    client = SOURCE / "client-lib"
    for source, page, title, prefix in (("job.c", "state", "a job", "JOB"), ("session_state.c", "session", "a session", "SESSION")):
        rows = re.findall(rf"\[{prefix}_(\w+)\] = (.*),", (client / "state" / source).read_text())
        edges = {(state.lower(), to.lower()) for state, bits in rows for to in re.findall(rf"BIT\({prefix}_(\w+)\)", bits) if to != state}
        table = (client / page / "README.md").read_text().split(f"\n## States of {title}\n")[1].split("\n\n## ")[0]
        told = {(before, after) for before, after in re.findall(r"^\| (\w+) \| .* \| (\w+)[^|]* \|$", table, re.M) if before not in (after, "state")}
        check(edges and edges == told, f"client-lib/{page}/README.md has the edges of state/{source}: {edges ^ told}")


def wire_numbers():
    """The numbers that PROTOCOL.md tells a stranger are those of the headers."""
    proto = SOURCE / "proto"
    page, frame = (proto / "PROTOCOL.md").read_text(), (proto / "wire/frame.h").read_text()
    status, classes = (proto / "include/penstock/status.h").read_text(), (proto / "include/penstock/precision.h").read_text()
    rows = dict(re.findall(r"^\| (flags, by bit|status|precision class) \| (.*) \|$", page, re.M))
    told = {what: {(name.upper(), int(number)) for number, name in re.findall(r"(\d+) `(\w+)`", row)} for what, row in rows.items()}
    code = {
        "flags, by bit": {(name, int(bit)) for name, bit in re.findall(r"FRAME_FLAG_(\w+)\s*=\s*1u << (\d+)", frame)},
        "status": {(name, int(number)) for name, number in re.findall(r"PEN_(?:ERR_)?(\w+) = (\d+),", status)},
        "precision class": {(name, int(number)) for name, number in re.findall(r"PEN_PRECISION_(\w+) = (\d+)", classes)},
    }
    differ = {what for what in code if not code[what] or code[what] != told.get(what)}
    check(not differ, f"PROTOCOL.md has the numbers of the headers: {differ}")
    types = {(int(number), name) for name, number in re.findall(r"FRAME_(\w+)\s*=\s*(\d+),", frame)}
    table = {(int(number), name) for number, name in re.findall(r"(?:^\| |, )(\d+) `([A-Z_]+)`", page.split("### Types")[1].split("\n\n**")[0], re.M)}
    check(types == table, f"PROTOCOL.md has the types of frame.h: {types ^ table}")


def pages():
    """The pages of the rooms are those of the code: files of each room, a job's edges, options, metrics; and links lead somewhere."""
    broker = SOURCE / "broker"
    rooms_named("broker")
    rooms_named("client-lib")
    client_states()
    wire_numbers()
    rows = re.findall(r"\[JOB_(\w+)\] = (.*BIT.*),", (broker / "lifecycle/states.c").read_text())
    edges = {(state.lower(), to.lower()) for state, bits in rows for to in re.findall(r"BIT\(JOB_(\w+)\)", bits) if to != state}
    states, told = {state.lower() for state, _ in rows} | {"done"}, set()
    table = (broker / "README.md").read_text().split("\n## States of a job\n")[1].split("\n## ")[0]
    for before, _, after in re.findall(r"^\| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", table, re.M):
        starts = {"(submit)": {"lookup"}, "any but done": states - {"done"}}.get(before, {before} & states)  # a new record is JOB_LOOKUP
        told |= {(start, to) for start in starts for to in states & set(re.findall(r"\w+", after)) if to != start}
    check(edges and edges == told, f"broker/README.md has the edges of lifecycle/states.c: {edges ^ told}")
    kinds = dict(re.findall(r"\[(EFFECT_\w+)\] =\s*\{([^{}]*)\}", (broker / "broker.c").read_text()))
    told = dict(re.findall(r"^\| `(EFFECT_\w+)` \|[^|]*\| (.*) \|$", (broker / "README.md").read_text(), re.M))
    differ = [kind for kind in kinds.keys() | told.keys() if re.findall(r"\w+", kinds.get(kind, "")) != re.findall(r"`(\w+)`", told.get(kind, ""))]
    check(kinds and not differ, f"broker/README.md has who hears of each effect, in the order of broker.c: {differ}")
    all_kinds = set(re.findall(r"^    (EFFECT_\w+),", (broker / "state/effect.h").read_text(), re.M)) - {"EFFECT_COUNT"}
    check(all_kinds == kinds.keys(), f"each effect has somebody who hears of it: {all_kinds ^ kinds.keys()}")
    code = "".join(file.read_text() for file in (broker / "observe").glob("metrics_text*.c"))
    families = set(re.findall(r'"([a-z_]+)",\s*"(?:counter|gauge|histogram)"', code)) | set(re.findall(r'put_\w+\(\s*s, w, "(\w+)"', code))
    text = (DEPLOY / "METRICS.md").read_text()
    prefixes = tuple(re.findall(r"`penstock_(\w+_)\*`", text))
    lacks = {name for name in families if f"`penstock_{name}`" not in text and not name.startswith(prefixes)}
    check(len(families) > 50 and not lacks, f"METRICS.md has every metric: {lacks}")
    told = set(re.findall(r"`penstock_(\w+)`", text))
    check(told <= families, f"METRICS.md has no other metric: {told - families}")
    for page in [broker / "README.md", *broker.glob("*/README.md"), *(SOURCE / "client-lib").glob("**/README.md"), *(SOURCE / name / "README.md" for name in ("worker", "proto", "deploy")), DEPLOY / "METRICS.md", DEPLOY / "LIMITS.md", SOURCE / "proto/PROTOCOL.md"]:
        links = {link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()) if not (page.parent / link).exists()}
        check(not links, f"{page.relative_to(SOURCE)} leads to what there is: {links}")


def installed_pages():
    """Pages that are installed lead only to each other: they lie in one folder there."""
    names = re.search(r"set\(penstock_pages ([^)]*)\)", (DEPLOY / "package.cmake").read_text()).group(1).split()
    for name in names:
        links = {link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (SOURCE / name).read_text())}
        there = {str((SOURCE / name).parent.joinpath(link).resolve().relative_to(SOURCE)) for link in links}
        check(len(names) > 5 and there <= {*names, "LICENSE"}, f"{name} leads only to pages that are installed: {there - {*names, 'LICENSE'}}")


def papers():
    """Each library that the programs load has its licence told; the packages' changelog is of this version; the licence is the whole one."""
    listed = subprocess.run([DEPLOY / "install-deps.sh", "--list"], capture_output=True, text=True).stdout
    runtime = {re.sub(r"[*\[].*", "", name) for name in re.findall(r"^runtime\s+(\S+)", listed, re.M)}
    told = {re.sub(r"[*\[].*", "", name) for name in re.findall(r"^\| ((?:lib|zlib)[\w.-]+) \|", (DEPLOY / "LICENCES.md").read_text(), re.M)}
    check(runtime and runtime == told, f"LICENCES.md has the libraries of install-deps.sh: {runtime ^ told}")
    version = re.search(r"project\(penstock VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
    check((DEPLOY / "debian/changelog").read_text().startswith(f"penstock ({version}) "), f"the packages' changelog begins with {version}")
    said = re.search(r"built in (\S+) s(.*)", (SOURCE / "README.md").read_text()).group(2)
    words = re.search(r'kind="(the first build, .*?)\$', (DEPLOY / "quickstart.sh").read_text()).group(1)
    check(said.startswith(f": {words}"), f"README.md says which build its time is of, as quickstart.sh does: {said}")
    licence = (SOURCE / "LICENSE").read_text()
    check("Apache License" in licence and "Version 2.0" in licence and "END OF TERMS AND CONDITIONS" in licence, "LICENSE is the whole text")
    for name in ("SECURITY.md", "CONTRIBUTING.md", "deploy/RELEASES.md", "deploy/LICENCES.md"):
        text, folder = (SOURCE / name).read_text(), (SOURCE / name).parent
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            check((folder / link).exists(), f"{name} leads to {link}")
        for path in re.findall(r"`((?:deploy|tests|worker|broker|client-lib)/[\w./-]+)`", text):
            check((SOURCE / path).exists(), f"{name}: {path} exists")


def installed():
    """The tutorial with nothing but the packages."""
    with tempfile.TemporaryDirectory() as folder:
        tutorial(["unshare", "-n", "sh", "-c", 'ip link set lo up; exec chroot "$0" "$@"', str(ROOT)], folder, "/usr/sbin:/usr/bin:/sbin:/bin")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


def main():
    if ROOT is not None:
        return installed()
    files()
    figures()
    pages()
    installed_pages()
    papers()
    words = namespace()
    if not words or not shutil.which("curl"):
        print("[SKIP] no network namespaces or no curl here: the commands of the documents were not run")
        print(f"{passed} passed, {failed} failed, 1 skipped")
        return failed > 0
    for part in (tutorial, tutorial_fails, runbook, *([] if "--sanitized" in sys.argv else [first_program])):
        with tempfile.TemporaryDirectory() as folder:
            part(words, folder)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
