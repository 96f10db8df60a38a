#!/usr/bin/env python3
"""How long a broker takes to listen and a worker with the digits model to be ready; what both use when idle.

    startup.py BUILD_DIR [--repeats 11] [--idle 10]

Times run from fork to the log line evt=listening or evt=ready; idle figures are over --idle seconds, in percent of a core. Standard library only.
"""
import usage  # noqa: F401
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pool import ANY_PORT, ROOT, option  # noqa: E402


def start(command, event):
    """(process, milliseconds until its log has the event, the log line)."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, bufsize=1)
    for line in process.stderr:
        if f"evt={event}" in line:
            return process, (time.perf_counter() - begin) * 1e3, line
    sys.exit(f"{command[0]} ended before {event}")


def stop(process):
    process.terminate()
    process.wait(10)
    process.stderr.close()


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(process):
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, repeats, idle_s = Path(sys.argv[1]), option("--repeats", 11), option("--idle", 10)
    broker_ms, worker_ms = [], []
    for last in [False] * (repeats - 1) + [True]:
        broker, ms, line = start([build / "bin/penstock-broker", "--listen-clients", ANY_PORT, "--listen-workers", ANY_PORT], "listening")
        broker_ms.append(ms)
        endpoint = re.search(r"\bworkers=(\S+)", line).group(1)
        worker, ms, _ = start([build / "bin/penstock-worker", "--broker", endpoint, "--models", ROOT / "deploy/models", "--backend", "xnnpack",
                               "--slots", "1", "--threads", "1"], "ready")
        worker_ms.append(ms)
        if last:
            before = cpu_seconds(broker), cpu_seconds(worker)
            time.sleep(idle_s)
            used = [(cpu_seconds(p) - b) / idle_s * 100 for p, b in zip((broker, worker), before)]
            print(f"broker idle      {rss_mb(broker):6.1f} MB RSS, {used[0]:.2f} % of a core")
            print(f"worker idle      {rss_mb(worker):6.1f} MB RSS, {used[1]:.2f} % of a core")
        stop(worker)
        stop(broker)
    for name, values in [("broker listening", broker_ms), ("worker ready", worker_ms)]:
        values.sort()
        print(f"{name:16} {statistics.median(values):6.1f} ms median of {repeats}, {values[0]:.1f} to {values[-1]:.1f}")


if __name__ == "__main__":
    main()
