#!/usr/bin/env python3
"""What the Python client shares with the C client beyond plain jobs: ordered jobs, several at once, sequences named by texts, quarantine, pictures, SHA-256 digests,
a port for large payloads that cannot be reached, the drain of one of two brokers, and times of detached jobs.

    calls_test.py BIN_DIR

The last line is `N passed, N failed, N skipped`.
"""
import faulthandler
import sys

faulthandler.dump_traceback_later(100, exit=True)

import asyncio  # noqa: E402
import json  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import package  # noqa: E402
from package import SOURCE, check  # noqa: E402

sys.path.insert(0, str(SOURCE / "tests/gateway"))
import models  # noqa: E402
import numpy as np  # noqa: E402
from pool import SLOW, Pool, wait_for  # noqa: E402

import penstock  # noqa: E402
from penstock import AsyncClient, Client, wire  # noqa: E402

BIN = Path(sys.argv[1]).resolve()


def row(*values):
    return np.array([values], np.float32)


def new_pool(folder, broker=(), models_folder=None):
    return Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", models_folder or folder / "models", "--backend", "reference", "--allow-debug"],
                broker=broker)


def serves(client, name="same_fp32"):
    return wait_for(lambda: any(model.name == name for model in client.models()))


def refused(kind, call, words, what):
    try:
        call()
        check(False, what, "nothing was refused")
    except kind as error:
        check(words in str(error), what, error)


def ordered(pool, client):
    """One that has ended is told only after those before it; others are told at once."""
    told = []

    def submit(name, **options):
        future = client.submit("same_fp32", {"x": row(1, 2)}, cache=False, **options)
        future.add_done_callback(lambda _: told.append(name))
        return future
    pool.worker.send_signal(signal.SIGSTOP)
    jobs = [submit("first", ordered=True), submit("second", ordered=True, deadline=0.2), submit("other", deadline=0.2), submit("third", ordered=True)]
    check(isinstance(jobs[2].exception(10 * SLOW), penstock.DeadlineError), "an unordered one is told at once")
    time.sleep(0.05)
    check(told == ["other"] and not jobs[1].done(), "an ordered one waits for those before it", told)
    pool.worker.send_signal(signal.SIGCONT)
    statuses = [type(job.exception(10 * SLOW)).__name__ for job in jobs]
    check(statuses == ["NoneType", "DeadlineError", "DeadlineError", "NoneType"] and wait_for(lambda: len(told) == 4), "each has its own end", statuses)
    check(told == ["other", "first", "second", "third"], "in the order of their submission", told)
    check(client.run("same_fp32", {"x": row(3, 4)}, ordered=True)["y"].tolist() == [[3, 4]], "an ordered one that is waited for")


def many(client):
    jobs = client.submit_many([("same_fp32", {"x": row(i, i)}, {"cache": False}) for i in range(40)])
    check([job.result(10 * SLOW)["y"][0, 0] for job in jobs] == list(range(40)), "forty at once")
    before = client.counters["jobs_submitted"]
    refused(penstock.InvalidError, lambda: client.submit_many([("same_fp32", {"x": row(1)}, {}), ("same_fp32", {"x": row(1)}, {"priority": 999})]), "priority",
            "one of several is malformed")
    check(client.counters["jobs_submitted"] == before, "then none is submitted")
    with Client(client._session.settings.endpoint, jobs_max=3) as small:
        refused(penstock.BusyError, lambda: small.submit_many([("same_fp32", {"x": row(1)}, {})] * 4), "jobs_max", "more than the client may have")


def sequences(client):
    def add(name, value, **place):
        return client.run("adder", {"x": row(value, value)}, sequence=name, **place)["y"][0, 0]
    sums = [add("mary", 1, sequence_start=True), add("paul", 10, sequence_start=True), add("mary", 2), add("paul", 20), add("mary", 3, sequence_end=True)]
    check(sums == [1, 10, 3, 30, 6], "two sequences named by texts", sums)
    refused(penstock.NotFoundError, lambda: add("nobody", 1), "", "one that was not begun")
    refused(penstock.InvalidError, lambda: add("", 1, sequence_start=True), "1 to 255", "a start without a name")
    refused(penstock.InvalidError, lambda: add("x" * 256, 1), "255", "a text that is too long")


