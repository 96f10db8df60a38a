#!/usr/bin/env python3
"""Writes small pictures of every kind into a folder: what mutate and the fuzzer begin with.

    seeds.py FOLDER [--count N]        needs Pillow and NumPy
"""
import random
import sys
from pathlib import Path

import pillow


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder, count = Path(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 60
    rng = random.Random(2)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        kind = (pillow.jpeg, pillow.png, pillow.webp)[number % 3]
        data, _ = kind(rng, rng.randrange(1, 64), rng.randrange(1, 64))
        (folder / f"{kind.__name__}{number}").write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
