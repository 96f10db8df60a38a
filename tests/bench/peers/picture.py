"""The ratios of compare.py as an SVG: a bar for each model and number of threads, and a line at 1."""
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, STEP = 900, 300, 20


def place(ratio):
    """Of a ratio on a scale of logarithms from 1/8 to 8."""
    return LEFT + (WIDTH - LEFT - 60) * (min(max(math.log2(ratio), -3.0), 3.0) + 3.0) / 6.0


def bar(row, y):
    one, at = place(1.0), place(row["ratio"])
    colour = "#2a7f4f" if row["ratio"] <= 1.0 else "#b5472f"
    return (f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(row["model"])}, {row["threads"]}t</text>'
            f'<rect x="{min(one, at):.1f}" y="{y + 3}" width="{max(abs(at - one), 1.0):.1f}" height="{STEP - 6}" fill="{colour}"/>'
            f'<text x="{max(one, at) + 5:.1f}" y="{y + 13}">{row["ratio"]:.2f}</text>')


def ratios(rows):
    rows = [row for row in rows if "ratio" in row]
    height = STEP * (len(rows) + 3)
    marks = "".join(f'<line x1="{place(r):.1f}" x2="{place(r):.1f}" y1="{STEP}" y2="{height - STEP}" stroke="{"#222" if r == 1 else "#ccc"}"/>'
                    f'<text x="{place(r):.1f}" y="14" text-anchor="middle">{r:g}</text>' for r in (0.25, 0.5, 1, 2, 4))
    bars = "".join(bar(row, STEP * (at + 1)) for at, row in enumerate(rows))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">'
            f'<title>Time over the best peer: less is better</title><rect width="100%" height="100%" fill="#fff"/>{marks}{bars}</svg>\n')
