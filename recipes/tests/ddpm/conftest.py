"""What the tests of this recipe share. They run on eight XLA:CPU devices."""

from __future__ import annotations

import os
from pathlib import Path

from quick_compiling import JAX_QUICKLY

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("XLA_FLAGS", JAX_QUICKLY["XLA_FLAGS"])
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
# Compiling takes nearly all of the time here, and several tests compile the same programs.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[3] / ".tpulab" / "caches" / "jax-recipes")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")

from collections.abc import Iterator

import jax
import pytest
from ddpm.tiny import shallow_config, tiny_config
from tpulab_recipes.ddpm.config import Config


@pytest.fixture
def double_precision() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def tiny() -> Config:
    return tiny_config()


@pytest.fixture
def shallow() -> Config:
    return shallow_config()
