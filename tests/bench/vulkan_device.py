#!/usr/bin/env python3
"""vulkan_device.py BUILD_DIR [--rehearse] [--only WORD] - everything that we promise of a GPU, by one command: it checks first, then tunes, then measures.

1. The tests of the vulkan backend run on the device that is here (build/tests/test_vulkan_*: every family, tile and precision against the reference), with the validation
   layer, and those of products once more without it, as an older layer does not know the device's newest matrices. A test that fails ends the script with exit code 1.
2. Models are made (tests/bench/peers: ResNet-50, BERT-base, ViT-B/16 ..., seeded weights) and placed: what does not run whole on vulkan is said.
3. Kernels are tuned, into a folder of the script's own; the choices are printed.
4. What the device lists of matrices, and the self-test's words on each family that uses them. One line per work: median, p10 and p90 in milliseconds, items a second; for products and attention TFLOP/s (4096^3 by each such family, too), for those of one row GB/s of what they read; cold and warm start.
With a CUDA device and PyTorch, tests/bench/vulkan_vs_torch.sh runs last, for the ratios.

Needs python3 with onnx and numpy. --rehearse: tiny cases on whatever is here, a software device included; its figures say nothing. --only: works whose name has the word.
"""
import usage  # noqa: F401
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

CHECKS = ["attention", "cm2", "tiles", "conv", "elementwise", "move", "reduce", "ring", "backend", "storage", "long"]
WITHOUT_LAYER = ["attention", "tiles", "conv", "long"]
REHEARSED = ["kernels"]

# name, model, batch, precision, runs in flight
WORKS = [
    ("resnet50 batch 32", "resnet50", 32, "f16_mma", 2),
    ("resnet50 batch 128", "resnet50", 128, "f16_mma", 2),
    ("bert_base batch 32", "bert_base", 32, "f16_mma", 2),
    ("vit_b16 batch 32", "vit_b16", 32, "f16_mma", 2),
    *[(f"{name} batch 1", name, 1, "f32", 1) for name in ("mobilenet_v2", "resnet50", "efficientnet_b0", "minilm")],
    ("product 4096^3", "product_4096", 4096, "f16_mma", 2),
    ("mlp of 8 x 4096, batch 1", "product_4096", 1, "f16_mma", 1),
    ("attention of prompts", "attention_12_12_512_512_64", 32, "f16_mma", 2),
    ("attention over a cache", "attention_32_8_1_8192_128", 1, "f16_mma", 1),
]
FAMILIES = ("cm", "cm2")  # of products by cooperative matrices: each alone on the work "product 4096^3"
REHEARSAL = [("an encoder, batch 2", "tiny_encoder", 2, "f32", 1), ("product 64^3", "product_64", 64, "f32", 1), ("mlp of 8 x 64, batch 1", "product_64", 1, "f32", 1),
             ("attention, tiny", "attention_4_2_9_70_16", 2, "f32", 1)]
CHAIN = 8  # products or attentions of one run: the device is busy for longer than its clocks take to rise


def run(argv, **options):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, **options)


def check(build, rehearse):
    """False: a test failed."""
    fine = True
    layered = [(unit, {}) for unit in (REHEARSED if rehearse else CHECKS)]
    bare = [] if rehearse else [(unit, {"OPS_NO_VALIDATION": "1"}) for unit in WITHOUT_LAYER]
    for unit, more in layered + bare:
        done = run([build / "tests" / f"test_vulkan_{unit}"], env={**os.environ, **more})
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        print(f"check {unit:12s} {'without the layer ' if more else ''}{'ok' if done.returncode == 0 else 'FAILED'} {last[0] if last else ''}", flush=True)
        fine = fine and done.returncode == 0
    return fine


def products(side, rows):
    """x w w ... w with CHAIN different w."""
    import net
    n = net.Net(3)
    x = "input"
    for _ in range(CHAIN):
        x = n.node("MatMul", [x, n.normal((side, side), 1 / side ** 0.5)])
    return n.model(f"product_{side}", {"input": (net.TensorProto.FLOAT, [rows, side])}, x, [rows, side])


def attentions(name, batch):
    """Each one's values are the next one's queries; keys and values are constants. name: attention, heads, those of keys, queries, keys, size."""
    import net
    heads, shared, queries, keys, size = map(int, name.split("_")[1:])
    n = net.Net(5)
    x = "input"
    for _ in range(CHAIN):
        x = n.node("Attention", [x, *(n.normal((batch, shared, keys, size), 1) for _ in range(2))])
    shape = [batch, heads, queries, size]
    return n.model(name, {"input": (net.TensorProto.FLOAT, shape)}, x, shape, opset=23)


def batched(model, batch):
    """The generator's models are of one item: the same for `batch` of them."""
    import numpy as np
    from onnx import numpy_helper
    weights = {w.name: w for w in model.graph.initializer}
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    for node in model.graph.node:
        for at, name in enumerate(node.input):
            array = numpy_helper.to_array(weights[name]) if name in weights else None
            if array is None or not ((node.op_type == "Reshape" and at == 1 and array[0] == 1) or (node.op_type == "Concat" and array.ndim == 3)):
                continue
            array = np.array([batch, *array[1:]], array.dtype) if node.op_type == "Reshape" else np.repeat(array, batch, 0)
            model.graph.initializer.append(numpy_helper.from_array(array, f"{name}_of_{batch}_{at}_{node.name}"))
            node.input[at] = f"{name}_of_{batch}_{at}_{node.name}"
    return model


