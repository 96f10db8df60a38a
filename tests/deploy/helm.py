#!/usr/bin/env python3
"""What the chart's test needs of helm, from PyPI's helm-python-sdk, which is Helm's own Go library: lint and template, called like the program.

    helm.py lint --strict CHART
    helm.py template NAME CHART --namespace NS --kube-version V [--set a.b=c,d.e=f]...
"""
import argparse
import sys
from pathlib import Path

import helm_python as helm


def values_of(chart, settings):
    """The chart's values with those of --set, as Helm reads them."""
    values = helm.values_from_yaml((Path(chart) / "values.yaml").read_text(encoding="utf-8"))
    for setting in settings:
        merge(values, helm.parse_set_string(setting))
    return values


def merge(into, new):
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        else:
            into[name] = value


def lint(words):
    found = helm.lint(words.chart, strict=words.strict)
    print(found)
    messages = found.get("messages") or []
    worst = max((m.get("severity", 0) for m in messages), default=0)
    bad = bool(found.get("errors")) or worst >= (2 if words.strict else 3)
    return 1 if bad else 0


def template(words):
    chart = helm.Chart.load(words.chart)
    values = values_of(words.chart, words.set)
    chart.validate_schema(values)
    for path, text in sorted(chart.render(values, name=words.name, namespace=words.namespace).items()):
        if text.strip() and not path.endswith("NOTES.txt"):
            print(f"---\n# Source: {path}\n{text}")
    return 0


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("lint")
    one.add_argument("--strict", action="store_true")
    one.add_argument("chart")
    two = verbs.add_parser("template")
    two.add_argument("name")
    two.add_argument("chart")
    two.add_argument("--namespace", default="default")
    two.add_argument("--kube-version")
    two.add_argument("--set", action="append", default=[])
    words = parser.parse_args()
    try:
        return lint(words) if words.verb == "lint" else template(words)
    except helm.HelmError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
