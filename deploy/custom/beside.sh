#!/usr/bin/env bash
# beside.sh - a custom build of BlazeFace beside TensorFlow.js' custom bundle and onnxruntime's wheel: bytes, and start-up to the first answer. By hand: it downloads both.
#
#   deploy/custom/beside.sh OUTPUT MODEL.json INPUT.bin MODEL.onnx     OUTPUT: what build.sh made; INPUT.bin: f32 of the model's input
#
# TensorFlow.js: tfjs-custom-module as its page says (the kernels are those that tf.profile names), then esbuild. onnxruntime: the wheel, and the same network as ONNX.
set -euo pipefail
[ $# = 4 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")") output=$(readlink -f "$1") model=$(readlink -f "$2") input=$(readlink -f "$3") onnx=$(readlink -f "$4")
runs=${BESIDE_RUNS:-11}
if [ -n "${BESIDE_WORK:-}" ]; then # kept for the next run
    work=$BESIDE_WORK
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work" && cd "$work"

if [ ! -e bundle.mjs ]; then
    echo '{"private": true}' >package.json
    npm install --ignore-scripts --no-audit --no-fund @tensorflow/tfjs@4.22.0 esbuild@0.21.5 >/dev/null 2>&1
    cat >config.json <<JSON
{"models": ["$model"], "backends": ["cpu"], "forwardModeOnly": true, "outputPath": "./custom_tfjs",
 "kernels": ["FusedConv2D", "DepthwiseConv2dNative", "Add", "Relu", "PadV2", "MaxPool", "Reshape", "Concat", "Identity", "Pack", "StridedSlice", "ExpandDims", "Cast"]}
JSON
    npx --no-install tfjs-custom-module --config config.json >/dev/null 2>&1
    cp "$here/beside/tfjs_app.mjs" app.mjs
    node "$here/beside/tfjs_bundle.mjs" "$work/app.mjs" "$work/custom_tfjs" "$work/bundle.mjs"
fi
if [ ! -e venv/done ]; then
    python3 -m venv venv
    venv/bin/pip install -q onnxruntime==1.20.1 numpy
    venv/bin/pip download -q --no-deps -d wheel onnxruntime==1.20.1
    touch venv/done
fi
cat >first.py <<'PY'
import sys
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
put = session.get_inputs()[0]
shape = [d if isinstance(d, int) and d > 0 else 1 for d in put.shape]
print("answer", session.run(None, {put.name: numpy.fromfile(sys.argv[2], "f4").reshape(shape)})[0].ravel()[0])
PY

# The median of several whole processes, in milliseconds.
median() {
    python3 - "$runs" "$@" <<'PY'
import statistics, subprocess, sys, time
times = []
for _ in range(int(sys.argv[1])):
    begin = time.monotonic()
    subprocess.run(sys.argv[2:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    times.append(1000 * (time.monotonic() - begin))
print(f"{statistics.median(times):.0f}")
PY
}
bytes_of() { du -sbL "$@" | awk '{ sum += $1 } END { print sum }'; }
name=$("$output/bin/penstock-engine" info --json "$model" | python3 -c 'import json, sys; print(json.load(sys.stdin)["models"][0]["inputs"][0]["name"])')
libraries=$("$output/bin/penstock-engine" sizes --json --map "$output/build/maps/penstock-engine.map" | python3 -c 'import json, sys; print(json.load(sys.stdin)["libraries_bytes"])')

printf '| | own bytes | with what it needs to run | start to first answer, ms |\n|---|---|---|---|\n'
own=$(bytes_of "$output/bin/penstock-engine")
printf '| penstock-engine, custom | %s | %s (shared libraries, libc too) | %s |\n' "$own" $((own + libraries)) \
    "$(median "$output/bin/penstock-engine" run --model "$model" --input "$name=$input" --output-dir "$work/out")"
own=$(bytes_of bundle.mjs)
printf '| TensorFlow.js 4.22 custom bundle, cpu | %s | %s (Node) | %s |\n' "$own" $((own + $(bytes_of "$(readlink -f "$(command -v node)")"))) "$(median node bundle.mjs "$model" "$input")"
own=$(bytes_of wheel/*.whl)
printf '| onnxruntime 1.20.1 wheel | %s | %s (installed, with NumPy) | %s |\n' "$own" "$(bytes_of venv/lib/python3*/site-packages/onnxruntime venv/lib/python3*/site-packages/numpy*)" \
    "$(median venv/bin/python first.py "$onnx" "$input")"
