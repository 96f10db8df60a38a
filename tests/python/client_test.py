#!/usr/bin/env python3
"""The Python client before a real pool: each call, several threads, asyncio, keys, detached jobs, sequences, a drain, two brokers, and a ledger of every job while broker and worker are killed.

    client_test.py BIN_DIR

The last line is `N passed, N failed, N skipped`.
"""
import faulthandler
import sys

faulthandler.dump_traceback_later(200, exit=True)

import asyncio  # noqa: E402
import concurrent.futures  # noqa: E402
import gc  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
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
from penstock import AsyncClient, Client, keys  # noqa: E402

BIN = Path(sys.argv[1]).resolve()


def refused(kind, call, words, what):
    try:
        call()
        check(False, what, "nothing was refused")
    except kind as error:
        check(words in str(error), what, error)


def row(*values):
    return np.array([values], np.float32)


def calls(client):
    served = {model.name: model for model in client.models()}
    check(served["batched"].inputs == [penstock.Signature("x", "f32", (-1, 4), True, False)], "a model's signature", served["batched"].inputs)
    first = client.run("batched", {"x": row(1, 2, 3, 4)}, explain=True)
    check(first.status == "OK" and first["y"].shape == (1, 4) and first["y"].dtype == np.float32, "an answer", first)
    check(first.backend == "reference" and first.worker and first.version == 1 and first.attempts == 1 and 0 < first.timings.total <= first.timings.round_trip, "whence", first.timings)
    check(first.isa and first.build and first.age is None and first.measured == penstock.Measured(0.0, 0.0, 0, "reference", True), "what its numbers rest on", first.measured)
    stated = client.run("batched", {"x": row(1, 2, 3, 4)}, precision="max_relative_error=1e-6")
    check(not stated.cached and stated["y"].tolist() == first["y"].tolist(), "a bound on the error, which no answer without one is given to")
    again = client.run("batched", {"x": row(1, 2, 3, 4)}, precision="max_relative_error=1e-6")
    check(again.cached and again.age is not None and again.age >= 0, "the same bound is answered from the cache, with its age", again.age)
    check(client.run("batched", {"x": row(1, 2, 3, 4)}, precision="f32-exact").batch_size == 1, "f32-exact")
    check(first.explanation is not None and first.explanation.worker == first.worker, "why it ran there")
    check(client.run("batched", {"x": row(1, 2, 3, 4)}).cached and not client.run("batched", {"x": row(1, 2, 3, 4)}, cache=False).cached, "the cache, and without it")
    check((client.run("batched", [[1, 2, 3, 4]])["y"] == first["y"]).all(), "a list without a name")
    sums = client.run("sums", {"a": np.array([[5, 7]], np.int32), "b": np.array([[1, 2]], np.int32)}, outputs=["difference"])
    check(list(sums) == ["difference"] and sums["difference"].tolist() == [[4, 5]], "only the output that was asked for", sums)
    check(client.run("same_bytes", {"x": np.array([["wörld", ""]], object)})["y"].tolist() == [["wörld".encode(), b""]], "texts")
    for name in ("uint8", "int64", "fp16", "fp64", "bool"):
        array = np.ones((1, 2), {"fp16": np.float16, "fp64": np.float64}.get(name, name))
        check((client.run("same_" + name, {"x": array})["y"] == array).all(), name)
    check(client.run("same_bf16", {"x": penstock.Tensor("bf16", (1, 2), b"\x80\x3f\x00\x40")})["y"].astype(np.float32).tolist() == [[1.0, 2.0]], "bf16")
    check(client.stats().jobs_done > 5 and client.workers()[0].backend == "reference", "statistics and workers")
    traced = client.run("batched", {"x": row(9, 9, 9, 9)}, trace=True, cache=False)
    check(traced.job_id in client.trace(traced.job_id) and client.explain(traced.job_id).state == "done", "a trace and an explanation by the id")
    large = np.arange(3_000_000, dtype=np.float32).reshape(1, -1)
    check((client.run("same_fp32", {"x": large})["y"] == large).all() and (client.run("same_fp32", {"x": large}, cache=False)["y"] == large).all(), "12 MB each way")
    middling = np.arange(50_000, dtype=np.float32).reshape(1, -1)
    check(all((client.run("same_fp32", {"x": middling})["y"] == middling).all() for _ in range(8)), "200 KB, announced by their digest")


