#!/usr/bin/env python3
"""The tables of deploy/SETTINGS.md are those that the programs print. The files that README.md names exist. proto/system/settings_names.c has all variables.

    readme_settings.py SOURCE_DIR BIN_DIR [--update]

In deploy/SETTINGS.md the output of `PROGRAM --settings-markdown` stands between `<!-- settings PROGRAM -->` and `<!-- end settings -->`. --update writes it
there, and writes proto/system/settings_names.c anew. README.md has at most 150 lines; each file that it names and each page that it leads to exists.
The last line is `N passed, N failed, N skipped`.
"""
import re
import subprocess
import sys
from pathlib import Path

NAMED_FILE = re.compile(r"`([\w-]+(?:/[\w.-]+)*/[\w.-]+\.(?:[chdp]|py|sh|md))`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
LINES_MAX = 150  # of README.md
REGION = re.compile(r"(<!-- settings ([\w -]+?) -->\n)(.*?)(<!-- end settings -->)", re.S)


def printed(bin_dir, command):
    program, *rest = command.split()
    return subprocess.run([bin_dir / program, *rest, "--settings-markdown"], capture_output=True, text=True, check=True).stdout


SCRIPTS = {"MODELS_DIR", "SHARED", "SLOW"}  # variables of compose.yaml and of tests that are nearly called as one of a program
NAMES_HEAD = """/*
 * settings_names.c - every environment variable that a program of Penstock reads, or one of its scripts, without the prefix PENSTOCK_.
 *
 * Written by tests/e2e/readme_settings.py . build/bin --update.
 */
#include "settings_internal.h"

const char *const settings_names[] = {
"""


def commands(bin_dir):
    """Every program and every command of those that have some."""
    found = ["penstock-broker", "penstock-worker", "penstock-gateway"]
    for program in ("penstock", "penstock-engine"):
        text = subprocess.run([bin_dir / program, "--help"], capture_output=True, text=True, check=True).stdout
        found += [f"{program} {name}" for name in re.findall(r"^  ([a-z][a-z-]*) +\S", text, re.M) if name not in ("help", "version")]
    return found


def names_text(bin_dir):
    names = set(SCRIPTS) | {"CONFIG"}
    for command in commands(bin_dir):
        names |= set(re.findall(r"\| `PENSTOCK_(\w+)` \|", printed(bin_dir, command)))
        program, *rest = command.split()
        names |= set(re.findall(r"\[PENSTOCK_(\w*CONFIG)\]", subprocess.run([bin_dir / program, *rest, "--help"], capture_output=True, text=True).stdout))
    return NAMES_HEAD + "".join(f'    "{name}",\n' for name in sorted(names)) + "};\nconst size_t settings_names_count = sizeof settings_names / sizeof *settings_names;\n"


def compare_tables(settings, bin_dir):
    """The tables that differ from what their programs print, and the number of all."""
    found = [(m.group(2), m.group(3)) for m in REGION.finditer(settings.read_text())]
    return [f"the table of {command} in {settings.name} is not what the program prints; run with --update"
            for command, table in found if table != printed(bin_dir, command)], len(found)


def check_readme(readme):
    text = readme.read_text()
    bad = [f"{readme.name} names {name}, which is not there"
           for name in [*NAMED_FILE.findall(text), *LINK.findall(text)] if not (readme.parent / name).exists()]
    if text.count("\n") > LINES_MAX:
        bad.append(f"{readme.name} has {text.count(chr(10))} lines, more than {LINES_MAX}")
    return bad


def main():
    source, bin_dir = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    settings, names = source / "deploy/SETTINGS.md", source / "proto/system/settings_names.c"
    if "--update" in sys.argv:
        settings.write_text(REGION.sub(lambda m: m.group(1) + printed(bin_dir, m.group(2)) + m.group(4), settings.read_text()))
        names.write_text(names_text(bin_dir))
        return 0
    bad, tables = compare_tables(settings, bin_dir)
    if tables == 0:
        bad.append(f"{settings.name} has no table between marks")
    if names.read_text() != names_text(bin_dir):
        bad.append(f"{names.name} does not hold the variables that the programs read; run with --update")
    bad += check_readme(source / "README.md")
    for text in bad:
        print(text)
    print(f"{max(tables + 2 - len(bad), 0)} passed, {len(bad)} failed, 0 skipped")
    return len(bad) > 0


if __name__ == "__main__":
    sys.exit(main())
