"""1,797 handwritten digits that come with the package, so that a lesson finds them on every machine.

README.md names their source.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


def load() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The images as ``uint8[1797, 8, 8]``, 0 (no ink) to 16, and their labels as ``uint8[1797]``, 0 to 9."""
    with files(__name__).joinpath("digits.npz").open("rb") as file, np.load(file) as archive:
        return archive["images"], archive["labels"]
