#!/usr/bin/env python3
"""How soon a supervised worker is back after a crash in a kernel, under load: `penstock-worker --supervise`, its engine process ended by SIGSEGV.

    crashes.py BUILD_DIR [--crashes 20]

The signal goes to the process while its slot computes: what a fault in a kernel does. Timed is from the signal to the broker's welcome of the new process, whose
models are warm by then, while a load of digits jobs waits or runs. Standard library only.
"""
import usage  # noqa: F401
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from failover import quantile  # noqa: E402
from pool import ANY_PORT, ROOT, option, start  # noqa: E402

GOAL_MS = 1000


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition, what, timeout_s=30):
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"waited {timeout_s} s for {what}")
        time.sleep(0.001)


def crash(build, workers, log):
    """Milliseconds from the signal to the welcome of the next process. A supervisor of its own each time: one whose children die young again and again waits longer."""
    def welcomes():
        return len(re.findall(r"evt=welcome", log.read_text(errors="replace")))
    with open(log, "w") as file:
        supervisor = subprocess.Popen([build / "bin/penstock-worker", "--supervise", "--broker", workers, "--models", ROOT / "deploy/models", "--backend", "xnnpack",
                                       "--slots", "1", "--threads", "1"], stdout=file, stderr=file)
    try:
        wait_for(welcomes, "the worker")
        time.sleep(0.2)  # it shall have work
        begin = time.monotonic()
        os.kill(children(supervisor.pid)[0], signal.SIGSEGV)
        wait_for(lambda: welcomes() > 1, "the worker to be back")
        return (time.monotonic() - begin) * 1000
    finally:
        supervisor.terminate()
        supervisor.wait(30)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, count = Path(sys.argv[1]), option("--crashes", 20)
    with tempfile.TemporaryDirectory() as folder:
        broker, said = start([], [build / "bin/penstock-broker", "--listen-clients", ANY_PORT, "--listen-workers", ANY_PORT, "--cache", "none", "--http", "none",
                                  "--max-attempts", "100"], "evt=listening")
        clients, workers = (re.search(rf"\b{name}=(\S+)", said).group(1) for name in ("clients", "workers"))
        load = subprocess.Popen([build / "bin/penstock", "load", "--broker", clients, "--model", "digits", "--no-cache", "--concurrency", "8", "--deadline", "0",
                                 "--duration", "1h"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            times = [crash(build, workers, Path(folder) / "worker.log") for _ in range(count)]
        finally:
            for process in (load, broker):
                process.kill()
                process.wait()
    print(f"crashes {count} by SIGSEGV under load: back and warm after p50 {quantile(times, 0.5):.0f}, p99 {quantile(times, 0.99):.0f}, max {max(times):.0f} ms; "
          f"target {GOAL_MS} ms: {'met' if max(times) <= GOAL_MS else 'missed'}")


if __name__ == "__main__":
    main()
