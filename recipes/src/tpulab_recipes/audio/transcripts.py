"""Transcripts of clips, by Whisper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.common.errors import ConfigError, MissingPackage
from tpulab_recipes.torch_training.pretrained import loaded, refuse_lost_folder

#: Seconds that Whisper hears at once, and its rate in Hz.
MAX_SECONDS, RATE = 30.0, 16_000
_TOGETHER = 8

#: The texts of waves at `RATE`, none longer than `MAX_SECONDS`.
Transcriber = Callable[[Sequence[NDArray[np.float32]]], list[str]]


def load_whisper(name: str, language: str = "") -> Transcriber:
    """Whisper of a name at Hugging Face or a folder, in transformers' form or, where `faster_whisper` is
    installed, CTranslate2's. It runs on a CUDA device if there is one, else on the host: on XLA its loop of
    single tokens would compile again and again. `language`: as Whisper names it; empty: it finds out.

    Raises `ConfigError` where there is no such model, `MissingPackage`.
    """
    refuse_lost_folder("whisper", name)
    if (Path(name) / "model.bin").is_file():
        return _ctranslate2(name, language)
    import huggingface_hub
    import torch
    from transformers import AutoProcessor, WhisperForConditionalGeneration

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if not Path(name).is_dir():
        # Without access to the hub, transformers would retry each file for minutes.
        loaded("whisper", name, lambda name: huggingface_hub.hf_hub_download(name, "config.json"))
    processor: Any = loaded("whisper", name, AutoProcessor.from_pretrained)
    model: Any = loaded("whisper", name, WhisperForConditionalGeneration.from_pretrained).eval().to(device)
    # English-only models accept neither argument.
    multilingual = getattr(model.generation_config, "is_multilingual", False)
    options = {"task": "transcribe", "language": language or None} if multilingual else {}

    @torch.no_grad()
    def transcribe(waves: Sequence[NDArray[np.float32]]) -> list[str]:
        texts: list[str] = []
        for first in range(0, len(waves), _TOGETHER):
            rows = list(waves[first : first + _TOGETHER])
            inputs = processor(rows, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True).to(
                device
            )
            ids = model.generate(**inputs, **options)
            texts += [text.strip() for text in processor.batch_decode(ids, skip_special_tokens=True)]
        return texts

    return transcribe


def _ctranslate2(folder: str, language: str) -> Transcriber:
    try:
        from faster_whisper import WhisperModel
    except ImportError as error:
        raise MissingPackage("faster-whisper", f"Reading {folder}, a Whisper model of CTranslate2") from error
    try:
        model = WhisperModel(folder)
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigError("whisper", f"{folder} cannot be read as a Whisper model: {error}") from error

    def transcribe(waves: Sequence[NDArray[np.float32]]) -> list[str]:
        segments = (model.transcribe(wave, language=language or None)[0] for wave in waves)
        return [" ".join(part.text.strip() for part in parts).strip() for parts in segments]

    return transcribe
