"""Pictures for the notebooks: images with predictions, and the confusion matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.fashion_mnist.config import CLASS_NAMES
from tpulab_recipes.fashion_mnist.data import Images
from tpulab_recipes.fashion_mnist.trainer import Evaluation


def show_classes(images: Images) -> Any:
    """Two examples of every class. Returns the figure."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 10, figsize=(11, 2.9), layout="constrained")
    for label in range(10):
        for row, index in enumerate(np.flatnonzero(images.labels == label)[:2]):
            axes[row, label].imshow(images.pixels[index], cmap="gray_r", vmin=0, vmax=255)
        axes[0, label].set_title(CLASS_NAMES[label], fontsize=8)
    for axis in axes.flat:
        axis.axis("off")
    return figure


def show_predictions(images: Images, evaluation: Evaluation, count: int = 16) -> Any:
    """Images with predictions; up to half are mistakes, in red with the true class below. Returns the
    figure."""
    import matplotlib.pyplot as plt

    wrong = evaluation.predicted != images.labels
    mistakes, right = np.flatnonzero(wrong)[: count // 2], np.flatnonzero(~wrong)
    chosen = np.concatenate([mistakes, right])[:count]
    columns = 8
    figure, axes = plt.subplots(
        -(-count // columns), columns, figsize=(11, 1.8 * -(-count // columns)), layout="constrained"
    )
    for axis in np.ravel(axes):
        axis.axis("off")
    for axis, index in zip(np.ravel(axes), chosen, strict=False):
        axis.imshow(images.pixels[index], cmap="gray_r", vmin=0, vmax=255)
        read = CLASS_NAMES[evaluation.predicted[index]]
        truth = f"\nnot {CLASS_NAMES[images.labels[index]]}" if wrong[index] else ""
        axis.set_title(read + truth, fontsize=8, color="#b3261e" if wrong[index] else "#2e7d32")
    return figure


def show_confusion(confusion: NDArray[np.int64], names: tuple[str, ...] = CLASS_NAMES) -> Any:
    """The confusion matrix: a row for each true class, a column for each prediction. Returns the figure."""
    import matplotlib.pyplot as plt

    size = 0.45 * len(names) + 1.8
    figure, axis = plt.subplots(figsize=(size + 0.6, size), layout="constrained")
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    ticks = range(len(names))
    axis.set(xticks=ticks, yticks=ticks, xlabel="read as", ylabel="is")
    axis.set_xticklabels(names, rotation=45, ha="right", fontsize=8)
    axis.set_yticklabels(names, fontsize=8)
    for row, column in zip(*np.nonzero(confusion), strict=True):
        shade = "white" if shares[row, column] > 0.5 else "black"
        axis.text(column, row, int(confusion[row, column]), ha="center", va="center", fontsize=8, color=shade)
    return figure
