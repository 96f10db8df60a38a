#!/usr/bin/env python3
"""Each rule of rooms.py has a small tree that breaks it: a rule that lets its tree pass is inert. The last line is `N passed, N failed, N skipped`."""
import subprocess
import sys
import tempfile
from pathlib import Path

import check
import rooms

GOOD = {
    "broker/CMakeLists.txt": "room(low a)\nroom(high b)\nroom(lifecycle states)\n",
    "broker/low/a.h": "int a(void);\n",
    "broker/low/a.c": '#include "a.h"\nint a(void) { return 1; }\n',
    "broker/high/b.h": "struct b { int n; };\nint b(void);\n",
    "broker/high/b.c": '#include "a.h"\n#include "b.h"\nint b(void) { return a(); }\n',
    "broker/main.c": "int b(void);\nvoid set(int *job);\nint main(void) { int n = b(); set(&n); return n; }\n",
    "broker/lifecycle/states.c": "void set(int *job); void set(int *job) { *job = 1; }\n",
}
passed = failed = 0


def judge(name, files, expected):
    """expected: a part of the one complaint, or None."""
    global passed, failed
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, text in {**GOOD, **files}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        build = root / "build"
        for source in sorted((root / "broker").rglob("*.c")) if name != "a tree that is not built" else []:
            target = build / "broker/CMakeFiles/broker_core.dir" / f"{source.relative_to(root / 'broker')}.o"
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["gcc", "-w", "-c", "-I", str(root / "broker/low"), "-I", str(root / "broker/high"), "-o", str(target), str(source)], check=True)
        tree = check.Tree(root)
        said = check.check_rooms(tree, build)
        if name == "a circle by calls":
            said = [" ".join(p.stem for p in circle) for circle in rooms.circles(root, build, "broker")]
        good = not said if expected is None else len(said) == 1 and expected in said[0]
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"{name}: expected {expected!r}, got {said}")


def main():
    judge("a tree in order", {}, None)
    judge("an include upward", {"broker/low/a.c": '#include "a.h"\n#include "b.h"\nint a(void) { return 1; }\n'}, "includes b.h of high")
    judge("a symbol upward, by a declaration of its own", {"broker/low/a.c": "int b(void);\nint a(void) { return b(); }\n", "broker/high/b.c": '#include "b.h"\nint b(void) { return 2; }\n',
           "broker/main.c": "int a(void);\nvoid set(int *job);\nint main(void) { int n = a(); set(&n); return n; }\n"},
          "needs b of broker/high/b.c")
    judge("a file in no room", {"broker/attic/c.c": "int c;\n"}, "stands in no room")
    judge("a state written elsewhere", {"broker/high/b.c": '#include "a.h"\n#include "b.h"\nvoid move(struct { int state; } *job);\nint b(void) { return a(); }\n/*\n    job->state = JOB_QUEUED;\n*/\n'},
          "writes what only broker/lifecycle/")
    judge("a frame sent past the outbox", {"broker/low/a.h": "int a(void); /*\n    broker->workers->part(broker->workers, &frame, false);\n*/\n"}, "may write")
    judge("a count written elsewhere", {"broker/low/a.h": "int a(void); /*\n    broker->queued_bytes += 1;\n*/\n"}, "writes what only broker/lifecycle/")
    judge("two structs of one name", {"broker/low/a.h": "struct b {\n    int n;\n};\nint a(void);\n", "broker/high/b.h": "struct b {\n    int n;\n};\nint b(void);\n", "broker/high/b.c": "int b(void) { return 1; }\n"},
          "struct b is defined in")
    judge("a function that nobody calls", {"broker/high/b.c": '#include "a.h"\n#include "b.h"\nint b(void) { return a(); }\nint left_over(void) { return 3; }\n'}, "nobody calls left_over")
    judge("the same where sanitizers leave tests out", {"broker/high/b.c": '#include "a.h"\n#include "b.h"\nint b(void) { return a(); }\nint left_over(void) { return 3; }\n',
                                                        "build/CMakeCache.txt": "PENSTOCK_SANITIZE:STRING=address\n"}, None)
    judge("a tree that is not built", {}, "nothing of broker/ is built")
    judge("a circle by calls", {"broker/low/a.c": "int b(void);\nint a(void) { return b(); }\n"}, "b a")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
