"""Voice conversion by linear regression, in seconds on a CPU: from the features of anybody's speech to the
log-mel spectrogram of one voice.

Normalised over a clip, the states of Whisper's encoder still carry the words and hardly say who speaks
(docs/recipe-notes.md). So a linear map that is fitted to a minute of the target's own clips, in closed form,
also speaks other people's sentences in its voice. That is the idea of kNN-VC (Baas et al. 2023,
arXiv:2305.18975) and LinearVC (Kamper et al. 2025, arXiv:2506.01510). They map to features of the target and
need a vocoder trained on them; this map ends at the spectrogram, whose phases are Griffin-Lim's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tpulab_recipes.audio.mel import MelSpectrogram
from tpulab_recipes.audio.slicing import frame_energy
from tpulab_recipes.audio.vocoders import wave_of
from tpulab_recipes.common.errors import CheckpointError, DataError
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.gpt_sovits.config import Config
from tpulab_recipes.gpt_sovits.data import Clip, Features, fitted_features, levelled
from tpulab_recipes.torch_training.tensor_files import read_tensors

#: Frames of features on either side of the one that is converted.
CONTEXT = 2
#: Minimum seconds of the target's voice; a minute is better.
MIN_S = 20.0
#: Frames with a smaller share of the loudest frame's energy are silence. Those that are more than so many
#: frames from any sound do not count when features are normalised: a long pause would change all the rest.
SILENCE, NEAR = 1e-4, 15
#: Groups of clips, each held out once to choose the penalty.
FOLDS = 4
#: Ridge penalties to choose from, in units of a feature's variance.
PENALTIES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
#: Maximum seconds converted at once (Whisper's window); longer recordings are cut where they are quiet, at
#: most this far from equal parts.
PIECE_S, AROUND_S = 30.0, 2.0


@dataclass(frozen=True)
class Fit:
    """A fitted map, and how it was chosen."""

    weight: NDArray[np.float32]
    """Float32[(2 * CONTEXT + 1) * channel + 1, mel]; the last row is added to every frame."""
    penalty: float
    explained: float
    """Share of the variance of held-out clips' log-mels."""
    seconds: float


def fit(clips: Sequence[Clip], config: Config) -> Fit:
    """The ridge regression from clips' features to their log-mels whose penalty predicts held-out clips best.
    Memory does not grow with the clips. Raises `DataError` for too few of them."""
    seconds = sum(len(clip.wav) for clip in clips) / config.sampling_rate
    if len(clips) < FOLDS or seconds < MIN_S:
        raise DataError(
            f"{len(clips)} clips with {seconds:.1f} s of the voice are too few to learn from; {FOLDS} clips "
            f"with {MIN_S:.0f} s are the least, and a minute is better."
        )
    mel, rows = MelSpectrogram(config.mel), (2 * CONTEXT + 1) * config.ssl_channels + 1
    # Least squares needs only this of a group: products of features and log-mels, in float64.
    groups = np.zeros((FOLDS, rows + config.n_mel_channels, rows + config.n_mel_channels))
    for number, clip in enumerate(clips):
        log_mel = mel.mel(torch.from_numpy(clip.spec)).clamp(min=1e-5).log().numpy().T
        both = np.concatenate([_inputs(clip.ssl, clip.wav, config.hop_length), log_mel], 1).astype(np.float64)
        groups[number % FOLDS] += both.T @ both
    total = groups.sum(0)
    errors = {
        penalty: sum(_squared_error(_solve(total - held_out, rows, penalty), held_out) for held_out in groups)
        for penalty in PENALTIES
    }
    penalty = min(errors, key=lambda each: errors[each])
    frames, sums = total[rows - 1, rows - 1], total[rows - 1, rows:]
    variance = float(np.trace(total[rows:, rows:]) - sums @ sums / frames)
    weight = np.ascontiguousarray(_solve(total, rows, penalty), np.float32)
    return Fit(weight, penalty, 1 - errors[penalty] / variance, seconds)


def _solve(products: NDArray[np.float64], rows: int, penalty: float) -> NDArray[np.float64]:
    """Ridge regression by its normal equations; the constant has no penalty."""
    added = np.full(rows, penalty * products[rows - 1, rows - 1])
    added[-1] = 0
    factor = torch.linalg.cholesky(torch.from_numpy(products[:rows, :rows] + np.diag(added)))
    weight: NDArray[np.float64] = torch.cholesky_solve(
        torch.from_numpy(products[:rows, rows:]), factor
    ).numpy()
    return weight


