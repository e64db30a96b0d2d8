"""A mark for tests that only torch_xla can run (docs/decisions/0022)."""

from __future__ import annotations

import pytest
from tpulab_recipes.runtime import installed_backends

NEEDS_TORCH_XLA = pytest.mark.skipif(
    "torch_xla" not in installed_backends(), reason="runs in the environment torch-xla"
)
