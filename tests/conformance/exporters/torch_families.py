"""Families of models with random weights: transformers, torchvision, timm. Each is made as small as its configuration lets it be."""

import torch
from torch import nn

from torch_cases import floats, integers

TEXT = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, max_position_embeddings=40)
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, image_size=32, patch_size=8)
LLAMA = dict(TEXT, num_key_value_heads=2)

ENCODERS = {
    "bert": ("Bert", TEXT),
    "roberta": ("Roberta", dict(TEXT, max_position_embeddings=50)),
    "distilbert": ("DistilBert", dict(vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=40, max_position_embeddings=40)),
    "mpnet": ("MPNet", TEXT),
    "albert": ("Albert", dict(TEXT, embedding_size=16)),
    "electra": ("Electra", dict(TEXT, embedding_size=16)),
    "camembert": ("Camembert", TEXT),
    "xlm_roberta": ("XLMRoberta", TEXT),
    "deberta": ("DebertaV2", dict(TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8)),
    "mobilebert": ("MobileBert", dict(vocab_size=60, hidden_size=32, embedding_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, intra_bottleneck_size=16)),
    "squeezebert": ("SqueezeBert", dict(TEXT, embedding_size=32)),
    "convbert": ("ConvBert", dict(TEXT, embedding_size=32)),
    "nystromformer": ("Nystromformer", dict(TEXT, segment_means_seq_len=8, num_landmarks=8)),
    "roformer": ("RoFormer", TEXT),
    "funnel": ("Funnel", dict(vocab_size=60, d_model=32, n_head=4, d_head=8, d_inner=40, block_sizes=[1, 1], num_decoder_layers=1)),
    "fnet": ("FNet", dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, intermediate_size=40)),
    "modernbert": ("ModernBert", dict(TEXT, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2, local_attention=8)),
    "xlm": ("XLM", dict(vocab_size=60, emb_dim=32, n_layers=2, n_heads=4)),
    "ernie": ("Ernie", TEXT),
    "layoutlm": ("LayoutLM", TEXT),
}

DECODERS = {
    "gpt2": ("GPT2", dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=40)),
    "gpt_neo": ("GPTNeo", dict(vocab_size=60, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], max_position_embeddings=40, intermediate_size=40, window_size=4)),
    "gpt_neox": ("GPTNeoX", TEXT),
    "gptj": ("GPTJ", dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=40, rotary_dim=4)),
    "llama": ("Llama", LLAMA),
    "mistral": ("Mistral", dict(LLAMA, sliding_window=4)),
    "qwen2": ("Qwen2", LLAMA),
    "qwen3": ("Qwen3", dict(LLAMA, head_dim=8)),
    "gemma": ("Gemma", dict(LLAMA, head_dim=8)),
    "gemma2": ("Gemma2", dict(LLAMA, head_dim=8, sliding_window=4)),
    "phi": ("Phi", LLAMA),
    "phi3": ("Phi3", dict(LLAMA, pad_token_id=0)),
    "falcon": ("Falcon", dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)),
    "bloom": ("Bloom", dict(vocab_size=60, hidden_size=32, n_layer=2, n_head=4)),
    "opt": ("OPT", dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=40, max_position_embeddings=40, word_embed_proj_dim=32)),
    "stablelm": ("StableLm", LLAMA),
    "olmo": ("Olmo", LLAMA),
    "mixtral": ("Mixtral", dict(LLAMA, num_local_experts=2)),
    "codegen": ("CodeGen", dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=40, rotary_dim=4)),
    "cohere": ("Cohere", LLAMA),
    "granite": ("Granite", LLAMA),
    "smollm3": ("SmolLM3", dict(LLAMA, pad_token_id=0)),
}

