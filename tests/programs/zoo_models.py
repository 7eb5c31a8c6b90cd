"""The models of the zoo: (group, name, factory, settings); a factory returns (model, args) or (model, args, kwargs).

settings: dtypes ("f32", "bf16", "f16"), dynamic (dynamic_shapes of torch.export), seed (for programs that draw random numbers).
"""

import torch
from torch import nn

import zoo_higher
import zoo_small


def built(factory):
    model, *rest = factory()
    args, kwargs = rest[0], rest[1] if len(rest) > 1 else {}
    if isinstance(args, dict):
        args, kwargs = (), args
    return randomised(model), args, kwargs


def randomised(model):
    """Zeros and ones hide mistakes: parameters and statistics that are constant get noise."""
    with torch.no_grad():
        for p in model.parameters():
            if p.numel() and p.is_floating_point() and p.min() == p.max():
                p.add_(0.2 * torch.randn_like(p))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.3)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
    return model.eval()


def image(size=64, batch=1, channels=3):
    return (torch.randn(batch, channels, size, size),)


# ---- Vision ----

def torchvision_programs():
    from torchvision import models as tv
    from torchvision.models import detection, segmentation, video
    small = dict(num_classes=10)
    plain = {"squeezenet1_0": (lambda **k: tv.SqueezeNet("1_0", **k), 64), "squeezenet1_1": (lambda **k: tv.SqueezeNet("1_1", **k), 64),
             "resnet18": (tv.resnet18, 64), "shufflenet_v2_x0_5": (tv.shufflenet_v2_x0_5, 64), "mobilenet_v2": (tv.mobilenet_v2, 64), "mnasnet0_5": (tv.mnasnet0_5, 64),
             "mobilenet_v3_small": (tv.mobilenet_v3_small, 64), "mobilenet_v3_large": (tv.mobilenet_v3_large, 64), "efficientnet_b0": (tv.efficientnet_b0, 64),
             "regnet_y_400mf": (tv.regnet_y_400mf, 64), "regnet_x_400mf": (tv.regnet_x_400mf, 64), "shufflenet_v2_x1_0": (tv.shufflenet_v2_x1_0, 64)}
    for name, (make, size) in plain.items():
        yield f"tv_{name}", lambda make=make, size=size: (make(**small), image(size))
    yield "tv_vgg_tiny", lambda: (tv.VGG(tv.vgg.make_layers([8, "M", 16, 16, "M", 24, "M"], batch_norm=True), num_classes=10), image(64))
    yield "tv_densenet_tiny", lambda: (tv.DenseNet(8, (2, 2, 2), 16, num_classes=10), image(64))
    yield "tv_googlenet", lambda: (tv.GoogLeNet(num_classes=10, aux_logits=False, init_weights=False), image(64))
    yield "tv_vit_tiny", lambda: (tv.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10), image(32, 2))
    yield "tv_swin_tiny", lambda: (tv.SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4], num_classes=10), image(32, 2))
    yield "tv_swin_v2_tiny", lambda: (tv.SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4], num_classes=10, block=tv.swin_transformer.SwinTransformerBlockV2,
                                                         downsample_layer=tv.swin_transformer.PatchMergingV2), image(32, 1))
    yield "tv_maxvit_tiny", lambda: (tv.MaxVit((64, 64), 16, 4, [16, 32], [1, 1], 8, 0.1, num_classes=10), image(64))
    yield "tv_convnext_tiny", lambda: (tv.ConvNeXt([tv.convnext.CNBlockConfig(8, 16, 1), tv.convnext.CNBlockConfig(16, None, 2)], num_classes=10), image(32, 2))
    yield "tv_fcn", lambda: (Only(segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=4), "out"), image(48))
    yield "tv_lraspp", lambda: (Only(segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4), "out"), image(64))
    yield "tv_deeplab_mobilenet", lambda: (Only(segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4), "out"), image(64))
    yield "tv_r3d_tiny", lambda: (video.resnet.VideoResNet(video.resnet.BasicBlock, [video.resnet.Conv3DSimple] * 4, [1, 1, 1, 1], video.resnet.BasicStem, num_classes=5),
                                  (torch.randn(1, 3, 4, 24, 24),))
    yield "tv_ssdlite", lambda: (Detector(detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)), image(96))
    yield "tv_fasterrcnn", lambda: (Detector(detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=5)), image(96))
    yield "tv_raft", lambda: (Flow(), (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)))


