"""Fixed encoders without downloaded weights: a linear one for images, hashed words for text.

The image encoder maps each 2 x 2 block of pixels to its leading principal components (`patch_pca.npz`, made
by `python -m tpulab_recipes.ddpm.data.small_encoders`); decoding is exact for whatever lies in their span.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

PATCH = 2
COMPONENTS = 8
PCA_FILE = Path(__file__).with_name("patch_pca.npz")
TEXT_WIDTH = 32
TEXT_LENGTH = 8


def _to_patches(images: np.ndarray) -> np.ndarray:
    """[image, height, width, 3] to [image, height / 2, width / 2, 12]."""
    count, height, width, channels = images.shape
    blocks = images.reshape(count, height // PATCH, PATCH, width // PATCH, PATCH, channels)
    return np.asarray(blocks.transpose(0, 1, 3, 2, 4, 5).reshape(count, height // PATCH, width // PATCH, -1))


def _from_patches(patches: np.ndarray) -> np.ndarray:
    count, rows, columns, _ = patches.shape
    blocks = patches.reshape(count, rows, columns, PATCH, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
    return np.asarray(blocks.reshape(count, rows * PATCH, columns * PATCH, 3))


def fit_patch_pca(images: np.ndarray, components: int = COMPONENTS) -> dict[str, np.ndarray]:
    """Mean, orthonormal basis, and the one factor that gives the latents a standard deviation of one."""
    patches = _to_patches(images).reshape(-1, PATCH * PATCH * 3).astype(np.float64)
    mean = patches.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(patches - mean, rowvar=False))
    basis = vectors[:, ::-1][:, :components]
    basis *= np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(components)])
    scale = 1 / np.sqrt(values[::-1][:components].mean())
    return {"mean": mean, "basis": basis, "scale": np.asarray(scale)}


class PatchPca:
    """The linear stand-in for a VAE. Images are Float[image, height, width, 3] in [-1, 1]."""

    def __init__(self, values: dict[str, np.ndarray]) -> None:
        self.mean, self.basis, self.scale = values["mean"], values["basis"], float(values["scale"])

    @classmethod
    @lru_cache(maxsize=1)
    def shipped(cls) -> PatchPca:
        with np.load(PCA_FILE) as archive:
            return cls(dict(archive))

    def encode(self, images: np.ndarray) -> np.ndarray:
        """Float32[image, height / 2, width / 2, 8]."""
        return np.asarray((_to_patches(images) - self.mean) @ self.basis * self.scale, np.float32)

    def decode(self, latents: np.ndarray) -> np.ndarray:
        """Float32 images, clipped to [-1, 1]."""
        patches = np.asarray(latents, np.float64) / self.scale @ self.basis.T + self.mean
        return np.clip(_from_patches(patches), -1, 1).astype(np.float32)


@lru_cache(maxsize=4096)
def _word_vector(word: str) -> np.ndarray:
    """A unit vector that depends on the word alone, on every machine."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).standard_normal(TEXT_WIDTH)
    return np.asarray(vector / np.linalg.norm(vector) * np.sqrt(TEXT_WIDTH) / 2, np.float32)


def encode_text(captions: Sequence[str], length: int = TEXT_LENGTH) -> np.ndarray:
    """Float32[caption, length, 32]: a vector for each word, zeros after the last. An empty caption is all
    zeros."""
    states = np.zeros((len(captions), length, TEXT_WIDTH), np.float32)
    for row, caption in enumerate(captions):
        for place, word in enumerate(re.findall(r"[^\W_]+", caption.lower())[:length]):
            states[row, place] = _word_vector(word)
    return states


if __name__ == "__main__":
    from tpulab_recipes.ddpm.data.shapes import draw_shapes

    np.savez(PCA_FILE, **fit_patch_pca(draw_shapes(2048, seed=20).images))  # type: ignore[arg-type]
    sys.stdout.write(f"{PCA_FILE.name}\n")
