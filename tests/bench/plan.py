#!/usr/bin/env python3
"""Does the promise of `penstock plan` hold? Trials on several models; each measures, plans, and offers the rate.

    plan.py BUILD_DIR MODELS_DIR [--trials N] [--models a,b] [--part 0.5] [--slo-times 4] [--slo-least 5] [--seconds S] [--json]

MODELS_DIR is a folder of a worker (`penstock import` fills it). Per model one look says what a job takes alone and how many jobs a second a worker carries;
the trials then promise p99 below --slo-times the p99 alone (never below --slo-least ms) at --part of that rate, with workers of plan's own, one slot, one thread. A trial
holds when `penstock plan --prove` says so: independent arrivals for --seconds, p99 within the promise, no error. A plan that finds no setting is counted apart:
it promised nothing. The programs run with nice 0 beside whatever else this machine does, and the load average is printed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def plan(build, folder, model, *flags):
    command = [build / "bin/penstock", "plan", model, "--models", folder, "--try-slots", "1", "--try-threads", "1", "--json", *flags]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=900)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"{model}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def looked_at(build, folder, model, save):
    """(p99 of one job alone in ms, jobs a second of one worker)"""
    told = plan(build, folder, model, "--slo", "p99=10s", "--rate", "1", "--save", save)
    curve = told["curves"][0]
    alone = curve["sizes"][0]["alone"]["us"][36] + curve["way_alone"]["us"][36]  # of 41 points: the one at 0.99
    return alone / 1e3, curve["jobs_per_s"] / curve["workers"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("models_dir", type=Path)
    parser.add_argument("--models", help="names, separated by commas; default: all of the folder")
    parser.add_argument("--trials", type=int, default=2, help="of each model")
    parser.add_argument("--part", type=float, default=0.4, help="of the rate that one worker carries")
    parser.add_argument("--slo-times", type=float, default=4.0, help="the promise, in times of the p99 of a job alone")
    parser.add_argument("--slo-least", type=float, default=5.0, help="the promise is never below so many ms; on a machine with other work its own pauses are longer")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.models.split(",") if options.models else sorted(p.name for p in options.models_dir.iterdir() if p.is_dir())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            alone, capacity = looked_at(options.build, options.models_dir, name, Path(folder) / "curves")
            for trial in range(options.trials):
                slo, rate = max(options.slo_least, options.slo_times * alone), max(1.0, options.part * capacity)
                told = plan(options.build, options.models_dir, name, "--slo", f"p99={slo:.3f}ms", "--rate", f"{rate:.1f}", "--seed", trial + 1,
                            "--prove", "--prove-duration", f"{options.seconds}s")
                best, proof = (told["settings"] or [None])[0], told.get("proof")
                row = {"model": name, "slo_ms": slo, "rate": rate, "load_average": os.getloadavg()[0], "refusal": told["refusal"]}
                if best and proof:
                    row |= {"workers": best["workers"], "batch": best["batch"], "delay_us": best["delay_us"], "planned_ms": best["at_slo_us"] / 1e3,
                            "offered": proof["rate"], "workers_used": proof["workers"], "measured_ms": proof["at_slo_us"] / 1e3, "held": proof["held"]}
                rows.append(row)
                if not options.json:
                    print(text_of(row), flush=True)
    promised = [row for row in rows if "held" in row]
    held = sum(row["held"] for row in promised)
    if options.json:
        print(json.dumps({"trials": rows, "promised": len(promised), "held": held}))
    else:
        print(f"{held} of {len(promised)} promises held; {len(rows) - len(promised)} trials found no setting")
    return held * 10 < len(promised) * 9


def text_of(row):
    head = f"{row['model']:32.32} p99 < {row['slo_ms']:8.2f} ms at {row['rate']:7.1f}/s, load average {row['load_average']:4.1f}: "
    if "held" not in row:
        return head + row["refusal"]
    return head + (f"{row['workers']} workers, batch {row['batch']}, delay {row['delay_us'] / 1e3:.2f} ms; planned {row['planned_ms']:.2f} ms, "
                   f"measured {row['measured_ms']:.2f} ms on {row['workers_used']} at {row['offered']:.1f}/s: {'held' if row['held'] else 'DID NOT HOLD'}")


if __name__ == "__main__":
    sys.exit(main())
