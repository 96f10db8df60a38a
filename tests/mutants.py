#!/usr/bin/env python3
"""Plants one-line faults and asks whether the tests notice: mutants.py [--build DIR] [--count N] [--seed N] [--folder F] [--jobs N] [--list] [--uncovered] [--self-check].

By hand, with a build that has tests and PENSTOCK_CHECKS. A fault is one changed line of broker/, worker/ or engine/run/: an operator turned round, a bound
off by one, a condition dropped or negated, a statement or a release left out, a constant changed. The changed copy of the file is compiled in a folder of
its own and linked in front of the build's libraries; sources and build stay as they are. Then those of the folder's tests (programs, `broker_sim`, Python
tests of e2e) run that run the changed line (mutants_coverage.py), until one fails or they have used 60 seconds of processor time. A test that fails must
fail twice with the fault, and then pass without it: one that a busy machine has held up tells nothing. Units run with the changed file under the address
sanitizer, so that what is read beyond its end, or lost, is noticed as in `tests/run.sh --full`; so do the programs that tests start, where nothing else noticed. Programs that tests start are put in the place of the
build's by a mount of the test's own (needs root or user namespaces; without them those tests are left out).

Lines that only tell people something (log lines, texts of errors) get no fault, nor do assertions. A fault that changes no byte of the object file is
drawn again. What escapes is printed as a diff; what changes nothing that anybody can see stands in mutants_equivalent.txt with the reason. Exit 0: at
least 95 % of the others were caught, and at most 5 % are in the list. A fault that some program cannot be linked with counts neither way and is told.

--self-check plants what the tool must catch, what it must let pass and what it must call unlinked, and says whether it did (mutants_self.py).
"""
import argparse
import collections
import concurrent.futures
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from mutants_bench import SOURCE, Bench, Build, Unlinked, mount_commands
from mutants_coverage import Coverage
from mutants_self import self_check

SECONDS = 60  # processor time for the tests of one fault
UNLINKED_MOST = 5  # more say that the tool does not know how programs are linked: the run ends
REPORTERS = 3  # so many tests, the quickest, start programs with the sanitizer when nothing else has noticed a fault
WALL = 600  # and by the clock, however busy the machine is
POOLS = r"e2e_(?:answers|asleep|brokers|bulk|cache|classes|ensembles|models|neighbours|pictures|refusals|sealed_pool|security|sequences|slices|types|versions)"
SCRIPTS = "e2e_(?:compare|contracts|crops|observe|registry|scaler|try|usage)"  # Python, not programs
TOOLS = r"test_verify\w*|test_tools|test_told\w*|test_env_command|test_refused"
ENGINE_POOLS = r"e2e_(?:answers|digits|formats|models|types|versions)"
FOLDERS = {  # folder: (programs with its code, pattern of its test programs, and of its scripts)
    "broker": (["penstock-broker"], rf"test_broker_\w+|broker_sim|{POOLS}", SCRIPTS + "|e2e_redis_servers|deploy_services"),
    "worker": (["penstock-worker"], rf"test_worker_\w+|tsan_worker_slots|{POOLS}", SCRIPTS),
    "engine/run": (["penstock-engine", "penstock-worker"],
                   rf"test_session|test_askew|test_lifetime|test_leftovers|test_models|test_source|test_variant|test_memory|test_encoder|test_hostile|test_engine_\w+|test_vulkan_flights|test_library_\w+|{TOOLS}|test_worker_\w+|{ENGINE_POOLS}",
                   "e2e_(?:contracts|crops)"),
}
TELLS = r"\b(?:log_event|pen_error_set|snprintf|fprintf|printf|PEN_ASSERT\w*|_Static_assert|assert|__builtin_prefetch|words_plural)\s*\("
RELEASE = r"(?:release|free|fini|unref|remove|leave|close|drop|give|end|discard)"

REPORTS = r"ERROR: (?:Address|Leak)Sanitizer|: runtime error: "

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
    for at in re.finditer(r"(?<!calloc\()(?<![\w.\[])(\d{1,6})(u?)(?![\w.x\]])", plain):  # a larger block changes nothing that can be seen
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


# ---- which test first -----------------------------------------------------------------------------------------------


