"""Every backend that this environment has, each on its platform: torch_tpu, which has no CPU backend, on
chips, and where there are none it is skipped by name. `TPULAB_TEST_SPMD=1` runs torch_xla as one program over
several devices: the mode is chosen once in a process, so it needs a separate run.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("PJRT_DEVICE", "CPU")

import pytest
from tpulab_recipes.runtime import Backend, installed_backends
from tpulab_recipes.runtime.chips import count_chips
from tpulab_recipes.runtime.selection import make

SPMD = os.environ.get("TPULAB_TEST_SPMD") == "1"
NAMES = ["torch_xla"] if SPMD else installed_backends()

_made: dict[str, Backend] = {}


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest) -> Backend:
    name: str = request.param
    if name not in _made:
        if name == "torch_tpu" and count_chips() == 0:
            pytest.skip("torch_tpu needs a TPU, and this machine shows no chip")
        _made[name] = make(name, "tpu" if name == "torch_tpu" else "cpu", **({"spmd": True} if SPMD else {}))
    return _made[name]
