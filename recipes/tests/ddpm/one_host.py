"""One host of `test_hosts`: trains, samples and distils through the commands, one after the other.

`python one_host.py FOLDER TEACHER PROCESS PROCESSES PORT`, with the folder of the tests on PYTHONPATH.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
from ddpm.tiny import SHALLOW, TRAINING, flags, shallow_config
from jax.experimental import multihost_utils
from tpulab_recipes.ddpm.__main__ import main
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.training.checkpoint import CheckpointFolder
from tpulab_recipes.ddpm.training.trainer import Trainer
from tpulab_recipes.runtime.jax_mesh import make_mesh, whole_state

PROMPTS = "a large red circle; a small blue cross; a large green square; a small red cross; nothing"


def run(*arguments: str) -> None:
    assert main([*arguments, "--quiet"]) == 0, arguments


def work(folder: Path, teacher: str, processes: int, joining: list[str]) -> None:
    """All that the hosts do, in `folder`. The first command makes them find each other."""
    # The batch of a host; together they see the same images as one host with all of them. One host runs the
    # program of the other tests, which is compiled once for all.
    batch = {"train.batch_size": 8 // processes}
    training = SHALLOW | TRAINING | batch | {"train.save_freq": 2, "train.snapshot_freq": 2}
    training["model.eval_sampling_num_steps"] = 2
    with counted_checks() as checks:
        run("train", *flags(training), "--global_dir", str(folder / "run"), "--steps", "2", *joining)
    assert dict(make_mesh().shape) == {"host": processes, "shard": 8 // processes}
    loaded = ["--checkpoint_dir", teacher]
    # Three batches: in the last turn the second host has nothing to do, and the last batch is not full.
    sample = ["--save_dir", str(folder / "pictures"), "--prompt", PROMPTS, "--max_batch_size", "2"]
    run("evaluate", *loaded, *sample, "--num_steps", "2", "--npz")
    # Two halvings: the student of the first is the teacher of the second.
    halvings = {"distill.start_num_steps": 4, "distill.end_num_steps": 1, "distill.steps_per_halving": 2}
    students = ["--write_dir", str(folder / "students"), *flags(halvings | batch)]
    run("distill", *loaded, *students, "--guidance_scale", "1.5")
    with CheckpointFolder(str(folder / "run" / "checkpoints_recent")) as saved:
        moments = whole_state(saved.load(Network(shallow_config()), make_mesh()).opt_state[0].mu)
    if jax.process_index() == 0:
        leaves = jax.tree_util.tree_leaves_with_path(moments)
        np.savez(folder / "moments.npz", **{jax.tree_util.keystr(path): leaf for path, leaf in leaves})
        (folder / "checks.json").write_text(json.dumps(len(checks)))


@contextmanager
def counted_checks() -> Iterator[list[Any]]:
    """Counts JAX's own checks that a value is alike on all hosts, gathers that the host waits for, in the
    steps of a training. orbax and the evaluator wait for all hosts by the same means, at times of their
    own."""
    checks: list[Any] = []
    check = multihost_utils.assert_equal

    def counted(*arguments: Any, **more: Any) -> None:
        checks.append(arguments)
        check(*arguments, **more)

    def using(inside: Any, name: str, after: Any) -> Any:
        call = getattr(Trainer, name)

        def called(*arguments: Any, **more: Any) -> Any:
            multihost_utils.assert_equal = inside
            try:
                return call(*arguments, **more)
            finally:
                multihost_utils.assert_equal = after

        return mock.patch.object(Trainer, name, called)

    with (
        using(counted, "train", check),
        using(check, "_keep", counted),
        using(check, "run_evaluation", counted),
    ):
        yield checks


if __name__ == "__main__":
    place, taught, process, count, port = sys.argv[1:]
    slice_flags = ["--coordinator", f"127.0.0.1:{port}", "--num_processes", count, "--process_id", process]
    work(Path(place), taught, int(count), slice_flags)
