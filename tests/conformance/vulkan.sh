#!/usr/bin/env bash
# vulkan.sh BIN_DIR [--quick] - golden cases of the models of ../shared and official ONNX cases on the vulkan backend, strictly placed, in f32 and with floats
# stored as f16, software devices allowed, under the validation layer: a message fails its case. What vulkan cannot take whole is not counted.
# The quantised models must equal their goldens to the last bit.
# --quick: a few small models; else all that pass today. The last line is `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
bin=${1:?usage: vulkan.sh BIN_DIR [--quick]} quick=${2:-}
shared=${PENSTOCK_SHARED:-../shared}
if [ ! -d "$shared" ]; then
    echo "[SKIP] no test data in $shared"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
if ! "$bin/penstock-engine" info --backend vulkan --vk-allow-software --vk-validate >/dev/null 2>&1; then
    echo "[SKIP] no Vulkan device with the validation layer here"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
passed=0 failed=0
options=() # of each call of run_set: further options of verify

# run_set NAME LEAST PRECISION PATH...: at least LEAST pass, nothing is wrong.
run_set() {
    local name=$1 least=$2 precision=$3 out p=0 f=0 s=0
    shift 3
    local expected=tests/conformance/expected-failures.txt
    out=$(timeout 1500 "$bin/penstock-engine" verify --backend vulkan --vk-allow-software --vk-validate --precision "$precision" \
        --jobs "$(nproc)" --expected $expected "${options[@]}" "$@" 2>/dev/null)
    read -r p f s < <(tail -n 1 <<<"$out" | sed 's/[a-z,]//g')
    grep '^fail' <<<"$out" | cut -f 2,4,6 | sed 's/^/  wrong: /'
    if [ "${p:-0}" -lt "$least" ]; then
        echo "  only ${p:-0} pass, $least are expected"
        f=$((${f:-0} + 1))
    fi
    printf '%-36s %d pass, %d fail, %d not counted\n' "$name, $precision" "${p:-0}" "${f:-0}" "${s:-0}"
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
}

# exact_set LEAST PATH...: as run_set, in f32 and in int8, and no result of int8 is off by anything.
exact_set() {
    local least=$1 exact named
    shift
    run_set "quantised models" "$least" f32 "$@"
    exact=$(timeout 600 "$bin/penstock-engine" verify --backend vulkan --vk-allow-software --precision int8 --jobs "$(nproc)" "$@" 2>/dev/null |
        awk -F'\t' '$1 == "pass" && $4 == 0 { n++ } END { print n + 0 }')
    printf '%-36s %d to the last bit\n' "quantised models, int8" "$exact"
    named=$("$bin/penstock-engine" info --backend vulkan --vk-allow-software --explain "$1"/model.* 2>/dev/null | grep -c 'vulkan: qconv.*summed in 32 bits')
    if [ "$named" = 0 ]; then
        echo "  --explain does not name the kernels of products of bytes"
        failed=$((failed + 1))
    fi
    if [ "$exact" -lt "$least" ]; then
        echo "  $least are expected"
        failed=$((failed + 1))
    fi
}

# halves_sets LEAST PATH...: files of 16-bit floats, and others, where products are of f16, by each way that the device has: f16_math, the loops that stand in for
# cooperative matrices, and the matrices themselves.
halves_sets() {
    local least=$1 offered
    shift
    offered=$("$bin/penstock-engine" info --backend vulkan --vk-allow-software 2>/dev/null | grep -A1 '^  vulkan ')
    [[ $offered == *f16_math* ]] && run_set "16-bit models" "$least" f16_math "$@"
    options=(--vk-kernels cm --vk-f16-trial off)
    [[ $offered == *f16_math* ]] && run_set "16-bit models, by matrices" "$least" f16_math "$@"
    options=()
    [[ $offered == *f16_mma* ]] && run_set "16-bit models" "$least" f16_mma "$@"
    return 0
}

small=("$shared"/models/onnx/{mnist_8,blazeface_front} "$shared"/models/tfjs/{blazeface,mobilenet_v2_050_96_features})
if [ "$quick" = --quick ]; then
    run_set "small models" 7 f32 "${small[@]}"
    run_set "small models" 5 f16_storage "${small[@]:0:3}"
    exact_set 18 "$shared"/models/*/*_{int8,u8}
    options=(--vk-f16-trial off)
    run_set "16-bit models" 2 f16_math "$shared/models/onnx/squeezenet11_fp16"
else
    run_set "models, simple kernels" 72 f32 "$shared"/models/*
    run_set "models" 76 f16_storage "$shared"/models/*
    exact_set 18 "$shared"/models/*/*_{int8,u8}
    halves_sets 7 "$shared"/models/onnx/{squeezenet11_fp16,mnist_8} "$shared/models/tflite/face_detection_short_f16"
    options=(--vk-kernels cm)
    run_set "models, by matrices" 5 bf16 "$shared"/models/onnx/{squeezenet11_fp16,mnist_8}
    options=()
    run_set "official node cases" 750 f32 "$shared/conformance/onnx/node"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
