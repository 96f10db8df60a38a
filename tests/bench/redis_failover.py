#!/usr/bin/env python3
"""A master of a Redis Cluster is killed under load: when the cache serves that master's results again, and what jobs waited.

    redis_failover.py BUILD_DIR [--repeats 5] [--rate 200] [--program VALKEY_SERVER]

Three masters and three replicas on loopback, cluster-node-timeout 700 ms; one broker with the default --cache-deadline, jobs of changing inputs. Of each kill:
the cluster's own failover (from SIGKILL until another master names the replica as the owner), the time until a result that the dead master had comes from the
cache again, and the latencies of the load with the kill in it beside those of a load right before it. Standard library only.
"""
import usage  # noqa: F401
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from redis_servers import Cluster, slot_of, until  # noqa: E402

SAMPLE = ROOT / "deploy/models/digits/samples/00_zero.png"
DEADLINE_US, LOAD_S = 5000, 5


def option(name, default):
    return type(default)(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


class Pool:
    def __init__(self, build, folder, place):
        self.bin, self.started = Path(build).resolve() / "bin", []
        words = self.start(folder / "broker.log", "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http",
                           "none", "--cache", place, until_word="evt=listening")
        self.clients, workers = (next(word.split("=", 1)[1] for word in words if word.startswith(name)) for name in ("clients=", "workers="))
        self.start(folder / "worker.log", "penstock-worker", "--broker", workers, "--models", ROOT / "deploy/models", "--backend", "xnnpack", "--threads", 1,
                   until_word="evt=welcome")

    def start(self, log, program, *words, until_word):
        with open(log, "w", encoding="utf-8") as out:
            self.started.append(subprocess.Popen([self.bin / program, *map(str, words)], stdout=out, stderr=out))
        until(f"{program} says {until_word}", lambda: until_word in log.read_text())
        return log.read_text().split()

    def penstock(self, *words):
        return [str(word) for word in (self.bin / "penstock", *words, "--broker", self.clients, "--json")]

    def cached(self):
        told = subprocess.run(self.penstock("submit", "digits", SAMPLE), capture_output=True, text=True, check=True).stdout
        return json.loads(told)["jobs"][0]["cached"]

    def load(self, rate):
        return subprocess.Popen(self.penstock("load", "--model", "digits", "--rate", rate, "--unique", "--duration", f"{LOAD_S}s"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self):
        for process in reversed(self.started):
            process.terminate()
            process.wait(20)


def settle(load):
    out, err = load.communicate(timeout=120)
    told = json.loads(out)
    if told["errors"]:
        sys.exit(f"{told['errors']} jobs failed: {err}")
    return told["latency_us"]


def owner_seen(cluster, slot, by, port):
    return any(first <= slot <= last and master[1] == port for first, last, master, *_ in by("CLUSTER", "SLOTS"))


def kill_one(cluster, pool, rate):
    before = {key for node in cluster.masters() for key in node("KEYS", "penstock:1:*")}
    until("the result is cached", pool.cached)
    held = next(((node, key) for node in cluster.masters() for key in node("KEYS", "penstock:1:*") if key not in before), None)
    if not held:  # it was there from the repeat before
        held = next((node, key) for node in cluster.masters() for key in node("KEYS", "penstock:1:*") if key == kill_one.key)
    master, kill_one.key = held
    replica, witness = cluster.replica_of(master), next(node for node in cluster.masters() if node is not master)
    until("the replica has it", lambda: replica.info("replication")["master_link_status"] == "up")
    calm = settle(pool.load(rate))
    load = pool.load(rate)
    time.sleep(0.7)
    began = time.monotonic()
    master.kill()
    until("the replica owns the slots", lambda: owner_seen(cluster, slot_of(kill_one.key), witness, replica.port), step=0.002)
    failover = time.monotonic() - began
    until("the cache serves it again", pool.cached, step=0.001)
    back = time.monotonic() - began
    hurt = settle(load)
    master.start()
    cluster.settled()
    return failover * 1000, back * 1000, calm, hurt


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    rows = []
    with tempfile.TemporaryDirectory(prefix="penstock-failover-") as folder:
        cluster = Cluster(folder, program=option("--program", "redis-server"))
        try:
            pool = Pool(sys.argv[1], Path(folder), "cluster://" + cluster.seeds())
            try:
                for _ in range(option("--repeats", 5)):
                    rows.append(kill_one(cluster, pool, option("--rate", 200)))
                    failover, back, calm, hurt = rows[-1]
                    print(f"failover {failover:6.0f} ms  cache back {back:6.0f} ms  ({back - failover:+5.0f})   p50 {calm['p50']:.0f} -> {hurt['p50']:.0f}  "
                          f"p99 {calm['p99']:.0f} -> {hurt['p99']:.0f}  max {calm['max']:.0f} -> {hurt['max']:.0f} us", flush=True)
            finally:
                pool.end()
        finally:
            cluster.end()
    late = statistics.median(back - failover for failover, back, _, _ in rows)
    rise = {name: statistics.median(hurt[name] - calm[name] for _, _, calm, hurt in rows) for name in ("p50", "p99", "max")}
    print(f"cache back after the cluster's own failover: median {late:+.0f} ms")
    print(f"rise with the kill in the load, medians of {len(rows)}: p50 {rise['p50']:+.0f}, p99 {rise['p99']:+.0f}, max {rise['max']:+.0f} us; --cache-deadline "
          f"is {DEADLINE_US} us: {'no job was later than that' if rise['max'] <= DEADLINE_US else 'the slowest job was later than that'}")


if __name__ == "__main__":
    main()
