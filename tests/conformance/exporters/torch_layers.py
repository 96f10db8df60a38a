"""Every layer of torch.nn."""

import torch
from torch import nn
from torch.nn import functional as F

from torch_cases import booleans, constant, floats, integers, positive


def convolutions(l, z):
    B, C, H, W = z.B, z.C, z.H, z.W
    x1, x2, x3 = floats(B, C, 3 * W), floats(B, C, H, W), floats(B, C, 6, H, W)
    add = lambda name, make, x, **o: l.layer("conv", name, make, x, **o)
    add("conv1d", lambda: nn.Conv1d(C, 6, 3), x1)
    add("conv1d_same", lambda: nn.Conv1d(C, 6, 4, padding="same", dilation=2), x1)
    add("conv1d_reflect", lambda: nn.Conv1d(C, 6, 3, padding=2, padding_mode="reflect"), x1)
    add("conv1d_circular", lambda: nn.Conv1d(C, 6, 3, padding=2, padding_mode="circular", stride=2), x1)
    add("conv1d_depthwise", lambda: nn.Conv1d(C, 2 * C, 5, groups=C, padding=2, bias=False), x1)
    add("conv2d", lambda: nn.Conv2d(C, 6, 3, stride=2, padding=1), x2)
    add("conv2d_same", lambda: nn.Conv2d(C, 6, (2, 3), padding="same"), x2)
    add("conv2d_groups", lambda: nn.Conv2d(C, 2 * C, 3, groups=4, dilation=(1, 2)), x2)
    add("conv2d_replicate", lambda: nn.Conv2d(C, 4, 3, padding=(1, 2), padding_mode="replicate"), x2)
    add("conv2d_unbatched", lambda: nn.Conv2d(C, 4, 3), floats(C, H, W))
    add("conv3d", lambda: nn.Conv3d(C, 4, (2, 3, 3), padding=(0, 1, 1), stride=(1, 2, 1)), x3)
    add("conv3d_groups", lambda: nn.Conv3d(C, C, 3, groups=2, padding=1), x3)
    add("transposed1d", lambda: nn.ConvTranspose1d(C, 5, 4, stride=3, padding=1, output_padding=1), x1)
    add("transposed2d", lambda: nn.ConvTranspose2d(C, 5, 3, stride=2, padding=1, output_padding=1), x2)
    add("transposed2d_groups", lambda: nn.ConvTranspose2d(C, C, (3, 2), stride=(1, 2), groups=2, dilation=2), x2)
    add("transposed2d_depthwise", lambda: nn.ConvTranspose2d(C, C, 4, stride=2, groups=C, bias=False), x2)
    add("transposed3d", lambda: nn.ConvTranspose3d(C, 3, 2, stride=2), x3)
    add("bottleneck", lambda: nn.Sequential(nn.Conv2d(C, 4, 1), nn.BatchNorm2d(4), nn.ReLU6(), nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.BatchNorm2d(4), nn.Hardswish(), nn.Conv2d(4, C, 1)), x2)
    add("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Conv1d(C, 4, 3)), x1)
    add("spectral_norm", lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(C, 4, 3)), x2)
    add("lazy", lambda: lazy(nn.LazyConv2d(4, 3), x2), x2)
    l.function("conv", "dynamic_weights", lambda x, w: F.conv2d(x, w, padding=1), x2, floats(5, C, 3, 3))
    l.function("conv", "dynamic_transposed", lambda x, w: F.conv_transpose1d(x, w, stride=2), x1, floats(C, 3, 4))
    l.function("conv", "fold", lambda x: F.fold(x, (H, W), 3, padding=1, stride=(1, 1)), floats(B, C * 9, H * W))
    l.function("conv", "unfold", lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=1, stride=2), x2)
    l.layer("conv", "deform", lambda: Deform(C), x2, scriptless=True)


def lazy(module, x):
    module(x())
    return module


