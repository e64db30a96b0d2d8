"""Which backend is chosen, and the error when it is unavailable. Each choice runs in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tpulab_recipes.runtime import installed_backends
from tpulab_recipes.runtime.chips import count_chips

INSTALLED = installed_backends()
needs_torch_xla = pytest.mark.skipif("torch_xla" not in INSTALLED, reason="torch_xla is not installed here")


def choose(call: str, **env: str) -> tuple[int, str]:
    """Exit code and last line of a process that prints what `use` chose, or the error's code and text."""
    program = (
        "from tpulab_recipes import runtime\n"
        f"try:\n    {call}\n    print(runtime.current().describe())\n"
        "except runtime.DeviceRuntimeError as error:\n"
        "    print(error.code + ': ' + str(error)); raise SystemExit(3)\n"
    )
    clean = {
        k: v for k, v in os.environ.items() if k not in ("PJRT_DEVICE", "TPULAB_BACKEND", "JAX_PLATFORMS")
    }
    command, environment = [sys.executable, "-c", program], {**clean, **env}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    lines = done.stdout.strip().splitlines() or [done.stderr[-500:]]
    return done.returncode, lines[-1]


def test_an_unknown_name_gets_the_nearest_one() -> None:
    code, text = choose("runtime.use('torch-xla')")
    assert (code, text.split(":")[0]) == (3, "unknown_backend")
    assert 'did you mean "torch_xla"?' in text


def test_an_error_names_the_environment_variable_that_chose_the_backend() -> None:
    assert "from TPULAB_BACKEND" in choose("runtime.use()", TPULAB_BACKEND="tensorflow")[1]


@pytest.mark.parametrize("name", INSTALLED)
def test_a_requested_but_missing_chip_is_an_error(name: str) -> None:
    if count_chips() > 0:
        pytest.skip("this machine has TPU chips")
    code, text = choose(f"runtime.use({name!r}, platform='tpu')")
    assert (code, text.split(":")[0]) == (3, "no_chip")


def test_a_folder_with_the_name_of_a_framework_does_not_count_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {"torch_tpu", "torch_xla", "jax", "cpu"} - set(INSTALLED)
    for name in missing - {"cpu"}:
        (tmp_path / name).mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert missing
    assert set(installed_backends()) == set(INSTALLED)


@needs_torch_xla
def test_a_variable_that_requests_a_chip_does_not_allow_running_on_the_host_cpu() -> None:
    if count_chips() > 0:
        pytest.skip("this machine has TPU chips")
    assert choose("runtime.use('torch_xla')", PJRT_DEVICE="TPU")[1].startswith("no_chip: PJRT_DEVICE=TPU")


@needs_torch_xla
def test_a_variable_that_contradicts_the_program_is_named() -> None:
    text = choose("runtime.use('torch_xla', platform='cpu')", PJRT_DEVICE="TPU")[1]
    assert text.startswith("wrong_platform: PJRT_DEVICE=TPU is set and cpu was requested")


@needs_torch_xla
def test_another_choice_later_is_refused_and_the_same_one_is_not() -> None:
    call = "a = runtime.use('torch_xla'); assert runtime.use() is a; runtime.use('torch_xla', spmd=True)"
    code, text = choose(call, TPULAB_BACKEND="torch_xla")
    assert (code, text.split(":")[0]) == (3, "too_late")
    assert "restart the kernel" in text


@needs_torch_xla
def test_one_program_cannot_be_requested_after_the_first_tensor() -> None:
    call = "import torch_xla; torch_xla.device(); runtime.use('torch_xla', spmd=True)"
    assert choose(call)[1].startswith("too_late: Tensors were made")


def test_a_framework_that_is_not_installed_is_named_with_its_environment() -> None:
    missing = [name for name in ("torch_tpu", "torch_xla", "jax") if name not in INSTALLED]
    if not missing:
        pytest.skip("every framework is installed here")
    code, text = choose(f"runtime.use({missing[0]!r})")
    assert (code, text.split(":")[0]) == (3, "framework_missing")
    assert "environment" in text


def test_importing_the_seam_imports_no_framework() -> None:
    program = (
        "import sys, tpulab_recipes.runtime; "
        "print([m for m in ('torch', 'jax', 'torch_xla') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "[]"


class TestChips:
    def test_no_chips_on_a_machine_without_any(self, tmp_path: Path) -> None:
        (tmp_path / "dev").mkdir()
        assert count_chips(tmp_path) == 0

    def test_accelerator_files_of_older_chips(self, tmp_path: Path) -> None:
        (tmp_path / "dev").mkdir()
        for number in range(4):
            (tmp_path / "dev" / f"accel{number}").touch()
        assert count_chips(tmp_path) == 4

    def test_vfio_groups_count_only_with_devices_of_google(self, tmp_path: Path) -> None:
        (tmp_path / "dev" / "vfio").mkdir(parents=True)
        for name in ("0", "1", "vfio"):
            (tmp_path / "dev" / "vfio" / name).touch()
        for number, vendor in enumerate(("0x1ae0", "0x10de")):
            device = tmp_path / "sys" / "bus" / "pci" / "devices" / f"0000:00:0{number}.0"
            device.mkdir(parents=True)
            (device / "vendor").write_text(f"{vendor}\n")
        assert count_chips(tmp_path) == 1
