#!/usr/bin/env python3
"""How soon a pool is over a loss, under load: workers killed, frozen, cut off and wedged, a broker restarted, a broker that another one takes over from.

    failover.py BUILD_DIR [--kills 100] [--stops 10] [--cuts 5] [--wedges 5] [--restarts 20] [--takeovers 20]

Of workers: the time from the fault to the broker's line evt=worker_lost, which it writes in the turn that queues the worker's jobs again in front of all
others. A killed process closes its connections when the kernel has taken its memory down; what follows that is told apart (closed_us of that line). Of a wedged
kernel: by how much its jobs' answers came after their deadline. Of brokers: the slowest job of a load that runs over the
change. The log counts milliseconds. The cut needs root (network namespaces), the wedge ptrace; each is left out with a word where it cannot be. Standard library only.
"""
import usage  # noqa: F401
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone

HEARTBEAT_MS = 1000  # the broker's default
CABLE, NEAR, FAR = f"penc{os.getpid() % 100000}", "10.124.0.1", "10.124.0.2"


def start(command, log):
    return subprocess.Popen(command, stdout=log, stderr=log)


def wait_line(path, pattern, since, timeout_s):
    """The first line from byte `since` on that matches, and its time in s."""
    until = time.time() + timeout_s
    while time.time() < until:
        with open(path, errors="replace") as file:
            file.seek(since)
            for line in file:
                if re.search(pattern, line) and line.endswith("\n"):
                    stamp = re.search(r"ts=(\S+)Z", line)
                    at = datetime.fromisoformat(stamp.group(1)).replace(tzinfo=timezone.utc).timestamp() if stamp else time.time()
                    return line, at
        time.sleep(0.002)
    sys.exit(f"no line {pattern} in {path}")


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def report(what, times, goal, more=""):
    if times:
        print(f"{what:34} n {len(times):4}  p50 {quantile(times, 0.5):8.1f}  p99 {quantile(times, 0.99):8.1f}  max {max(times):8.1f} ms  ({goal}) {more}", flush=True)


class Pool:
    def __init__(self, build, folder, name="broker", host="127.0.0.1"):
        self.bin, self.folder, self.count, self.host = f"{build}/bin", folder, 0, host
        if not os.path.exists(f"{folder}/models"):
            subprocess.run([f"{self.bin}/penstock", "torture", "--write-model", folder], check=True)
        self.log = f"{folder}/{name}.log"
        self.clients = self.endpoint = f"tcp://{host}:*"
        self.broker_start()

    def broker_start(self):
        since = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        remote = [] if self.host == "127.0.0.1" else ["--allow-remote"]
        self.broker = start([f"{self.bin}/penstock-broker", "--listen-clients", self.clients, "--listen-workers", self.endpoint, "--http", "none", *remote],
                            open(self.log, "a"))
        line, _ = wait_line(self.log, "evt=listening .*workers=", since, 10)
        self.clients, self.endpoint = (re.search(rf"{name}=(tcp://\S+)", line).group(1) for name in ("clients", "workers"))

    def worker(self, brokers=None, inside=(), more=()):
        """xnnpack by name: with auto a software Vulkan driver would be mapped, 45 MB that the kernel takes down before it closes a connection."""
        self.count += 1
        path, name = f"{self.folder}/worker{self.count}.log", f"w{self.count}"
        process = start([*inside, f"{self.bin}/penstock-worker", "--broker", brokers or self.endpoint, "--models", f"{self.folder}/models", "--slots", "1",
                         "--threads", "1", "--name", name, "--backend", "xnnpack", *more], open(path, "w"))
        wait_line(path, "evt=welcome", 0, 20)
        process.name, process.log = name, path
        time.sleep(0.15)  # it shall have work; and the log holds back more than 20 equal events a second
        return process

    def load(self, seconds, clients=None, more=()):
        return subprocess.Popen([f"{self.bin}/penstock", "load", "--broker", clients or self.clients, "--model", "twice", "--no-cache", "--concurrency", "32",
                                 "--duration", f"{seconds}s", "--json", *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def lose(self, process, harm):
        """Milliseconds to worker_lost, its reason, milliseconds from the closed connection on."""
        since, at = os.path.getsize(self.log), time.time()
        harm()
        line, seen = wait_line(self.log, rf"evt=worker_lost worker={process.name} ", since, 10)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return (seen - at) * 1000, re.search(r"reason=(\w+)", line).group(1), int(re.search(r"closed_us=(\d+)", line).group(1)) / 1000

    def end(self, *processes):
        for process in (*processes, self.broker):
            process.kill()
            process.wait()


def lose_workers(build, folder, how, count):
    pool = Pool(build, folder, name=f"broker-{how.name}")
    steady, load = pool.worker(), pool.load(3600)
    seen = []
    for _ in range(count):
        victim = pool.worker()
        seen.append(pool.lose(victim, lambda: victim.send_signal(how)))
    pool.end(load, steady)
    return seen


def report_lost(what, seen, goal):
    reasons = {r: sum(1 for _, x, _ in seen if x == r) for _, r, _ in seen}
    report(what, [t for t, _, _ in seen], goal, reasons)


def kill_workers(build, folder, count):
    seen = lose_workers(build, folder, signal.SIGKILL, count)
    report_lost("worker SIGKILL to redispatched", seen, "goal p50 5, p99 50")
    report("  of it from the closed connection", [t for _, _, t in seen], "goal 5")


def stop_workers(build, folder, count):
    report_lost("worker SIGSTOP to redispatched", lose_workers(build, folder, signal.SIGSTOP, count), f"goal {2 * HEARTBEAT_MS}")


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True).returncode == 0


def cable_lay():
    return (os.geteuid() == 0 and shutil.which("ip") and ip("netns", "add", CABLE) and
            ip("link", "add", "pennear", "type", "veth", "peer", "name", "penfar", "netns", CABLE) and ip("address", "add", f"{NEAR}/24", "dev", "pennear") and
            ip("link", "set", "pennear", "up") and ip("-n", CABLE, "address", "add", f"{FAR}/24", "dev", "penfar") and ip("-n", CABLE, "link", "set", "penfar", "up"))


def cable_cut():
    """By the call itself: starting a program for it takes milliseconds, in which the worker is still heard."""
    SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"pennear", 0)
        flags, = struct.unpack_from("h", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"pennear", flags & ~IFF_UP))


