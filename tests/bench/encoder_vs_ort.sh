#!/usr/bin/env bash
# encoder_vs_ort.sh BUILD_DIR [--rounds N] [--seconds N] - writes the MiniLM-shaped encoder, makes the peer's environment, runs encoder_vs_ort.py.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../support/venv.sh"
build=${1:?usage: encoder_vs_ort.sh BUILD_DIR [--rounds N] [--seconds N]}
python=$(venv_python bench numpy onnx onnxruntime)
model=$(mktemp --suffix .onnx)
trap 'rm -f "$model"' EXIT
"$build/tests/make_encoder" "$model"
"$python" "$here/encoder_vs_ort.py" "$model" "$@"
