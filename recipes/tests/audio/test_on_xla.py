"""Codec and mel spectrogram on XLA:CPU: one program each for all batches of a shape, nothing falls back to
the host, and the results are those of plain PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_xla")
pytest.importorskip("transformers")

import torch_xla  # noqa: E402
from torch_xla.debug import metrics  # noqa: E402
from tpulab_recipes.audio.codec import tiny_codec  # noqa: E402
from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram  # noqa: E402


def compiled() -> int:
    return int((metrics.metric_data("CompileTime") or (0,))[0])


def test_batches_of_one_shape_share_their_programs_and_stay_on_the_device() -> None:
    device, codec = torch_xla.device(), tiny_codec(hop=64)
    mel = MelSpectrogram(MelSettings(n_fft=256, window=256, hop=64, n_mels=20, center=False))
    batches = 0.3 * torch.randn(3, 2, 640, generator=torch.Generator().manual_seed(0))
    codes = [codec.encode(waves) for waves in batches]
    sound = [codec.decode(each) for each in codes]
    mels = [mel(waves) for waves in batches]
    codec.to(device)
    mel.to(device)
    torch_xla.sync()
    metrics.clear_counters()
    programs = []
    for waves, own_codes, own_sound, own_mel in zip(batches, codes, sound, mels, strict=True):
        made = codec.encode(waves.to(device))
        assert torch.equal(made.cpu(), own_codes)
        torch.testing.assert_close(codec.decode(made).cpu(), own_sound, atol=1e-6, rtol=0)
        torch.testing.assert_close(mel(waves.to(device)).cpu(), own_mel, atol=1e-5, rtol=0)
        programs.append(compiled())
    assert programs[0] == programs[1] == programs[2]
    assert [name for name in metrics.counter_names() if name.startswith("aten::")] == []
