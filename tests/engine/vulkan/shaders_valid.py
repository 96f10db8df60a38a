#!/usr/bin/env python3
"""shaders_valid.py SHADERS_DIR - every shader's SPIR-V through spirv-val, those with cooperative matrices in every size that a device may list, too: no device of
the tests takes these, so that no driver and no validation layer looks at them. Other constants are seen by the layer whenever a test makes a pipeline. Modules of
ops/kept need a spirv-val of 2025.2 or newer: without one they are named, not looked at. Exit code 77: there is no spirv-val here.
PENSTOCK_SPIRV_VAL, PENSTOCK_SPIRV_OPT: other programs than those of the path."""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

# Of the shaders with matrices: constant_id of CM, CN, CK, and rows, columns, depth of one matrix.
HALVES = ((16, 16, 16), (16, 8, 16), (16, 8, 8), (8, 8, 16), (32, 8, 16), (8, 32, 16))
BYTES = ((16, 16, 32), (16, 8, 32), (8, 8, 32), (16, 16, 16), (8, 8, 8), (32, 32, 64))
MATRICES = {"conv_cm_f16": ((10, 11, 12), HALVES), "nbits_cm_f16": ((10, 11, 12), HALVES), "attention_cm_f16": ((15, 16, 17), ((16, 16, 16), (16, 8, 16), (16, 8, 8), (8, 8, 16), (8, 16, 16), (8, 8, 8))),
            "qconv_cm_f32": ((11, 12, 13), BYTES),
            "conv_cm_bf16_f32": ((10, 11, 12), HALVES)}
TILE_IDS = (8, 9, 10, 11)  # constant_id of INVOCATIONS, ROWS, OUTS, DEPTH in ops/conv_cm2.glsl
TILES = ((256, 128, 256, 64), (256, 256, 128, 64), (128, 64, 64, 64), (8, 32, 32, 32))
KEPT_SINCE = (2025, 2)  # spirv-val knows SPV_NV_cooperative_matrix2 and SPV_KHR_bfloat16
VAL, OPT = os.environ.get("PENSTOCK_SPIRV_VAL", "spirv-val"), os.environ.get("PENSTOCK_SPIRV_OPT", "spirv-opt")


def version_of(program):
    said = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r"SPIRV-Tools v(\d+)\.(\d+)", said.stdout + said.stderr)
    return tuple(map(int, found.groups())) if found else (0, 0)


def valid(path):
    newer = path.read_bytes()[4:8] == struct.pack("<I", 0x00010600)
    result = subprocess.run([VAL, "--target-env", "vulkan1.3" if newer else "vulkan1.2", path], capture_output=True, text=True)
    return "" if result.returncode == 0 else result.stderr.strip() or f"exit code {result.returncode}"


def specialised(path, ids, values):
    """The module with these constants, by id, as the driver would see it; each in a file of its own."""
    to = path.with_suffix("." + "x".join(map(str, values)) + ".spv")
    wanted = " ".join(f"{constant}:{value}" for constant, value in zip(ids, values))
    subprocess.run([OPT, path, f"--set-spec-const-default-value={wanted}", "--freeze-spec-const", "-o", to], check=True)
    return to


def main():
    if shutil.which(VAL) is None or shutil.which(OPT) is None:
        print("[SKIP] spirv-val and spirv-opt (spirv-tools) are not here")
        return 77
    count, failed, unseen = 0, 0, []
    kept_known = min(version_of(VAL), version_of(OPT)) >= KEPT_SINCE
    with tempfile.TemporaryDirectory() as work:
        for source in sorted(pathlib.Path(sys.argv[1]).glob("*.inc")):
            words = [int(word, 0) for word in re.findall(r"0x[0-9A-Fa-f]+|\d+", re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.S))]
            module = pathlib.Path(work) / (source.stem + ".spv")
            module.write_bytes(struct.pack(f"<{len(words)}I", *words))
            modules = [(source.stem, module)]
            if words[1] == 0x00010600 and not kept_known:
                unseen.append(source.stem)
                continue
            ids, sizes = MATRICES.get(source.stem, ((), ()))
            modules += [(f"{source.stem} {size}", specialised(module, ids, size)) for size in sizes]
            if source.stem.startswith("conv_cm2") and kept_known and "scalar" not in source.stem:
                modules += [(f"{source.stem} {tile}", specialised(module, TILE_IDS, tile)) for tile in TILES]
            for name, path in modules:
                why = valid(path)
                count += 1
                failed += why != ""
                print(f"{name}: {why}" if why else "", end="\n" if why else "")
    if unseen:
        print(f"not looked at, spirv-val is older than {KEPT_SINCE[0]}.{KEPT_SINCE[1]}: {', '.join(unseen)}")
    print(f"{count} modules, {failed} not valid")
    return 1 if failed or count < 80 else 0


sys.exit(main())
