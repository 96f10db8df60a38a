#!/usr/bin/env python3
"""Plants one-line faults and asks whether the tests notice: mutants.py [--build DIR] [--count N] [--seed N] [--folder F] [--jobs N] [--list].

By hand, with a build that has tests and PENSTOCK_CHECKS. A fault is one changed line of broker/, worker/ or engine/run/: an operator turned round, a bound
off by one, a condition dropped or negated, a statement or a release left out, a constant changed. The changed copy of the file is compiled in a folder of
its own and linked in front of the build's libraries; sources and build stay as they are. Then the folder's tests run, the likely ones first, and
`broker_sim`, until one fails or 60 seconds are over. A test that fails must fail twice. Units run with the changed file under the address sanitizer, so that
what is read beyond its end, or lost, is noticed as in `tests/run.sh --full`. Programs that tests start are put in the place of the build's by a
mount of the test's own (needs root or user namespaces; without them those tests are left out).

Lines that only tell people something (log lines, texts of errors) get no fault, nor do assertions. A fault that changes no byte of the object file is
drawn again. What escapes is printed as a diff; what changes nothing that anybody can see stands in mutants_equivalent.txt with the reason. Exit 0: at
least 95 % of the others were caught, and at most 5 % are in the list.
"""
import argparse
import collections
import concurrent.futures
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
SECONDS = 60 * int(os.environ.get("PENSTOCK_SLOW", 1))  # for the tests of one fault
FOLDERS = {  # folder: (programs with its code, pattern of its tests)
    "broker": (["penstock-broker"], r"test_broker_\w+|broker_sim"),
    "worker": (["penstock-worker"], r"test_worker_\w+|tsan_worker_slots"),
    "engine/run": ([], r"test_session|test_source|test_variant|test_memory|test_encoder|test_hostile|test_engine_\w+|test_worker_(?!wire)\w+"),
}
TELLS = r"\b(?:log_event|pen_error_set|snprintf|fprintf|printf|PEN_ASSERT\w*|_Static_assert|assert|__builtin_prefetch|words_plural)\s*\("
RELEASE = r"(?:release|free|fini|unref|remove|leave|close|drop|give|end|discard)"

Fault = collections.namedtuple("Fault", "path line kind old new")

# ---- where faults may stand -----------------------------------------------------------------------------------------


