"""Dia (nari-labs, 1.6 B): transformers' own model, loaded from its checkpoints or the original's, in a form
that traces without reading values back, and saved for transformers.

Two rules share all keys and shapes. "0626" is transformers' rule. "v0.1" also rotates the queries and keys of
the cross-attention, and samples differently (`generation`). The rule is the model's attention implementation,
so `rule_of` decides, and a model cannot have both.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    DacModel,
    DiaConfig,
    DiaFeatureExtractor,
    DiaForConditionalGeneration,
    DiaProcessor,
    DiaTokenizer,
    GenerationConfig,
)
from transformers.masking_utils import eager_mask
from transformers.models.dia.modeling_dia import DiaCrossAttention, eager_attention_forward, rotate_half

from tpulab_recipes.audio.codec import load_codec, tiny_codec
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.inputs import read_json
from tpulab_recipes.common.storage import written_folder
from tpulab_recipes.torch_training.pretrained import fetch_checkpoint, loaded, read_weights

RULES = ("0626", "v0.1")
State = dict[str, torch.Tensor]

_STATIC = {"0626": "dia_static", "v0.1": "dia_static_v0_1"}
_AUDIO_TOKENIZER = "audio_tokenizer"
#: Where transformers' sizes stand in the config.json of v0.1: section and name, or the name in each half of
#: `model`.
_TEXT_SIZES = {"max_position_embeddings": ("data", "text_length"), "vocab_size": ("model", "src_vocab_size")}
_AUDIO_SIZES = {
    "max_position_embeddings": ("data", "audio_length"),
    "vocab_size": ("model", "tgt_vocab_size"),
    "num_channels": ("data", "channels"),
    **{f"{name}_token_id": ("data", f"audio_{name}_value") for name in ("pad", "eos", "bos")},
}
_BOTH_SIZES = {"num_hidden_layers": "n_layer", "hidden_size": "n_embd", "intermediate_size": "n_hidden"}
_ENCODER_SIZES = _BOTH_SIZES | {
    "num_attention_heads": "n_head",
    "num_key_value_heads": "n_head",
    "head_dim": "head_dim",
}
_DECODER_SIZES = _BOTH_SIZES | {
    "num_attention_heads": "gqa_query_heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "gqa_head_dim",
    "cross_num_attention_heads": "cross_query_heads",
    "cross_num_key_value_heads": "cross_query_heads",
    "cross_head_dim": "cross_head_dim",
}
#: Every projection of the attentions.
LORA_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj"]


def _static_mask(*args: Any, **kwargs: Any) -> Any:
    """transformers' additive mask (a large finite negative, so that no row of softmax is empty), always
    written out: transformers leaves it out when nothing is padded, and reads the padding back to know."""
    return eager_mask(*args, **kwargs | {"allow_is_bidirectional_skip": False})


def _attend_v0_1(module: Any, query: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
    """Attention of the v0.1 weights: cross-attention rotates queries by the decoder's positions and keys by
    the text's (nari-labs/dia 2811af1). query: Float[batch, head, time, width]; key: Float[batch, head, text,
    width]."""
    if isinstance(module, DiaCrossAttention):
        query = rotate(query, kwargs["position_ids"], module.config.rope_parameters["rope_theta"])
        text = torch.arange(key.shape[2], device=key.device)[None]
        key = rotate(key, text, module.config.rope_parameters["rope_theta"])
    return eager_attention_forward(module, query, key, *args, **kwargs)


def rotate(x: torch.Tensor, positions: torch.Tensor, theta: float = 10_000.0) -> torch.Tensor:
    """RoPE with half-split rotation and angles in float32. x: Float[batch, head, time, width]; positions:
    Int[batch or 1, time]."""
    width = x.shape[-1]
    rates = theta ** (-torch.arange(0, width, 2, dtype=torch.float32, device=x.device) / width)
    angles = (positions[..., None].float() * rates).repeat(1, 1, 2)[:, None]
    return x * angles.cos().to(x.dtype) + rotate_half(x) * angles.sin().to(x.dtype)


for _rule, _attend in (("0626", eager_attention_forward), ("v0.1", _attend_v0_1)):
    AttentionInterface.register(_STATIC[_rule], _attend)
    AttentionMaskInterface.register(_STATIC[_rule], _static_mask)


def make_static(model: Any) -> Any:
    """The model, patched so that a step traces as one program. One thing breaks it: the text's mask, which
    transformers leaves out where nothing is padded (`padding_mask.all()` waits for the device). Remove this
    when `test_plain_transformers_reads_its_masks_back` fails."""
    model.set_attn_implementation(_STATIC[rule_of(model)])
    return model


def rule_of(model: Any) -> str:
    """ "0626" or "v0.1": the rule by which the model computes."""
    return "v0.1" if model.config._attn_implementation == _STATIC["v0.1"] else "0626"


def tiny_model(seed: int = 0, entries: int = 1024) -> DiaForConditionalGeneration:
    """A random model of 2 + 2 layers with the real channels, made without a network. `entries` are those of
    each codebook; EOS, PAD and BOS are the ids after them, as in the real model."""
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 2}
    config = DiaConfig(
        encoder_config={"hidden_size": 32, "intermediate_size": 64, **heads},
        decoder_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "cross_num_attention_heads": 4,
            "cross_num_key_value_heads": 4,
            "cross_head_dim": 16,
            "cross_hidden_size": 32,
            "vocab_size": entries + 4,
            "eos_token_id": entries,
            "pad_token_id": entries + 1,
            "bos_token_id": entries + 2,
            **heads,
        },
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _finished(DiaForConditionalGeneration(config), "0626")


def load_model(place: str, rule: str = "") -> DiaForConditionalGeneration:
    """The model in a folder or at Hugging Face, in float32; empty: `tiny_model`.

    Reads transformers' form and nari-labs' own (config.json and safetensors or PyTorch weights), converted by
    the rules of `converted`. `rule` is needed only where no config.json distinguishes v0.1 from 0626.
    Raises `ConfigError`: nothing there, the rule unknown or another than the config's, keys missing, left
    over or of another shape.
    """
    if rule and rule not in RULES:
        raise ConfigError("rule", f"{rule!r} is not one of {', '.join(RULES)}.")
    if not place:
        if rule == "v0.1":
            raise ConfigError("rule", "the tiny model has the rule 0626; v0.1 needs a checkpoint.")
        return tiny_model()
    folder = fetch_checkpoint(place)
    config_file = folder / "config.json"
    config, found = read_config(read_json(config_file, "model") if config_file.exists() else {}, place)
    problem = ""
    if found and rule and found != rule:
        problem = f"is a {found} checkpoint by its config.json and {rule} was requested; leave the rule out"
    if not (found or rule):
        problem = (
            "has no config.json in the form of v0.1 (model, data) or 0626 (encoder_config, decoder_config)"
        )
        problem += ", and their weights have the same keys and shapes; name the rule: v0.1 or 0626"
    if problem:
        raise ConfigError("rule", f"{place} {problem}. The two compute differently and are never mixed.")
    return model_of(read_weights(folder), config, found or rule, place)


def model_of(state: State, config: DiaConfig, rule: str, place: str = "the checkpoint") -> Any:
    """A model of these weights, in either form. Raises `ConfigError` naming the keys that do not fit."""
    if "logits_dense.weight" not in state:
        state = converted(state)
    model, loading = DiaForConditionalGeneration.from_pretrained(
        None,
        config=config,
        state_dict=state,
        dtype="float32",
        output_loading_info=True,
        ignore_mismatched_sizes=True,
    )
    wrong = [f"{kind.removesuffix('_keys')}: {sorted(keys)[:8]}" for kind, keys in loading.items() if keys]
    if wrong:
        raise ConfigError("model", f"{place} does not fit its configuration: {'; '.join(wrong)}.")
    return _finished(model, rule)


def converted(original: Mapping[str, torch.Tensor]) -> State:
    """nari-labs' state dict under transformers' keys. Their kernels are (inputs..., outputs...), with two
    axes of inputs in `o_proj` only; the embedding tables of the channels become one, in numeric order."""
    state: State = {}
    tables: dict[int, torch.Tensor] = {}
    for key, value in original.items():
        if table := re.fullmatch(r"decoder\.embeddings\.(\d+)\.weight", key):
            tables[int(table[1])] = value
            continue
        name = key.replace(".mlp.wi_fused.", ".mlp.gate_up_proj.").replace(".mlp.wo.", ".mlp.down_proj.")
        name = "logits_dense.weight" if key == "decoder.logits_dense.weight" else f"model.{name}"
        if value.ndim > 1 and "embedding" not in key:
            inputs = value.shape[:2] if ".o_proj." in key else value.shape[:1]
            value = value.reshape(inputs.numel(), -1).T.contiguous()
        state[name] = value
    if tables:
        state["model.decoder.embeddings.embed.weight"] = torch.cat([tables[each] for each in sorted(tables)])
    return state


def read_config(written: Mapping[str, Any], place: str = "config.json") -> tuple[DiaConfig, str]:
    """transformers' configuration, and the rule that the form of a config.json implies ("" where it is of
    neither form; the sizes are then the published ones). Raises `ConfigError` for a value that is missing."""
    if "encoder_config" in written and "decoder_config" in written:
        return DiaConfig.from_dict(dict(written)), "0626"
    if "model" not in written or "data" not in written:
        return DiaConfig(), ""
    model, data = written["model"], written["data"]
    eps = float(model.get("normalization_layer_epsilon", 1e-5))
    rope = {"rope_type": "default", "rope_theta": float(model.get("rope_max_timescale", 10_000))}
    common = {"norm_eps": eps, "rope_parameters": rope}
    try:
        encoder, decoder = (
            {ours: written[section][theirs] for ours, (section, theirs) in names.items()}
            | {ours: model[half][theirs] for ours, theirs in sizes.items()}
            | common
            for half, names, sizes in (
                ("encoder", _TEXT_SIZES, _ENCODER_SIZES),
                ("decoder", _AUDIO_SIZES, _DECODER_SIZES),
            )
        )
        decoder["cross_hidden_size"] = model["encoder"]["n_embd"]
        delay = list(data["delay_pattern"])
    except KeyError as error:
        raise ConfigError("model", f"{place} has the form of v0.1 and lacks {error.args[0]!r}.") from error
    return DiaConfig(
        encoder_config=encoder, decoder_config=decoder, norm_eps=eps, delay_pattern=delay
    ), "v0.1"


def tiny_processor() -> DiaProcessor:
    """transformers' processor, with the codec of `audio.codec.tiny_codec`."""
    return DiaProcessor(DiaFeatureExtractor(), DiaTokenizer(), tiny_codec().model)


