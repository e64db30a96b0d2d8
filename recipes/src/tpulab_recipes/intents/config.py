"""Settings of the recipe. The defaults are a small network from random weights; `LESSON` fine-tunes a
pretrained one on the recipe's own data, `FULL_SIZE` is the published fine-tune."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpulab_recipes.runtime import PrecisionName
from tpulab_recipes.runtime.precision import check_precision

#: The published configuration with random weights, for a machine that cannot download the published weights.
BERT_BASE = "bert-base"


@dataclass(frozen=True)
class Config:
    model: str = ""
    """Name or folder of a pretrained model (`bert-base-uncased`). `bert-base`: the same network from random
    weights. Empty: a small BERT from random weights."""
    layers: int = 2
    hidden: int = 64
    heads: int = 2
    """Size of the small BERT; the others bring their own."""
    vocabulary: int = 2000
    """Most entries of the tokenizer that is trained on the small data."""
    batch_size: int = 16
    epochs: int = 5
    learning_rate: float = 1e-3
    """Peak rate: reached after the warm-up, then linear down to zero."""
    warmup_steps: int = 30
    weight_decay: float = 0.01
    precision: PrecisionName = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.hidden % self.heads != 0:
            raise ValueError(f"hidden ({self.hidden}) must be a multiple of heads ({self.heads}).")
        if min(self.layers, self.hidden, self.heads, self.batch_size, self.epochs) < 1:
            raise ValueError("layers, hidden, heads, batch_size and epochs must be at least 1.")
        if self.warmup_steps < 0:
            raise ValueError("warmup_steps cannot be negative.")
        check_precision(self.precision)

    def but(self, **changes: object) -> Config:
        return replace(self, **changes)  # type: ignore[arg-type]


#: 22.7 million parameters in 6 layers of 384, Apache-2.0, 91 MB from the hub.
LESSON = Config(
    model="sentence-transformers/all-MiniLM-L6-v2",
    batch_size=32,
    epochs=1,
    learning_rate=3e-4,
    warmup_steps=6,
)
FULL_SIZE = Config(
    model="bert-base-uncased",
    batch_size=128,
    epochs=3,
    learning_rate=3e-4,
    warmup_steps=100,
    precision="bfloat16",
)
