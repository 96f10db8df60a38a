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
# Rooms that stand in one another.
ENGINE = {
    "engine/CMakeLists.txt": "set(rooms graph backend backend/fast)\n",
    "engine/graph/shape.h": "int shape(void);\n",
    "engine/graph/shape.c": '#include "graph/shape.h"\nstruct pool {\n    int n;\n};\nint shape(void) { return 1; }\n',
    "engine/backend/contract.h": "int contract(void);\n",
    "engine/backend/contract.c": '#include "backend/contract.h"\n#include "graph/shape.h"\nint contract(void) { return shape(); }\n',
    "engine/backend/fast/fast.h": "int fast(void);\n",
    "engine/backend/fast/fast.c": '#include "backend/fast/fast.h"\n#include "backend/contract.h"\nstruct pool {\n    int n;\n};\nint fast(void) { return contract(); }\n',
    "engine/main.c": "int fast(void);\nint main(void) { return fast(); }\n",
}
passed = failed = 0


def circle_of(count):
    """Files of one room that call each other round."""
    files = {f"broker/high/c{i}.c": f"int c{(i + 1) % count}(void);\nint c{i}(void);\nint c{i}(void) {{ return c{(i + 1) % count}(); }}\n" for i in range(count)}
    return files


def judge(name, files, expected):
    """expected: a part of the one complaint, or None."""
    global passed, failed
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for path, text in {**GOOD, **files}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        build = root / "build"
        for source in sorted(root.rglob("*.c")) if name != "a tree that is not built" else []:
            folder, inside = source.relative_to(root).parts[0], source.relative_to(root / source.relative_to(root).parts[0])
            target = build / folder / f"CMakeFiles/{folder}_core.dir" / f"{inside}.o"
            target.parent.mkdir(parents=True, exist_ok=True)
            paths = [word for path in ("broker/low", "broker/high", "engine") for word in ("-I", str(root / path))]
            subprocess.run(["gcc", "-w", "-c", *paths, "-o", str(target), str(source)], check=True)
        tree = check.Tree(root)
        said = check.check_rooms(tree, build) + check.check_backend_names(tree)
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
    program = {"broker/tool/CMakeLists.txt": "", "broker/tool/t.h": "int t(void);\n", "broker/tool/t.c": '#include "b.h"\n#include "t.h"\nint main(void) { return b(); }\n'}
    judge("a program above the rooms", program, None)
    judge("a room that includes a program", {**program, "broker/high/b.c": '#include "a.h"\n#include "b.h"\n#include "../tool/t.h"\nint b(void) { return a(); }\n'}, "includes ../tool/t.h of broker/ itself")
    judge("a client's job whose state is written elsewhere", {"client-lib/session/x.h": "/*\n    job->state = JOB_SENT;\n*/\n"}, "writes what only client-lib/state/")
    judge("a state written elsewhere", {"broker/high/b.c": '#include "a.h"\n#include "b.h"\nvoid move(struct { int state; } *job);\nint b(void) { return a(); }\n/*\n    job->state = JOB_QUEUED;\n*/\n'},
          "writes what only broker/lifecycle/")
    judge("a frame sent past the outbox", {"broker/low/a.h": "int a(void); /*\n    broker->workers->part(broker->workers, &frame, false);\n*/\n"}, "may write")
    judge("a count written elsewhere", {"broker/low/a.h": "int a(void); /*\n    broker->queued_bytes += 1;\n*/\n"}, "writes what only broker/lifecycle/")
    judge("two structs of one name", {"broker/low/a.h": "struct b {\n    int n;\n};\nint a(void);\n", "broker/high/b.h": "struct b {\n    int n;\n};\nint b(void);\n", "broker/high/b.c": "int b(void) { return 1; }\n"},
          "struct b is defined in")
    judge("a function that nobody calls", {"broker/high/b.c": '#include "a.h"\n#include "b.h"\nint b(void) { return a(); }\nint left_over(void) { return 3; }\n'}, "nobody calls left_over")
    judge("the same where sanitizers leave tests out", {"broker/high/b.c": '#include "a.h"\n#include "b.h"\nint b(void) { return a(); }\nint left_over(void) { return 3; }\n',
                                                        "build/CMakeCache.txt": "PENSTOCK_SANITIZE:STRING=address\n"}, None)
    judge("a function that only a comment of its file names", {"broker/high/b.c": '#include "a.h"\n#include "b.h"\nint b(void) { return a(); }\n/* left_over is near */\nint left_over(void) { return 3; }\n'},
          "nobody calls left_over")
    judge("a function whose name another folder uses for its own", {"broker/high/b.c": '#include "a.h"\n#include "b.h"\nint b(void) { return a(); }\nint left_over(void) { return 3; }\n',
                                                                    "worker/w.c": "int left_over(void) { return 4; }\n", "worker/main.c": "int left_over(void);\nint main(void) { return left_over(); }\n"},
          "broker/high/b.c: nobody calls left_over")
    judge("an inline function that nobody calls", {"broker/low/a.h": "int a(void);\n/* left_over: see below */\nstatic inline int left_over(void)\n{\n    return 3;\n}\n"},
          "broker/low/a.h: nobody calls left_over")
    judge("nine parameters", {"broker/low/a.h": "int a(void);\nint nine(int a, int b, int c, int d,\n         int (*e)(int, int), int f, int g, int h, int i);\n"}, "nine has 9 parameters")
    judge("eight parameters", {"broker/low/a.h": "int a(void);\nint eight(int a, int b, int c, int d,\n          int (*e)(int, int), int f, int g, int h);\n"}, None)
    judge("a tree that is not built", {}, "nothing of broker/ is built")
    judge("rooms in rooms, in order", ENGINE, None)
    judge("an include of the room within", {**ENGINE, "engine/backend/contract.h": '#include "backend/fast/fast.h"\nint contract(void);\n'},
          "engine/backend/contract.h: includes backend/fast/fast.h of backend/fast")
    judge("an include of a backend by the graph", {**ENGINE, "engine/graph/shape.h": '#include "backend/fast/fast.h"\nint shape(void);\n'}, "of backend/fast, a room above")
    judge("a backend's name in the graph", {**ENGINE, "engine/graph/shape.c": 'const char *name = "fast";\n#include "graph/shape.h"\nint shape(void) { return 1; }\n'},
          'engine/graph/shape.c: says "fast": only engine/backend/fast knows this name')
    judge("a backend's fact in a program", {**ENGINE, "engine/main.c": 'const char *fact = "fast.tuned";\nint fast(void);\nint main(void) { return fast(); }\n'}, 'says "fast.')
    judge("a backend's name in its folder and in comments", {**ENGINE, "engine/backend/fast/fast.c": ENGINE["engine/backend/fast/fast.c"] + 'const char *name = "fast";\n',
                                                             "engine/main.c": '/* "fast" */\n' + ENGINE["engine/main.c"]}, None)
    judge("a backend's function in the graph", {**ENGINE, "engine/graph/shape.c": "int free_of(void);\nint shape(void) { return free_of(); }\n",
                                                "engine/backend/fast/free.c": "int free_of(void) { return 2; }\n"}, "needs free_of of engine/backend/fast/free.c")
    judge("a folder that is no room", {**ENGINE, "engine/attic/c.c": "int c;\n"}, "stands in no room that engine/CMakeLists.txt lists")
    judge("a circle of five", circle_of(5), None)
    judge("a circle of six", circle_of(6), "broker/: 6 files need each other in a circle by calls, 5 are the most")
    judge("a circle that is too large", {"client-lib/x.c": "int y(void);\nint x(void) { return y(); }\n", "client-lib/y.c": "int x(void);\nint y(void) { return x(); }\n"},
          "client-lib/: 2 files need each other in a circle by calls, 1 are the most: x y")
    judge("a circle by calls", {"broker/low/a.c": "int b(void);\nint a(void) { return b(); }\n"}, "b a")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
