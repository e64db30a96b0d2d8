"""Two processes of four devices each, as two hosts of a slice: the same result as one process with eight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from ddpm.tiny import SHALLOW, TRAINING, flags, shallow_config, speaking_network
from reserved_port import reserved_port
from tpulab_recipes.common.log_writers import read_json_lines
from tpulab_recipes.ddpm.__main__ import main
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.training.checkpoint import CheckpointFolder
from tpulab_recipes.ddpm.training.hosts import dealt_out
from tpulab_recipes.ddpm.training.train_step import state_of
from tpulab_recipes.runtime import selection
from tpulab_recipes.runtime.jax_mesh import make_mesh

#: Both hosts compile, on a machine that may be busy. Reached only when one waits for the other for ever.
DEADLINE_S = 900
HOST = Path(__file__).with_name("one_host.py")


def _together(hosts: list[list[str]]) -> list[str]:
    """Runs Python with these arguments, one process for each host. Returns what each has said."""
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(8 // len(hosts)), "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (HOST.parents[1], HOST.parents[2] / "src")))
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for arguments in hosts
    ]
    said = []
    try:
        for process in processes:
            output, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, output
            said.append(output)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return said


def _run(folder: Path, processes: int) -> dict[str, np.ndarray]:
    with reserved_port() as port:
        _together([[str(HOST), str(folder), str(one), str(processes), str(port)] for one in range(processes)])
    with np.load(folder / f"result-{processes}.npz") as archive:
        return dict(archive)


def _command_on_two_hosts(*arguments: str) -> list[str]:
    with reserved_port() as port:
        slice_flags = ["--coordinator", f"127.0.0.1:{port}", "--num_processes", "2"]
        command = ["-m", "tpulab_recipes.ddpm", *arguments, *slice_flags]
        said = _together([[*command, "--process_id", str(one)] for one in range(2)])
    # The commands end with a line of JSON, which one of the hosts says for all.
    assert [output.count("\n{") + output.startswith("{") for output in said] == [1, 0]
    return said


def test_two_hosts_train_as_one_does_and_share_a_checkpoint(tmp_path: Path) -> None:
    alone, together = _run(tmp_path, 1), _run(tmp_path, 2)
    assert together.pop("checks") == 0, "a step waits until all hosts have compared a value"
    del alone["checks"]
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Checkpoints of a network that says something."""
    folder, config = str(tmp_path_factory.mktemp("teacher")), shallow_config()
    with CheckpointFolder(folder) as checkpoints:
        checkpoints.save(state_of(Network(config), speaking_network(config)), config)
    return folder


def test_the_evaluator_runs_inside_a_training_of_two_hosts(tmp_path: Path) -> None:
    rows = {}
    for hosts in (1, 2):
        run = tmp_path / str(hosts)
        settings = {"train.batch_size": 8 // hosts, "train.snapshot_freq": 2}
        settings["model.eval_sampling_num_steps"] = 2
        command = ["train", *flags(SHALLOW | TRAINING | settings), "--global_dir", str(run)]
        command += ["--steps", "2", "--quiet"]
        if hosts == 1:
            assert main(command) == 0
        else:
            _command_on_two_hosts(*command)
        (rows[hosts],) = [row for row in read_json_lines(str(run / "logs")) if "frechet" in row]
        assert (run / "logs" / "samples_0000002.png").read_bytes().startswith(b"\x89PNG")
    assert rows[2]["frechet"] == pytest.approx(rows[1]["frechet"], rel=0.01)


def test_two_hosts_sample_the_images_that_one_does(teacher: str, tmp_path: Path) -> None:
    """Three batches: in the last turn the second host has nothing to do, and the last batch is not full."""
    prompts = "a large red circle; a small blue cross; a large green square; a small red cross; nothing"
    found = {}
    for hosts in (1, 2):
        out = tmp_path / str(hosts)
        command = ["evaluate", "--checkpoint_dir", teacher, "--save_dir", str(out), "--prompt", prompts]
        command += ["--max_batch_size", "2", "--num_steps", "2", "--npz", "--quiet"]
        if hosts == 1:
            assert main(command) == 0
        else:
            _command_on_two_hosts(*command)
        with np.load(out / "images.npz") as archive:
            found[hosts] = dict(archive)
        assert len(list(out.glob("image_*.png"))) == 5
    assert found[1]["images"].shape == (5, 16, 16, 3)
    assert np.ptp(found[1]["latents"], axis=0).max() > 0.1
    for name in ("latents", "images"):
        np.testing.assert_allclose(found[2][name], found[1][name], atol=1e-4, err_msg=name)


def test_two_hosts_distil_as_one_does(teacher: str, tmp_path: Path) -> None:
    """Two halvings: the student of the first is the teacher of the second."""
    students: dict[int, Any] = {}
    for hosts in (1, 2):
        out = tmp_path / str(hosts)
        settings = {"distill.start_num_steps": 4, "distill.end_num_steps": 1, "distill.steps_per_halving": 2}
        settings["train.batch_size"] = 8 // hosts
        command = ["distill", "--checkpoint_dir", teacher, "--write_dir", str(out), *flags(settings)]
        command += ["--guidance_scale", "1.5", "--quiet"]
        if hosts == 1:
            assert main(command) == 0
        else:
            _command_on_two_hosts(*command)
        with CheckpointFolder(str(out)) as folder:
            assert folder.steps() == [1, 2]
            assert folder.about(2)["sampling_steps"] == 1
            state = folder.load(Network(shallow_config()), make_mesh())
            students[hosts] = folder.about(2)["loss"], jax.tree.map(np.asarray, state.ema)
    (loss_alone, alone), (loss_together, together) = students[1], students[2]
    assert loss_together == pytest.approx(loss_alone, rel=1e-3)

    def mean_difference(one: Any, other: Any) -> float:
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        return float(np.mean(np.concatenate([np.abs(a - b).ravel() for a, b in pairs])))

    # Adam makes a whole step of a gradient that is nearly nothing, and rounding decides its sign: few weights
    # may differ.
    moved = mean_difference(alone, speaking_network(shallow_config()))
    assert moved > 1e-4
    assert mean_difference(alone, together) < 0.02 * moved


def test_a_command_refuses_a_platform_that_is_not_there(
    teacher: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a process of its own: another test may have chosen the CPU in this one.
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
    assert "A TPU was asked for" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_one_host_makes_all_batches_in_order() -> None:
    asked = []

    def make(first: int, last: int) -> tuple[np.ndarray]:
        asked.append((first, last))
        return (np.arange(first, last),)

    pieces = [piece for (piece,) in dealt_out(7, 3, make)]
    assert asked == [(0, 3), (3, 6), (6, 7)]
    np.testing.assert_array_equal(np.concatenate(pieces), np.arange(7))