def errors(client):
    refused(penstock.NotFoundError, lambda: client.run("none", {"x": row(1)}), "none", "an unknown model")
    refused(penstock.NotFoundError, lambda: client.run("batched", {"z": [1]}), "no input", "an unknown input")
    refused(penstock.ShapeError, lambda: client.run("batched", {"x": row(1, 2)}), "", "a wrong shape")
    refused(penstock.DtypeError, lambda: client.run("batched", {"x": np.ones((1, 4), np.int32)}), "", "a wrong type")
    refused(penstock.UnsupportedError, lambda: client.detach("batched", {"x": row(1, 2, 3, 4)}), "--journal", "no detached jobs here")
    refused(penstock.NotFoundError, lambda: client.explain("0123456789abcdef-7"), "", "an unknown job")
    future = client.submit("none", {"x": row(1)})
    check(isinstance(future.exception(10 * SLOW), penstock.NotFoundError) and future.job_id == future.exception().job_id, "an error of a future")


def futures(client):
    jobs = {client.submit("same_fp32", {"x": row(i, i)}): i for i in range(300)}
    ended = {jobs[future]: future.result() for future in concurrent.futures.as_completed(jobs, timeout=30 * SLOW)}
    check(len(ended) == 300 and all(result["y"][0, 0] == i for i, result in ended.items()), "300 futures")
    told = threading.Event()
    client.submit("batched", {"x": row(1, 1, 1, 1)}).add_done_callback(lambda future: (client.submit("batched", {"x": row(2, 2, 2, 2)}), told.set()))
    check(told.wait(10 * SLOW), "a callback that submits")

    def of_thread(number):
        return all(client.run("same_fp32", {"x": row(number, i)})["y"].tolist() == [[number, i]] for i in range(50))
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        check(all(threads.map(of_thread, range(8))), "eight threads")
    mutable = np.zeros((1, 2), np.float32)
    future = client.submit("same_fp32", {"x": mutable}, cache=False)
    mutable[:] = 5
    check(future.result(10 * SLOW)["y"].tolist() == [[0, 0]], "what is submitted is copied")


def callbacks(address):
    """They run on the thread that moves the session, and may do whatever others do."""
    def of_callback(call, waiter):
        with Client(address) as client:
            told = []
            future = client.submit("same_fp32", {"x": row(1, 1)}, cache=False)
            future.add_done_callback(lambda _: told.append(call(client)))
            waiter(client, future)
            return wait_for(lambda: told) and told[0]

    def by_the_caller(client, future):  # who waits for a job of its own, and tells of the future's end
        for _ in range(100):
            try:
                client.run("same_fp32", {"x": row(1, 1)}, cache=False)
            except penstock.PenstockError:
                return  # closed
            if future.done():
                return
    for waiter, who in ((lambda client, future: future.exception(10 * SLOW), "the housekeeper's"), (by_the_caller, "a caller's")):
        found = of_callback(lambda client: client.run("same_fp32", {"x": row(2, 2)})["y"].tolist(), waiter)
        check(found == [[2, 2]], f"a callback on {who} thread that runs a job", found)
        check(of_callback(lambda client: client.close() or "closed", waiter) == "closed", f"a callback on {who} thread that closes the client")
    with Client(address) as client:
        client.submit("same_fp32", {"x": row(1, 1)}).add_done_callback(lambda _: sys.exit(3))
        time.sleep(0.1)
        check(client.submit("same_fp32", {"x": row(2, 1)}).result(10 * SLOW)["y"].tolist() == [[2, 1]], "jobs after a callback that left with SystemExit")


