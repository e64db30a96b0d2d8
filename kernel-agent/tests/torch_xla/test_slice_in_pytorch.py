"""Two hosts of a slice in PyTorch, as processes over gloo, through the seam of the recipes."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slice_process import SliceProcess

SAME = ["host 1: same as host 0"]
#: Three steps of linear regression, each host with half of the rows; prints the learned values.
TRAINING = """
import json, numpy as np
rows = np.random.default_rng(0).normal(size=(8, 5)).astype("float32")
torch.manual_seed(backend.world().process_index)
model = backend.prepare(torch.nn.Linear(5, 1, bias=False))
with torch.no_grad():
    model.weight.zero_()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    batch = backend.shard_batch(backend.own_rows(rows))
    loss = ((model(batch)[:, 0] - 1.0) ** 2).mean()
    loss.backward()
    backend.optimizer_step(optimizer)
    optimizer.zero_grad()
print(json.dumps([model.weight[0].tolist(), backend.reduce_metrics({"loss": loss})["loss"]]))
"""


def by_numpy() -> tuple[list[float], float]:
    """The same in closed form, with all rows."""
    rows = np.random.default_rng(0).normal(size=(8, 5)).astype("float32").astype(np.float64)
    weights, loss = np.zeros(5), 0.0
    for _ in range(3):
        apart = rows @ weights - 1.0
        weights, loss = weights - 0.1 * 2 * (apart[:, None] * rows).mean(axis=0), float((apart**2).mean())
    return weights.tolist(), loss


@pytest.fixture(scope="module")
def kernel() -> Iterator[SliceProcess]:
    with (
        tempfile.TemporaryDirectory(prefix="tl-") as folder,
        SliceProcess(Path(folder), 2, framework="torch") as process,
    ):
        begun = process.cell("import torch\nfrom tpulab_recipes import runtime\nbackend = runtime.use()")
        assert begun.reply["status"] == "ok", process.log_text()
        yield process


def test_the_hosts_have_joined_before_the_first_cell(kernel: SliceProcess) -> None:
    answer = kernel.cell(
        "all_of = torch.ones(2) + torch.distributed.get_rank()\n"
        "torch.distributed.all_reduce(all_of)\n"
        "print(all_of.tolist(), backend.name, backend.world().process_count)"
    )
    assert answer.text() == "[3.0, 3.0] cpu 2\n"
    assert answer.folds == SAME


def test_a_training_on_the_rows_of_both_matches_one_process(kernel: SliceProcess) -> None:
    answer = kernel.cell(TRAINING)
    weights, loss = json.loads(answer.text())
    expected = by_numpy()
    assert weights == pytest.approx(expected[0], abs=1e-6)
    assert loss == pytest.approx(expected[1], abs=1e-6)
    assert answer.folds == SAME


def test_a_checkpoint_that_one_host_has_is_loaded_by_all(kernel: SliceProcess, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    saved = kernel.cell(
        "from tpulab_recipes.torch_training import load_checkpoint, save_checkpoint\n"
        f"own = backend.own_folder({folder!r})\n"
        "save_checkpoint(backend, own, 7, {'weight': model.weight.detach(), 'rate': 0.5})\n"
        "step, state = load_checkpoint(own, backend)\n"
        "print(step, torch.equal(state['weight'], model.weight), state['rate'])"
    )
    assert saved.text() == "7 True 0.5\n"
    assert saved.folds == SAME
    # Host 1 does not even have the folder.
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["step-00000007.pt"]
    (tmp_path / "run" / "step-00000007.pt").write_bytes(b"torn")
    torn = kernel.cell("load_checkpoint(own, backend)")
    assert torn.reply["ename"] == "CheckpointError"
    assert torn.traceback.startswith("host 0\n")
    assert "\nhost 1\n" in torn.traceback


def test_torch_xla_is_refused_where_each_host_would_train_for_itself(kernel: SliceProcess) -> None:
    refused = kernel.cell("runtime.selection.make('torch_xla', 'cpu')")
    assert refused.reply["ename"] == "DeviceRuntimeError"
    assert 'this kernel has 2; use the backend "cpu"' in refused.reply["evalue"]
    alone = kernel.cell(
        "from tpulab_recipes.runtime.torch_xla import _check_group\n_check_group('tpu', False)"
    )
    assert "spmd=True" in alone.reply["evalue"]
    assert kernel.cell("_check_group('tpu', True)").reply["status"] == "ok"


def test_a_host_that_dies_at_a_collective_is_named_and_the_cell_ends(kernel: SliceProcess) -> None:
    pids = kernel.host_pids()
    request = kernel.start(
        "print('begun', flush=True)\nif backend.world().is_main: torch.distributed.barrier()\n"
        "import time\nwhile True: time.sleep(0.1)"
    )
    kernel.wait_for_text(request, "begun")
    os.kill(pids[1], signal.SIGKILL)
    answer = kernel.answer(request)
    assert answer.reply["ename"] == "HostLostError"
    assert answer.reply["evalue"].startswith("Host 1 is lost: ")
