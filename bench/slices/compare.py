"""A kernel of several hosts beside plain ipyparallel, from the view of a client of the kernel.

Both start engines on this machine, join jax.distributed over gloo and run the same cells: ours unchanged,
ipyparallel's with `%%px` in an ordinary kernel. Wall time, medians; on two cores all hosts share them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

from tpulab.slice import kernelspecs
from tpulab.slice.spec import SliceSpec

PATIENCE_S = 300
CASES = {"pass": "pass", "print": "print('x' * 60)"}
START_PX = """
import ipyparallel
cluster = ipyparallel.Cluster(n={hosts}, profile_dir={folder!r}, log_level=40)
client = cluster.start_and_connect_sync(activate=True)
def join(process, count, address):
    import jax
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, count, process)
waiting = [client[i].apply_async(join, i, {hosts}, {address!r}) for i in range({hosts})]
[one.get() for one in waiting]
view = client[:]
view.block = True
view.activate()
"""


class Client:
    """Runs cells of one kernel and measures from the request to idle."""

    def __init__(self, manager: KernelManager) -> None:
        manager.start_kernel()
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def cell(self, code: str) -> float:
        began = time.perf_counter()
        request = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "error":
                raise RuntimeError("\n".join(message["content"]["traceback"]))
            if message["content"].get("execution_state") == "idle":
                return time.perf_counter() - began


@contextmanager
def kernel(name: str) -> Iterator[tuple[Client, float]]:
    manager = KernelManager(kernel_name=name)
    began = time.perf_counter()
    client = Client(manager)
    try:
        yield client, began
    finally:
        client.client.stop_channels()
        manager.shutdown_kernel()


def measure(client: Client, prefix: str, cells: int) -> dict[str, float]:
    figures = {}
    for name, code in CASES.items():
        client.cell(prefix + code)
        figures[name] = statistics.median(client.cell(prefix + code) for _ in range(cells)) * 1e3
    return figures


def ours(hosts: int, cells: int, folder: Path) -> dict[str, float]:
    spec = SliceSpec(f"bench{hosts}", ("",) * (hosts - 1), cpu_devices=2)
    home = kernelspecs.add(spec, folder / "kernels")
    with kernel(home.name) as (client, began):
        client.cell("import jax")
        first_s = time.perf_counter() - began
        return {"first_s": first_s, **measure(client, "", cells)}


def plain(hosts: int, cells: int, folder: Path) -> dict[str, float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with kernel("bench-plain") as (client, began):
        client.cell(START_PX.format(hosts=hosts, folder=str(folder / f"px{hosts}"), address=address))
        client.cell("%%px\nimport jax")
        first_s = time.perf_counter() - began
        figures = {"first_s": first_s, **measure(client, "%%px\n", cells)}
        client.cell("cluster.stop_cluster_sync()")
        return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", default="4,8")
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--json", type=Path, default=Path(__file__).parents[1] / "results" / "slices.json")
    parser.add_argument("--no-save", action="store_true")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tpulab-bench-") as made:
        folder = Path(made)
        plain_spec = folder / "kernels" / "bench-plain"
        plain_spec.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": "plain", "language": "python"}
        (plain_spec / "kernel.json").write_text(json.dumps(spec))
        os.environ |= {
            "JUPYTER_DATA_DIR": made,
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": "2",
            "TPULAB_COMPILATION_CACHE": "off",
        }
        print("hosts  kernel        first cell s   pass ms  print ms")
        for hosts in map(int, given.hosts.split(",")):
            for name, run in (("ipyparallel", plain), ("slice", ours)):
                figures = run(hosts, given.cells, folder)
                rows.append({"hosts": hosts, "kernel": name, **{k: round(v, 3) for k, v in figures.items()}})
                print(
                    f"{hosts:5}  {name:12}  {figures['first_s']:12.1f}  "
                    f"{figures['pass']:8.2f}  {figures['print']:8.2f}"
                )
            base, own = rows[-2:]
            for case in CASES:
                extra = (own[case] - base[case]) / hosts
                print(f"       a cell `{case}` a host beyond ipyparallel: {extra:+.2f} ms")
    if not given.no_save:
        machine = {
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "python": platform.python_version(),
            "system": platform.system(),
        }
        given.json.write_text(
            json.dumps({"machine": machine, "cells": given.cells, "rows": rows}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
