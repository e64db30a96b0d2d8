"""A RESOURCE_EXHAUSTED as figures, the owners of the memory, and the memory that can be released."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keeper_double import KeeperDouble
from kernel_process import KernelProcess
from tpulab.memory.error import Exhausted, parse

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries "
            "(30.00G) exceeds available HBM (15.75G).",
            Exhausted("program", 30 * GIB, None, int(15.75 * GIB)),
        ),
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
            "Used 20.50G of 15.48G hbm. Exceeded hbm capacity by 5.02G.",
            Exhausted("program", int(20.5 * GIB), None, int(15.48 * GIB)),
        ),
        (
            "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 3.00G. That was not "
            "possible. There are 2.23G free.; (0x0x0_HBM0)",
            Exhausted("allocation", 3 * GIB, int(2.23 * GIB)),
        ),
        (
            "RESOURCE_EXHAUSTED: Out of memory allocating 137438953472 bytes.",
            Exhausted("allocation", 128 * GIB),
        ),
        (
            "RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483648B) on device ordinal 0",
            Exhausted("allocation", 2 * GIB),
        ),
        ("Out of memory allocating 281474976710656 bytes.", Exhausted("allocation", 1 << 48)),
        (
            "Error allocating device buffer: Attempting to allocate 3.00G. That was not possible. There are "
            "2.23G free.; (0x0x0_HBM0)",
            Exhausted("allocation", 3 * GIB, int(2.23 * GIB)),
        ),
        ("CUDA out of memory. Tried to allocate 3.00 GiB", Exhausted("allocation", 3 * GIB)),
        (
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
            Exhausted("other"),
        ),
        (
            "Failed to allocate 1.00GiB from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            Exhausted("other"),
        ),
        (
            "MPS backend out of memory (MPS allocated: 9.06 GB, other allocations: 1.0 KB, max allowed: "
            "9.07 GB). Tried to allocate 256 bytes on shared pool.",
            Exhausted("other"),
        ),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", Exhausted("other")),
        (
            "[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried to "
            "allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)",
            Exhausted("allocation", 4 * GIB),
        ),
        (
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of "
            "which 1.50 GiB is free. Process 7 has 77.6 GiB memory in use.",
            Exhausted("allocation", 20 * 2**20, int(1.5 * GIB)),
        ),
        # torch_tpu 0.2.0
        (
            "the TPU ran out of memory while awaiting the materialization of value f32[1024]",
            Exhausted("other"),
        ),
        # jax 0.12
        (
            "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
            "required for HLO temporaries (59.60G) exceeds available HBM (15.75G). HLO module: jit__lambda.",
            Exhausted("program", int(59.6 * GIB), None, int(15.75 * GIB)),
        ),
        ("My program ran out of patience, not of memory", None),
        ("RESOURCE_EXHAUSTED: something else", Exhausted("other")),
        ("ValueError: shapes do not fit", None),
    ],
)
def test_messages_of_the_runtimes_become_figures(text: str, found: Exhausted | None) -> None:
    assert parse(text) == found


def test_a_cell_without_memory_is_reported_with_the_owners_and_free_releases_them(
    short_folder: Path, keeper: KeeperDouble
) -> None:
    environment = {"TPULAB_AGENT_SOCKET": str(keeper.path), "JAX_PLATFORMS": "cpu"}
    with KernelProcess(short_folder, env=environment) as kernel:
        kernel.run(
            "import jax, jax.numpy as jnp\n"
            "params = {'layers': [jnp.ones((256, 256)) for _ in range(3)]}\n"
            "def train(batch):\n"
            "    scratch = jnp.ones((512, 512))\n"
            "    return jnp.ones((1 << 24, 1 << 22))",
            cell_id="the-cell",
        )
        kernel.run("jnp.ones((128, 128))")
        with pytest.raises(AssertionError, match="RESOURCE_EXHAUSTED"):
            kernel.run("train(0)")
        [message] = keeper.wait(lambda: keeper.of_type("memory-error"), "the memory error")
        assert (message["what"], message["requestedBytes"]) == ("allocation", 1 << 48)
        assert (message["location"]["cellId"], message["location"]["function"]) == ("the-cell", "train")
        # jax may keep an internal copy, which has no name.
        owners = {tuple(entry["shape"]): entry for entry in message["arrays"] if entry["names"]}
        assert owners[512, 512]["names"] == ["last traceback: train, scratch"]
        assert owners[128, 128]["names"] == ["Out[2]"]
        layers = owners[256, 256]
        assert (layers["count"], layers["bytes"]) == (3, 3 * 256 * 256 * 4)
        assert layers["names"][0] == "params['layers'][0]"
        # A scalar of the fill value is in the traceback too.
        assert message["heldBytes"] == pytest.approx(
            {"traceback": 512 * 512 * 4, "outputs": 128 * 128 * 4}, rel=0.001
        )

        freed = keeper.outcome(keeper.command("free"), "applied")
        assert re.search(r"freed 1\.[01] MiB of arrays", freed["reason"]), freed
        left = kernel.run("shapes = {a.shape for a in jax.live_arrays()}\nprint((512, 512) in shapes)")
        assert left == "False\n"
        assert kernel.run("print(len(params['layers']), 2 in Out)") == "3 False\n"
