"""What notebooks show of sound."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")
soundfile = pytest.importorskip("soundfile")

from tpulab_recipes.audio.pictures import side_by_side  # noqa: E402


def test_players_stand_side_by_side_with_their_sound_and_a_pixel_for_each_20_ms() -> None:
    pytest.importorskip("torch")
    from PIL import Image

    wave = np.float32(0.25 * np.sin(np.arange(8000) / 3))
    page = side_by_side({"step 0": wave, "step <1>": wave[:4000]}, 16_000).data
    assert page.count("<figure") == 2
    assert "step &lt;1&gt;" in page
    sounds = [base64.b64decode(each) for each in re.findall(r"data:audio/flac;base64,([^\"]+)", page)]
    read, rate = soundfile.read(io.BytesIO(sounds[0]))
    assert rate == 16_000
    np.testing.assert_allclose(read, wave, atol=1e-3)
    (first, second) = (
        Image.open(io.BytesIO(base64.b64decode(each)))
        for each in re.findall(r"data:image/png;base64,([^\"]+)", page)
    )
    assert first.size == (26, 80)
    assert second.size == (13, 80)
    # One tone is one bright line.
    rows = np.asarray(first).sum(axis=(1, 2))
    assert rows.max() > 3 * np.median(rows)
