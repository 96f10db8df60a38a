"""Makes the package penstock of client-lib/python importable, or skips the test that imports this where what it needs cannot be had.

It needs pyzmq, numpy, protobuf and xxhash: for this Python, or in the environment that tests/run.sh makes (tests/support/venv.sh: clients); and protoc, which the build needs, too.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PYTHON = SOURCE / "client-lib/python"

try:
    import google.protobuf  # noqa: F401
    import numpy  # noqa: F401
    import xxhash  # noqa: F401
    import zmq  # noqa: F401
except ImportError as missing:
    other = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock/clients/bin/python"
    if other.exists() and not os.environ.get("PENSTOCK_PYTHON_SECOND"):
        os.environ["PENSTOCK_PYTHON_SECOND"] = "1"
        os.execv(other, [str(other), *sys.argv])
    print(f"skipped: {missing}; pip install pyzmq numpy protobuf xxhash")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

_folder = tempfile.TemporaryDirectory()
shutil.copytree(PYTHON / "penstock", Path(_folder.name) / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
subprocess.run([sys.executable, PYTHON / "setup.py", "schema", Path(_folder.name) / "penstock/schema.binpb"], check=True)
sys.path.insert(0, _folder.name)

passed = failed = 0


def check(condition, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print(f"FAILED: {what} {seen}", flush=True)


def end():
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.stdout.flush()
    os._exit(failed > 0) if failed else sys.exit(0)
