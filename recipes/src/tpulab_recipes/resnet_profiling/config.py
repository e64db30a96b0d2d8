"""Settings of the recipe. The defaults are the small lesson; `FULL_SIZE` has the original notebook's
flags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Mistake = Literal["none", "slow-input", "sync-each-step", "changing-shapes"]


@dataclass(frozen=True)
class Config:
    width: float = 0.25
    """Share of ResNet18's channels (64, 128, 256, 512 at 1.0)."""
    batch_size: int = 32
    train_images: int = 50_000
    """Made-up images in an epoch."""
    learning_rate: float = 0.02
    momentum: float = 0.9
    weight_decay: float = 5e-4
    log_every: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.width <= 1:
            raise ValueError(
                f"width is a share of the published channels (above 0, at most 1), not {self.width}."
            )
        if self.batch_size < 1 or self.log_every < 1:
            raise ValueError("batch_size and log_every must be at least 1.")

    def but(self, **changes: object) -> Config:
        return replace(self, **changes)  # type: ignore[arg-type]


FULL_SIZE = Config(width=1.0, batch_size=128)
