"""The voice's HiFi-GAN: it learns the recordings as one program, resumes bit for bit, and speaks."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from english_tts.tiny_voice import TINY  # noqa: E402
from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402
from tpulab_recipes.common.errors import CheckpointError, ConfigError, DataError  # noqa: E402
from tpulab_recipes.english_tts.config_english import EnglishTrainingConfig  # noqa: E402
from tpulab_recipes.english_tts.data import LJSpeechDataset, prepare, read_wave  # noqa: E402
from tpulab_recipes.english_tts.english_trainer import EnglishTrainer  # noqa: E402
from tpulab_recipes.english_tts.vocoder import (  # noqa: E402
    SIZES,
    VOCODER_FILE,
    HifiGan,
    VocoderSize,
    VocoderTrainer,
    rates_of,
    save_vocoder,
    train_vocoder,
    trained_vocoder,
    windows,
)
from tpulab_recipes.runtime.selection import make  # noqa: E402

SMALLEST = VocoderSize(16, "2", (3,), ((1,),), 3, 64)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnglishTrainingConfig:
    """Six built-in sentences, prepared, with a model smaller than `small`."""
    monkeypatch.setitem(SIZES, "small", SMALLEST)
    torch.set_num_threads(1)
    c = TINY.but(
        output_dir=str(tmp_path),
        corpus_count=6,
        frame_buckets=(160,),
        vocoder_size="small",
        vocoder_steps=30,
        vocoder_batch_size=2,
        vocoder_frames=8,
        vocoder_learning_rate=3e-3,
    )
    prepare("", c.output_dir, c)
    return c


def _trainer(c: EnglishTrainingConfig) -> EnglishTrainer:
    return EnglishTrainer.of(c, LJSpeechDataset(c, is_prepared=True), backend=make("cpu", "cpu"))


def test_the_hop_is_a_product_of_the_rates() -> None:
    assert rates_of(256, 3) == [8, 8, 4]
    assert rates_of(256, 4) == [4, 4, 4, 4]
    assert rates_of(320, 3) == [8, 8, 5]
    for hop in (7, 200, 300, 441, 480):
        assert int(np.prod(rates_of(hop, 4))) == hop


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize("hop", [256, 300, 320, 441])
def test_a_frame_is_so_many_samples(size: Any, hop: int) -> None:
    made = HifiGan(TINY.but(vocoder_size=size, hop_length=hop))
    with torch.no_grad():
        assert made(torch.zeros(1, 3, 20)).shape == (1, 1, 3 * hop)


def test_the_windows_are_the_sound_of_their_spectrograms(config: EnglishTrainingConfig) -> None:
    data = LJSpeechDataset(config, is_prepared=True)
    trainer = VocoderTrainer(config, make("cpu", "cpu"), data.statistics)
    first, second = (next(windows(data.train, config, number)) for number in (4, 5))
    assert (first["mel"].shape, first["wave"].shape) == ((2, 8, 20), (2, 8 * 320))
    assert not np.array_equal(first["wave"], second["wave"])
    np.testing.assert_array_equal(first["wave"], next(windows(data.train, config, 4))["wave"])
    for mel, wave in zip(first["mel"], first["wave"], strict=True):
        again = trainer.mel(torch.from_numpy(wave)[None])[0].T.clamp(-11.5, 0)
        # The frames in the middle do not depend on the edges.
        found, expected = np.asarray(again[2:-2]), mel[2:-2]
        # Not the quietest: the stored sound has 16 bits.
        np.testing.assert_allclose(found[expected > -9], expected[expected > -9], atol=0.02)
    assert len(read_wave(config.output_dir, data[0].name)) == 320 * len(data[0].mel)
    for name in ("vocoder_steps", "vocoder_frames"):
        with pytest.raises(ConfigError, match=name):
            config.but(**{name: 0})
    with pytest.raises(DataError, match="no utterance has 999 frames"):
        next(windows(data.train, config.but(vocoder_frames=999), 0))
    file = Path(config.output_dir) / "features" / f"{data[0].name}.npz"
    with np.load(file) as stored:
        rest = {name: stored[name] for name in stored if name != "wave"}
    np.savez(file, **rest)
    with pytest.raises(DataError, match="prepare again"):
        read_wave(config.output_dir, data[0].name)


@pytest.mark.parametrize(
    "name", ["cpu", pytest.param("torch_xla", marks=[pytest.mark.long, NEEDS_TORCH_XLA])]
)
def test_a_resumed_training_equals_the_unbroken_training(name: str, config: EnglishTrainingConfig) -> None:
    data, backend = LJSpeechDataset(config, is_prepared=True), make(name, "cpu")

    def trained(own: VocoderTrainer, until: int) -> list[dict[str, float]]:
        rows = islice(windows(data.train, config, own.steps_done), until - own.steps_done)
        return [
            {key: float(value) for key, value in backend.to_host(own.train_step(batch)).items()}
            for batch in backend.batches(rows)
        ]

    unbroken = VocoderTrainer(config, backend, data.statistics)
    expected = trained(unbroken, 5)
    broken = VocoderTrainer(config, backend, data.statistics)
    trained(broken, 2)
    state = broken.state()
    resumed = VocoderTrainer(config, backend, data.statistics)
    resumed.load_state(state)
    assert trained(resumed, 5) == expected[2:]
    assert expected[-1]["judges"] != expected[0]["judges"]
    for changes in ({"hop_length": 256}, {"vocoder_frames": 16}):
        other = VocoderTrainer(config.but(**changes), backend, data.statistics)
        with pytest.raises(CheckpointError, match=next(iter(changes))):
            other.load_state(state)


def test_it_learns_the_recordings_and_is_exported_with_the_voice(config: EnglishTrainingConfig) -> None:
    trainer, folder = _trainer(config), Path(config.output_dir)
    held_out = list(islice(windows(trainer.held_out, config, 0), 4))
    fresh = VocoderTrainer(config, trainer.backend, trainer.statistics)
    before = fresh.evaluate(iter(held_out))
    made = train_vocoder(trainer)
    trainer.close()
    fresh.generator.load_state_dict(made.state_dict())
    assert fresh.evaluate(iter(held_out)) < 0.6 * before
    assert trained_vocoder(folder, config) is None
    save_vocoder(folder, made)
    speak = trained_vocoder(folder, config)
    assert speak is not None
    mel = trainer.train_set[0].mel
    with torch.no_grad():
        expected = made(torch.from_numpy(mel)[None])[0, 0].numpy()
    np.testing.assert_allclose(speak(mel), expected, atol=1e-5)
    (folder / VOCODER_FILE).write_bytes(b"torn")
    with pytest.raises(CheckpointError, match=VOCODER_FILE):
        trained_vocoder(folder, config)
