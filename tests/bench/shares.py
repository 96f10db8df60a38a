#!/usr/bin/env python3
"""Fair sharing over real processes: one client's p99 beside a flood, and the shares of 64 clients of four models of ../shared.

    shares.py BUILD_DIR [--seconds 8] [--clients 64] [--repeats 3]

flood    p99 of a client that asks now and then (a fifth of what the worker can do), alone and beside one that keeps 256 jobs waiting, interleaved
shares   what each client (a tenant each, one of them "default"; eight jobs in flight) got between two looks at /metrics, three times --seconds apart: time of the
         worker, which is what is shared out (broker/state/README.md), the largest over the least; and jobs, comparable among clients of one model
         --no-flood, --no-shares: only the other
One worker with one slot and one thread each time, cache off. Standard library only.
"""
import usage  # noqa: F401
import re
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402
from pool import ROOT, answer, option, stop  # noqa: E402

SHARED = ROOT.parent / "shared" / "models" / "onnx"
MODELS = ["mnist_8", "mnist_bn_gemm", "magika_v1", "blazeface_front"]


def model_folder(stack):
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name in MODELS:
        to = folder / name / "1"
        to.mkdir(parents=True)
        shutil.copy(next((SHARED / name).glob("*.onnx")), to / "model.onnx")
        (folder / name / "config.json").write_text('{"max_batch_size": 0}')
    return folder


def new_pool(stack, build):
    """(address for clients, address of /metrics)"""
    broker = pool.start_broker(stack, build, "--http", "127.0.0.1:*")
    pool.start_worker(stack, build, broker["workers"], model_folder(stack), "xnnpack")
    return broker["clients"], broker["http"]


def load(build, clients, tenant, model, seconds, *flags):
    return pool.load(build, clients, model, seconds, "--tenant", tenant, *flags)


def flood(build, seconds, repeats):
    with ExitStack() as stack:
        clients, _ = new_pool(stack, build)
        model = "blazeface_front"
        solo = answer(load(build, clients, "probe", model, 2, "--concurrency", 2))
        rate = round(solo["throughput_per_s"] / 5, 1)
        alone, beside = [], []
        for _ in range(repeats):
            alone.append(answer(load(build, clients, "calm", model, seconds, "--rate", rate))["latency_us"]["p99"])
            noise = load(build, clients, "flood", model, seconds + 4, "--concurrency", 256)
            time.sleep(1)
            beside.append(answer(load(build, clients, "calm", model, seconds, "--rate", rate))["latency_us"]["p99"])
            noise.terminate()
            noise.wait(20)
        ratios = [b / a for a, b in zip(alone, beside)]
        print(f"flood   {model}: solo {solo['throughput_per_s']:.0f} jobs/s, calm client at {rate}/s: p99 alone {statistics.median(alone):.0f} us, beside "
              f"256 waiting {statistics.median(beside):.0f} us, ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}), n={repeats}")


def tenant_figures(http, what):
    text = urllib.request.urlopen(f"http://{http}/metrics", timeout=10).read().decode()
    return {name: float(value) for name, value in re.findall(rf'penstock_tenant_{what}_total\{{tenant="(c\d+|default)"\}} (\S+)', text)}


def shares(build, seconds, count):
    with ExitStack() as stack:
        clients, http = new_pool(stack, build)
        running = [load(build, clients, f"c{i}" if i else "default", MODELS[i % len(MODELS)], seconds + 20, "--concurrency", 8) for i in range(count)]
        for process in running:
            stack.callback(stop, process)
        for _ in range(200):
            served = tenant_figures(http, "jobs")
            if len(served) == count and min(served.values()) > 0:
                break
            time.sleep(0.1)
        time.sleep(1)
        kinds = ("compute_seconds", "jobs")
        before = [tenant_figures(http, kind) for kind in kinds]
        time.sleep(seconds)
        after = [tenant_figures(http, kind) for kind in kinds]
        spent, jobs = ({name: later[name] - earlier[name] for name in later} for earlier, later in zip(before, after))
        if len(spent) != count or min(jobs.values()) == 0:
            idle = [f"c{i}" if i else "default" for i in range(count) if not jobs.get(f"c{i}" if i else "default")]
            sys.exit(f"of {count} clients these were not served: {idle}")
        names = [f"c{i}" if i else "default" for i in range(count)]
        for m, model in enumerate(MODELS):
            own = [jobs[name] for name in names[m::len(MODELS)]]
            time_s = [spent[name] for name in names[m::len(MODELS)]]
            print(f"shares  {len(own)} clients of {model}: {min(own):.0f} to {max(own):.0f} jobs, max / min {max(own) / min(own):.3f}; "
                  f"{sum(time_s) * 1000 / len(own):.0f} ms of compute each")
        print(f"shares  all {count}: {min(spent.values()) * 1000:.1f} to {max(spent.values()) * 1000:.1f} ms of compute in {seconds} s, max / min "
              f"{max(spent.values()) / min(spent.values()):.3f}")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if not SHARED.is_dir():
        sys.exit(f"skipped: {SHARED} is not there")
    build, seconds = Path(sys.argv[1]), option("--seconds", 8)
    if "--no-flood" not in sys.argv:
        flood(build, seconds, option("--repeats", 3))
    if "--no-shares" not in sys.argv:
        shares(build, 3 * seconds, option("--clients", 64))


if __name__ == "__main__":
    main()
