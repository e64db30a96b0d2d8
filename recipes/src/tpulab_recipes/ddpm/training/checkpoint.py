"""Checkpoints of whole arrays, by orbax: what eight devices saved loads on one, or on sixteen.

A checkpoint is there whole or not at all (orbax renames it into place), so a run that is killed while saving
goes on from the one before.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh

from tpulab_recipes.common.errors import CheckpointError
from tpulab_recipes.common.settings import differences, flat, to_dict
from tpulab_recipes.common.storage import explained
from tpulab_recipes.ddpm.config import Config, config_from
from tpulab_recipes.ddpm.model.network import Network
from tpulab_recipes.ddpm.training.train_step import TrainState, state_shapes
from tpulab_recipes.runtime.jax_mesh import placed_shapes

STATE, ABOUT = "state", "about"
#: Settings that change nothing of what is learned: logs, checkpoints, reading, sampling, distillation.
MAY_CHANGE = (
    "train.log_",
    "train.snapshot_freq",
    "train.checkpoint_dirs",
    "train.num_checkpoints",
    "train.save_freq",
    "dataset.read_",
    "sampler",
    "model.eval_",
    "model.logvar_",
    "distill.",
)


#: Bytes of a replicated array that a device at least writes of it.
SHARE_BYTES = 2**20


def _array_handler() -> ocp.PyTreeCheckpointHandler:
    """As `StandardCheckpointHandler`, but an array that is whole on many devices is divided among them for
    writing only where that is worth it: dividing it is a program to be compiled for each shape and device."""
    handlers = ocp.type_handlers
    return ocp.PyTreeCheckpointHandler(
        type_handler_registry=handlers.create_type_handler_registry(
            (np.number, handlers.ScalarHandler()),
            (np.ndarray, handlers.NumpyHandler()),
            (jax.Array, handlers.ArrayHandler(min_slice_bytes_for_replica_parallel=SHARE_BYTES)),
        )
    )


class CheckpointFolder(AbstractContextManager["CheckpointFolder"]):
    """Checkpoints by step. `keep` is the number that is kept; infinity keeps all."""

    def __init__(self, url: str, *, keep: float = math.inf, save_every: int = 1) -> None:
        self.url, self.save_every = url, save_every
        if "://" not in url:
            url = os.path.abspath(url)
        with explained(self.url):
            self._manager = ocp.CheckpointManager(
                url,
                item_handlers={STATE: _array_handler(), ABOUT: ocp.JsonCheckpointHandler()},
                options=ocp.CheckpointManagerOptions(
                    max_to_keep=None if math.isinf(keep) else int(keep),
                    create=True,
                    cleanup_tmp_directories=True,
                ),
            )

    def save(self, state: TrainState, config: Config, more: dict[str, Any] | None = None) -> bool:
        """Saves, and returns when it is on disk. False: this step is there already."""
        step = int(state.step)
        if step in self._manager.all_steps():
            return False
        about = {"format": 1, "config": to_dict(config), "hosts": jax.process_count(), **(more or {})}
        with explained(self.url):
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    **{STATE: ocp.args.PyTreeSave(state._asdict()), ABOUT: ocp.args.JsonSave(about)}
                ),
            )
            self._manager.wait_until_finished()
        return True

    def latest(self) -> int | None:
        step = self._manager.latest_step()
        return None if step is None else int(step)

    def steps(self) -> list[int]:
        return sorted(int(step) for step in self._manager.all_steps())

    def about(self, step: int | None = None) -> dict[str, Any]:
        """What the checkpoint says of itself: `config`, and what was given to `save`."""
        step = self._step(step)
        with explained(self.url):
            restored = self._manager.restore(step, args=ocp.args.Composite(**{ABOUT: ocp.args.JsonRestore()}))
        return dict(restored[ABOUT])

    def config(self, step: int | None = None) -> Config:
        """The configuration that the checkpoint was trained with."""
        return config_from(self.about(step)["config"])

    def refuse_changes(
        self, config: Config, accepted: Collection[str] = (), may_change: tuple[str, ...] = MAY_CHANGE
    ) -> None:
        """Raises `CheckpointError` when the newest checkpoint was trained with other settings, and names
        them: going on would silently be another training. `accepted` are keys that may differ."""
        about = self.about()
        saved, asked = flat(about["config"]), flat(to_dict(config))
        for settings, hosts in ((saved, about.get("hosts", 1)), (asked, jax.process_count())):
            # More hosts with fewer images each read the same batches.
            settings["train.batch_size"] *= hosts
        free = {key for key in saved | asked if key.startswith(may_change)}
        if changed := differences(saved, asked, free | {*accepted}):
            raise CheckpointError(
                f"The checkpoint {self.url}/{self.latest()} was trained with other settings: {changed}. "
                "Restore them, train into another folder, or accept the change with --accept-changed KEY."
            )

    def load(self, network: Network, mesh: Mesh, step: int | None = None) -> TrainState:
        """The state, placed on the mesh. Raises `CheckpointError` when its shapes are those of another
        network."""
        step = self._step(step)
        wanted = placed_shapes(state_shapes(network), mesh)
        with explained(self.url):
            self._refuse_another_network(step, wanted._asdict())
            item = wanted._asdict()
            places = ocp.checkpoint_utils.construct_restore_args(item)
            restored = self._manager.restore(
                step, args=ocp.args.Composite(**{STATE: ocp.args.PyTreeRestore(item, restore_args=places)})
            )
        return TrainState(**restored[STATE])

    def _refuse_another_network(self, step: int, wanted: dict[str, Any]) -> None:
        """Compares shapes before any array is read: orbax finds out halfway, while others are being read."""
        saved = _shapes_by_name(self._manager.item_metadata(step)[STATE].tree)
        asked = _shapes_by_name(wanted)
        names = sorted(saved.keys() | asked.keys())
        differing = [name for name in names if saved.get(name) != asked.get(name)]
        if differing:
            name = differing[0]
            has, wants = (str(shapes.get(name, "absent")) for shapes in (saved, asked))
            raise CheckpointError(
                f"The checkpoint {self.url}/{step} does not fit the configuration: {name} is {has} there and "
                f"{wants} in the configured network"
                + (f"; {len(differing) - 1} more arrays differ." if len(differing) > 1 else ".")
            )

    def close(self) -> None:
        self._manager.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self, step: int | None) -> int:
        steps = self.steps()
        if step is None and steps:
            return steps[-1]
        if step is None or step not in steps:
            there = ", ".join(map(str, steps)) or "none"
            which = "" if step is None else f" {step}"
            raise CheckpointError(f"{self.url} has no checkpoint{which}; there: {there}.")
        return step


def open_folders(config: Config, global_dir: str) -> list[CheckpointFolder]:
    """The folders that the configuration names, `{}` being `global_dir`."""
    train = config.train
    return [
        CheckpointFolder(place.format(global_dir.rstrip("/")), keep=keep, save_every=every)
        for place, keep, every in zip(
            train.checkpoint_dirs, train.num_checkpoints, train.save_freq, strict=True
        )
    ]


def newest(folders: list[CheckpointFolder]) -> CheckpointFolder | None:
    """The folder with the newest checkpoint; None when there is none at all."""
    having = [folder for folder in folders if folder.latest() is not None]
    return max(having, key=lambda folder: folder.latest() or 0) if having else None


def _shapes_by_name(tree: Any) -> dict[str, tuple[int, ...]]:
    """By the names on disk, where named tuples have become dictionaries."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    name_of = jax.tree_util.keystr
    return {name_of(path, simple=True, separator="."): tuple(leaf.shape) for path, leaf in leaves}