def picture_files(client):
    """The worker decodes them: one, several, and one that is broken."""
    one, two = bytes(range(18)), bytes(range(50, 68))
    result = client.run("look", {"x": models.png(one)})
    check(result["y"].flatten().tolist() == list(one) and result.timings.decode > 0, "a file", result.timings)
    check(client.run("look", {"x": [models.png(one), models.png(two)]})["y"].flatten().tolist() == list(one + two), "two files")
    refused(penstock.CorruptError, lambda: client.run("look", {"x": models.png(one)[:40]}), "ends before its pixels", "half a file")


def demands(client):
    """Flags of the worker."""
    flags = {flag.name: flag.value for flag in client.workers()[0].flags}
    name = next(iter(flags))
    check(client.run("same_fp32", {"x": row(1, 2)}, needs=[f"{name}={flags[name]}"])["y"].tolist() == [[1, 2]], "a flag that the worker has", flags)
    refused(penstock.PenstockError, lambda: client.run("same_fp32", {"x": row(1, 2)}, needs=["wings"], deadline=5.0), "flags", "one that no worker has")
    refused(penstock.InvalidError, lambda: client.run("same_fp32", {"x": row(1, 2)}, needs="wings"), "list", "a text for a list")
    client._session.needs = False  # as a broker that does not know them
    refused(penstock.UnsupportedError, lambda: client.run("same_fp32", {"x": row(1, 2)}, needs=["wings"]), "too old", "a broker that would pass them over")
    client._session.needs = True


def debug(client):
    """Neither worker nor broker stands in the way: the log comes with the answer."""
    result = client.run("same_fp32", {"x": row(1, 2)}, debug=True)
    check(result["y"].tolist() == [[1, 2]] and "no NaN and no infinity\n" in result.debug_log and not result.cached, "a log of the run", result.debug_log)
    check(client.run("same_fp32", {"x": row(1, 2)}).debug_log == "", "none where nobody asks")


def steering(client, address):
    check(client.quarantine() == [] and json.loads(client.log_level("info", "broker")), "an empty quarantine, and a level")
    refused(penstock.NotFoundError, lambda: client.kick("0123456789abcdef-9"), "no job of that id", "nobody to kick")

    async def run():
        async with AsyncClient(address) as other:
            jobs = await other.submit_many([("same_fp32", {"x": row(i, i)}, {"cache": False, "ordered": True}) for i in range(8)])
            check([(await job)["y"][0, 0] for job in jobs] == list(range(8)), "several at once on an event loop")
            check(await other.quarantine() == [] and "info" in await other.log_level(), "the same questions on an event loop")
    asyncio.run(run())


def quarantine(folder):
    """The planted worker (tests/fault) ends at the picture that begins with KILL; a supervisor starts it again, until the job is found out."""
    planted = BIN.parent / "tests/planted_worker"
    if not planted.exists():
        print("quarantine: left out, tests/planted_worker is not built")
        return
    pool = Pool(BIN, folder, [planted, "--broker", "{workers}", "--models", SOURCE / "deploy/models", "--backend", "reference", "--supervise"],
                broker=["--restart-wait", "60s"])
    pixels = np.zeros((1, 8, 8, 1), np.uint8)
    pixels.reshape(-1)[:4] = list(b"KILL")
    with Client(pool.clients) as client:
        check(serves(client, "digits"), "the planted worker serves")
        job = client.submit("digits", {"image": pixels}, cache=False)
        error = job.exception(30 * SLOW)
        check(isinstance(error, penstock.WorkerLostError) and "quarantine" in str(error), "a job that ends its workers", error)
        found = client.quarantine()
        check([(one.job, one.model, one.deaths, one.inputs) for one in found] == [(job.job_id, "digits", 3, "image u8 [1,8,8,1] 64 bytes")] and found[0].digest, "the quarantine", found)
        check(client.quarantine(job.job_id)[0].job == job.job_id and client.stats().quarantined == 1, "one of it")
        client.kick(job.job_id)
        check(client.quarantine() == [], "it is let out")
    pool.stop()


