#!/usr/bin/env python3
"""What dynamic batching gives and costs: throughput with it off and on at high load, p50 at low load, for models of ../shared.

    batching.py BUILD_DIR [--seconds 3] [--repeats 5] [--concurrency 128] [--delay 0] [--models NAME,...] [--engine] [--errors] [--json]

high     jobs/s of a closed loop, `max_batch_size` 1 against 32, interleaved: two pools stand all the time, one of them is asked at a time
low      p50 of an open loop at 30 % of what the pool without batches can do, in the same way
--delay  max_queue_delay_microseconds of the pool with batches
--engine what the engine alone gives: `penstock-engine bench --batch N`, time per row against one row
--errors how far forecasts were from batches' times: median and p99, of a pool with batches that serves all models at once

One worker with one slot and one thread, cache off. In the first table batches pay on a CPU (dense and recurrent layers, whose weights are then read once for
many rows), in the second they do not (convolutions), and must not cost anything. The median of the ratios counts, not jobs per second. Standard library only.
"""
import usage  # noqa: F401
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402
from pool import ROOT, answer, load, option  # noqa: E402

SHARED = ROOT.parent / "shared" / "models"
ROWS_MAX, LOW_LOAD = 32, 0.3
SIZES = (1, 2, 4, 8, 16, 32)
# name: (folder, file, shapes that the file leaves open, pays)
MODELS = {
    "ad_float": ("tflite/mlperf_tiny_ad_float", "model.tflite", {}, True),
    "ad_int8": ("tflite/mlperf_tiny_ad_int8", "model.tflite", {}, True),
    "bidi_lstm": ("onnx/byte_sb_bidi_lstm", "model.onnx", {"input": (58,)}, True),
    "resnet8": ("tflite/mlperf_tiny_ic_resnet8_float", "model.tflite", {}, False),
    "vww": ("tflite/mlperf_tiny_vww_float", "model.tflite", {}, False),
}