class Tests:
    """The tests of one folder: what they need, which of them run a line, and what they have caught so far."""

    def __init__(self, build, folder, mounts):
        self.programs, pattern, scripts = FOLDERS[folder]
        self.commands = {name: [str(build.folder / "tests" / name), *self.arguments(name)] for name in build.targets(pattern)}
        self.commands = {name: command for name, command in self.commands.items() if os.path.exists(command[0])}
        self.scripts = build.scripts(scripts)
        self.commands.update(self.scripts)
        self.names = list(self.commands)
        self.build, self.caught, self.words, self.starts = build, collections.Counter(), {}, {}
        self.coverage = Coverage(build, folder, mounts)
        for name in self.names:
            self.words[name] = " ".join([name, *(source.read_text() for source in self.sources(name) if source.exists())])
            self.starts[name] = name in self.scripts or bool(re.search(r"play_broker|penstock-(broker|worker|engine)|process_start|PENSTOCK_BIN|pool_start|^e2e_", self.words[name]))
        if not mounts:  # tests that start programs cannot have those with the fault
            self.names = [name for name in self.names if not self.starts[name]]

    def sources(self, name):
        """The files that the test is written in."""
        if name in self.scripts:
            return [Path(self.scripts[name][1])]
        sources = [c for c in re.findall(r"\S+\.c(?=\.o)", self.build.link(name)) if c.startswith("tests/")]
        return [SOURCE / re.sub(r"CMakeFiles/[^/]+\.dir/", "", source) for source in sources]

    def holds(self, name, path):
        """Whether the test's own program has this file."""
        return name not in self.scripts and self.build.holds(name, path)

    @staticmethod
    def arguments(name):
        return ["--schedules", "1000", "--seed", "5"] if name == "broker_sim" else [] if name.startswith("tsan") else ["--verbose=0"]

    def measure(self, bench, name):
        """{passes, sanitized, cpu, wall} of a test without a fault: under the sanitizer where it passes there."""
        made = bench.folder / name
        passes = sanitized = False
        begin = time.monotonic()
        if not self.starts[name] and name != "broker_sim" and bench.link(None, name, made, True):
            status, output, cpu = bench.run([made, *self.arguments(name)], SECONDS, WALL, None)
            passes = sanitized = status == 0 and not re.search(REPORTS, output)
        for _ in range(3):  # a busy machine makes a test of time fail now and then
            if not passes:
                begin = time.monotonic()
                status, _, cpu = bench.run(self.commands[name], SECONDS, WALL, None)
                passes = status == 0
        made.unlink(missing_ok=True)
        return {"passes": passes, "sanitized": sanitized, "cpu": cpu, "wall": time.monotonic() - begin}

    def order(self, path, line):
        """The tests that run this line: first those that caught faults beside it, those of its name, and the quick ones."""
        stem, room, runs = Path(path).stem, Path(path).parent.name, self.coverage.runs
        parts = {*stem.split("_"), room}
        def score(name):
            words, caught = self.words[name], self.caught
            near = 6 * (name in (f"test_broker_{stem}", f"test_worker_{stem}")) + 2 * (f'"{stem}.h"' in words) + 3 * len(parts & set(name.split("_")[2:]))
            near += 4 * min(3, caught[path, name]) + min(4, caught[room, name]) + min(2, caught[name])
            return (1 + near) / (0.2 + max(runs[name]["cpu"], runs[name]["wall"] / 2))
        return sorted(self.coverage.tests_of(path, line), key=score, reverse=True)


def try_fault(bench, build, tests, fault):
    """(verdict, what caught it). Unlinked where a program that has the file cannot be linked with the fault."""
    path, lines = fault.path, (SOURCE / fault.path).read_text().split("\n")
    if path not in build.plain:
        build.plain[path], said = bench.compile(path, "\n".join(lines))
        if said:
            sys.exit(f"mutants.py: {path} does not compile without a fault:\n{said}")
    lines[fault.line - 1] = fault.new
    text = "\n".join(lines)
    changed, said = bench.compile(path, text)
    if changed is None:
        return "compiler", (re.search(r"\[-W\S+\]|error: .*", said) or [""])[0]
    if changed == build.plain[path]:
        return "same", ""
    names = tests.order(path, fault.line)
    if not names:
        return "escaped", "no test runs this line"
    sanitized = any(tests.coverage.runs[name]["sanitized"] for name in names) and bench.compile(path, text, True)[0] is not None
    place, used, begun = None, 0, time.monotonic()
    for name in names:
        if used > SECONDS or time.monotonic() - begun > WALL:
            return "escaped", "the time was over"
        if tests.starts[name] and not place:
            place = bench.programs([program for program in tests.programs if build.holds(program, path)],
                                   lambda program, to: bench.link(path, program, to))
        status, output, cpu = fails_twice(bench, tests, path, name, sanitized, place)
        used += cpu
        if status != 0 and "evt=assertion_failed" not in output and not passes_without(bench, tests, name, sanitized and tests.holds(name, path)):
            print(f"     {name} fails just now without the fault at {path}:{fault.line}, too: it tells nothing", flush=True)
            continue
        if status != 0:
            tests.caught.update([(path, name), (Path(path).parent.name, name), name])
            sentence = re.search(r'evt=assertion_failed .*?invariant="([^"]*)"', output)
            if sentence:
                return "assert", f"{name}: {sentence.group(1)}"
            return ("time-out" if status is None else "simulation" if name == "broker_sim" else "test"), name
    starters = [name for name in names if tests.starts[name] and not tests.holds(name, path)]
    reporter = reported(bench, build, tests, path, text, starters) if place else None
    return ("test", f"{reporter}, whose programs the sanitizer reports") if reporter else ("escaped", f"{len(names)} tests run it")


