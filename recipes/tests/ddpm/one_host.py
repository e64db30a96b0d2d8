"""One host of `test_hosts`: trains two steps with its half of each batch, and saves and loads a checkpoint.

`python one_host.py FOLDER PROCESS PROCESSES PORT`
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

folder, process, processes, port = Path(sys.argv[1]), *map(int, sys.argv[2:5])
if processes > 1:
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, process)

sys.path.insert(0, str(Path(__file__).parents[1]))
from ddpm.tiny import tiny_config

from tpulab_recipes.ddpm.checkpoint import CheckpointFolder
from tpulab_recipes.ddpm.data.pipeline import ShapesSource
from tpulab_recipes.ddpm.mesh import make_mesh
from tpulab_recipes.ddpm.trainer import Trainer

config = tiny_config()
# The batch of a host; together they see the same images as one host with all of them.
config = replace(config, train=replace(config.train, batch_size=16 // processes, save_freq=(2,)))
mesh = make_mesh()
assert mesh.shape == {"host": processes, "shard": 8 // processes}
source = ShapesSource(config, count=64, process=process, processes=processes)
place = folder / f"run-{processes}"
with Trainer(config, source, mesh=mesh, global_dir=str(place)) as trainer:
    trainer.train(2)
    loss = trainer.history[-1].loss
    with CheckpointFolder(str(place / "checkpoints_recent")) as checkpoints:
        state = checkpoints.load(trainer.network, mesh)
whole = jax.jit(lambda tree: tree, out_shardings=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))
moments = jax.tree_util.tree_leaves_with_path(whole(state.opt_state[0].mu))
if process == 0:
    arrays = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in moments}
    np.savez(folder / f"result-{processes}.npz", loss=loss, **arrays)