PAIRS = {
    "t5": ("T5", dict(vocab_size=60, d_model=32, d_kv=8, d_ff=40, num_layers=2, num_heads=4, decoder_start_token_id=0)),
    "mt5": ("MT5", dict(vocab_size=60, d_model=32, d_kv=8, d_ff=40, num_layers=2, num_heads=4, decoder_start_token_id=0)),
    "bart": ("Bart", dict(vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=40)),
    "marian": ("Marian", dict(vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=40, pad_token_id=0, decoder_start_token_id=0)),
    "pegasus": ("Pegasus", dict(vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=40)),
    "m2m": ("M2M100", dict(vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=40)),
}

IMAGES = {
    "vit": ("ViT", VIT, 32),
    "deit": ("DeiT", VIT, 32),
    "beit": ("Beit", dict(VIT, use_relative_position_bias=True), 32),
    "dinov2": ("Dinov2", VIT, 32),
    "swin": ("Swin", dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4), 32),
    "swinv2": ("Swinv2", dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4), 32),
    "convnext": ("ConvNext", dict(hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1]), 32),
    "convnextv2": ("ConvNextV2", dict(hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1]), 32),
    "resnet": ("ResNet", dict(embedding_size=8, hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], layer_type="basic"), 32),
    "regnet": ("RegNet", dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=4), 32),
    "mobilenet_v2": ("MobileNetV2", dict(depth_multiplier=0.2, min_depth=4, image_size=32), 32),
    "efficientnet": ("EfficientNet", dict(width_coefficient=0.2, depth_coefficient=0.1, image_size=32, hidden_dim=64), 32),
    "poolformer": ("PoolFormer", dict(hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1]), 32),
    "levit": ("Levit", dict(image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8]), 64),
    "segformer": ("Segformer", dict(hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16), 32),
    "mobilevit": ("MobileViT", dict(image_size=32, hidden_sizes=[16, 20, 24], neck_hidden_sizes=[8, 8, 12, 16, 20, 24, 32], num_attention_heads=2), 32),
    "cvt": ("Cvt", dict(embed_dim=[8, 12, 16], num_heads=[1, 2, 2], depth=[1, 1, 1]), 32),
    "pvt": ("Pvt", dict(image_size=32, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], sequence_reduction_ratios=[4, 2, 1, 1]), 32),
    "dpt": ("DPT", dict(VIT, backbone_out_indices=[0, 0, 1, 1], neck_hidden_sizes=[8, 12, 16, 16], fusion_hidden_size=16, image_size=32), 32),
    "detr": ("Detr", dict(d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=20, num_queries=5, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None), 64),
    "yolos": ("Yolos", dict(VIT, image_size=[32, 32], num_detection_tokens=5), 32),
    "vit_mae": ("ViTMAE", dict(VIT, mask_ratio=0.0), 32),
}

SOUNDS = {
    "wav2vec2": ("Wav2Vec2", dict(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, conv_dim=(8, 8), conv_stride=(5, 4), conv_kernel=(10, 4), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2)),
    "hubert": ("Hubert", dict(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, conv_dim=(8, 8), conv_stride=(5, 4), conv_kernel=(10, 4), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2)),
    "wavlm": ("WavLM", dict(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, conv_dim=(8, 8), conv_stride=(5, 4), conv_kernel=(10, 4), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, num_buckets=16)),
    "unispeech": ("UniSpeech", dict(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, conv_dim=(8, 8), conv_stride=(5, 4), conv_kernel=(10, 4), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2)),
}

WHISPER = dict(vocab_size=60, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_source_positions=10, max_target_positions=12, num_mel_bins=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=[], begin_suppress_tokens=[])
CLIP = dict(text_config=dict(TEXT, eos_token_id=2), vision_config=VIT, projection_dim=16)


class Plain(nn.Module):
    """The tensors of a model's answer, without caches."""

    def __init__(self, model, names, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, a, b=None):
        given = dict(zip(self.names, (a, b)))
        out = self.model(**given, **self.fixed, return_dict=True)
        for key in ("logits", "last_hidden_state", "audio_values", "image_embeds"):
            if key in out:
                rest = [out[k] for k in ("pred_boxes", "pooler_output") if out.get(k) is not None]
                return (out[key], *rest) if rest else out[key]
        return out[0]


