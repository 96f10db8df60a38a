#!/usr/bin/env python3
"""Three hosts in network namespaces: a broker and a worker on each of two, clients on the third; links are cut, one way and both, slowed and torn.

    hosts_test.py BIN_DIR SOURCE_DIR

Every job must get its answer, whatever is cut, as long as one broker and one worker are within reach. Skips with a message where network namespaces cannot be
made (it needs root and ip). The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import random
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
NAME = f"pen{os.getpid()}"
HOSTS = {"one": "10.123.0.1", "two": "10.123.0.2", "users": "10.123.0.3"}
CLIENTS = f"tcp://{HOSTS['one']}:5550,tcp://{HOSTS['two']}:5550"
WORKERS = f"tcp://{HOSTS['one']}:5551,tcp://{HOSTS['two']}:5551"
LIVENESS_MS = 600
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = 0
processes = []


def check(condition, what):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, flush=True)


def ip(*words, host=None):
    inside = ["ip", "netns", "exec", f"{NAME}{host}"] if host else []
    return subprocess.run([*inside, "ip", *words], capture_output=True, text=True)


def network_make():
    """Namespaces joined by a bridge in a fourth one, so that nothing of this machine's own network is touched."""
    if ip("netns", "add", f"{NAME}bridge").returncode != 0:
        return False
    ok = ip("link", "add", "hub", "type", "bridge", host="bridge").returncode == 0
    ip("link", "set", "hub", "up", host="bridge")
    for index, (host, address) in enumerate(HOSTS.items()):
        ip("netns", "add", f"{NAME}{host}")
        made = ip("link", "add", f"to{index}", "type", "veth", "peer", "name", "net0", "netns", f"{NAME}{host}", host="bridge")
        ok = ok and made.returncode == 0
        ip("link", "set", f"to{index}", "master", "hub", "up", host="bridge")
        ip("address", "add", f"{address}/24", "dev", "net0", host=host)
        ip("link", "set", "net0", "up", host=host)
        ip("link", "set", "lo", "up", host=host)
    return ok


def network_free():
    for host in ["bridge", *HOSTS]:
        ip("netns", "delete", f"{NAME}{host}")


def on(host, *argv, names=None):
    """The command as run on that host; names: a file that stands there for /etc/hosts."""
    inside = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(names)] if names else []
    return ["ip", "netns", "exec", f"{NAME}{host}", *inside, *map(str, argv)]


def start(host, log, *argv, names=None):
    with open(log, "ab") as out:
        process = subprocess.Popen(on(host, *argv, names=names), stdout=subprocess.DEVNULL, stderr=out)
    processes.append(process)
    return process


def says(log, text, seconds=20):
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        if log.exists() and text in log.read_text(errors="replace"):
            return True
        time.sleep(0.05)
    return False


def broker_start(host, folder):
    return start(host, folder / f"broker-{host}.log", BIN / "penstock-broker", "--listen-clients", f"tcp://{HOSTS[host]}:5550", "--listen-workers",
                 f"tcp://{HOSTS[host]}:5551", "--allow-remote", "--http", "none", "--heartbeat", f"{LIVENESS_MS // 2}ms", "--liveness", f"{LIVENESS_MS}ms")


def worker_start(host, folder, brokers=WORKERS, name=None, names=None):
    name = name or f"worker-{host}"
    return start(host, folder / f"{name}.log", BIN / "penstock-worker", "--broker", brokers, "--models", SOURCE / "deploy/models", "--threads", "1",
                 "--slots", "1", "--name", name, names=names)


