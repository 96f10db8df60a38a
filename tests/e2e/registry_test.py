#!/usr/bin/env python3
"""Models that travel, with real processes: a folder, a web server with and without ranges, kills, forgeries, stores with a bound, many processes at once,
and workers that serve from a registry.

    registry_test.py BIN_DIR SOURCE_DIR [--copies N BYTES]   # the figure: N processes with stores of their own, a model of BYTES

The last line is `N passed, N failed, N skipped`.
"""
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from registry_server import Server

BIN, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
DIGITS = SOURCE / "deploy/models/digits"
sys.path.insert(0, str(SOURCE / "tests/support"))
from ports import free_ports  # noqa: E402
SAMPLE = DIGITS / "samples/00_zero.png"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
PART = 8 << 20
passed = failed = 0
running = []


def check(condition, what, detail=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what + ("" if condition else f"\n{detail}"), flush=True)


def model(*words, code=0, env=None):
    ran = subprocess.run([BIN / "penstock", "model", *map(str, words)], capture_output=True, text=True, timeout=120 * SLOW, check=False,
                         env={**os.environ, **(env or {})})
    if ran.returncode != code:
        check(False, f"penstock model {words[0]} ends with {code}", f"{ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def pull(*words, code=0):
    text = model("pull", *words, "--json", code=code)
    return json.loads(text)["models"][0] if code == 0 else text


def make(folder, version, size, seed=1):
    """A model's folder whose file is large; no engine reads it."""
    place = folder / str(version)
    place.mkdir(parents=True, exist_ok=True)
    (place / "model.onnx").write_bytes(random.Random(seed).randbytes(size))
    (folder / "config.json").write_text('{"max_batch_size": 4}')
    return folder


def blob(registry, path):
    return registry / "blobs/sha256" / hashlib.sha256(path.read_bytes()).hexdigest()


def a_folder(work):
    registry, own = work / "folder", ["--exchange", "none"]
    first = json.loads(model("push", DIGITS, "--to", registry, "--label", "stable", "--json"))
    check(first["model"] == "digits" and first["version"] == 1 and first["sent_bytes"] == first["bytes"], "push says what it sent", first)
    again = json.loads(model("push", DIGITS, "--to", registry, "--json"))
    check(again["digest"] == first["digest"] and again["sent_bytes"] == 0, "the same files are the same version, and nothing is sent again", again)
    two = work / "two/digits"
    shutil.copytree(DIGITS / "1", two / "2")
    shutil.copy(DIGITS / "config.json", two / "config.json")
    (two / "2/labels.txt").write_text("of version two\n")
    model("push", two, "--to", registry)
    got = pull("digits", "--registry", registry, "--store", work / "s", "--to", work / "out", *own)
    check(got["version"] == 2 and (work / "out/digits/2/labels.txt").read_text() == "of version two\n", "a name alone is the highest version", got)
    check((work / "out/digits/2/config.json").read_bytes() == (two / "config.json").read_bytes(), "the model's config.json comes with the version")
    got = pull("digits:stable", "--registry", registry, "--store", work / "s", *own)
    check(got["version"] == 1 and got["store_bytes"] > 0, "a label is another version; what both have is not fetched twice", got)
    model("label", "digits", "stable", "2", "--remote", "--registry", registry)
    check(pull("digits:stable", "--registry", registry, "--store", work / "s", *own)["version"] == 2, "a label moves")
    got = pull(f"digits@sha256:{first['digest']}", "--registry", registry, "--store", work / "s", *own)
    check(got["version"] == 1, "a digest names one content for ever")
    listed = json.loads(model("list", "--remote", "--registry", registry, "--json"))["models"][0]
    check([v["version"] for v in listed["versions"]] == [1, 2] and listed["labels"][0]["version"] == 2, "list --remote", listed)
    check("digits@1" in model("list", "--store", work / "s"), "list shows the store")
    (two / "2/labels.txt").write_text("other\n")
    text = model("push", two, "--to", registry, code=2)
    check("with other files" in text, "a version does not change its files", text)
    model("push", two, "--to", registry, "--replace")
    model("push", two, "--to", registry, "--as", "numbers@7")
    check(pull("numbers@7", "--registry", registry, "--store", work / "s", *own)["version"] == 7, "--as gives another name and version")
    os.symlink("/etc/passwd", two / "2/leak.txt")
    check("link out of" in model("push", two, "--to", registry, "--as", "leak", code=2), "a link out of the model does not travel")
    for words in (["digits@0"], ["../digits"], ["digits:1x:"], ["digits@9"], ["nothing"]):
        text = model("pull", *words, "--registry", registry, "--store", work / "s", code=1 if words[0] in ("digits@9", "nothing") else 2)
        check("penstock model list --remote" in text or "names no model" in text, f"{words[0]} is refused with a sentence", text)
    model("pull", "digits", "--registry", "ftp://x/y", "--store", work / "s", code=2)


def the_web(work):
    registry = work / "web"
    folder = make(work / "big", 1, 2 * PART + 12345)
    model("push", folder, "--to", registry)
    large = blob(registry, folder / "1/model.onnx")
    for ranges in (True, False):
        server = Server(registry, ranges)
        server.break_after = 1 << 20
        got = pull("big", "--registry", server.url, "--store", work / f"web-{ranges}", "--exchange", "none")
        check(got["registry_bytes"] == got["bytes"], f"a web server {'with' if ranges else 'without'} ranges; a connection that breaks is taken up again", got)
        asked = [r for _, path, r in server.requests if path.endswith(large.name)]
        check(len([r for r in asked if r and not r.startswith("bytes=0-")]) >= 2 or not ranges, "parts come by ranges", asked)
        listed = model("list", "--remote", "--registry", server.url)
        check("big@1" in listed, "list --remote of a web server", listed)
        check("only read" in model("push", folder, "--to", server.url, code=1), "a web server is only read")
        server.close()
    got = pull("big", "--registry", server.url, "--store", work / "web-False", "--exchange", "none")
    check(not got["registry_reached"] and got["store_bytes"] > 0, "a registry that is away: what it said last", got)


def killed(work):
    server = Server(work / "web")
    server.pause = 0.03
    store = work / "killed"
    words = [BIN / "penstock", "model", "pull", "big", "--registry", server.url, "--store", store, "--exchange", "none", "--transfers", "2"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30 * SLOW
    while time.monotonic() < end and server.sent_bytes() < PART + PART // 4:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    check(not list((store / "models").iterdir()), "a pull that was killed leaves no model")
    server.pause = 0
    got = pull("big", "--registry", server.url, "--store", store, "--exchange", "none")
    check(0 < got["registry_bytes"] <= got["bytes"] - PART, "the next one goes on where it ended", got)
    server.close()


def forged(work):
    registry = work / "web"
    server = Server(registry)
    large = blob(registry, work / "big/1/model.onnx")
    path = "/blobs/sha256/" + large.name
    content = bytearray(large.read_bytes())
    content[PART + 5] ^= 1
    for name, other in {"one bit is another": bytes(content), "it ends early": bytes(content[:-7]), "it is empty": b"\0"}.items():
        server.forged = {path: other}
        text = model("pull", "big", "--registry", server.url, "--store", work / "forged", "--exchange", "none", code=1)
        check("CORRUPT" in text and not list((work / "forged/models").iterdir()), f"a content is refused of which {name}", text)
    server.forged = {}
    check(pull("big", "--registry", server.url, "--store", work / "forged", "--exchange", "none")["bytes"] > 0, "the right content is taken afterwards")
    digest = (registry / "models/big/versions/1").read_text().strip().split(":")[1]
    server.forged = {"/blobs/sha256/" + digest: (registry / "blobs/sha256" / digest).read_bytes().replace(b"config.json", b"../../evil1")}
    text = model("pull", "big", "--registry", server.url, "--store", work / "forged2", "--exchange", "none", code=1)
    check("CORRUPT" in text, "a manifest that was changed is refused", text)
    evil = server.forged["/blobs/sha256/" + digest]
    name = hashlib.sha256(evil).hexdigest()
    (registry / "blobs/sha256" / name).write_bytes(evil)
    (registry / "models/big/versions/66").write_text(f"sha256:{name}\n")
    text = model("pull", "big@66", "--registry", registry, "--store", work / "forged2", "--exchange", "none", code=1)
    check("no path for a file" in text, "a manifest that leads out of the folder is refused, whatever its digest", text)
    (registry / "models/big/versions/66").write_text(f"sha256:{digest}\n")
    text = model("pull", "big@66", "--registry", registry, "--store", work / "forged2", "--exchange", "none", code=1)
    check("where that of" in text, "another version's manifest is refused", text)
    (registry / "models/big/versions/66").unlink()
    kept = next((work / "forged/models").glob("*/model.onnx"))
    kept.chmod(0o644)
    with open(kept, "r+b") as out:
        out.write(b"rotten")
    got = pull("big", "--registry", server.url, "--store", work / "forged", "--exchange", "none")
    check(got["registry_bytes"] > PART, "what was changed in the store is fetched again", got)
    server.close()


def bounded(work):
    registry = work / "bound"
    for number in range(4):
        model("push", make(work / f"m{number}", 1, 1 << 20, seed=number), "--to", registry)
    words = ["--registry", registry, "--store", work / "bounded", "--store-limit", "3300KB", "--exchange", "none"]
    for name in ("m0", "m1", "m2", "m0", "m3"):
        pull(name, *words)
        time.sleep(0.02)
    text = model("list", "--store", work / "bounded")
    check("m1@" not in text and all(f"m{n}@" in text for n in (0, 2, 3)), "the model used least recently goes", text)
    size = sum(path.stat().st_size for path in (work / "bounded/blobs/sha256").iterdir())
    check(size <= 3300000, "the store keeps its bound", size)
    text = model("pull", "m1", "--registry", registry, "--store", work / "bounded", "--store-limit", "1MB", code=1)
    check("raise --store-limit" in text, "a model larger than the bound is refused", text)


def many(work, count, size):
    """Stores of their own, one host: who comes second takes it from the first one's store."""
    registry, exchange = work / f"many{count}", work / "exchange"
    folder = make(work / "many", 1, size, seed=9)
    model("push", folder, "--to", registry)
    server = Server(registry)
    began = time.monotonic()
    processes = [subprocess.Popen([BIN / "penstock", "model", "pull", "many", "--registry", server.url, "--store", work / f"many-{n}",
                                   "--exchange", exchange], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for n in range(count)]
    codes = [process.wait(300 * SLOW) for process in processes]
    took = time.monotonic() - began
    check(not any(codes), f"{count} processes with stores of their own pull a model", [p.stderr.read() for p in processes if p.returncode][:3])
    copies = server.sent.get("/blobs/sha256/" + blob(registry, folder / "1/model.onnx").name, 0) / size
    print(f"{count} processes, {size / 1e6:.0f} MB: {copies:.2f} copies left the registry, {took:.1f} s")
    check(1 <= copies <= 3, "at most three copies leave the registry", copies)
    want = hashlib.sha256((folder / "1/model.onnx").read_bytes()).hexdigest()
    last = next((work / f"many-{count - 1}/models").glob("*/model.onnx"))
    check(hashlib.sha256(last.read_bytes()).hexdigest() == want, "each has the right content")
    server.sent = {}
    processes = [subprocess.Popen([BIN / "penstock", "model", "pull", "many", "--registry", server.url, "--store", work / f"one-{count}",
                                   "--exchange", "none"], stdout=subprocess.DEVNULL) for n in range(min(count, 20))]
    check(not any(process.wait(120 * SLOW) for process in processes) and server.sent_bytes() < 1.5 * size + 100000,
          "processes that share a store fetch it once", server.sent_bytes() / size)
    exchange.chmod(0o755)
    text = model("pull", "many", "--registry", server.url, "--store", work / "open", "--exchange", exchange)
    check("--exchange is not used" in text, "an exchange that others may enter is not used", text)
    server.close()


def start(log, program, *words, until):
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen([BIN / program, *map(str, words)], stdout=out, stderr=subprocess.STDOUT)
    running.append(process)
    return process, wait_log(log, until, process)


def wait_log(log, until, process=None, what=""):
    end = time.monotonic() + 60 * SLOW
    ended = False
    while time.monotonic() < end and not ended:
        ended = process and process.poll() is not None
        found = re.search(until, log.read_text(), re.S)
        if found:
            return found
        time.sleep(0.02)
    raise SystemExit(f"no {until} in {log} {what}:\n{log.read_text()}")


def worker(work, name, broker, *words):
    return start(work / f"{name}.log", "penstock-worker", "--broker", broker, "--backend", "reference", "--measure", "off", "--exchange", "none",
                 "--store", work / f"{name}-store", *words, until=r"evt=(welcome|no_models|start_failed)")


def stop(*processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(30 * SLOW)


def workers(work):
    registry = work / "pool"
    model("push", DIGITS, "--to", registry, "--label", "stable")
    broker, found = start(work / "broker.log", "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*",
                          "--http", "none", until=r"clients=(\S+) workers=(\S+)")
    one, _ = worker(work, "follows", found[2], "--models", "registry:digits:stable", "--registry", registry, "--watch", "100ms")
    submit = [BIN / "penstock", "submit", "digits", SAMPLE, "--broker", found[1], "--no-cache", "--timeout", "20s"]
    check(subprocess.run(submit, capture_output=True, check=False).returncode == 0, "a worker serves a model of a registry")
    two = work / "next/digits"
    shutil.copytree(DIGITS / "1", two / "2")
    shutil.copy(DIGITS / "config.json", two / "config.json")
    model("push", two, "--to", registry, "--label", "stable")
    wait_log(work / "follows.log", r"evt=model_ready model=digits version=2.*evt=model_unloaded model=digits version=1")
    check(subprocess.run(submit, capture_output=True, check=False).returncode == 0, "a label that moves takes the worker along")
    bad = work / "bad/digits"
    (bad / "3").mkdir(parents=True)
    (bad / "3/model.onnx").write_bytes(b"no model")
    model("push", bad, "--to", registry, "--label", "stable")
    wait_log(work / "follows.log", r"evt=model_failed model=digits version=3")
    check(subprocess.run(submit, capture_output=True, check=False).returncode == 0, "a version that cannot be loaded leaves the old one serving")
    model("push", make(work / "wide", 1, 1 << 20), "--to", registry)
    text = model("pull", "wide", "--registry", registry, "--store", work / "follows-store", "--store-limit", "1100KB", "--exchange", "none", code=1)
    check("are in use" in text and subprocess.run(submit, capture_output=True, check=False).returncode == 0, "what a worker uses does not make room", text)
    stop(one)
    check(not list((work / "follows-store/views").iterdir()), "a worker that ends takes its folder of links along")
    shutil.move(registry, work / "away")
    three, _ = worker(work, "nothing", found[2], "--models", "registry:digits@2", "--registry", registry)
    check(three.wait(20 * SLOW) == 3 and "evt=model_failed" in (work / "nothing.log").read_text(), "no registry and no store: the worker says so")
    shutil.move(work / "away", registry)
    four, _ = worker(work, "pinned", found[2], "--models", "registry:digits@1,digits@2", "--registry", registry)
    both = subprocess.run([BIN / "penstock", "models", "--json", "--broker", found[1]], capture_output=True, text=True, check=False).stdout
    served = sorted(m["version"] for m in json.loads(both)["models"] if m["offers"])
    check(served == [1, 2], "versions that are named are served side by side", both)
    stop(four, broker)


def mirror(work):
    """Hosts of their own, as far as one machine has them: no exchange, and workers that pass contents on."""
    registry = work / "mirrored"
    folder = make(work / "passed", 1, 3 * PART, seed=5)
    shutil.copytree(DIGITS, work / "passed-digits")
    shutil.copy(folder / "1/model.onnx", work / "passed-digits/1/weights.bin")
    model("push", work / "passed-digits", "--to", registry, "--as", "digits")
    size = 3 * PART
    server = Server(registry)
    ports = free_ports(4)
    peers = ",".join(f"127.0.0.1:{port}" for port in ports)
    logs = [work / f"mirror-{n}.log" for n in range(4)]
    for n, port in enumerate(ports):
        with open(logs[n], "w", encoding="utf-8") as out:
            running.append(subprocess.Popen([BIN / "penstock-worker", "--broker", "tcp://127.0.0.1:1", "--backend", "reference", "--measure", "off", "--models",
                                             "registry:digits", "--registry", server.url, "--store", work / f"mirror-{n}", "--exchange", "none",
                                             "--share-models", f"127.0.0.1:{port}", "--model-peers", peers], stdout=out, stderr=subprocess.STDOUT))
    for log in logs:
        wait_log(log, "evt=ready")
    large = "/blobs/sha256/" + hashlib.sha256((folder / "1/model.onnx").read_bytes()).hexdigest()
    copies = server.sent.get(large, 0) / size
    check(copies <= 2.01, "four workers with stores of their own: most of them have it from another one", copies)
    handed = sum(int(re.search(r"workers_bytes=(\d+)", log.read_text())[1]) for log in logs)
    check(handed >= 2 * size, "workers pass contents on", handed)
    server.close()
    got = pull("digits", "--registry", registry, "--store", work / "asks", "--exchange", "none", "--model-peers", peers)
    check(got["workers_bytes"] >= size, "a pull asks workers before the registry", got)
    lying = Server(registry)
    (registry / "peer").write_text("0123456789abcdef0123456789abcdef\n")
    lying.forged = {large: b"x" * size}
    port = lying.url.rsplit(":", 1)[1]
    got = pull("digits", "--registry", registry, "--store", work / "lied", "--exchange", "none", "--model-peers", f"127.0.0.1:{port}")
    check(got["registry_bytes"] >= size, "a worker that lies is left for the registry", got)
    lying.close()
    stop(*[process for process in running[-4:]])


def main():
    with tempfile.TemporaryDirectory(prefix="penstock-registry-") as folder:
        work = Path(folder)
        try:
            if "--copies" in sys.argv:
                at = sys.argv.index("--copies")
                many(work, int(sys.argv[at + 1]), int(float(sys.argv[at + 2])))
            else:
                for part in (a_folder, the_web, killed, forged, bounded, workers, mirror):
                    began = time.monotonic()
                    part(work)
                    print(f"{part.__name__}: {time.monotonic() - began:.1f} s")
                many(work, 12, 2 * PART + 1)
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
