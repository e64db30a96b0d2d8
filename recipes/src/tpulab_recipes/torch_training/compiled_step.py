"""The training step of a trainer as a compiled program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from tpulab_recipes.torch_training.resumable import Resumable


def compiled_step(update: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Compiles a trainer's method of one update (`Backend.compile`), and counts its calls in `steps_done`.

    What changes from step to step would be a constant of the program: it belongs into `before_step`.
    """
    name = f"_compiled_{update.__name__}"

    @functools.wraps(update)
    def step(trainer: Resumable, batch: Any) -> Any:
        if name not in vars(trainer):
            program = trainer.backend.compile(MethodType(update, trainer), name=update.__name__)
            setattr(trainer, name, program)
        trainer.model.train()
        trainer.before_step()
        trainer.steps_done += 1
        return vars(trainer)[name](batch)

    return step
