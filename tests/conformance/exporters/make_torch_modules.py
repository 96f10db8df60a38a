"""Modules of PyTorch as functions of the ONNX model: `make_torch_modules.py OUT`.

In a venv: pip install torch==2.4.1 onnx==1.16.2 onnxruntime "numpy<2"; later versions have no export_modules_as_functions. A process makes each case, because the exporter can do it
once. The answers are torch's. torch_modules.tar.xz gets all cases.
"""

import io
import os
import subprocess
import sys

from case import Cases

KINDS = ("all", "blocks", "gates")


def net():
    import torch
    import torch.nn as nn

    class Gate(nn.Module):
        def __init__(self, c, k):
            super().__init__()
            self.a, self.b, self.k = nn.Linear(c, k), nn.Linear(k, c), k

        def forward(self, x):
            return x * torch.sigmoid(self.b(torch.relu(self.a(x)))) * self.k

    class Block(nn.Module):
        def __init__(self, c, slope):
            super().__init__()
            self.norm, self.gate, self.act = nn.LayerNorm(c), Gate(c, 3), nn.LeakyReLU(slope)

        def forward(self, x):
            return x + self.act(self.gate(self.norm(x)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.head = nn.ModuleList([Block(6, 0.1), Block(6, 0.3)]), nn.Conv1d(4, 2, 3)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x).softmax(-1)

    return Net(), {"all": True, "blocks": {Block}, "gates": {Gate, nn.LeakyReLU}}


def case_make(out, kind, opset):
    import torch

    from make_random import model_clean

    torch.manual_seed(opset)
    model, kinds = net()
    x, file = torch.randn(2, 4, 6), io.BytesIO()
    model.eval()
    torch.onnx.export(model, (x,), file, opset_version=opset, export_modules_as_functions=kinds[kind], input_names=["x"])
    path = Cases(out, "torch_modules", fresh=False).onnx("functions", "%s_%d" % (kind, opset), file.getvalue(), [([x.numpy()], [model(x).detach().numpy()])])
    model_clean(os.path.join(path, "model.onnx"))


def main():
    if len(sys.argv) > 2:
        return case_make(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    cases = Cases(sys.argv[1], "torch_modules")
    for kind in KINDS:
        for opset in (15, 17):
            subprocess.run([sys.executable, __file__, sys.argv[1], kind, str(opset)], check=False)
    print("%d kept" % cases.archive(os.path.dirname(os.path.abspath(__file__)), lambda *_: True))


if __name__ == "__main__":
    main()
