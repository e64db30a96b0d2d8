"""Local folders with more than plain files."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tpulab_recipes.common import storage
from tpulab_recipes.common.errors import StorageError
from tpulab_recipes.common.storage import Folder, only_writer


def test_a_read_only_disk_is_named_not_the_file_that_was_to_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Any, *_: Any) -> Any:
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(storage, "open", refuse, raising=False)
    monkeypatch.setattr(os, "remove", refuse)
    with pytest.raises(StorageError, match=r"a\.wav: Read-only file system"):
        Folder(tmp_path).put("a.wav", b"")


def test_links_count_as_their_targets_and_broken_ones_are_named(tmp_path: Path) -> None:
    """Linked sound was not seen at all; a pipe would be waited for."""
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.wav").write_bytes(b"sound")
    (place / "linked.wav").symlink_to(tmp_path / "elsewhere/a.wav")
    (place / "folder.wav").symlink_to(tmp_path / "elsewhere")
    (place / "gone.wav").symlink_to("nowhere")
    (place / "loop.wav").symlink_to("loop.wav")
    os.mkfifo(place / "pipe.wav")
    folder = Folder(place)
    assert folder.names(".wav") == ["gone.wav", "linked.wav", "loop.wav"]
    assert folder.names(".wav", kind="directory") == ["folder.wav"]
    assert {"linked.wav", "gone.wav", "loop.wav"} <= set(folder.tree())
    assert "pipe.wav" not in folder.tree()
    assert folder.get("linked.wav") == b"sound"
    with pytest.raises(StorageError, match=r"gone\.wav does not exist"):
        folder.get("gone.wav")
    with pytest.raises(StorageError, match=r"loop\.wav: .*symbolic links"):
        folder.get("loop.wav")


def test_a_text_may_name_a_file_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    Folder(tmp_path).put("left_out.txt", os.fsdecode(b"bad\xff.wav: no text\n"))
    assert (tmp_path / "left_out.txt").read_text() == "bad\\udcff.wav: no text\n"


def test_two_trainings_cannot_write_to_one_folder(tmp_path: Path) -> None:
    with only_writer(tmp_path / "run"), only_writer(tmp_path / "other"):
        refused = pytest.raises(StorageError, match="run: another training writes to this folder; wait")
        with refused, only_writer(tmp_path / "run"):
            pass
    with only_writer(tmp_path / "run"):
        assert list((tmp_path / "run").iterdir()) == []
