"""How the processes of a slice join in JAX, or in PyTorch: `jax.distributed`, or a gloo group of
`torch.distributed`.

On chips PyTorch runs as torch_xla's one program over all devices, and the group carries only what the hosts
send each other (a checkpoint that one of them has read). On host CPUs, where torch_xla finds no other
process, it carries the gradients too.
"""

from __future__ import annotations

import importlib
import os
import socket
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from tpulab.slice.errors import SliceError

TITLES = {"jax": "JAX", "torch": "PyTorch"}
#: JAX must not end the survivors itself: its abort would hide the cause. The lead ends them.
JAX_HEARTBEAT_S = 3600
#: Longer than any host waits for another at a collective; the lead finds lost hosts.
GLOO_PATIENCE = timedelta(days=2)


#: The framework by the name of the recipes' backend, which the kernel names (`TPULAB_BACKEND`).
_BY_BACKEND = {"jax": "jax", "torch_xla": "torch", "cpu": "torch"}


def check() -> str:
    """The framework that this kernel uses. Raises `SliceError` where it cannot run on the hosts of a slice.

    An environment may have several: the framework that the kernel names comes first, then JAX.
    """
    backend = os.environ.get("TPULAB_BACKEND", "")
    named = _BY_BACKEND.get(backend)
    found = named if named and find_spec(named) else next((name for name in TITLES if find_spec(name)), None)
    if backend == "torch_tpu" or (found == "torch" and not named and find_spec("torch_tpu")):
        raise SliceError(
            "torch_tpu needs a process for each chip, and a slice has one for each host; use the environment "
            "jax or torch-xla, or set TPULAB_BACKEND=jax in one that also has JAX."
        )
    if found is None or not find_spec("ipyparallel"):
        raise SliceError(
            f"This environment has no {'ipyparallel' if found else 'JAX and no PyTorch'}; use TPULab's "
            "environment jax or torch-xla, made again if it is older."
        )
    return found


def load(framework: str) -> None:
    """Imports it, which takes seconds."""
    importlib.import_module(framework)


def join(framework: str, order: dict[str, Any]) -> None:
    """Joins the other processes. Returns when all have joined."""
    (_join_torch if framework == "torch" else _join_jax)(order)


def _join_jax(order: dict[str, Any]) -> None:
    import jax

    if order["cpu_devices"]:
        jax.config.update("jax_num_cpu_devices", order["cpu_devices"])
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        coordinator_address=order["coordinator"],
        coordinator_bind_address=order["coordinator"] if order["index"] == 0 else None,
        num_processes=order["count"],
        process_id=order["index"],
        initialization_timeout=int(order["timeout_s"]),
        heartbeat_timeout_seconds=JAX_HEARTBEAT_S,
    )


def _join_torch(order: dict[str, Any]) -> None:
    import torch.distributed as distributed

    address, _, port = order["coordinator"].rpartition(":")
    # PyTorch's own socket would listen at all addresses of the machine.
    listener = socket.create_server((address, int(port))).detach() if order["index"] == 0 else None
    if (interface := _interface_towards(address)) is not None:
        # The name of a machine may resolve to its loopback interface.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    store = distributed.TCPStore(
        address,
        int(port),
        order["count"],
        order["index"] == 0,
        timeout=timedelta(seconds=order["timeout_s"]),
        master_listen_fd=listener,
    )
    distributed.init_process_group(
        "gloo", store=store, rank=order["index"], world_size=order["count"], timeout=GLOO_PATIENCE
    )


def _interface_towards(address: str) -> str | None:
    """The network interface of this machine that reaches that address."""
    import psutil  # type: ignore[import-untyped]  # ipykernel's

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        own = probe.getsockname()[0]
    interfaces: dict[str, list[Any]] = psutil.net_if_addrs()
    return next((name for name, all_of in interfaces.items() if own in [one.address for one in all_of]), None)