def reported(bench, build, tests, path, text, names):
    """The test whose programs, made with the sanitizer, lose memory or read beyond an end with the fault and not without it, as in `run.sh --full`."""
    def reports(name, source):
        if bench.compile(path, source, True)[0] is None:
            return False
        place = bench.programs([program for program in tests.programs if build.holds(program, path)], lambda program, to: bench.link(path, program, to, True))
        run = tests.coverage.runs[name]
        return re.search(REPORTS, bench.run(tests.commands[name], 10 + 16 * run["cpu"], 15 + 8 * run["wall"], place)[1]) is not None
    for name in sorted(names, key=lambda name: tests.coverage.runs[name]["wall"])[:REPORTERS]:
        if reports(name, text) and not reports(name, (SOURCE / path).read_text()):
            return name
    return None


def judged(bench, build, tests, fault):
    """(verdict, what caught it or cannot be linked)"""
    try:
        return try_fault(bench, build, tests, fault)
    except Unlinked as program:
        return "unlinked", str(program)


def passes_without(bench, tests, name, sanitized):
    """Whether the test passes here and now without a fault, made as the one with it and in the same time."""
    run, program = tests.coverage.runs[name], bench.folder / name
    made = sanitized and run["sanitized"] and bench.link(None, name, program, True)
    command = [program, *tests.arguments(name)] if made else tests.commands[name]
    status, output, _ = bench.run(command, 5 + 8 * run["cpu"], 15 + 8 * run["wall"], None)
    program.unlink(missing_ok=True)
    return status == 0 and not re.search(REPORTS, output)


def fails_twice(bench, tests, path, name, sanitized, place):
    """(exit status, output, processor seconds) of a test with the fault; a failure counts when it comes twice."""
    program, run, used = bench.folder / name, tests.coverage.runs[name], 0
    own = tests.holds(name, path)
    if own and not bench.link(path, name, program, sanitized and run["sanitized"]):
        raise Unlinked(name)
    if not own and not tests.starts[name]:
        return 0, "", 0
    command = [program, *tests.arguments(name)] if own else tests.commands[name]  # not own: the fault is in the programs that it starts
    for _ in range(2):
        status, output, cpu = bench.run(command, 5 + 8 * run["cpu"], 15 + 8 * run["wall"], place if tests.starts[name] else None)
        used += cpu
        if status == 0 and re.search(REPORTS, output):  # Criterion has its test's answer before the test's end finds what was lost
            status = 1
        if status == 0 or "evt=assertion_failed" in output or (name == "broker_sim" and status is not None):
            break
    if own:
        program.unlink()
    return status, output, used


# ---- the run --------------------------------------------------------------------------------------------------------


def equivalents():
    """{(path, line as it is, line with the fault): reason} from mutants_equivalent.txt."""
    listed, path = {}, SOURCE / "tests/mutants_equivalent.txt"
    for number, line in enumerate(path.read_text().split("\n") if path.exists() else [], 1):
        if line.strip() and not line.startswith("#"):
            parts = [part.strip() for part in line.split(" ~ ")]
            if len(parts) != 4:
                sys.exit(f"mutants_equivalent.txt:{number}: a line is PATH in FUNCTION ~ LINE ~ LINE WITH THE FAULT ~ REASON")
            listed[tuple(parts[:3])] = parts[3]
    return listed


def escaped_in(log):
    """{(path, line, line with the fault): numbers of such lines} of the diffs that a run has printed."""
    found = collections.defaultdict(set)
    for path, number, old, new in re.findall(r"^--- (\S+):(\d+) \(.*\)\n-(.*)\n\+(.*)$", log.read_text(), flags=re.M):
        found[path, old, new].add(int(number))
    return found


def again(faults, wanted):
    """Those that are wanted: where a line stands in a file more than once, the ones at the numbers of old, if any is still there."""
    same = collections.defaultdict(list)
    for folder, fault in faults:
        same[fault.path, fault.old, fault.new].append((folder, fault))
    for what, lines in wanted.items():
        there = [pair for pair in same[what] if pair[1].line in lines]
        yield from there or same[what]


def function_of(fault):
    """The name of the function that the line stands in."""
    lines = (SOURCE / fault.path).read_text().split("\n")[:fault.line]
    begin = max((i for i, line in enumerate(lines) if line.startswith("{")), default=0)
    head = next((i for i in range(begin - 1, -1, -1) if re.match(r"\w", lines[i]) and "(" in lines[i]), 0)
    return (re.search(r"(\w+)\(", lines[head]) or [None, ""])[1]


