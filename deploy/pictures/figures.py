#!/usr/bin/env python3
"""Measures the message path beside other job systems on this machine and draws figures.svg, the chart of README.md.

    figures.py BUILD_DIR [SVG] [--repeats 3] [--quick]

All systems take turns in one run (tests/bench/targets.py): a job of 1 KiB in and out, one client, one worker that only answers.
Left: the round trip of one job at a time (median). Right: jobs a second with 64 under way, everything on one core.
Systems that are not installed are left out: gearmand, beanstalkd, redis-server, nats-server. Standard library only.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/bench"))
import targets  # noqa: E402

NAMES = {"echo": "penstock", "proxy": "zmq_proxy (keeps nothing)", "redis-streams": "Redis streams", "redis-list": "Redis lists", "nats": "NATS (keeps nothing)"}
WIDTH, ROW, LEFT, BAR = 960, 30, 205, 185
STYLE = "text{font:14px system-ui,sans-serif;fill:#1f2933}.head{font-weight:600}.small{font-size:12px;fill:#616e7c}"


def processor():
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else "unknown processor"


def panel(x, title, rows, digits, better):
    """Bars of one figure, the best first; ours is coloured."""
    out = [f'<text class="head" x="{x}" y="52">{title}</text><text class="small" x="{x}" y="70">{better}</text>']
    most = max(value for _, value in rows)
    for i, (name, value) in enumerate(rows):
        y = 84 + i * ROW
        colour = "#0b69a3" if name == "penstock" else "#9aa5b1"
        length = max(2, BAR * value / most)
        out.append(f'<text x="{x}" y="{y + 16}">{name}</text><rect x="{x + LEFT}" y="{y + 3}" width="{length:.1f}" height="18" rx="2" fill="{colour}"/>')
        out.append(f'<text class="small" x="{x + LEFT + length + 6:.1f}" y="{y + 16}">{value:,.{digits}f}</text>')
    return "\n".join(out)


def draw(figures, peers, repeats):
    systems = ["echo", "proxy", *peers]
    label = lambda name: NAMES.get(name, name)  # noqa: E731
    trips = sorted(((label(n), figures[n, "free", "p50"]) for n in systems), key=lambda row: row[1])
    rates = sorted(((label(n), figures[n, "pinned", "rate"]) for n in systems), key=lambda row: -row[1])
    height = 84 + ROW * len(systems) + 46
    said = f"medians of {repeats} turns in one run on {os.cpu_count()} CPUs, {processor()}; penstock: broker, client library, a worker that only answers"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="Measured figures">\n'
            f"<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
            f'<text class="head" x="24" y="28">One job of 1 KiB through the pool, beside other job systems</text>\n'
            f'{panel(24, "round trip, microseconds", trips, 0, "one job at a time; less is better")}\n'
            f'{panel(WIDTH // 2 + 24, "jobs a second, one core", rates, 0, "64 jobs under way; more is better")}\n'
            f'<text class="small" x="24" y="{height - 16}">{said}</text>\n</svg>\n')


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("-") and not word.isdigit()]
    if not words or words[0] in ("help",):
        sys.exit(__doc__)
    build, svg = Path(words[0]), Path(words[1]) if len(words) > 1 else HERE / "figures.svg"
    scale, repeats = 10 if "--quick" in sys.argv else 1, targets.option("--repeats", 3)
    peers = [name for name, (program, _, _) in targets.PEERS.items() if targets.where(program)]
    with tempfile.TemporaryDirectory() as models:
        subprocess.run([f"{build}/tests/bench_null_model", models], check=True)
        figures = targets.collect(build, repeats, 3000 // scale, 40000 // scale, 400 // scale, models, peers)
    svg.write_text(draw(figures, peers, repeats))
    print(f"{svg} is drawn; look at it before you keep it")
    for name in ["echo", "proxy", *peers]:
        print(f"{NAMES.get(name, name):26} {figures[name, 'free', 'p50']:8.0f} us {figures[name, 'pinned', 'rate']:10.0f} jobs/s")


if __name__ == "__main__":
    main()