def forgotten(address):
    """A client that nobody holds closes itself; a child of os.fork() is told that it has none."""
    def once():
        return Client(address).run("same_fp32", {"x": row(1, 1)})
    once()
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(20):
        once()
    gc.collect()
    after = len(os.listdir("/proc/self/fd")), threading.active_count()
    check(after[0] <= before[0] + 2 and after[1] <= before[1], "clients that are not closed leave no thread and no descriptor", (before, after))
    ended = threading.Event()
    Client(address).submit("same_fp32", {"x": row(1, 1)}, cache=False).add_done_callback(lambda future: future.exception() or ended.set())
    gc.collect()
    check(ended.wait(10 * SLOW), "but a job under way keeps its client")
    client = Client(address)
    client.run("same_fp32", {"x": row(1, 1)})
    child = os.fork()
    if not child:
        code = 1
        try:
            client.run("same_fp32", {"x": row(1, 1)})
        except penstock.InvalidError as error:
            client.close()
            code = 0 if "process" in str(error) else 2
        finally:
            os._exit(code)
    status = []
    wait_for(lambda: status.append(os.waitpid(child, os.WNOHANG)) or status[-1][0], 10)
    check(status[-1] == (child, 0), "a forked child does not hang: it is told to make its own", status[-1])
    if not status[-1][0]:
        os.kill(child, signal.SIGKILL)
    check(client.run("same_fp32", {"x": row(1, 1)})["y"].tolist() == [[1, 1]], "and the parent goes on")
    client.close()


def asynchronous(address):
    async def run():
        async with AsyncClient(address) as client:
            await client.wait_ready()
            found = await asyncio.gather(*(client.run("same_fp32", {"x": row(i, 1)}) for i in range(200)))
            check(all(result["y"][0, 0] == i for i, result in enumerate(found)), "200 jobs on an event loop")
            large = np.arange(1_000_000, dtype=np.float32).reshape(1, -1)
            check(((await client.run("same_fp32", {"x": large}, cache=False))["y"] == large).all(), "4 MB each way")
            check((await client.run("batched", [[1, 2, 3, 4]])).status == "OK" and (await client.models()) and (await client.stats()).jobs_done, "its questions")
            try:
                await client.run("none", {"x": row(1)})
                check(False, "an unknown model")
            except penstock.NotFoundError:
                check(True, "an unknown model")
            future = await client.submit("same_fp32", {"x": row(3, 3)}, cache=False)
            check((await asyncio.wait_for(future, 10 * SLOW)).job_id == future.job_id, "a future")
    asyncio.run(run())


def waiting_jobs(pool, client):
    """Without a worker that goes on, jobs wait: deadlines and cancellation."""
    pool.worker.send_signal(signal.SIGSTOP)
    try:
        refused(penstock.DeadlineError, lambda: client.run("batched", {"x": row(1, 0, 0, 1)}, cache=False, deadline=0.2), "", "a deadline")
        future = client.submit("batched", {"x": row(1, 0, 0, 2)}, cache=False)
        time.sleep(0.1)
        check(future.cancel() and isinstance(future.exception(10 * SLOW), penstock.CancelledError) and future.cancelled() and not future.cancel(), "cancelled")
        with Client(pool.clients, jobs_max=1) as small:
            kept = small.submit("batched", {"x": row(1, 0, 0, 3)}, cache=False)
            refused(penstock.BusyError, lambda: small.submit("batched", {"x": row(1, 0, 0, 4)}, cache=False), "jobs_max", "the client's own limit")
        check(isinstance(kept.exception(5 * SLOW), penstock.CancelledError), "a closed client ends its jobs")
    finally:
        pool.worker.send_signal(signal.SIGCONT)
    check(client.run("batched", {"x": row(1, 0, 0, 5)}).status == "OK", "and it goes on")


