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


#: And its two dependencies.
SEED_DEPENDENCIES = {"data.ljspeech_dataset": "data", "kokoro.model": "model"}


def use_seed_imports() -> None:
    """Makes `from training.trainer import KokoroTrainer`, `from kokoro.model import KokoroModel` and the
    document's other imports mean this package, in this process.

    Raises `ImportError` where another package `training`, `kokoro` or `data` is in use.
    """
    package = sys.modules[__name__]
    modules = {f"training.{name}": name for name in SEED_MODULES} | SEED_DEPENDENCIES
    for parent in sorted({name.split(".")[0] for name in modules}):
        if sys.modules.setdefault(parent, package) is not package:
            raise ImportError(f"Another package named {parent} is imported; use tpulab_recipes.english_tts.")
    for name, own in modules.items():
        sys.modules[name] = importlib.import_module(f"{__name__}.{own}")
