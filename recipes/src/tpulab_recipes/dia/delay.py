"""The delay pattern: channel c of frame t stands in row t + delay[c] of the table that the model sees, so
that each step of the decoder predicts nine codebooks of nine different frames.

Training tables are transformers' (`DiaProcessor`): a BOS frame, the codes, an EOS frame, delayed and long
enough that no code is cut off. PAD and BOS are no targets. One difference: shorter clips are padded on the
right, where causal attention never looks, so that the padded length changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Positions with this label are not trained; torch's `ignore_index`.
IGNORED = -100


@dataclass(frozen=True)
class Layout:
    """Special ids and delays of a model."""

    delay: tuple[int, ...]
    eos: int
    pad: int
    bos: int

    @staticmethod
    def of(config: Any) -> Layout:
        """That of a `DiaConfig`."""
        ids = config.decoder_config
        return Layout(tuple(config.delay_pattern), ids.eos_token_id, ids.pad_token_id, ids.bos_token_id)

    @property
    def overhead(self) -> int:
        """Rows of a table beyond those of the codes: the BOS frame and the longest delay."""
        return 1 + max(self.delay)


def delayed(codes: NDArray[Any], delay: Sequence[int], bos: int) -> NDArray[Any]:
    """Int[batch, row, channel]: row t has channel c of frame t - delay[c], BOS where there is none. What is
    delayed past the end is lost: extend the codes by max(delay) first."""
    rows = np.arange(codes.shape[1])[:, None] - np.asarray(delay)
    moved = np.take_along_axis(codes, np.maximum(rows, 0)[None], axis=1)
    return np.where(rows < 0, bos, moved)


def reverted(table: NDArray[Any], delay: Sequence[int], pad: int) -> NDArray[Any]:
    """Int[batch, frame, channel]: frame t has channel c of row t + delay[c], PAD where there is none."""
    rows = np.arange(table.shape[1])[:, None] + np.asarray(delay)
    moved = np.take_along_axis(table, np.minimum(rows, table.shape[1] - 1)[None], axis=1)
    return np.where(rows >= table.shape[1], pad, moved)


def training_table(
    codes: NDArray[Any], layout: Layout, length: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """What the decoder reads and what it is to say next, both Int32[length, channel], of Int[frame, channel].

    Raises `ValueError` when the clip does not fit: `length` rows hold `length - overhead` frames.
    """
    frames, channels = codes.shape
    if frames > length - layout.overhead:
        raise ValueError(f"{frames} frames do not fit {length} rows (at most {length - layout.overhead}).")
    table = np.full((1, length + 1, channels), layout.pad)
    table[0, 0] = layout.bos
    table[0, 1 : frames + 1] = codes
    table[0, frames + 1] = layout.eos
    table = delayed(table, layout.delay, layout.bos)[0].astype(np.int32)
    labels = table[1:].copy()
    labels[(labels == layout.pad) | (labels == layout.bos)] = IGNORED
    return table[:-1], labels