def broker_again(pool, old):
    old.kill()
    old.wait()
    time.sleep(0.2)
    pool.broker = pool.start("broker", [BIN / "penstock-broker", "--listen-clients", pool.clients, "--listen-workers", pool.workers, "--http", "none"])


def sequences(client):
    def add(value, **place):
        return client.run("adder", {"x": row(value, value)}, sequence=5, **place)["y"].tolist()
    check([add(1, sequence_start=True), add(2), add(3, sequence_end=True)] == [[[1, 1]], [[3, 3]], [[6, 6]]], "the sums of a sequence")
    refused(penstock.NotFoundError, lambda: client.run("adder", {"x": row(1, 1)}, sequence=6), "not open", "a sequence that was not begun")


def drained(pool, client):
    """The only broker ends: what it refuses waits for the one that comes in its place."""
    pool.broker.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    jobs = [client.submit("same_fp32", {"x": row(i, 3)}, cache=False) for i in range(50)]
    broker_again(pool, pool.broker)
    check(all(job.result(30 * SLOW)["y"][0, 0] == i for i, job in enumerate(jobs)), "a drained broker's jobs")


class Ledger:
    """Every job, and each time that it ended."""

    def __init__(self):
        self.ends, self.wrong, self.failed, self.lock = {}, [], [], threading.Lock()

    def submit(self, client, number):
        self.ends[number] = 0
        values = np.full((1, 100_000 if number % 50 == 0 else 3), number, np.float32)
        client.submit("same_fp32", {"x": values}, cache=number % 2 == 0).add_done_callback(lambda future: self.end(number, values, future))

    def end(self, number, values, future):
        with self.lock:
            self.ends[number] += 1
            error = future.exception()
            if error:
                self.failed.append(f"{number}: {error!r}")
            elif not np.array_equal(future.result()["y"], values):
                self.wrong.append(number)


def under_faults(pool, worker_words):
    """Broker and worker are killed and started again while jobs are under way: none is lost, none ends twice, none is wrong."""
    ledger = Ledger()
    with Client(pool.clients, unreachable=60) as client:
        number, faults = 0, {300: "broker", 700: "worker", 1100: "broker", 1400: "cut"}
        while number < 1600:
            wait_for(lambda: client.counters["jobs_pending"] < 64, 60)
            ledger.submit(client, number)
            number += 1
            fault = faults.get(number)
            if fault == "broker":
                broker_again(pool, pool.broker)
            elif fault == "worker":
                pool.worker.kill()
                pool.worker.wait()
                pool.worker = pool.start("worker", worker_words)
            elif fault == "cut":  # silence: longer than its liveness
                pool.broker.send_signal(signal.SIGSTOP)
                time.sleep(2.0)
                pool.broker.send_signal(signal.SIGCONT)
        check(wait_for(lambda: client.counters["jobs_pending"] == 0, 60), "all jobs end", client.counters)
        time.sleep(0.1)
        seen = client.counters
        check(set(ledger.ends.values()) == {1} and len(ledger.ends) == 1600, "each ends once", [n for n, ends in ledger.ends.items() if ends != 1][:5])
        check(not ledger.wrong and not ledger.failed, "each with its own answer", (ledger.wrong[:5], ledger.failed[:3]))
        check(seen["jobs_resent"] > 0 and seen["connections"] >= 3 and seen["jobs_ended"] == seen["jobs_submitted"] == 1600 and not seen["messages_bad"], "sent again", seen)


