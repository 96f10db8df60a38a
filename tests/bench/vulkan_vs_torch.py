#!/usr/bin/env python3
"""vulkan_vs_torch.py ENGINE FOLDER ROUNDS - see vulkan_vs_torch.sh.

Both sides go from host memory to host memory: PyTorch copies from and to pinned memory, the engine through its staging buffers. Weights are random: they cost the same.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torchvision

engine, folder, rounds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
SECONDS = "2s"


class Product(torch.nn.Module):
    """x w for a constant w of [4096, 4096]."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(4096, 4096) * 0.01)

    def forward(self, x):
        return x @ self.w


# name, module, shape of the input, precision of the engine, torch's type, torch's ways
CASES = [
    ("mobilenet_v2 batch 1", torchvision.models.mobilenet_v2, (1, 3, 224, 224), "f32", torch.float32, ("eager", "graph")),
    ("resnet50 batch 1", torchvision.models.resnet50, (1, 3, 224, 224), "f32", torch.float32, ("eager", "graph")),
    ("resnet50 batch 32", torchvision.models.resnet50, (32, 3, 224, 224), "f16_mma", torch.float16, ("eager",)),
    ("product 4096^3", Product, (4096, 4096), "f16_mma", torch.float16, ("eager",)),
]


def engine_run(command, model, precision):
    where = ["--model", model] if command == "bench" else [model]
    options = ["--seconds", SECONDS] if command == "bench" else []
    argv = [engine, command, "--backend", "vulkan", "--precision", precision, "--vk-cache-dir", folder / "cache", "--json"]
    return json.loads(subprocess.run(argv + options + where, check=True, capture_output=True, text=True).stdout)


def torch_runner(module, x, dtype, way):
    """A function that takes one run from pinned host memory to pinned host memory."""
    layout = torch.channels_last if x.dim() == 4 else torch.contiguous_format
    module = module.cuda().to(dtype).to(memory_format=layout)
    host = x.to(dtype).contiguous(memory_format=layout).pin_memory()
    device = torch.empty_like(host, device="cuda", memory_format=torch.preserve_format)
    for _ in range(5):
        device.copy_(host)
        y = module(device)
    back = torch.empty_like(y, device="cpu").pin_memory()
    graph = torch.cuda.CUDAGraph() if way == "graph" else None
    if graph is not None:
        with torch.cuda.graph(graph):
            y = module(device)

    def once():
        nonlocal y
        device.copy_(host, non_blocking=True)
        if graph is not None:
            graph.replay()
        else:
            y = module(device)
        back.copy_(y, non_blocking=True)
        torch.cuda.synchronize()

    return once


def median_ms(once):
    times, end = [], time.perf_counter() + 2.0
    while time.perf_counter() < end or len(times) < 10:
        start = time.perf_counter()
        once()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def case_run(name, make, shape, precision, dtype, ways):
    torch.manual_seed(1)
    module, x = make().eval(), torch.rand(shape)
    model = folder / (name.replace(" ", "_").replace("^", "") + ".onnx")
    torch.onnx.export(module, (x,), str(model), opset_version=13)
    try:
        engine_run("tune", model, precision)
    except subprocess.CalledProcessError as e:
        print(f"{name}: {precision} does not run here: {e.stderr.strip()}")
        return
    runners = {way: torch_runner(make().eval(), x, dtype, way) for way in ways}
    ours, theirs = [], {way: [] for way in ways}
    for _ in range(rounds):
        ours.append(engine_run("bench", model, precision)["median_ms"])
        for way, once in runners.items():
            theirs[way].append(median_ms(once))
    mine = statistics.median(ours)
    for way in ways:
        peer = statistics.median(theirs[way])
        print(f"{name}, {precision}: penstock {mine:.3f} ms, torch {way} {peer:.3f} ms, ratio {mine / peer:.2f}")
    if make is Product:
        print(f"{name}: penstock {2 * 4096**3 / mine / 1e9:.1f} TFLOP/s, with the transfers of both sides")


with torch.inference_mode():
    print(torch.cuda.get_device_name(), "torch", torch.__version__, rounds, "rounds")
    for case in CASES:
        case_run(*case)
