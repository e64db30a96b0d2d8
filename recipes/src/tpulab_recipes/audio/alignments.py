"""When each phoneme of a recording is spoken: TextGrids, and whole frames of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.common.errors import DataError


def read_text_grid(path: Path, tier: str = "phones") -> list[tuple[str, float, float]]:
    """Label, start and end in seconds of each interval, in order and without gaps. Raises `DataError`."""
    from praatio import textgrid

    try:
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=True)
        # Aligners of several speakers put the speaker before it, as in `anna - phones`.
        named = [name for name in grid.tierNames if name == tier or name.endswith(f" - {tier}")]
        if len(named) != 1:
            there = ", ".join(map(repr, grid.tierNames)) or "none"
            raise DataError(f"{path} has no single tier {tier!r}; its tiers: {there}.")
        entries = grid.getTier(named[0]).entries
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; align the corpus first.") from error
    except DataError:
        raise
    except Exception as error:  # praatio has no common class for files that are torn.
        raise DataError(
            f"{path} cannot be read as a TextGrid: it is cut off or of another format; align it again."
        ) from error
    if not entries:
        raise DataError(f"{path} has no intervals in its tier {tier!r}.")
    return [(entry.label, float(entry.start), float(entry.end)) for entry in entries]


def frames_of(ends: Any, frame_seconds: float, frames: int) -> NDArray[np.int32]:
    """Int32[phoneme]: frames of intervals that end at these seconds; together `frames`, at least 1 each.

    Boundaries are rounded, not durations, so that errors do not add up. Raises `DataError` for more intervals
    than frames.
    """
    count = len(ends)
    if count > frames:
        raise DataError(f"{count} phonemes do not fit {frames} frames.")
    bounds = np.rint(np.asarray(ends) / frame_seconds).astype(np.int64)
    bounds[-1] = frames
    place = np.arange(1, count + 1)
    # Each boundary follows the previous one, and leaves at least one frame to every later phoneme.
    bounds = np.maximum.accumulate(np.maximum(bounds, place) - place) + place
    bounds = np.minimum(bounds, frames - count + place)
    return np.diff(bounds, prepend=0).astype(np.int32)
