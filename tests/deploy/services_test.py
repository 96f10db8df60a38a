#!/usr/bin/env python3
"""What a service manager does with the programs, and the files in deploy/ that tell it to: units, sockets, notifications, nginx, Redis.

    services_test.py BIN_DIR SOURCE_DIR

Parts whose program is not installed are skipped with a message. The last line is `N passed, N failed, N skipped`.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
DEPLOY = SOURCE / "deploy"
sys.path.insert(0, str(SOURCE / "tests/support"))
from ports import free_port  # noqa: E402
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
EXPOSURE_MAX = 2.0  # of systemd-analyze security: 0 nothing may be done, 10 everything
passed = failed = skipped = 0


def check(condition, what):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, flush=True)


def skip(what):
    global skipped
    skipped += 1
    print("[SKIP] " + what, flush=True)


def run(*argv, **more):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60 * SLOW, **more)


# ---- what the programs tell their manager

class Notifications:
    def __init__(self, folder, name):
        self.path = str(folder / name)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.text = ""

    def wait(self, word, seconds=20):
        end = time.monotonic() + seconds * SLOW
        while word not in self.text and time.monotonic() < end:
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                self.text += self.socket.recv(4096).decode() + "\n"
            except TimeoutError:
                pass
        return word in self.text


def listener(kind=socket.AF_INET, address=("127.0.0.1", 0)):
    s = socket.socket(kind, socket.SOCK_STREAM)
    s.bind(address)
    s.listen(64)
    return s


def start_handed(argv, sockets, notify=None, more=None, **pipes):
    """Starts a program as socket activation does: the sockets are descriptors 3, 4 ..., their names in the environment."""
    names = ":".join(name for name, _ in sockets)
    fds = [s.fileno() for _, s in sockets]

    def give():
        # First out of the way, then into place: a source may lie where another one goes.
        high = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i)
            os.close(fd)

    environment = {**os.environ, "LISTEN_FDS": str(len(fds)), "LISTEN_FDNAMES": names, **(more or {})}
    if notify:
        environment["NOTIFY_SOCKET"] = notify.path
    # LISTEN_PID is the program's own: the shell that execs it has the same.
    words = ["sh", "-c", 'LISTEN_PID=$$ exec "$0" "$@"', *[str(a) for a in argv]]
    return subprocess.Popen(words, env=environment, close_fds=False, preexec_fn=give, **pipes)


def handed_over(folder):
    clients, workers, http = listener(), listener(socket.AF_UNIX, str(folder / "workers")), listener()
    port, page = clients.getsockname()[1], http.getsockname()[1]
    notify = Notifications(folder, "broker.notify")
    sockets = [("clients", clients), ("workers", workers), ("http", http)]
    broker = start_handed([BIN / "penstock-broker"], sockets, notify, {"WATCHDOG_USEC": "200000"}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    line = broker.stdout.readline().decode()
    check(f"clients=tcp://127.0.0.1:{port} " in line and f"workers=ipc://{folder}/workers " in line and f"http=127.0.0.1:{page} " in line, f"the broker listens where it was told: {line.strip()}")
    check(notify.wait("READY=1"), "READY=1 comes when it listens")
    check(notify.wait("WATCHDOG=1"), "WATCHDOG=1 comes from its loop")
    worker_notify = Notifications(folder, "worker.notify")
    worker = subprocess.Popen([BIN / "penstock-worker", "--broker", f"ipc://{folder}/workers", "--models", DEPLOY / "models", "--slots", "1", "--threads", "1"],
                              env={**os.environ, "NOTIFY_SOCKET": worker_notify.path, "WATCHDOG_USEC": "200000"}, stderr=subprocess.DEVNULL)
    check(worker_notify.wait("READY=1") and "1 model is warm" in worker_notify.text, "the worker's READY=1 comes after warm-up")
    check(worker_notify.wait("WATCHDOG=1"), "and its WATCHDOG=1")
    sample = DEPLOY / "models/digits/samples/00_zero.png"
    done = run(BIN / "penstock", "submit", "--broker", f"tcp://127.0.0.1:{port}", "digits", sample)
    check(done.returncode == 0 and "zero" in done.stdout, f"jobs run through the sockets that were handed over {done.stderr}")

    # The manager keeps the sockets: a broker that starts again finds its clients in the backlog.
    broker.send_signal(signal.SIGKILL)
    broker.wait()
    late = subprocess.Popen([BIN / "penstock", "top", "--once", "--broker", f"tcp://127.0.0.1:{port}", "--timeout", "20s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    again = Notifications(folder, "again.notify")
    broker = start_handed([BIN / "penstock-broker"], sockets, again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    out, err = late.communicate(timeout=60 * SLOW)
    check(late.returncode == 0 and "penstock top" in out, f"a client that came while the broker was away is answered by the next one {err}")
    worker.send_signal(signal.SIGTERM)
    check(worker_notify.wait("STOPPING=1") and worker.wait(30 * SLOW) == 0, "the worker says STOPPING=1 and drains")
    broker.send_signal(signal.SIGTERM)
    check(again.wait("STOPPING=1") and broker.wait(30 * SLOW) == 0, "the broker, too")


def refused():
    wide, plain = listener(address=("0.0.0.0", 0)), socket.socket()
    for sockets, word in (([("clients", wide)], "--allow-remote"), ([("else", listener())], "clients, workers, http"), ([("clients", plain)], "listening socket")):
        broker = start_handed([BIN / "penstock-broker", "--http", "none"], sockets, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, error = broker.communicate(timeout=30 * SLOW)
        check(broker.returncode == 2 and word in error.decode(), f"refused with a sentence that says {word}: {error.decode().strip()[:120]}")


# ---- units

def units(folder):
    if not shutil.which("systemd-analyze"):
        return skip("no systemd-analyze here (package systemd): the units were not looked at")
    target = folder / "units"
    shutil.copytree(DEPLOY / "systemd", target)
    for unit in target.glob("*.service"):
        unit.write_text(unit.read_text().replace("/usr/bin/penstock", f"{BIN}/penstock"))
    names = [target / "penstock-broker.service", target / "penstock-gateway.service", *target.glob("*.socket")]
    instance = target / "penstock-worker@cpu.service"
    shutil.copy(target / "penstock-worker@.service", instance)
    for unit in [*names, instance]:
        done = run("systemd-analyze", "verify", "--man=no", unit, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{target}:"})
        complaints = [line for line in (done.stdout + done.stderr).splitlines() if "penstock" in line or "Unknown" in line]
        check(done.returncode == 0 and not complaints, f"systemd-analyze verify {unit.name}: {complaints}")
    for unit in (target / "penstock-broker.service", target / "penstock-gateway.service", instance):
        done = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
        level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
        check(level and float(level.group(1)) <= EXPOSURE_MAX, f"systemd-analyze security {unit.name}: {level and level.group(1)}")


def unit_options(folder):
    """Options in units and their config files are options that there are."""
    for program, config in (("penstock-broker", "broker.conf"), ("penstock-worker", "worker-cpu.conf"), ("penstock-gateway", "gateway.conf")):
        table = run(BIN / program, "--settings-markdown").stdout
        known = set(re.findall(r"`--(?:\[no-\])?([a-z-]+)", table)) | {"config"}
        keys = set(re.findall(r"^#? ?([a-z-]+) = ", (DEPLOY / "config" / config).read_text(), re.M))
        check(keys and keys <= known, f"{config} holds options of {program}: {keys - known}")
        unit = next((DEPLOY / "systemd").glob(f"{program}*.service")).read_text()
        used = set(re.findall(r" --([a-z-]+)", re.search(r"^ExecStart=.*", unit, re.M).group(0)))
        check(used <= known, f"so does its unit: {used - known}")
        path = folder / config
        path.write_text((DEPLOY / "config" / config).read_text() + "\nno-such-option = 1\n")
        done = run(BIN / program, "--config", path)
        check(done.returncode == 2 and "no-such-option" in done.stderr, f"{program} reads such a file and refuses what it does not know")


# ---- neighbours

class Nginx:
    """nginx with one of our examples: TLS on a free port, before the program at `address`."""

    def __init__(self, folder, example, listen, addresses):
        """addresses: what the example names, and where it is here."""
        self.make_key(folder)
        (folder / "users").write_text("operator:{PLAIN}secret\n")
        text = (DEPLOY / "nginx" / example).read_text().replace(f"listen {listen}", f"listen 127.0.0.1:{self.port}")
        for default, address in addresses.items():
            text = text.replace(default, address)
        for name in ("crt", "key", "users"):
            text = text.replace(f"/etc/nginx/penstock.{name}", str(folder / name))
        (folder / "site.conf").write_text(text)
        temp = "".join(f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\nevents {{}}\nhttp {{ access_log off;\n{temp}include {folder}/site.conf; }}\n")
        done = run("nginx", "-t", "-q", "-c", folder / "nginx.conf", "-e", folder / "error.log")
        check(done.returncode == 0, f"nginx -t takes {example} {done.stderr}")
        self.server = subprocess.Popen(["nginx", "-c", folder / "nginx.conf", "-e", folder / "error.log"], stderr=subprocess.DEVNULL)

    def make_key(self, folder):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=penstock.example", "-keyout", folder / "key", "-out", folder / "crt"],
                       check=True, capture_output=True)
        self.port = free_port()

    def ask(self, path, *more, form="%{http_code}"):
        return run("curl", "-sk", "-m", "10", "-o", "/dev/null", "-w", form, *more, f"https://127.0.0.1:{self.port}{path}").stdout

    def await_health(self):
        end = time.monotonic() + 20 * SLOW
        while self.ask("/v2/health/live") != "200" and time.monotonic() < end:
            time.sleep(0.1)
        check(self.ask("/v2/health/live") == "200", "probes pass without a password")


def begun(*argv):
    """The program, and its addresses for HTTP, gRPC and clients, from the line that it prints."""
    program = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    line = program.stdout.readline().decode()
    return program, dict(re.findall(r"\b(http|grpc|clients)=(\S+)", line))


def end_all(*programs):
    for program in programs:
        program.send_signal(signal.SIGTERM)
        program.wait(30)


def nginx(folder):
    if not shutil.which("nginx"):
        return skip("no nginx here (package nginx-light): its examples were not tried")
    broker, told = begun(BIN / "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http", "127.0.0.1:*")
    proxy = Nginx(folder, "penstock.conf", 8443, {"127.0.0.1:8002": told["http"]})
    try:
        proxy.await_health()
        check(proxy.ask("/") == "401" and proxy.ask("/metrics") == "401", "pages do not")
        check(proxy.ask("/", "-u", "operator:secret") == "200", "and do with one, whatever the Host header of the browser says")
        done = run("curl", "-skN", "-m", "3", "-u", "operator:secret", f"https://127.0.0.1:{proxy.port}/events")
        check(done.stdout.count("data: ") >= 2, "events come as they happen")
    finally:
        end_all(proxy.server, broker)


def grpc_ask(port, path, folder):
    """A call with an empty message over TLS: its status, and what came."""
    (folder / "empty").write_bytes(bytes(5))
    done = run("curl", "-sk", "--http2", "-m", "10", "-D", folder / "headers", "-o", folder / "answer", "-H", "content-type: application/grpc", "-H", "te: trailers",
               "--data-binary", f"@{folder}/empty", f"https://127.0.0.1:{port}{path}")
    status = re.findall(r"grpc-status: (\d+)", (folder / "headers").read_text()) if done.returncode == 0 else []
    return int(status[-1]) if status else None, (folder / "answer").read_bytes()


def behind(proxy, folder, stop_gateway):
    """What a gateway says through a proxy, over HTTP and gRPC at one port."""
    (folder / "large").write_bytes(bytes(32 << 20))
    proxy.await_health()
    server = run("curl", "-sk", "-m", "10", "-H", "Host: penstock.example", f"https://127.0.0.1:{proxy.port}/v2").stdout
    check('"name":"penstock"' in server.replace(" ", ""), f"the gateway answers through it, by whatever name it is called {server[:200]}")
    large = proxy.ask("/v2/models/none/infer", "-H", "Inference-Header-Content-Length: 0", "--data-binary", f"@{folder}/large")
    check(large == "404", f"a body of 32 MiB gets as far as the gateway, which has no such model: {large}")
    check(proxy.ask("/v2/systemsharedmemory/status") == "403", "shared memory is not for those behind a proxy")
    live = grpc_ask(proxy.port, "/inference.GRPCInferenceService/ServerLive", folder)
    check(live == (0, b"\0\0\0\0\2\x08\1"), f"gRPC, at the same port: {live}")
    check(grpc_ask(proxy.port, "/grpc.health.v1.Health/Check", folder)[0] == 0, "health over gRPC")
    check(grpc_ask(proxy.port, "/inference.GRPCInferenceService/None", folder)[0] == 12, "the gateway's own status comes through")
    check(grpc_ask(proxy.port, "/inference.GRPCInferenceService/SystemSharedMemoryStatus", folder)[0] != 0, "nor is shared memory over gRPC")
    stop_gateway()
    check(grpc_ask(proxy.port, "/grpc.health.v1.Health/Check", folder)[0] in (14, None), "without a gateway it is UNAVAILABLE")


def with_gateway(folder, make_proxy):
    broker, told = begun(BIN / "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http", "none")
    gateway, at = begun(BIN / "penstock-gateway", "--broker", told["clients"], "--http", "127.0.0.1:*", "--grpc", "127.0.0.1:*")
    proxy = make_proxy(folder, {"127.0.0.1:8000": at["http"], "127.0.0.1:8001": at["grpc"]})
    try:
        behind(proxy, folder, lambda: end_all(gateway))
    finally:
        end_all(proxy.server, gateway, broker)


def nginx_gateway(folder):
    if shutil.which("nginx"):
        with_gateway(folder, lambda folder, addresses: Nginx(folder, "gateway.conf", 8444, addresses))


class Caddy(Nginx):
    """Caddy with our example; probes and questions as of nginx."""

    def __init__(self, folder, addresses):
        self.make_key(folder)
        text = (DEPLOY / "caddy/Caddyfile").read_text().replace("penstock.example:8444", f"https://127.0.0.1:{self.port}, https://penstock.example:{self.port}")
        for default, address in {**addresses, "/etc/caddy/penstock.crt": str(folder / "crt"), "/etc/caddy/penstock.key": str(folder / "key")}.items():
            text = text.replace(default, address)
        file = folder / "Caddyfile"
        file.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n" + text)
        environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        done = subprocess.run(["caddy", "adapt", "--config", file, "--validate"], capture_output=True, text=True, env=environment)
        check(done.returncode == 0, f"caddy takes the example {done.stderr[-500:]}")
        self.server = subprocess.Popen(["caddy", "run", "--config", file], stderr=subprocess.DEVNULL, env=environment)


def caddy_gateway(folder):
    if not shutil.which("caddy"):
        return skip("no caddy here (package caddy): its example was not tried")
    with_gateway(folder, Caddy)


def redis(folder):
    if not shutil.which("redis-server"):
        return skip("no redis-server here (package redis-server): its settings were not tried")
    port = free_port()
    server = subprocess.Popen(["redis-server", DEPLOY / "redis/penstock.conf", "--port", str(port), "--dir", folder], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20 * SLOW
        while run("redis-cli", "-p", port, "ping").stdout != "PONG\n" and time.monotonic() < end:
            time.sleep(0.1)
        told = run("redis-cli", "-p", port, "config", "get", "maxmemory-policy").stdout.split()
        check(told == ["maxmemory-policy", "allkeys-lfu"], "Redis takes deploy/redis/penstock.conf")
        check(run("redis-cli", "-p", port, "config", "get", "save").stdout == "save\n\n", "and writes nothing to disk")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def main():
    for part in (handed_over, lambda _: refused(), units, unit_options, nginx, nginx_gateway, caddy_gateway, redis):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            part(Path(folder))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
