"""DAC in static shapes, against transformers' own model with the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.nn.utils import parametrize  # noqa: E402
from tpulab_recipes.audio.codec import Codec, fold_weight_norm, load_codec, tiny_codec  # noqa: E402
from tpulab_recipes.common.errors import ConfigError  # noqa: E402


@pytest.fixture(scope="module")
def codec() -> Codec:
    return tiny_codec(hop=64)


def test_each_wave_of_a_batch_has_the_codes_that_transformers_gives_it_alone(codec: Codec) -> None:
    waves = 0.3 * torch.randn(3, 640, generator=torch.Generator().manual_seed(1))
    codes = codec.encode(waves)
    assert codes.shape == (3, codec.codebooks, 10)
    assert codes.dtype == torch.int64
    with torch.no_grad():
        for wave, own in zip(waves, codes, strict=True):
            assert torch.equal(codec.model.encode(wave[None, None]).audio_codes[0], own)
        decoded = codec.model.decode(audio_codes=codes).audio_values
    assert torch.equal(codec.decode(codes), decoded.reshape(3, 640))


def test_the_published_shape_is_512_samples_a_frame_and_nine_codebooks() -> None:
    tiny = tiny_codec()
    assert (tiny.sample_rate, tiny.hop, tiny.codebooks) == (44_100, 512, 9)
    assert tiny.samples(1.0) == 44_544
    assert tiny.frames(44_100) == 87


def test_the_same_seed_has_the_same_codes_and_leaves_torchs_own_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    one, same, other = tiny_codec(0, hop=16), tiny_codec(0, hop=16), tiny_codec(1, hop=16)
    assert torch.equal(before, torch.random.get_rng_state())
    wave = torch.linspace(-0.5, 0.5, 160)[None]
    assert torch.equal(one.encode(wave), same.encode(wave))
    assert not torch.equal(one.encode(wave), other.encode(wave))


@pytest.mark.parametrize("form", ["old", "parametrisation"])
def test_weight_norm_is_folded_and_the_result_stays(form: str) -> None:
    if form == "old":
        from torch.nn.utils.weight_norm import WeightNorm

        layer = torch.nn.Conv1d(2, 3, 5)
        WeightNorm.apply(layer, "weight", 0)
    else:
        layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(2, 3, 5))
    signal = torch.randn(1, 2, 9)
    expected = layer(signal)
    folded = fold_weight_norm(torch.nn.Sequential(layer))
    assert set(folded.state_dict()) == {"0.weight", "0.bias"}
    assert not any(parametrize.is_parametrized(each) for each in folded.modules())
    assert not any(each._forward_pre_hooks for each in folded.modules())
    torch.testing.assert_close(folded(signal), expected)


def test_a_model_with_weight_norm_decodes_as_before_when_folded() -> None:
    config = transformers.DacConfig(
        encoder_hidden_size=4,
        downsampling_ratios=[2, 2, 4, 4],
        upsampling_ratios=[4, 4, 2, 2],
        decoder_hidden_size=32,
        n_codebooks=2,
    )
    model = transformers.DacModel(config).eval()
    model.apply_weight_norm()
    codes = torch.randint(0, 1024, (1, 2, 5))
    with torch.no_grad():
        expected = model.decode(audio_codes=codes).audio_values
    codec = Codec(model)
    assert not any("original" in name or name.endswith("_g") for name in codec.model.state_dict())
    torch.testing.assert_close(codec.decode(codes), expected.reshape(1, -1))


def test_a_codec_in_a_folder_is_loaded_and_has_the_same_codes(codec: Codec, tmp_path: Path) -> None:
    codec.model.save_pretrained(tmp_path)
    wave = torch.linspace(-0.5, 0.5, 640)[None]
    assert torch.equal(load_codec(str(tmp_path)).encode(wave), codec.encode(wave))


def test_a_missing_codec_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a folder here nor reachable"):
        load_codec(str(tmp_path / "none"))


def test_other_shapes_than_whole_frames_are_refused(codec: Codec) -> None:
    with pytest.raises(ValueError, match="multiple of 64 samples"):
        codec.encode(torch.zeros(1, 100))
    with pytest.raises(ValueError, match=r"\(batch, 9, frame\)"):
        codec.decode(torch.zeros(1, 2, 4, dtype=torch.int64))
