"""Settings of the recipe. The defaults are the small lesson; `FULL_SIZE` has the settings of the original
notebooks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpulab_recipes.runtime import PrecisionName
from tpulab_recipes.runtime.precision import check_precision

#: Names of the ten labels of Fashion-MNIST.
CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


@dataclass(frozen=True)
class Config:
    """Everything that a training depends on, the data aside."""

    image_size: int = 64
    """Side in pixels to which the 28 x 28 images are enlarged; AlexNet needs at least 63 and was made for
    224."""
    width: float = 0.25
    """Share of AlexNet's channels; 1.0 is the published network with 57 million parameters."""
    dropout: float = 0.5
    batch_size: int = 64
    """Images in one step, over all devices together."""
    epochs: int = 3
    learning_rate: float = 1e-3
    precision: PrecisionName = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.image_size < 63:
            raise ValueError(
                f"AlexNet needs images of at least 63 pixels, and image_size is {self.image_size}."
            )
        if not 0 < self.width <= 1:
            raise ValueError(
                f"width is a share of the published channels (above 0, at most 1), not {self.width}."
            )
        if self.batch_size < 1 or self.epochs < 0:
            raise ValueError("batch_size must be at least 1 and epochs at least 0.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is a probability below 1, not {self.dropout}.")
        check_precision(self.precision)

    def but(self, **changes: object) -> Config:
        """A copy with some settings changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


FULL_SIZE = Config(image_size=224, width=1.0, batch_size=64, epochs=1)