class Only(nn.Module):
    def __init__(self, model, key):
        super().__init__()
        self.model, self.key = model, key

    def forward(self, x):
        return self.model(x)[self.key]


class Detector(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return [result for found in self.model([x[0]]) for result in found.values()]


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        from torchvision.models.optical_flow import raft_small
        self.model = raft_small(weights=None)

    def forward(self, a, b):
        return self.model(a, b, num_flow_updates=2)[-1]


TIMM = """test_vit test_vit2 test_vit3 test_vit4 test_resnet test_efficientnet test_efficientnet_ln test_efficientnet_gn test_efficientnet_evos test_byobnet
test_convnext test_convnext2 test_convnext3 test_nfnet test_mambaout mobilenetv3_small_050 lcnet_050 tinynet_e tf_efficientnet_lite0 mobilevit_xxs mobilevitv2_050
edgenext_xx_small levit_128s ghostnet_050 ghostnetv2_100 repghostnet_050 mobileone_s0 fbnetc_100 semnasnet_075 hardcorenas_a regnetx_002 regnety_002 resnet10t
resnet14t res2net50_14w_8s dla46_c dla46x_c hrnet_w18_small xcit_nano_12_p16_224 cait_xxs24_224 crossvit_tiny_240 pit_ti_224 coat_tiny convit_tiny
pvt_v2_b0 efficientformer_l1 efficientformerv2_s0 efficientvit_b0 efficientvit_m0 fastvit_t8 repvit_m0_9 starnet_s1 convmixer_768_32 poolformer_s12 mixer_s32_224
gmixer_12_224 resmlp_12_224 gmlp_ti16_224 tiny_vit_5m_224 davit_tiny nest_tiny visformer_tiny vit_tiny_patch16_224 deit_tiny_patch16_224 eva02_tiny_patch14_224
vit_relpos_small_patch16_224 swin_s3_tiny_224 selecsls42b ese_vovnet19b_slim_dw spnasnet_100 skresnet18 ecaresnet26t botnet26t_256 halonet26t lambda_resnet26t eca_botnext26ts_256
repvgg_a0 cs3darknet_focus_s darknet17 convnext_atto convnextv2_atto inception_next_atto mambaout_femto rdnet_tiny hgnetv2_b0 shvit_s1 hiera_tiny_224 focalnet_tiny_srf
mnasnet_small tf_mobilenetv3_small_minimal_100 mobilenetv4_conv_small mobilenetv1_100 resnetv2_18 xception41 rexnet_100 nf_regnet_b0 dm_nfnet_f0 bat_resnext26ts
sequencer2d_s pvt_v2_b1 maxxvitv2_nano_rw_256 coatnet_nano_rw_224 csatv2 swiftformer_xs""".split()


def timm_programs():
    import timm
    known = set(timm.list_models())

    def make(name):
        for options in ({"img_size": 64}, {"img_size": 96}, {"img_size": 32}, {}):
            try:
                model = timm.create_model(name, pretrained=False, num_classes=10, **options).eval()
                size = options.get("img_size") or (64 if not model.default_cfg.get("fixed_input_size") else model.default_cfg["input_size"][-1])
                with torch.no_grad():
                    model(*image(size, channels=model.default_cfg["input_size"][0]))
                if sum(p.numel() for p in model.parameters()) > 30e6:
                    raise ValueError("too large")
                return model, image(size)
            except (TypeError, AssertionError, RuntimeError, AttributeError) as error:
                last = error
        raise last
    for name in TIMM:
        if name in known:
            yield f"timm_{name}", lambda name=name: make(name)


# ---- transformers ----

TEXT = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, initializer_range=0.2, use_cache=False)
ENCODERS = {"bert": {}, "roberta": {}, "xlm-roberta": {}, "electra": {"embedding_size": 16}, "albert": {"embedding_size": 16}, "camembert": {}, "ernie": {}, "mpnet": {}, "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
            "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "conv_kernel_size": 3, "conv_act": "tanh"}, "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}, "layoutlm": {},
            "squeezebert": {}, "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 32}, "fnet": {"tpu_short_seq_length": 16}, "roformer": {"embedding_size": 32, "rotary_value": True}, "convbert": {"embedding_size": 16, "conv_kernel_size": 3, "head_ratio": 2},
            "nystromformer": {"num_landmarks": 4, "segment_means_seq_len": 16}, "megatron-bert": {}, "splinter": {}, "ibert": {"quant_mode": False}, "canine": {"num_hash_buckets": 64, "local_transformer_stride": 16}, "funnel": {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48},
            "xlm": {"emb_dim": 32, "n_layers": 2, "n_heads": 4}, "flaubert": {"emb_dim": 32, "n_layers": 2, "n_heads": 4}, "rembert": {"input_embedding_size": 16, "output_embedding_size": 16}, "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 8},
            "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}, "longformer": {"attention_window": 4}, "big_bird": {"attention_type": "original_full"}, "data2vec-text": {}, "esm": {"mask_token_id": 3, "position_embedding_type": "rotary"}, "nezha": {}, "luke": {}, "lilt": {}, "mra": {}, "yoso": {}}