class Deform(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.offset = nn.Conv2d(channels, 18, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(4, channels, 3, 3))

    def forward(self, x):
        import torchvision

        return torchvision.ops.deform_conv2d(x, self.offset(x), self.weight, padding=1)


def pools(l, z):
    B, C, H, W = z.B, z.C, z.H, z.W
    x1, x2, x3 = floats(B, C, 3 * W), floats(B, C, H, W), floats(B, C, 6, H, W)
    add = lambda name, make, x, **o: l.layer("pool", name, make, x, **o)
    for n, x in ((1, x1), (2, x2), (3, x3)):
        of = lambda name, n=n: getattr(nn, "%s%dd" % (name, n))
        add("max%d" % n, lambda of=of: of("MaxPool")(3, stride=2, padding=1), x)
        add("max%d_ceil" % n, lambda of=of: of("MaxPool")(2, stride=3, ceil_mode=True), x)
        add("max%d_dilated" % n, lambda of=of: of("MaxPool")(2, stride=1, dilation=2), x)
        add("max%d_indices" % n, lambda of=of: of("MaxPool")(2, return_indices=True), x)
        add("average%d" % n, lambda of=of: of("AvgPool")(3, stride=2, padding=1), x)
        add("average%d_valid" % n, lambda of=of: of("AvgPool")(3, stride=2, padding=1, count_include_pad=False), x)
        add("average%d_ceil" % n, lambda of=of: of("AvgPool")(2, stride=3, padding=1, ceil_mode=True), x)
        add("adaptive_average%d_1" % n, lambda of=of: of("AdaptiveAvgPool")(1), x)
        add("adaptive_max%d_1" % n, lambda of=of: of("AdaptiveMaxPool")(1), x)
    add("adaptive_average1", lambda: nn.AdaptiveAvgPool1d(6), floats(B, C, 12))
    add("adaptive_average2", lambda: nn.AdaptiveAvgPool2d((4, 5)), floats(B, C, 8, 10))
    add("adaptive_average2_uneven", lambda: nn.AdaptiveAvgPool2d((3, 4)), x2)
    add("adaptive_average2_none", lambda: nn.AdaptiveAvgPool2d((None, 2)), floats(B, C, 8, 10))
    add("adaptive_average3", lambda: nn.AdaptiveAvgPool3d((3, 2, 2)), floats(B, C, 6, 8, 4))
    add("adaptive_max2", lambda: nn.AdaptiveMaxPool2d((2, 5)), floats(B, C, 8, 10))
    add("adaptive_max1_indices", lambda: nn.AdaptiveMaxPool1d(4, return_indices=True), floats(B, C, 12))
    add("average2_divisor", lambda: nn.AvgPool2d(2, divisor_override=3), x2)
    add("lp1", lambda: nn.LPPool1d(2, 3), lambda: x1().abs())
    add("lp2", lambda: nn.LPPool2d(2, 3, stride=2), lambda: x2().abs())
    add("global", lambda: nn.Sequential(nn.Conv2d(C, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)), x2)
    l.function("pool", "unpool", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), floats(B, C, 8, 8))
    l.function("pool", "mean_of_space", lambda x: x.mean((-1, -2)), x2)
    l.function("pool", "max_of_space", lambda x: x.amax((2, 3), keepdim=True), x2)


