"""GPT-SoVITS (RVC-Boss), a few-shot voice: its second stage for training, its first for speaking."""

from __future__ import annotations

import importlib
import sys

#: What the seed's document imports of `module.tpu`.
SEED_MODULES = ("models", "discriminator", "utils")


def use_seed_imports() -> None:
    """Makes `from module.tpu.models import SynthesizerTrn` and its like mean this package, in this process.

    Raises `ImportError` where another package `module` is in use, such as the original's.
    """
    package = sys.modules[__name__]
    for parent in ("module", "module.tpu"):
        if sys.modules.setdefault(parent, package) is not package:
            raise ImportError(f"Another package named {parent} is imported; use tpulab_recipes.gpt_sovits.")
    for name in SEED_MODULES:
        sys.modules[f"module.tpu.{name}"] = importlib.import_module(f"{__name__}.{name}")
