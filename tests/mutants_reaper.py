"""mutants_reaper.py COMMAND...: runs a command of mutants.py and leaves none of its processes behind.

A process that a test has started may leave the test's group, as a supervised worker does, and dials the port of a later test. Such a process becomes a
child of this one when its own parent has ended. SIGTERM ends the command and all of its processes. The exit status is the command's, as a shell gives it.
"""
import ctypes
import os
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def descendants():
    """The processes below this one, as /proc tells now; those that have ended are none."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                state, parent = stat.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has ended
        if state not in "ZX":
            parents[int(name)] = int(parent)
    below, found = {os.getpid()}, set()
    while below:
        below = {process for process, parent in parents.items() if parent in below}
        found |= below
    return found


def reap():
    """Waits for what has ended. Whether there are children left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def main():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGCHLD])
        try:
            os.execvp(sys.argv[1], sys.argv[1:])
        finally:
            os._exit(127)
    status = None
    while status is None and signal.sigwait([signal.SIGTERM, signal.SIGCHLD]) == signal.SIGCHLD:
        ended, status_now = -1, 0
        while ended and status is None:
            ended, status_now = os.waitpid(-1, os.WNOHANG)
            status = status_now if ended == child else None
    while reap():
        for process in descendants():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGTERM
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
