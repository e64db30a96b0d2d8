"""The log writers with the real packages: what was written is read back from their files."""

from __future__ import annotations

import io
import json
import math
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpulab_recipes.common.errors import ConfigError, MissingPackage
from tpulab_recipes.common.log_writers import (
    JsonLines,
    TensorBoard,
    WeightsAndBiases,
    checked_wandb,
    read_json_lines,
)
from tpulab_recipes.common.storage import Folder

PICTURE = np.linspace(-1, 1, 4 * 5 * 3, dtype=np.float32).reshape(4, 5, 3)


def test_json_lines_hold_every_figure_and_null_for_non_finite_ones(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    writer = JsonLines(Folder(str(tmp_path)))
    writer.figures(1, {"loss": 0.5, "norm": math.inf})
    writer.figures(2, {"loss": 0.25})
    writer.picture(2, "sample", PICTURE)
    writer.close()
    first, second = read_json_lines(str(tmp_path))
    assert (first["step"], first["loss"], first["norm"]) == (1, 0.5, None)
    assert (second["step"], second["loss"]) == (2, 0.25)
    assert (tmp_path / "sample_0000002.png").read_bytes().startswith(b"\x89PNG")


def test_json_lines_count_a_repeated_step_once(tmp_path: Path) -> None:
    writer = JsonLines(Folder(str(tmp_path)))
    for loss in (0.5, 0.4):
        writer.figures(1, {"loss": loss})
    assert [row["loss"] for row in read_json_lines(str(tmp_path))] == [0.4]


def records(file: Path) -> Iterator[bytes]:
    """The records of a TFRecord file: length (8 bytes), checksum (4), data, checksum (4)."""
    left = file.read_bytes()
    while left:
        (length,) = struct.unpack("<Q", left[:8])
        yield left[12 : 12 + length]
        left = left[16 + length :]


def test_tensorboards_event_files_hold_figures_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    writer = TensorBoard(str(tmp_path))
    writer.figures(3, {"loss": 0.5, "learning_rate": 0.25})
    writer.picture(3, "sample", PICTURE)
    writer.close()
    (file,) = tmp_path.iterdir()
    events = [Event.FromString(record) for record in records(file)]
    values = [(event.step, value) for event in events for value in event.summary.value]
    assert {(step, value.tag) for step, value in values} == {
        (3, "loss"),
        (3, "learning_rate"),
        (3, "sample"),
    }
    figures = {value.tag: value.simple_value for _, value in values if not value.HasField("image")}
    assert figures == {"loss": 0.5, "learning_rate": 0.25}
    (picture,) = (value.image for _, value in values if value.HasField("image"))
    assert (picture.height, picture.width) == (4, 5)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "installer", "failure"),
    [
        ("y\n", "open({module!r}, 'w').write('def login(): return True')", None),
        ("yes\n", "raise SystemExit(1)", "its installation failed"),
        ("\n", "", "install it with"),
        (None, "", "install it with"),
    ],
)
def test_a_missing_wandb_is_installed_where_the_user_at_a_terminal_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str | None, installer: str, failure: str | None
) -> None:
    """With a program in the place of pip: what the command is, and that nothing runs without a yes."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.syspath_prepend(str(tmp_path))
    ran: list[list[str]] = []
    run = subprocess.run

    def run_installer(command: list[str], **options: Any) -> Any:
        ran.append(command)
        monkeypatch.delitem(sys.modules, "wandb")
        program = installer.format(module=str(tmp_path / "wandb.py"))
        return run([sys.executable, "-c", program], **options)

    monkeypatch.setattr(subprocess, "run", run_installer)
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdin", io.StringIO() if typed is None else _Terminal(typed))
    if failure is None:
        assert checked_wandb().__file__ == str(tmp_path / "wandb.py")
    else:
        with pytest.raises((ConfigError, MissingPackage), match=failure):
            checked_wandb()
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    install = [[sys.executable, "-m", "pip", "install", "wandb"]]
    assert ran == (install if (typed or "").startswith("y") else [])
    assert ("Run this command now? [y/N]" in terminal.getvalue()) == (typed is not None)


def log_records(file: Path) -> Iterator[bytes]:
    """The records of a .wandb file: 7 bytes, then LevelDB's log format (blocks of 32 KiB; checksum, length,
    kind, data), here in its first block."""
    data, at = file.read_bytes(), 7
    assert len(data) < 32_768
    while at < len(data):
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        assert kind == 1, "only whole records"
        yield data[at + 7 : at + 7 + length]
        at += 7 + length


def test_an_offline_run_of_weights_and_biases_holds_figures_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb: Any = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    for name, value in (("MODE", "offline"), ("SILENT", "true"), ("DATA_DIR", str(tmp_path / "data"))):
        monkeypatch.setenv(f"WANDB_{name}", value)
    try:
        writer = WeightsAndBiases("tests", "one", str(tmp_path), {"batch_size": 8})
        writer.figures(1, {"train/loss": 0.5})
        writer.figures(2, {"train/loss": 0.25})
        writer.close()
    finally:
        wandb.teardown()
    (file,) = tmp_path.glob("wandb/offline-run-*/run-one.wandb")
    rows, settings = [], {}
    for data in log_records(file):
        record = Record.FromString(data)
        items = {
            "/".join(each.nested_key) or each.key: json.loads(each.value_json) for each in record.history.item
        }
        if items:
            rows.append((items["_step"], items["train/loss"]))
        for each in record.run.config.update:
            settings[each.key] = json.loads(each.value_json)
    assert rows == [(1, 0.5), (2, 0.25)]
    assert settings["batch_size"] == 8


def test_a_run_of_weights_and_biases_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case D18: a name that is no id ended the training."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("lr=3e-4: try #2 / a?%", "first"):
        writer = WeightsAndBiases("p", name, str(tmp_path), {})
        run = wandb.run
        assert run.name == name
        assert re.fullmatch(r"[A-Za-z0-9_-]+", run.id)
        writer.close()