def norms(l, z):
    B, C, H, W, D, T = z.B, z.C, z.H, z.W, z.D, z.T
    x2, x3, t = floats(B, C, H, W), floats(B, C, 4, H, W), floats(B, T, D)
    add = lambda name, make, x, **o: l.layer("norm", name, lambda: trained(make()), x, **o)
    add("batch1_flat", lambda: nn.BatchNorm1d(D), floats(B, D))
    add("batch1", lambda: nn.BatchNorm1d(C), floats(B, C, W))
    add("batch2", lambda: nn.BatchNorm2d(C), x2)
    add("batch3", lambda: nn.BatchNorm3d(C), x3)
    add("batch_plain", lambda: nn.BatchNorm2d(C, affine=False), x2)
    add("batch_untracked", lambda: nn.BatchNorm2d(C, track_running_stats=False), x2)
    add("instance1", lambda: nn.InstanceNorm1d(C), floats(B, C, W))
    add("instance2", lambda: nn.InstanceNorm2d(C, affine=True), x2)
    add("instance2_tracked", lambda: nn.InstanceNorm2d(C, affine=True, track_running_stats=True), x2)
    add("instance3", lambda: nn.InstanceNorm3d(C), x3)
    add("group", lambda: nn.GroupNorm(2, C), x2)
    add("group_flat", lambda: nn.GroupNorm(4, C), floats(B, C))
    add("group_plain", lambda: nn.GroupNorm(1, C, affine=False), floats(B, C, W))
    add("group3", lambda: nn.GroupNorm(4, C), x3)
    add("layer", lambda: nn.LayerNorm(D), t)
    add("layer_plain", lambda: nn.LayerNorm(D, elementwise_affine=False), t)
    add("layer_no_bias", lambda: nn.LayerNorm(D, bias=False), t)
    add("layer_two", lambda: nn.LayerNorm((T, D)), t)
    add("layer_image", lambda: nn.LayerNorm((C, H, W)), x2)
    add("rms", lambda: nn.RMSNorm(D), t)
    add("local_response", lambda: nn.LocalResponseNorm(3, alpha=0.01), x2)
    add("local_response_even", lambda: nn.LocalResponseNorm(4), floats(B, C, W))
    add("cross_channel", lambda: nn.CrossMapLRN2d(5), x2)
    l.function("norm", "normalize", lambda x: F.normalize(x, dim=1), x2)
    l.function("norm", "normalize_l1", lambda x: F.normalize(x, p=1, dim=-1), t)
    l.function("norm", "standardise", lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5), t)
    l.function("norm", "var_mean", lambda x: torch.var_mean(x, dim=(1, 2), unbiased=False), t)
    l.function("norm", "norm_fro", lambda x: torch.linalg.norm(x, dim=(-2, -1)), t)
    l.function("norm", "norm_p3", lambda x: x.norm(p=3, dim=1), t)
    l.function("norm", "norm_inf", lambda x: torch.linalg.vector_norm(x, ord=float("inf"), dim=-1), t)


def trained(module):
    """Statistics and weights that are not those of a new layer."""
    for m in module.modules():
        if getattr(m, "running_mean", None) is not None:
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
        if getattr(m, "weight", None) is not None and m.weight.dim() == 1:
            nn.init.normal_(m.weight)
        if getattr(m, "bias", None) is not None:
            nn.init.normal_(m.bias)
    return module


ACTIVATIONS = "ELU Hardshrink Hardsigmoid Hardtanh Hardswish LeakyReLU LogSigmoid PReLU ReLU ReLU6 RReLU SELU CELU GELU Sigmoid SiLU Mish Softplus Softshrink Softsign Tanh Tanhshrink Softmin Softmax LogSoftmax GLU".split()


def activations(l, z):
    x = floats(z.B, z.C, z.H, z.W)
    for name in ACTIVATIONS:
        options = {"dim": 1} if name in ("Softmin", "Softmax", "LogSoftmax", "GLU") else {}
        l.layer("activation", name.lower(), lambda name=name, options=options: getattr(nn, name)(**options), x)
    l.layer("activation", "gelu_tanh", lambda: nn.GELU(approximate="tanh"), x)
    l.layer("activation", "threshold", lambda: nn.Threshold(0.1, 20.0), x)
    l.layer("activation", "prelu_channels", lambda: nn.PReLU(z.C, init=0.2), x)
    l.layer("activation", "softplus_beta", lambda: nn.Softplus(beta=2, threshold=3), x)
    l.layer("activation", "softmax2d", lambda: nn.Softmax2d(), x)
    l.layer("activation", "softmax_last", lambda: nn.Softmax(dim=-1), x)
    l.layer("activation", "softmax_first", lambda: nn.Softmax(dim=0), x)