def pictures(folder):
    try:
        from PIL import Image
    except ImportError:
        print("pictures: left out, Pillow is not installed")
        return
    pool = new_pool(folder, models_folder=SOURCE / "deploy/models")
    samples = sorted((SOURCE / "deploy/models/digits/samples").glob("*.png"))
    with Client(pool.clients) as client:
        check(serves(client, "digits"), "digits is served")
        names = [client.run("digits", Image.open(file), top_k=1).classes[0].name for file in samples]
        check(names == [file.stem.split("_")[1] for file in samples], "the samples, as Pillow reads them", names)
        image = Image.open(samples[3]).convert("L")
        clear = Image.new("RGBA", image.size, (0, 0, 0, 0))
        large = Image.merge("RGBA", (*[image] * 3, Image.new("L", image.size, 255))).resize((64, 64), Image.Resampling.NEAREST)
        check(client.run("digits", large, top_k=1).classes[0].name == "three", "one with an alpha channel and of another size")
        check(client.run("digits", {"image": clear})["probabilities"].shape == (1, 10), "a transparent one lies on white")
    with Client(new_pool(folder).clients) as client:
        serves(client)
        refused(penstock.UnsupportedError, lambda: client.run("batched", {"x": image}), "takes no pictures", "a model without preprocess")
    pool.stop()


def sha256(folder):
    pool = new_pool(folder, ["--digest", "sha256"])
    with Client(pool.clients) as client:
        serves(client)
        check(client._session.digest_kind == wire.SHA256, "the broker asks for SHA-256")
        check(not client.run("same_fp32", {"x": row(8, 9)}).cached and client.run("same_fp32", {"x": row(8, 9)}).cached, "an equal job is found by it")
        middling = np.arange(50_000, dtype=np.float32).reshape(1, -1)
        check(all((client.run("same_fp32", {"x": middling})["y"] == middling).all() for _ in range(4)), "200 KB, announced by it")
        out = subprocess.run([BIN / "penstock", "submit", "same_fp32", "--broker", pool.clients, "--input", f"x={folder}/nine.npy", "--json"], capture_output=True, text=True)
        check('"cached":true' in out.stdout, "the C client's digest of the same request is the same", out.stdout + out.stderr)
    early = Client(pool.clients)  # packed before the broker's welcome said which digest it wants
    check(early.run("same_fp32", {"x": row(8, 9)}).cached, "a job from before the welcome is hashed again")
    early.close()
    pool.stop()


class Passage(threading.Thread):
    """A port of another address of this host that leads to the broker's, as a NAT does: the broker's port for large payloads is not there."""

    def __init__(self, to):
        super().__init__(daemon=True)
        self.to, self.listener = to, socket.create_server(("127.0.0.2", 0))
        self.address = f"tcp://127.0.0.2:{self.listener.getsockname()[1]}"
        self.start()

    def run(self):
        while True:
            near, far = self.listener.accept()[0], socket.create_connection(self.to)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    @staticmethod
    def carry(source, to):
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def port_fallback(folder):
    """Large payloads go to the endpoint itself when the port of their own does not come up; the job that found it out is not lost."""
    pool = new_pool(folder, ["--bulk-clients", "tcp://127.0.0.1:*", "--liveness", "2s", "--heartbeat", "500ms"])
    host, port = re.match(r"tcp://(.*):(\d+)", pool.clients).groups()
    with Client(Passage((host, int(port))).address, unreachable=30) as client:
        serves(client)
        check(client._session.bulk_port > 0, "the broker names a port of its own")
        large = np.arange(1_000_000, dtype=np.float32).reshape(1, -1)
        check(all((client.run("same_fp32", {"x": large}, cache=False)["y"] == large).all() for _ in range(3)), "4 MB each way, three times")
        seen = client.counters
        check(client._session.bulk_never == client._session.broker_uuid and seen["connections"] >= 2 and not seen["messages_bad"], "a new connection without it", seen)
    pool.stop()


