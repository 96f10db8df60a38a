#!/usr/bin/env bash
# onednn.sh BUILD_DIR [--turns N] [--rounds N] [--seconds S] [--precision f32|bf16] [--shapes FILE] MODEL.onnx... - compiles primitives.c, runs onednn.py (README.md).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../usage.sh"
. "$here/../../support/venv.sh"
build=${1:?usage: onednn.sh BUILD_DIR [options] MODEL.onnx...}
shift
if ! echo '#include <dnnl.h>' | cc -E - >/dev/null 2>&1; then
    echo "oneDNN's header is missing: apt-get install libdnnl-dev" >&2
    exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -std=c17 -O2 -Wall -Wextra -o "$folder/primitives" "$here/primitives.c" -ldnnl
python=${PYTHON:-$(venv_python onednn onnx)}
"$python" "$here/onednn.py" "$folder/primitives" "$build" "$@"