def key(fault):
    return f"{fault.path} in {function_of(fault)}", fault.old.strip(), fault.new.strip()


def tell_uncovered(coverages):
    for path, function, lines in (left for coverage in coverages for left in coverage.uncovered()):
        print(f"{path}: {function}: " + ("never runs" if lines is None else "lines " + ", ".join(map(str, lines))))
    return 0


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
    parser.add_argument("--uncovered", action="store_true", help="prints functions and lines that no test runs, and plants no faults")
    parser.add_argument("--self-check", action="store_true", help="plants what must be caught, what must pass and what cannot be linked, and no other faults")
    parser.add_argument("--list", action="store_true", help="prints the faults and plants none")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    folders = given.folder or list(FOLDERS)
    all_faults = [(folder, fault) for folder in folders for fault in faults_of(folder) if not given.only or given.only in fault.path]
    random.Random(seed).shuffle(all_faults)
    if given.again:
        all_faults = list(again(all_faults, escaped_in(given.again)))
        given.count = min(given.count, len(all_faults))
    if not given.self_check:
        print(f"seed {seed}: {given.count} of {len(all_faults)} faults", flush=True)
    if given.list:
        for _, fault in all_faults[:given.count]:
            print(diff(fault))
        return 0
    build = Build(given.build.resolve())
    all_faults = [(folder, fault) for folder, fault in all_faults if fault.path in build.compiles]  # not what another choice of options compiles
    scratch = Path(tempfile.mkdtemp(prefix="mutants-", dir=build.folder))
    try:
        return run(given, build, scratch, folders, all_faults, seed)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run(given, build, scratch, folders, all_faults, seed):
    mounts = mount_commands()
    if not mounts:
        print("left out: tests that start programs (no mounts of their own here)")
    tests = {folder: Tests(build, folder, mounts) for folder in folders}
    for folder in folders:
        tests[folder].coverage.learn(tests[folder], given.jobs, scratch / folder.replace("/", "-"))
    if given.uncovered:
        return tell_uncovered([tests[folder].coverage for folder in folders])
    if given.self_check:
        return self_check(Bench(build, scratch / "self", mounts), tests, lambda bench, folder, fault: judged(bench, build, tests[folder], fault), Fault)
    known, lock, verdicts, escaped, listed = equivalents(), threading.Lock(), collections.Counter(), [], []
    queue, by_folder, begun = iter(all_faults), collections.defaultdict(collections.Counter), time.monotonic()

    def work(bench):
        while True:
            with lock:
                if sum(verdicts.values()) + busy[0] >= given.count or len(unlinked) > UNLINKED_MOST or time.monotonic() - begun > 60 * given.minutes:
                    return
                folder, fault = next(queue, (None, None))
                if fault is None:
                    return
                busy[0] += 1
            begin = time.monotonic()
            try:
                verdict, what = ("listed", known[key(fault)]) if key(fault) in known else judged(bench, build, tests[folder], fault)
            except BaseException:
                with lock:
                    busy[0] -= 1
                raise
            with lock:
                busy[0] -= 1
                if verdict == "same":
                    continue
                if verdict == "unlinked":
                    unlinked.append(fault)
                    print(f"     not counted: {what} cannot be linked with the fault at {fault.path}:{fault.line}", flush=True)
                    continue
                verdicts[verdict] += 1
                by_folder[folder][verdict] += 1
                (escaped if verdict == "escaped" else listed if verdict == "listed" else []).append(fault)
                spent = time.monotonic() - begin
                print(f"{sum(verdicts.values()):4} {spent:5.1f} s {verdict:10} {fault.path}:{fault.line} {fault.kind}: {what}", flush=True)
                if verdict == "escaped":
                    print(diff(fault), flush=True)

    busy, unlinked = [0], []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for done in [pool.submit(work, Bench(build, scratch / str(i), mounts)) for i in range(given.jobs)]:
            done.result()

    total, out = sum(verdicts.values()), verdicts["escaped"]
    caught, others = total - out - len(listed), total - len(listed)
    if escaped:
        print("\n== escaped")
        for fault in sorted(escaped):
            print(diff(fault))
    print(f"\nseed {seed}, {total} faults: " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    for folder, counts in by_folder.items():
        print(f"{folder}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    if unlinked:
        print(f"not counted, because a program could not be linked: {len(unlinked)}" + (", so the run ended" if len(unlinked) > UNLINKED_MOST else ""))
    if others == 0:
        return 1
    print(f"caught {caught} of {others} ({100 * caught / others:.1f} %); listed as equivalent {len(listed)} of {total}")
    return 0 if caught >= 0.95 * others and len(listed) <= 0.05 * total and len(unlinked) <= UNLINKED_MOST else 1


if __name__ == "__main__":
    sys.exit(main())
