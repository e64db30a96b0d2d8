"""Which sizes to pad to, from the shapes seen: a few programs instead of one for each size."""

from __future__ import annotations

from collections.abc import Sequence

Shape = tuple[int, ...]
#: As many sizes must have been seen before buckets are worth a word.
FEWEST_SIZES = 3
MOST_BUCKETS = 4


def bucket_advice(argument: str, name: str, shapes: Sequence[Shape]) -> str | None:
    """A sentence that names the sizes to pad to. None while too little has been seen."""
    axes = _changing_axes(shapes)
    if len(axes) != 1:
        return None
    axis = axes[0]
    sizes = sorted({shape[axis] for shape in shapes})
    if len(sizes) < FEWEST_SIZES:
        return None
    chosen = buckets(sizes)
    listed = ", ".join(map(str, chosen))
    to = f"to {listed}" if len(chosen) == 1 else f"up to the next of {listed}"
    return f"Axis {axis} of `{argument}` has had {len(sizes)} sizes, each a program of `{name}`: pad it {to}."


def buckets(sizes: Sequence[int]) -> list[int]:
    """Powers of two that cover the sizes, at most four; none is above the largest size."""
    largest = max(sizes)
    found: list[int] = []
    size = 1
    while size < largest:
        size *= 2
        if any(size // 2 < seen <= size for seen in sizes):
            found.append(min(size, largest))
    if not found or found[-1] < largest:
        found.append(largest)
    return sorted(set(found[-MOST_BUCKETS:]))


def _changing_axes(shapes: Sequence[Shape]) -> list[int]:
    ranks = {len(shape) for shape in shapes}
    if len(ranks) != 1:
        return []
    return [axis for axis in range(ranks.pop()) if len({shape[axis] for shape in shapes}) > 1]