def recurrent(l, z):
    B, T, D = z.B, z.T, z.D
    x = floats(T, B, D)
    for kind in ("RNN", "GRU", "LSTM"):
        of = getattr(nn, kind)
        name = kind.lower()
        l.layer("recurrent", name, lambda of=of: of(D, 6), x)
        l.layer("recurrent", name + "_batch_first", lambda of=of: of(D, 6, batch_first=True), floats(B, T, D))
        l.layer("recurrent", name + "_both_ways", lambda of=of: of(D, 6, bidirectional=True), x)
        l.layer("recurrent", name + "_layers", lambda of=of: of(D, 6, num_layers=3, bidirectional=True, batch_first=True, bias=False), floats(B, T, D))
        l.layer("recurrent", name + "_unbatched", lambda of=of: of(D, 6), floats(T, D))
        l.layer("recurrent", name + "_packed", lambda of=of: Packed(of(D, 6, bidirectional=True)), x, constant([T] + [2] * (B - 1)), dynamoless=True)
        l.layer("recurrent", name + "_cell", lambda kind=kind: Cells(kind, D), x)
        l.layer("recurrent", name + "_state", lambda of=of: State(of(D, 6)), x, floats(1, B, 6))
    l.layer("recurrent", "rnn_relu", lambda: nn.RNN(D, 6, nonlinearity="relu"), x)
    l.layer("recurrent", "lstm_projected", lambda: nn.LSTM(D, 6, proj_size=3), x, scriptless=True)
    l.layer("recurrent", "tagger", lambda: Tagger(z.V, D), integers(0, z.V, B, T))
    l.layer("recurrent", "scripted_cell", lambda: Unrolled(D), x, script=True)


class State(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, h):
        return self.inner(x, (h, h) if isinstance(self.inner, nn.LSTM) else h)[0]


class Packed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        y, _ = self.inner(packed)
        return nn.utils.rnn.pad_packed_sequence(y)[0]


class Cells(nn.Module):
    def __init__(self, kind, features):
        super().__init__()
        self.cell = getattr(nn, kind + "Cell")(features, 6)

    def forward(self, x):
        state, out = None, []
        for t in range(3):
            state = self.cell(x[t], state)
            out.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(out)


