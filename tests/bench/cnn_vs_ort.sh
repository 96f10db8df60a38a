#!/usr/bin/env bash
# cnn_vs_ort.sh BUILD_DIR [--rounds N] [--seconds N] - makes the models and the peer's environment in the cache folder, runs cnn_vs_ort.py.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../support/venv.sh"
build=${1:?usage: cnn_vs_ort.sh BUILD_DIR [--rounds N] [--seconds N]}
shift
python=$(venv_python bench numpy onnx onnxruntime)
models=${XDG_CACHE_HOME:-$HOME/.cache}/penstock/bench-models
for name in mobilenet_v2 resnet50; do
    [ -f "$models/$name.onnx" ] || "$python" "$here/make_models.py" "$models" $name
done
exec "$python" "$here/cnn_vs_ort.py" "$build" --model "$models/mobilenet_v2.onnx" --model "$models/resnet50.onnx" "$@"
