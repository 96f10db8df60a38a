#!/usr/bin/env python3
"""The settings tables of the top README are those the programs print, and the files it names exist.

    readme_settings.py README BIN_DIR [--update]

Between `<!-- settings PROGRAM -->` and `<!-- end settings -->` stands the output of `PROGRAM --settings-markdown`; --update writes it there.
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


def main():
    readme, bin_dir = Path(sys.argv[1]), Path(sys.argv[2])
    text = readme.read_text()
    if "--update" in sys.argv:
        readme.write_text(REGION.sub(lambda m: m.group(1) + printed(bin_dir, m.group(2)) + m.group(4), text))
        return 0
    passed = failed = 0
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
