"""A mark for long tests that only torch_xla needs: `npm run test:torch` runs them (docs/decisions/0022)."""

from __future__ import annotations

import os

import pytest
from tpulab_recipes.runtime import installed_backends

LONG_ON_TORCH_XLA = pytest.mark.skipif(
    os.environ.get("TPULAB_LONG_TESTS") != "1" or "torch_xla" not in installed_backends(),
    reason="`npm run test:torch` runs it, in the environment torch-xla",
)
