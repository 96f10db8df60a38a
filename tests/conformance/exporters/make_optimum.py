#!/usr/bin/env python3
"""Cases of Optimum's ONNX exporter: `make_optimum.py OUT [NAME...] [--second] [--keep]`.

torch 2.9, transformers 4.57, optimum-onnx 0.1, onnx, onnxruntime. Each model has random weights. Optimum writes one or several files for it: an encoder, a decoder, a decoder
with past keys and values, and both merged behind an If. Every file is a case with inputs of its own and the answers of onnxruntime. --second makes other sizes and seeds,
which are not kept. What cannot be exported is listed in OUT/failures.txt.
"""

import os
import shutil
import sys
import tempfile

import numpy
import onnx
import torch

import torch_families as families
from case import Cases
from make_torch import HERE, answers_of, coarse, quiet

KEPT = ("gpt2_0_model", "t5_decoder_model_merged", "t5_encoder_model", "vit_model", "convnext_model", "distilbert_model", "llama_1_model")
TEXT = [("feature-extraction", "Model"), ("text-classification", "ForSequenceClassification"), ("token-classification", "ForTokenClassification"), ("fill-mask", "ForMaskedLM"), ("question-answering", "ForQuestionAnswering")]
DECODER = [("text-generation-with-past", True), ("text-generation", True), ("text-generation-with-past", False)]


def plans():
    """[(name, task, opset, legacy, make)]"""
    rows = []
    for i, name in enumerate(("bert", "roberta", "distilbert", "mpnet", "albert", "electra", "camembert", "deberta", "mobilebert", "squeezebert", "convbert", "roformer", "nystromformer", "modernbert", "xlm")):
        kind, options = families.ENCODERS[name]
        task, head = TEXT[i % len(TEXT)]
        rows.append((name, task, (None, 14, 17)[i % 3], False, lambda kind=kind, head=head, options=options: families.built(kind, head, options, False)))
    for i, name in enumerate(("gpt2", "gpt_neo", "gpt_neox", "gptj", "llama", "mistral", "qwen2", "qwen3", "gemma", "phi", "phi3", "falcon", "bloom", "opt", "codegen", "stablelm", "olmo", "granite", "smollm3")):
        kind, options = families.DECODERS[name]
        for k in (i % 3, (i + 1) % 3) if i % 2 else (i % 3,):
            task, legacy = DECODER[k]
            head = "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
            rows.append(("%s_%d" % (name, k), task, None, legacy and task.endswith("past"), lambda kind=kind, head=head, options=options: families.built(kind, head, options, False)))
    for i, (name, (kind, options)) in enumerate(families.PAIRS.items()):
        head = "MTModel" if kind == "Marian" else "ForConditionalGeneration"
        rows.append((name, "text2text-generation-with-past" if i % 2 == 0 else "text2text-generation", None, False, lambda kind=kind, head=head, options=options: families.built(kind, head, options, False)))
    for name, task, head in (("vit", "image-classification", "ForImageClassification"), ("swin", "image-classification", "ForImageClassification"), ("convnext", "image-classification", "ForImageClassification"), ("segformer", "semantic-segmentation", "ForSemanticSegmentation"), ("detr", "object-detection", ""), ("beit", "feature-extraction", "Model"), ("deit", "masked-im", "ForMaskedImageModeling"), ("resnet", "image-classification", "ForImageClassification"), ("levit", "image-classification", "ForImageClassification"), ("mobilevit", "image-classification", "ForImageClassification"), ("yolos", "object-detection", "ForObjectDetection"), ("dpt", "depth-estimation", "ForDepthEstimation")):
        kind, options, _ = families.IMAGES[name]
        rows.append((name, task, None, False, lambda kind=kind, head=head, options=options, name=name: families.detr(options) if name == "detr" else families.built(kind, head, options, False)))
    for name, task, head in (("wav2vec2", "automatic-speech-recognition", "ForCTC"), ("hubert", "audio-classification", "ForSequenceClassification"), ("wavlm", "audio-frame-classification", "ForAudioFrameClassification"), ("unispeech", "feature-extraction", "Model")):
        kind, options = families.SOUNDS[name]
        rows.append((name, task, None, False, lambda kind=kind, head=head, options=options: families.built(kind, head, options, False)))
    rows.append(("whisper", "automatic-speech-recognition-with-past", None, False, lambda: families.built("Whisper", "ForConditionalGeneration", dict(families.WHISPER, max_source_positions=1500), False)))
    rows.append(("clip", "zero-shot-image-classification", None, False, lambda: families.built("CLIP", "Model", families.CLIP, False)))
    return rows


