"""Servers of Redis for tests and benches: alone, as a cluster of three masters and three replicas, watched by Sentinels; on free loopback ports.

A server of Valkey does as well: give its path as `program`. Standard library only.
"""
import os
import socket
import subprocess
import time
from pathlib import Path

from ports import free_ports

SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
NODE_TIMEOUT_MS = int(700 * SLOW)


def crc16(data):
    """CRC-16/XMODEM, as the cluster specification of redis.io has it."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def slot_of(key):
    key = key.encode()
    left = key.find(b"{")
    right = key.find(b"}", left + 1)
    return crc16(key[left + 1:right] if left >= 0 and right > left + 1 else key) % 16384


def until(what, condition, seconds=20.0, step=0.02):
    end = time.monotonic() + seconds * SLOW
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise SystemExit(f"not within {seconds * SLOW:.0f} s: {what}")
        time.sleep(step)


class RedisError(Exception):
    """What Redis answered with a minus in front."""


class Server:
    """One process, and a connection to it for the test's own questions."""

    def __init__(self, folder, *options, program="redis-server", port=None, config=None):
        self.port = port or free_ports(1)[0]
        self.folder, self.options, self.program, self.config = Path(folder) / f"redis-{self.port}", options, program, config
        self.folder.mkdir(parents=True, exist_ok=True)
        self.connection = self.process = None
        self.start()

    def start(self):
        """Again, too, with the files that a killed one left."""
        base = ["--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder, "--save", "", "--daemonize", "no"]
        words = [self.program, *(["sentinel.conf", "--sentinel"] if self.config else base), *self.options]
        if self.config:
            (self.folder / "sentinel.conf").write_text(self.config)
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log, cwd=self.folder)
        until(f"redis-server answers on port {self.port}", self.answers)

    def answers(self):
        try:
            return self("PING") is not None
        except RedisError:
            return True
        except OSError:
            if self.process.poll() is not None:
                raise SystemExit(f"redis-server ended:\n{(self.folder / 'log').read_text()[-2000:]}") from None
            return False

    def __call__(self, *words):
        """One command; bytes become text. Raises RedisError or OSError. Once more on a new connection: Sentinels close those of a server that they demote."""
        try:
            return self.ask(*words)
        except OSError:
            return self.ask(*words)

    def ask(self, *words, timeout=5.0):
        try:
            if not self.connection:
                link = socket.create_connection(("127.0.0.1", self.port), timeout=timeout * SLOW)
                self.connection = link, link.makefile("rb")
            link, lines = self.connection
            packed = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            link.sendall(b"*%d\r\n" % len(packed) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in packed))
            return read_reply(lines)
        except OSError:
            self.forget()
            raise

    def forget(self):
        if self.connection:
            self.connection[1].close()
            self.connection[0].close()
        self.connection = None

    def info(self, section):
        return dict(line.split(":", 1) for line in self("INFO", section).split("\r\n") if ":" in line)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.forget()
        self.process.kill()
        self.process.wait(10)

    def alive(self):
        return self.process.poll() is None


def read_reply(lines):
    line = lines.readline()
    if not line:
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        raise RedisError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else lines.read(int(rest) + 2)[:-2].decode(errors="replace")
    items = [] if rest == b"-1" else [None] * int(rest)
    for i, _ in enumerate(items):
        try:
            items[i] = read_reply(lines)
        except RedisError as error:
            items[i] = error
    return items


