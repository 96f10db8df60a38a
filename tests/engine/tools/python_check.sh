#!/usr/bin/env bash
# python_check.sh BIN_DIR SCRIPT ENVIRONMENT PACKAGE... - makes the environment once and runs SCRIPT (of this folder) on penstock-engine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../support/venv.sh"
bin=${1:?usage: python_check.sh BIN_DIR SCRIPT ENVIRONMENT PACKAGE...} script=${2:?SCRIPT}
shift 2
if ! python=$(venv_python "$@"); then
    echo "[SKIP] $script: its Python packages could not be installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
exec "$python" "$here/$script" "$bin/penstock-engine"
