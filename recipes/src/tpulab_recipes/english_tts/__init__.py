"""English TTS: the training infrastructure of a Kokoro-style voice (docs/english-tts.md)."""

from __future__ import annotations

from tpulab_recipes.common.seed_imports import use_imports

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


#: The seed's two dependencies.
SEED_DEPENDENCIES = {"data.ljspeech_dataset": "data", "kokoro.model": "model"}


def use_seed_imports() -> None:
    """Makes `from training.trainer import KokoroTrainer`, `from kokoro.model import KokoroModel` and the
    document's other imports mean this package, in this process.

    Raises `ImportError` where another package `training`, `kokoro` or `data` is in use.
    """
    use_imports(__name__, {f"training.{name}": name for name in SEED_MODULES} | SEED_DEPENDENCIES)
