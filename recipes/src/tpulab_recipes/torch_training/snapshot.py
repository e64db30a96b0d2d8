"""The state of a training at a step, so that a run resumed from it computes bit for bit what the unbroken
run computes: dropout, the order of the data and the learning rate included.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tpulab_recipes.common.errors import CheckpointError
from tpulab_recipes.common.settings import differences
from tpulab_recipes.runtime.torch_base import TorchBackend
from tpulab_recipes.torch_training.learning_rate import use_tensor_learning_rate
from tpulab_recipes.torch_training.lora import load_saved_weights, saved_weights


def snapshot(
    backend: TorchBackend,
    *,
    model: Any,
    optimizer: Any,
    step: int,
    config: Any,
    scheduler: Any = None,
    scaler: Any = None,
) -> dict[str, Any]:
    """The state after `step` updates, on the host, of tensors and plain values. `config` is a dataclass.

    The position in the data is `step`: batches depend on the seed and their number alone. Taking a snapshot
    does not change the run: its random numbers continue as without a snapshot.
    """
    drawn = random_state(backend)
    state = {
        "step": step,
        "config": dataclasses.asdict(config),
        "random": drawn,
        "model": saved_weights(model),
        "optimizer": optimizer.state_dict(),
    }
    for name, part in (("scheduler", scheduler), ("scaler", scaler)):
        if part is not None:
            state[name] = part.state_dict()
    on_host: dict[str, Any] = backend.to_host(state)
    # Reading tensors of a lazy device ends a graph, and each graph has its own random seed.
    set_random_state(backend, drawn)
    return on_host


def restore(
    backend: TorchBackend,
    state: Mapping[str, Any],
    *,
    model: Any,
    optimizer: Any,
    config: Any,
    scheduler: Any = None,
    scaler: Any = None,
    may_change: Collection[str] = (),
) -> int:
    """Restores the state, and returns the number of updates done.

    Raises:
        CheckpointError: the snapshot was taken with other settings, which it names; those in `may_change`
            may differ.
    """
    refuse_changes(state["config"], dataclasses.asdict(config), may_change)
    load_saved_weights(model, state["model"])
    optimizer.load_state_dict(state["optimizer"])
    use_tensor_learning_rate(backend, optimizer)
    backend.shard_optimizer(optimizer)
    for name, part in (("scheduler", scheduler), ("scaler", scaler)):
        if part is not None:
            part.load_state_dict(state[name])
    backend.sync()
    set_random_state(backend, state["random"])
    return int(state["step"])


def refuse_changes(
    saved: Mapping[str, Any], requested: Mapping[str, Any], may_change: Collection[str] = ()
) -> None:
    """Raises `CheckpointError` when settings differ: resuming would silently train something else."""
    unknown = saved.keys() - requested.keys() - {*may_change}
    if len(saved.keys() ^ requested.keys()) > len(saved.keys() & requested.keys()):
        raise CheckpointError("The checkpoint was written by another recipe; write to another folder.")
    if unknown:
        raise CheckpointError(
            f"The checkpoint has settings that this version does not know ({', '.join(sorted(unknown))}); "
            "update TPULab, or write to another folder."
        )
    changed = differences(saved, requested, may_change)
    if changed:
        raise CheckpointError(
            f"The checkpoint was written with other settings: {changed}. Restore them, or write to another "
            "folder."
        )


def random_state(backend: TorchBackend) -> dict[str, Any]:
    """The state of all random number generators of this process, as tensors and plain values."""
    torch = backend.torch
    kind, keys, place, has_gauss, gauss = np.random.get_state()
    version, words, second = random.getstate()
    return {
        "python": [version, list(words), second],
        "numpy": [str(kind), torch.from_numpy(np.asarray(keys).astype(np.int64)), place, has_gauss, gauss],
        "torch": torch.get_rng_state(),
        "device": backend.device_random_state(),
    }


def set_random_state(backend: TorchBackend, state: Mapping[str, Any]) -> None:
    """Restores all random number generators of this process from a `random_state`."""
    version, words, second = state["python"]
    random.setstate((version, tuple(words), second))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    backend.torch.set_rng_state(state["torch"])
    # The state of another backend does not apply to this device, which continues from its seed.
    if isinstance(state["device"], type(backend.device_random_state())):
        backend.set_device_random_state(state["device"])
