"""English TTS: the training infrastructure of a Kokoro-style voice (docs/english-tts.md)."""

from __future__ import annotations

import importlib
import sys

#: The modules of the seed's folder `training`.
SEED_MODULES = (
    "config_english",
    "trainer",
    "english_trainer",
    "checkpoint_manager",
    "adaptive_memory_manager",
    "interbatch_profiler",
    "mps_grad_scaler",
    "device_type",
)


def use_seed_imports() -> None:
    """Makes `from training.trainer import KokoroTrainer` and its like mean this package, in this process.

    Raises `ImportError` where another package `training` is in use.
    """
    package = sys.modules[__name__]
    if sys.modules.get("training", package) is not package:
        raise ImportError("Another package named training is imported; use tpulab_recipes.english_tts.")
    for name in SEED_MODULES:
        sys.modules[f"training.{name}"] = importlib.import_module(f"{__name__}.{name}")
    sys.modules["training"] = package
