"""Tensors of torch_xla as pictures and sound of a run: the same as numpy's arrays of the same values."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import torch_xla
import tpulab
from keeper_double import KeeperDouble

pytestmark = pytest.mark.usefixtures("agent")


def test_tensors_of_each_type_are_the_pictures_and_the_sound_of_their_arrays(keeper: KeeperDouble) -> None:
    gradient = np.linspace(0, 1, 16 * 12 * 3, dtype="f4").reshape(16, 12, 3)
    wave = np.sin(np.arange(800) / 9).astype("f4")
    integers = (gradient * 255).astype("u1")
    values: dict[str, Any] = {
        "floats": gradient,
        "channels_first": gradient.transpose(2, 0, 1),
        "bytes": integers,
        "longs": integers.astype("i8"),
        "mask": gradient[:, :, 0] > 0.5,
        "batch": np.stack([gradient.transpose(2, 0, 1)] * 3),
    }
    device = torch_xla.device()
    run = tpulab.run("tensors", log=False)
    for _ in run.steps(range(2)):
        run.log(loss=torch.ones((), device=device))
    run.log(**{name: torch.from_numpy(value.copy()).to(device) for name, value in values.items()})
    run.log(
        bfloat16=torch.from_numpy(gradient).to(device, torch.bfloat16),
        parameter=torch.nn.Parameter(torch.from_numpy(gradient).to(device)),
        sound=tpulab.audio(torch.from_numpy(wave).to(device), 8000),
        samples=tpulab.audio((torch.from_numpy(wave) * 32767).to(torch.int16), 8000),
    )
    run.finish()
    keeper.wait(keeper.ended_runs, "the end of the run")
    found = {message["name"]: message["data"] for message in keeper.of_type("media")}
    for name, value in values.items():
        assert found[name] == tpulab.image(value).data, name
    assert found["parameter"] == found["floats"]
    np.testing.assert_allclose(pixels(found["bfloat16"]), pixels(found["floats"]), atol=1)
    assert found["samples"] == found["sound"] == tpulab.audio(wave, 8000).data


def pixels(data: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))).astype(int)
