"""What `mutants.py --self-check` plants: faults whose verdict is known. A tool that runs too few tests, or runs the build's programs in the place of the
changed ones, says "escaped" of a crash; one whose tests fail by themselves says "caught" of a line that does nothing."""
import os

from mutants_bench import SOURCE

CRASH = "__builtin_trap();"
NOTHING = "{ static volatile int planted; planted = planted + 1; }"
UNLINKED = "{ extern void nothing_has_this(void); nothing_has_this(); }"
CAUGHT = ("test", "assert", "simulation", "time-out")
# folder: (file, a statement in it, what the crash is called there: what runs in tests themselves, and what only programs run)
PLACES = {
    "broker": [("broker/store/breaker.c", "breaker->open = false;", "unit"), ("broker/main.c", "memory_tune();", "program")],
    "worker": [("worker/config/pbtxt.c", "space_skip(r);", "unit"), ("worker/main.c", "signals_install();", "program")],
    "engine/run": [("engine/run/source.c", "free(s->folder);", "unit")],
}


def planted(Fault, path, statement, what, kind):
    """The fault that puts WHAT before the first line of the file that is this statement."""
    for number, line in enumerate((SOURCE / path).read_text().split("\n"), 1):
        if line.strip() == statement:
            return Fault(path, number, kind, line, line.replace(statement, what + " " + statement))
    raise SystemExit(f"mutants_self.py: {path} has no line '{statement}' any more: name another in PLACES")


LEAVES = "echo $$; (setsid sh -c 'echo $$; setsid sleep 1000 & echo $!; exec sleep 1000' &) ; sleep {}; exit 3"  # as a supervised worker leaves its test


def leaves_nothing(bench):
    """How many verdicts about commands that leave processes behind are wrong."""
    wrong = 0
    for seconds, wall, expected in ((0.2, 20, 3), (1000, 0.5, None)):
        status, output, _ = bench.run(["sh", "-c", LEAVES.format(seconds)], 10, wall, None)
        left = [process for process in output.split() if os.path.exists(f"/proc/{process}")]
        right = status == expected and len(output.split()) == 3 and not left
        wrong += not right
        print(f"{'right' if right else 'WRONG'}: a command that leaves processes behind: status {status}, {len(left)} of 3 are left", flush=True)
    return wrong


def self_check(bench, tests, judged, Fault):
    """Plants them in the folders of TESTS; judged(bench, folder, fault) is (verdict, what). 0 when each verdict is as expected."""
    wrong = leaves_nothing(bench)
    for folder in tests:
        for path, statement, where in PLACES[folder]:
            expected = [("a crash", CRASH, CAUGHT)]
            expected += [("nothing", NOTHING, ("escaped",)), ("a call to nowhere", UNLINKED, ("unlinked",))] if where == "unit" else []
            if where == "program" and not bench.mounts:
                print(f"{path}: left out, no mounts here")
                continue
            for kind, what, verdicts in expected:
                fault = planted(Fault, path, statement, what, kind)
                verdict, said = judged(bench, folder, fault)
                right = verdict in verdicts and "no test" not in said
                wrong += not right
                print(f"{'right' if right else 'WRONG'}: {path}:{fault.line} with {kind}: {verdict}, {said}", flush=True)
    print(f"self-check: {wrong} verdicts are wrong")
    return 1 if wrong else 0
