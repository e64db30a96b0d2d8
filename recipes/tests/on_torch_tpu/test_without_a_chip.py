"""torch_tpu without a TPU: its device is registered, and everything that the backend calls is called.

Calls that get as far as the chip may abort the process, so everything here runs in separate processes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tpulab_recipes.runtime.chips import count_chips
from tpulab_recipes.runtime.errors import DeviceRuntimeError
from tpulab_recipes.runtime.torch_tpu import PRIVATE, TorchTpuBackend

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_tpu") is None, reason="torch_tpu is not installed in this environment"
)


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "recipes/tests")}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


def answer(program: str) -> str:
    done = run(program)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def test_without_the_automatic_load_the_seam_states_which_variable_is_in_the_way() -> None:
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


#: Registers the device, which needs no chip, and then calls everything of the backend, each call in a child
#: of its own: some of them end the process when they get as far as the chip.
CALLS = """
import importlib, json, os, sys, tempfile, warnings
from unittest.mock import MagicMock
warnings.simplefilter("ignore")
os.environ.update(TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1", JAX_PLATFORMS="cpu")
import torch
from torch_tpu import _loader
_loader._init_device("tpu")
from tpulab_recipes.runtime import torch_tpu
torch_tpu.count_chips = lambda: 1
def precision(backend, name):
    with backend.precision(name):
        pass

def step(backend):
    with backend.step():
        pass

def profile(backend):
    folder = tempfile.mkdtemp()
    backend.start_trace(folder)
    (torch.ones(64, 64) @ torch.ones(64, 64)).sum()
    backend.stop_trace()
    from pathlib import Path
    [file] = Path(folder).glob("plugins/profile/*/*.xplane.pb")
    from jax.profiler import ProfileData
    return [plane.name for plane in ProfileData.from_file(str(file)).planes]

calls = lambda backend: {
    "describe": backend.describe,
    "device": lambda: str(backend.device()),
    "devices": lambda: [(one.id, one.platform) for one in backend.devices()],
    "world": backend.world,
    "step": lambda: step(backend),
    "sync": backend.sync,
    "compile": lambda: backend.compile(lambda x: x * 2, name="doubled")(torch.ones(2)),
    "mesh": backend.mesh,
    "shard_batch": lambda: backend.shard_batch(torch.ones(2)),
    "replicate": lambda: backend.replicate(torch.ones(2)),
    "to_device": lambda: backend.to_device(torch.ones(2)),
    "to_host": lambda: backend.to_host(torch.ones(2)),
    "prepare": lambda: backend.prepare(torch.nn.Linear(2, 2)),
    "memory": backend.memory,
    "peak_memory_bytes": backend.peak_memory_bytes,
    "compilations": lambda: [backend.compilations().count, backend.compilations().seconds],
    "profile": lambda: profile(backend),
    "stop_trace without one": backend.stop_trace,
    "seed": lambda: backend.seed(3),
    "device_random_state": backend.device_random_state,
    "set_device_random_state": lambda: backend.set_device_random_state(torch.zeros(16, dtype=torch.uint8)),
    "precision float32": lambda: precision(backend, "float32"),
    "precision bfloat16": lambda: precision(backend, "bfloat16"),
}
# For the tests: each of the backend's own methods is called here.
methods = {name for name, value in vars(torch_tpu.TorchTpuBackend).items() if callable(value)}
def is_there(path):
    owner, _, name = path.rpartition(".")
    owner = torch.tpu if owner == "torch.tpu" else importlib.import_module(owner)
    return callable(getattr(owner, name, None))

outcomes = {
    "torch": torch.__version__,
    "methods": sorted(methods),
    "private": {path: is_there(path) for path in torch_tpu.PRIVATE},
    "precision": torch.tpu.Precision.HIGHEST.name,
    "backends": torch._dynamo.list_backends(exclude_tags=None),
}
# The backend is made in the child: the device does not survive a fork once it has been asked for anything.
for name in calls(MagicMock()):
    log, (reader, writer) = tempfile.TemporaryFile(), os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(log.fileno(), 2)
        try:
            outcome = ["answered", repr(calls(torch_tpu.TorchTpuBackend())[name]())]
        except BaseException as error:
            outcome = ["raised", f"{type(error).__name__}: {error}"]
        os.write(writer, json.dumps([outcome[0], outcome[1][:2000]]).encode())
        os._exit(0)
    os.close(writer)
    outcome = os.fdopen(reader).read()
    os.waitpid(child, 0)
    log.seek(0)
    outcomes[name] = json.loads(outcome) if outcome else ["ended", log.read().decode(errors="replace")]
print(json.dumps(outcomes), flush=True)
os._exit(0)
"""
#: What torch_tpu says when a call has come as far as the chip, which is not there.
NO_CHIP = "failed to retrieve the PjRt client"
WITHOUT_A_CHIP = {
    "describe": r"torch_tpu [0-9.]+ on TPU, one process for each of 1 devices",
    "device": r"tpu:0",
    "devices": r"\[\(0, 'tpu'\)\]",
    "world": r"World\(process_index=0, process_count=1, local_devices=1, global_devices=1, one_program=True.",
    "step": r"None",
    "to_host": r"tensor\(\[1., 1.\]\)",
    "memory": r"\[DeviceMemory\(device=0, used_bytes=0, peak_bytes=0, limit_bytes=None\)\]",
    "peak_memory_bytes": r"0",
    "compilations": r"\[0, (0|0.0)\]",
    "profile": r"\[.*/host:CPU.*\]",
    "seed": r"None",
    "precision float32": r"None",
    "precision bfloat16": r"None",
}
REFUSED = {
    "mesh": "DeviceRuntimeError: A process alone is one device",
    "stop_trace without one": "DeviceRuntimeError: No profile is being captured",
}
AT_THE_CHIP = (
    "sync",
    "compile",
    "shard_batch",
    "replicate",
    "to_device",
    "prepare",
    "device_random_state",
    "set_device_random_state",
)
without_chips = pytest.mark.skipif(
    count_chips() > 0, reason="this machine has chips: the contract suite runs"
)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """The outcome of each call: `answered`, `raised` or `ended` (the process), and its message."""
    found: dict[str, Any] = json.loads(answer(CALLS))
    return found


@without_chips
@pytest.mark.parametrize("call", WITHOUT_A_CHIP)
def test_calls_that_need_no_chip_answer(outcomes: dict[str, Any], call: str) -> None:
    how, output = outcomes[call]
    assert (how, bool(re.fullmatch(WITHOUT_A_CHIP[call], output.strip("'"), re.S))) == ("answered", True), (
        output
    )


@without_chips
@pytest.mark.parametrize("call", REFUSED)
def test_calls_that_one_process_does_not_support_are_refused_in_words(
    outcomes: dict[str, Any], call: str
) -> None:
    how, output = outcomes[call]
    assert (how, REFUSED[call] in output) == ("raised", True), output


@without_chips
@pytest.mark.parametrize("call", AT_THE_CHIP)
def test_calls_that_need_a_chip_get_as_far_as_the_chip(outcomes: dict[str, Any], call: str) -> None:
    """Not refused as "internal to TorchTPU", as `torch.tpu.synchronize` and seven more are."""
    how, output = outcomes[call]
    assert (how in ("raised", "ended"), NO_CHIP in output) == (True, True), output


@without_chips
def test_every_method_of_the_backend_is_called(outcomes: dict[str, Any]) -> None:
    called = {name.split()[0] for name in (*WITHOUT_A_CHIP, *REFUSED, *AT_THE_CHIP)}
    by_another_name = {"__init__", "join", "start_trace", "stop_trace", "_seed_device", "_exact_products"}
    assert set(outcomes["methods"]) - by_another_name <= called


@without_chips
@pytest.mark.parametrize("private", PRIVATE)
def test_private_parts_that_the_backend_uses_exist_and_can_be_called(
    outcomes: dict[str, Any], private: str
) -> None:
    """`compilations` and `profile` above call them for real. Here an upgrade is checked by their names."""
    assert outcomes["private"][private] is True


def test_processes_are_started_with_the_variables_that_torch_tpu_needs(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys\n"
        "where = os.environ.get('TORCH_TPU_SLICEBUILDER_ADDRESSES', '').split(',')\n"
        "open(f'{sys.argv[1]}/{os.environ[\"RANK\"]}', 'w').write(str(len(where)))\n"
    )
    program = f"""
import os
os.environ["TORCH_TPU_TOPOLOGY"] = "2,1,1"   # as an operator may set it; found by the chips otherwise
from tpulab_recipes.runtime import torch_launch
torch_launch.count_chips = lambda: 2
print(torch_launch.main(["--nproc-per-node", "2", {str(script)!r}, {str(tmp_path)!r}]))
"""
    assert answer(program) == "0"
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["2", "2"]


@without_chips
def test_a_launch_on_chips_that_cannot_be_found_is_reported() -> None:
    program = """
from tpulab_recipes.runtime import torch_launch
torch_launch.count_chips = lambda: 2
print(torch_launch.main(["--nproc-per-node", "2", "nothing.py"]))
"""
    done = run(program)
    assert done.stdout.strip().splitlines()[-1] == "2"
    assert "cannot be started on the chips of this machine" in done.stderr


def test_processes_started_without_these_variables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("TORCH_TPU_SLICEBUILDER_ADDRESSES", raising=False)
    with pytest.raises(DeviceRuntimeError, match=r"runtime\.torch_launch") as refused:
        without_a_device().join()
    assert refused.value.code == "unsupported"


def test_no_lock_allows_a_libtpu_version_that_torch_tpu_cannot_parse() -> None:
    """torch_tpu parses versions of two or three parts; four end `import torch` on a machine with chips."""
    for lock in ROOT.glob("environments/*/requirements*.lock"):
        text = lock.read_text()
        if re.search(r"^torch-tpu==", text, re.M):
            versions = re.findall(r"^libtpu==(\S+)", text, re.M)
            assert versions, lock
            assert [version for version in versions if version.count(".") > 2] == []


def test_the_compiler_is_registered_with_torch_compile(outcomes: dict[str, Any]) -> None:
    assert "tpu" in outcomes["backends"]
    assert outcomes["precision"] == "HIGHEST"


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


def test_the_recipes_trace_as_one_graph_with_this_torch() -> None:
    """The traced program is what a TPU compiles; code generation itself needs the chip."""
    program = """
import torch
from fits_xla import trace_full_graph
from tpulab_recipes.fashion_mnist.alexnet import AlexNet
from tpulab_recipes.resnet_profiling.resnet import ResNet18
shapes = [trace_full_graph(AlexNet(10, width=0.125).eval(), torch.zeros(2, 3, 64, 64)).shape,
          trace_full_graph(ResNet18(width=0.125).eval(), torch.zeros(2, 3, 32, 32)).shape]
exported = torch.export.export(ResNet18(width=0.125).eval(), (torch.zeros(2, 3, 32, 32),))
print([tuple(s) for s in shapes], len(exported.graph.nodes) > 50)
"""
    assert answer(program) == "[(2, 10), (2, 10)] True"


def without_a_device(torch: Any = None) -> TorchTpuBackend:
    """The backend, not initialised, which needs a chip; `torch` stands in for PyTorch."""

    class OfTheTest(TorchTpuBackend):
        @property
        def torch(self) -> Any:
            return torch

    return object.__new__(OfTheTest)


@pytest.mark.skipif(count_chips() > 0, reason="this machine has chips: the contract suite runs on them")
def test_the_contract_suite_has_this_backend_and_reports_why_it_does_not_run() -> None:
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