def option_text(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def model_file(name):
    folder, file, _, _ = MODELS[name]
    return next(iter(sorted((SHARED / folder).glob(f"*{Path(file).suffix}"))))


def config(name, rows_max, delay_us):
    warm = {} if rows_max == 1 else {"dynamic_batching": {"max_queue_delay_microseconds": delay_us}}
    inputs = {port: {"dims": list(dims)} for port, dims in MODELS[name][2].items()}
    sizes = SIZES if rows_max > 1 else (1,)
    return {"max_batch_size": rows_max, **warm, "model_warmup": [{"batch_size": b, **({"inputs": inputs} if inputs else {})} for b in sizes]}


def model_folder(stack, names, rows_max, delay_us):
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name in names:
        (folder / name / "1").mkdir(parents=True)
        shutil.copy(model_file(name), folder / name / "1" / MODELS[name][1])
        (folder / name / "config.json").write_text(json.dumps(config(name, rows_max, delay_us)))
    return folder


def new_pool(stack, build, names, rows_max, delay_us):
    """(address for clients, address of /metrics)"""
    broker = pool.start_broker(stack, build, "--http", "127.0.0.1:*")
    pool.start_worker(stack, build, broker["workers"], model_folder(stack, names, rows_max, delay_us), "xnnpack")
    return broker["clients"], broker["http"]


def inputs(stack, name):
    """Flags of `penstock load` for inputs whose shape the model leaves open: an .npy of bytes."""
    flags = []
    for port, dims in MODELS[name][2].items():
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "input.npy"
        pool.npy(file, (1, *dims), [bytes(97 + i % 26 for i in range(math.prod(dims)))])
        flags += ["--input", f"{port}={file}"]
    return flags


def series(http, family, model):
    """{labels as text: value} of one family and model."""
    text = urllib.request.urlopen(f"http://{http}/metrics", timeout=10).read().decode()
    return {labels: float(value) for labels, value in re.findall(rf'^{family}\{{([^}}]*)\}} (\S+)', text, re.M) if f'model="{model}"' in labels}


def closes(http, model):
    found = {re.search(r'reason="(\w+)"', labels).group(1): value for labels, value in series(http, "penstock_batches_total", model).items()}
    return {reason: int(value) for reason, value in found.items() if value > 0}


def measure(build, name, seconds, repeats, concurrency, delay_us):
    with ExitStack() as stack:
        pools = {"off": new_pool(stack, build, [name], 1, delay_us), "on": new_pool(stack, build, [name], ROWS_MAX, delay_us)}
        extra = inputs(stack, name)

        def ask(which, *flags):
            return answer(load(build, pools[which][0], name, seconds, *flags, *extra))

        high, low = {"off": [], "on": []}, {"off": [], "on": []}
        for which in pools:
            ask(which, "--concurrency", concurrency)
        before = closes(pools["on"][1], name)
        for _ in range(repeats):
            for which in pools:
                high[which].append(ask(which, "--concurrency", concurrency)["throughput_per_s"])
        reasons = {reason: count - before.get(reason, 0) for reason, count in closes(pools["on"][1], name).items()}
        rate = round(LOW_LOAD * statistics.median(high["off"]), 1)
        for _ in range(repeats):
            for which in pools:
                low[which].append(ask(which, "--rate", rate)["latency_us"]["p50"])
    gains = [on / off for off, on in zip(high["off"], high["on"])]
    costs = [on / off for off, on in zip(low["off"], low["on"])]
    batches = sum(count for count in reasons.values())
    jobs = sum(high["on"]) * seconds
    return {"model": name, "pays": MODELS[name][3], "off_per_s": statistics.median(high["off"]), "on_per_s": statistics.median(high["on"]),
            "gain": statistics.median(gains), "gain_least": min(gains), "gain_most": max(gains), "mean_batch": jobs / batches if batches else 0,
            "reasons": reasons, "rate": rate, "off_p50_us": statistics.median(low["off"]), "on_p50_us": statistics.median(low["on"]),
            "added": statistics.median(costs), "added_least": min(costs), "added_most": max(costs)}


def engine_alone(build, name):
    per_row = {}
    for batch in SIZES:
        shapes = [f"--shape={port}={'x'.join(map(str, (batch, *dims)))}" for port, dims in MODELS[name][2].items()]
        times = []
        for _ in range(3):
            done = subprocess.run([build / "bin/penstock-engine", "bench", "--model", model_file(name), "--batch", str(batch), *shapes, "--backend", "xnnpack",
                                   "--seconds", "300ms", "--json"], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"penstock-engine bench failed: {done.stderr}{done.stdout}")
            times.append(json.loads(done.stdout)["median_ms"])
        per_row[batch] = min(times) * 1000 / batch
    return per_row


def quantile(buckets, share):
    """Of a Prometheus histogram: the bound that this share of all was not beyond, in proportion between bounds."""
    bounds = sorted(buckets)
    wanted, low, below = share * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= wanted and buckets[bound] > below:
            return low if bound == float("inf") else low + (bound - low) * (wanted - below) / (buckets[bound] - below)
        low, below = bound, buckets[bound]
    return low


def errors(build, seconds, concurrency, delay_us):
    """Forecast against time, of all models together and each alone, while all are asked at once."""
    names = list(MODELS)
    with ExitStack() as stack:
        clients, http = new_pool(stack, build, names, ROWS_MAX, delay_us)
        flags = {name: inputs(stack, name) for name in names}

        def all_at_once():
            for process in [load(build, clients, name, seconds, "--concurrency", max(1, concurrency // len(names)), *flags[name]) for name in names]:
                answer(process)

        def counts(family):
            return {name: series(http, family, name) for name in names}

        all_at_once()
        before = [counts(f"penstock_prediction_error_{kind}") for kind in ("seconds_bucket", "seconds_count")]
        all_at_once()
        after = [counts(f"penstock_prediction_error_{kind}") for kind in ("seconds_bucket", "seconds_count")]
    rows = []
    for name in names:
        buckets = {}
        for labels, value in after[0][name].items():
            bound = float(re.search(r'le="([^"]+)"', labels).group(1))
            buckets[bound] = buckets.get(bound, 0) + value - before[0][name].get(labels, 0)
        rows.append({"model": name, "batches": sum(after[1][name].values()) - sum(before[1][name].values()), "median_us": quantile(buckets, 0.5) * 1e6,
                     "p99_us": quantile(buckets, 0.99) * 1e6})
    return rows


def tell(row):
    shares = ", ".join(f"{reason} {count}" for reason, count in sorted(row["reasons"].items(), key=lambda item: -item[1]) if count > 0)
    print(f"{row['model']:10} high: {row['off_per_s']:8.0f} jobs/s off, {row['on_per_s']:8.0f} on, gain {row['gain']:.2f}x ({row['gain_least']:.2f}-"
          f"{row['gain_most']:.2f}), {row['mean_batch']:.1f} jobs a batch ({shares})")
    print(f"{'':10} low:  p50 at {row['rate']:.0f}/s {row['off_p50_us']:.0f} us off, {row['on_p50_us']:.0f} us on, ratio {row['added']:.3f} "
          f"({row['added_least']:.3f}-{row['added_most']:.3f})", flush=True)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if not SHARED.is_dir():
        sys.exit(f"skipped: {SHARED} is not there")
    build, seconds, repeats = Path(sys.argv[1]), option("--seconds", 3), option("--repeats", 5)
    concurrency, delay_us, as_json = option("--concurrency", 128), option("--delay", 0), "--json" in sys.argv
    names = option_text("--models", ",".join(MODELS)).split(",")
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        sys.exit(f"--models: no '{unknown[0]}'; there are {', '.join(MODELS)}")
    if "--engine" in sys.argv:
        rows = [{"model": name, "us_per_row": engine_alone(build, name)} for name in names]
        for row in rows if not as_json else []:
            one = row["us_per_row"][1]
            print(f"{row['model']:10} " + ", ".join(f"{size}: {us:.1f} us ({one / us:.2f}x)" for size, us in row["us_per_row"].items()))
    elif "--errors" in sys.argv:
        rows = errors(build, seconds, concurrency, delay_us)
        for row in rows if not as_json else []:
            print(f"{row['model']:10} {row['batches']:.0f} batches, forecast off by {row['median_us']:.0f} us (median), {row['p99_us']:.0f} us (p99)")
    else:
        rows = []
        for name in names:
            rows.append(measure(build, name, seconds, repeats, concurrency, delay_us))
            if not as_json:
                tell(rows[-1])
    if as_json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
