#!/usr/bin/env python3
"""A real Prometheus scrapes a real broker by deploy/prometheus; rules and the Grafana dashboard ask for nothing that is not there.

    prometheus_test.py BIN_DIR SOURCE_DIR

Skips with a message where prometheus is not installed. The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

BIN, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "tests/support"))
from ports import free_port  # noqa: E402
RULES = SOURCE / "deploy/prometheus"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
passed = failed = 0


def check(condition, what):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, flush=True)


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
        return answer.read().decode()


def wait_for(question, seconds=30):
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        try:
            if question():
                return True
        except (OSError, KeyError, IndexError):
            pass
        time.sleep(0.1)
    return False


def value(prometheus, query):
    answer = json.loads(get(prometheus, "/api/v1/query?" + urllib.parse.urlencode({"query": query})))
    return float(answer["data"]["result"][0]["value"][1])


def names(expressions):
    """Metrics that expressions speak of."""
    return set(re.findall(r"\bpenstock_[a-z_]+", " ".join(expressions)))


def check_files(text):
    check(subprocess.run(["promtool", "check", "config", RULES / "prometheus.yml"]).returncode == 0, "promtool likes prometheus.yml and alerts.yml")
    check(subprocess.run(["promtool", "test", "rules", RULES / "alerts_test.yml"]).returncode == 0, "each alert fires when it should")
    exported = set(re.findall(r"^(penstock_[a-z_]+)", text, re.M))
    dashboard = json.loads((SOURCE / "deploy/grafana/penstock.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    check(len(queries) > 20, "the Grafana dashboard has queries")
    for what, wanted in [("the Grafana dashboard", names(queries)), ("the alerts", names([line for line in (RULES / "alerts.yml").read_text().splitlines() if "expr:" in line]))]:
        check(not wanted - exported, f"{what} asks for what is exported: {sorted(wanted - exported)}")
    return queries


def scrape(programs, http, queries, folder):
    port = free_port()
    config = (RULES / "prometheus.yml").read_text().replace("127.0.0.1:8002", http).replace("alerts.yml", str(RULES / "alerts.yml"))
    config = re.sub(r"(scrape|evaluation)_interval: 5s", r"\1_interval: 500ms", config)
    (folder / "prometheus.yml").write_text(config)
    prometheus = f"127.0.0.1:{port}"
    programs.append(subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={prometheus}"],
                                     stdout=subprocess.DEVNULL, stderr=(folder / "log").open("w")))
    check(wait_for(lambda: value(prometheus, 'up{job="penstock"}') == 1), "Prometheus has scraped the broker")
    check(wait_for(lambda: value(prometheus, "penstock_ready") == 1), "and knows that it is ready")
    check(wait_for(lambda: value(prometheus, 'sum(rate(penstock_jobs_total{outcome="done"}[10s]))') > 5), "rates of jobs are those of the load")
    check(wait_for(lambda: 0 < value(prometheus, 'histogram_quantile(0.99, sum by (le) (rate(penstock_stage_seconds_bucket{stage="total"}[10s])))') < 5), "a p99 comes out")
    bad = []
    for query in queries:
        answer = get(prometheus, "/api/v1/query?" + urllib.parse.urlencode({"query": query.replace("$model", ".*")}))
        if json.loads(answer)["status"] != "success":
            bad.append(query)
    check(not bad, f"Prometheus understands every query of the dashboard: {bad}")


def run(programs, folder):
    broker = subprocess.Popen([BIN / "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*", "--http", "127.0.0.1:*"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    programs.append(broker)
    clients, workers, http = re.search(r"clients=(\S+) workers=(\S+) http=(\S+)", broker.stdout.readline().decode()).groups()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    models = folder / "models"
    shutil.copytree(SOURCE / "deploy/models", models)
    (models / "empty").mkdir()  # one that cannot be loaded
    programs.append(subprocess.Popen([BIN / "penstock-worker", "--broker", workers, "--models", models, "--slots", "1", "--threads", "1"], **quiet))
    check(wait_for(lambda: get(http, "/v2/models/digits/ready")), "the worker is ready")
    programs.append(subprocess.Popen([BIN / "penstock", "load", "--broker", clients, "--model", "digits", "--unique", "--rate", "100", "--duration", "170s"], **quiet))
    check(wait_for(lambda: "penstock_stage_seconds_bucket{" in get(http, "/metrics")), "jobs leave histograms")
    queries = check_files(get(http, "/metrics"))
    scrape(programs, http, queries, folder)


def main():
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        print("no prometheus here (package prometheus): rules and scraping were not tried\n0 passed, 0 failed, 1 skipped")
        return 0
    programs = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(programs, Path(folder))
            finally:
                for program in reversed(programs):
                    program.send_signal(signal.SIGTERM)
                for program in reversed(programs):
                    program.wait(30)
    except Exception as error:
        check(False, f"{type(error).__name__}: {error}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
