"""N13: how many CPU devices JAX has: the user's count takes precedence over the environment's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COUNT = """
import os
from tpulab.agent.process_agent import current_agent
current_agent()
os.environ.update({own!r})
import jax
print(len(jax.devices()))
"""
FORCED = "--xla_force_host_platform_device_count"


@pytest.mark.parametrize(
    ("own", "devices"),
    [
        ({}, 8),
        ({"XLA_FLAGS": f"{FORCED}=5"}, 5),
        ({"JAX_NUM_CPU_DEVICES": "3"}, 3),
        ({"XLA_FLAGS": f"{FORCED}=5", "JAX_NUM_CPU_DEVICES": "3"}, 3),
    ],
)
def test_the_users_count_takes_precedence(own: dict[str, str], devices: int) -> None:
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8", "TPULAB_TEXT": "0"}
    env.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(own=own)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == str(devices), done.stderr