def cut_workers(build, folder, count):
    if not cable_lay():
        ip("netns", "delete", CABLE)
        print("cut cable: left out, network namespaces need root and ip")
        return
    try:
        pool = Pool(build, folder, name="broker-cut", host=NEAR)
        steady, load, seen = pool.worker(), pool.load(3600), []
        for _ in range(count):
            victim = pool.worker(inside=["ip", "netns", "exec", CABLE])
            seen.append(pool.lose(victim, cable_cut))
            ip("link", "set", "pennear", "up")
        pool.end(load, steady)
        report_lost("cut cable to redispatched", seen, f"goal {2 * HEARTBEAT_MS}")
    finally:
        ip("link", "delete", "pennear")
        ip("netns", "delete", CABLE)


def thread_named(pid, name):
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm") as file:
            if file.read().strip() == name:
                return int(thread)
    return None


PTRACE_ATTACH, PTRACE_DETACH, WEDGED_S = 16, 17, 2


def wedge_workers(build, folder, count):
    """The slot's thread alone is stopped by ptrace, as by a kernel that hangs; the process gives signs of life."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    pool = Pool(build, folder, name="broker-wedge")
    victim = pool.worker()
    thread, load, late = thread_named(victim.pid, "slot-0"), pool.load(3600, more=["--deadline", "300ms"]), []
    for _ in range(count):
        time.sleep(0.5)
        since = os.path.getsize(pool.log)
        if ptrace(PTRACE_ATTACH, thread, None, None) != 0:
            print("wedged kernel: left out, this system allows no ptrace")
            break
        time.sleep(WEDGED_S)
        with open(pool.log, errors="replace") as file:
            file.seek(since)
            late += [int(us) / 1000 - 300 for us in re.findall(r"evt=job_done .*status=DEADLINE total_us=(\d+) attempts=[1-9]", file.read())]
        ptrace(PTRACE_DETACH, thread, None, None)
    pool.end(load, victim)
    report("wedged kernel: past the deadline", late, "goal 0: by its deadline")


def slowest_ms(load):
    told = json.loads(load.communicate(timeout=60)[0])
    if told["errors"]:
        print(f"  {told['errors']} errors under the change")
    return told["latency_us"]["max"] / 1000


def restart_brokers(build, folder, count):
    pool = Pool(build, folder, name="broker-restart")
    steady, seen = pool.worker(), []
    for _ in range(count):
        load = pool.load(2)
        time.sleep(0.7)
        pool.broker.kill()
        pool.broker.wait()
        pool.broker_start()
        seen.append(slowest_ms(load))
    pool.end(steady)
    report("broker restart to clients resumed", seen, "goal p99 1000")


def jobs_done(pool):
    told = json.loads(subprocess.run([f"{pool.bin}/penstock", "workers", "--broker", pool.clients, "--json"], capture_output=True, text=True).stdout)
    return sum(worker["jobs_done"] for worker in (told["workers"] if isinstance(told, dict) else told))


def take_over(build, folder, count):
    pools = [Pool(build, folder, name=f"broker-{i}") for i in range(2)]
    steady, seen = pools[0].worker(brokers=",".join(pool.endpoint for pool in pools)), []
    for _ in range(count):
        before = [jobs_done(pool) for pool in pools]
        load = pools[0].load(2, ",".join(pool.clients for pool in pools))
        time.sleep(0.7)
        home = max((0, 1), key=lambda i: jobs_done(pools[i]) - before[i])
        pools[home].broker.kill()
        pools[home].broker.wait()
        seen.append(slowest_ms(load))
        since = os.path.getsize(steady.log)
        pools[home].broker_start()
        wait_line(steady.log, "evt=welcome", since, 20)
    pools[0].end(steady)
    pools[1].end()
    report("second broker takes over", seen, "goal 1000")


CASES = {"--kills": (kill_workers, 100), "--stops": (stop_workers, 10), "--cuts": (cut_workers, 5), "--wedges": (wedge_workers, 5),
         "--restarts": (restart_brokers, 20), "--takeovers": (take_over, 20)}


def main():
    arguments, counts = sys.argv[1:], {name: count for name, (_, count) in CASES.items()}
    for name in CASES:
        if name in arguments:
            at = arguments.index(name)
            counts[name] = int(arguments[at + 1])
            del arguments[at:at + 2]
    if len(arguments) != 1:
        sys.exit(__doc__)
    for name, (case, _) in CASES.items():
        if counts[name] > 0:
            with tempfile.TemporaryDirectory() as folder:
                case(arguments[0], folder, counts[name])


if __name__ == "__main__":
    main()
