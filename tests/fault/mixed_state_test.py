#!/usr/bin/env python3
"""What programs of an older commit leave is what today's go on with, and the other way: journals, Redis, brokers that take each other's place under load.

    mixed_state_test.py BUILD_DIR SOURCE_DIR

The older programs are those of mixed_test.py. Answers are checked: the models are torture's, y = 2 x. The last line is `N passed, N failed, N skipped`.
"""
import json
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from mixed_test import SLOW, Pool, check, finish, old_build  # noqa: E402
from ports import free_port  # noqa: E402

WIDE = 524288  # elements of the model whose jobs travel as chunks
JOBS = 5


def values_of(number, count):
    return [float((number * 1000 + i) % 8191) for i in range(count)]


def write_inputs(folder):
    """Small jobs and a large one: files of floats, and what the answers must hold."""
    jobs = [("twice", number, 16) for number in range(JOBS)] + [("wide", JOBS, WIDE)]
    for _, number, count in jobs:
        (folder / f"in{number}").write_bytes(struct.pack(f"<{count}f", *values_of(number, count)))
    return jobs


def submit_detached(pool, client, folder, jobs):
    """The ids of the jobs that were accepted."""
    ids = []
    for model, number, _ in jobs:
        done = pool.run(client, "submit", model, folder / f"in{number}", "--detach", "--no-cache", "--json")
        if done.returncode == 0:
            ids.append(json.loads(done.stdout)["jobs"][0]["job"])
    return ids


def fetched(pool, client, job, number, count):
    with tempfile.TemporaryDirectory() as folder:
        done = pool.run(client, "fetch", job, "--wait", f"{int(30 * SLOW)}s", "--output-dir", folder)
        files = list(Path(folder).glob("*.npy"))
        body = files[0].read_bytes()[-4 * count:] if files else b""
        return done.returncode == 0 and body == struct.pack(f"<{count}f", *(2 * value for value in values_of(number, count)))


def all_fetched(pool, client, jobs, ids):
    return len(ids) == len(jobs) and all(fetched(pool, client, job, number, count) for job, (_, number, count) in zip(ids, jobs))


def journal_goes_on(what, models, folder, first, then):
    """Half of the jobs have run and half wait when the one broker is killed; the other goes on with its journal, and the first again after that."""
    jobs, options = write_inputs(folder), ("--journal", folder / f"journal of {what}")
    with Pool(models, first, first, options=options) as pool:
        ids = submit_detached(pool, first, folder, jobs[:2])
        check(all_fetched(pool, then, jobs[:2], ids), f"journal, {what}: a job has run")
        pool.end(1)
        ids += submit_detached(pool, first, folder, jobs[2:])
        pool.end(0, signal.SIGKILL)
        pool.start_broker(then, *options)
        pool.start_worker(then)
        check(all_fetched(pool, first, jobs, ids), f"journal, {what}: every job is there and right")
        pool.end(0)
        pool.start_broker(first, *options)
        check(all_fetched(pool, then, jobs, ids), f"journal, {what}: and so they are when the first goes on with it again")


def redis_is_shared(what, models, folder, first, second, options):
    """One broker accepts, the other, which has a worker, runs; either tells."""
    jobs = write_inputs(folder)
    with Pool(models, first, first, options=options) as one, Pool(models, second, second, options=options) as two:
        one.end(1)  # it has told what the models take
        ids = submit_detached(one, first, folder, jobs)
        check(all_fetched(two, second, jobs, ids), f"Redis, {what}: the other broker runs and tells what this one accepted")
        check(all_fetched(one, second, jobs, ids), f"Redis, {what}: and this one tells it, too")
        one.start_worker(first)
        small = [folder / f"in{number}" for number in range(JOBS)]
        stored = two.run(second, "submit", "twice", *small, "--json")
        for _ in range(int(100 * SLOW)):  # storing is not waited for
            again = one.run(first, "submit", "twice", *small, "--json")
            answers = json.loads(again.stdout)["jobs"] if again.returncode == 0 else []
            if len(answers) == JOBS and all(answer["cached"] for answer in answers):
                break
            time.sleep(0.05)
        right = [answer["outputs"][0]["values"] == [2 * value for value in values_of(i, 16)] for i, answer in enumerate(answers)]
        check(stored.returncode == 0 and right == [True] * JOBS and all(answer["cached"] for answer in answers),
              f"Redis, {what}: what the one stored answers the other's jobs")


def with_redis(models, folder, old, new):
    if not shutil.which("redis-server"):
        return False
    place = f"{folder}/redis.sock"
    port = str(free_port())
    server = subprocess.Popen(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(folder), "--unixsocket", place],
                              stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20 * SLOW
        while not Path(place).exists() and time.monotonic() < end:
            time.sleep(0.02)
        options = ("--cache", f"redis://127.0.0.1:{port}/0", "--cache-deadline", "1s")
        redis_is_shared("old accepts, new runs", models, folder, old, new, options)
        redis_is_shared("new accepts, old runs", models, folder, new, old, options)
    finally:
        server.terminate()
        server.wait()
    return True


def exchanged_under_load(what, models, first, then, client):
    """Workers and broker are drained and replaced, then the broker is killed and the first one comes back; a ledger is kept of every job."""
    with Pool(models, first, first) as pool:
        told = Path(pool.folder.name) / "torture.json"
        with open(told, "w") as out:
            load = subprocess.Popen([client / "penstock", "torture", "--broker", pool.clients, "--window", "8", "--duration", "6s", "--json"], stdout=out,
                                    stderr=subprocess.DEVNULL)
        time.sleep(1)
        pool.start_worker(then)
        codes = [pool.end(1), pool.end(0)]
        pool.start_broker(then)
        time.sleep(1)
        pool.end(-1, signal.SIGKILL)
        pool.start_broker(first)
        code = load.wait(200 * SLOW)
        text = told.read_text()
        verdict = json.loads(text) if text.startswith("{") else {"accepted": 0}
        right = code == 0 and verdict["accepted"] > 0 and verdict["lost"] == verdict["wrong"] == verdict["answered_twice"] == 0
        check(right and codes == [0, 0], f"{what}: all is answered, once and rightly" + ("" if right else f"\n{text}"))


def labels_are_not_passed_over(models, folder, old, new):
    with Pool(models, old, new) as pool:
        write_inputs(folder)
        done = pool.run(new, "submit", "twice", folder / "in0", "--version-label", "stable")
        check(done.returncode == 3 and "labels" in done.stderr + done.stdout, "an old broker is not trusted to know labels")


def main():
    build, source = (Path(word).resolve() for word in sys.argv[1:3])
    old, new = old_build(build, source), build / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([new / "penstock", "torture", "--write-model", folder], stdout=subprocess.DEVNULL, check=True)
        models = folder / "models"
        journal_goes_on("old to new", models, folder, old, new)
        journal_goes_on("new to old", models, folder, new, old)
        redis = with_redis(models, folder, old, new)
        exchanged_under_load("old to new, new client", models, old, new, new)
        exchanged_under_load("new to old, old client", models, new, old, old)
        labels_are_not_passed_over(models, folder, old, new)
    if not redis:
        print("skipped: what Redis keeps; there is no redis-server here")
    finish(skipped=0 if redis else 1)


if __name__ == "__main__":
    main()
