"""The Python with JAX: the one with torch runs these tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]


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