def load_processor(place: str, codec_place: str = "") -> DiaProcessor:
    """The processor in a folder or at Hugging Face; empty: `tiny_processor`. The original's own form has
    none: it is transformers' with the codec of `codec_place`. Raises `ConfigError`."""
    if not place:
        return tiny_processor()
    if Path(place).is_dir() and not any(Path(place).glob("*processor_config.json")):
        if not codec_place:
            raise ConfigError(
                "codec", f"{place!r} has no processor; give --codec, for example descript/dac_44khz."
            )
        return DiaProcessor(DiaFeatureExtractor(), DiaTokenizer(), load_codec(codec_place).model)
    codec = Path(place) / _AUDIO_TOKENIZER
    if not codec.is_dir():
        return loaded("processor", place, DiaProcessor.from_pretrained)
    # The export stores an absolute path; the folder may have moved since.
    parts = ((DiaFeatureExtractor, place), (DiaTokenizer, place), (DacModel, str(codec)))
    return DiaProcessor(*(loaded("processor", where, kind.from_pretrained) for kind, where in parts))


def export_model(
    model: Any, processor: DiaProcessor | None, folder: str | Path, *, adapter_only: bool = False
) -> None:
    """Writes what `from_pretrained` of plain transformers reads; adapters of peft are merged, or, with
    `adapter_only`, written alone for plain peft. Raises `ConfigError` for v0.1: transformers would read it by
    the rule of 0626."""
    refuse_v0_1(model, "export")
    with written_folder(folder) as place:
        host = on_host(model)
        if hasattr(host, "merge_and_unload") and not adapter_only:
            host = host.merge_and_unload()
        _save(host, place)
        if processor is None or adapter_only:
            return
        processor = copy.copy(processor)
        codec = processor.audio_tokenizer
        if not codec.name_or_path:
            codec = on_host(codec)
            _save(codec, place / _AUDIO_TOKENIZER)
            codec.name_or_path = str((place / _AUDIO_TOKENIZER).resolve())
            processor.audio_tokenizer = codec
        processor.save_pretrained(place)