def blanked(text):
    """The text with comments, strings and what only tells something as spaces: every place keeps its offset."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    text = re.sub(r"^#.*(?:\\\n.*)*", blank, text, flags=re.M)
    for match in re.finditer(TELLS, text):
        depth, end = 0, match.start()
        for end in range(match.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
        text = text[:match.start()] + re.sub(r"[^\n]", " ", text[match.start():end + 1]) + text[end + 1:]
    return text


SWAPS = [(r" <= ", " < "), (r" < ", " <= "), (r" >= ", " > "), (r" > ", " >= "), (r" == ", " != "), (r" != ", " == "), (r" && ", " || "),
         (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "), (r" \* (?=[\w(])(?!\w+\)?[,;)=])", " + "), (r" \+= ", " -= "), (r" -= ", " += "), (r" \|= ", " &= "),
         (r"\+\+", "--"), (r"(?<!-)--(?!-)", "++"), (r"\btrue\b", "false"), (r"\bfalse\b", "true")]
DECLARES = r"\s*(?:const |static |struct \w+ [*\w]|enum |union |unsigned |u?int\d*_t |size_t |ssize_t |bool |char |double |float |void |zmq_\w+ |TAILQ_|[A-Z]\w+ \*?\w+[;=])"
KEEPS = r"\s*(?:return|break|continue|goto|case|default|else|if|for|while|do|switch|[}{])\b"


def faults_of_line(path, number, line, plain, before):
    """All one-line faults; plain is the blanked line, before the blanked line in front of it."""
    def fault(kind, new):
        return Fault(path, number, kind, line, new)
    for pattern, to in SWAPS:
        for at in re.finditer(pattern, plain):
            yield fault(at.group().strip() + " is " + to.strip(), line[:at.start()] + to + line[at.end():])
    for at in re.finditer(r"(?<![\w.\[])(\d{1,6})(u?)(?![\w.x\]])", plain):
        value = int(at.group(1))
        yield fault("constant", line[:at.start()] + str(value + 1 if value else 1) + at.group(2) + line[at.end():])
    whole = re.match(r"(\s*(?:\} else )?(?:if|while) )\((.*)\)( \{)?$", plain)
    if whole and plain.count("(") == plain.count(")"):
        start, end = whole.start(2), whole.end(2)
        yield fault("condition negated", f"{line[:start]}!({line[start:end]}){line[end:]}")
        if plain.lstrip().startswith(("if", "}")):
            yield fault("condition always false", f"{line[:start]}false && ({line[start:end]}){line[end:]}")
            yield fault("condition always true", f"{line[:start]}true || ({line[start:end]}){line[end:]}")
    complete = re.match(r"\s+[\w*(].*;$", plain) and plain.count("(") == plain.count(")") and re.search(r"[;{})\s]$|:$", before)
    if complete and not re.match(DECLARES, plain) and not re.match(KEEPS, plain) and not before.rstrip().endswith((",", "=", "&&", "||", "(", "?")):
        kind = "release left out" if re.search(RELEASE, plain.split("(")[0]) else "statement left out"
        yield fault(kind, re.match(r"\s*", line).group() + "(void)0;")


def faults_of(folder):
    for path in sorted((SOURCE / folder).rglob("*.c")):
        text = path.read_text()
        lines, plains = text.split("\n"), blanked(text).split("\n")
        inside = False
        for number, (line, plain) in enumerate(zip(lines, plains), 1):
            if line.startswith("{") or (inside and line.startswith("}")):
                inside = line.startswith("{")
            elif inside and plain.strip():
                yield from faults_of_line(str(path.relative_to(SOURCE)), number, line, plain, plains[number - 2].rstrip() or ";")


# ---- the build's own commands ---------------------------------------------------------------------------------------


class Build:
    def __init__(self, folder):
        self.folder = folder
        if "PENSTOCK_CHECKS:BOOL=ON" not in (folder / "CMakeCache.txt").read_text():
            sys.exit(f"mutants.py: {folder} has no checks: cmake -S . -B {folder} -G Ninja -DPENSTOCK_TESTS=ON -DPENSTOCK_CHECKS=ON, then build it")
        self.compiles, self.links = {}, {}
        for command in self.commands():
            to = re.search(r" -c (\S+)$", command)
            if to and to.group(1).startswith(str(SOURCE)):
                self.compiles[os.path.relpath(to.group(1), SOURCE)] = command

    def commands(self, *targets):
        done = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", *targets], capture_output=True, text=True, check=True)
        return [line for line in done.stdout.split("\n") if line]

    def targets(self, pattern):
        done = subprocess.run(["ninja", "-C", self.folder, "-t", "targets", "all"], capture_output=True, text=True, check=True)
        return sorted(set(re.findall(rf"^(?:tests|bin)/({pattern}): ", done.stdout, flags=re.M)))

    def link(self, target):
        if target not in self.links:
            self.links[target] = self.commands(target)[-1].removeprefix(": && ").removesuffix(" && :")
        return self.links[target]

    def object_of(self, path):
        return re.search(r" -o (\S+)", self.compiles[path]).group(1)


# ---- one place where faults are tried -------------------------------------------------------------------------------


class Bench:
    """A folder with one changed file and what is linked with it."""

    def __init__(self, build, folder, mounts):
        self.build, self.folder, self.mounts = build, folder, mounts
        folder.mkdir(parents=True)

    def compile(self, path, text, sanitize=False):
        """The object's bytes, or None and what the compiler said."""
        copy, made = self.folder / Path(path).name, self.object(sanitize)
        copy.write_text(text)
        command = re.sub(r" -MD -MT \S+ -MF \S+", "", self.build.compiles[path])
        command = re.sub(r"^\S*ccache ", "", command)
        command = re.sub(r" -o \S+ -c \S+$", f" -I{(SOURCE / path).parent} -o {made} -c {copy}", command)
        if sanitize:
            command += " " + " ".join(SANITIZE + ["-Wno-error", "-O1"])
        done = subprocess.run(shlex.split(command), cwd=self.build.folder, capture_output=True, text=True)
        return (made.read_bytes(), "") if done.returncode == 0 else (None, done.stderr)

    def object(self, sanitize):
        return self.folder / ("sanitized.o" if sanitize else "changed.o")

    def link(self, path, target, to, sanitize=False):
        """path None: without a fault."""
        own = self.build.object_of(path) if path else None
        made = str(self.object(sanitize))
        command = self.build.link(target)
        command = re.sub(r" -o \S+", f" -o {to}", command.split(" && ")[0], count=1)
        if path:
            command = command.replace(own, made) if own in command else re.sub(r" (\S+\.a)\b", rf" {made} \1", command, count=1)
        command = shlex.split(command) + GOLD + (SANITIZE if sanitize else [])
        return subprocess.run(command, cwd=self.build.folder, capture_output=True).returncode == 0

    def programs(self, path, names):
        """The build's programs beside each other, those of this folder with the fault."""
        place = self.folder / "bin"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.build.folder / "bin", place, copy_function=os.link, symlinks=True)
        for name in names:
            (place / name).unlink()
            if not self.link(path, name, place / name):
                shutil.copy2(self.build.folder / "bin" / name, place / name)
        return place

    def run(self, program, arguments, seconds, place):
        """(exit status or None for a time-out, output)"""
        command = [str(program), *arguments]
        if place:
            bind = f"mount --bind {shlex.quote(str(place))} {shlex.quote(str(self.build.folder / 'bin'))} && exec {shlex.join(command)}"
            command = [*self.mounts, "sh", "-c", bind]
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True,
                                     env={**os.environ, **SANITIZER_SETTINGS})
            try:
                status = child.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
            output.seek(0)
            return status, output.read().decode(errors="replace")


