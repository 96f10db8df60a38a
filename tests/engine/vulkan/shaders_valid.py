#!/usr/bin/env python3
"""shaders_valid.py SHADERS_DIR - every shader's SPIR-V through spirv-val, those with cooperative matrices in every size that a device may list, too: no device of
the tests takes these, so that no driver and no validation layer looks at them. Other constants are seen by the layer whenever a test makes a pipeline. Exit code 77:
there is no spirv-val here."""
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

MATRIX_IDS = (10, 11, 12)  # constant_id of CM, CN, CK in ops/conv_cm.glsl
SIZES = ((16, 16, 16), (16, 8, 16), (16, 8, 8), (8, 8, 16), (32, 8, 16), (8, 32, 16))  # rows, columns, depth of one matrix


def valid(path):
    result = subprocess.run(["spirv-val", "--target-env", "vulkan1.2", path], capture_output=True, text=True)
    return "" if result.returncode == 0 else result.stderr.strip() or f"exit code {result.returncode}"


def specialised(path, values):
    """The module with these constants, by id, as the driver would see it."""
    to = path.with_suffix(".special.spv")
    wanted = " ".join(f"{constant}:{value}" for constant, value in values.items())
    subprocess.run(["spirv-opt", path, f"--set-spec-const-default-value={wanted}", "--freeze-spec-const", "-o", to], check=True)
    return to


def main():
    if shutil.which("spirv-val") is None or shutil.which("spirv-opt") is None:
        print("[SKIP] spirv-val and spirv-opt (spirv-tools) are not here")
        return 77
    count, failed = 0, 0
    with tempfile.TemporaryDirectory() as work:
        for source in sorted(pathlib.Path(sys.argv[1]).glob("*.inc")):
            words = [int(word, 0) for word in re.findall(r"0x[0-9A-Fa-f]+|\d+", source.read_text())]
            module = pathlib.Path(work) / (source.stem + ".spv")
            module.write_bytes(struct.pack(f"<{len(words)}I", *words))
            modules = [(source.stem, module)]
            if source.stem == "conv_cm_f16":
                modules += [(f"conv_cm_f16 {size}", specialised(module, dict(zip(MATRIX_IDS, size)))) for size in SIZES]
            for name, path in modules:
                why = valid(path)
                count += 1
                failed += why != ""
                print(f"{name}: {why}" if why else "", end="\n" if why else "")
    print(f"{count} modules, {failed} not valid")
    return 1 if failed or count < 80 else 0


sys.exit(main())
