#!/usr/bin/env python3
"""The settings tables of the top README are those the programs print, and the files it names exist. So do the variables of proto/settings_names.c.

    readme_settings.py README BIN_DIR [--update]

Between `<!-- settings PROGRAM -->` and `<!-- end settings -->` stands the output of `PROGRAM --settings-markdown`; --update writes it there, and
proto/settings_names.c anew.
The last line is `N passed, N failed, N skipped`.
"""
import re
import subprocess
import sys
from pathlib import Path

NAMED_FILE = re.compile(r"`([\w-]+(?:/[\w.-]+)*/[\w.-]+\.(?:[chdp]|py|sh|md))`")
REGION = re.compile(r"(<!-- settings ([\w -]+?) -->\n)(.*?)(<!-- end settings -->)", re.S)


def printed(bin_dir, command):
    program, *rest = command.split()
    return subprocess.run([bin_dir / program, *rest, "--settings-markdown"], capture_output=True, text=True, check=True).stdout


SCRIPTS = {"MODELS_DIR", "SHARED", "SLOW"}  # variables of compose.yaml and of tests that are nearly called as one of a program
NAMES_HEAD = """/*
 * settings_names.c - every environment variable that a program of Penstock reads, or one of its scripts, without the prefix PENSTOCK_.
 *
 * Written by tests/e2e/readme_settings.py README.md build/bin --update.
 */
#include "settings_internal.h"

const char *const settings_names[] = {
"""


def commands(bin_dir):
    """Every program and every command of those that have some."""
    found = ["penstock-broker", "penstock-worker"]
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


def main():
    readme, bin_dir = Path(sys.argv[1]), Path(sys.argv[2])
    text, names = readme.read_text(), readme.parent / "proto/settings_names.c"
    if "--update" in sys.argv:
        readme.write_text(REGION.sub(lambda m: m.group(1) + printed(bin_dir, m.group(2)) + m.group(4), text))
        names.write_text(names_text(bin_dir))
        return 0
    passed = failed = 0
    if names.read_text() != names_text(bin_dir):
        failed += 1
        print(f"{names.name} does not hold the variables that the programs read; run with --update")
    for match in REGION.finditer(text):
        if match.group(3) == printed(bin_dir, match.group(2)):
            passed += 1
        else:
            failed += 1
            print(f"the table of {match.group(2)} in {readme.name} is not what the program prints; run with --update")
    failed += passed + failed == 0
    absent = [name for name in NAMED_FILE.findall(text) if not (readme.parent / name).exists()]
    for name in absent:
        print(f"{readme.name} names {name}, which is not there")
    passed, failed = passed + (not absent), failed + len(absent)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
