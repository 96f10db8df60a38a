#!/usr/bin/env python3
"""What being watched costs a loaded pool: jobs/s and p99 with nobody asking, with /metrics asked for every second, ten times a second, and with traces kept of
every job. One pool for each round and case, the cases in turn, medians.

    scraping.py BUILD_DIR [--seconds 4] [--repeats 3]

Window 16, cached answers, so that the broker is what is measured. Standard library only.
"""
import usage  # noqa: F401
import json
import re
import statistics
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pool import ANY_PORT, ROOT, start  # noqa: E402

CASES = [("nobody asks", None, []), ("/metrics every second", 1.0, []), ("/metrics every 0.1 s", 0.1, []), ("every job traced", None, ["--trace-sample", "1"])]


def scrape(address, every, stop, times):
    while not stop.wait(every):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            times.append(len(answer.read()))


def measure(build, every, flags, seconds):
    started, stop, pages = [], threading.Event(), []
    try:
        broker, log = start([], [build / "bin/penstock-broker", "--listen-clients", ANY_PORT, "--listen-workers", ANY_PORT, "--http", "127.0.0.1:*", *flags],
                            "evt=listening")
        started.append(broker)
        clients, workers = (re.search(rf"\b{name}=(tcp://\S+)", log).group(1) for name in ("clients", "workers"))
        address = re.search(r"\bhttp=(\S+)", log).group(1)
        worker, _ = start([], [build / "bin/penstock-worker", "--broker", workers, "--models", ROOT / "deploy/models", "--slots", "1", "--threads", "1"],
                          "evt=welcome")
        started.append(worker)
        asker = threading.Thread(target=scrape, args=(address, every, stop, pages)) if every else None
        if asker:
            asker.start()
        done = subprocess.run([str(build / "bin/penstock"), "load", "--broker", clients, "--model", "digits", "--concurrency", "16", "--duration", f"{seconds}s",
                               "--json"], capture_output=True, text=True)
        stop.set()
        if asker:
            asker.join()
        if done.returncode != 0:
            sys.exit(done.stderr)
        told = json.loads(done.stdout)
        return told["requests"] / seconds, told["latency_us"]["p99"], len(pages)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def main():
    words = sys.argv[1:]
    if not words or words[0].startswith("-"):
        sys.exit(__doc__)
    build = Path(words[0]).resolve()
    settings = dict(zip(words[1::2], words[2::2]))
    seconds, repeats = float(settings.get("--seconds", 4)), int(settings.get("--repeats", 3))
    found = {name: [] for name, _, _ in CASES}
    for _ in range(repeats):
        for name, every, flags in CASES:
            found[name].append(measure(build, every, flags, seconds))
    base_rate, base_p99 = (statistics.median(run[i] for run in found[CASES[0][0]]) for i in (0, 1))
    print(f"{'':24}{'jobs/s':>10}{'ratio':>8}{'p99 us':>10}{'ratio':>8}{'pages':>8}")
    for name, _, _ in CASES:
        rate, p99 = (statistics.median(run[i] for run in found[name]) for i in (0, 1))
        print(f"{name:24}{rate:10.0f}{rate / base_rate:8.3f}{p99:10.0f}{p99 / base_p99:8.2f}{sum(run[2] for run in found[name]):8}")


if __name__ == "__main__":
    main()
