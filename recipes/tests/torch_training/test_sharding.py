"""Parameters, gradients and moments in slices: the update of one device, and whole checkpoints out of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402
from reserved_port import reserved_port  # noqa: E402
from tpulab_recipes.runtime import DeviceRuntimeError  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402
from tpulab_recipes.runtime.torch_slices import sharded_axis  # noqa: E402
from tpulab_recipes.runtime.torch_tpu import TorchTpuBackend  # noqa: E402
from tpulab_recipes.runtime.torch_xla import TorchXlaBackend  # noqa: E402

#: The mode is chosen once in a process, so each has separate ones: 8 devices of XLA:CPU in one program, two
#: processes of plain PyTorch, or one process without slices.
PROGRAM = """
import json, sys
from dataclasses import dataclass
from pathlib import Path
import numpy as np
import torch
from tpulab_recipes import runtime
from tpulab_recipes.torch_training import *
folder, how = Path(sys.argv[1]), sys.argv[2]
sharded = how != "whole"
backend = runtime.use("torch_xla", platform="cpu", spmd=True) if how == "sharded" else runtime.use("cpu")

@dataclass(frozen=True)
class Settings:
    seed: int = 0

def loop():
    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 3)
    model = backend.prepare(torch.nn.Sequential(*layers), shard=sharded)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    use_tensor_learning_rate(backend, optimizer)
    create_optimizer_state(optimizer)
    backend.shard_optimizer(optimizer)
    backend.sync()
    return model, optimizer

def train(model, optimizer, first, steps):
    losses = []
    for number in range(first, first + steps):
        rows = np.random.default_rng(number).standard_normal((32, 16)).astype(np.float32)
        batch = backend.shard_batch(backend.own_rows({"x": rows}))
        with backend.step():
            with backend.precision("float32"):
                loss = model(batch["x"]).square().mean()
            loss.backward()
            backend.optimizer_step(optimizer)
            optimizer.zero_grad(set_to_none=True)
        losses.append(backend.reduce_metrics({"loss": loss.detach()})["loss"])
    return losses

model, optimizer = loop()
losses = train(model, optimizer, 0, 3)
before = backend.compilations().count
state = snapshot(backend, model=model, optimizer=optimizer, step=3, config=Settings())
save_checkpoint(backend, folder / sys.argv[2], 3, state)
expected = train(model, optimizer, 3, 3)
other_model, other = loop()
found = load_checkpoint(folder / sys.argv[2])[1]
at = restore(backend, found, model=other_model, optimizer=other, config=Settings())
resumed = train(other_model, other, at, 3)
held = {}
if sharded:
    for name, parameter in other_model.named_parameters():
        moment = other.state[parameter]["exp_avg"]
        held[name] = [[list(piece.shape) for piece in backend.shards(one)] for one in (parameter, moment)]
weights = {name: value.numpy().tolist() for name, value in backend.to_host(model.state_dict()).items()}
if backend.world().is_main:
    print(json.dumps({"losses": losses + expected, "resumed": resumed, "held": held, "weights": weights}))
"""


def _run(folder: Path, how: str, processes: int = 1) -> dict:
    """The output of the first process."""
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"}
    environment |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "8"}
    with reserved_port() as port:
        if processes > 1:
            environment |= {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "WORLD_SIZE": str(processes),
            }
        started = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(folder), how],
                env=os.environ | environment | {"RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(processes)
        ]
        try:
            output = [each.communicate(timeout=600) for each in started]
        finally:
            for each in started:
                each.kill()
                each.wait()
    for each, (_, errors) in zip(started, output, strict=True):
        assert each.returncode == 0, errors[-3000:]
    return json.loads(output[0][0].splitlines()[-1])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The folder of a training without slices, and its output."""
    folder = tmp_path_factory.mktemp("alone")
    return folder / "whole", _run(folder, "whole")


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_a_training_in_slices_equals_the_training_of_one_device(
    alone: tuple[Path, dict], tmp_path: Path
) -> None:
    sharded, (folder, whole) = _run(tmp_path, "sharded"), alone
    np.testing.assert_allclose(sharded["losses"], whole["losses"], rtol=1e-5)
    for name, value in whole["weights"].items():
        np.testing.assert_allclose(sharded["weights"][name], value, atol=1e-5, err_msg=name)
    # Each of eight devices has an eighth of what divides, of the moments too, also after a checkpoint.
    assert sharded["held"]["0.weight"] == [[[8, 16]] * 8] * 2
    assert sharded["held"]["3.weight"] == [[[3, 8]] * 8] * 2
    assert sharded["held"]["3.bias"] == [[[3]] * 8] * 2
    assert sharded["resumed"] == sharded["losses"][3:]
    # A checkpoint out of it is whole, and loads where nothing is sliced.
    states = [
        torch.load(place / "step-00000003.pt", weights_only=True) for place in (tmp_path / "sharded", folder)
    ]
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 3)
    )
    model.load_state_dict(states[0]["model"])
    for name, value in states[1]["model"].items():
        np.testing.assert_allclose(states[0]["model"][name].numpy(), value.numpy(), atol=1e-5)


@pytest.mark.long
def test_two_processes_with_slices_train_as_one_with_all(alone: tuple[Path, dict], tmp_path: Path) -> None:
    """torch_tpu uses the same code, but needs a chip for each process."""
    sharded, (folder, whole) = _run(tmp_path, "processes", 2), alone
    np.testing.assert_allclose(sharded["losses"], whole["losses"], rtol=1e-5)
    for name, value in whole["weights"].items():
        np.testing.assert_allclose(sharded["weights"][name], value, atol=1e-5, err_msg=name)
    # Half of the rows, of the moments too, also after a checkpoint; of three rows two.
    assert sharded["held"]["0.weight"] == [[[32, 16]]] * 2
    assert sharded["held"]["3.weight"] == [[[2, 64]]] * 2
    assert sharded["resumed"] == sharded["losses"][3:]
    states = [
        torch.load(place / "step-00000003.pt", weights_only=True)
        for place in (tmp_path / "processes", folder)
    ]
    for name, value in states[1]["model"].items():
        np.testing.assert_allclose(states[0]["model"][name].numpy(), value.numpy(), atol=1e-5)


def test_a_single_process_has_nothing_to_slice_over_and_is_warned() -> None:
    # torch_tpu's backend cannot be made without a chip, but this refusal needs none.
    for backend in (make("cpu", None), object.__new__(TorchTpuBackend)):
        with pytest.raises(
            DeviceRuntimeError, match=rf'"{backend.name}".*alone; start one.*runtime\.torch_launch'
        ) as refused:
            backend.prepare(torch.nn.Linear(8, 8), shard=True)
        assert refused.value.code == "unsupported"


@pytest.mark.parametrize(
    ("named", "chip"), [("v4-8", "v4"), ("v5litepod-8", "v5e"), ("v5p-8", "v5p"), ("v6e-4", "v6e")]
)
def test_the_chip_that_torch_xla_names_is_known(
    monkeypatch: pytest.MonkeyPatch, named: str, chip: str
) -> None:
    tpu = pytest.importorskip("torch_xla._internal.tpu")
    monkeypatch.setattr(tpu, "get_tpu_env", lambda: {"ACCELERATOR_TYPE": named})
    assert TorchXlaBackend._chip_type() == chip


def test_the_longest_axis_that_divides_is_sliced() -> None:
    assert [sharded_axis(shape, 8) for shape in ((64, 16), (3, 64), (3,), (), (6, 4))] == [
        0,
        1,
        None,
        None,
        None,
    ]
