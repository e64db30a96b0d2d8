"""The Python with JAX: the one with torch runs these tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
# As the tests of JAX have it (`ddpm/conftest.py`): for the processes with JAX, which mostly compile.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CHECKOUT / ".tpulab" / "caches" / "jax-recipes"))
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")


@pytest.fixture(scope="session")
def jax_python() -> Path:
    python = Path(
        os.environ.get("TPULAB_JAX_PYTHON") or CHECKOUT / ".tpulab" / "test" / "agent" / "bin" / "python"
    )
    if not python.exists():
        pytest.fail(
            f"{python} is missing: `npm test -- agent` makes it, or set TPULAB_JAX_PYTHON.", pytrace=False
        )
    return python
