"""GPT-SoVITS (RVC-Boss), a few-shot voice: its second stage for training, its first for speaking."""

from __future__ import annotations

from tpulab_recipes.common.seed_imports import use_imports

#: By module of the seed's `module.tpu`: the module of this package that replaces it.
SEED_MODULES = {"models": "models", "discriminator": "models", "utils": "modules"}


def use_seed_imports() -> None:
    """Makes `from module.tpu.models import SynthesizerTrn` and similar imports load this package, in this
    process.

    Raises `ImportError` where another package `module` is in use, such as the original's.
    """
    use_imports(__name__, {f"module.tpu.{name}": module for name, module in SEED_MODULES.items()})
