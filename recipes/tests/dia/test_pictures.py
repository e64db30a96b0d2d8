"""The picture of the delay pattern shows the table that the model reads."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tpulab_recipes.audio.pictures import show_delay
from tpulab_recipes.dia.data import Layout, training_table


def test_each_cell_names_its_code_and_each_frame_has_one_colour() -> None:
    layout = Layout((0, 2, 3), eos=64, pad=65, bos=66)
    codes = np.random.default_rng(0).integers(0, 64, (5, 3))
    special = {"EOS": 64, "PAD": 65, "BOS": 66}
    above, below = show_delay(codes, lambda each: training_table(each, layout, 10)[0], special).axes
    assert [text.get_text() for text in above.texts] == [str(code) for code in codes.ravel()]

    table, _ = training_table(codes, layout, 10)
    names = {64: "EOS", 65: "", 66: "BOS"}
    assert [text.get_text() for text in below.texts] == [names.get(int(c), str(c)) for c in table.ravel()]
    frames, moved = (np.asarray(axes.images[0].get_array()) for axes in (above, below))
    for channel, late in enumerate(layout.delay):
        np.testing.assert_array_equal(moved[channel, 1 + late : 6 + late], frames[channel, :5])
