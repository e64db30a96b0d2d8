"""Makes digits.npz from scikit-learn's copy of the UCI handwritten digits.

Run it where scikit-learn is installed: ``python -m tpulab_recipes.digits.make_digits``. The result is
the same to the byte on every run, so a changed file means changed data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TARGET = Path(__file__).with_name("digits.npz")


def main() -> None:
    """Writes the images as ``uint8[1797, 8, 8]`` (0 to 16) and the labels as ``uint8[1797]`` (0 to 9)."""
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    if not np.array_equal(images, digits.images):
        raise SystemExit("The images are no longer whole numbers; look at what scikit-learn changed.")
    np.savez_compressed(TARGET, images=images, labels=digits.target.astype(np.uint8))


if __name__ == "__main__":
    main()
