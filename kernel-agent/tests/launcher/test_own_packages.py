"""X1: packages installed by a cell are in the environment of its kernel, whatever is first in PATH."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_process import KernelProcess


def _wheel(folder: Path, name: str) -> Path:
    file = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"{name}.py", "version = '1.0'\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return file


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment without pip, which sees the packages of this one."""
    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    [site] = place.glob("lib/python*/site-packages")
    paths = [each for each in sys.path if each.endswith("src") or each == sysconfig.get_path("purelib")]
    # As in an independent environment: the folder's own packages come first.
    (site / "kernel.pth").write_text("\n".join(paths))
    return place


@pytest.fixture
def kernel(short_folder: Path, environment: Path, tmp_path: Path) -> Iterator[KernelProcess]:
    other = tmp_path / "other" / "bin"
    other.mkdir(parents=True)
    for name in ("python", "pip"):
        (other / name).write_text("#!/bin/sh\necho another one\n")
        (other / name).chmod(0o755)
    env = {"PATH": f"{other}:{os.environ['PATH']}", "VIRTUAL_ENV": str(tmp_path / "other")}
    with KernelProcess(short_folder, env=env, python=str(environment / "bin" / "python")) as process:
        yield process


@pytest.mark.long
def test_pip_as_a_magic_and_as_a_program_installs_where_the_kernel_imports(
    kernel: KernelProcess, environment: Path, tmp_path: Path
) -> None:
    first, second = _wheel(tmp_path, "tinyfirst"), _wheel(tmp_path, "tinysecond")
    offline = "--no-index --disable-pip-version-check"
    assert "another one" not in kernel.run(f"!pip install {offline} {first}")
    assert kernel.run("import tinyfirst; print(tinyfirst.version)") == "1.0\n"
    kernel.run(f"%pip install {offline} {second}")
    assert kernel.run("import tinysecond; print(tinysecond.__file__)").startswith(str(environment))
    lines = kernel.run("!which python pip; python -c 'import sys; print(sys.prefix)'").split()
    own = environment / "bin"
    assert [os.path.dirname(line) for line in lines[:2]] == [str(own), str(own)]
    assert lines[2] == str(environment)


def test_conda_answers_with_the_line_that_works(kernel: KernelProcess) -> None:
    assert kernel.run("%conda install -y cowsay").endswith("Use: %pip install cowsay\n")


def test_uv_acts_on_the_environment_of_the_kernel(
    kernel: KernelProcess, environment: Path, tmp_path: Path
) -> None:
    # A stand-in prints its arguments; the real one is tested where environments are created.
    uv = tmp_path / "other" / "bin" / "uv"
    uv.write_text('#!/bin/sh\necho "$VIRTUAL_ENV: $@"\n')
    uv.chmod(0o755)
    assert kernel.run("%uv pip install cowsay").strip() == f"{environment}: pip install cowsay"
    assert kernel.run("!uv pip list").strip() == f"{environment}: pip list"
