"""Which test runs which line of a folder, for mutants.py.

The folder's files are compiled once more with --coverage, in `mutants-coverage` of the build folder; each test and each program that tests start is
linked with them and runs once. What a test has run is kept until the test's program, the folder's programs or a source of the folder is another one. A test that
cannot be linked so, or fails so, counts as one that runs every line. A program that is killed tells nothing; one that ends tells, by `_exit` too.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import threading
from pathlib import Path

from mutants_bench import SOURCE, Bench, Unlinked

OPTIONS = ["--coverage", "-O0", "-fprofile-update=atomic", "-Wno-error"]
# Test programs and their children often leave by _exit, which writes no counts.
LEAVE = """#include <sys/syscall.h>
#include <unistd.h>
void __gcov_dump(void);
void _exit(int status) { __gcov_dump(); for (;;) syscall(SYS_exit_group, status); }
void _Exit(int status) { _exit(status); }
"""


class Coverage:
    """The lines of one folder and the tests that run them."""

    def __init__(self, build, folder, mounts):
        self.build, self.folder, self.mounts = build, folder, mounts
        self.place = build.folder / "mutants-coverage" / folder.replace("/", "-")
        self.objects, self.kept = self.place / "objects", self.place / "lines.json"
        self.paths = sorted(path for path in build.compiles if path.startswith(folder + "/"))
        self.sources = hashlib.sha256(b"".join((SOURCE / path).read_bytes() for path in self.paths)).hexdigest()
        self.lines, self.functions, self.runs, self.archives = {}, {}, {}, {}

    # -- building

    def object(self, path):
        return self.objects / (path + ".o")

    def compile(self, pool):
        """All files of the folder with counters, and its lines and functions as the compiler sees them."""
        shutil.rmtree(self.place, ignore_errors=True)
        for path in self.paths:
            self.object(path).parent.mkdir(parents=True, exist_ok=True)
        (self.place / "leave.c").write_text(LEAVE)
        subprocess.run(["cc", "-c", "leave.c", "-o", "leave.o"], cwd=self.place, check=True)
        made = pool.map(lambda path: self.build.compile(path, SOURCE / path, self.object(path), OPTIONS), self.paths)
        for path, said in zip(self.paths, made):
            if said:
                raise SystemExit(f"mutants.py: {path} does not compile with --coverage:\n{said}")
        for path, lines, functions in self.read(sorted(self.objects.rglob("*.gcno"))):
            self.lines[path], self.functions[path] = sorted(lines), functions

    def archive(self, name):
        """The library with the folder's files as they were compiled here."""
        if name not in self.archives:
            made, command = self.place / name, self.with_objects(self.build.commands(name)[-1])
            made.parent.mkdir(parents=True, exist_ok=True)
            changed = str(self.objects) in command
            if changed:
                subprocess.run(command.replace(f" {name} ", f" {made} "), shell=True, cwd=self.build.folder, check=True, capture_output=True)
            self.archives[name] = str(made) if changed else name
        return self.archives[name]

    def with_objects(self, command):
        names = {self.build.object_of(path): str(self.object(path)) for path in self.paths}
        return " ".join(names.get(word, word) for word in command.split(" "))

    def link(self, target, to):
        command = re.sub(r" -o \S+", f" -o {to}", self.build.link(target).split(" && ")[0], count=1)
        words = [self.archive(word) if word.endswith(".a") and not word.startswith("/") else word for word in self.with_objects(command).split(" ")]
        command = [*shlex.split(" ".join(words)), "--coverage", str(self.place / "leave.o")]
        return subprocess.run(command, cwd=self.build.folder, capture_output=True).returncode == 0

    # -- reading

    def read(self, notes):
        """(path, {line: count}, [(function, first line, count)]) of each file that gcov knows from these files."""
        if not notes:
            return
        done = subprocess.run(["gcov", "--json-format", "--stdout", *map(str, notes)], capture_output=True, text=True, check=True, cwd=self.place)
        for answer in map(json.loads, filter(None, done.stdout.split("\n"))):
            for file in answer["files"]:
                path = os.path.relpath(os.path.join(answer["current_working_directory"], file["file"]), SOURCE)
                if path in self.paths:
                    counts = {}
                    for line in file["lines"]:
                        counts[line["line_number"]] = counts.get(line["line_number"], 0) + line["count"]
                    yield path, counts, [(f["demangled_name"], f["start_line"], f["execution_count"]) for f in file["functions"]]

    def read_run(self, counts):
        """{path: lines} that a test has run, which left its counts in this folder."""
        files = sorted(counts.rglob("*.gcda"))
        for file in files:
            notes = file.relative_to(counts).with_suffix(".gcno")
            os.link(self.objects / notes, counts / notes)
        return {path: sorted(line for line, count in lines.items() if count) for path, lines, _ in self.read(files)}

    # -- running

    def key(self, command, starts, programs):  # its number: what is learnt of a test is another than with the last number
        files = [Path(word) for word in command if Path(word).is_file()]  # of a script the interpreter, too
        files += [self.build.folder / "bin" / name for name in programs if starts]
        return hashlib.sha256(b"2" + self.sources.encode() + b"".join(file.read_bytes() for file in files)).hexdigest()

    def learn(self, tests, jobs, scratch):
        """Runs each test once that has not run since it changed; tests gets what it needs to know of them."""
        kept = json.loads(self.kept.read_text()) if self.kept.exists() else {}
        keys = {name: self.key(tests.commands[name], tests.starts[name], tests.programs) for name in tests.names}
        runs = {name: kept["runs"][name] for name in keys if kept.get("runs", {}).get(name, {}).get("key") == keys[name]}
        lock, local, benches = threading.Lock(), threading.local(), iter(range(1 << 20))

        def bench():
            if not hasattr(local, "bench"):
                with lock:
                    local.bench = Bench(self.build, scratch / f"learn-{next(benches)}", self.mounts)
                try:
                    local.place = local.bench.programs(tests.programs, self.link) if self.mounts else None
                except Unlinked as program:
                    raise SystemExit(f"mutants.py: {program} cannot be linked with --coverage: no one can say what its tests run") from None
            return local.bench, local.place

        def learn_one(name):
            here, place = bench()
            run = tests.measure(here, name)
            run["lines"] = self.run(here, place, tests, name) if run["passes"] else None
            with lock:
                runs[name] = {"key": keys[name], **run}
                said = "fails without a fault, left out" if not run["passes"] else "no coverage, runs always" if run["lines"] is None else ""
                print(f"learning {self.folder}: {len(runs)} of {len(keys)}: {name} {run['cpu']:.1f} s {said}", flush=True)

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            if kept.get("sources") == self.sources and self.objects.exists():
                self.lines, self.functions = kept["all"], kept["functions"]
            else:
                self.compile(pool)
            for name in self.archive_names(tests):
                self.archive(name)
            for done in [pool.submit(learn_one, name) for name in keys if name not in runs]:
                done.result()
        self.runs = runs
        self.kept.write_text(json.dumps({"sources": self.sources, "all": self.lines, "functions": self.functions, "runs": runs}))

    def archive_names(self, tests):
        links = [self.build.link(name) for name in [*tests.names, *tests.programs] if name not in tests.scripts]
        return sorted({word for link in links for word in link.split() if word.endswith(".a") and not word.startswith("/")})

    def run(self, bench, place, tests, name):
        """{path: lines} that the test runs; None where nobody can say."""
        program, counts = bench.folder / name, bench.folder / "counts"
        shutil.rmtree(counts, ignore_errors=True)
        counts.mkdir()
        settings = {"GCOV_PREFIX": str(counts), "GCOV_PREFIX_STRIP": str(len(self.objects.parts) - 1)}
        script = name in tests.scripts
        linked = script or self.link(name, program)
        status = bench.run(tests.commands[name] if script else [program, *tests.arguments(name)], 600, 600, place if tests.starts[name] else None, settings)[0] if linked else None
        program.unlink(missing_ok=True)
        return self.read_run(counts) if status == 0 else None

    # -- asking

    def tests_of(self, path, line):
        """The tests that run this line, or the statement which it goes on."""
        known = self.lines.get(path, [])
        near = {line} if line in known else {max((n for n in known if n < line), default=0), min((n for n in known if n > line), default=0)}
        return [name for name, run in self.runs.items() if run["passes"] and (run["lines"] is None or near & set(run["lines"].get(path, [])))]

    def uncovered(self):
        """[(path, function or None, lines)] that no test runs: whole functions, and lines of the others."""
        for path in sorted(self.lines):
            ran = {line for run in self.runs.values() for line in (run["lines"] or {}).get(path, [])}
            starts = sorted(self.functions[path], key=lambda function: function[1])
            for (name, first, _), after in zip(starts, [*[s[1] for s in starts[1:]], 1 << 30]):
                lines = [line for line in self.lines[path] if first <= line < after]
                left = [line for line in lines if line not in ran]
                if left:
                    yield path, name, None if len(left) == len(lines) else left