SIZES = ({"batch": 2, "past": 3, "encoder": 6, "sequence": 4, "feature": 20, "audio": 400}, {"batch": 3, "past": 5, "encoder": 8, "sequence": 2, "feature": 20, "audio": 480})
FEATURES = {"num_channels": 3, "nb_max_frames": 20, "feature_size": 8, "encoder_sequence_length / 2": 10, "height": 32, "width": 32}


def size_of(symbol, sizes, side):
    """The size that a name of a dimension stands for: sums are written as `past_sequence_length + sequence_length`."""
    total = 0
    for part in symbol.split("+"):
        part = part.strip()
        if part.isdigit():
            total += int(part)
        elif part in ("height", "width"):
            total += side
        elif part in FEATURES:
            total += FEATURES[part]
        else:
            key = next((k for k in ("past", "encoder", "decoder", "batch", "feature", "audio") if k in part), "sequence")
            total += sizes["sequence" if key == "decoder" else key]
    return total


def value_of(info, sizes, side, branch):
    dims = [d.dim_value if d.HasField("dim_value") else size_of(d.dim_param, sizes, side) for d in info.type.tensor_type.shape.dim]
    if info.name == "input_values":
        dims[-1] = sizes["audio"]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if info.name == "use_cache_branch":
        return numpy.full(dims, branch)
    if "mask" in info.name:
        return numpy.ones(dims, dtype)
    if "position" in info.name:
        return numpy.broadcast_to(numpy.arange(dims[-1]) + (sizes["past"] if branch else 0), dims).astype(dtype)
    if "token_type" in info.name:
        return (numpy.arange(int(numpy.prod(dims))).reshape(dims) % 2).astype(dtype)
    if dtype == numpy.int64:
        return numpy.random.randint(3, 20, dims)
    return numpy.random.randn(*dims).astype(dtype)


def store(cases, family, name, path, sizes, side):
    model = onnx.load(path)
    sets = []
    stored = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in stored]
    past = any("past" in i.name for i in inputs)
    for branch in (False, True) if any(i.name == "use_cache_branch" for i in inputs) else (past,):
        sizes = dict(sizes, past=sizes["past"]) if branch else dict(sizes)
        feeds = {i.name: value_of(i, sizes, side, branch) for i in inputs}
        sets.append(([feeds[i.name] for i in inputs], answers_of(model.SerializeToString(), feeds)))
    cases.onnx(family, name, model.SerializeToString(), sets)


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    flags = [a for a in sys.argv[1:] if a.startswith("--")]
    out, wanted, sizes = arguments[0], arguments[1:], SIZES["--second" in flags]
    from optimum.exporters.onnx import onnx_export_from_model

    cases = Cases(out, "optimum", fresh=False)
    torch.set_num_threads(1)
    notes = open(os.path.join(out, "failures.txt"), "a")
    for name, task, opset, legacy, make in plans():
        if wanted and name not in wanted:
            continue
        numpy.random.seed(sizes["past"])
        torch.manual_seed(sizes["past"])
        to = tempfile.mkdtemp()
        family = task.replace("-with-past", "").replace("-", "_")
        side = 64 if name in ("levit", "detr") else 32
        try:
            with quiet(200):
                model = coarse(families.moved(make()))
                onnx_export_from_model(model, to, task=task, opset=opset, legacy=legacy, do_validation=False)
            for file in sorted(os.listdir(to)):
                if file.endswith(".onnx"):
                    store(cases, family, "%s_%s" % (name, file[:-5]), os.path.join(to, file), sizes, side)
        except Exception as error:  # noqa: BLE001 - the list of what an exporter refuses is part of the result
            print("optimum %s/%s: %s: %s" % (task, name, type(error).__name__, str(error).strip()[:300].replace("\n", " ")), file=notes, flush=True)
        shutil.rmtree(to, ignore_errors=True)
    if "--keep" in flags:
        print("optimum", cases.archive(HERE, lambda family, case, size: case in KEPT))


if __name__ == "__main__":
    main()
