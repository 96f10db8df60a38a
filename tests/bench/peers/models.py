"""The models that compare.py can make: seeded weights, nodes in the order of the usual exporters, so that structure is compared and no file.

    models.py FOLDER [NAME...]
"""
import sys
from pathlib import Path

import convolutional
import transformers

BUILDERS = {**convolutional.BUILDERS, **transformers.BUILDERS}
QUANTISED = ("resnet50", "resnext50", "regnet_y", "mobilenet_v2", "mobilenet_v3", "efficientnet_b0", "squeeze_excite", "vit_b16", "minilm")


def quantise(source, target, form):
    """8 bits with one scale per output channel; ranges are those of four seeded inputs."""
    import numpy as np
    from onnxruntime import quantization as q

    class Feeds(q.CalibrationDataReader):
        def __init__(self):
            import onnxruntime
            rng = np.random.default_rng(5)
            inputs = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"]).get_inputs()
            self.feeds = iter([{i.name: rng.random(i.shape, np.float32) if i.type == "tensor(float)" else rng.integers(0, 2, i.shape) for i in inputs}
                               for _ in range(4)])

        def get_next(self):
            return next(self.feeds, None)

    formats = {"qdq": q.QuantFormat.QDQ, "qop": q.QuantFormat.QOperator}
    q.quantize_static(str(source), str(target), Feeds(), quant_format=formats[form], per_channel=True, activation_type=q.QuantType.QUInt8,
                      weight_type=q.QuantType.QInt8, extra_options={"ActivationSymmetric": False})


def write(folder, name):
    path = folder / f"{name}.onnx"
    if not path.exists():
        print(f"writing {path}", file=sys.stderr)
        path.write_bytes(BUILDERS[name]().SerializeToString())
    return path


def write_missing(folder, only="", names=None):
    folder.mkdir(parents=True, exist_ok=True)
    twins = [f"{name}_int8_{form}" for name in QUANTISED for form in ("qdq", "qop")]
    for name in names or [n for n in [*BUILDERS, *twins] if only in n]:
        base, _, form = name.partition("_int8_")
        source = write(folder, base)
        target = folder / f"{name}.onnx"
        if form and not target.exists():
            print(f"writing {target}", file=sys.stderr)
            quantise(source, target, form)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__ + f"\nThere are {', '.join(BUILDERS)}; of {', '.join(QUANTISED)} with _int8_qdq and _int8_qop behind, too.")
    write_missing(Path(sys.argv[1]), "", sys.argv[2:])
