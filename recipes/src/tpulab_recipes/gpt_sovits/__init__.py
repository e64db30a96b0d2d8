"""GPT-SoVITS (RVC-Boss), a few-shot voice: its second stage for training, its first for speaking."""

from __future__ import annotations

from tpulab_recipes.common.seed_imports import use_imports

#: What the seed's document imports of `module.tpu`.
SEED_MODULES = ("models", "discriminator", "utils")


def use_seed_imports() -> None:
    """Makes `from module.tpu.models import SynthesizerTrn` and its like mean this package, in this process.

    Raises `ImportError` where another package `module` is in use, such as the original's.
    """
    use_imports(__name__, {f"module.tpu.{name}": name for name in SEED_MODULES})
