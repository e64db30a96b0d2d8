"""Checkpoints: names and shapes of the real ones, both forms and both rules, refusals, and the export to
plain transformers and peft."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from dia.reference import GOLDEN, by_channel, config, golden, near, original_weights, streams, tensor  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from tpulab_recipes.common.errors import ConfigError  # noqa: E402
from tpulab_recipes.dia.generation import Sampling, generate  # noqa: E402
from tpulab_recipes.dia.model import (  # noqa: E402
    LORA_TARGETS,
    converted,
    export_model,
    load_model,
    load_processor,
    make_static,
    model_of,
    read_config,
    rule_of,
    tiny_model,
    tiny_processor,
)
from tpulab_recipes.runtime.selection import make  # noqa: E402
from tpulab_recipes.torch_training import add_lora  # noqa: E402
from transformers import DiaForConditionalGeneration, DiaProcessor  # noqa: E402

#: The tiny model's sizes, in the form of the v0.1 config.json.
V0_1 = {
    "model": {
        "encoder": {"n_layer": 2, "n_embd": 24, "n_hidden": 40, "n_head": 2, "head_dim": 16},
        "decoder": {
            "n_layer": 2, "n_embd": 32, "n_hidden": 48, "gqa_query_heads": 4, "kv_heads": 2,
            "gqa_head_dim": 8, "cross_query_heads": 4, "cross_head_dim": 8,
        },
        "src_vocab_size": 256, "tgt_vocab_size": 36,
    },
    "data": {
        "text_length": 128, "audio_length": 128, "channels": 9, "delay_pattern": [0, *range(8, 16)],
        "audio_pad_value": 33, "audio_eos_value": 32, "audio_bos_value": 34,
    },
}  # fmt: skip
TINY = json.loads(str(golden("tiny_forward")["meta"]))["config"]


def manifest(name: str) -> Any:
    return json.loads((GOLDEN / f"manifest-{name}.json").read_text())


def described(state: dict[str, Any]) -> dict[str, Any]:
    return {key: [list(each.shape), str(each.dtype).removeprefix("torch.")] for key, each in state.items()}


def on_meta(keys: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {
        key: torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        for key, (shape, dtype) in keys.items()
    }


def folder_of(place: Path, weights: dict[str, torch.Tensor], written: Any, name: str) -> str:
    place.mkdir(exist_ok=True)
    if written is not None:
        (place / "config.json").write_text(json.dumps(written))
    if name.endswith(".safetensors"):
        save_file({key: each.contiguous() for key, each in weights.items()}, place / name)
    else:
        torch.save(weights, place / name)
    return str(place)


def test_every_name_shape_and_dtype_of_the_real_checkpoints_is_ours() -> None:
    published, original = manifest("transformers"), manifest("original")
    for written in (published["config"], original["config"]):
        settings, rule = read_config(written)
        assert rule == "0626"
        with torch.device("meta"):
            ours = described(DiaForConditionalGeneration(settings).state_dict())
        assert ours == published["keys"]
        assert described(converted(on_meta(original["keys"]))) == ours
    assert original["same_keys_and_shapes_at_v01"]
    # One table of channels in numeric order, also beyond ten (2 x 9 for stereo).
    many = {f"decoder.embeddings.{each}.weight": torch.full((1, 1), each) for each in (10, 2, 17)}
    assert converted(many)["model.decoder.embeddings.embed.weight"].flatten().tolist() == [2, 10, 17]


@pytest.mark.parametrize("name", ["model.safetensors", "dia-v0_1.pth"])
def test_loads_the_originals_form_by_the_rule_of_its_config(tmp_path: Path, name: str) -> None:
    weights = original_weights()
    newer = load_model(folder_of(tmp_path / "0626", weights, TINY, name))
    older = load_model(folder_of(tmp_path / "v0.1", weights, V0_1, name))
    assert (rule_of(newer), rule_of(older)) == ("0626", "v0.1")
    with torch.no_grad():
        near(by_channel(make_static(newer)(**streams()).logits), "tiny_forward", "out/logits")
        near(by_channel(older(**streams()).logits)[:, -5:], "tiny_forward", "out/v01_logits")


def test_unfitting_and_ambiguous_checkpoints_are_refused(tmp_path: Path) -> None:
    weights = original_weights()

    def refused(name: str, written: Any, message: str, rule: str = "", **change: Any) -> None:
        changed = {key: each for key, each in (weights | change).items() if each is not None}
        with pytest.raises(ConfigError, match=message):
            load_model(folder_of(tmp_path / name, changed, written, "model.safetensors"), rule)

    norm = "decoder.norm.weight"
    refused("untold", None, "the same keys and shapes; name the rule")
    refused("mixed", V0_1, "is a v0.1 checkpoint by its config.json and 0626 was requested", "0626")
    refused("other", TINY, "is a 0626 checkpoint", "v0.1")
    refused("unknown", TINY, "'v2' is not one of 0626, v0.1", "v2")
    refused("missing", TINY, rf"missing: \['model.{norm}'\]", **{norm: None})
    refused("left over", TINY, r"unexpected: \['model.extra'\]", extra=torch.zeros(2))
    refused(
        "shape",
        TINY,
        rf"mismatched: .*model.{norm}', torch.Size\(\[3\]\), torch.Size\(\[32\]\)",
        **{norm: torch.zeros(3)},
    )
    less = {**V0_1, "data": {key: each for key, each in V0_1["data"].items() if key != "channels"}}
    refused("less", less, "has the form of v0.1 and lacks 'channels'")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text(json.dumps(TINY))
    with pytest.raises(ConfigError, match="has no weights"):
        load_model(str(tmp_path / "empty"))
    with pytest.raises(ConfigError, match="neither a folder here nor reachable"):
        load_model(str(tmp_path / "nowhere"))


def test_plain_transformers_loads_an_export_and_speaks_the_same(tmp_path: Path) -> None:
    model, cpu = make_static(tiny_model(3)).eval(), make("cpu", "cpu")
    export_model(model, tiny_processor(), tmp_path)
    plain, loading = DiaForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(loading.values())
    assert plain.config._attn_implementation == "sdpa"
    assert all(torch.equal(each, model.state_dict()[key]) for key, each in plain.state_dict().items())
    processor = DiaProcessor.from_pretrained(tmp_path)
    inputs = processor(["[S1] Hello there.", "[S2] No."], padding=True)
    with torch.no_grad():
        ours, theirs = ((each(**inputs).logits) for each in (model, plain))
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
        output = plain.generate(**inputs, do_sample=False, guidance_scale=3.0, top_k=45, max_length=30)
    texts = [ids[mask.bool()] for ids, mask in zip(inputs.input_ids, inputs.attention_mask, strict=True)]
    settings = Sampling(max_tokens=44, temperature=0)
    codes = generate(model, cpu, texts, settings)
    # transformers' rows 1.. of channel 0, up to EOS at row 29.
    delay = plain.config.delay_pattern
    for number, each in enumerate(codes):
        assert len(each) == 28
        theirs = [output[number, 1 + late : 29 + late, channel] for channel, late in enumerate(delay)]
        assert torch.equal(each, torch.stack(theirs, 1))
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert load_processor(str(moved)).audio_tokenizer.config.n_codebooks == 9
    assert rule_of(load_model(str(moved))) == "0626"


def test_a_v0_1_model_is_not_exported_as_0626(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rule v0.1 .* which transformers' Dia does not compute"):
        export_model(model_of(original_weights(), config(), "v0.1"), None, tmp_path)
    assert not list(tmp_path.iterdir())


def test_adapters_load_in_plain_peft_and_merged_equals_unmerged(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = make_static(add_lora(tiny_model(), 4, LORA_TARGETS))
    trained = [name for name, each in model.named_parameters() if each.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    with torch.no_grad():
        for name, each in model.named_parameters():
            if "lora_B" in name:
                each.normal_(std=0.1)
    batch = streams() | {"decoder_input_ids": tensor("tiny_forward", "in/tokens").repeat_interleave(2, 0)}
    adapted = model(**batch).logits
    settings, cpu = Sampling(max_tokens=30, temperature=0), make("cpu", "cpu")
    output = generate(model, cpu, [[1, 32, 80]], settings)[0]
    export_model(model, None, tmp_path / "adapter", adapter_only=True)
    export_model(model, None, tmp_path / "merged")
    loaded = peft.PeftModel.from_pretrained(tiny_model(), tmp_path / "adapter")
    merged = DiaForConditionalGeneration.from_pretrained(tmp_path / "merged")
    with torch.no_grad():
        torch.testing.assert_close(loaded(**batch).logits, adapted, atol=1e-5, rtol=0)
        torch.testing.assert_close(merged(**batch).logits, adapted, atol=1e-5, rtol=0)
        assert float((tiny_model()(**batch).logits - adapted).abs().max()) > 1e-3
    assert torch.equal(output, generate(merged, cpu, [[1, 32, 80]], settings)[0])
    assert not torch.equal(output, generate(tiny_model(), cpu, [[1, 32, 80]], settings)[0])


def test_full_widths_compute_the_reference() -> None:
    settings = read_config(manifest("transformers")["config"])[0]
    settings.encoder_config.num_hidden_layers = settings.decoder_config.num_hidden_layers = 1
    keys = {
        key: each
        for key, each in manifest("original")["keys"].items()
        if ".layers." not in key or ".layers.0." in key
    }
    weights = {key: _recipe(key, shape) for key, (shape, _) in keys.items()}
    text = torch.zeros(2, 64, dtype=torch.int64)
    for number in range(2):
        ids = tensor("delay", f"out/text/{number}")
        text[number, : len(ids)] = ids
    both = torch.stack([torch.zeros_like(text), text], 1).flatten(0, 1)
    mask = (text != 0).long().repeat_interleave(2, 0)
    tokens = tensor("wide", "in/tokens").repeat_interleave(2, 0)
    with torch.no_grad():
        out = make_static(model_of(weights, settings, "0626"))(both, mask, tokens)
    near(by_channel(out.logits)[..., ::16], "wide", "out/logits", 3e-5)
    spoken = mask[:, :24, None]
    reference = tensor("wide", "out/enc_out") * spoken
    states = out.encoder_last_hidden_state[:, :24, ::16] * spoken
    assert float((states - reference).abs().max()) <= 3e-5 * max(1.0, float(reference.abs().max()))


def _recipe(key: str, shape: list[int]) -> torch.Tensor:
    """The parameters of `wide.npz`: float32(base + scale * u), u from the key."""
    base, scale = 0.0, 1.0
    if len(shape) == 1:
        base, scale = 1.0, 0.3
    elif "embedding" not in key:
        inputs = shape[0] * shape[1] if "o_proj" in key else shape[0]
        scale = (3 / inputs) ** 0.5
        scale *= 0.5 if "q_proj" in key or "k_proj" in key else 1.5 if "logits_dense" in key else 1
    drawn = np.random.RandomState(zlib.crc32(f"wide/{key}".encode())).random_sample(shape) * 2 - 1
    return torch.from_numpy(np.float32(base + scale * drawn))


def test_the_original_s_form_takes_a_codec_by_name(tmp_path: Path) -> None:
    """Every command wanted transformers' processor files, which nari-labs' folders do not have."""
    place = folder_of(tmp_path / "nari", {}, {}, "pytorch_model.bin")
    with pytest.raises(ConfigError, match="has no processor; give --codec, for example descript/dac_44khz"):
        load_processor(place)
    codec = tiny_processor().audio_tokenizer
    codec.save_pretrained(tmp_path / "codec")
    loaded = load_processor(place, str(tmp_path / "codec"))
    assert loaded.audio_tokenizer.config.sampling_rate == codec.config.sampling_rate
    assert loaded.tokenizer("[S1] Hi.").input_ids == tiny_processor().tokenizer("[S1] Hi.").input_ids
