#!/usr/bin/env bash
# numpy_check.sh BIN_DIR - makes the environment once and runs numpy_check.py on it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../support/venv.sh"
bin=${1:?usage: numpy_check.sh BIN_DIR}
if ! python=$(venv_python onnx numpy onnx); then
    echo "[SKIP] no Python packages: NumPy and onnx could not be installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
exec "$python" "$here/numpy_check.py" "$bin/penstock-engine"
