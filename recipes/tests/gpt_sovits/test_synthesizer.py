"""The whole second stage: forward, inference and decoding, small and at full size, and its checkpoints."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.audio.hifigan import (  # noqa: E402
    MultiPeriodDiscriminator,
    fold_weight_norm,
    generator_loss,
)
from tpulab_recipes.common.errors import CheckpointError, ConfigError  # noqa: E402
from tpulab_recipes.gpt_sovits import use_seed_imports  # noqa: E402
from tpulab_recipes.gpt_sovits.checkpoints import (  # noqa: E402
    export_training,
    export_voice,
    load_voice,
    load_weights,
    make_models,
    read_container,
)
from tpulab_recipes.gpt_sovits.config import FULL_SIZE, Config  # noqa: E402
from tpulab_recipes.gpt_sovits.models import SynthesizerTrn  # noqa: E402
from tpulab_recipes.gpt_sovits.modules import kl_loss  # noqa: E402
from tpulab_recipes.gpt_sovits.text import symbols  # noqa: E402
from tpulab_recipes.runtime import selection  # noqa: E402

from .reference import full_size, near, published_keys, tensor, tiny_synthesizer  # noqa: E402

NAME = "synthesizer"
LATENTS = ("z", "z_p", "m_p", "logs_p", "m_q", "logs_q")


def _inputs(name: str = NAME, *keys: str) -> list[Any]:
    return [
        tensor(name, f"in/{key}") for key in keys or ("ssl", "spec", "spec_lengths", "text", "text_lengths")
    ]


def test_forward_and_inference_with_the_recorded_noise() -> None:
    model, given = tiny_synthesizer(), _inputs()
    noise, uniform = tensor(NAME, "draws/randn_like_0"), tensor(NAME, "draws/rand_0")
    o, commit, starts, mask, _, latents, quantized = model(*given, noise, uniform)
    for value, key in (
        (o, "o"),
        (commit, "commit"),
        (starts, "ids_slice"),
        (mask, "mask"),
        (quantized, "quantized"),
    ):
        near(value, NAME, f"out/forward/{key}")
    for value, key in zip(latents, LATENTS, strict=True):
        near(value, NAME, f"out/forward/{key}")
    o, mask, (z, z_p, _, _) = model.infer(*given, noise=tensor(NAME, "draws/randn_like_1"))
    for value, key in ((o, "o"), (z, "z"), (z_p, "z_p")):
        near(value, NAME, f"out/infer/{key}")
    near(model.voice_of(given[1], given[2]), NAME, "out/ge")


def test_tokens_and_decoding_with_one_and_two_references_and_at_another_speed() -> None:
    model = tiny_synthesizer()
    codes = model.extract_latent(tensor(NAME, "in/ssl"))
    near(codes, NAME, "out/codes")
    refer, refer2 = tensor(NAME, "in/refer"), tensor(NAME, "in/refer2")
    text = tensor(NAME, "in/text")[:1, : int(tensor(NAME, "in/text_lengths")[0])]
    codes = codes[:1].transpose(0, 1)
    for key, references, number, options in (
        ("decode", refer, 2, {}),
        ("decode_speed125", refer, 3, {"speed": 1.25}),
        ("decode_two_refs", [refer, refer2], 4, {}),
    ):
        noise = tensor(NAME, f"draws/randn_like_{number}")
        near(model.decode(codes, text, references, noise=noise, **options), NAME, f"out/{key}")
    fold_weight_norm(model)
    near(model.decode(codes, text, refer, noise=tensor(NAME, "draws/randn_like_2")), NAME, "out/decode")


def test_the_call_of_vits_is_the_same_model() -> None:
    model, (ssl, spec, lengths, text, _) = tiny_synthesizer(), _inputs()
    torch.manual_seed(0)
    found = model.vits_call(ssl, lengths, spec, lengths, None, text=text)
    o, l_length, attn, starts, x_mask, y_mask, latents = found
    torch.manual_seed(0)
    whole = torch.full((2,), text.shape[1])
    other = model(ssl, spec, lengths, text, whole)
    assert torch.equal(o, other[0])
    assert torch.equal(starts, other[2])
    assert torch.equal(x_mask, y_mask)
    assert (attn, len(latents), float(l_length)) == (None, 6, 0.0)


@pytest.mark.parametrize("name", ["cpu", "torch_xla"])
def test_the_seeds_imports_and_training_loop_run_as_printed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 001: its lines, with losses and updates where it has a comment."""
    use_seed_imports()
    from module.tpu.discriminator import MultiPeriodDiscriminator  # type: ignore[import-not-found]
    from module.tpu.models import SynthesizerTrn as Imported  # type: ignore[import-not-found]
    from module.tpu.utils import get_xla_device, mark_step  # type: ignore[import-not-found]

    monkeypatch.setattr(selection, "_current", selection.make(name, "cpu"))
    device = get_xla_device()
    assert device.type == ("xla" if name == "torch_xla" else "cpu")
    model = tiny_synthesizer().to(device).train()
    discriminator = MultiPeriodDiscriminator().to(device)
    assert type(model) is Imported is SynthesizerTrn
    ssl, _, frames, _, _ = _inputs()
    waves = torch.rand(2, 1, ssl.shape[2] * model.hop) * 2 - 1
    dataloader = [(ssl, frames, waves, frames * model.hop, torch.zeros(2, dtype=torch.long))]
    updates = torch.optim.SGD(model.parameters(), 1e-3)
    for batch in dataloader:
        x, x_lengths, y, y_lengths, sid = [item.to(device) for item in batch]
        y_hat, l_length, attn, ids_slice, x_mask, y_mask, (z, z_p, m_p, logs_p, m_q, logs_q) = model(
            x, x_lengths, y, y_lengths, sid
        )
        mark_step()
        y_d_hat_r, y_d_hat_g, _, _ = discriminator(y, y_hat)
        mark_step()
        loss = generator_loss(y_d_hat_g) + kl_loss(z_p, logs_q, m_p, logs_p, y_mask) + l_length
        loss.backward()
        updates.step()
        mark_step()
    assert bool(torch.isfinite(loss))
    assert y_hat.shape == (2, 1, model.segment_size * model.hop)
    assert (attn, len(y_d_hat_r), len(ids_slice)) == (None, len(y_d_hat_g), 2)
    assert x_mask.shape == y_mask.shape
    assert z.shape == m_q.shape
    size = 2 * (model.enc_q.pre.in_channels - 1)
    padded = torch.nn.functional.pad(waves[:, 0], ((size - model.hop) // 2,) * 2, mode="reflect")
    window = torch.hann_window(size)
    spectrum = torch.stft(padded, size, model.hop, size, window, center=False, return_complex=True).abs()
    assert torch.allclose(model._spectrogram(waves[:, 0]), spectrum, atol=2e-3)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_full_size(version: str) -> None:
    name = f"full_{version}"
    with torch.device("meta"):
        model = SynthesizerTrn(**FULL_SIZE.but(version=version).model)
    model = full_size(model.to_empty(device="cpu"))
    ssl, spec, lengths = _inputs("full_v2", "ssl", "spec", "spec_lengths")
    text, text_lengths = _inputs(name, "text", "text_lengths")
    with torch.no_grad():
        o, _, starts, _, _, latents, quantized = model(
            ssl,
            spec,
            lengths,
            text,
            text_lengths,
            tensor(name, "draws/randn_like_0"),
            tensor(name, "draws/rand_0"),
        )
        near(model.extract_latent(ssl), name, "out/codes")
        near(model.voice_of(spec, lengths), name, "out/ge", 3e-5)
    near(starts, name, "out/ids_slice")
    near(o[:, :, :2048], name, "out/o_first", 3e-5)
    near(o[:, :, ::40], name, "out/o_strided", 3e-5)
    near(quantized[:, ::64], name, "out/quantized", 3e-5)
    for value, key in zip(latents, LATENTS, strict=True):
        near(value[:, ::8], name, f"out/{key}", 3e-5)


def test_full_size_discriminators() -> None:
    name = "full_mpd"
    judge = full_size(MultiPeriodDiscriminator())
    with torch.no_grad():
        real, generated, maps_real, maps_generated = judge(*_inputs(name, "y", "y_hat"))
    for side, scores, maps in (("r", real, maps_real), ("g", generated, maps_generated)):
        for i, (score, layers) in enumerate(zip(scores, maps, strict=True)):
            near(score, name, f"out/score_{side}/{i}", 3e-5)
            for j, layer in enumerate(layers):
                stats = torch.stack([layer.mean(), layer.abs().mean(), layer.abs().max()])
                near(stats, name, f"out/stats_{side}/{i}/{j}", 3e-5)
                near(layer.flatten()[:24], name, f"out/head_{side}/{i}/{j}", 3e-5)


def test_every_key_shape_and_place_of_the_published_checkpoints_is_ours() -> None:
    """Places too: the optimizer's state counts parameters by them."""

    def keys(model: Any) -> list[tuple[str, list[int]]]:
        return [(key, list(value.shape)) for key, value in model.state_dict().items()]

    with torch.device("meta"):
        for version, count in (("v1", 51_272_448), ("v2", 51_310_080)):
            model = SynthesizerTrn(**FULL_SIZE.but(version=version).model)
            assert keys(model) == published_keys(f"s2G-{version}")
            assert sum(each.numel() for each in model.parameters()) == count
        judge = MultiPeriodDiscriminator()
        assert keys(judge) == published_keys("s2D")
        assert sum(each.numel() for each in judge.parameters()) == 46_747_132


def test_phonemes_match_both_versions() -> None:
    """Digests of the original's own tables."""
    for version, count, digest in (
        ("v1", 322, "f7c3b280b9cc519b0829a6f182fcdd208643a07f1e20c1ab2bf4fc9e8e9a7ca6"),
        ("v2", 732, "0771f6cd6f6201e8c2b0de921dc69cc04caf3f346c599d4a41413967d5674da7"),
    ):
        assert len(symbols(version)) == count
        assert hashlib.sha256("\n".join(symbols(version)).encode()).hexdigest() == digest
    assert symbols("v2")[:322] == symbols("v1")


def _hparams() -> Any:
    """The original's class, as its files name it: `utils.HParams`, with sections as attributes."""
    module = ModuleType("utils")
    kind = type("HParams", (), {"__module__": "utils"})
    module.HParams = kind  # type: ignore[attr-defined]
    sys.modules["utils"] = module
    made, inner = kind(), kind()
    inner.__dict__["sampling_rate"] = 32_000
    made.__dict__["data"] = inner
    return made


def test_exported_voices_load_and_are_written_as_the_original_does(tmp_path: Path) -> None:
    config = Config()
    model, _ = make_models(config)
    model.eval()
    voice, theirs = tmp_path / "voice.pth", tmp_path / "theirs.pth"
    export_voice(model, config, voice, "8epoch_10iteration")
    again = load_voice(voice, config)
    ssl = torch.randn(1, config.ssl_channels, 40)
    codes = model.extract_latent(ssl).transpose(0, 1)
    assert again.quantizer.decode(codes).shape == (1, config.ssl_channels, 20)
    for key, value in again.state_dict().items():
        if "enc_q" not in key:
            assert torch.equal(value, model.state_dict()[key].half().float())
    held = torch.load(voice, weights_only=True)
    assert list(held) == ["weight", "config", "info"]
    assert all(value.dtype == torch.float16 for value in held["weight"].values())
    assert not [key for key in held["weight"] if "enc_q" in key]
    assert held["config"]["data"]["hop_length"] == 160

    held["config"] = _hparams()
    try:
        torch.save(held, theirs)
    finally:
        del sys.modules["utils"]
    state, rest = read_container(theirs)
    assert rest["config"]["data"]["sampling_rate"] == 32_000
    assert state.keys() == held["weight"].keys()
    assert all(value.dtype == torch.float32 for value in state.values())


def test_training_checkpoints_published_files_and_folded_weights_load(tmp_path: Path) -> None:
    config = Config(version="v1")
    model, judge = make_models(config)
    export_training(model, config, tmp_path / "G_5.pth", 3)
    torch.save(
        {"weight": {key: each.half() for key, each in judge.state_dict().items()}}, tmp_path / "s2D.pth"
    )
    state, rest = read_container(tmp_path / "G_5.pth")
    assert rest["iteration"] == 3
    for made, held in (
        (make_models(config)[0], state),
        (make_models(config)[1], read_container(tmp_path / "s2D.pth")[0]),
    ):
        load_weights(made, held)
        assert made.state_dict().keys() == held.keys()
    folded, _ = make_models(config)
    load_weights(folded, fold_weight_norm(make_models(config)[0]).state_dict())
    assert folded.state_dict().keys() == model.state_dict().keys()
    x = torch.randn(1, config.inter_channels, 8)
    torch.testing.assert_close(folded.dec(x), model.dec(x), atol=1e-6, rtol=1e-5)


def test_files_that_do_not_fit_get_a_one_sentence_error(tmp_path: Path) -> None:
    config = Config()
    model, _ = make_models(config)
    state = dict(model.state_dict())
    del state["dec.conv_pre.bias"]
    state["dec.extra"] = torch.zeros(1)
    with pytest.raises(CheckpointError, match=r"missing: dec\.conv_pre\.bias \(1\); left over: dec\.extra"):
        load_weights(model, state)
    for name, content, message in (
        ("later.pth", b"05 and more", "is a v2Pro voice"),
        ("bad.pth", b"PK nothing", "cannot be read as a checkpoint"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError, match=message):
            load_voice(tmp_path / name, config)
    embedding = "enc_p.text_embedding.weight"
    for odd, message in (
        ({1: torch.zeros(1)}, "has Tensor as 1, not a tensor by name"),
        ({embedding: "text"}, "has str as 'enc_p.text_embedding.weight'"),
        ({embedding: torch.tensor(3.0)}, "of 1 rows is neither"),
    ):
        torch.save({"weight": {**state, **odd}}, tmp_path / "odd.pth")
        with pytest.raises(CheckpointError, match=message):
            load_voice(tmp_path / "odd.pth", config)
    # A file that would run code is refused.
    torch.save({"weight": {"a": torch.zeros(1)}, "config": _Evil()}, tmp_path / "evil.pth")
    with pytest.raises(CheckpointError, match=r"cannot be read.*system"):
        read_container(tmp_path / "evil.pth")
    with pytest.raises(ConfigError, match="v2Pro and later"):
        SynthesizerTrn(**config.model | {"version": "v2Pro"})
    with pytest.raises(ConfigError, match="v2Pro and later"):
        config.but(version="v2Pro")
    with pytest.raises(ConfigError, match="seed: -1 is not possible"):
        config.but(seed=-1)


class _Evil:
    def __reduce__(self) -> Any:
        import os

        return os.system, ("true",)
