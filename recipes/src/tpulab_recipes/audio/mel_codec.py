"""A codec for lessons without a network, whose codes are audible: residual vector quantisation of log-mel
frames, and phases by Griffin and Lim (1984; the faster form of Perraudin et al. 2013) on the way back.

Like DAC it has nine codebooks, each quantising the residual of the previous ones. It is fitted in a second
to the sound that it will encode; DAC's trained weights would have to be downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from tpulab_recipes.audio.codec import Codec
from tpulab_recipes.audio.files import fitted
from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram
from tpulab_recipes.audio.vocoders import wave_of
from tpulab_recipes.common.preparation import digest

#: Natural logarithm below which a mel band is silent: finer differences would take up the first codebooks.
_FLOOR = -7.0
_FIT_ROUNDS = 12


class MelCodec(Codec):
    """Made by `fit_mel_codec`."""

    def __init__(self, settings: MelSettings, books: torch.Tensor) -> None:
        self.settings, self.books = settings, books
        """`books`: Float[codebook, entry, mel]."""
        self.mel = MelSpectrogram(settings)
        self.sample_rate, self.hop, self.codebooks = settings.sample_rate, settings.hop, len(books)

    def to(self, device: torch.device) -> MelCodec:
        self.mel, self.books = self.mel.to(device), self.books.to(device)
        return self

    def fingerprint(self) -> str:
        return digest(self.books.cpu().numpy().tobytes())

    @torch.no_grad()
    def encode(self, waves: torch.Tensor) -> torch.Tensor:
        """Int64[batch, codebook, frame] of Float[batch, sample]; samples must be whole frames."""
        left, ids = self.features(waves), []
        for book in self.books:
            nearest = _nearest(left, book)
            left = left - book[nearest]
            ids.append(nearest)
        return torch.stack(ids, 1)

    @torch.no_grad()
    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        """Float[batch, sample] in [-1, 1] of Int[batch, codebook, frame], on the host. A mel spectrogram has
        no phases; guessed ones make a voice a little hollow."""
        books, ids = self.books.cpu(), codes.cpu()
        mel = torch.stack([book[each] for book, each in zip(books, ids.unbind(1), strict=True)]).sum(0)
        return wave_of(mel.transpose(1, 2), self.mel)

    def features(self, waves: torch.Tensor) -> torch.Tensor:
        """Float[batch, frame, mel]: the natural logarithm of the mel spectrogram of Float[batch, sample]."""
        found: torch.Tensor = self.mel(waves)
        return found.transpose(1, 2).clamp(min=_FLOOR)


def fit_mel_codec(
    waves: Sequence[np.ndarray], sample_rate: int = 16_000, *, entries: int = 64, codebooks: int = 9
) -> MelCodec:
    """A codec of 50 frames a second for waves, Float[sample], at 16 kHz: each codebook is the k-means of the
    previous codebooks' residual. The same waves give the same codec. Raises `ValueError` for fewer frames
    than entries."""
    settings = MelSettings(sample_rate, 1024, sample_rate // 50, 1024, center=False)
    codec = MelCodec(settings, torch.empty(codebooks, entries, settings.n_mels))
    whole = [fitted(wave, codec.frames(len(wave)) * codec.hop) for wave in waves]
    left = torch.cat([codec.features(torch.from_numpy(wave)[None])[0] for wave in whole])
    if len(left) < entries:
        raise ValueError(f"{len(left)} frames are too few for {entries} entries; give more sound.")
    random = np.random.default_rng(0)
    for book in codec.books:
        book.copy_(left[torch.from_numpy(random.choice(len(left), entries, replace=False))])
        for _ in range(_FIT_ROUNDS):
            nearest = _nearest(left, book)
            sums = torch.zeros_like(book).index_add(0, nearest, left)
            counts = torch.bincount(nearest, minlength=entries)[:, None]
            book.copy_(torch.where(counts > 0, sums / counts.clamp(min=1), book))
        left = left - book[_nearest(left, book)]
    return codec


def _nearest(frames: torch.Tensor, book: torch.Tensor) -> torch.Tensor:
    """Int64[...] of Float[..., mel]: |x - e|² without |x|², which is the same for all entries."""
    return ((book * book).sum(1) - 2 * frames @ book.T).argmin(-1)
