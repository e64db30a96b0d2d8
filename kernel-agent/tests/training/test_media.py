"""Pictures, sound and text in `run.log`: small, bounded, and never a reason for a training to end."""

from __future__ import annotations

import base64
import io
import wave
from typing import Any

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from PIL import Image

import tpulab
from keeper_double import KeeperDouble
from tpulab.measure import media

matplotlib.use("agg")
from matplotlib import pyplot

pytestmark = pytest.mark.usefixtures("agent")


def pixels(medium: Any) -> np.ndarray:
    assert medium["mime"] == "image/png"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(medium["data"]))))


def logged(keeper: KeeperDouble, values: dict[str, Any]) -> dict[str, Any]:
    run = tpulab.run("media", log=False)
    for _ in run.steps(range(3)):
        run.log(loss=1.0)
    run.log(**values)
    run.finish()
    keeper.wait(keeper.ended_runs, "the end of the run")
    return {message["name"]: message for message in keeper.of_type("media")}


def test_pictures_of_all_kinds_reach_the_keeper_at_their_step(keeper: KeeperDouble) -> None:
    gradient = np.linspace(0, 1, 12 * 16 * 3, dtype="f4").reshape(12, 16, 3)
    figure = pyplot.figure(figsize=(30, 10))
    figure.gca().plot([1, 3, 2])
    found = logged(
        keeper,
        {
            "rgb": gradient,
            "bytes": (gradient * 255).astype("u1"),
            "gray": jnp.asarray(gradient[:, :, 0]),
            "mask": gradient[:, :, 0] > 0.5,
            "channels_first": gradient.transpose(2, 0, 1),
            "several": np.stack([gradient] * 5),
            "pil": Image.new("P", (40, 20), 3),
            "pil16": Image.fromarray((gradient[:, :, 0] * 65535).astype("u2")),
            "pil32": Image.fromarray((gradient[:, :, 0] * 255).astype("i4")),
            "pil_floats": Image.fromarray(gradient[:, :, 0] * 255),
            "deep": (gradient * 65535).astype("u2"),
            "figure": figure,
            "large": np.random.default_rng(0).integers(0, 256, (3000, 1500, 3)),
            "text": "a sample: " + "x" * 20_000,
            "sound": tpulab.audio(np.sin(np.arange(400_000) / 9), 22_050),
        },
    )
    assert {message["step"] for message in found.values()} == {2}
    np.testing.assert_allclose(pixels(found["rgb"]), gradient * 255, atol=0.6)
    for same in ("bytes", "channels_first"):
        np.testing.assert_allclose(pixels(found[same]), pixels(found["rgb"]), atol=1)
    np.testing.assert_allclose(pixels(found["gray"]), gradient[:, :, 0] * 255, atol=0.6)
    for same in ("pil16", "pil32", "pil_floats"):
        np.testing.assert_allclose(pixels(found[same]), pixels(found["gray"]), atol=1)
    np.testing.assert_allclose(pixels(found["deep"]), pixels(found["rgb"]), atol=1)
    assert set(np.unique(pixels(found["mask"]))) == {0, 255}
    assert pixels(found["several"]).shape == (24, 48, 3)
    assert pixels(found["pil"]).shape[:2] == (20, 40)
    assert 300 < max(pixels(found["figure"]).shape[:2]) <= media.MAX_SIDE
    assert found["text"]["data"].endswith("x…")
    with wave.open(io.BytesIO(base64.b64decode(found["sound"]["data"]))) as sound:
        assert (sound.getframerate(), sound.getnchannels()) == (22_050, 1)
    assert all(len(message["data"]) <= media.MAX_SOUND_BYTES * 4 / 3 + 4 for message in found.values())
    assert len(found["large"]["data"]) <= media.MAX_BYTES * 4 / 3 + 4


def test_a_value_that_is_neither_is_named_and_ends_no_training(keeper: KeeperDouble) -> None:
    freed = jnp.ones((4, 4))
    freed.delete()
    found = logged(
        keeper,
        {
            **{"vector": np.arange(3), "table": {"a": 1}, "many": np.ones((2, 2, 2, 2, 7)), "freed": freed},
            **{"empty": np.ones((0, 4)), "none": None, "number": "0.25"},
        },
    )
    assert found == {}
    keeper.wait(lambda: len(keeper.of_type("advice")) == 6, "six sentences")
    advice = {message["message"] for message in keeper.of_type("advice")}
    assert {text.split("`")[1] for text in advice} == {"vector", "table", "many", "freed", "empty", "none"}
    assert any("ndarray (int64, shape (3,)) is no number" in text for text in advice)
    assert any("height x width x 1 to 4 channels, not float32[2, 2, 2, 2, 7]" in text for text in advice)
    [figures] = keeper.of_type("figures")
    assert figures["metrics"] == {"number": 0.25}


def test_more_than_a_run_may_log_is_left_out_with_a_sentence(keeper: KeeperDouble) -> None:
    run = tpulab.run("flood", log=False)
    for _ in run.steps(range(60)):
        run.log(sample=np.zeros((8, 8)), loss=1.0)
    run.finish()
    keeper.wait(keeper.ended_runs, "the end of the run")
    sent = keeper.of_type("media")
    assert media.BURST <= len(sent) < 60
    assert [message["step"] for message in sent[: media.BURST]] == list(range(media.BURST))
    [advice] = keeper.wait(lambda: keeper.of_type("advice"), "the sentence")
    assert "`sample` of flood is left out: a run has 16 pictures at once" in advice["message"]
    assert len(keeper.steps()) == 60


@pytest.mark.parametrize("value", [None, 3, "text", np.arange(4), {"a": 1}, np.ones((2, 2, 9))])
def test_an_invalid_picture_is_refused_where_it_is_named_one(value: Any) -> None:
    with pytest.raises(tpulab.MediaError, match="picture"):
        tpulab.image(value)
    with pytest.raises(tpulab.MediaError, match="one dimension"):
        tpulab.audio(np.ones((3, 4)), 16_000)
    with pytest.raises(tpulab.MediaError, match="rate"):
        tpulab.audio(np.ones(30), 0)
    with pytest.raises(tpulab.MediaError, match="16 bits: 0 to 65536"):
        tpulab.audio(np.arange(0, 2**17, 2**16), 16_000)
    assert tpulab.audio(jnp.ones(30, jnp.bfloat16), 16_000) == tpulab.audio(np.ones(30), 16_000)