def two_brokers(folder, models_folder):
    one, two = (Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", models_folder, "--backend", "reference"]) for _ in range(2))
    with Client(f"{one.clients}, {two.clients}") as client:
        check(wait_for(lambda: served(client)), "models of one of two brokers")
        used = one if client._session.brokers[client._session.broker] == one.clients else two
        other = two if used is one else one
        jobs = [client.submit("same_fp32", {"x": row(i, 7)}, cache=False) for i in range(100)]
        used.broker.kill()
        used.broker.wait()
        jobs += [client.submit("same_fp32", {"x": row(i, 8)}, cache=False) for i in range(100)]
        check(all(job.result(30 * SLOW)["y"][0, 0] == i % 100 for i, job in enumerate(jobs)), "the other broker has them all")
        check(client._session.brokers[client._session.broker] == other.clients, "the client is there")
    used.worker.kill()
    other.stop()


def served(client):
    return any(model.name == "same_fp32" for model in client.models())


def detached(folder, models_folder):
    pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", models_folder, "--backend", "reference"],
                broker=["--journal", folder / "journal"])
    with Client(pool.clients) as client:
        wait_for(lambda: served(client))
        job = client.detach("same_fp32", {"x": row(4, 2)}, keep_for=60, secret="open sesame")
    with Client(pool.clients) as client:
        check(client.fetch(job, deadline=20 * SLOW)["y"].tolist() == [[4, 2]], "a detached job's result from another session")
        state = client.detached_state(job)
        check(state.state == "done" and state.status == "OK", "its state", state)
        refused(penstock.NotFoundError, lambda: client.fetch("0123456789abcdef-7"), "", "a detached job that never was")
    pool.stop()


def with_keys(folder, models_folder):
    roles = {"broker": [], "worker": ["--roles", "worker"], "me": ["--roles", "submit,observe"], "stranger": []}
    for name, words in roles.items():
        listed = ["--name", name, *words, "--list", folder / "list"] if words else []
        subprocess.run([BIN / "penstock", "keygen", folder / name, *listed], check=True, stdout=subprocess.DEVNULL)
    broker = keys.read_key_file(str(folder / "broker"))[0].hex()
    pool = Pool(BIN, folder, [BIN / "penstock-worker", "--broker", "{workers}", "--models", models_folder, "--backend", "reference", "--key", folder / "worker",
                              "--broker-key", broker], broker=["--key", folder / "broker", "--keys", folder / "list"])
    with Client(pool.clients, key=folder / "me", broker_key=broker) as client:
        check(wait_for(lambda: served(client)) and client.run("same_fp32", {"x": row(1, 2)})["y"].tolist() == [[1, 2]], "with keys")
        large = np.ones((1, 400_000), np.float32)
        check((client.run("same_fp32", {"x": large}, cache=False)["y"] == large).all(), "1.6 MB with keys, over both connections")
    with Client(pool.clients, key=folder / "stranger", broker_key=broker, unreachable=1.5) as client:
        refused(penstock.UnavailableError, lambda: client.run("same_fp32", {"x": row(1, 2)}), "handshake", "a key that is not on the list")
    pool.stop()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models_folder = folder / "models"
        models.save_all(models_folder)
        words = [BIN / "penstock-worker", "--broker", "{workers}", "--models", models_folder, "--backend", "reference"]
        pool = Pool(BIN, folder, words)
        with Client(pool.clients) as client:
            client.wait_ready(20 * SLOW)
            check(wait_for(lambda: served(client)), "the pool serves")
            calls(client)
            errors(client)
            futures(client)
            callbacks(pool.clients)
            forgotten(pool.clients)
            sequences(client)
            asynchronous(pool.clients)
            waiting_jobs(pool, client)
            drained(pool, client)
            check(client.counters["messages_bad"] == 0, "nothing malformed", client.counters)
        refused(penstock.InvalidError, lambda: client.run("batched", {"x": row(1, 2, 3, 4)}), "closed", "a closed client")
        under_faults(pool, [str(word).format(workers=pool.workers) for word in words])
        pool.stop()
        two_brokers(folder, models_folder)
        detached(folder, models_folder)
        with_keys(folder, models_folder)
    package.end()


main()
