"""Every backend that this environment has. `TPULAB_TEST_SPMD=1` runs torch_xla as one program over several
devices: the mode is chosen once in a process, so it needs a run of its own.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("PJRT_DEVICE", "CPU")

import pytest
from tpulab_recipes.runtime import Backend, installed_backends
from tpulab_recipes.runtime.selection import make

SPMD = os.environ.get("TPULAB_TEST_SPMD") == "1"
NAMES = ["torch_xla"] if SPMD else [name for name in installed_backends() if name != "torch_tpu"]

_made: dict[str, Backend] = {}


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest) -> Backend:
    name: str = request.param
    if name not in _made:
        _made[name] = make(name, "cpu", **({"spmd": True} if SPMD else {}))
    return _made[name]
