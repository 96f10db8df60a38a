"""What the benches that start a broker and workers share: programs that say when they are up, `penstock load`, options. Standard library only."""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ANY_PORT = "tcp://127.0.0.1:*"
WAIT_S = 15


def start(prefix, command, wait_for):
    """(process, its output so far) once the output has the text."""
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen(prefix + [str(word) for word in command], stdout=log, stderr=subprocess.STDOUT)
    for _ in range(WAIT_S * 100):
        log.seek(0)
        text = log.read()
        if wait_for in text:
            return process, text
        try:
            process.wait(0.01)
            break
        except subprocess.TimeoutExpired:
            pass
    sys.exit(f"{command[0]} did not say '{wait_for}':\n{text}")


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start_broker(stack, build, *flags):
    """Addresses of a broker without cache: {"clients", "workers", "http"}; it ends with the stack."""
    broker, log = start([], [build / "bin/penstock-broker", "--listen-clients", ANY_PORT, "--listen-workers", ANY_PORT, "--cache", "none", *flags],
                        "evt=listening")
    stack.callback(stop, broker)
    return dict(re.findall(r"\b(clients|workers|http)=(\S+)", log))


def start_worker(stack, build, workers, models, backend, *flags):
    """A worker of one slot and one thread; it ends with the stack."""
    worker, _ = start([], [build / "bin/penstock-worker", "--broker", workers, "--models", models, "--backend", backend, "--slots", "1", "--threads", "1",
                           *flags], "evt=welcome")
    stack.callback(stop, worker)


def load(build, clients, model, seconds, *flags):
    """`penstock load` under way, for answer()."""
    command = [build / "bin/penstock", "load", "--broker", clients, "--model", model, "--duration", f"{seconds}s", "--no-cache", "--json", "--deadline", 0, *flags]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process):
    out, err = process.communicate(timeout=180)
    if process.returncode != 0:
        sys.exit(f"penstock load failed: {err}{out}")
    return json.loads(out)


def npy(path, shape, rows):
    """An .npy file of uint8, its content the parts that `rows` gives."""
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode().ljust(117) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
        file.writelines(rows)
    return path


def busy():
    """A sentence when others use the machine, to be asked before a bench begins: tails and latencies are theirs then; empty when it is quiet."""
    others = os.getloadavg()[0]
    return f"the machine was busy (load average {others:.1f} at the start): this is no measurement" if others > os.cpu_count() / 2 else ""


def option(name, default):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default
