#!/usr/bin/env python3
"""vulkan_vs_torch.py ENGINE FOLDER ROUNDS [--rehearse] - see vulkan_vs_torch.sh. Exit code 77: no CUDA device, our side alone was measured.

Both sides go from host memory to host memory: PyTorch copies from and to pinned memory, the engine through its staging buffers. Weights are random: they cost the same.
"""
import usage  # noqa: F401
import copy
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

import torch
import torchvision

engine, folder, rounds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
rehearse = "--rehearse" in sys.argv[4:]
cuda = torch.cuda.is_available()
peer = cuda or rehearse  # PyTorch on the CPU is no peer of a GPU
SECONDS = 0.3 if rehearse else 2.0
SIDE = 256 if rehearse else 4096


CHAIN = 8


class Product(torch.nn.Module):
    """x w w ... w for a constant w of [SIDE, SIDE]: CHAIN products, so that the device is busy for longer than its clocks take to rise."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(SIDE, SIDE) * 0.01)

    def forward(self, x):
        for _ in range(CHAIN):
            x = x @ self.w
        return x


# name, module, shape of the input, precision of the engine, torch's type, torch's ways
CASES = [
    ("mobilenet_v2 batch 1", torchvision.models.mobilenet_v2, (1, 3, 224, 224), "f32", torch.float32, ("eager", "graph")),
    ("resnet50 batch 1", torchvision.models.resnet50, (1, 3, 224, 224), "f32", torch.float32, ("eager", "graph")),
    ("resnet50 batch 32", torchvision.models.resnet50, (32, 3, 224, 224), "f16_mma", torch.float16, ("eager",)),
    ("products 4096^3", Product, (4096, 4096), "f16_mma", torch.float16, ("eager",)),
]
REHEARSAL = [
    ("mobilenet_v2 batch 1", torchvision.models.mobilenet_v2, (1, 3, 96, 96), "f32", torch.float32, ("eager", "graph")),
    ("resnet18 batch 2", torchvision.models.resnet18, (2, 3, 64, 64), "f16_mma", torch.float16, ("eager",)),
    ("products 256^3", Product, (256, 256), "f16_math", torch.float16, ("eager",)),
]


def settled(module, x):
    """Batch norms that have seen data: with those of a fresh module, activations shrink layer by layer until f16 cannot hold them."""
    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    if norms:
        module.train()
        module(torch.randn(4, *x.shape[1:]))
    return module.eval()


def engine_run(command, model, precision, ahead=1, profile=False):
    argv = [engine, command, "--backend", "vulkan", "--precision", precision, "--vk-cache-dir", folder / "cache", "--json"]
    argv += ["--vk-allow-software"] if rehearse else []
    argv += ["--vk-f16-trial", "off"]  # PyTorch has no such trial: everything is f16 on both sides
    if command == "bench":
        argv += ["--seconds", f"{int(SECONDS * 1000)}ms", "--in-flight", str(ahead), "--model", model]
        argv += ["--profile"] if profile else []
    else:
        argv += ["--class-time", "1ms" if rehearse else "50ms", model]
    said = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    if command == "bench" and not re.match(r"vulkan (\d+)/\1 nodes", said["placement"]):
        sys.exit(f"{model}: not all of it ran on vulkan: {said['placement']}")
    return said


def torch_runner(module, x, dtype, way):
    """A function that takes one run from pinned host memory to pinned host memory (on a CPU: just a run, in f32)."""
    layout = torch.channels_last if x.dim() == 4 else torch.contiguous_format
    if not cuda:
        module, host = module.to(memory_format=layout), x.contiguous(memory_format=layout)
        return lambda: module(host)
    module = module.cuda().to(dtype).to(memory_format=layout)
    host = x.to(dtype).contiguous(memory_format=layout).pin_memory()
    device = torch.empty_like(host, device="cuda", memory_format=torch.preserve_format)
    for _ in range(5):
        device.copy_(host)
        y = module(device)
    torch.cuda.synchronize()
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
    times, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        once()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def product_ms(model, precision):
    """Of the product's node alone, from the device's clock."""
    nodes = engine_run("bench", model, precision, profile=True)["nodes"]
    return statistics.median(n["us"] / 1e3 for n in nodes if n["op"] in ("MatMul", "Gemm"))


def torch_product_ms(module, x, dtype):
    """The same of PyTorch's product."""
    module, x, times = module.cuda().to(dtype), x.cuda().to(dtype), []
    for _ in range(20):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        module(x)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / CHAIN)
    return statistics.median(times)


def case_run(name, make, shape, precision, dtype, ways):
    torch.manual_seed(1)
    x = torch.rand(shape)
    module = settled(make(), x)
    model = folder / (name.replace(" ", "_").replace("^", "") + ".onnx")
    torch.onnx.export(module, (x,), str(model), opset_version=17, dynamo=False)
    try:
        engine_run("tune", model, precision)
    except subprocess.CalledProcessError as e:
        print(f"{name}: {precision} does not run here: {e.stderr.strip()}", flush=True)
        return
    ways = [way for way in ways if way == "eager" or cuda] if peer else []
    runners = {way: torch_runner(copy.deepcopy(module), x, dtype, way) for way in ways}
    ours, ahead, theirs = [], [], {way: [] for way in ways}
    for _ in range(rounds):
        ours.append(engine_run("bench", model, precision)["median_ms"])
        ahead.append(1e3 / engine_run("bench", model, precision, 2)["runs_per_s"])
        for way, once in runners.items():
            theirs[way].append(median_ms(once))
    mine, kept = statistics.median(ours), statistics.median(ahead)
    print(f"{name}, {precision}: penstock {mine:.3f} ms a run, {kept:.3f} ms with two in flight", flush=True)
    for way in ways:
        other = statistics.median(theirs[way])
        print(f"  torch {way} {other:.3f} ms, ratio {mine / other:.2f}; with two in flight {kept / other:.2f}", flush=True)
    if make is Product:
        alone = product_ms(model, precision)
        print(f"  the product alone {alone:.3f} ms, {2 * SIDE**3 / alone / 1e9:.3f} TFLOP/s", flush=True)
        if cuda:
            other = torch_product_ms(module, x, dtype)
            print(f"  torch's {other:.3f} ms, {2 * SIDE**3 / other / 1e9:.3f} TFLOP/s: {other / alone:.2f} of its speed", flush=True)


with torch.inference_mode():
    where = torch.cuda.get_device_name() if cuda else "no CUDA device" + (": PyTorch runs on the CPU, for the rehearsal alone" if peer else ": our side alone")
    print(where, "torch", torch.__version__, rounds, "rounds", flush=True)
    for case in REHEARSAL if rehearse else CASES:
        case_run(*case)
sys.exit(0 if peer else 77)
