#!/usr/bin/env python3
"""Our gateway beside FastAPI, LitServe, BentoML and MLServer before onnxruntime, and a BullMQ pool of onnxruntime-node: requests a second and p99 over HTTP.

    http_peers.py FOLDER BUILD_DIR [--seconds 3] [--rounds 5] [--connections 64] [--servers penstock,fastapi,...] [--models small,mobilenet_v2] [--json]

All of them have the same two cores, with the load tool (build/tests/bench_http) on them too, the same ONNX files and inputs, and one thread of computing for each core.
A round loads one after the other, while the other peers are stopped (some of them poll). The figures are those of the best round of each, because other work on the machine
only ever takes away. Every server's answer is compared with onnxruntime's before it counts.

  small          a perceptron, some 100 us of computing, 1 KiB of float32
  mobilenet_v2   MobileNetV2 1.0/224, 600 KB of float32; penstock-uint8 is ours with the 150 KB of the picture, whose mean and scale the worker applies

Wanted: small 5 times the requests of the best of the others and 0.3 of its p99; mobilenet_v2 1.15 times and 0.8, with uint8 1.5 times.

FOLDER gets what the peers need, from PyPI and npm, once; a peer that cannot be installed or started is left out with a word. redis-server must be installed for BullMQ.
"""
import usage  # noqa: F401
import argparse
import base64
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
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE / "peers"
READY_S = 90
MODELS = {"small": (256,), "mobilenet_v2": (3, 224, 224)}
PACKAGES = {"tools": ["numpy", "onnx", "onnxruntime"], "fastapi": ["fastapi", "uvicorn[standard]", "onnxruntime", "numpy"],
            "mlserver": ["mlserver", "uvloop<0.22", "onnxruntime", "numpy"], "litserve": ["litserve", "onnxruntime", "numpy"], "bentoml": ["bentoml", "onnxruntime", "numpy"]}
WANTED = {("small", "penstock"): (5.0, 0.3), ("mobilenet_v2", "penstock"): (1.15, 0.8), ("mobilenet_v2", "penstock-uint8"): (1.5, None)}


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- what they need ----

def python_of(folder, name):
    """A python that has the packages of that name; None where they cannot be had."""
    place, packages = folder / name, PACKAGES[name]
    python = place / "bin/python"
    if python.exists() and subprocess.run([python, "-c", f"import {', '.join(re.match(r'[a-z]+', p).group() for p in packages)}"],
                                          capture_output=True).returncode == 0:
        return python
    say(f"installing {', '.join(packages)}")
    done = subprocess.run([sys.executable, "-m", "venv", place]).returncode or subprocess.run([python, "-m", "pip", "install", "--quiet", *packages]).returncode
    return None if done else python


def bullmq_of(folder):
    place = folder / "bullmq"
    if not shutil.which("npm") or not shutil.which("redis-server"):
        return None
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "node_modules/ioredis/package.json").exists():
        say("installing bullmq, ioredis, onnxruntime-node")
        (place / "package.json").write_text('{"private": true, "type": "module"}\n')
        skip = {**os.environ, "ONNXRUNTIME_NODE_INSTALL": "skip", "ONNXRUNTIME_NODE_INSTALL_CUDA": "skip"}  # its GPU libraries
        if subprocess.run(["npm", "install", "--silent", "bullmq", "ioredis", "onnxruntime-node"], cwd=place, env=skip).returncode:
            return None
    for file in PEERS.glob("bull_*.mjs"):
        shutil.copy(file, place)
    return place


def make_inputs(python, folder):
    """The ONNX files, an input for each, onnxruntime's answers, and how long it computes."""
    place = folder / "models"
    subprocess.run([python, HERE / "make_models.py", place, *MODELS], check=True, stdout=subprocess.DEVNULL)
    code = """
import sys, time, numpy, onnxruntime
place, name, shape = sys.argv[1], sys.argv[2], [1, *map(int, sys.argv[3].split(","))]
pixels = numpy.random.default_rng(7).integers(0, 256, shape).astype(numpy.uint8)
x = (pixels.astype(numpy.float32) - 127.5) * numpy.float32(1 / 127.5)
options = onnxruntime.SessionOptions(); options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(f"{place}/{name}.onnx", options)
y, times = session.run(None, {"input": x})[0], []
for _ in range(30):
    begin = time.perf_counter(); session.run(None, {"input": x}); times.append(time.perf_counter() - begin)
x.tofile(f"{place}/{name}.x"); y.tofile(f"{place}/{name}.y")
pixels.transpose(0, 2, 3, 1).tofile(f"{place}/{name}.u8") if len(shape) == 4 else None
print(sorted(times)[15] * 1e6)
"""
    times = {}
    for name, shape in MODELS.items():
        times[name] = float(subprocess.run([python, "-c", code, place, name, ",".join(map(str, shape))], check=True, capture_output=True, text=True).stdout)
    return place, times


