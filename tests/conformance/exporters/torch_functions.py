"""Functions of torch, control flow, element types, integers and complex numbers."""

import torch
from torch import nn
from torch.nn import functional as F

from torch_cases import Fn1, booleans, constant, floats, integers, positive

UNARY = "abs acos asin atan ceil cos cosh erf erfc exp exp2 expm1 floor frac log1p neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc acosh asinh atanh log log2 log10 logit isnan isinf isfinite deg2rad rad2deg sinc".split()
BINARY = "add sub mul div pow maximum minimum atan2 fmod remainder floor_divide hypot logaddexp eq ne gt ge lt le logical_and logical_or logical_xor true_divide copysign xlogy".split()
REDUCE = "sum mean amax amin argmax argmin prod logsumexp std var all any cumsum cumprod median norm nanmean nansum count_nonzero".split()


def element_wise(l, z):
    t = lambda: torch.rand(z.B, z.T, z.D) * 0.8 + 0.1
    for name in UNARY:
        x = (lambda: t() + 1.5) if name == "acosh" else t
        l.function("elementwise", name, getattr(torch, name), x, brief=True)
    for name in BINARY:
        l.function("elementwise", name, getattr(torch, name), t, positive(z.D), brief=True)
        if name not in ("copysign", "hypot", "logaddexp", "xlogy"):
            l.function("elementwise", name + "_int", getattr(torch, name), integers(1, 9, z.T, z.D), integers(1, 4, z.D), brief=True)
    f = lambda name, g, *x: l.function("elementwise", name, g, *x)
    a = floats(z.T, z.D)
    f("clamp", lambda x: x.clamp(-0.5, 0.5), a)
    f("clamp_min", lambda x: x.clamp(min=0.1), a)
    f("clamp_tensors", lambda x, y: torch.clamp(x, -y, y), a, positive(z.D))
    f("round_decimals", lambda x: torch.round(x, decimals=2), a)
    f("div_modes", lambda x, y: (torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc")), a, positive(z.D))
    f("remainder_negative", lambda x: (x % -3, torch.fmod(x, 3)), integers(-9, 9, z.T, z.D))
    f("lerp", lambda x, y: torch.lerp(x, y, 0.3), a, a)
    f("addcmul", lambda x, y, w: torch.addcmul(x, y, w, value=0.5), a, a, a)
    f("addcdiv", lambda x, y, w: torch.addcdiv(x, y, w, value=0.5), a, a, positive(z.T, z.D))
    f("where", lambda m, x, y: torch.where(m, x, y), booleans(z.D), a, a)
    f("where_scalars", lambda x: torch.where(x > 0, 1.0, -2.0), a)
    f("masked_fill", lambda x, m: x.masked_fill(m, float("-inf")).softmax(-1), lambda: torch.randn(z.T, z.D), lambda: torch.arange(z.D)[None] % 3 == 1)
    f("nan_to_num", lambda x: torch.nan_to_num(x / x.relu(), nan=1.0, posinf=5.0), a)
    f("heaviside", lambda x, y: torch.heaviside(x, y), a, floats(z.D))
    f("not_bool", lambda x: ~(x > 0) | (x < -1) & (x > -2) ^ (x > 1), a)
    f("bitwise", lambda x, y: ((x & y) | 3, x ^ y, ~x), integers(0, 99, z.T, z.D), integers(0, 99, z.D))
    f("shifts", lambda x, y: (x << y, x >> y), integers(0, 99, z.T, z.D), integers(0, 3, z.D))
    f("gammas", lambda x: torch.erf(x) + torch.special.expit(x), a)
    f("quantised_by_hand", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127), a)
    f("quantised_channels", lambda x: torch.fake_quantize_per_channel_affine(x, torch.linspace(0.01, 0.1, z.D), torch.zeros(z.D, dtype=torch.int32), 1, 0, 255), a)


def reductions(l, z):
    x = floats(z.B, z.T, z.D)
    for name in REDUCE:
        g = getattr(torch, name)
        y = booleans(z.B, z.T, z.D) if name in ("all", "any") else x
        l.function("reduce", name, lambda x, g=g: g(x, dim=1), y, brief=True)
        if name not in ("cumsum", "cumprod", "logsumexp", "amax", "amin", "median", "norm", "nanmean", "nansum"):
            l.function("reduce", name + "_all", lambda x, g=g: g(x), y, brief=True)
    f = lambda name, g, *x, **o: l.function("reduce", name, g, *x, **o)
    f("max_with_index", lambda x: torch.max(x, dim=-1, keepdim=True), x)
    f("min_with_index", lambda x: torch.min(x, dim=0), x)
    f("topk", lambda x: torch.topk(x, 3, dim=1), x)
    f("topk_smallest", lambda x: torch.topk(x, 2, dim=-1, largest=False), x)
    f("sort", lambda x: torch.sort(x, dim=1, descending=True), x)
    f("argsort", lambda x: torch.argsort(x, dim=-1), x)
    f("kthvalue", lambda x: torch.sort(x, dim=-1)[0][..., 2], x)
    f("unique", lambda x: torch.unique(x), integers(0, 9, 20))
    f("unique_all", lambda x: torch.unique(x, return_inverse=True, return_counts=True), integers(0, 9, 20))
    f("unique_rows", lambda x: torch.unique(x, dim=0), integers(0, 2, 9, 2), dynamoless=True)
    f("nonzero", lambda x: torch.nonzero(x > 0.5), x)
    f("nonzero_parts", lambda x: torch.nonzero(x > 0, as_tuple=True)[0], floats(z.T, z.D))
    f("cumsum_reverse", lambda x: x.flip(1).cumsum(1).flip(1), x)
    f("cummax", lambda x: torch.cummax(x, 1)[0], x)
    f("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), x)
    f("bincount", lambda x: torch.bincount(x, minlength=6), integers(0, 6, 20))
    f("searchsorted", lambda x, y: (x[:, None] > y[None]).sum(1), floats(z.D), floats(z.T))
    f("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), x)
    f("histogram", lambda x: torch.histc(x, bins=4, min=-2, max=2), floats(z.D))


def matrices(l, z):
    B, T, D = z.B, z.T, z.D
    x = floats(B, T, D)
    f = lambda name, g, *x, **o: l.function("matrix", name, g, *x, **o)
    for name, text, shapes in (
        ("matmul", "bij,bjk->bik", ((B, T, D), (B, D, 3))),
        ("heads", "bhid,bhjd->bhij", ((B, 2, T, 8), (B, 2, T, 8))),
        ("heads_values", "bhij,bjhd->bihd", ((B, 2, T, T), (B, T, 2, 8))),
        ("trace", "bii->b", ((B, 4, 4),)),
        ("diagonal", "bii->bi", ((B, 4, 4),)),
        ("outer", "i,j->ij", ((T,), (D,))),
        ("sum", "bij->j", ((B, T, D),)),
        ("transpose", "bij->jbi", ((B, T, D),)),
        ("three", "bi,ij,bj->b", ((B, T), (T, D), (B, D))),
        ("ellipsis", "...ij,jk->...ik", ((B, 2, T, D), (D, 3))),
        ("relative", "bhwc,hkc->bhwk", ((B, 4, 5, 8), (4, 6, 8))),
    ):
        f("einsum_" + name, lambda *a, text=text: torch.einsum(text, *a), *[floats(*s) for s in shapes])
    f("bmm", torch.bmm, x, floats(B, D, 3))
    f("baddbmm", lambda a, b, c: torch.baddbmm(a, b, c, beta=0.5, alpha=2), floats(B, T, 3), x, floats(B, D, 3))
    f("addmm", lambda a, b, c: torch.addmm(a, b, c, beta=2), floats(3), floats(T, D), floats(D, 3))
    f("matvec", torch.mv, floats(T, D), floats(D))
    f("dot", torch.dot, floats(D), floats(D))
    f("broadcast", torch.matmul, floats(B, 1, T, D), floats(3, D, 4))
    f("vector_matrix", torch.matmul, floats(D), floats(B, D, 3))
    f("outer", torch.outer, floats(T), floats(D))
    f("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), x, floats(T, D, 3))
    f("integers", torch.matmul, integers(-5, 5, T, D), integers(-5, 5, D, 3))
    f("int32", torch.matmul, integers(-5, 5, T, D, dtype=torch.int32), integers(-5, 5, D, 3, dtype=torch.int32))
    f("double", torch.matmul, floats(T, D, dtype=torch.float64), floats(D, 3, dtype=torch.float64))
    f("det", torch.linalg.det, floats(B, 4, 4))
    f("kron", torch.kron, floats(2, 3), floats(3, 2))
    f("cross", lambda a, b: torch.linalg.cross(a, b), floats(T, 3), floats(T, 3))
    f("tril", lambda x: (x.tril(), x.triu(1), x.tril(-2)), x)
    f("diag", lambda x: torch.diagonal(x, 1, 1, 2), floats(B, T, T))
    f("diag_embed", lambda x: torch.diag_embed(x), floats(B, T))
    f("eye", lambda x: x + torch.eye(x.shape[-1]), floats(T, T))
    f("multi_dot", lambda a, b, c: torch.linalg.multi_dot([a, b, c]), floats(T, D), floats(D, 3), floats(3, 2))


def shapes(l, z):
    B, T, D = z.B, z.T, z.D
    x = floats(B, T, D)
    f = lambda name, g, *x, **o: l.function("shape", name, g, *x, **o)
    f("reshape", lambda x: x.reshape(x.shape[0], -1), x, dynamic=True)
    f("view_as", lambda x, y: x.view_as(y), floats(T, D), floats(D, T))
    f("permute", lambda x: x.permute(2, 0, 1).contiguous(), x)
    f("permute_from_behind", lambda x: x.permute(0, -1, -2) * 2, x)
    f("flatten", lambda x: x.flatten(1), x, dynamic=True)
    f("unflatten", lambda x: x.unflatten(2, (2, -1)), x)
    f("squeeze", lambda x: x.unsqueeze(1).squeeze(1).squeeze(), floats(B, 1, D))
    f("expand", lambda x: x[:, None].expand(-1, 3, -1, -1) * 2, x, dynamic=True)
    f("expand_as", lambda x, y: x.expand_as(y) + y, floats(D), x)
    f("repeat", lambda x: x.repeat(1, 2, 3), x)
    f("repeat_interleave", lambda x: x.repeat_interleave(2, dim=1), x)
    f("tile", lambda x: torch.tile(x, (2, 1)), x)
    f("cat", lambda x, y: torch.cat([x, y, x], -1), x, floats(B, T, 3))
    f("stack", lambda x, y: torch.stack([x, y], 1), x, x)
    f("split", lambda x: torch.split(x, 2, 1), floats(B, 5, D))
    f("split_sizes", lambda x: torch.split(x, [1, 2, 2], 1), floats(B, 5, D))
    f("chunk", lambda x: x.chunk(3, -1), x)
    f("unbind", lambda x: x.unbind(1), x)
    f("narrow", lambda x: x.narrow(1, 1, 3), x)
    f("slices", lambda x: x[:, 1:-1, ::3], x, dynamic=True)
    f("slice_to_end", lambda x: x[..., -4:], x, dynamic=True)
    f("select", lambda x: x[:, 0] + x[:, -1], x, dynamic=True)
    f("newaxis", lambda x: x[:, None, :, None], x)
    f("swap", lambda x: x.transpose(1, 2).movedim(0, -1), x)
    f("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), floats(T), floats(D))
    f("arange", lambda x: x + torch.arange(x.shape[1])[None, :, None], x, dynamic=True)
    f("arange_float", lambda x: torch.arange(0, x.shape[-1], 2) / x.shape[-1], x, dynamic=True)
    f("linspace", lambda x: x * torch.linspace(0, 1, D), x)
    f("full", lambda x: torch.full((x.shape[0], 3), 2.5) + torch.zeros_like(x[:, 0, :3]) + torch.ones(3), x, dynamic=True)
    f("as_strided", lambda x: x.as_strided((3, 4), (2, 1), 1), floats(T, D))
    f("size_as_result", lambda x: torch.tensor(x.shape[1]) + x.sum(), x)
    f("broadcast_tensors", lambda a, b: torch.broadcast_tensors(a, b), floats(T, 1), floats(1, D))
    f("cartesian", lambda a, b: torch.cartesian_prod(a, b), floats(3), floats(T))
    f("roll_flat", lambda x: x.roll(3), floats(T, D))
    f("positions", lambda ids: (torch.cumsum(ids.ne(1).int(), 1) * ids.ne(1).int()).long() + 1, integers(0, 5, B, T), dynamic=True)
    f("sinusoids", sinusoids, x, dynamic=True)
    f("rank_0", lambda x: x.sum() * torch.tensor(2.0), x)
    f("rank_6", lambda x: x.reshape(1, 2, 2, 2, 1, 2).permute(5, 3, 1, 0, 2, 4).reshape(2, -1), floats(16))
    f("dict_output", lambda x: {"a": x + 1, "b": x * 2}, x)
    f("nested_output", lambda x: (x, [x + 1, (x + 2,)]), x)
    f("unused_input", lambda x, y: x * 2, x, x)
    f("same_output", lambda x: (x, x), x)
    f("constant_output", lambda x: (x + 1, torch.tensor([1.0, 2.0])), x)
    f("empty", lambda x: x[:0].sum(0) + x[0], x)


def sinusoids(x):
    at = torch.arange(x.shape[1])[:, None].float()
    rate = torch.exp(torch.arange(0, x.shape[2], 2).float() * -0.5)
    return x + torch.stack([torch.sin(at * rate), torch.cos(at * rate)], -1).flatten(1)


def indexing(l, z):
    B, T, D = z.B, z.T, z.D
    x, m = floats(B, T, D), floats(T, D)
    f = lambda name, g, *x, **o: l.function("index", name, g, *x, **o)
    at = integers(0, T, 4)
    f("index_select", lambda x, i: x.index_select(1, i), x, at)
    f("gather", lambda x, i: x.gather(1, i), x, integers(0, T, B, 3, D))
    f("take_along", lambda x, i: torch.take_along_dim(x, i, 1), x, integers(0, T, B, 3, D))
    f("take", lambda x, i: torch.take(x, i), m, integers(0, 9, 3, 2))
    f("list", lambda x: x[:, [0, 2, 1]], x)
    f("tensor", lambda x, i: x[:, i], x, at)
    f("two", lambda x, i, j: x[i, j], m, at, integers(0, D, 4))
    f("two_apart", lambda x, i, j: x[i, :, j], x, integers(0, B, 3), integers(0, D, 3))
    f("two_broadcast", lambda x, i, j: x[i[:, None], j[None]], m, at, integers(0, D, 3))
    f("negative", lambda x, i: x[:, i], x, integers(-T, 0, 3))
    f("mask", lambda x: x[x > 0], m)
    f("mask_rows", lambda x, k: x[k], m, lambda: torch.arange(T) % 2 == 0)
    f("masked_select", lambda x: torch.masked_select(x, x > 0.3), m)
    f("put", lambda x, i, v: x.clone().index_put((i,), v), m, lambda: torch.randperm(T)[:3], floats(3, D))
    f("put_two", lambda x, i, j: x.index_put((i, j), torch.tensor(9.0)), m, lambda: torch.tensor([0, 1, 2]), lambda: torch.tensor([1, 0, 3]))
    f("put_accumulate", lambda x, i, v: x.index_put((i,), v, accumulate=True), m, lambda: torch.tensor([0, 1, 0]), floats(3, D))
    f("assign_slice", assign_slice, x)
    f("assign_strided", assign_strided, x)
    f("assign_tensor", assign_tensor, m, lambda: torch.tensor([0, 2]), floats(2, D))
    f("assign_mask", assign_mask, m)
    f("assign_column", assign_column, m, floats(T))
    f("index_add", lambda x, i, v: x.index_add(0, i, v), m, lambda: torch.tensor([0, 1, 0]), floats(3, D))
    f("index_copy", lambda x, i, v: x.index_copy(0, i, v), m, lambda: torch.tensor([2, 0]), floats(2, D))
    f("index_fill", lambda x, i: x.index_fill(1, i, 7.0), m, lambda: torch.tensor([1, 3]))
    f("scatter", lambda x, i, v: x.scatter(1, i, v), m, lambda: torch.stack([torch.randperm(D)[:3] for _ in range(T)]), floats(T, 3))
    f("scatter_value", lambda i: torch.zeros(T, D).scatter(1, i, 1.0), integers(0, D, T, 1))
    f("scatter_add", lambda x, i, v: x.scatter_add(0, i, v), m, integers(0, T, 3, D), floats(3, D))
    for how in ("sum", "prod", "amax", "amin", "mean"):
        f("scatter_" + how, lambda x, i, v, how=how: x.scatter_reduce(0, i, v, how, include_self=how != "amin"), m, integers(0, T, 4, D), floats(4, D), scriptless=how == "mean")
    f("masked_scatter", lambda x, v: x.masked_scatter(x > 0, v), m, floats(T, D))
    f("slice_scatter", lambda x, v: torch.slice_scatter(x, v, 1, 1, 3), x, floats(B, 2, D))
    f("select_scatter", lambda x, v: torch.select_scatter(x, v, 1, 2), x, floats(B, D))
    f("one_hot_max", lambda x: F.one_hot(x.argmax(-1), D), m)
    f("last_token", lambda x, i: x[torch.arange(x.shape[0]), (i != 0).sum(1) - 1], x, lambda: torch.ones(B, T, dtype=torch.int64))
    f("triangle", lambda x: x[:, torch.tril_indices(3, 3)[0], torch.tril_indices(3, 3)[1]], x)


def assign_slice(x):
    y = x.clone()
    y[:, 1:3] = 5.0
    y[..., 0] += 1
    return y


def assign_strided(x):
    y = torch.zeros_like(x)
    y[:, 0::2, ::3] = x[:, 0::2, ::3]
    return y


def assign_tensor(x, i, v):
    y = x.clone()
    y[i] = v
    return y


def assign_mask(x):
    y = x.clone()
    y[y < 0] = 0.25
    return y


def assign_column(x, v):
    y = x.clone()
    y[:, -1] = v
    return y


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 3), nn.Linear(16, 3)

    def forward(self, x):
        if bool(x.sum() > 0):
            y = self.a(x)
        else:
            y = torch.relu(self.b(x)) + 1
        return y


class Turns(nn.Module):
    def forward(self, x, n: int = 3):
        i = torch.tensor(0)
        y = x
        while bool(y.abs().sum() < 1000.0) and bool(i < 20):
            y = y * 1.7 + 0.1
            i = i + 1
        return y, i


class Rows(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            out = out * 0.5 + torch.tanh(x[i])
        return out


class Gathered(nn.Module):
    def forward(self, x):
        parts = []
        for i in range(x.size(0)):
            parts.append(x[i].cumsum(0))
        return torch.stack(parts)


class Nested(nn.Module):
    def forward(self, x):
        total = torch.zeros(1)
        for i in range(x.size(0)):
            if bool(x[i].sum() > 0):
                total = total + x[i].max()
            else:
                for j in range(x.size(1)):
                    total = total - x[i, j].abs().sum() * 0.1
        return total


class OnShape(nn.Module):
    def forward(self, x):
        if x.dim() == 3 and x.size(1) > 4:
            y = x.mean(1)
        else:
            y = x.flatten(1)
        return y * 2


class Early(nn.Module):
    def forward(self, x):
        if bool(x.max() > 100.0):
            return x * 0
        return x + 1


class Cond(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (x + 1,), lambda x: (x * 2 - 3,), (x,))[0]


class Greedy(nn.Module):
    """A decoder that feeds its own choices back."""

    def __init__(self, words):
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(words, 8), nn.GRUCell(8, 8), nn.Linear(8, words)

    def forward(self, h):
        word = torch.zeros(h.size(0), dtype=torch.int64)
        words = []
        for _ in range(4):
            h = self.cell(self.embed(word), h)
            word = self.out(h).argmax(-1)
            words.append(word)
        return torch.stack(words, 1)


def control(l, z):
    x = floats(z.B, z.T, 16)
    add = lambda name, make, *x, **o: l.layer("control", name, make, *x, **{"script": True, **o})
    add("if", Branch, x)
    add("if_other", Branch, lambda: -torch.rand(z.B, 16) - 1)
    add("while", Turns, x)
    add("for", Rows, x)
    add("list", Gathered, x)
    add("nested", Nested, x)
    add("on_shape", OnShape, x, dynamic=True)
    add("on_rank", OnShape, floats(z.B, 3, 16))
    add("early", Early, x)
    add("cond", Cond, x, script=False, scriptless=True)
    add("greedy", lambda: Greedy(z.V), floats(z.B, 8))


def types(l, z):
    B, C, H, W, T, D = z.B, z.C, z.H, z.W, z.T, z.D
    net = lambda: nn.Sequential(nn.Conv2d(C, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    mlp = lambda: nn.Sequential(nn.Linear(D, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 3), nn.Softmax(-1))
    for dtype, name in ((torch.float16, "f16"), (torch.bfloat16, "bf16"), (torch.float64, "f64")):
        l.layer("types", name + "_conv", lambda dtype=dtype: net().to(dtype), floats(B, C, H, W, dtype=dtype), low=dtype)
        l.layer("types", name + "_mlp", lambda dtype=dtype: mlp().to(dtype), floats(B, T, D, dtype=dtype), low=dtype)
        l.layer("types", name + "_attention", lambda dtype=dtype: nn.TransformerEncoderLayer(D, 4, 20, batch_first=True).to(dtype), floats(B, T, D, dtype=dtype), low=dtype)
        l.layer("types", name + "_weights_only", lambda dtype=dtype: Stored(D, dtype), floats(B, D))
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        l.layer("types", name, lambda name=name: Stored(D, getattr(torch, name)), floats(B, D), scriptless="fnuz" in name)
    l.layer("types", "int8_weights", lambda: Stored(D, torch.int8), floats(B, D))
    f = lambda name, g, *x, **o: l.function("types", name, g, *x, **o)
    f("casts", lambda x: (x.int(), x.long(), x.double(), x.half(), x.bool(), x.to(torch.uint8), x.to(torch.int16)), lambda: torch.rand(T, D) * 50)
    f("int_image", lambda x: (x.float().permute(0, 3, 1, 2) / 255 - 0.45) / 0.22, integers(0, 256, B, H, W, 3, dtype=torch.uint8))
    for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        f("integers_" + str(dtype)[6:], lambda x, y: (x + y, x * 2, x.max(), x.sum(), x // 2), integers(0, 20, T, D, dtype=dtype), integers(0, 20, D, dtype=dtype))
    f("bools", lambda x, y: (x & y, x | y, ~x, x.any(1), x.all(), x.sum(1), x.float().mean()), booleans(T, D), booleans(D))
    f("promotion", lambda x, i: (x * i, i + 0.5, i / 2, x.double() + i), floats(T, D), integers(0, 9, D))


class Stored(nn.Module):
    """Weights kept in a smaller type, made floats before use."""

    def __init__(self, features, dtype):
        super().__init__()
        w = torch.randn(features, 6)
        self.register_buffer("w", (w * 40).clamp(-127, 127).to(dtype) if dtype == torch.int8 else w.to(dtype))

    def forward(self, x):
        return x @ (self.w.to(torch.float32) * 0.5)


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * torch.sigmoid(1.7 * x)

    @staticmethod
    def symbolic(g, x):
        return g.op("Mul", x, g.op("Sigmoid", g.op("Mul", x, g.op("Constant", value_t=torch.tensor(1.7)))))


def signals(l, z):
    f = lambda name, g, *x, **o: l.function("signal", name, g, *x, **{"scriptless": True, **o})
    x = floats(z.B, 32)
    f("fft", lambda x: torch.view_as_real(torch.fft.fft(x)), x)
    f("rfft", lambda x: torch.fft.rfft(x).abs(), x)
    f("rfft_parts", lambda x: (torch.fft.rfft(x).real, torch.fft.rfft(x).imag), x)
    f("irfft", lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2), x)
    f("fft2", lambda x: torch.view_as_real(torch.fft.fft2(x)), floats(z.B, 6, 8))
    f("rfft2_filter", lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * torch.complex(torch.ones(5), torch.full((5,), 0.5))), floats(z.B, 8, 8))
    f("fft_norm", lambda x: torch.view_as_real(torch.fft.fft(x, norm="ortho")), x)
    f("complex_product", lambda a, b: torch.view_as_real(torch.view_as_complex(a) * torch.view_as_complex(b)), floats(z.B, 6, 2), floats(z.B, 6, 2))
    f("complex_angle", lambda a: torch.view_as_complex(a).abs(), floats(z.B, 6, 2))
    f("polar", lambda r, t: torch.view_as_real(torch.polar(r, t)), positive(6), floats(6))
    window = lambda: torch.hann_window(16)
    f("stft", lambda x: torch.view_as_real(torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True)), floats(z.B, 64), scriptless=False)
    f("stft_power", lambda x: torch.stft(x, 16, 8, window=window(), center=False, return_complex=True).abs() ** 2, floats(z.B, 64))
    f("mel_by_conv", lambda x: F.conv1d(x[:, None], torch.hann_window(16).repeat(4, 1)[:, None], stride=4).pow(2).clamp(min=1e-6).log(), floats(z.B, 64), scriptless=False)
    f("custom_function", Custom.apply, x, scriptless=False, dynamoless=True)
    f("rotary", rotary, floats(z.B, 2, z.T, 8), scriptless=False, dynamic=True)


def rotary(x):
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2]).float()[:, None] * torch.pow(10000.0, -torch.arange(half).float() / half)
    angle = torch.cat([angle, angle], -1)
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * angle.cos() + turned * angle.sin()


def fill(l):
    for part in (element_wise, reductions, matrices, shapes, indexing, control, types, signals):
        part(l, l.size)
