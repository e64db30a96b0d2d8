"""Sound in notebooks: a player, and a mel spectrogram with its phonemes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpulab_recipes.audio.corpus import Interval


def player(wave: np.ndarray, sample_rate: int, title: str = "") -> Any:
    """A player for Float[sample] that a notebook shows. The sound travels in the notebook: one second at
    22,050 Hz is about 60 kB."""
    from html import escape

    from IPython.display import HTML, Audio

    audio = Audio(np.clip(wave, -1, 1), rate=sample_rate, normalize=False)
    return HTML(f"<figure><figcaption>{escape(title)}</figcaption>{audio._repr_html_()}</figure>")


def show_spectrogram(
    log_mel: np.ndarray,
    hop_seconds: float,
    title: str = "",
    phones: Sequence[Interval] = (),
    sample_rate: int = 0,
) -> Any:
    """A matplotlib figure of Float[mel, frame], low pitches below; `phones` (in samples of `sample_rate`) are
    drawn above it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    seconds = log_mel.shape[1] * hop_seconds
    axes.imshow(log_mel, origin="lower", aspect="auto", extent=(0, seconds, 0, len(log_mel)), cmap="magma")
    axes.set(xlabel="time (s)", ylabel="mel band")
    if title:
        axes.set_title(title, pad=18 if phones else 6)
    for each in phones:
        start, end = each.start / sample_rate, each.end / sample_rate
        axes.axvline(start, color="white", linewidth=0.5, alpha=0.6)
        axes.text((start + end) / 2, len(log_mel) * 1.02, each.label, ha="center", fontsize=7)
    return figure
