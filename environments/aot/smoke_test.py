"""Tries this environment out; prints one JSON line for each thing tried. `tpulab env check aot` runs it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Callable


def main() -> int:
    checks: list[tuple[str, Callable[[], str]]] = [
        ("the packages import", packages),
        ("the agent is there", agent),
        ("libtpu compiles for a chip that is not here", compiler),
    ]
    results = [report(name, tried) for name, tried in checks]
    return 0 if all(results) else 1


def report(name: str, tried: Callable[[], str]) -> bool:
    try:
        detail, ok = tried(), True
    except Exception as error:  # whatever is wrong is the result
        detail, ok = f"{type(error).__name__}: {error}", False
    print(json.dumps({"check": name, "ok": ok, "detail": detail, "remedy": None}), flush=True)
    return ok


def packages() -> str:
    import flax  # noqa: F401
    import jax  # noqa: F401
    import optax  # noqa: F401

    names = ("jax", "libtpu", "flax", "optax")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def agent() -> str:
    import tpulab

    return f"tpulab {tpulab.__version__}"


def compiler() -> str:
    os.environ.update(JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1")
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices[0]
    x = jax.ShapeDtypeStruct((8, 128), "float32", sharding=SingleDeviceSharding(device))
    compiled = jax.jit(lambda value: value + 1).trace(x).lower(lowering_platforms=("tpu",)).compile()
    return f"{device.device_kind}, {compiled.memory_analysis().argument_size_in_bytes} bytes of arguments"


if __name__ == "__main__":
    sys.exit(main())
