"""The kernelspecs of slices: written, listed and removed. Each has its slice beside it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from tpulab.slice.errors import SliceError
from tpulab.slice.spec import PREFIX, SliceSpec

_SPEC_FILE = "slice.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,60}")


def kernels_folder() -> Path:
    return Path(jupyter_data_dir()) / "kernels"


def add(spec: SliceSpec, folder: Path | None = None) -> Path:
    """Writes the kernelspec, and replaces one of the same name. Returns its folder."""
    if not _NAME.fullmatch(spec.name):
        raise SliceError(
            f"invalid name {spec.name!r}: use at most 61 lowercase letters, digits, '.', '_', '-'"
        )
    home = (folder or kernels_folder()) / spec.kernel
    home.mkdir(parents=True, exist_ok=True)
    spec.save(home / _SPEC_FILE)
    kernelspec = {
        "argv": [
            *(sys.executable, "-Xfrozen_modules=off", "-m", "tpulab.slice", "lead"),
            *(str(home / _SPEC_FILE), "-f", "{connection_file}"),
        ],
        "display_name": spec.title,
        "language": "python",
        "metadata": {"debugger": False, "framework": spec.framework},
    }
    (home / "kernel.json").write_text(json.dumps(kernelspec, indent=1, ensure_ascii=False))
    return home


def known(folder: Path | None = None) -> list[SliceSpec]:
    return [SliceSpec.load(path) for path in _files(folder)]


def remove(name: str, folder: Path | None = None) -> None:
    """All kernels of the slice."""
    homes = [path.parent for path in _files(folder) if SliceSpec.load(path).name == name]
    if not homes:
        raise SliceError(f"There is no slice {name!r}; `python -m tpulab.slice list` shows the slices.")
    for home in homes:
        shutil.rmtree(home)


def _files(folder: Path | None) -> list[Path]:
    return sorted((folder or kernels_folder()).glob(f"{PREFIX}*/{_SPEC_FILE}"))
