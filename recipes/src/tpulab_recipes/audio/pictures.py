"""Sound in notebooks: players side by side below their spectrograms, and the delay pattern of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def side_by_side(sounds: Mapping[str, np.ndarray], sample_rate: int, width: int = 200) -> Any:
    """Players for Float[sample] waves in [-1, 1], each under its title and log-mel spectrogram (low pitches
    below, `width` pixels wide). The sound travels in the notebook, as FLAC: a second at 16 kHz takes about 20
    kB."""
    from html import escape
    from io import BytesIO

    import soundfile
    from IPython.display import HTML

    figures = []
    for title, wave in sounds.items():
        sound = BytesIO()
        soundfile.write(sound, np.clip(wave, -1, 1), sample_rate, format="FLAC", subtype="PCM_16")
        figures.append(
            f'<figure style="margin: 4px; width: {width}px"><figcaption>{escape(title)}</figcaption><img '
            f'src="{_data_url("image/png", _spectrogram(wave, sample_rate))}" alt="spectrogram" '
            'style="width: 100%; height: 120px; image-rendering: pixelated"><audio controls style="width: '
            f'100%" src="{_data_url("audio/flac", sound.getvalue())}"></audio></figure>'
        )
    return HTML(f'<div style="display: flex; flex-wrap: wrap">{"".join(figures)}</div>')


def _data_url(kind: str, content: bytes) -> str:
    from base64 import b64encode

    return f"data:{kind};base64,{b64encode(content).decode()}"


def _spectrogram(wave: np.ndarray, sample_rate: int) -> bytes:
    """A PNG of the log-mel spectrogram, a pixel for each band and each 20 ms."""
    import torch
    from matplotlib import colormaps

    from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
    from tpulab_recipes.common.pictures import png

    mel = MelSpectrogram(MelSettings(sample_rate, hop=sample_rate // 50))(
        torch.from_numpy(np.float32(wave))[None]
    )[0]
    # From 70 dB below a loud sound (e³) up to it.
    share = ((mel.numpy() + 5) / 8).clip(0, 1)[::-1]
    return png(2 * colormaps["magma"](share)[..., :3] - 1)


#: The colours of cells that hold no code.
_SPECIAL = {"BOS": "#9ecae1", "EOS": "#d62728", "PAD": "#eeeeee"}


def show_delay(
    codes: np.ndarray, table_of: Callable[[np.ndarray], np.ndarray], special: Mapping[str, int]
) -> Any:
    """A figure of pyplot, of Int[frame, channel]: as the codec has them, and in the table that the decoder
    reads. A frame has one colour in both, so the eye finds its codes again.

    `table_of` makes that table, Int[row, channel]; `special` has the ids of BOS, EOS and PAD.
    """
    import matplotlib.pyplot as plt
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    # Each code is replaced by the number of its frame: the table treats all values alike.
    frame_of = np.repeat(np.arange(len(codes))[:, None], codes.shape[1], axis=1)
    hues = colormaps["viridis"](np.linspace(0.35, 1, len(codes)))[:, :3]
    colour_of = dict(enumerate(hues)) | {special[name]: to_rgb(colour) for name, colour in _SPECIAL.items()}
    shown_as = {id_: "" if name == "PAD" else name for name, id_ in special.items()}

    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 4.6), sharex=True, layout="constrained")
    for axes, frames, values in ((above, frame_of, codes), (below, table_of(frame_of), table_of(codes))):
        axes.imshow([[colour_of[int(frame)] for frame in column] for column in frames.T], aspect="auto")
        for (row, channel), value in np.ndenumerate(values):
            text = shown_as.get(int(value), str(value))
            axes.text(row, channel, text, ha="center", va="center", fontsize=6)
        axes.set(ylabel="channel", yticks=range(codes.shape[1]))
    above.set(title=f"{len(codes)} frames of codes", xlabel="frame")
    above.tick_params(labelbottom=True)
    below.set(title="the same codes in the table that the decoder reads", xlabel="row")
    return figure
