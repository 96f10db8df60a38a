#!/usr/bin/env python3
"""Programs of an older commit of this repository beside today's: old worker, old broker, old client, each with the others new, and a pool of both.

    mixed_test.py BUILD_DIR SOURCE_DIR

The commit is the last one that spoke version 1.0 of the protocol. Its broker, worker and command line are built once with the reference backend, into
BUILD_DIR/old/COMMIT (half a minute on two idle cores without a compiler's cache). Skips with a sentence where there is no history that holds the commit
(a tree without .git, a shallow clone). The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMIT = "3be3dc067c4acca83fcce8055fcbc4e522e3e4a2"
PROGRAMS = ("penstock-broker", "penstock-worker", "penstock")
ANY = "tcp://127.0.0.1:*"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = 0


def check(condition, what):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, flush=True)


def finish(skipped=0):
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


def git(source, *words, **options):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", source, *words], capture_output=True, **options)


def old_build(build, source):
    """The folder with the old programs; ends the test where they cannot be had."""
    folder = build / "old" / COMMIT[:12]
    programs = folder / "build/bin"
    if all((programs / name).exists() for name in PROGRAMS):
        return programs
    if not (source / ".git").exists() or not shutil.which("git"):
        print("skipped: there is no .git or no git here, so an older commit cannot be built beside this one")
        finish(skipped=1)
    if git(source, "cat-file", "-e", f"{COMMIT}^{{commit}}").returncode != 0:
        shallow = git(source, "rev-parse", "--is-shallow-repository", text=True).stdout.strip() == "true"
        check(shallow, f"the history holds commit {COMMIT[:12]}, or is a shallow one")
        print("skipped: the history is too short to hold the commit")
        finish(skipped=1)
    tree = folder / "source"
    tree.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", tree], input=git(source, "archive", COMMIT, check=True).stdout, check=True)
    log = folder / "build.log"
    with open(log, "w") as out:
        for command in (["cmake", "-G", "Ninja", "-S", tree, "-B", folder / "build", "-DPENSTOCK_TESTS=OFF", "-DPENSTOCK_WERROR=OFF",
                         "-DPENSTOCK_BACKENDS=reference"], ["ninja", "-C", folder / "build", *PROGRAMS]):
            if subprocess.run(command, stdout=out, stderr=out).returncode != 0:
                check(False, f"the old programs are built; see {log}")
                finish()
    return programs


class Pool:
    """A broker and workers; each program from the folder that is named."""

    def __init__(self, models, broker, *workers, options=()):
        self.folder, self.models, self.started = tempfile.TemporaryDirectory(), models, []
        self.clients = self.work = ANY
        self.start_broker(broker, *options)
        for worker in workers:
            self.start_worker(worker)

    def start_broker(self, folder, *options):
        """At the addresses of the one before, if there was one."""
        said = self.start("broker", folder / "penstock-broker", "--listen-clients", self.clients, "--listen-workers", self.work, "--http", "none", *options,
                          wait="evt=listening")
        self.clients, self.work = (re.search(rf"\b{name}=(tcp://\S+)", said).group(1) for name in ("clients", "workers"))

    def start_worker(self, folder):
        self.start("worker", folder / "penstock-worker", "--broker", self.work, "--models", self.models, "--backend", "reference", "--slots", "1", "--threads", "1",
                   wait="evt=welcome")

    def end(self, number, how=signal.SIGTERM):
        """The program that was started as that one ends: its exit status."""
        process = self.started.pop(number)
        process.send_signal(how)
        return process.wait(60 * SLOW)

    def __enter__(self):
        return self

    def start(self, name, program, *words, wait):
        log = Path(self.folder.name) / f"{name}{len(list(Path(self.folder.name).iterdir()))}"
        with open(log, "w") as out:
            process = subprocess.Popen([program, *map(str, words)], stdout=subprocess.DEVNULL, stderr=out)
        self.started.append(process)
        end = time.monotonic() + 30 * SLOW
        while wait not in log.read_text() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        if wait not in log.read_text():
            sys.exit(f"{program} did not say '{wait}':\n{log.read_text()}")
        return log.read_text()

    def __exit__(self, *_):
        codes = []
        for process in reversed(self.started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                codes.append(process.wait(30 * SLOW))
        check(all(code == 0 for code in codes), f"all that still ran were drained and ended with 0 {codes}")
        self.folder.cleanup()

    def all_busy(self, client):
        """Every worker has said that it has done jobs (heartbeats say so)."""
        return all(worker["jobs_done"] > 0 for worker in json.loads(self.run(client, "workers", "--json").stdout)["workers"])

    def run(self, client, verb, *words):
        return subprocess.run([client / "penstock", verb, *map(str, words), "--broker", self.clients], capture_output=True, text=True, timeout=120 * SLOW)


LOAD = ("--model", "digits", "--concurrency", "8", "--unique", "--json", "--duration")


def all_answered(code, out):
    told = json.loads(out) if out.startswith("{") else {}
    return code == 0 and told["requests"] > 0 and told["errors"] == 0


def load(pool, client):
    done = pool.run(client, "load", *LOAD, "1s")
    return all_answered(done.returncode, done.stdout), done.stdout + done.stderr


def one_job(pool, client, source):
    done = pool.run(client, "submit", "digits", source / "deploy/models/digits/samples/00_zero.png", "--json")
    return done.returncode == 0 and "zero" in done.stdout, done.stdout + done.stderr


def try_all(source, what, broker, workers, client):
    with Pool(source / "deploy/models", broker, *workers) as pool:
        for verb, (right, told) in (("a picture is recognised", one_job(pool, client, source)), ("a second of jobs is answered", load(pool, client))):
            check(right, f"{what}: {verb}" + ("" if right else f"\n{told}"))
        models = pool.run(client, "models", "--json")
        check(models.returncode == 0 and "digits" in models.stdout, f"{what}: models are listed")


def old_worker_dies(source, old, new):
    """A pool of both under load: the old worker is killed, then an old one comes back."""
    with Pool(source / "deploy/models", new, old, new) as pool:
        client = subprocess.Popen([new / "penstock", "load", "--broker", pool.clients, *LOAD, "12s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 30 * SLOW
        while not pool.all_busy(new) and time.monotonic() < end:
            time.sleep(0.02)
        check(client.poll() is None and pool.all_busy(new), "the old worker has its part of the load")
        pool.end(1, signal.SIGKILL)
        pool.start_worker(old)
        out, err = client.communicate(timeout=200 * SLOW)
        right = all_answered(client.returncode, out)
        check(right, "both kinds of workers, the old one is killed and replaced: all jobs are answered" + ("" if right else f"\n{out}{err}"))


def main():
    build, source = (Path(word).resolve() for word in sys.argv[1:3])
    old, new = old_build(build, source), build / "bin"
    try_all(source, "old worker", new, [old], new)
    try_all(source, "old broker", old, [new], new)
    try_all(source, "old client", new, [new], old)
    try_all(source, "old broker and worker", old, [old], new)
    try_all(source, "old worker and client", new, [old], old)
    try_all(source, "old broker and client", old, [new], old)
    old_worker_dies(source, old, new)
    finish()


if __name__ == "__main__":
    main()