def model_make(folder, name, batch):
    path = folder / f"{name}_{batch}.onnx"
    if not path.exists():
        import models
        import transformers
        models.BUILDERS["tiny_encoder"] = lambda: transformers.bert("tiny_encoder", 4, 1, 32, 4, 16)
        side = name.partition("product_")[2]
        if side or name.startswith("attention_"):
            model = products(int(side), batch) if side else attentions(name, batch)
        else:
            model = models.BUILDERS[name]() if batch == 1 else batched(models.BUILDERS[name](), batch)
        path.write_bytes(model.SerializeToString())
    return path


class Engine:
    def __init__(self, build, cache, rehearse):
        self.program, self.cache, self.rehearse = build / "bin" / "penstock-engine", cache, rehearse

    def ask(self, command, *more):
        argv = [self.program, command, "--backend", "vulkan", "--vk-cache-dir", self.cache, "--json", *more]
        done = run([*argv, *(["--vk-allow-software"] if self.rehearse else [])])
        if done.returncode != 0:
            print(f"{command} {' '.join(str(m) for m in more)}: {done.stderr.strip()}", flush=True)
            return None
        return json.loads(done.stdout)

    def tune(self, model, precision):
        said = self.ask("tune", "--precision", precision, "--vk-f16-trial", "off", "--class-time", "1ms" if self.rehearse else "50ms", model)
        for row in (said or {}).get("classes", []):
            if row.get("chosen") != row.get("by_rule"):
                print(f"  tuned {row.get('products')}: {row.get('chosen')} instead of {row.get('by_rule')}", flush=True)

    def bench(self, model, precision, ahead, trial="off", family="auto"):
        return self.ask("bench", "--precision", precision, "--vk-f16-trial", trial, "--in-flight", ahead, "--seconds", "300ms" if self.rehearse else "2s",
                        "--vk-kernels", family, "--model", model)

    def facts(self, precision, family):
        said = self.ask("env", "--precision", precision, "--vk-kernels", family) or {}
        return {fact["name"]: fact["value"] for fact in said.get("facts", [])}


def rate_text(name, batch, ms):
    model, side = name, int(name.partition("product_")[2] or 0)
    if side and batch == 1:
        return f"{CHAIN * side * side * 2 / ms / 1e6:.1f} GB/s of f16 weights"
    if name.startswith("attention_"):
        heads, shared, queries, keys, size = map(int, name.split("_")[1:])
        if queries == 1:
            return f"{4 * CHAIN * batch * shared * keys * size / ms / 1e6:.1f} GB/s of keys and values in f16"
        return f"{4 * CHAIN * batch * heads * queries * keys * size / ms / 1e9:.2f} TFLOP/s"
    return f"{2 * CHAIN * batch * side * side / ms / 1e9:.2f} TFLOP/s" if side else f"{batch / ms * 1000:.1f} items/s of {model}"


def work_measure(engine, folder, work):
    name, model, batch, precision, ahead = work
    path = model_make(folder, model, batch)
    engine.tune(path, precision)
    engine.bench(path, precision, ahead)  # compiles; the next one starts warm
    said = engine.bench(path, precision, ahead)
    if said is None:
        return False
    whole = said["placement"].split(";")[0]
    print(f"{name:28s} {precision:8s} {said['median_ms']:.3f} ms (p10 {said['p10_ms']:.3f}, p90 {said['p90_ms']:.3f}, {ahead} in flight) "
          f"{rate_text(model, batch, 1000 / said['runs_per_s'] if ahead > 1 else said['median_ms'])}; {whole}", flush=True)
    return True


def families_measure(engine, folder, side, precision):
    """One product by each family of matrices. False: one that the device has did not run."""
    path, fine = model_make(folder, f"product_{side}", side), True
    for family in FAMILIES:
        facts = engine.facts(precision, family)
        shown = ["vk_coopmat" if family == "cm" else "vk_coopmat2", *(name for name in facts if name.startswith("selftest.vulkan.cm"))]
        print(f"product {side}^3 by {family}: " + ", ".join(f"{name} {facts.get(name)}" for name in shown), flush=True)
        if not facts.get(f"selftest.vulkan.{family}", "").startswith("ok"):
            continue
        engine.bench(path, precision, 2, family=family)
        said = engine.bench(path, precision, 2, family=family)
        fine = fine and said is not None
        if said is not None:
            print(f"product {side}^3 by {family}: {said['median_ms']:.3f} ms, {rate_text(f'product_{side}', side, 1000 / said['runs_per_s'])}", flush=True)
    return fine


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    rehearse, only = "--rehearse" in sys.argv, ""
    if "--only" in sys.argv:
        only = sys.argv[sys.argv.index("--only") + 1]
        words.remove(only)
    if len(words) != 1:
        sys.exit(__doc__.strip().splitlines()[0])
    build = Path(words[0]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(build, Path(folder) / "cache", rehearse)
        if engine.ask("info") is None:
            sys.exit(77)
        if not check(build, rehearse):
            sys.exit("a check failed: no figures of a device that computes wrongly")
        fine = [work_measure(engine, Path(folder), w) for w in (REHEARSAL if rehearse else WORKS) if only in w[0]]
        if only in "product 4096^3":
            fine.append(families_measure(engine, Path(folder), 64 if rehearse else 4096, "f16_math" if rehearse else "f16_mma"))
        if not rehearse and not only:
            subprocess.run([str(HERE / "vulkan_vs_torch.sh"), str(build / "bin")])
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
