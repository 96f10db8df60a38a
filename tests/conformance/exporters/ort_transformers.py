"""ort_transformers.py OUT [--seed N] - what onnxruntime.transformers.optimizer makes of small Hugging Face models.

    pip install torch transformers onnxruntime onnx

Run it before `make_onnxruntime.py OUT --join`. It writes the cases of the family `transformers`.
"""

import argparse
import os
import sys
import warnings

import numpy as np
import onnx
import torch
import transformers as hf
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions

from case import Cases
from make_onnxruntime import answers_apart


def text(seed, vocabulary=50, batch=2, length=7):
    rng = np.random.default_rng(seed)
    ids = rng.integers(3, vocabulary, (batch, length))
    mask = np.ones((batch, length), np.int64)
    mask[-1, length - 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=50, max_position_embeddings=40)
GPT = dict(n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=40)


def models(seed):
    """(name, model, inputs, model type of the optimiser, heads, width)"""
    wide = [{}, {"hidden_size": 48}, {"num_attention_heads": 2}][(seed - 1) % 3]
    sizes = {**SIZES, **wide}
    h, w = sizes["num_attention_heads"], sizes["hidden_size"]
    fed = text(seed, length=7 + seed % 3)
    yield "bert", hf.BertModel(hf.BertConfig(**sizes)), {**fed, "token_type_ids": fed["input_ids"] % 2}, "bert", h, w
    yield "bert_tanh", hf.BertModel(hf.BertConfig(**sizes, hidden_act="gelu_new")), {**fed, "token_type_ids": fed["input_ids"] % 2}, "bert", h, w
    yield "roberta", hf.RobertaModel(hf.RobertaConfig(**sizes, pad_token_id=1)), fed, "bert", h, w
    yield "distilbert", hf.DistilBertModel(hf.DistilBertConfig(dim=w, n_layers=2, n_heads=h, hidden_dim=64, vocab_size=50, max_position_embeddings=40)), fed, "bert", h, w
    yield "classifier", hf.BertForSequenceClassification(hf.BertConfig(**sizes, num_labels=3)), fed, "bert", h, w
    yield "gpt2", hf.GPT2Model(hf.GPT2Config(**GPT)), {"input_ids": fed["input_ids"]}, "gpt2", 4, 32
    yield "vit", hf.ViTModel(hf.ViTConfig(**{k: v for k, v in sizes.items() if k not in ("vocab_size", "max_position_embeddings")}, image_size=16, patch_size=8)), {"pixel_values": np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype(np.float32)}, "vit", h, w
    yield "clip", hf.CLIPVisionModel(hf.CLIPVisionConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=8)), {"pixel_values": np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype(np.float32)}, "clip", 4, 32
    yield "llama", hf.LlamaModel(hf.LlamaConfig(**{k: v for k, v in sizes.items()})), fed, "gpt2", h, w


class First(torch.nn.Module):
    """Positional inputs in, the first output out."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), return_dict=True, **({"use_cache": False} if hasattr(self.model.config, "use_cache") else {}))[0]


def export(model, inputs, path):
    torch.onnx.export(First(model.eval(), list(inputs)), tuple(torch.from_numpy(v) for v in inputs.values()), path, input_names=list(inputs), output_names=["y"], opset_version=17, dynamo=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = Cases(options.out, "onnxruntime")
    torch.manual_seed(options.seed)
    for name, model, inputs, kind, heads, width in models(options.seed):
        path = os.path.join(options.out, name + ".onnx")
        try:
            export(model, inputs, path)
        except Exception as error:  # noqa: BLE001 - the exporter's types are many
            print(f"not exported: {name}: {str(error)[:200]}", file=sys.stderr)
            continue
        for level, form in ((0, "plain"), (1, "level1"), (99, "level99"), (0, "mha"), (0, "approximate")):
            fusion = FusionOptions(kind)
            fusion.use_multi_head_attention = form == "mha"
            fusion.enable_gelu_approximation = form == "approximate"
            try:
                made = optimizer.optimize_model(path, kind, heads, width, opt_level=level, optimization_options=fusion).model
                other = onnx.load(path)
                want = answers_apart(made, inputs)
                second = answers_apart(other, inputs) if form == "approximate" else None
            except Exception as error:  # noqa: BLE001
                print(f"not optimised: {name}.{form}: {str(error)[:200]}", file=sys.stderr)
                continue
            apart = [float(np.abs(a - b).max() / np.ptp(a)) for a, b in zip(want, second or [])]
            names = [o.name for o in made.graph.output]
            cases.golden("transformers", f"{name}.{form}", "model.onnx", made.SerializeToString(), [(list(inputs.items()), list(zip(names, want)))], noise=apart)


if __name__ == "__main__":
    main()
