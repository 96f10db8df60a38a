"""What mutants.py compiles, links and runs: the build's own commands (Build), and a folder with one changed file (Bench)."""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
REAPER = [sys.executable, "-I", "-S", SOURCE / "tests/mutants_reaper.py"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
SANITIZER_SETTINGS = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:hard_rss_limit_mb=4000", "UBSAN_OPTIONS": "halt_on_error=1",
                      "LSAN_OPTIONS": f"suppressions={SOURCE}/tests/support/lsan.supp:print_suppressions=0"}


def gold():
    return ["-fuse-ld=gold"] if shutil.which("ld.gold") else []


def mount_commands():
    """How a test gets a mount of its own; None where it cannot."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") and subprocess.run([*command, "mount", "--bind", "/tmp", "/mnt"], capture_output=True).returncode == 0:
            return command
    return None


GOLD = gold()
ARENA = "engine/graph/arena.c"


class Unlinked(Exception):
    """A program that has the changed file cannot be linked with it: what its tests say would be about another program."""


class Build:
    """The commands of a Ninja build: how each file is compiled, and each program linked."""

    def __init__(self, folder):
        self.folder = folder
        if "PENSTOCK_CHECKS:BOOL=ON" not in (folder / "CMakeCache.txt").read_text():
            sys.exit(f"mutants.py: {folder} has no checks: cmake -S . -B {folder} -G Ninja -DPENSTOCK_TESTS=ON -DPENSTOCK_CHECKS=ON, then build it")
        self.compiles, self.links, self.members, self.plain = {}, {}, {}, {}  # plain: objects of files without a fault
        for command in self.commands():
            to = re.search(r" -o (\S+) -c (\S+)$", command)
            path = os.path.relpath(to.group(2), SOURCE) if to else ".."
            if not path.startswith("..") and (path not in self.compiles or to.group(1).startswith(path.split("/")[0])):
                self.compiles[path] = command  # where tests compile a main.c once more, the program's own

    def commands(self, *targets):
        done = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", *targets], capture_output=True, text=True, check=True)
        return [line for line in done.stdout.split("\n") if line]

    def targets(self, pattern):
        done = subprocess.run(["ninja", "-C", self.folder, "-t", "targets", "all"], capture_output=True, text=True, check=True)
        return sorted(set(re.findall(rf"^(?:tests|bin)/({pattern}): ", done.stdout, flags=re.M)))

    def scripts(self, pattern):
        """{name: command} of the tests that are scripts."""
        done = subprocess.run(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], capture_output=True, text=True, check=True)
        commands = {test["name"]: test.get("command", []) for test in json.loads(done.stdout)["tests"]}
        return {name: words for name, words in sorted(commands.items()) if re.fullmatch(pattern, name) and words[1:] and words[1].endswith(".py")}

    def link(self, target):
        if target not in self.links:
            command = self.commands(target)[-1].removeprefix(": && ").removesuffix(" && :")
            self.links[target] = command.replace("/./", "/")  # objects of another target come as FOLDER/./FILE: with one name a changed one takes its place
        return self.links[target]

    def holds(self, target, path):
        """Whether the program has this file's object itself, or in one of its libraries."""
        words, own = self.link(target).split(), self.object_of(path)
        for library in words:
            if library.endswith(".a") and not library.startswith("/") and library not in self.members:
                self.members[library] = set(self.commands(library)[-1].replace("/./", "/").split())
        return own in words or any(own in self.members.get(word, ()) for word in words)

    def object_of(self, path):
        return re.search(r" -o (\S+)", self.compiles[path]).group(1)

    def compile(self, path, source, made, options=()):
        """None, or what the compiler said. The copy SOURCE of the file PATH becomes the object MADE."""
        command = re.sub(r" -MD -MT \S+ -MF \S+", "", self.compiles[path])
        command = re.sub(r"^\S*ccache ", "", command)
        command = re.sub(r" -o \S+ -c \S+$", f" -I{(SOURCE / path).parent} -o {made} -c {source}", command)
        done = subprocess.run([*shlex.split(command), *options], cwd=self.folder, capture_output=True, text=True)
        return None if done.returncode == 0 else done.stderr


