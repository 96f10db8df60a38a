"""The list of PyTorch models that make_torch.py exports, and the sizes they are made with. The lists are in torch_layers, torch_functions and torch_families."""

import torch
from torch import nn


class Sizes:
    """The numbers of one set of models: batch, channels, height, width, length, features, vocabulary."""

    def __init__(self, second):
        self.seed = 77 if second else 1
        self.B, self.C, self.H, self.W, self.T, self.D, self.V = (3, 12, 11, 9, 7, 24, 40) if second else (2, 8, 8, 10, 5, 16, 30)


class Fn(nn.Module):
    """A function as a module."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *inputs):
        return self.f(*inputs)


class Fn1(Fn):
    """The new exporter takes modules by their signature, so each number of inputs has a class."""

    def forward(self, a):
        return self.f(a)


class Fn2(Fn):
    def forward(self, a, b):
        return self.f(a, b)


class Fn3(Fn):
    def forward(self, a, b, c):
        return self.f(a, b, c)


class Case:
    def __init__(self, family, name, make, options):
        self.family, self.name, self.make, self.options = family, name, make, options


class List:
    """All cases of a set. A maker of a model gives (module, inputs)."""

    def __init__(self, second=False):
        self.size = Sizes(second)
        self.cases = []

    def add(self, family, name, make, **options):
        self.cases.append(Case(family, name, make, options))

    def layer(self, family, name, make, *inputs, **options):
        """make() gives the module, each of inputs is a function without arguments that gives a tensor."""
        self.add(family, name, lambda: (make(), tuple(i() for i in inputs)), **options)

    def function(self, family, name, f, *inputs, **options):
        wrap = {1: Fn1, 2: Fn2, 3: Fn3}.get(len(inputs), Fn)
        self.add(family, name, lambda: (wrap(f), tuple(i() for i in inputs)), **options)

    def make(self, case):
        torch.manual_seed(self.size.seed)
        module, inputs = case.make()
        return module.eval(), inputs


def floats(*shape, dtype=torch.float32):
    return lambda: torch.randn(*shape).to(dtype)


def positive(*shape):
    return lambda: torch.rand(*shape) + 0.1


def integers(low, high, *shape, dtype=torch.int64):
    return lambda: torch.randint(low, high, shape).to(dtype)


def booleans(*shape):
    return lambda: torch.rand(*shape) > 0.5


def constant(values, dtype=None):
    return lambda: torch.tensor(values, dtype=dtype)