def _squared_error(weight: NDArray[np.float64], products: NDArray[np.float64]) -> float:
    """|y - xW|² in all frames of these products."""
    rows = len(weight)
    fits = products[:rows, :rows] @ weight - 2 * products[:rows, rows:]
    return float(np.trace(products[rows:, rows:]) + (weight * fits).sum())


def _inputs(ssl: NDArray[np.float32], wave: NDArray[np.float32], hop: int) -> NDArray[np.float32]:
    """Float32[frame, (2 * CONTEXT + 1) * channel + 1] of Float32[channel, frame]: each channel normalised
    over the clip's sound, with the neighbouring frames and a constant."""
    frames = ssl.shape[1]
    energy = frame_energy(wave, hop)[:frames]
    sounds = np.convolve(energy >= SILENCE * energy.max(), np.ones(2 * NEAR + 1))[NEAR : NEAR + frames] > 0
    sound = ssl[:, sounds]
    normalised = (ssl - sound.mean(1, keepdims=True)) / (sound.std(1, keepdims=True) + 1e-5)
    padded = np.pad(normalised, ((0, 0), (CONTEXT, CONTEXT)), mode="edge")
    parts = [padded[:, first : first + frames] for first in range(2 * CONTEXT + 1)]
    return np.concatenate([*parts, np.ones((1, frames), np.float32)]).T


@dataclass(frozen=True)
class LinearVoice:
    weight: NDArray[np.float32]
    config: Config
    features: Features

    def convert(self, wave: NDArray[np.float32]) -> NDArray[np.float32]:
        """The wave's words in this voice. Raises `ConfigError` for a wave without a spectrum, and
        `CheckpointError` for features that do not fit."""
        wave = levelled("source", wave, self.config)
        return np.concatenate([self._converted(piece) for piece in _pieces(wave, self.config)])

    def _converted(self, wave: NDArray[np.float32]) -> NDArray[np.float32]:
        config = self.config
        ssl = fitted_features(self.features(wave), len(wave) // config.hop_length)
        given = _inputs(ssl, wave, config.hop_length)
        if given.shape[1] != len(self.weight):
            raise CheckpointError(
                f"The voice is of {len(self.weight)} features and these are {given.shape[1]}; give the same "
                "--features and --cnhubert-base-dir as prepare had."
            )
        log_mel = torch.from_numpy((given @ self.weight).clip(np.log(1e-5)).T.copy())
        return np.asarray(wave_of(log_mel[None], MelSpectrogram(config.mel))[0].numpy())


def _pieces(wave: NDArray[np.float32], config: Config) -> Iterator[NDArray[np.float32]]:
    """Equal parts of at most `PIECE_S`, cut between two frames at the quietest place around."""
    hop = config.hop_length
    frames, around = len(wave) // hop, int(AROUND_S * config.sampling_rate / hop)
    most = int(PIECE_S * config.sampling_rate / hop)
    count = -(-frames // (most - 2 * around)) if frames > most else 1
    energy = frame_energy(wave, hop)
    first = 0
    for number in range(1, count + 1):
        last = frames * number // count
        if number < count:
            last += int(np.argmin(energy[last - around : last + around])) - around
        yield wave[first * hop : last * hop]
        first = last


def save(weight: NDArray[np.float32], file: Path) -> None:
    from safetensors.torch import save as packed

    Folder(file.parent).make().put(file.name, packed({"weight": torch.from_numpy(weight)}))


def load(file: Path, config: Config) -> NDArray[np.float32]:
    """Raises `CheckpointError` for a file that `save` did not write, or with other settings."""
    weight = read_tensors(file).get("weight")
    shape = ((2 * CONTEXT + 1) * config.ssl_channels + 1, config.n_mel_channels)
    if weight is None or tuple(weight.shape) != shape or not bool(weight.isfinite().all()):
        raise CheckpointError(
            f"{file} is no linear voice with {config.ssl_channels} ssl_channels and {shape[1]} mel channels; "
            "convert with the settings that train-linear had."
        )
    return np.asarray(weight.float().numpy())
