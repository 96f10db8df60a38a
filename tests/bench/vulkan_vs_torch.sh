#!/usr/bin/env bash
# vulkan_vs_torch.sh BIN_DIR [ROUNDS] - the vulkan backend beside PyTorch on the same GPU, in interleaved rounds: batch-1 latency and batch-32 f16 throughput of
# MobileNetV2 and ResNet-50, and a product of 4096^3. Needs a GPU with Vulkan and CUDA drivers, and python3 with torch, torchvision and onnx.
# Tunes the kernels first, into a folder of its own. Prints one line per case: both medians in milliseconds and the ratio; for the product also TFLOP/s.
# Exit code 77: something that it needs is not here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=${1:?usage: vulkan_vs_torch.sh BIN_DIR [ROUNDS]} rounds=${2:-5}
if ! python3 -c 'import torch, torchvision, onnx, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "[SKIP] no PyTorch with torchvision, onnx and a CUDA device here"
    exit 77
fi
if ! "$bin/penstock-engine" info --backend vulkan >/dev/null 2>&1; then
    echo "[SKIP] no hardware Vulkan device here"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 tests/bench/vulkan_vs_torch.py "$bin/penstock-engine" "$work" "$rounds"