HEAD = dict(num_key_value_heads=2, head_dim=8)
MOE = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, n_routed_experts=4, n_shared_experts=1)
DECODERS = {"gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "attn_implementation": "eager"}, "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "num_heads": 4, "window_size": 4}, "gptj": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4}, "gpt_neox": {}, "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
            "bloom": {"n_layer": 2, "n_head": 4}, "codegen": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4}, "gpt_bigcode": {"n_embd": 32, "n_layer": 2, "n_head": 4}, "llama": HEAD, "mistral": {**HEAD, "sliding_window": 6}, "mixtral": {**HEAD, **MOE}, "qwen2": HEAD, "qwen3": HEAD, "qwen2_moe": {**HEAD, **MOE, "shared_expert_intermediate_size": 24}, "qwen3_moe": {**HEAD, **MOE},
            "gemma": HEAD, "gemma2": {**HEAD, "sliding_window": 6, "query_pre_attn_scalar": 8}, "gemma3_text": {**HEAD, "sliding_window": 6, "query_pre_attn_scalar": 8}, "phi": {"num_key_value_heads": 2, "partial_rotary_factor": 0.5}, "phi3": {"num_key_value_heads": 2}, "falcon": {"alibi": False, "new_decoder_architecture": False, "multi_query": True},
            "mpt": {"d_model": 32, "n_layers": 2, "n_heads": 4, "expansion_ratio": 2, "max_seq_len": 64}, "starcoder2": {"num_key_value_heads": 2}, "stablelm": {"num_key_value_heads": 2}, "olmo": {"num_key_value_heads": 2}, "olmo2": {"num_key_value_heads": 2}, "olmoe": {**HEAD, **MOE}, "cohere": {"num_key_value_heads": 2}, "cohere2": {"num_key_value_heads": 2, "sliding_window": 6},
            "granite": {"num_key_value_heads": 2}, "granitemoe": {"num_key_value_heads": 2, **MOE}, "glm": {**HEAD}, "glm4": {**HEAD}, "smollm3": HEAD, "persimmon": {}, "biogpt": {}, "xglm": {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48}, "ctrl": {"n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 48}, "openai-gpt": {"n_embd": 32, "n_layer": 2, "n_head": 4},
            "mamba": {"state_size": 4, "expand": 2, "conv_kernel": 3, "time_step_rank": 4}, "mamba2": {"state_size": 4, "num_heads": 4, "head_dim": 16, "expand": 2, "n_groups": 1, "chunk_size": 8}, "falcon_mamba": {"state_size": 4, "expand": 2, "time_step_rank": 4}, "rwkv": {"attention_hidden_size": 32}, "deepseek_v2": {**MOE, "kv_lora_rank": 8, "q_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
            "deepseek_v3": {**MOE, "kv_lora_rank": 8, "q_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}, "gpt_oss": {**HEAD, **MOE, "sliding_window": 6}, "nemotron": {"num_key_value_heads": 2}, "jamba": {**MOE, "num_key_value_heads": 2, "use_mamba_kernels": False, "mamba_d_state": 4, "attn_layer_period": 2, "attn_layer_offset": 1},
            "ernie4_5": HEAD, "exaone4": {**HEAD, "sliding_window": 6}, "hunyuan_v1_dense": HEAD, "helium": HEAD, "arcee": HEAD, "seed_oss": HEAD, "bitnet": HEAD, "diffllama": HEAD, "lfm2": {"num_key_value_heads": 2, "block_multiple_of": 16}, "minimax": {**HEAD, **MOE, "block_size": 8}, "zamba2": {"num_key_value_heads": 4, "mamba_d_state": 8, "n_mamba_heads": 2, "use_mamba_kernels": False},
            "xlstm": {"num_heads": 4, "num_blocks": 2}, "recurrent_gemma": {**HEAD, "lru_width": 32, "attention_window_size": 8}, "trocr": {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48}, "moshi": HEAD}
PAIRS = {"t5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}, "mt5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}, "umt5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
         "longt5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "local_radius": 3, "global_block_size": 4}, "switch_transformers": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "num_experts": 2}, **{name: {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "decoder_start_token_id": 2}
         for name in ("bart", "mbart", "pegasus", "marian", "blenderbot", "blenderbot-small", "m2m_100", "plbart", "led", "bigbird_pegasus", "mvp", "nllb-moe")}, "fsmt": {"langs": ["a", "b"], "src_vocab_size": 96, "tgt_vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}, "prophetnet": {"num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}}
