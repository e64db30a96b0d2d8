"""Two processes of four devices each, as two hosts of a slice: the same result as one process with eight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from ddpm.one_host import work
from ddpm.tiny import nonzero_network, shallow_config
from reserved_port import reserved_port
from tpulab_recipes.common.log_writers import read_json_lines
from tpulab_recipes.ddpm.__main__ import main
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.training.checkpoint import CheckpointFolder
from tpulab_recipes.ddpm.training.train_step import state_of
from tpulab_recipes.runtime import selection
from tpulab_recipes.runtime.jax_hosts import batches_over_hosts
from tpulab_recipes.runtime.jax_mesh import make_mesh

#: Both hosts compile, on a machine that may be busy. Reached only when one host waits for the other for ever.
DEADLINE_S = 900
HOST = Path(__file__).with_name("one_host.py")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Checkpoints of a network whose predictions are not zero."""
    folder, config = str(tmp_path_factory.mktemp("teacher")), shallow_config()
    with CheckpointFolder(folder) as checkpoints:
        checkpoints.save(state_of(Network(config), nonzero_network(config)), config)
    return folder


@pytest.fixture(scope="module")
def together(teacher: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two hosts of four devices made."""
    folder = tmp_path_factory.mktemp("together")
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (HOST.parents[1], HOST.parents[2] / "src")))
    with reserved_port() as port:
        hosts = [
            subprocess.Popen(
                [sys.executable, str(HOST), str(folder), teacher, str(number), "2", str(port)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number in range(2)
        ]
        try:
            printed = [host.communicate(timeout=DEADLINE_S)[0] for host in hosts]
        finally:
            for host in hosts:
                host.kill()
                host.wait()
    for host, output in zip(hosts, printed, strict=True):
        assert host.returncode == 0, output
    # Each of three commands ends with a line of JSON, which one of the hosts prints for all.
    assert [sum(line.startswith("{") for line in output.splitlines()) for output in printed] == [3, 0]
    return folder


@pytest.fixture(scope="module")
def alone(teacher: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one host of eight devices made."""
    folder = tmp_path_factory.mktemp("alone")
    work(folder, teacher, 1, [])
    return folder


@pytest.mark.long
def test_two_hosts_train_like_one_and_share_a_checkpoint(alone: Path, together: Path) -> None:
    assert json.loads((together / "checks.json").read_text()) == 0, (
        "a step waits until all hosts have compared a value"
    )
    (mine,), (ours,) = (
        [row["loss"] for row in read_json_lines(str(folder / "run" / "logs")) if "loss" in row]
        for folder in (alone, together)
    )
    assert ours == pytest.approx(mine, abs=1e-5)
    with np.load(alone / "moments.npz") as one, np.load(together / "moments.npz") as other:
        assert set(one.files) == set(other.files)
        for name in one.files:
            np.testing.assert_allclose(other[name], one[name], atol=1e-5, err_msg=name)


@pytest.mark.long
def test_the_evaluator_runs_inside_a_training_of_two_hosts(alone: Path, together: Path) -> None:
    found = []
    for folder in (alone, together):
        logs = folder / "run" / "logs"
        found += [row["frechet"] for row in read_json_lines(str(logs)) if "frechet" in row]
        assert (logs / "samples_0000002.png").read_bytes().startswith(b"\x89PNG")
    mine, ours = found
    assert ours == pytest.approx(mine, rel=0.01)


@pytest.mark.long
def test_two_hosts_sample_the_same_images_as_one(alone: Path, together: Path) -> None:
    found = []
    for folder in (alone, together):
        with np.load(folder / "pictures" / "images.npz") as archive:
            found.append(dict(archive))
        assert len(list((folder / "pictures").glob("image_*.png"))) == 5
    mine, ours = found
    assert mine["images"].shape == (5, 16, 16, 3)
    assert np.ptp(mine["latents"], axis=0).max() > 0.1
    for name in ("latents", "images"):
        np.testing.assert_allclose(ours[name], mine[name], atol=1e-4, err_msg=name)


@pytest.mark.long
def test_two_hosts_distil_like_one(alone: Path, together: Path) -> None:
    students: list[tuple[float, Any]] = []
    for place in (alone, together):
        with CheckpointFolder(str(place / "students")) as folder:
            assert folder.steps() == [1, 2]
            assert folder.about(2)["sampling_steps"] == 1
            state = folder.load(Network(shallow_config()), make_mesh())
            students.append((folder.about(2)["loss"], jax.tree.map(np.asarray, state.ema)))
    (loss_alone, mine), (loss_together, ours) = students
    assert loss_together == pytest.approx(loss_alone, rel=1e-3)

    def mean_difference(one: Any, other: Any) -> float:
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        return float(np.mean(np.concatenate([np.abs(a - b).ravel() for a, b in pairs])))

    # Adam makes a whole step of a gradient that is nearly nothing, and rounding decides its sign: few weights
    # may differ.
    moved = mean_difference(mine, nonzero_network(shallow_config()))
    assert moved > 1e-4
    assert mean_difference(mine, ours) < 0.02 * moved


def test_a_command_refuses_a_missing_platform(
    teacher: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a separate process: another test may have chosen the CPU in this one.
    monkeypatch.setattr(selection, "_current", None)
    command = [
        "evaluate",
        "--checkpoint_dir",
        teacher,
        "--save_dir",
        str(tmp_path),
        "--prompt",
        "a red circle",
    ]
    assert main([*command, "--platform", "tpu"]) == 1
    assert "A TPU was requested" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_one_host_makes_all_batches_in_order() -> None:
    requested = []

    def make(first: int, last: int) -> tuple[np.ndarray]:
        requested.append((first, last))
        return (np.arange(first, last),)

    pieces = [piece for (piece,) in batches_over_hosts(7, 3, make)]
    assert requested == [(0, 3), (3, 6), (6, 7)]
    np.testing.assert_array_equal(np.concatenate(pieces), np.arange(7))
