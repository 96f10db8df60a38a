#!/usr/bin/env bash
# load_peers.sh BUILD_DIR FOLDER|MODEL... [options] - makes the peers' environment in the cache folder, runs load_peers.py (its --help has the options).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../support/venv.sh"
python=$(venv_python peers numpy onnx onnxruntime openvino ai-edge-litert)
exec "$python" "$here/load_peers.py" "$@"