class Bench:
    """A folder with one changed file and what is linked with it."""

    def __init__(self, build, folder, mounts):
        self.build, self.folder, self.mounts = build, folder, mounts
        folder.mkdir(parents=True)

    def compile(self, path, text, sanitize=False):
        """The object's bytes, or None and what the compiler said."""
        copy, made = self.folder / Path(path).name, self.object(sanitize)
        copy.write_text(text)
        said = self.build.compile(path, copy, made, [*SANITIZE, "-Wno-error", "-O1"] if sanitize else [])
        return (None, said) if said else (made.read_bytes(), "")

    def object(self, sanitize):
        return self.folder / ("sanitized.o" if sanitize else "changed.o")

    def link(self, path, target, to, sanitize=False):
        """Whether it could be linked. path None: without a fault."""
        own = self.build.object_of(path) if path else None
        made = str(self.object(sanitize))
        command = self.build.link(target)
        command = re.sub(r" -o \S+", f" -o {to}", command.split(" && ")[0], count=1)
        if path:
            command = self.with_object(command, own, made)
        if sanitize and path != ARENA and ARENA in self.build.compiles and self.build.holds(target, ARENA):
            command = self.with_object(command, self.build.object_of(ARENA), self.arena())
        command = shlex.split(command) + GOLD + (SANITIZE if sanitize else [])
        return subprocess.run(command, cwd=self.build.folder, capture_output=True).returncode == 0

    @staticmethod
    def with_object(command, own, made):
        """MADE in the place of the object, or before the library that has it."""
        return command.replace(own, made) if own in command else re.sub(r" (\S+\.a)\b", rf" {made} \1", command, count=1)

    def arena(self):
        """The arena of graphs, which poisons what it has not given where it is compiled with the sanitizer."""
        made = self.folder / "arena.o"
        if not made.exists():
            said = self.build.compile(ARENA, SOURCE / ARENA, made, [*SANITIZE, "-Wno-error", "-O1"])
            if said:
                sys.exit(f"mutants.py: {ARENA} does not compile with the sanitizer:\n{said}")
        return str(made)

    def programs(self, names, link):
        """The build's programs beside each other, those with these names made by link(name, to); Unlinked where that cannot."""
        place = self.folder / "bin"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.build.folder / "bin", place, copy_function=os.link, symlinks=True)
        for name in names:
            (place / name).unlink()
            if not link(name, place / name):
                raise Unlinked(name)
        return place

    def run(self, words, cpu, wall, place, settings=None):
        """(exit status or None for a time-out, output with what sanitizers report, processor seconds with those of its children) of a command. Sanitizers
        write to files: many tests lead their standard error elsewhere. A process that needs CPU seconds ends, and
        so does what has not ended after WALL seconds; nothing that the command has started is left after it. PLACE: what stands in the place of the build's programs."""
        command = f"ulimit -t {max(2, round(cpu))}; exec {shlex.join(map(str, words))}"
        if place:
            command = f"mount --bind {shlex.quote(str(place))} {shlex.quote(str(self.build.folder / 'bin'))} && {command}"
        with tempfile.TemporaryDirectory(dir=self.folder) as reports, tempfile.TemporaryFile() as output:
            sanitizers = {name: f"{value}:log_path={reports}/report" for name, value in SANITIZER_SETTINGS.items() if name != "LSAN_OPTIONS"}
            child = subprocess.Popen([*REAPER, *(self.mounts if place else []), "sh", "-c", command], stdout=output, stderr=subprocess.STDOUT,
                                     stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True,
                                     env={**os.environ, **SANITIZER_SETTINGS, **sanitizers, **(settings or {})})
            status, used = wait(child, wall)
            output.seek(0)
            told = [output.read(), *(report.read_bytes() for report in sorted(Path(reports).iterdir()))]
            return status, b"\n".join(told).decode(errors="replace"), used


def wait(child, seconds):
    """(exit status or None for a time-out, processor seconds) of the child, a reaper: nothing that it has started is left."""
    until, ended = time.monotonic() + seconds, 0
    while not ended and time.monotonic() < until:
        ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        if not ended:
            time.sleep(0.005)
    if not ended:
        os.kill(child.pid, signal.SIGTERM)
        _, _, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status) if ended else -signal.SIGTERM
    return child.returncode if ended else None, usage.ru_utime + usage.ru_stime