def on_host(model: Any) -> Any:
    """A copy on the host: the device's memory may not hold two."""
    copies = {
        id(each): torch.nn.Parameter(each.detach().cpu().clone(), requires_grad=each.requires_grad)
        for each in model.parameters()
    }
    copies |= {id(each): each.detach().cpu().clone() for each in model.buffers()}
    return copy.deepcopy(model, copies).cpu()


def refuse_v0_1(model: Any, command: str) -> None:
    """Raises `ConfigError` for a model of v0.1: it can generate speech, but there is no format to save it in
    after training."""
    if rule_of(model) == "v0.1":
        raise ConfigError(
            command,
            "this model has the rule v0.1 (rotated cross-attention), which transformers' Dia does "
            "not compute; its weights in that form would be read wrongly. Use a 0626 checkpoint.",
        )


def _save(model: Any, place: Path) -> None:
    # In a group of processes, transformers writes only in the first one. Each exporting process here has its
    # own folder.
    model.should_save_on_this_rank = lambda is_main_process: is_main_process
    model.save_pretrained(place)


def _finished(model: Any, rule: str) -> Any:
    ids = model.config.decoder_config
    special = {f"{name}_token_id": getattr(ids, f"{name}_token_id") for name in ("pad", "eos", "bos")}
    model.generation_config = GenerationConfig(
        **special, decoder_start_token_id=special["bos_token_id"], max_length=ids.max_position_embeddings
    )
    model.set_attn_implementation(_STATIC["v0.1"] if rule == "v0.1" else "sdpa")
    return model
