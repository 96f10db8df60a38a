"""Makes penstock/schema.binpb from proto/*.proto when the wheel is built; everything else stands in pyproject.toml.

The messages' descriptors are one file that every version of protobuf reads: code of one protoc would be bound to the versions beside it.
`python setup.py schema FILE` writes it to FILE (the build does so for the tests).
"""
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = ["tensor.proto", "job.proto", "worker.proto", "control.proto"]


def make_schema(to):
    found = HERE.parent.parent / "proto"
    kept = HERE / "penstock" / "schema.binpb"
    if not (found / NAMES[0]).exists():  # a source package has it made
        if not kept.exists():
            sys.exit("neither ../../proto nor penstock/schema.binpb is there: build from Penstock's repository")
        if kept != to:
            shutil.copyfile(kept, to)
        return
    protoc = shutil.which("protoc")
    words = [protoc] if protoc else [sys.executable, "-m", "grpc_tools.protoc"]
    subprocess.run([*words, f"--proto_path={found}", f"--descriptor_set_out={to}", *NAMES], check=True)


if sys.argv[1:2] == ["schema"]:
    make_schema(Path(sys.argv[2]).resolve())
else:
    from setuptools import setup
    from setuptools.command.build_py import build_py
    from setuptools.command.sdist import sdist

    class BuildWithSchema(build_py):
        def run(self):
            super().run()
            make_schema(Path(self.build_lib).resolve() / "penstock" / "schema.binpb")

    class SourceWithSchema(sdist):
        def make_release_tree(self, base_dir, files):
            super().make_release_tree(base_dir, files)
            make_schema(Path(base_dir).resolve() / "penstock" / "schema.binpb")

    setup(cmdclass={"build_py": BuildWithSchema, "sdist": SourceWithSchema})
