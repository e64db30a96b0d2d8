"""One host of `test_hosts`: trains two steps with its half of each batch, and saves and loads a checkpoint.

`python one_host.py FOLDER PROCESS PROCESSES PORT`, with the folder of the tests on PYTHONPATH.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ddpm.tiny import shallow_config
from jax.experimental import multihost_utils
from tpulab_recipes.ddpm.data.pipeline import ShapesSource
from tpulab_recipes.ddpm.training.trainer import Trainer
from tpulab_recipes.runtime.jax_mesh import make_mesh, replicated


def main(folder: Path, process: int, processes: int, port: int) -> None:
    if processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", processes, process)
    config = shallow_config()
    # The batch of a host; together they see the same images as one host with all of them. One host runs the
    # program of the other tests, which is compiled once for all.
    config = replace(config, train=replace(config.train, batch_size=8 // processes, save_freq=(2,)))
    mesh = make_mesh()
    assert dict(mesh.shape) == {"host": processes, "shard": 8 // processes}
    source = ShapesSource(config, count=64, process=process, processes=processes)
    place = folder / f"run-{processes}"
    # JAX's own check that a value is alike on all hosts: a gather that the host waits for.
    checks: list[Any] = []
    check = multihost_utils.assert_equal
    with Trainer(config, source, mesh=mesh, global_dir=str(place)) as trainer:
        save = trainer._keep

        def without_checks(*arguments: Any, **more: Any) -> None:
            # orbax waits for all hosts by the same means.
            multihost_utils.assert_equal = check
            save(*arguments, **more)
            multihost_utils.assert_equal = counted

        def counted(*arguments: Any, **more: Any) -> None:
            checks.append(arguments)
            check(*arguments, **more)

        multihost_utils.assert_equal, trainer._keep = counted, without_checks
        trainer.train(2)
        multihost_utils.assert_equal = check
        loss = trainer.history[-1].loss
        state = trainer.folders[0].load(trainer.network, mesh)
    whole = jax.jit(lambda tree: tree, out_shardings=replicated(mesh))(state.opt_state[0].mu)
    if process == 0:
        leaves = jax.tree_util.tree_leaves_with_path(whole)
        arrays = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
        np.savez(folder / f"result-{processes}.npz", loss=loss, checks=len(checks), **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