IMAGES = {"vit": {}, "deit": {}, "beit": {}, "dinov2": {}, "dinov3_vit": {}, "data2vec-vision": {}, "vit_mae": {"decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2, "decoder_intermediate_size": 24}, "vit_msn": {}, "swin": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}, "swinv2": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}, "convnext": {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1]},
          "convnextv2": {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1]}, "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1]}, "regnet": {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1], "groups_width": 8}, "segformer": {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 3], "decoder_hidden_size": 16}, "mobilevit": {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32]},
          "mobilenet_v1": {}, "mobilenet_v2": {}, "poolformer": {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1]}, "levit": {"hidden_sizes": [16, 24, 32], "num_attention_heads": [1, 2, 2], "depths": [1, 1, 1], "key_dim": [8, 8, 8]}, "cvt": {"embed_dim": [8, 16, 24], "num_heads": [1, 1, 2], "depth": [1, 1, 1]}, "van": {}, "efficientnet": {}, "bit": {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "num_groups": 4}, "pvt": {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 3], "sequence_reduction_ratios": [4, 2, 1, 1]},
          "pvt_v2": {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 3]}, "focalnet": {"embed_dim": 16, "depths": [1, 1], "hidden_sizes": [16, 32], "focal_levels": [2, 2], "focal_windows": [3, 3]}, "hiera": {"embed_dim": 16, "depths": [1, 1], "num_heads": [1, 2], "image_size": [64, 64]}, "imagegpt": {"n_embd": 32, "n_layer": 2, "n_head": 4}, "dpt": {"backbone_out_indices": [0, 1], "neck_hidden_sizes": [8, 8, 8, 8]}, "glpn": {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 3]}, "swiftformer": {}, "ijepa": {}, "textnet": {}, "vitdet": {"image_size": 64}, "siglip_vision_model": {}, "clip_vision_model": {}, "timesformer": None, "yolos": {"num_detection_tokens": 5, "image_size": [64, 64]}, "superpoint": None}
