#!/usr/bin/env python3
"""What people see of a running pool: traces, their export, logs and their levels, a worker's own page, `penstock top` on a terminal.

    observe_test.py BIN_DIR SOURCE_DIR

The last line is `N passed, N failed, N skipped`.
"""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from terminal import Terminal

BIN, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
SAMPLES = SOURCE / "deploy/models/digits/samples"
SLOW = float(os.environ.get("PENSTOCK_SLOW", "1"))
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
passed = failed = 0


def check(condition, what):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    print(("passed: " if condition else "FAILED: ") + what, flush=True)


def wait_for(question, seconds=20):
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        if question():
            return True
        time.sleep(0.05)
    return False


def get(address, path):
    """Status and text."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Collector:
    """A small OpenTelemetry receiver on loopback: keeps what is posted to it."""

    def __init__(self):
        bodies = self.bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.append((self.path, self.headers["Content-Type"], json.loads(body)))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        return [dict(span, service=resource["resource"]["attributes"][0]["value"]["stringValue"])
                for _, _, body in list(self.bodies) for resource in body["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]


class Pool:
    def __init__(self, folder, *broker_arguments):
        self.logs = {name: folder / f"{name}.log" for name in ("broker", "worker", "client")}
        self.broker = subprocess.Popen([BIN / "penstock-broker", "--listen-clients", "tcp://127.0.0.1:*", "--listen-workers", "tcp://127.0.0.1:*",
                                        "--http", "127.0.0.1:*", "--log-format", "json", *broker_arguments],
                                       stdout=subprocess.PIPE, stderr=self.logs["broker"].open("w"))
        line = self.broker.stdout.readline().decode()
        self.clients, self.workers, self.http = re.search(r"clients=(\S+) workers=(\S+) http=(\S+)", line).groups()
        self.worker = subprocess.Popen([BIN / "penstock-worker", "--broker", self.workers, "--models", SOURCE / "deploy/models", "--slots", "1",
                                        "--threads", "1", "--name", "seen", "--metrics", "127.0.0.1:*"], stderr=self.logs["worker"].open("w"))
        assert wait_for(lambda: get(self.http, "/v2/models/digits/ready")[0] == 200), "the worker is not ready"

    def log(self, name):
        return "".join(line for line in self.logs[name].read_text().splitlines(True) if line.endswith("\n"))  # the last may be on its way

    def run(self, *arguments):
        """Exit code, standard output and error of `penstock VERB --broker ...`."""
        verb, *rest = [str(a) for a in arguments]
        done = subprocess.run([BIN / "penstock", verb, "--broker", self.clients, *rest], capture_output=True, text=True, timeout=60 * SLOW)
        return done.returncode, done.stdout, done.stderr

    def submit(self, *arguments):
        code, out, err = self.run("submit", "digits", SAMPLES / "00_zero.png", "--json", *arguments)
        assert code == 0, err
        return json.loads(out)["jobs"][0]

    def stop(self, number=signal.SIGTERM):
        for program in (self.worker, self.broker):
            program.send_signal(number)
        return [program.wait(30 * SLOW) for program in (self.worker, self.broker)]


def traces(pool):
    job = pool.submit("--layers", "--traceparent", PARENT)
    names = [span["name"] for span in job["trace"]["spans"]]
    check(job["trace"]["trace_id"] == PARENT[3:35], "the trace has the client's id")
    wanted = {"job", "submit and way to the broker", "dispatch", "worker", "compute", "way back"}
    check(wanted <= set(names), f"a job's life has all its parts: {wanted - set(names)}")
    compute = names.index("compute")
    layers = [span for span in job["trace"]["spans"] if span["parent"] == compute]
    check(layers and sum(s["us"] for s in layers) <= job["compute_us"] + 5, "the layers were measured and are no longer than the run")
    whole = job["trace"]["spans"][0]
    inside = all(whole["start_us"] <= s["start_us"] and s["start_us"] + s["us"] <= whole["start_us"] + whole["us"] + 1 for s in job["trace"]["spans"])
    check(inside, "every span lies within the job")
    check("trace" not in pool.submit("--no-cache"), "without --trace nothing is told")

    code, out, _ = pool.run("trace", job["job"])
    check(code == 0 and "Reshape" in out and "####" in out, "`penstock trace JOB` draws it")
    code, out, _ = pool.run("trace", job["job"], "--format", "chrome")
    events = json.loads(out)["traceEvents"]
    check(any(e["ph"] == "X" and e["name"] == "compute" and e["ts"] > 1e15 for e in events), "Chrome's form holds it")
    with tempfile.NamedTemporaryFile() as file:
        code, out, _ = pool.run("trace", job["job"], "--format", "otlp", "--output", file.name)
        check(code == 0 and not out and json.load(open(file.name))["resourceSpans"], "--output writes a file")
    code, out, _ = pool.run("trace", "slow")
    check(code == 0 and "digits:1" in out, "`penstock trace slow` lists jobs")
    code, _, err = pool.run("trace", "0123456789abcdef-1")
    check(code == 1 and "no trace of job" in err, "an unknown job is told of in a sentence")
    check(pool.run("trace", "nonsense")[0] == 2, "nonsense is wrong usage")
    path = f"/api/trace/{job['job']}"
    check(wait_for(lambda: get(pool.http, path)[0] == 200) and json.loads(get(pool.http, path)[1])["traces"][0]["job"] == job["job"], "/api/trace/JOB answers")
    check(get(pool.http, f"/api/trace/{job['job']}.otlp")[0] == 200, "and in other forms")
    check(get(pool.http, "/api/trace/0123456789abcdef-9")[0] == 404 and get(pool.http, "/api/trace/x")[0] == 400, "and refuses what is not there")
    return job


def export(pool, collector, job):
    ours = lambda: [s for s in collector.spans() if s["traceId"] == PARENT[3:35]]
    check(wait_for(lambda: {s["service"] for s in ours()} == {"penstock-client", "penstock-broker", "penstock-worker"}), "the collector has spans of all three")
    check({(path, kind) for path, kind, _ in collector.bodies} == {("/v1/traces", "application/json")}, "posted where and as OTLP says")
    root = [s for s in ours() if s["name"] == "job"][0]
    check(root["parentSpanId"] == PARENT[36:52], "the root's parent is the client's span")
    ids = {s["spanId"] for s in ours()}
    check(len(ids) == len(ours()), "span ids are unique")
    check(all(s["parentSpanId"] in ids for s in ours() if s["spanId"] != root["spanId"]), "every other parent is there")
    check(all(int(s["startTimeUnixNano"]) <= int(s["endTimeUnixNano"]) for s in ours()), "no span ends before it begins")
    check(abs(int(root["startTimeUnixNano"]) / 1e9 - time.time()) < 600, "times are those of the clock on the wall")
    check(any(a["key"] == "penstock.job" and a["value"]["stringValue"] == job["job"] for a in root["attributes"]), "and it names the job")
    check(wait_for(lambda: re.search(r"^penstock_traces_exported_total [1-9]", get(pool.http, "/metrics")[1], re.M)), "exported traces are counted")
    collector.server.shutdown()
    collector.server.server_close()
    pool.submit("--trace", "--no-cache")
    check(wait_for(lambda: re.search(r"^penstock_traces_dropped_total [1-9]", get(pool.http, "/metrics")[1], re.M)), "a collector that is away costs traces")
    check(pool.submit("--no-cache")["status"] == "OK", "and no jobs")


def logs(pool):
    check("job_run" not in pool.log("worker") and "job_admitted" not in pool.log("broker"), "jobs are not logged at level info")
    code, out, _ = pool.run("log-level", "debug")
    check(code == 0 and out == "broker: debug; workers told: 1\n", f"the level changes while the pool runs: {out}")
    check(wait_for(lambda: "level=debug by=broker" in pool.log("worker")), "the worker was told")
    job = pool.submit("--no-cache", "--traceparent", PARENT)
    path = [("broker", "job_admitted"), ("broker", "job_dispatched"), ("worker", "job_run"), ("broker", "job_done")]
    for program, event in path:
        check(wait_for(lambda: any(event in line and job["job"] in line for line in pool.log(program).splitlines())), f"{event} of the {program} names the job")
    line = [line for line in pool.log("worker").splitlines() if "job_run" in line and job["job"] in line][0]
    check(PARENT[3:35] in line and PARENT[36:52] not in line, "the worker was given the trace, with the broker's span as parent")
    records = [json.loads(line) for line in pool.log("broker").splitlines()]
    check(all("evt" in r and "ts" in r and "level" in r for r in records), "every line of --log-format json is an object")
    pool.run("log-level", "info", "workers")
    check(wait_for(lambda: "level=info by=broker" in pool.log("worker")) and pool.run("log-level")[1].startswith("broker: debug"), "workers alone can be told")
    check(pool.run("log-level", "loud")[0] == 2 and pool.run("log-level", "debug", "nobody")[0] == 1, "senseless levels and names are refused")
    pool.run("log-level", "info", "broker")
    for name, program in (("broker", pool.broker), ("worker", pool.worker)):
        program.send_signal(signal.SIGUSR1)
        check(wait_for(lambda: re.search(r"log_level.*debug.*by\W+signal", pool.log(name))), f"SIGUSR1 makes the {name} talk more")
        program.send_signal(signal.SIGUSR2)
        check(wait_for(lambda: re.search(r"log_level.*info.*by\W+signal", pool.log(name))), f"SIGUSR2 makes the {name} talk less")


def worker_page(pool):
    address = re.search(r"evt=metrics address=(\S+)", pool.log("worker")).group(1)
    status, text = get(address, "/metrics")
    check(status == 200 and re.search(r"^penstock_worker_jobs_done_total [1-9]", text, re.M), "the worker's own page counts jobs")
    check('penstock_worker_model_warm{model="digits",version="1"} 1' in text, "and tells that its models are warm")
    promtool = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True) if os.path.exists("/usr/bin/promtool") else None
    check(not promtool or promtool.returncode == 0, "promtool likes it")
    check(get(address, "/v2/health/ready")[0] == 200 and get(address, "/v2/health/live")[0] == 200, "it is live and ready")
    check(get(address, "/else")[0] == 404, "other paths are not there")
    text = lambda: get(pool.http, "/metrics")[1]
    check(wait_for(lambda: re.search(r'^penstock_worker_device_memory_used_bytes\{worker="seen".*\} [1-9]', text(), re.M)), "the broker knows the memory of its device")
    check(re.search(r'^penstock_worker_models_warm\{worker="seen".*\} 1$', text(), re.M), "and how many models are warm")


def busy_waits(pool):
    return int(re.search(r"^penstock_busy_waits_total (\d+)$", get(pool.http, "/metrics")[1], re.M).group(1))


def spinning(pool):
    if len(os.sched_getaffinity(0)) > 1:
        check(wait_for(lambda: pool.submit("--no-cache") and busy_waits(pool) > 0), "the broker waits awake for what comes next")


def top(pool):
    with Terminal([BIN / "penstock", "top", "--broker", pool.clients, "--interval", "200ms"], 24, 120) as screen:
        check(screen.wait(lambda t: "digits:1" in t and "seen" in t), "top shows the model and the worker")
        screen.type("s")
        check(screen.wait(lambda t: "by busy" in t), "s sorts by the next column")
        screen.type("r")
        check(screen.wait(lambda t: "by busy, turned round" in t), "r turns the order round")
        screen.type("/zzz")
        check(screen.wait(lambda t: "none of 1 passes the filter" in t), "a filter takes rows away while it is typed")
        screen.type("\r")
        check(screen.wait(lambda t: "filter: zzz_" not in t and "filter: zzz" in t), "return ends the typing, the filter stays")
        screen.type("\x1b")
        check(screen.wait(lambda t: "digits:1" in t and "filter" not in t), "escape drops it")
        screen.resize(8, 60)
        check(screen.wait(lambda t: "penstock top" in t and "MODEL" in t), "a smaller window is drawn again")
        screen.type("\x1bOB")
        check(screen.wait(lambda t: "penstock top" not in t and "MODEL" in t), "the arrow scrolls")
        screen.resize(40, 140)
        check(screen.wait(lambda t: "WORKER" in t and "DEVICE" in t), "a larger one, too")
        screen.type("q")
        check(wait_for(lambda: screen.process.poll() is not None) and screen.process.returncode == 0, "q quits")
    code, out, _ = pool.run("top", "--once", "--sort", "rate", "--reverse", "--filter", "DIG")
    check(code == 0 and "by rate, turned round  filter: DIG" in out and "digits:1" in out and "none passes" in out, "the same by options, as text")


def sampled(folder):
    pool = Pool(folder, "--trace-sample", "10", "--trace-keep", "5", "--cache", "none", "--spin", "0")
    for _ in range(3):
        pool.run("submit", "digits", *([SAMPLES / "00_zero.png"] * 20))
    code, out, _ = pool.run("trace", "kept")
    check(code == 0 and len(out.splitlines()) == 5, f"one of ten is sampled, five are kept: {len(out.splitlines())}")
    check(wait_for(lambda: re.search(r"^penstock_jobs_admitted_total\{.*\} 60$", get(pool.http, "/metrics")[1], re.M)), "the jobs are counted")
    check(busy_waits(pool) == 0, "without --spin it sleeps at once")
    check(pool.stop(signal.SIGINT) == [0, 0], "both end well by SIGINT, too")


def main():
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector()
        pool = Pool(Path(folder), "--trace-otlp", f"http://{collector.address}", "--trace-sample", "0")
        try:
            job = traces(pool)
            export(pool, collector, job)
            worker_page(pool)
            spinning(pool)
            top(pool)
            logs(pool)
            check(pool.stop() == [0, 0], "broker and worker end well")
            sampled(Path(folder))
        finally:
            for program in (pool.worker, pool.broker):
                if program.poll() is None:
                    program.kill()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
