"""`--export FILE` of the recipes in PyTorch: their training step for the TPU compiler."""

from __future__ import annotations

import sys
from typing import Any

from tpulab_recipes.common.command_line import print_result
from tpulab_recipes.compile_ahead.torch_export import export_step
from tpulab_recipes.runtime import Backend, DeviceRuntimeError


def export(place: str, backend: Backend, trainer: Any, batch: Any, name: str) -> int:
    """Writes the step of a trainer (`model`, `optimizer`, `train_step`) for batches like this one, on the
    host.

    Returns the exit status: 2, and the reason on stderr, where `export_step` refuses.
    """
    try:
        exported = export_step(
            backend,
            trainer.train_step,
            backend.shard_batch(batch),
            model=trainer.model,
            optimizer=trainer.optimizer,
            name=name,
        )
    except DeviceRuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    exported.program.save(place)
    print_result(exported=place, module_bytes=len(exported.program.module))
    return 0