# ---- servers ----

def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """name, port, path, the file of a body, the bytes of its JSON (0: no OIP), how an answer is read, and its programs as far as they are stopped between loads."""

    def __init__(self, name, port, path, body, header_bytes, read, programs=()):
        self.name, self.port, self.path, self.body, self.header_bytes, self.read, self.programs = name, port, path, body, header_bytes, read, programs

    def signal(self, signum):
        for program in self.programs:
            try:
                os.killpg(program.pid, signum)
            except ProcessLookupError:
                pass

    def ask(self):
        headers = {"Inference-Header-Content-Length": str(self.header_bytes)} if self.header_bytes else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.path}", data=self.body.read_bytes(), headers={"Content-Type": "", **headers})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return self.read(answer.read(), answer.headers)

    def is_right(self, wanted):
        """Waits until it answers at all; then its numbers are those of onnxruntime, or not."""
        end = time.monotonic() + READY_S
        while True:
            try:
                found = self.ask()
                break
            except (OSError, urllib.error.URLError) as error:
                if time.monotonic() > end:
                    say(f"{self.name} is left out: no answer in {READY_S} s ({error})")
                    return False
                time.sleep(0.2)
        count = len(wanted) // 4
        a, b = (struct.unpack(f"<{count}f", data) if len(data) == len(wanted) else () for data in (wanted, found))
        largest = max(map(abs, a))
        good = len(a) == len(b) and all(abs(x - y) <= 0.01 * largest for x, y in zip(a, b))
        if not good:
            say(f"{self.name} is left out: its answer is not onnxruntime's: {b[:3]}, not {a[:3]}")
        return good

    def load(self, build, connections, seconds):
        self.signal(signal.SIGCONT)
        try:
            return self.load_running(build, connections, seconds)
        finally:
            self.signal(signal.SIGSTOP)

    def load_running(self, build, connections, seconds):
        words = [build / "tests/bench_http", "127.0.0.1", self.port, self.path, connections, seconds, self.header_bytes, self.body]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds + 60)
        told = {key: float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", done.stdout)}
        if done.returncode or told.get("errors") or not told.get("requests"):
            say(f"{self.name}: {done.stderr.strip()[:200]} {done.stdout.strip()}")
            return None
        return {"requests_per_s": told["requests"] / told["seconds"], "p50_ms": told["p50_us"] / 1000, "p99_ms": told["p99_us"] / 1000}


def launch(stack, log, words, cwd=None, **more):
    """In a process group of its own, which ends with the stack."""
    program = subprocess.Popen([str(word) for word in words], cwd=cwd, env={**os.environ, **{key: str(value) for key, value in more.items()}}, stdout=log,
                               stderr=subprocess.STDOUT, start_new_session=True)

    def end():
        for signum, wait in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            try:
                os.killpg(program.pid, signum)
                os.killpg(program.pid, signal.SIGCONT)
                program.wait(wait)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
    stack.callback(end)
    return program


def raw(data, headers):
    return data


def peers(stack, folder, work, name, place, log, only):
    """Those that could be installed."""
    shape, model, found = ",".join(map(str, MODELS[name])), place / f"{name}.onnx", []
    common = {"PEER_SHAPE": shape, "PEER_MODEL": model, "OMP_NUM_THREADS": 1}
    body = place / f"{name}.x"
    if "fastapi" in only and (python := python_of(folder, "fastapi")):
        port = free_port()
        program = launch(stack, log, [python, "-m", "uvicorn", "fastapi_app:app", "--host", "127.0.0.1", "--port", port, "--workers", 2, "--no-access-log", "--log-level",
                                      "warning"], cwd=PEERS, **common)
        found.append(Server("fastapi", port, "/infer", body, 0, raw, [program]))
    if "litserve" in only and (python := python_of(folder, "litserve")):
        port, packed = free_port(), work / f"{name}.json"
        packed.write_text(json.dumps({"x": base64.b64encode(body.read_bytes()).decode()}))
        program = launch(stack, log, [python, PEERS / "litserve_app.py"], cwd=work, PEER_PORT=port, **common)
        found.append(Server("litserve", port, "/infer", packed, 0, lambda data, _: base64.b64decode(json.loads(data)["y"]), [program]))
    if "bentoml" in only and (python := python_of(folder, "bentoml")):
        port = free_port()
        program = launch(stack, log, [python.parent / "bentoml", "serve", "bento_app:Peer", "--host", "127.0.0.1", "--port", port], cwd=PEERS, BENTOML_HOME=work / "bento",
                         BENTOML_DO_NOT_TRACK=1, PYTHONDONTWRITEBYTECODE=1, **common)
        found.append(Server("bentoml", port, "/infer", body, 0, raw, [program]))
    if "mlserver" in only and (python := python_of(folder, "mlserver")):
        ports, packed = [free_port() for _ in range(3)], work / f"{name}.oip.json"
        packed.write_text(json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "parameters": {"content_type": "base64"},
                                                  "data": [base64.b64encode(body.read_bytes()).decode()]}]}))
        home = work / f"mlserver_{name}"
        home.mkdir()
        (home / "model-settings.json").write_text(json.dumps({"name": "peer", "implementation": "mlserver_app.Peer"}))
        (home / "settings.json").write_text(json.dumps({"debug": False, "parallel_workers": 2, "host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1],
                                                        "metrics_port": ports[2]}))
        program = launch(stack, log, [python.parent / "mlserver", "start", home], cwd=home, PYTHONPATH=PEERS, PYTHONDONTWRITEBYTECODE=1, **common)
        found.append(Server("mlserver", ports[0], "/v2/models/peer/infer", packed, 0,
                            lambda data, _: base64.b64decode(json.loads(data)["outputs"][0]["data"][0]), [program]))
    if "bullmq" in only and (bull := bullmq_of(folder)):
        port, redis = free_port(), free_port()
        programs = [launch(stack, log, ["redis-server", "--port", redis, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], cwd=work)]
        for script in ("bull_worker.mjs", "bull_worker.mjs", "bull_front.mjs"):
            programs.append(launch(stack, log, ["node", script], cwd=bull, PEER_PORT=port, PEER_REDIS=redis, **common))
        found.append(Server("bullmq", port, "/infer", body, 0, raw, programs))
    missing = set(only) - {server.name for server in found} - {"penstock", "penstock-uint8"}
    for one in sorted(missing):
        say(f"{one} is left out: it could not be installed")
    return found