class Load:
    """`penstock load` on the users' host while faults happen."""

    def __init__(self, seconds, clients=CLIENTS, deadline="20s", names=None):
        self.process = subprocess.Popen(
            on("users", BIN / "penstock", "load", "--broker", clients, "--model", "digits", "--no-cache", "--duration", f"{seconds}s", "--concurrency", "8",
               "--deadline", deadline, "--json", names=names), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(self.process)
        time.sleep(1)

    def end(self, what):
        """No job waits until its deadline, whatever was cut; how long the slowest took is told, not judged: the machine may be busy."""
        out, err = self.process.communicate(timeout=90)
        try:
            told = json.loads(out)
        except ValueError:
            check(False, f"{what}: no figures: {out[-300:]} {err[-300:]}")
            return
        jobs, errors, slowest = told["requests"], told["errors"], told["latency_us"]["max"] / 1000
        check(jobs > 20 and errors == 0, f"{what}: {jobs} jobs, {errors} errors, slowest {slowest:.0f} ms")


def cut(host):
    ip("link", "set", f"to{list(HOSTS).index(host)}", "down", host="bridge")


def heal(host):
    ip("link", "set", f"to{list(HOSTS).index(host)}", "up", host="bridge")


def deaf(host, peer):
    """What `host` sends to `peer` is lost, the other direction works."""
    ip("route", "add", "blackhole", f"{HOSTS[peer]}/32", host=host)


def hear(host, peer):
    ip("route", "delete", "blackhole", f"{HOSTS[peer]}/32", host=host)


class Relay(threading.Thread):
    """Carries bytes from the users' host to a broker: late by `delay` seconds, and tears the connection at random."""

    def __init__(self, port, to, delay, tear):
        super().__init__(daemon=True)
        self.delay, self.tear, self.to, self.torn, self.stopping = delay, tear, to, 0, False
        self.listener = socket.create_server((HOSTS["users"], port))
        self.listener.setblocking(False)

    def run(self):
        choice, seed = selectors.DefaultSelector(), random.Random(7)
        waiting = []  # (when, socket, bytes), in order of time
        peers = {}
        choice.register(self.listener, selectors.EVENT_READ)
        while not self.stopping:
            for key, _ in choice.select(0.001):
                if key.fileobj is self.listener:
                    one, _ = self.listener.accept()
                    other = socket.socket()
                    other.settimeout(2)
                    try:
                        other.connect(self.to)
                    except OSError:
                        one.close()
                        continue
                    peers[one], peers[other] = other, one
                    for end in (one, other):
                        end.settimeout(5)
                        choice.register(end, selectors.EVENT_READ)
                    continue
                try:
                    data = key.fileobj.recv(65536)
                except OSError:
                    data = b""
                if data and seed.random() >= self.tear:
                    waiting.append((time.monotonic() + self.delay, peers[key.fileobj], data))
                elif key.fileobj in peers:
                    self.torn += bool(data)
                    self.close(choice, peers, key.fileobj)
            while waiting and waiting[0][0] <= time.monotonic():
                _, to, data = waiting.pop(0)
                try:
                    to.sendall(data)
                except OSError:
                    pass  # closed meanwhile

    @staticmethod
    def close(choice, peers, one):
        other = peers.pop(one)
        peers.pop(other, None)
        for end in (one, other):
            try:
                choice.unregister(end)
            except KeyError:
                pass
            end.close()


def relay_main():
    """Runs in the users' namespace: PORT HOST:PORT DELAY TEAR, until its input ends."""
    host, port = sys.argv[4].split(":")
    relay = Relay(int(sys.argv[3]), (host, int(port)), float(sys.argv[5]), float(sys.argv[6]))
    relay.start()
    print("ready", flush=True)
    sys.stdin.read()
    relay.stopping = True
    relay.join()
    print(relay.torn, flush=True)


def relay_open(port, host, delay, tear):
    relay = subprocess.Popen(["ip", "netns", "exec", f"{NAME}users", sys.executable, __file__, "relay", str(SOURCE), str(port), f"{HOSTS[host]}:5550",
                              str(delay), str(tear)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    processes.append(relay)
    relay.stdout.readline()
    return relay


def one_name(folder):
    """All brokers behind one name with several addresses, for clients and for a worker; one of the hosts is cut off and comes back."""
    names = folder / "hosts"
    names.write_text("127.0.0.1 localhost\n" + "".join(f"{HOSTS[host]} brokers.test\n" for host in ("one", "two")))
    worker = worker_start("users", folder, "tcp://brokers.test:5551", name="by-name", names=names)
    for host in ("one", "two"):
        check(says(folder / "by-name.log", f"evt=welcome broker=tcp://{HOSTS[host]}:5551"), f"one name is enough for a worker to serve the broker on {host}")
    load = Load(4, "tcp://brokers.test:5550", names=names)
    cut("one")
    time.sleep(2)
    heal("one")
    load.end("clients know one name with two addresses, a host is cut off")
    load = Load(4, "tcp://brokers.test:5550", names=names)
    cut("two")
    time.sleep(2)
    heal("two")
    load.end("the same with the other host")
    worker.terminate()
    worker.wait()


def scenarios(folder):
    brokers = {host: broker_start(host, folder) for host in ("one", "two")}
    for host in ("one", "two"):
        worker_start(host, folder)
    for host in ("one", "two"):
        for peer in ("one", "two"):
            check(says(folder / f"worker-{host}.log", f"evt=welcome broker=tcp://{HOSTS[peer]}:5551"), f"the worker on {host} serves the broker on {peer}")

    load = Load(4)
    cut("one")
    time.sleep(2)
    heal("one")
    load.end("a host is cut off and comes back")
    lost = re.findall(r"evt=worker_lost worker=worker-one .*?reason=(\w+)", (folder / "broker-two.log").read_text())
    check("cut" in lost, f"the other host's broker says that the worker there was cut off, not killed or frozen: {lost}")

    load = Load(4)
    deaf("one", "users")
    time.sleep(2)
    hear("one", "users")
    load.end("a broker hears its clients, they do not hear it")

    load = Load(4)
    deaf("users", "two")
    time.sleep(2)
    hear("users", "two")
    load.end("a broker does not hear its clients")

    load = Load(4)
    deaf("one", "two")
    time.sleep(2)
    hear("one", "two")
    load.end("one host hears the other, which does not hear it")

    load = Load(4)
    deaf("one", "two")
    deaf("two", "one")
    time.sleep(2)
    hear("one", "two")
    hear("two", "one")
    load.end("each broker has only its own host's worker")

    load = Load(3)
    brokers["one"].send_signal(signal.SIGKILL)
    load.end("a broker is killed")
    brokers["one"].wait()
    broker_start("one", folder)

    one_name(folder)

    relays = [relay_open(6000 + i, host, 0.02, 0.0) for i, host in enumerate(("one", "two"))]
    through = f"tcp://{HOSTS['users']}:6000,tcp://{HOSTS['users']}:6001"
    Load(2, through).end("20 ms each way")
    for relay in relays:
        relay.communicate("")
    relays = [relay_open(6000 + i, host, 0.002, 0.002) for i, host in enumerate(("one", "two"))]
    Load(4, through).end("connections are torn at random")
    torn = sum(int(relay.communicate("")[0]) for relay in relays)
    check(torn > 0, f"{torn} connections were torn")


def end():
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    network_free()


def main():
    if os.geteuid() != 0 or not shutil.which("ip"):
        print("skipped: network namespaces need root and ip (package iproute2)\n0 passed, 0 failed, 1 skipped")
        return 0
    if not network_make():
        network_free()
        print("skipped: this system lets nobody make network namespaces\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            scenarios(Path(folder))
        finally:
            end()
            if failed:
                for log in sorted(Path(folder).glob("*.log")):
                    print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(relay_main() if sys.argv[1] == "relay" else main())