def gold():
    return ["-fuse-ld=gold"] if shutil.which("ld.gold") else []


def mount_commands():
    """How a test gets a mount of its own; None where it cannot."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") and subprocess.run([*command, "mount", "--bind", "/tmp", "/mnt"], capture_output=True).returncode == 0:
            return command
    return None


GOLD = gold()
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
SANITIZER_SETTINGS = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "halt_on_error=1",
                      "LSAN_OPTIONS": f"suppressions={SOURCE}/tests/support/lsan.supp:print_suppressions=0"}

# ---- which test first -----------------------------------------------------------------------------------------------


class Tests:
    """The tests of one folder: their times without a fault, and what they have caught so far."""

    def __init__(self, build, folder):
        self.programs, pattern = FOLDERS[folder]
        self.names = [name for name in build.targets(pattern) if (build.folder / "tests" / name).exists()]
        self.seconds, self.caught, self.words, self.starts, self.sanitized = {}, collections.Counter(), {}, {}, set()
        for name in self.names:
            sources = [c for c in re.findall(r"\S+\.c(?=\.o)", build.link(name)) if c.startswith("tests/")]
            texts = []
            for source in sources:
                source = SOURCE / re.sub(r"CMakeFiles/[^/]+\.dir/", "", source)
                texts.append(source.read_text() if source.exists() else "")
            self.words[name] = " ".join([name, *texts])
            self.starts[name] = bool(re.search(r"play_broker|penstock-(broker|worker)|process_start|PENSTOCK_BIN|pool_start", self.words[name]))

    def arguments(self, name):
        return ["--schedules", "1000", "--seed", "5"] if name == "broker_sim" else [] if name.startswith("tsan") else ["--verbose=0"]

    def time_all(self, bench, build):
        for name in list(self.names):
            made, status = bench.folder / name, None
            wraps = "-Wl,--wrap=malloc" in build.link(name) or ",--wrap=calloc" in build.link(name) or "--wrap=mem" in build.link(name)
            if not self.starts[name] and name != "broker_sim" and not wraps and bench.link(None, name, made, True):
                begin = time.monotonic()
                status, _ = bench.run(made, self.arguments(name), SECONDS, None)
                self.sanitized |= {name} if status == 0 else set()
            if status != 0:
                begin = time.monotonic()
                status, _ = bench.run(build.folder / "tests" / name, self.arguments(name), SECONDS, None)
            made.unlink(missing_ok=True)
            self.seconds[name] = time.monotonic() - begin
            if status != 0:
                self.names.remove(name)
                print(f"left out, it fails without a fault or takes too long: {name}", flush=True)

    def order(self, path):
        stem, room = Path(path).stem, Path(path).parent.name
        parts = {*stem.split("_"), room}
        def score(name):
            words = self.words[name]
            near = 20 * (f"test_broker_{stem}" == name or f"test_worker_{stem}" == name) + 6 * (f'"{stem}.h"' in words) + min(4, words.count(stem))
            near += 12 * len(parts & set(name.split("_")[2:]))
            return near + 8 * min(3, self.caught[path, name]) + 2 * min(4, self.caught[room, name]) + min(6, self.caught[name]) - self.seconds[name] / 2
        names = sorted(self.names, key=score, reverse=True)
        if "broker_sim" in names:
            names.remove("broker_sim")
            names.insert(2, "broker_sim")
        return names


def try_fault(bench, build, tests, fault):
    """(verdict, what caught it)"""
    path, lines = fault.path, (SOURCE / fault.path).read_text().split("\n")
    plain, said = bench.compile(path, "\n".join(lines))
    if plain is None:
        sys.exit(f"mutants.py: {path} does not compile without a fault:\n{said}")
    lines[fault.line - 1] = fault.new
    changed, said = bench.compile(path, "\n".join(lines))
    if changed is None:
        return "compiler", (re.search(r"\[-W\S+\]|error: .*", said) or [""])[0]
    if changed == plain:
        return "same", ""
    lines = "\n".join(lines)
    sanitized = bench.compile(path, lines, True)[0] is not None
    place = bench.programs(path, tests.programs) if tests.programs and bench.mounts else None
    until = time.monotonic() + SECONDS
    for name in tests.order(path):
        left = until - time.monotonic()
        if left < 1:
            return "escaped", "the time was over"
        program, starts = bench.folder / name, tests.starts[name]
        if (starts and not place) or not bench.link(path, name, program, sanitized and name in tests.sanitized):
            continue
        most = max(10, 10 * tests.seconds[name])
        for again in (False, True):
            status, output = bench.run(program, tests.arguments(name), min(most, SECONDS), place if starts else None)
            if status == 0 or "evt=assertion_failed" in output or (name == "broker_sim" and status is not None):
                break
        program.unlink()
        if status == 0:
            continue
        tests.caught.update([(path, name), (Path(path).parent.name, name), name])
        sentence = re.search(r'evt=assertion_failed .*?invariant="([^"]*)"', output)
        if sentence:
            return "assert", f"{name}: {sentence.group(1)}"
        return ("time-out" if status is None else "simulation" if name == "broker_sim" else "test"), name
    return "escaped", ""


# ---- the run --------------------------------------------------------------------------------------------------------


def equivalents():
    """{(path, line as it is, line with the fault): reason} from mutants_equivalent.txt."""
    listed, path = {}, SOURCE / "tests/mutants_equivalent.txt"
    for number, line in enumerate(path.read_text().split("\n") if path.exists() else [], 1):
        if line.strip() and not line.startswith("#"):
            parts = [part.strip() for part in line.split(" ~ ")]
            if len(parts) != 4:
                sys.exit(f"mutants_equivalent.txt:{number}: a line is PATH ~ LINE ~ LINE WITH THE FAULT ~ REASON")
            listed[tuple(parts[:3])] = parts[3]
    return listed


def escaped_in(log):
    """{(path, line, line with the fault)} of the diffs that a run has printed."""
    found = re.findall(r"^--- (\S+):\d+ \(.*\)\n-(.*)\n\+(.*)$", log.read_text(), flags=re.M)
    return set(found)


def key(fault):
    return fault.path, fault.old.strip(), fault.new.strip()


def diff(fault):
    return f"--- {fault.path}:{fault.line} ({fault.kind})\n-{fault.old}\n+{fault.new}"


def main():
    parser = argparse.ArgumentParser(description="Plants one-line faults and asks whether the tests notice.")
    parser.add_argument("--build", type=Path, default=SOURCE / "build", help="a Ninja build with tests and PENSTOCK_CHECKS (default: build)")
    parser.add_argument("--count", type=int, default=200, help="faults (default: 200)")
    parser.add_argument("--seed", type=int, help="draws the same faults again (default: a new one, printed)")
    parser.add_argument("--folder", choices=FOLDERS, action="append", help="only this folder; may be given more than once")
    parser.add_argument("--only", help="only files with this in their path")
    parser.add_argument("--again", type=Path, metavar="LOG", help="only the faults that escaped in an earlier run, from what that printed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="faults at a time")
    parser.add_argument("--minutes", type=float, default=600, help="begins no fault after so long")
    parser.add_argument("--list", action="store_true", help="prints the faults and plants none")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    folders = given.folder or list(FOLDERS)
    all_faults = [(folder, fault) for folder in folders for fault in faults_of(folder) if not given.only or given.only in fault.path]
    random.Random(seed).shuffle(all_faults)
    if given.again:
        wanted = escaped_in(given.again)
        all_faults = [(folder, fault) for folder, fault in all_faults if (fault.path, fault.old, fault.new) in wanted]
        given.count = min(given.count, len(all_faults))
    print(f"seed {seed}: {given.count} of {len(all_faults)} faults", flush=True)
    if given.list:
        for _, fault in all_faults[:given.count]:
            print(diff(fault))
        return 0
    build = Build(given.build.resolve())
    scratch = Path(tempfile.mkdtemp(prefix="mutants-", dir=build.folder))
    try:
        return run(given, build, scratch, folders, all_faults, seed)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run(given, build, scratch, folders, all_faults, seed):
    mounts = mount_commands()
    if not mounts:
        print("left out: tests that start programs (no mounts of their own here)")
    tests, spare = {}, Bench(build, scratch / "times", mounts)
    for folder in folders:
        tests[folder] = Tests(build, folder)
        tests[folder].time_all(spare, build)
    known, lock, verdicts, escaped, listed = equivalents(), threading.Lock(), collections.Counter(), [], []
    queue, by_folder, begun = iter(all_faults), collections.defaultdict(collections.Counter), time.monotonic()

    def work(bench):
        while True:
            with lock:
                if sum(verdicts.values()) + busy[0] >= given.count or time.monotonic() - begun > 60 * given.minutes:
                    return
                folder, fault = next(queue, (None, None))
                if fault is None:
                    return
                busy[0] += 1
            begin = time.monotonic()
            try:
                verdict, what = ("listed", known[key(fault)]) if key(fault) in known else try_fault(bench, build, tests[folder], fault)
            except BaseException:
                with lock:
                    busy[0] -= 1
                raise
            with lock:
                busy[0] -= 1
                if verdict == "same":
                    continue
                verdicts[verdict] += 1
                by_folder[folder][verdict] += 1
                (escaped if verdict == "escaped" else listed if verdict == "listed" else []).append(fault)
                print(f"{sum(verdicts.values()):4} {time.monotonic() - begin:5.1f} s {verdict:10} {fault.path}:{fault.line} {fault.kind}: {what}", flush=True)
                if verdict == "escaped":
                    print(diff(fault), flush=True)

    busy = [0]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for done in [pool.submit(work, Bench(build, scratch / str(i), mounts)) for i in range(given.jobs)]:
            done.result()

    total, out = sum(verdicts.values()), verdicts["escaped"]
    caught, judged = total - out - len(listed), total - len(listed)
    if escaped:
        print("\n== escaped")
        for fault in sorted(escaped):
            print(diff(fault))
    print(f"\nseed {seed}, {total} faults: " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    for folder, counts in by_folder.items():
        print(f"{folder}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    if judged == 0:
        return 1
    print(f"caught {caught} of {judged} ({100 * caught / judged:.1f} %); listed as equivalent {len(listed)} of {total}")
    return 0 if caught >= 0.95 * judged and len(listed) <= 0.05 * total else 1


if __name__ == "__main__":
    sys.exit(main())