class Cluster:
    """Three masters with a third of the slots each, and a replica of each."""

    def __init__(self, folder, *options, program="redis-server"):
        ports = free_ports(12)
        cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS, "--cluster-require-full-coverage", "no",
                   "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0", "--appendonly", "no"]
        self.nodes = [Server(folder, *cluster, "--cluster-port", ports[6 + i], *options, program=program, port=ports[i]) for i in range(6)]
        first = self.nodes[0]
        for i, node in enumerate(self.nodes):
            node("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node, port in zip(self.nodes[1:], ports[7:]):
            first("CLUSTER", "MEET", "127.0.0.1", node.port, port)
        for i in range(3):
            self.nodes[i]("CLUSTER", "ADDSLOTSRANGE", *((0, 5460), (5461, 10922), (10923, 16383))[i])
        until("all nodes know each other", lambda: all(len(node("CLUSTER", "NODES").splitlines()) == 6 and "handshake" not in node("CLUSTER", "NODES")
                                                       for node in self.nodes))
        for i in range(3):
            until("a replica knows its master", lambda i=i: replicate(self.nodes[3 + i], self.id_of(self.nodes[i])))
        self.settled()

    def id_of(self, node):
        return node("CLUSTER", "MYID")

    def settled(self):
        """Every slot has a living master with a replica that is up to date, and each node knows."""
        until("the cluster is whole", lambda: all(self.whole(node) for node in self.nodes if node.alive()))

    def whole(self, node):
        if node("CLUSTER", "INFO").split("\r\n")[0] != "cluster_state:ok":
            return False
        role = node("ROLE")
        return role[0] == "master" or role[3] == "connected"

    def masters(self):
        return [node for node in self.nodes if node.alive() and node("ROLE")[0] == "master"]

    def replica_of(self, master):
        port = master.port
        return next(node for node in self.nodes if node.alive() and node("ROLE")[0] == "slave" and node("ROLE")[2] == port)

    def owner(self, slot):
        """As the living masters themselves say; None: none does now."""
        for node in self.nodes:
            if not node.alive():
                continue
            try:
                for first, last, master, *_ in node("CLUSTER", "SLOTS"):
                    if first <= slot <= last and master[1] == node.port and node("ROLE")[0] == "master":
                        return node
            except OSError:
                continue
        return None

    def seeds(self, *nodes):
        return ",".join(f"127.0.0.1:{node.port}" for node in nodes or self.nodes[:3])

    def move(self, slot, source, target, pause=lambda: None):
        """As `redis-cli --cluster reshard` moves it: pause() runs while the slot is between the two."""
        target("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        pause()
        while True:
            keys = source("CLUSTER", "GETKEYSINSLOT", slot, 1)
            if not keys:
                break
            source("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            pause()
        for node in (target, source, *self.masters()):
            node("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def end(self):
        for node in self.nodes:
            if node.alive():
                node.kill()


def replicate(node, master_id):
    try:
        return node("CLUSTER", "REPLICATE", master_id) == "OK"
    except RedisError:
        return False


class Watched:
    """A master, two replicas, and three Sentinels that know it as `pool`."""

    def __init__(self, folder, *options, program="redis-server"):
        fast = ["--repl-diskless-sync-delay", "0", "--appendonly", "no", *options]
        master = Server(folder, *fast, program=program)
        self.servers = [master, *(Server(folder, *fast, "--replicaof", f"127.0.0.1 {master.port}", program=program) for _ in range(2))]
        until("the replicas are connected", lambda: master.info("replication")["connected_slaves"] == "2")
        self.sentinels = []
        for port in free_ports(3):
            config = (f"port {port}\nbind 127.0.0.1\nsentinel monitor pool 127.0.0.1 {master.port} 2\nsentinel down-after-milliseconds pool {int(500 * SLOW)}\n"
                      f"sentinel failover-timeout pool {int(3000 * SLOW)}\nsentinel parallel-syncs pool 2\n")
            self.sentinels.append(Server(folder, program=program, port=port, config=config))
        until("the Sentinels know each other and the replicas", self.settled)

    def settled(self):
        for sentinel in self.sentinels:
            told = sentinel("SENTINEL", "MASTER", "pool")
            facts = dict(zip(told[::2], told[1::2]))
            if facts["num-other-sentinels"] != "2" or facts["num-slaves"] != "2" or facts["flags"] != "master":
                return False
        return True

    def master(self):
        """As a Sentinel says."""
        port = int(self.sentinels[-1]("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "pool")[1])
        return next(server for server in self.servers if server.port == port)

    def follow(self, server):
        """A server that was killed, and started again: the Sentinels would make it a replica themselves, after ten seconds."""
        server("REPLICAOF", "127.0.0.1", self.master().port)
        until("it is a replica", lambda: server("ROLE")[0] == "slave" and server("ROLE")[3] == "connected")

    def failover(self):
        def ordered():
            try:
                return self.sentinels[0]("SENTINEL", "FAILOVER", "pool") == "OK"
            except RedisError:  # it has not heard of good replicas yet
                return False
        until("a Sentinel makes another server the master", ordered)

    def place(self):
        return "sentinel://" + ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels) + "/pool"

    def end(self):
        for one in (*self.sentinels, *self.servers):
            if one.alive():
                one.kill()