AUDIO = {"wav2vec2": {}, "hubert": {}, "wavlm": {}, "unispeech": {}, "unispeech-sat": {}, "data2vec-audio": {}, "sew": {"squeeze_factor": 1}, "wav2vec2-conformer": {}, "wav2vec2-bert": None, "audio-spectrogram-transformer": {"num_mel_bins": 16, "max_length": 32, "patch_size": 8}}


def transformer(kind, changes, task):
    from transformers import AutoConfig
    options = {**TEXT, **changes}
    implementation = options.pop("attn_implementation", None)
    config = AutoConfig.for_model(kind, **options)
    for name, value in options.items():        # some configurations rename or refuse
        try:
            setattr(config, name, value)
        except (AttributeError, NotImplementedError, ValueError, TypeError):
            pass
    if implementation:
        config._attn_implementation = implementation
    config.return_dict = True
    return task.from_config(config)


class Plain(nn.Module):
    """The tensors of a transformers result, as a tuple."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        result = self.model(**inputs)
        return tuple(v for v in result.values() if isinstance(v, torch.Tensor))


class Tokens(Plain):
    """With a named input, so that its sizes can be dynamic."""

    def forward(self, input_ids):
        return super().forward(input_ids=input_ids)


def ids(batch, length):
    return torch.randint(3, 96, (batch, length))


def transformers_programs():
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM
    AUTO = torch.export.Dim.AUTO
    for kind, changes in ENCODERS.items():
        def encoder(kind=kind, changes=changes):
            mask = torch.ones(2, 16, dtype=torch.long)
            mask[1, 11:] = 0
            inputs = {"input_ids": ids(2, 16)} if kind in ("fnet",) else {"input_ids": ids(2, 16), "attention_mask": mask}
            return Plain(transformer(kind, changes, AutoModel)), inputs
        yield "text", f"hf_{kind}", encoder, {"dtypes": ["f32", "bf16"] if kind in ("roberta", "albert", "modernbert") else ["f32"]}
    for kind, changes in DECODERS.items():
        dtypes = ["f32", "bf16", "f16"] if kind in ("llama", "qwen2", "gemma2", "phi3", "mamba") else ["f32", "bf16"] if kind in ("qwen3_moe", "mixtral", "gpt_oss", "gpt_neox", "falcon", "deepseek_v3") else ["f32"]
        yield "text", f"hf_{kind}", lambda kind=kind, changes=changes: (Plain(transformer(kind, changes, AutoModelForCausalLM)), {"input_ids": ids(2, 12)}), {"dtypes": dtypes}
        if kind in ("llama", "qwen2", "gemma", "gpt_neox", "olmo", "phi", "mistral", "opt"):
            yield "text", f"hf_{kind}_dynamic", lambda kind=kind, changes=changes: (Tokens(transformer(kind, changes, AutoModelForCausalLM)), {"input_ids": ids(2, 12)}), {
                "dynamic": {"input_ids": {0: AUTO, 1: AUTO}}}
    for kind, changes in PAIRS.items():
        yield "text", f"hf_{kind}", lambda kind=kind, changes=changes: (Plain(transformer(kind, changes, AutoModelForSeq2SeqLM)), {
            "input_ids": ids(2, 12), "decoder_input_ids": ids(2, 6)}), {}
    for kind, changes in IMAGES.items():
        if changes is not None:
            yield "pictures", f"hf_{kind}", lambda kind=kind, changes=changes: (Plain(transformer(kind, {"image_size": 64, "patch_size": 16, "num_channels": 3, **changes}, AutoModel)), {
                "pixel_values": image(64)[0]} if kind != "imagegpt" else {"input_ids": ids(1, 20)}), {}
    for kind, changes in AUDIO.items():
        if changes is not None:
            def audio(kind=kind, changes=changes):
                conv = {"conv_dim": (8, 8, 16), "conv_kernel": (8, 3, 3), "conv_stride": (4, 2, 2), "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
                        "mask_time_prob": 0.0, "apply_spec_augment": False}
                inputs = {"input_values": torch.randn(1, 32, 16) if "spectrogram" in kind else torch.randn(1, 400)}
                return Plain(transformer(kind, {**conv, **changes}, AutoModel)), inputs
            yield "speech", f"hf_{kind}", audio, {}
    yield from composed_transformers()


def composed_transformers():
    """Models of several parts: speech to text, pictures and text, detection, time series."""
    import transformers as t
    parts = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    text, vision = {**parts, "vocab_size": 96, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2}, {**parts, "image_size": 32, "patch_size": 8}

    def clip(config, model):
        c = config(text_config=text, vision_config=vision, projection_dim=16)
        return Plain2(model(c)), {"input_ids": ids(2, 8), "pixel_values": image(32, 2)[0], "attention_mask": torch.ones(2, 8, dtype=torch.long)}
    yield "pictures", "hf_clip", lambda: clip(t.CLIPConfig, t.CLIPModel), {}
    yield "pictures", "hf_siglip", lambda: clip(lambda projection_dim=None, **k: t.SiglipConfig(**k), t.SiglipModel), {}
    yield "pictures", "hf_chinese_clip", lambda: clip(t.ChineseCLIPConfig, t.ChineseCLIPModel), {}

    def whisper():
        c = t.WhisperConfig(vocab_size=96, num_mel_bins=16, d_model=32, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=48, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=48,
                            max_source_positions=20, max_target_positions=20, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
        return Plain(t.WhisperModel(c)), {"input_features": torch.randn(1, 16, 40), "decoder_input_ids": ids(1, 5)}
    yield "speech", "hf_whisper", whisper, {"dtypes": ["f32", "bf16"]}

    def speech2text():
        c = t.Speech2TextConfig(vocab_size=96, d_model=32, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=48, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=48,
                                conv_channels=16, input_feat_per_channel=8, max_source_positions=40, max_target_positions=20, use_cache=False)
        return Plain(t.Speech2TextModel(c)), {"input_features": torch.randn(1, 24, 8), "decoder_input_ids": ids(1, 5)}
    yield "speech", "hf_speech_to_text", speech2text, {}

    def detr():
        backbone = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], out_features=["stage4"])
        c = t.DetrConfig(use_timm_backbone=False, backbone_config=backbone, backbone=None, num_queries=5, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                         decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48)
        return Plain(t.DetrForObjectDetection(c)), {"pixel_values": image(64)[0]}
    yield "pictures", "hf_detr", detr, {}

    def encodec():
        c = t.EncodecConfig(num_filters=4, upsampling_ratios=[4, 2], hidden_size=16, num_lstm_layers=1, codebook_size=16, codebook_dim=16, target_bandwidths=[1.5], sampling_rate=2400)
        return Plain(t.EncodecModel(c)), {"input_values": torch.randn(1, 1, 320)}
    yield "speech", "hf_encodec", encodec, {}

    def series(config, model, **inputs):
        return Plain(model(config)), inputs
    yield "plain", "hf_patchtst", lambda: series(t.PatchTSTConfig(num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=24, do_mask_input=False),
                                                 t.PatchTSTModel, past_values=torch.randn(2, 32, 2)), {}
    yield "plain", "hf_patchtsmixer", lambda: series(t.PatchTSMixerConfig(context_length=32, patch_length=8, num_input_channels=2, patch_stride=8, d_model=16, num_layers=2), t.PatchTSMixerModel,
                                                     past_values=torch.randn(2, 32, 2)), {}
    yield "pictures", "hf_vilt", lambda: (Plain(t.ViltModel(t.ViltConfig(**{**TEXT, "image_size": 32, "patch_size": 16, "max_image_length": -1}))), {
        "input_ids": ids(1, 8), "pixel_values": image(32)[0], "attention_mask": torch.ones(1, 8, dtype=torch.long)}), {}
    yield "pictures", "hf_perceiver", lambda: (Plain(t.PerceiverModel(t.PerceiverConfig(num_latents=8, d_latents=16, d_model=12, num_blocks=1, num_self_attends_per_block=2, num_self_attention_heads=2,
                                                                                       num_cross_attention_heads=2))), {"inputs": torch.randn(2, 10, 12)}), {}


class Plain2(Plain):
    def forward(self, input_ids, pixel_values, attention_mask):
        result = self.model(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
        return result.logits_per_image, result.text_embeds, result.image_embeds


# ---- torch.nn, one program a module; operators, one program an entry of op_db ----

def module_programs():
    from torch.testing._internal.common_modules import module_db
    for info in module_db:
        name = info.name.replace(".", "_")
        if name.startswith("nn_quantized") or "Lazy" in name:
            continue

        def make(info=info, wanted=0):
            samples = list(info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False))
            sample = samples[min(wanted, len(samples) - 1)]
            model = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            return model, sample.forward_input.args, sample.forward_input.kwargs
        yield "modules", f"mod_{name}", make, {}
        yield "modules", f"mod_{name}_b", lambda make=make: make(wanted=3), {}


class Operator(nn.Module):
    def __init__(self, function, args, kwargs):
        super().__init__()
        self.function, self.spec = function, None
        leaves, self.spec = torch.utils._pytree.tree_flatten((args, kwargs))
        self.constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors):
        leaves = list(self.constants)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self.spec)
        result = self.function(*args, **kwargs)
        return tuple(x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor))


def operator_programs():
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        if op.name.startswith(("jiterator", "sparse", "to_sparse", "_segment", "hash_tensor")) or "nested" in op.name or "cauchy" in op.name or "geometric" in op.name or "log_normal" in op.name:
            continue
        name = "op_" + op.name.replace(".", "_") + ("_" + op.variant_test_name.replace(".", "_") if op.variant_test_name else "")

        def make(op=op, which=0):
            dtype = torch.float32 if torch.float32 in op.supported_dtypes("cpu") else torch.int64
            samples = []
            for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
                samples.append(sample)
                if len(samples) > 8:
                    break
            s = samples[len(samples) * which // 4]
            args = (s.input, *s.args)
            model = Operator(op.op, args, s.kwargs)
            return model, tuple(x for x in torch.utils._pytree.tree_leaves((args, s.kwargs)) if isinstance(x, torch.Tensor))
        yield "operators", name, lambda make=make: make(which=2), {"seed": 0}


def programs():
    for group, source in (("vision", torchvision_programs), ("vision", timm_programs)):
        try:
            for name, factory in source():
                heavy = name in ("tv_resnet18", "tv_mobilenet_v2", "tv_vit_tiny", "timm_test_vit", "timm_test_resnet", "timm_test_convnext", "timm_test_efficientnet")
                yield group, name, factory, {"dtypes": ["f32", "bf16", "f16"]} if heavy else {}
        except ImportError as error:
            print(f"skipped: {error}")
    try:
        yield from transformers_programs()
    except ImportError as error:
        print(f"skipped: {error}")
    yield from zoo_small.programs()
    yield from zoo_higher.programs()
    yield from module_programs()
    yield from operator_programs()