# ---- ours ----

def oip_body(file, data, shape, datatype):
    """JSON and the bytes behind it; returns the JSON's length."""
    head = json.dumps({"inputs": [{"name": "input", "shape": [1, *shape], "datatype": datatype, "parameters": {"binary_data_size": len(data)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    file.write_bytes(head + data)
    return len(head)


def oip_answer(data, headers):
    return data[int(headers["Inference-Header-Content-Length"]):]


def save_model(models, name, onnx, **config):
    """Without the cache: else equal requests that are under way would be computed once."""
    (models / name / "1").mkdir(parents=True)
    shutil.copy(onnx, models / name / "1/model.onnx")
    (models / name / "config.json").write_text(json.dumps({"platform": "onnx", "response_cache": {"enable": False}, "dynamic_batching": {"max_queue_delay_microseconds": 0}, **config}))


def ours(stack, build, work, name, place, log, only):
    shape, models, found = MODELS[name], work / "models", []
    image = len(shape) == 3
    save_model(models, name, place / f"{name}.onnx", max_batch_size=4 if image else 32)
    if image:
        rule = {"input": "input", "layout": "NCHW", "channels": 3, "height": 224, "width": 224, "mean": [127.5] * 3, "scale": [1 / 127.5] * 3}
        save_model(models, "uint8", place / f"{name}.onnx", max_batch_size=4, input={"preprocess": rule})
    broker = f"ipc://{work}/c", f"ipc://{work}/w"
    launch(stack, log, [build / "bin/penstock-broker", "--listen-clients", broker[0], "--listen-workers", broker[1], "--http", "none", "--cache", "none"])
    launch(stack, log, [build / "bin/penstock-worker", "--broker", broker[1], "--models", models, "--backend", "xnnpack", "--slots", 2 if image else 1, "--threads", 1])
    port = free_port()
    launch(stack, log, [build / "bin/penstock-gateway", "--broker", broker[0], "--http", f"127.0.0.1:{port}", "--grpc", "none"])
    for server, model, file, kind, dims in (("penstock", name, f"{name}.x", "FP32", shape), ("penstock-uint8", "uint8", f"{name}.u8", "UINT8", (224, 224, 3))):
        if server in only and (image or server == "penstock"):
            length = oip_body(work / f"{server}.body", (place / file).read_bytes(), dims, kind)
            found.append(Server(server, port, f"/v2/models/{model}/infer", work / f"{server}.body", length, oip_answer))
    return found


# ---- the run ----

def measure(words, name, place):
    """The best round of each server."""
    rounds = {}
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder, open(words.folder / f"{name}.log", "w") as log:
        work = Path(folder)
        servers = ours(stack, words.build, work, name, place, log, words.servers) + peers(stack, words.folder, work, name, place, log, words.servers)
        wanted = (place / f"{name}.y").read_bytes()
        servers = [server for server in servers if server.is_right(wanted)]
        for server in servers:
            server.signal(signal.SIGSTOP)
        for server in servers:
            server.load(words.build, words.connections, 1)  # warm
        for _ in range(words.rounds):
            for server in servers:
                told = server.load(words.build, words.connections, words.seconds)
                rounds.setdefault(server.name, []).extend([told] if told else [])
        stack.close()
    return {server: {key: (max if key == "requests_per_s" else min)(one[key] for one in seen) for key in seen[0]} for server, seen in rounds.items() if seen}


def judge(name, seen):
    """Of ours: the ratios to the best of the others."""
    others = {server: one for server, one in seen.items() if not server.startswith("penstock")}
    if not others:
        return {}
    best = max(others, key=lambda server: others[server]["requests_per_s"])
    return {server: {"beside": best, "requests": one["requests_per_s"] / others[best]["requests_per_s"], "p99": one["p99_ms"] / others[best]["p99_ms"]}
            for server, one in seen.items() if server.startswith("penstock")}


def table(name, seen, verdict, compute_us, connections):
    print(f"\n**{name}**, {connections} connections, {compute_us:.0f} us of computing in onnxruntime\n")
    print("| server | requests/s | p50 ms | p99 ms |\n|---|---:|---:|---:|")
    for server, one in sorted(seen.items(), key=lambda pair: -pair[1]["requests_per_s"]):
        print(f"| {server} | {one['requests_per_s']:.0f} | {one['p50_ms']:.2f} | {one['p99_ms']:.2f} |")
    print()
    for server, ratio in verdict.items():
        most, tail = WANTED.get((name, server), (None, None))
        met = most and ratio["requests"] >= most and (tail is None or ratio["p99"] <= tail)
        print(f"{server}: {ratio['requests']:.2f} times the requests of {ratio['beside']} (at least {most}), {ratio['p99']:.2f} of its p99"
              f"{f' (at most {tail})' if tail else ''}: {'met' if met else 'missed'}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--servers", default="penstock,penstock-uint8,fastapi,litserve,bentoml,mlserver,bullmq")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    words.folder, words.build, words.servers = words.folder.resolve(), words.build.resolve(), words.servers.split(",")
    unknown = set(words.models.split(",")) - set(MODELS)
    if unknown:
        parser.error(f"--models: there is no {sorted(unknown)[0]}; there are {', '.join(MODELS)}")
    words.folder.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    if not (words.build / "tests/bench_http").exists():
        sys.exit(f"{words.build}/tests/bench_http is not built.")
    python = python_of(words.folder, "tools")
    if not python:
        sys.exit("numpy, onnx and onnxruntime could not be installed: no model, nothing to measure.")
    place, times = make_inputs(python, words.folder)
    found = {}
    for name in words.models.split(","):
        seen = measure(words, name, place)
        verdict = judge(name, seen)
        found[name] = {"compute_us": times[name], "servers": seen, "penstock_beside_best": verdict}
        if not words.json:
            table(name, seen, verdict, times[name], words.connections)
    if words.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