class Unrolled(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.cell = nn.GRUCell(features, 6)

    def forward(self, x):
        h = torch.zeros(x.size(1), 6)
        for t in range(x.size(0)):
            h = self.cell(x[t], h)
        return h


class Tagger(nn.Module):
    def __init__(self, words, features):
        super().__init__()
        self.embed = nn.Embedding(words, features, padding_idx=0)
        self.lstm = nn.LSTM(features, 6, bidirectional=True, batch_first=True)
        self.out = nn.Linear(12, 4)

    def forward(self, words):
        return self.out(self.lstm(self.embed(words))[0]).log_softmax(-1)


def embeddings(l, z):
    V, D, B, T = z.V, z.D, z.B, z.T
    ids = integers(0, V, B, T)
    l.layer("embedding", "plain", lambda: nn.Embedding(V, D), ids)
    l.layer("embedding", "padded", lambda: nn.Embedding(V, D, padding_idx=1), ids)
    l.layer("embedding", "max_norm", lambda: nn.Embedding(V, D), integers(0, V, B, T, dtype=torch.int32))
    for mode in ("sum", "mean", "max"):
        l.layer("embedding", "bag_" + mode, lambda mode=mode: nn.EmbeddingBag(V, D, mode=mode), ids)
        l.layer("embedding", "bag_offsets_" + mode, lambda mode=mode: nn.EmbeddingBag(V, D, mode=mode), integers(0, V, 9), constant([0, 3, 5]), scriptless=mode != "sum")
    l.layer("embedding", "one_hot", lambda: OneHot(V), ids)
    l.layer("embedding", "bilinear", lambda: nn.Bilinear(D, 3, 4), floats(B, D), floats(B, 3))
    l.layer("embedding", "cosine", lambda: nn.CosineSimilarity(dim=1), floats(B, D), floats(B, D))
    l.layer("embedding", "distance", lambda: nn.PairwiseDistance(), floats(B, D), floats(B, D))
    l.function("embedding", "cdist", lambda a, b: torch.cdist(a, b), floats(B, T, D), floats(B, 3, D))
    l.layer("embedding", "linear", lambda: nn.Linear(D, 4), floats(B, T, D))
    l.layer("embedding", "linear_flat", lambda: nn.Linear(D, 4, bias=False), floats(B, D))
    l.layer("embedding", "perceptron", lambda: nn.Sequential(nn.Linear(D, 12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 4), nn.Softmax(1)), floats(B, D))
    l.layer("embedding", "losses", lambda: Losses(), floats(B, 4), integers(0, 4, B))


class OneHot(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, x):
        return F.one_hot(x, self.classes).float()


class Losses(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(x, y), F.nll_loss(x.log_softmax(1), y, reduction="none"), F.smooth_l1_loss(x, x.relu())


def attention(l, z):
    B, T, D = z.B, z.T, z.D
    x = floats(B, T, D)
    heads = lambda: floats(B, 4, T, 8)
    l.layer("attention", "multihead", lambda: Attends(nn.MultiheadAttention(D, 4, batch_first=True)), x)
    l.layer("attention", "multihead_weights", lambda: Attends(nn.MultiheadAttention(D, 4, batch_first=True), True), x)
    l.layer("attention", "multihead_padding", lambda: Padded(nn.MultiheadAttention(D, 4, batch_first=True)), x, lambda: torch.arange(T)[None].repeat(B, 1) > T - 3)
    l.layer("attention", "multihead_cross", lambda: nn.MultiheadAttention(D, 2, kdim=6, vdim=5, batch_first=True), x, floats(B, 3, 6), floats(B, 3, 5))
    f = F.scaled_dot_product_attention
    l.function("attention", "dot", lambda q, k, v: f(q, k, v), heads(), heads(), heads())
    l.function("attention", "dot_causal", lambda q, k, v: f(q, k, v, is_causal=True), heads(), heads(), heads())
    l.function("attention", "dot_scale", lambda q, k, v: f(q, k, v, scale=0.3), heads(), heads(), heads())
    l.function("attention", "dot_mask", lambda q, k, v: f(q, k, v, attn_mask=torch.ones(T, T, dtype=torch.bool).tril()), heads(), heads(), heads())
    l.function("attention", "dot_bias", lambda q, k, v: f(q, k, v, attn_mask=torch.linspace(-1, 1, T * T).reshape(T, T)), heads(), heads(), heads())
    l.function("attention", "dot_grouped", lambda q, k, v: f(q, k, v, enable_gqa=True), heads(), floats(B, 2, T, 8), floats(B, 2, T, 8))
    l.function("attention", "dot_flat", lambda q, k, v: f(q, k, v), x, x, x)
    for name, options in (("", {}), ("_norm_first", {"norm_first": True, "activation": "gelu"}), ("_time_first", {"batch_first": False})):
        options = {"batch_first": True, "dim_feedforward": 24, **options}
        l.layer("attention", "encoder_layer" + name, lambda options=options: nn.TransformerEncoderLayer(D, 4, **options), x)
        l.layer("attention", "decoder_layer" + name, lambda options=options: nn.TransformerDecoderLayer(D, 4, **options), x, x)
    l.layer("attention", "encoder", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 20, batch_first=True), 2, enable_nested_tensor=False), x)
    l.layer("attention", "encoder_masked", lambda: Masked(nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 20, batch_first=True), 1, enable_nested_tensor=False)), x, lambda: torch.arange(T)[None].repeat(B, 1) > T - 2)
    l.layer("attention", "transformer", lambda: nn.Transformer(D, 2, 1, 1, 20, batch_first=True), x, floats(B, 3, D))


class Attends(nn.Module):
    def __init__(self, inner, weights=False):
        super().__init__()
        self.inner, self.weights = inner, weights

    def forward(self, x):
        y = self.inner(x, x, x, need_weights=self.weights)
        return y if self.weights else y[0]


class Padded(Attends):
    def forward(self, x, padding):
        return self.inner(x, x, x, key_padding_mask=padding, need_weights=False)[0]


class Masked(Attends):
    def forward(self, x, padding):
        causal = nn.Transformer.generate_square_subsequent_mask(x.size(1))
        return self.inner(x, mask=causal, is_causal=True, src_key_padding_mask=torch.zeros(padding.shape).masked_fill(padding, float("-inf")))


