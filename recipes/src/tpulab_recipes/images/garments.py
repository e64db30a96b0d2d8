"""Draws small grey garments in ten classes, as many as wanted, from a seed. No photograph is involved.

Each class is an outline in a 28 x 28 square; every image moves, stretches, leans and shades it differently,
so that the classes overlap a little and a network has something to learn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Outline = tuple[tuple[float, float], ...]
SIDE = 28
#: Subpixels in each direction: edges become soft.
_FINE = 2

# Corners (x, y), y downwards, in units of the image's side. One class may have several outlines, drawn
# together.
_SHIRT_BODY: Outline = ((0.32, 0.18), (0.42, 0.22), (0.58, 0.22), (0.68, 0.18), (0.7, 0.9), (0.3, 0.9))
_OUTLINES: dict[int, tuple[Outline, ...]] = {
    0: (
        _SHIRT_BODY,
        ((0.32, 0.18), (0.1, 0.34), (0.18, 0.46), (0.34, 0.36)),
        ((0.68, 0.18), (0.9, 0.34), (0.82, 0.46), (0.66, 0.36)),
    ),
    1: (((0.34, 0.06), (0.66, 0.06), (0.7, 0.96), (0.55, 0.96), (0.5, 0.34), (0.45, 0.96), (0.3, 0.96)),),
    2: (
        _SHIRT_BODY,
        ((0.32, 0.18), (0.12, 0.36), (0.08, 0.86), (0.2, 0.88), (0.34, 0.4)),
        ((0.68, 0.18), (0.88, 0.36), (0.92, 0.86), (0.8, 0.88), (0.66, 0.4)),
    ),
    3: (((0.4, 0.06), (0.6, 0.06), (0.58, 0.36), (0.74, 0.96), (0.26, 0.96), (0.42, 0.36)),),
    4: (
        ((0.3, 0.1), (0.48, 0.2), (0.48, 0.96), (0.26, 0.96)),
        ((0.7, 0.1), (0.52, 0.2), (0.52, 0.96), (0.74, 0.96)),
        ((0.3, 0.1), (0.1, 0.3), (0.06, 0.9), (0.2, 0.92), (0.28, 0.4)),
        ((0.7, 0.1), (0.9, 0.3), (0.94, 0.9), (0.8, 0.92), (0.72, 0.4)),
    ),
    5: (
        ((0.04, 0.74), (0.96, 0.7), (0.98, 0.8), (0.04, 0.84)),
        ((0.16, 0.74), (0.44, 0.4), (0.52, 0.42), (0.28, 0.74)),
        ((0.5, 0.74), (0.72, 0.5), (0.8, 0.54), (0.62, 0.74)),
    ),
    6: (
        _SHIRT_BODY,
        ((0.32, 0.18), (0.06, 0.5), (0.16, 0.6), (0.34, 0.4)),
        ((0.68, 0.18), (0.94, 0.5), (0.84, 0.6), (0.66, 0.4)),
        ((0.4, 0.1), (0.6, 0.1), (0.62, 0.24), (0.38, 0.24)),
    ),
    7: (((0.04, 0.5), (0.3, 0.46), (0.5, 0.58), (0.94, 0.68), (0.98, 0.8), (0.04, 0.8)),),
    8: (
        ((0.12, 0.4), (0.88, 0.4), (0.92, 0.9), (0.08, 0.9)),
        (
            (0.3, 0.4),
            (0.34, 0.16),
            (0.66, 0.16),
            (0.7, 0.4),
            (0.62, 0.4),
            (0.6, 0.24),
            (0.4, 0.24),
            (0.38, 0.4),
        ),
    ),
    9: (((0.22, 0.08), (0.54, 0.08), (0.54, 0.54), (0.92, 0.68), (0.96, 0.88), (0.2, 0.88)),),
}


def draw_dataset(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """`count` images [image, 28, 28] and their labels [image], every class equally often, in random order."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) % 10).astype(np.uint8)
    pixels = (
        np.stack([draw(int(label), random) for label in labels])
        if count
        else np.zeros((0, SIDE, SIDE), np.uint8)
    )
    return pixels, labels


def draw(label: int, random: np.random.Generator) -> NDArray[np.uint8]:
    """One image [28, 28] of a class."""
    angle = random.normal(0, 0.08)
    stretch = random.uniform(0.75, 1.02, 2)
    shift = random.normal(0, 0.03, 2)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    cover = np.zeros((SIDE * _FINE, SIDE * _FINE), bool)
    for outline in _OUTLINES[label]:
        corners = np.asarray(outline) + random.normal(0, 0.015, (len(outline), 2))
        cover |= _inside(((corners - 0.5) * stretch) @ turn.T + 0.5 + shift)
    soft = cover.reshape(SIDE, _FINE, SIDE, _FINE).mean(axis=(1, 3))

    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    light = 1 + random.normal(0, 0.25) * (x - 0.5) + random.normal(0, 0.25) * (y - 0.5)
    if random.random() < 0.4:  # stripes
        light *= 1 - random.uniform(0.1, 0.35) * (
            np.sin(2 * np.pi * random.uniform(3, 7) * y + random.uniform(0, 6)) > 0
        )
    grey = (
        random.uniform(90, 230) * soft * light
        + soft * random.normal(0, 14, soft.shape)
        + random.normal(0, 5, soft.shape)
    )
    return np.clip(np.rint(grey), 0, 255).astype(np.uint8)


def _inside(corners: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which subpixels lie inside a polygon: those from which a ray to the right crosses its edge an odd
    number of times."""
    steps = (np.arange(SIDE * _FINE) + 0.5) / (SIDE * _FINE)
    x, y = np.meshgrid(steps, steps)
    inside = np.zeros(x.shape, bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if y0 != y1:
            inside ^= ((y0 > y) != (y1 > y)) & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return inside
