"""Under SPMD torch_xla shows one virtual device; the number of real ones decides the peak rate of a run."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import torch, torch_xla
import torch_xla.runtime as xr
xr.use_spmd()
from tpulab.runtimes.torch_xla_runtime import TorchXlaRuntime
assert TorchXlaRuntime().devices() is None, "the runtime is initialised by nobody but the user"
ones = torch.ones(2, device=torch_xla.device())
torch_xla.sync()
found = TorchXlaRuntime().devices()
print([(device["id"], device["kind"]) for device in found["devices"]], found["platform"])
"""


def test_all_devices_behind_it_are_reported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "4"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "[(0, 'CPU'), (1, 'CPU'), (2, 'CPU'), (3, 'CPU')] cpu" in done.stdout, done.stderr[-2000:]