def vision(l, z):
    B, C, H, W = z.B, z.C, z.H, z.W
    x, x1, x3 = floats(B, C, H, W), floats(B, C, W), floats(B, 2, 4, H, W)
    f = l.function
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        name = mode.replace("-", "_")
        f("vision", "upsample_" + name, lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode), x)
        f("vision", "size_" + name, lambda x, mode=mode: F.interpolate(x, size=(H + 5, W - 3), mode=mode), x)
        if mode.startswith("bi"):
            f("vision", "corners_" + name, lambda x, mode=mode: F.interpolate(x, size=(2 * H, 3 * W), mode=mode, align_corners=True), x)
            f("vision", "antialias_" + name, lambda x, mode=mode: F.interpolate(x, size=(H - 3, W - 3), mode=mode, antialias=True), x)
    f("vision", "upsample_linear", lambda x: F.interpolate(x, scale_factor=1.5, mode="linear"), x1)
    f("vision", "linear_corners", lambda x: F.interpolate(x, size=7, mode="linear", align_corners=True), x1)
    f("vision", "upsample_trilinear", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), x3)
    f("vision", "upsample_area", lambda x: F.interpolate(x, size=(4, 5), mode="area"), floats(B, C, 8, 10))
    f("vision", "upsample_like", lambda x, y: F.interpolate(x, size=y.shape[-2:], mode="bilinear") + y, floats(B, C, 4, 5), x)
    f("vision", "scale_recomputed", lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True), x)
    l.layer("vision", "upsample_layer", lambda: nn.Sequential(nn.Conv2d(C, 4, 1), nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(4, 3, 3, padding=1)), x)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            f("vision", "grid_%s_%s" % (mode, padding), lambda x, g, mode=mode, padding=padding: F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=padding == "border"), x, lambda: torch.rand(B, 5, 6, 2) * 2.4 - 1.2)
    f("vision", "grid_far_cubic", lambda x, g: F.grid_sample(x, g, mode="bicubic", padding_mode="border"), x, lambda: torch.rand(B, 5, 4, 2) * 5 - 2.5)
    f("vision", "grid_3d", lambda x, g: F.grid_sample(x, g, align_corners=False), x3, lambda: torch.rand(B, 3, 4, 5, 3) * 2 - 1)
    f("vision", "affine_grid", lambda t: F.affine_grid(t, (B, C, 6, 7), align_corners=False), floats(B, 2, 3))
    f("vision", "spatial_transformer", lambda x, t: F.grid_sample(x, F.affine_grid(t, x.shape, align_corners=True), align_corners=True), x, floats(B, 2, 3))
    l.layer("vision", "pixel_shuffle", lambda: nn.PixelShuffle(2), x)
    l.layer("vision", "pixel_unshuffle", lambda: nn.PixelUnshuffle(2), floats(B, C, 8, 6))
    l.layer("vision", "channel_shuffle", lambda: nn.ChannelShuffle(2), x)
    for name, values in (("Constant", {"value": 1.5}), ("Reflection", {}), ("Replication", {}), ("Zero", {}), ("Circular", {})):
        for n, t in ((1, x1), (2, x), (3, x3)):
            l.layer("vision", "pad_%s%d" % (name.lower(), n), lambda name=name, n=n, values=values: getattr(nn, "%sPad%dd" % (name, n))(tuple(range(1, 2 * n + 1)) if n < 3 else 1, **values), t)
    f("vision", "pad_negative", lambda x: F.pad(x, (-1, 2, 1, -2)), x)
    f("vision", "flip", lambda x: x.flip(-1, 2), x)
    f("vision", "roll", lambda x: torch.roll(x, (2, -3), (2, 3)), x)
    f("vision", "windows", lambda x: x[:, :, : H // 2 * 2, : W // 2 * 2 if W % 2 == 0 else W - 1].unfold(2, 2, 2).unfold(3, 2, 2), x)
    f("vision", "rot90", lambda x: torch.rot90(x, 1, (2, 3)), x)
    f("vision", "bool_mask", lambda x, m: x * m[:, None], x, booleans(B, H, W))
    f("vision", "roi_align", roi_align, x, lambda: torch.tensor([[0, 0.5, 1, 5, 6], [1, 2, 2, 7, 7.5]]))
    f("vision", "nms", nms, lambda: boxes(12), positive(12))


def boxes(count):
    at = torch.rand(count, 2) * 10
    return torch.cat([at, at + torch.rand(count, 2) * 6 + 1], 1)


def roi_align(x, rois):
    import torchvision

    return torchvision.ops.roi_align(x, rois, (3, 4), sampling_ratio=2, aligned=True)


def nms(at, scores):
    import torchvision

    return torchvision.ops.nms(at, scores, 0.4)


def fill(l):
    for part in (convolutions, pools, norms, activations, recurrent, embeddings, attention, vision):
        part(l, l.size)
