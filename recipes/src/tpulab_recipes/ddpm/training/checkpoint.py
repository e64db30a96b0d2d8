"""Checkpoints of whole arrays, by orbax: what eight devices saved loads on one, or on sixteen.

orbax renames a checkpoint into place when it is complete, so a run that is killed while saving continues from
the previous one. So does a run whose newest checkpoint was damaged later: that one is named and skipped.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh

from tpulab_recipes.common.errors import CheckpointError, ConfigError
from tpulab_recipes.common.settings import differences, flat, to_dict
from tpulab_recipes.common.storage import Folder, explained
from tpulab_recipes.ddpm.config import Config, config_from
from tpulab_recipes.ddpm.model.unet import Network
from tpulab_recipes.ddpm.training.train_step import TrainState, state_shapes
from tpulab_recipes.runtime.jax_mesh import placed_shapes

T = TypeVar("T")
STATE, ABOUT = "state", "about"
#: Changes when an older version could not read a checkpoint.
FORMAT = 1
#: Key of `--accept-changed` for other training data.
DATA = "data"
#: Settings that do not change the result of training: logs, checkpoints, reading, sampling, distillation.
MAY_CHANGE = (
    "train.log_",
    "train.snapshot_",
    "train.checkpoint_dirs",
    "train.num_checkpoints",
    "train.save_freq",
    "dataset.read_",
    "sampler",
    "model.eval_",
    "model.logvar_",
    "distill.",
)


#: The least share of a replicated array that a device writes, in bytes.
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


class DamagedCheckpoint(CheckpointError):
    """A checkpoint that cannot be read; an earlier one may be whole."""


class CheckpointFolder(AbstractContextManager["CheckpointFolder"]):
    """Checkpoints by step. `keep` is the number that is stored; infinity stores all."""

    def __init__(self, url: str, *, keep: float = math.inf, save_every: int = 1) -> None:
        self.url, self.save_every = url, save_every
        self._damaged: set[int] = set()
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
        """Copies the state and writes it while training continues; what writing raises comes with the next
        call, with `finish` or with `close`. False: this step is stored already. Raises `StorageError` where
        the disk has no room for it."""
        step = int(state.step)
        if step in self._damaged:
            # Replaced only when a complete checkpoint exists.
            self._manager.delete(step)
            self._damaged.remove(step)
        elif step in self.steps():
            return False
        about = {"format": FORMAT, "config": to_dict(config), "hosts": jax.process_count(), **(more or {})}
        Folder(self.url).require_room(sum(leaf.nbytes for leaf in jax.tree.leaves(state)), "a checkpoint")
        with explained(self.url):
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    **{STATE: ocp.args.PyTreeSave(state._asdict()), ABOUT: ocp.args.JsonSave(about)}
                ),
            )
        return True

    def latest(self) -> int | None:
        return max(self.steps(), default=None)

    def steps(self) -> list[int]:
        """The steps that are on disk, when all writing is done."""
        self.finish()
        return sorted(int(step) for step in self._manager.all_steps())

    def finish(self) -> None:
        """Waits until all that was saved is on the disk. Raises what writing it raised."""
        with explained(self.url):
            self._manager.wait_until_finished()

    def about(self, step: int | None = None) -> dict[str, Any]:
        """Metadata of the checkpoint: `config`, and what was given to `save`."""
        step = self._step(step)
        with self._reading(step):
            restored = self._manager.restore(step, args=ocp.args.Composite(**{ABOUT: ocp.args.JsonRestore()}))
            about = dict(restored[ABOUT])
            newer = about["format"] > FORMAT
        if newer:
            raise CheckpointError(
                f"The checkpoint {self.url}/{step} was written by a newer version of TPULab (format "
                f"{about['format']}, this one reads {FORMAT}); update TPULab, then run the command again."
            )
        return about

    def config(self, step: int | None = None) -> Config:
        """The configuration that the checkpoint was trained with."""
        about = self.about(step)
        try:
            return config_from(about["config"])
        except ConfigError as error:
            raise CheckpointError(
                f"The checkpoint {self.url}/{self._step(step)} has a setting that this version does not know "
                f"({error}); update TPULab, or train again."
            ) from error

    def refuse_changes(
        self,
        config: Config,
        accepted: Collection[str] = (),
        may_change: tuple[str, ...] = MAY_CHANGE,
        *,
        step: int | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        """Raises `CheckpointError` when the checkpoint (None: the newest) was trained with other settings or
        on other data, and names them: resuming would silently train something else. `accepted` are keys that
        may differ. `data` describes the records: `source`, `records` and `fingerprint`."""
        step = self._step(step)
        about = self.about(step)
        known = about.get(DATA)
        if data and known and known["fingerprint"] != data["fingerprint"] and DATA not in accepted:
            raise CheckpointError(
                f"The checkpoint {self.url}/{step} was trained on {describe_data(known)}, and this run reads "
                f"{describe_data(data)}. Name the folder with the same records, train into another folder, "
                f"or accept the change with --accept-changed {DATA}."
            )
        # An older checkpoint lacks settings that were added later.
        saved, requested = flat(to_dict(Config())) | flat(about["config"]), flat(to_dict(config))
        for settings, hosts in ((saved, about.get("hosts", 1)), (requested, jax.process_count())):
            # More hosts with fewer images each read the same batches.
            settings["train.batch_size"] *= hosts
        free = {key for key in saved | requested if key.startswith(may_change)}
        if changed := differences(saved, requested, free | {*accepted}):
            raise CheckpointError(
                f"The checkpoint {self.url}/{step} was trained with other settings: {changed}. "
                "Restore them, train into another folder, or accept the change with --accept-changed KEY."
            )

    def load(self, network: Network, mesh: Mesh, step: int | None = None) -> TrainState:
        """The state, placed on the mesh. Raises `CheckpointError` when its shapes belong to another
        network."""
        step = self._step(step)
        wanted = placed_shapes(state_shapes(network), mesh)
        with self._reading(step):
            self._refuse_another_network(step, wanted._asdict())
            item = wanted._asdict()
            places = ocp.checkpoint_utils.construct_restore_args(item)
            restored = self._manager.restore(
                step, args=ocp.args.Composite(**{STATE: ocp.args.PyTreeRestore(item, restore_args=places)})
            )
            return TrainState(**restored[STATE])

    @contextmanager
    def _reading(self, step: int) -> Iterator[None]:
        """What reading a damaged checkpoint raises becomes a `DamagedCheckpoint`. orbax, tensorstore and JSON
        raise whatever the damage happens to break."""
        with explained(self.url):
            try:
                yield
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, FileNotFoundError) as error:
                self._damaged.add(step)
                reason = " ".join(str(error).split())[:200]
                raise DamagedCheckpoint(
                    f"The checkpoint {self.url}/{step} is damaged ({type(error).__name__}: {reason})."
                ) from error

    def _refuse_another_network(self, step: int, wanted: dict[str, Any]) -> None:
        """Compares shapes before any array is read: orbax finds out halfway, while others are being read."""
        saved = _shapes_by_name(self._manager.item_metadata(step)[STATE].tree)
        expected = _shapes_by_name(wanted)
        names = sorted(saved.keys() | expected.keys())
        differing = [name for name in names if saved.get(name) != expected.get(name)]
        if differing:
            name = differing[0]
            has, wants = (str(shapes.get(name, "absent")) for shapes in (saved, expected))
            raise CheckpointError(
                f"The checkpoint {self.url}/{step} does not fit the configuration: {name} is {has} there and "
                f"{wants} in the configured network"
                + (f"; {len(differing) - 1} more arrays differ." if len(differing) > 1 else ".")
            )

    def close(self) -> None:
        try:
            self.finish()
        finally:
            self._manager.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self, step: int | None) -> int:
        steps = self.steps()
        if step is None and steps:
            return steps[-1]
        if step is None or step not in steps:
            # For example the folder of a whole run, whose checkpoints are in a folder below it.
            below = Folder(self.url).names(kind="directory", may_be_absent=True)
            there = ", ".join(map(str, steps or below)) or "none"
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


def newest_whole(folders: list[CheckpointFolder], use: Callable[[CheckpointFolder, int], T]) -> T | None:
    """What `use` returns for the newest checkpoint that can be read; None when there is none at all. Damaged
    ones are named on stderr. Raises `CheckpointError` when all are damaged."""
    found = [(step, place) for place, folder in enumerate(folders) for step in folder.steps()]
    damaged = []
    # Of two folders with the same step, the first.
    for step, place in sorted(found, key=lambda pair: (-pair[0], pair[1])):
        try:
            result = use(folders[place], step)
        except DamagedCheckpoint as error:
            damaged.append(str(error))
            continue
        for words in damaged:
            print(f"{words} Going on with step {step}.", file=sys.stderr)
        return result
    if damaged:
        raise CheckpointError(
            f"None of the {len(damaged)} checkpoints can be read. {damaged[0]} Restore one of them from a "
            "copy, or train into another folder."
        )
    return None


def describe_data(data: dict[str, Any]) -> str:
    """A description of training data for people."""
    return f"{data['source']} ({data['records']:,} records)"


def _shapes_by_name(tree: Any) -> dict[str, tuple[int, ...]]:
    """By the names on disk, where named tuples have become dictionaries."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    name_of = jax.tree_util.keystr
    return {name_of(path, simple=True, separator="."): tuple(leaf.shape) for path, leaf in leaves}
