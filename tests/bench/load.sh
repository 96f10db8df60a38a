#!/usr/bin/env bash
# load.sh BUILD_DIR [--rounds N] - load time and memory after load of every real model of ../shared and of the bench models; see load.py.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../support/venv.sh"
build=${1:?usage: load.sh BUILD_DIR [--rounds N]}
shift
python=$(venv_python bench numpy onnx onnxruntime)
models=${XDG_CACHE_HOME:-$HOME/.cache}/penstock/bench-models
for name in mobilenet_v2 resnet50; do
    [ -f "$models/$name.onnx" ] || "$python" "$here/make_models.py" "$models" $name
done
exec "$python" "$here/load.py" "$build" "$here/../../../shared/models" "$models" "$@"