def drain_of_one(folder):
    """The client goes over to the other broker, and no job ends in an error."""
    one, two = new_pool(folder), new_pool(folder)
    with Client(f"{one.clients},{two.clients}") as client:
        check(serves(client), "one of two brokers serves")
        used = one if client._session.brokers[client._session.broker] == one.clients else two
        other = two if used is one else one
        jobs = []
        for i in range(300):
            jobs.append(client.submit("same_fp32", {"x": row(i, 5)}, cache=False))
            if i == 100:
                used.broker.send_signal(signal.SIGTERM)
            time.sleep(0.002)
        ends = [job.exception(30 * SLOW) for job in jobs]
        check(not any(ends) and all(job.result()["y"][0, 0] == i for i, job in enumerate(jobs)), "no job of a drained broker ends in an error", [e for e in ends if e][:3])
        check(client._session.brokers[client._session.broker] == other.clients and client.counters["connections"] >= 2, "the client is at the other one")
    check(used.broker.wait(20 * SLOW) == 0, "the drained broker has ended")
    used.worker.kill()
    other.stop()


def detached(folder):
    """Kept in the broker's journal, and in a Redis."""
    detached_in(folder, ["--journal", folder / "journal"])
    if not shutil.which("redis-server"):
        print("detached jobs in Redis: left out, redis-server is not installed")
        return
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    redis = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
    try:
        check(wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0), "Redis is up")
        detached_in(folder, ["--detached", f"redis://127.0.0.1:{port}/0"])
    finally:
        redis.kill()
        redis.wait()


def detached_in(folder, broker):
    pool = new_pool(folder, broker)
    with Client(pool.clients) as client:
        serves(client)
        pool.worker.send_signal(signal.SIGSTOP)
        job = client.detach("same_fp32", {"x": row(4, 2)}, keep_for=60)
        time.sleep(0.1)
        states = [client.detached_state(job)]
        pool.worker.send_signal(signal.SIGCONT)
        future = client.submit_fetch(job)
        check(future.result(20 * SLOW)["y"].tolist() == [[4, 2]] and future.job_id != job, "fetched as a future")
        time.sleep(0.1)
        states.append(client.detached_state(job))
        check([state.state for state in states] in (["waiting", "done"], ["running", "done"]) and states[1].attempts == 1, f"its states, {broker[0]}", states)
        check(0.09 < states[0].age < states[1].age < 30 * SLOW and 60 >= states[0].left > states[1].left > 20, f"its times, {broker[0]}", states)

        async def run():
            async with AsyncClient(pool.clients) as other:
                check((await (await other.submit_fetch(job)))["y"].tolist() == [[4, 2]] and (await other.detached_state(job)).state == "done", "the same on an event loop")
        asyncio.run(run())
    pool.stop()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models.save_all(folder / "models")
        np.save(folder / "nine.npy", row(8, 9))
        pool = new_pool(folder)
        with Client(pool.clients) as client:
            check(serves(client) and serves(client, "adder"), "the pool serves")
            ordered(pool, client)
            many(client)
            sequences(client)
            demands(client)
            picture_files(client)
            debug(client)
            steering(client, pool.clients)
            check(client.counters["messages_bad"] == 0, "nothing malformed", client.counters)
        pool.stop()
        for part in (quarantine, pictures, sha256, port_fallback, drain_of_one, detached):
            part(folder)
    package.end()


main()
