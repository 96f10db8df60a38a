"""A pool with a gateway, on loopback and ports of the system's choice; and a small HTTP client that can also misbehave."""
import atexit
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))


def wait_for(question, seconds=20):
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        if question():
            return True
        time.sleep(0.05)
    return False


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The sentence of an answer in the protocol's form, and nothing but that."""
        found = json.loads(self.body)
        return found["error"] if list(found) == ["error"] else None


class Pool:
    """broker: more arguments of it. worker: the words of its command; {workers} is the address."""

    def __init__(self, bin_dir, folder, worker, broker=()):
        self.bin, self.folder, self.programs, self.count = bin_dir, folder, [], 0
        self.broker = self.start("broker", [bin_dir / "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*",
                                            "--http", "none", *broker])
        self.clients, self.workers = re.search(r"clients=(\S+) workers=(\S+)", self.broker.stdout.readline().decode()).groups()
        self.worker = self.start("worker", [str(word).format(workers=self.workers) for word in worker])

    def start(self, name, words):
        self.count += 1
        program = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=(self.folder / f"{name}{self.count}.log").open("w"))
        self.programs.append(program)
        atexit.register(program.kill)  # where a test itself fails
        return program

    def gateway(self, *arguments, http="127.0.0.1:*"):
        grpc = [] if "--grpc" in arguments else ["--grpc", "none"]
        return Gateway(self, self.start("gateway", [self.bin / "penstock-gateway", "--broker", self.clients, "--http", http, "--json", *grpc, *arguments]))

    def stop(self):
        """The exit codes, the last started first."""
        codes = []
        for program in reversed(self.programs):
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
            codes.append(program.wait(30 * SLOW))
        return codes


class Gateway:
    def __init__(self, pool, program):
        self.program = program
        said = json.loads(program.stdout.readline())
        self.address, self.grpc = said["http"], said["grpc"]
        self.host, port = self.address.rsplit(":", 1)
        self.port = int(port)
        self.grpc_port = int(self.grpc.rsplit(":", 1)[1]) if self.grpc != "none" else None

    def ask(self, path, body=None, method=None, **headers):
        """body: bytes, or what becomes JSON. Headers: Content_Length=..."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        names = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        request = urllib.request.Request(f"http://{self.address}/{path}", data=data, method=method, headers=names)
        try:
            with urllib.request.urlopen(request, timeout=60 * SLOW) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def infer(self, model, inputs, outputs=None, parameters=None, **headers):
        body = {"inputs": inputs, **({"outputs": outputs} if outputs else {}), **({"parameters": parameters} if parameters else {})}
        return self.ask(f"v2/models/{model}/infer", body, **headers)

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=30 * SLOW)

    def say(self, data, close=True):
        """What comes back to these bytes until the gateway closes (or for a second of silence)."""
        with self.connect() as connection:
            connection.settimeout(30 * SLOW if close else 1)
            connection.sendall(data)
            return receive(connection)


def receive(connection):
    got = b""
    try:
        while piece := connection.recv(65536):
            got += piece
    except (TimeoutError, ConnectionResetError):
        pass
    return got


def status_of(text):
    return int(text.split(b" ", 2)[1]) if text.startswith(b"HTTP/1.1 ") else 0
