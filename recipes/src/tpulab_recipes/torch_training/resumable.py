"""The state that a trainer in PyTorch saves and resumes from."""

from __future__ import annotations

import copy
from typing import Any

from tpulab_recipes.runtime import Backend
from tpulab_recipes.torch_training.snapshot import restore, snapshot


def average_of(backend: Any, model: Any, *, shard: bool = False) -> Any:
    """A copy of a model, placed as it is, to become a running average. Frozen parameters are shared by
    both."""
    frozen = {id(each): each for each in model.parameters() if not each.requires_grad}
    return backend.prepare(copy.deepcopy(model, frozen).requires_grad_(False), shard=shard).eval()


class Resumable:
    """For trainers that own these five. Checkpoints hold all of it (`snapshot`)."""

    config: Any
    backend: Backend
    model: Any
    optimizer: Any
    steps_done: int
    peak: float
    """Peak learning rate."""
    rate: float = 0.0
    """Learning rate of the last step."""

    def before_step(self) -> None:
        """Updates values that change from step to step, such as a learning rate; runs before the compiled
        step."""

    def state(self) -> dict[str, Any]:
        """The content of a checkpoint."""
        return snapshot(
            self.backend,  # type: ignore[arg-type]
            model=self.model,
            optimizer=self.optimizer,
            step=self.steps_done,
            config=self.config,
        )

    def load_state(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint's state (on the host). Raises `CheckpointError` for one of other
        settings; more epochs are no other settings."""
        self.steps_done = restore(
            self.backend,  # type: ignore[arg-type]
            state,
            model=self.model,
            optimizer=self.optimizer,
            config=self.config,
            may_change=("epochs",),
        )
