"""The delay pattern and the labels, against the original's and transformers' arrays."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("transformers.models.dia")

from tpulab_recipes.dia.data import IGNORED, Layout, delayed, reverted, training_table

from .reference import golden

DELAY = (0, 8, 9, 10, 11, 12, 13, 14, 15)
LAYOUT = Layout(DELAY, eos=1024, pad=1025, bos=1026)


def _extended(codes: np.ndarray, delay: tuple[int, ...]) -> np.ndarray:
    return np.pad(codes, ((0, 0), (0, max(delay)), (0, 0)), constant_values=1025)


@pytest.mark.parametrize(
    ("name", "key", "delay"), [("default", "codes", DELAY), ("short", "codes_short", (0, 1, 3))]
)
def test_delays_and_reverts_like_the_original(name: str, key: str, delay: tuple[int, ...]) -> None:
    file = golden("delay")
    codes = file[f"in/{key}"]
    np.testing.assert_array_equal(delayed(codes, delay, 1026), file[f"out/{name}/applied"])
    table = delayed(_extended(codes, delay), delay, 1026)
    np.testing.assert_array_equal(table, file[f"out/{name}/extended"])
    np.testing.assert_array_equal(reverted(table, delay, 1025), file[f"out/{name}/hf_reverted"])
    np.testing.assert_array_equal(
        reverted(delayed(codes, delay, 1026), delay, 1025), file[f"out/{name}/hf_reverted_cut"]
    )
    np.testing.assert_array_equal(reverted(table, delay, 1025)[:, : codes.shape[1]], codes)


def test_labels_match_transformers() -> None:
    file = golden("hf_train")
    long, short = file["in/codes0"], file["in/codes1"]
    their_inputs, their_labels = file["out/real/decoder_input_ids"], file["out/real/labels"].reshape(2, 9, -1)
    inputs, labels = training_table(long, LAYOUT, 28)
    np.testing.assert_array_equal(inputs, their_inputs[0])
    np.testing.assert_array_equal(labels, their_labels[0].T)
    # They pad the shorter clip on the left, and we on the right; the clip itself is the same.
    inputs, labels = training_table(short, LAYOUT, 28)
    assert (labels[23:] == IGNORED).all()
    np.testing.assert_array_equal(inputs[:23], their_inputs[1, 5:])
    np.testing.assert_array_equal(labels[:23], their_labels[1].T[5:])


def test_the_flaws_of_earlier_fine_tuners_are_absent() -> None:
    codes = np.random.default_rng(0).integers(0, 1024, (40, 9))
    inputs, labels = training_table(codes, LAYOUT, 128)
    assert ((labels == LAYOUT.eos).sum(0) == 1).all(), "each channel learns its end"
    for channel, late in enumerate(DELAY):
        learnt = labels[:, channel]
        np.testing.assert_array_equal(learnt[late : late + 40], codes[:, channel], "no code is cut off")
    assert not np.isin(labels, [LAYOUT.bos, LAYOUT.pad]).any(), "neither BOS nor PAD is a target"
    assert (inputs[0] == LAYOUT.bos).all()


def test_a_clip_that_does_not_fit_is_refused() -> None:
    codes = np.zeros((113, 9), np.int16)
    with pytest.raises(ValueError, match="113 frames do not fit 128 rows"):
        training_table(codes, LAYOUT, 128)
    assert training_table(codes[:112], LAYOUT, 128)[1][-1, 8] == LAYOUT.eos


def test_the_layout_is_the_configuration_s() -> None:
    from tpulab_recipes.dia.model import tiny_model

    assert Layout.of(tiny_model().config) == LAYOUT
    assert json.loads(str(golden("delay")["meta"]))["config"]["delay_pattern"] == list(DELAY)
