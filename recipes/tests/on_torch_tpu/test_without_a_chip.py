"""torch_tpu: what can be tried without a TPU, and, on a machine without one, a list of what cannot.

Initialising the device without a chip aborts the process, so everything here runs in processes of its own.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tpulab_recipes.runtime.chips import count_chips
from tpulab_recipes.runtime.errors import DeviceRuntimeError
from tpulab_recipes.runtime.torch_tpu import NEEDS_A_CHIP, NOT_OFFERED, TorchTpuBackend

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_tpu") is None, reason="torch_tpu is not installed in this environment"
)


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def answer(program: str) -> str:
    done = run(program)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def test_pytorch_loads_it_by_itself() -> None:
    assert answer("import torch; print(hasattr(torch, 'tpu'))") == "True"


def test_without_the_automatic_load_the_seam_says_which_variable_is_in_the_way() -> None:
    program = """
import os
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import sys, types
sys.modules["torch_tpu"] = types.ModuleType("torch_tpu")  # found, and not loaded by PyTorch
from tpulab_recipes import runtime
try:
    runtime.use("torch_tpu")
except runtime.DeviceRuntimeError as error:
    print(error.code, "TORCH_DEVICE_BACKEND_AUTOLOAD" in str(error))
"""
    assert answer(program) == "framework_missing True"


#: Everything of torch.tpu that the backend calls.
USED = (
    "current_device",
    "device_count",
    "get_device_name",
    "get_device_properties",
    "manual_seed_all",
    "precision",
    "synchronize",
    "Precision",
    "_get_cache_misses",
)


@pytest.mark.parametrize("name", USED)
def test_what_the_backend_calls_is_there(name: str) -> None:
    assert answer(f"import torch; print(hasattr(torch.tpu, {name!r}))") == "True"


def test_the_highest_precision_exists_by_its_name() -> None:
    assert answer("import torch; print(torch.tpu.Precision.HIGHEST.name)") == "HIGHEST"


def test_the_compiler_is_registered_with_torch_compile() -> None:
    assert answer("import torch; print('tpu' in torch._dynamo.list_backends(exclude_tags=None))") == "True"


@pytest.mark.skipif(count_chips() > 0, reason="this machine has chips")
def test_without_a_chip_the_seam_refuses_before_the_device_is_touched() -> None:
    program = """
from tpulab_recipes import runtime
for platform in (None, "tpu", "cpu"):
    try:
        runtime.use("torch_tpu", platform=platform)
    except runtime.DeviceRuntimeError as error:
        print(error.code, end=" ")
"""
    assert answer(program) == "no_chip no_chip unsupported"


@pytest.mark.skipif(count_chips() > 0, reason="this machine has chips")
def test_forcing_the_device_ends_the_process_which_is_why_the_chips_are_counted_first() -> None:
    done = run("import torch\ntorch.tpu.synchronize()\nprint('alive')")
    assert done.returncode != 0
    assert "alive" not in done.stdout


def test_the_recipes_trace_as_one_graph_with_this_torch() -> None:
    """What is compiled for a TPU is what tracing yields; code generation itself needs the chip."""
    program = """
import torch
from tpulab_recipes.discipline import trace_full_graph
from tpulab_recipes.fashion_mnist.alexnet import AlexNet
from tpulab_recipes.resnet_profiling.resnet import ResNet18
shapes = [trace_full_graph(AlexNet(10, width=0.125).eval(), torch.zeros(2, 3, 64, 64)).shape,
          trace_full_graph(ResNet18(width=0.125).eval(), torch.zeros(2, 3, 32, 32)).shape]
exported = torch.export.export(ResNet18(width=0.125).eval(), (torch.zeros(2, 3, 32, 32),))
print([tuple(s) for s in shapes], len(exported.graph.nodes) > 50)
"""
    assert answer(program) == "[(2, 10), (2, 10)] True"


LOWER = """
import torch
from torch_tpu._internal import export
class Tiny(torch.nn.Module):
    def forward(self, x):
        return (x @ x).relu()
exported = torch.export.export(Tiny(), (torch.zeros(4, 4),))
text = str(export.exported_to_mlir(exported))
print("stablehlo" in text)
"""


def test_lowering_to_stablehlo_is_tried_and_what_it_does_without_a_chip_is_known() -> None:
    """`exported_to_mlir` is private. Where it works without a chip it must give StableHLO; where it does not,
    the test is skipped with the reason that the package gave."""
    done = run(LOWER)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it aborted"])[-1]
        pytest.skip(f"lowering without a chip: exit {done.returncode}: {reason[:200]}")
    assert done.stdout.strip().splitlines()[-1] == "True"


@pytest.mark.parametrize("what", [*NEEDS_A_CHIP, *NOT_OFFERED])
def test_the_document_names_what_needs_a_chip_and_what_is_not_offered(what: str) -> None:
    assert what in " ".join((ROOT / "docs" / "runtime.md").read_text().split())


def without_a_device(torch: Any = None) -> TorchTpuBackend:
    """The backend, not initialised, which needs a chip; `torch` stands in for PyTorch."""

    class OfTheTest(TorchTpuBackend):
        @property
        def torch(self) -> Any:
            return torch

    return object.__new__(OfTheTest)


def test_profiles_are_refused_in_words() -> None:
    for call in (lambda backend: backend.start_trace("traces"), lambda backend: backend.stop_trace()):
        with pytest.raises(DeviceRuntimeError) as refused:
            call(without_a_device())
        assert refused.value.code == "unsupported"


def test_a_release_that_does_not_count_compilations_is_an_error_and_not_none_compiled() -> None:
    with pytest.raises(DeviceRuntimeError, match="does not count compilations") as refused:
        without_a_device(SimpleNamespace(tpu=SimpleNamespace())).compilations()
    assert refused.value.code == "unsupported"
    counts = SimpleNamespace(tpu=SimpleNamespace(_get_cache_misses=lambda: 3))
    assert without_a_device(counts).compilations().count == 3


@pytest.mark.skipif(count_chips() > 0, reason="this machine has chips: the contract suite runs on them")
def test_the_contract_suite_has_this_backend_and_says_why_it_does_not_run() -> None:
    """Each test of it, by name: none is left out and none runs on something else instead."""
    suite = ROOT / "recipes" / "tests" / "runtime" / "test_contract.py"
    config = ROOT / "recipes" / "pyproject.toml"
    options = ["-c", str(config), "-v", "-rs", "-k", "torch_tpu"]
    command = [sys.executable, "-m", "pytest", *options, str(suite)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert "torch_tpu needs a TPU, and this machine shows no chip" in done.stdout, done.stdout[-2000:]
    outcomes = [line for line in done.stdout.splitlines() if "[torch_tpu" in line]
    assert len(outcomes) > 20
    assert [line for line in outcomes if "SKIPPED" not in line] == []


@pytest.mark.parametrize("what", NEEDS_A_CHIP if count_chips() == 0 else ())
def test_needs_a_chip(what: str) -> None:
    pytest.skip(f"{what}: only a machine with a TPU can show that it works")
