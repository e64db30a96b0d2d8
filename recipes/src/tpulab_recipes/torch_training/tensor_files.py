"""Reads files of tensors, ours and other people's. None of their code is ever run: PyTorch files are read by
its weights-only unpickler, in the zip format and in the old one."""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tpulab_recipes.common.errors import CheckpointError
from tpulab_recipes.common.inputs import HEAD, foreign_kind

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".ckpt")


def read_tensors(
    place: str | Path | IO[bytes], shown: str = "", *, stand_ins: Mapping[str, type] | None = None
) -> Any:
    """The content of a `.safetensors` or PyTorch file, on the host: tensors and plain values.

    Args:
        place: a path, or an open file, which is called `shown` in errors.
        stand_ins: classes that are built instead of those of the file, by their full names there.

    Raises:
        CheckpointError: it is missing, damaged, something else, or needs code of its own to be read.
    """
    shown = shown or str(place)
    if isinstance(place, str | Path):
        try:
            with Path(place).open("rb") as file:
                return read_tensors(file, shown, stand_ins=stand_ins)
        except OSError as error:
            raise _unreadable(shown, f"{error.strerror}.") from error
    head = place.read(HEAD)
    place.seek(0)
    if kind := foreign_kind(head):
        raise _unreadable(shown, f"it {kind}.")
    if shown.endswith(".safetensors"):
        return _read_safetensors(place, shown)
    if head.startswith(b"PK\x03\x04") and not zipfile.is_zipfile(place):
        raise _unreadable(shown, "it is cut off; copy or download it again.")
    place.seek(0)
    return _read_pickle(place, shown, stand_ins or {})


def _read_safetensors(file: IO[bytes], shown: str) -> dict[str, Any]:
    from safetensors.torch import load

    data = file.read()
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError):
        ends = []
        if len(data) >= 8 + length:
            raise _unreadable(shown, "it is no safetensors file; its header is not JSON.") from None
    needed = 8 + length + max(ends, default=0)
    if len(data) < needed:
        raise _unreadable(
            shown, f"it is cut off, with {len(data)} bytes of at least {needed}; copy or download it again."
        )
    try:
        return dict(load(data))
    except Exception as error:  # safetensors' own errors have no public class.
        raise _unreadable(shown, f"it is no safetensors file ({error}).") from error


def _read_pickle(file: IO[bytes], shown: str, stand_ins: Mapping[str, type]) -> Any:
    import torch

    allowed = torch.serialization.safe_globals([(kind, name) for name, kind in stand_ins.items()])
    try:
        with warnings.catch_warnings(), allowed:
            # Another pickle protocol than torch's is read alike, or refused.
            warnings.simplefilter("ignore")
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load has no common class for damaged and foreign files.
        reason = str(error)
        if name := re.search(r"(?:GLOBAL|global|class|function) ([\w.]+\.\w+)", reason):
            raise _unreadable(
                shown,
                f"it holds an object of {name[1]}, for which its code would have to run; only tensors and "
                "plain values are read.",
            ) from None
        if isinstance(error, EOFError) or "central directory" in reason or "unexpected" in reason.lower():
            raise _unreadable(shown, "it is cut off or damaged; copy or download it again.") from None
        raise _unreadable(shown, f"it is no file of tensors ({type(error).__name__}).") from None


def _unreadable(shown: str, why: str) -> CheckpointError:
    return CheckpointError(f"{shown} cannot be read as a checkpoint: {why}")