class Cached(nn.Module):
    """One step of a decoder with past keys and values as inputs: the older exporter's form."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask, key0, value0, key1, value1):
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache.from_legacy_cache(((key0, value0), (key1, value1)))
        out = self.model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        now = out.past_key_values.to_legacy_cache()
        return out.logits, now[0][0], now[0][1], now[1][0], now[1][1]


def built(name, kind, options, eager=True):
    import transformers

    config = getattr(transformers, name + "Config")(**options)
    if eager:
        config._attn_implementation = "eager"
    head = getattr(transformers, name + kind, None) or getattr(transformers, name + "LMHeadModel")
    return head(config).eval()


def moved(module):
    """Weights away from their tiny initial values, so that answers differ from each other."""
    for p in module.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=(2.0 / p[0].numel()) ** 0.5)
        elif p.dim() == 1:
            p.data += 0.05 * torch.randn_like(p)
    return module


def texts(l, z):
    B, T = z.B, z.T + 3
    ids, mask = integers(3, 60, B, T), lambda: (torch.arange(T)[None] < torch.tensor([T, T - 2, T - 3][:B])[:, None]).long()
    for name, (kind, options) in ENCODERS.items():
        masked = ["input_ids", "attention_mask"] if name not in ("fnet",) else ["input_ids"]
        l.layer("text", name, lambda kind=kind, options=options, masked=masked: Plain(moved(built(kind, "Model", options)), masked), *([ids, mask] if len(masked) == 2 else [ids]), dynamic=True, heavy=True)
    for head in ("ForSequenceClassification", "ForTokenClassification", "ForMaskedLM"):
        l.layer("text", "bert_" + head[3:].lower(), lambda head=head: Plain(moved(built("Bert", head, TEXT, False)), ["input_ids", "attention_mask"]), ids, mask, dynamic=True, heavy=True)
    for name, (kind, options) in DECODERS.items():
        l.layer("decoder", name, lambda kind=kind, options=options: Plain(moved(built(kind, "ForCausalLM", options)), ["input_ids", "attention_mask"], use_cache=False), ids, mask, dynamic=True, heavy=True)
    for name in ("gpt2", "llama", "qwen3", "gemma", "gpt_neox", "phi"):
        kind, options = DECODERS[name]
        heads = 4 if name in ("gpt2", "gpt_neox") else 2 if name != "gemma" else 2
        kv = floats(B, heads, 4, 8)
        l.layer("decoder", name + "_past", lambda kind=kind, options=options: Cached(moved(built(kind, "ForCausalLM", options))), integers(3, 60, B, 2), lambda: torch.ones(B, 6, dtype=torch.int64), kv, kv, kv, kv, dynamic=True, heavy=True)
    for name, (kind, options) in PAIRS.items():
        l.layer("pair", name, lambda kind=kind, options=options: Plain(moved(built(kind, "ForConditionalGeneration" if kind != "Marian" else "MTModel", options)), ["input_ids", "decoder_input_ids"], use_cache=False), ids, integers(3, 60, B, 4), dynamic=True, heavy=True)


def images(l, z):
    for name, (kind, options, side) in IMAGES.items():
        head = {"Segformer": "ForSemanticSegmentation", "DPT": "ForDepthEstimation", "Detr": "ForObjectDetection", "Yolos": "ForObjectDetection"}.get(kind, "Model")
        if name == "vit_mae":
            continue
        make = lambda kind=kind, head=head, options=options, name=name: Image(moved(detr(options) if name == "detr" else built(kind, head, options)))
        l.layer("image", name, make, floats(z.B, 3, side, side), heavy=True)
    l.layer("image", "clip", lambda: Clip(moved(built("CLIP", "Model", CLIP))), integers(3, 60, z.B, z.T), floats(z.B, 3, 32, 32), heavy=True)
    l.layer("image", "siglip", lambda: Clip(moved(built("Siglip", "Model", dict(text_config=TEXT, vision_config=VIT)))), integers(3, 60, z.B, z.T), floats(z.B, 3, 32, 32), heavy=True)


def detr(options):
    import transformers

    options = dict(options, backbone_config=transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]))
    config = transformers.DetrConfig(**options)
    config._attn_implementation = "eager"
    return transformers.DetrForObjectDetection(config).eval()


class Image(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        out = self.model(pixel_values=pixel_values, return_dict=True)
        for key in ("logits", "predicted_depth", "last_hidden_state"):
            if key in out:
                return (out[key], out["pred_boxes"]) if "pred_boxes" in out else out[key]
        return out[0]


class Clip(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, pixels):
        out = self.model(input_ids=ids, pixel_values=pixels, return_dict=True)
        return out.logits_per_image, out.text_embeds, out.image_embeds


def sounds(l, z):
    for name, (kind, options) in SOUNDS.items():
        l.layer("sound", name, lambda kind=kind, options=options: Plain(moved(built(kind, "ForCTC", options)), ["input_values"]), floats(z.B, 400), heavy=True)
    l.layer("sound", "whisper_encoder", lambda: Plain(moved(built("Whisper", "Model", WHISPER).encoder), ["input_features"]), floats(z.B, 8, 20), heavy=True)
    l.layer("sound", "whisper", lambda: Plain(moved(built("Whisper", "ForConditionalGeneration", WHISPER)), ["input_features", "decoder_input_ids"], use_cache=False), floats(z.B, 8, 20), integers(3, 60, z.B, 4), heavy=True)
    l.layer("sound", "spectrogram", lambda: Plain(moved(built("AST", "Model", dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40, max_length=32, num_mel_bins=16, patch_size=8, frequency_stride=4, time_stride=4))), ["input_values"]), floats(z.B, 32, 16), heavy=True)


VISION = "alexnet squeezenet1_1 resnet18 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5 mnasnet0_5 efficientnet_b0 regnet_y_400mf densenet121 googlenet vgg11_bn".split()
TIMM = "resnet10t mobilenetv3_small_050 efficientnet_lite0 vit_tiny_patch16_224 mixer_s32_224 convnext_atto swin_tiny_patch4_window7_224 ghostnet_050 hrnet_w18_small tf_efficientnet_b0 repvgg_a0 edgenext_xx_small mobileone_s0 fastvit_t8 efficientvit_b0 lcnet_035 maxvit_rmlp_pico_rw_256 coatnet_pico_rw_224 levit_128s cspresnet50 dla34 gernet_s resnest14d skresnet18 tinynet_e xcit_nano_12_p16_224 poolformer_s12 pit_ti_224 volo_d1_224 visformer_tiny crossvit_tiny_240 nfnet_l0 res2net50_14w_8s selecsls42 rexnet_100 mobilevit_xxs".split()


def zoo(l, z):
    import timm
    import torchvision

    side = 64
    for name in VISION:
        options = {"aux_logits": False} if name == "googlenet" else {}
        l.layer("torchvision", name, lambda name=name, options=options: torchvision.models.get_model(name, weights=None, num_classes=10, **options), floats(1, 3, side, side), heavy=True, zoo=True)
    for name in ("lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large"):
        l.layer("torchvision", name, lambda name=name: First(torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=4)), floats(1, 3, side, side), heavy=True, zoo=True)
    for name in TIMM:
        fixed = timm.models.get_pretrained_cfg(name)
        size = fixed.input_size[1] if any(t in name for t in ("vit", "swin", "mixer", "coat", "pit", "volo", "visformer", "levit")) else side
        l.layer("timm", name, lambda name=name: timm.create_model(name, pretrained=False, num_classes=10), floats(1, 3, size, size), heavy=True, zoo=True)


class First(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)["out"]


def fill(l):
    for part in (texts, images, sounds):
        part(l, l.size)


def fill_zoo(l):
    zoo(l, l.size)
