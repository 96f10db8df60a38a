#!/usr/bin/env bash
# vulkan_vs_torch.sh BIN_DIR [--rehearse] [ROUNDS] - the vulkan backend beside PyTorch on the same GPU, in interleaved rounds: what an empty plan costs, batch-1 latency
# and batch-32 f16 throughput of MobileNetV2 and ResNet-50, and products of 4096^3, on the device alone too. Needs a GPU with Vulkan and CUDA drivers, and python3 with torch, torchvision
# and onnx. Tunes the kernels first, into a folder of its own. Prints one line per case: both medians in milliseconds and the ratio; for products also TFLOP/s.
# --rehearse: the same way with whatever is here, a software device and PyTorch on the CPU included; smaller cases; its figures say nothing of a GPU.
# Exit code 77: something that it needs is not here; what our side can do alone is printed all the same.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
bin=$(realpath "${1:?usage: vulkan_vs_torch.sh BIN_DIR [--rehearse] [ROUNDS]}")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rehearse=() software=() options=()
if [ "${1:-}" = --rehearse ]; then
    rehearse=(--rehearse) software=(--software) options=(--vk-allow-software)
    shift
fi
rounds=${1:-5}
if ! "$bin/penstock-engine" info --backend vulkan "${options[@]}" >/dev/null 2>&1; then
    echo "[SKIP] no hardware Vulkan device here"
    exit 77
fi
tests/bench/vulkan_overhead.sh "$bin" "${software[@]}" "$rounds"
if ! python3 -c 'import torch, torchvision, onnx' 2>/dev/null; then
    echo "[SKIP] no PyTorch with torchvision and onnx here: no peer to compare with"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 tests/bench/vulkan_vs_torch.py "$bin/penstock-engine" "$work" "$rounds" "${rehearse[@]}"
