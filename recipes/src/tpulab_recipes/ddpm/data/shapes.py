"""Small captioned images that the repository makes itself: one coloured shape on a dark ground.

`a large red circle` and the like: two sizes, four colours, four shapes, near the middle. A score from 2 to
9 says how strong the colour is, which stands for the aesthetic score of photographs.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tpulab_recipes.common.storage import Folder
from tpulab_recipes.images.files import encode_image
from tpulab_recipes.images.messages import encode_example
from tpulab_recipes.images.shards import CLASS_KEY, SCORE_KEY
from tpulab_recipes.images.tfrecord import write_record

SIDE = 16
SIZES = ("small", "large")
COLOURS = {
    "red": (0.95, 0.15, 0.15),
    "green": (0.1, 0.85, 0.25),
    "blue": (0.2, 0.35, 1.0),
    "yellow": (0.98, 0.88, 0.1),
}
SHAPES = ("circle", "square", "triangle", "cross")
SCORES = (2.0, 9.0)
BACKGROUND = 0.06
#: Half the width of a shape in pixels.
RADII = {"small": 4.0, "large": 6.5}
#: Pixels that a shape's centre may lie away from the image's, where there is room.
JITTER = 2.0
#: Points per pixel side, averaged for smooth edges.
_OVERSAMPLING = 4


@dataclass(frozen=True)
class Shape:
    """The size, colour and shape of the drawing in an image."""

    size: str
    colour: str
    shape: str

    @property
    def caption(self) -> str:
        return f"a {self.size} {self.colour} {self.shape}"


def all_shapes() -> list[Shape]:
    """The 32 kinds of image."""
    return [Shape(size, colour, shape) for size in SIZES for colour in COLOURS for shape in SHAPES]


def coverage(shape: str, radius: float, centre: tuple[float, float]) -> np.ndarray:
    """Float[16, 16]: the share of each pixel that the shape covers. `centre` is (x, y) in pixels."""
    points = (np.arange(SIDE * _OVERSAMPLING) + 0.5) / _OVERSAMPLING
    x, y = points[None, :] - centre[0], points[:, None] - centre[1]
    if shape == "circle":
        inside = x**2 + y**2 <= radius**2
    elif shape == "square":
        inside = np.maximum(abs(x), abs(y)) <= radius * 0.85
    elif shape == "triangle":
        inside = (y <= radius * 0.8) & (abs(x) * 1.8 <= y + radius)
    elif shape == "cross":
        inside = (np.minimum(abs(x), abs(y)) <= radius * 0.3) & (np.maximum(abs(x), abs(y)) <= radius)
    else:
        raise ValueError(f"unknown shape {shape!r}")
    blocks = inside.reshape(SIDE, _OVERSAMPLING, SIDE, _OVERSAMPLING)
    return np.asarray(blocks.mean(axis=(1, 3)))


def strength(score: float) -> float:
    """How strong the colour is for a score, from 0.4 to 1."""
    low, high = SCORES
    return 0.4 + 0.6 * float(np.clip((score - low) / (high - low), 0, 1))


def render(spec: Shape, centre: tuple[float, float], score: float = SCORES[1]) -> np.ndarray:
    """Float32[16, 16, 3] in [-1, 1]."""
    cover = coverage(spec.shape, RADII[spec.size], centre)[..., None]
    colour = BACKGROUND + strength(score) * (np.asarray(COLOURS[spec.colour]) - BACKGROUND)
    return np.asarray((BACKGROUND + cover * (colour - BACKGROUND)) * 2 - 1, np.float32)


@dataclass(frozen=True)
class ShapeImages:
    """Images, captions and scores, in the same order."""

    images: np.ndarray  # Float32[image, 16, 16, 3] in [-1, 1]
    shapes: list[Shape]
    scores: np.ndarray  # Float32[image]

    @property
    def captions(self) -> list[str]:
        return [shape.caption for shape in self.shapes]


def draw_shapes(count: int, seed: int) -> ShapeImages:
    """`count` images; each of the 32 kinds is drawn as often as the others, to within one."""
    rng = np.random.default_rng(seed)
    kinds = all_shapes()
    order = np.concatenate([rng.permutation(len(kinds)) for _ in range(-(-count // len(kinds)))])[:count]
    shapes = [kinds[i] for i in order]
    scores = rng.uniform(*SCORES, size=count).astype(np.float32)
    images = np.empty((count, SIDE, SIDE, 3), np.float32)
    for place, (shape, score) in enumerate(zip(shapes, scores, strict=True)):
        centre = SIDE / 2 + rng.uniform(-1, 1, size=2) * _room(shape.size)
        images[place] = render(shape, (float(centre[0]), float(centre[1])), float(score))
    return ShapeImages(images, shapes, scores)


def _room(size: str) -> float:
    return min(JITTER, SIDE / 2 - RADII[size] - 0.5)


def to_uint8(images: np.ndarray) -> np.ndarray:
    """[-1, 1] to 0..255."""
    return np.asarray(np.clip(np.round((np.asarray(images, np.float32) + 1) * 127.5), 0, 255), np.uint8)


def recognise(image: np.ndarray) -> Shape:
    """What an image shows, by comparison with drawings of all shapes at all places: no network is
    involved."""
    level = (np.asarray(image, np.float32) + 1) / 2 - BACKGROUND
    # The colour whose direction the image follows most.
    ground = np.full(3, BACKGROUND)
    total = level.reshape(-1, 3).clip(0).sum(axis=0)
    names = list(COLOURS)
    directions = np.array([np.asarray(COLOURS[name]) - ground for name in names])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    colour = names[int(np.argmax(directions @ total))]
    light = (level @ directions[names.index(colour)]).clip(0)
    labels, templates = _templates()
    # Cosine similarity; both have a ground of zero.
    similarity = templates @ (light.reshape(-1) / (np.linalg.norm(light) + 1e-9))
    size, shape = labels[int(np.argmax(similarity))]
    return Shape(size, colour, shape)


@lru_cache(maxsize=1)
def _templates() -> tuple[list[tuple[str, str]], np.ndarray]:
    labels, rows = [], []
    for size in SIZES:
        room = _room(size)
        places = SIDE / 2 + np.linspace(-room, room, 7)
        for shape, x, y in itertools.product(SHAPES, places, places):
            cover = coverage(shape, RADII[size], (float(x), float(y))).reshape(-1)
            labels.append((size, shape))
            rows.append(cover / np.linalg.norm(cover))
    return labels, np.asarray(rows, np.float32)


def write_shape_images(folder: Folder, count: int, seed: int = 0, per_shard: int = 512) -> list[str]:
    """Shards of captioned shapes as PNG: a data set for trying the pipeline without a network."""
    folder.make()
    drawn, kinds = draw_shapes(count, seed), all_shapes()
    names = []
    for number, first in enumerate(range(0, count, per_shard)):
        names.append(f"shapes-{number:05d}.tfrecord")
        with folder.write(names[-1]) as file:
            for at in range(first, min(first + per_shard, count)):
                about = {SCORE_KEY: float(drawn.scores[at]), CLASS_KEY: kinds.index(drawn.shapes[at])}
                features = {
                    "png": encode_image(to_uint8(drawn.images[at]), "png"),
                    "txt": drawn.shapes[at].caption,
                    "json": json.dumps(about | {"height": 16, "width": 16}),
                }
                write_record(file, encode_example(features))
    return names
