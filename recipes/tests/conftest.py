"""What all tests of the recipes share: XLA is started before anything else uses PyTorch.

Autograd makes a queue for each device that it knows at the first backward pass of the process; a device that
appears later has none, and its first backward pass fails with an internal assertion.
"""

from __future__ import annotations

import gc
import importlib.util
import os

import pytest
from quick_compiling import QUICKLY

# Importing and tracing make many objects that stay. Searching them for garbage takes a sixth of the time.
gc.set_threshold(50_000, 20, 50)
os.environ.setdefault("PJRT_DEVICE", "CPU")
# Set before any test imports Hugging Face's libraries, which read it once: no test queries the hub.
os.environ["HF_HUB_OFFLINE"] = "1"
# For this process and those that tests start.
if importlib.util.find_spec("torch_xla") is not None:
    for name, flags in QUICKLY.items():
        os.environ.setdefault(name, flags)


@pytest.fixture(scope="session", autouse=True)
def _xla_before_autograd() -> None:
    one_program = os.environ.get("TPULAB_TEST_SPMD") == "1"
    if importlib.util.find_spec("torch_xla") is not None and not one_program:
        from tpulab_recipes.runtime.selection import make

        make("torch_xla", "cpu")
