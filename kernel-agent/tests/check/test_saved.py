"""Programs that one process compiled and another one loads, on XLA:CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tpulab.check.chips import PreflightError
from tpulab.check.saved import CompiledPrograms, difference
from tpulab.compile.cache_folder import COMPILED_AHEAD

SCRIPT = Path(__file__).with_name("ahead.py")
AS_TPU = {"AS_TPU": "1"}


def _process(word: str, file: Path, folder: Path | None = None, **environment: str) -> tuple[dict, str]:
    variables = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), word, str(file)],
        env={**os.environ, **variables, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "{}"), done.stderr


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ahead") / "step.compiled"
    _process("save", place)
    return place


def test_another_process_runs_the_program_without_compiling_it(file: Path) -> None:
    compiled, _ = _process("compile", file)
    loaded, _ = _process("load", file)
    assert (compiled["compiled"], loaded["compiled"]) == (1, 0)
    assert (loaded["loaded"], loaded["refused"]) == (["jit_step"], {})
    assert loaded["value"] == compiled["value"]


@pytest.mark.long
def test_a_kernel_takes_programs_from_the_folder_in_which_it_starts(file: Path, tmp_path: Path) -> None:
    place = tmp_path / COMPILED_AHEAD
    place.mkdir()
    (place / "step.compiled").write_bytes(file.read_bytes())
    compiled, _ = _process("compile", file, tmp_path)
    loaded, warned = _process("kernel", file, tmp_path, **AS_TPU)
    assert (compiled["compiled"], loaded["compiled"]) == (1, 0)
    assert loaded["value"] == compiled["value"]
    assert "compiled again" not in warned

    # Another folder, another kind of chip, a file that was cut: it compiles, and the last one is reported.
    assert _process("kernel", file, tmp_path.parent, **AS_TPU)[0]["compiled"] == 1
    with zipfile.ZipFile(file) as saved, zipfile.ZipFile(place / "step.compiled", "w") as other:
        for name in saved.namelist():
            facts, _, program = saved.read(name).partition(b"\n")
            other.writestr(name, facts.replace(b'"cpu"', b'"TPU v5 lite"') + _ + program)
    found, warned = _process("kernel", file, tmp_path, **AS_TPU)
    assert (found["compiled"], "compiled again" in warned) == (1, False)
    (place / "step.compiled").write_bytes(file.read_bytes()[:-100])
    found, warned = _process("kernel", file, tmp_path, **AS_TPU)
    assert (found["compiled"], "has no compiled programs" in warned) == (1, True)


def test_a_kernel_takes_no_program_that_another_user_could_have_written(file: Path, tmp_path: Path) -> None:
    place = tmp_path / COMPILED_AHEAD
    place.mkdir()
    program = place / "step.compiled"
    program.write_bytes(file.read_bytes())
    for other in (program, place):
        mode = other.stat().st_mode
        other.chmod(mode | 0o002)
        found, warned = _process("kernel", file, tmp_path, **AS_TPU)
        assert (found["compiled"], "another user could have written it" in warned) == (1, True)
        other.chmod(mode)
    assert _process("kernel", file, tmp_path, **AS_TPU)[0]["compiled"] == 0


def test_a_kernel_never_takes_machine_code_of_this_computer(file: Path, tmp_path: Path) -> None:
    # A repository or another machine can put the file there, and its user owns it then.
    place = tmp_path / COMPILED_AHEAD
    place.mkdir()
    (place / "step.compiled").write_bytes(file.read_bytes())
    found, warned = _process("kernel", file, tmp_path)
    assert (found["compiled"], "step.compiled" in warned) == (1, False)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"RATE": "0.2"}, "its code, shapes or settings have changed"),
        ({"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}, "--xla_cpu_enable_fast_math=true"),
        ({"JAX_DEFAULT_MATMUL_PRECISION": "highest"}, "its code, shapes or settings have changed"),
    ],
)
def test_another_program_or_flag_is_refused_with_its_reason_and_compiles(
    environment: dict[str, str], reason: str, file: Path
) -> None:
    found, warned = _process("load", file, **environment)
    assert (found["compiled"], found["loaded"]) == (1, [])
    assert reason in found["refused"]["jit_step"]
    assert f"jit_step is compiled again, not loaded from {file}" in warned


FACTS = {
    **{"jax": "0.10.2", "libtpu": "0.0.50", "compiler": "jaxlib 0.10.2, PJRT", "flags": ["--a"]},
    **{"devices": [["TPU v5 lite", [0, 0, 0, 0]], ["TPU v5 lite", [1, 0, 0, 0]]]},
    **{"options": "o", "program": "p"},
}


@pytest.mark.parametrize(
    ("here", "reason"),
    [
        ({"jax": "0.12.0.1"}, "with jax 0.10.2, and this is jax 0.12.0.1"),
        ({"libtpu": "0.0.52"}, "by libtpu 0.0.50, and this is libtpu 0.0.52"),
        ({"devices": [["TPU v6 lite", [0, 0, 0, 0]]]}, "for 2 TPU v5 lite, and this is 1 TPU v6 lite"),
        ({"devices": FACTS["devices"][::-1]}, "another order"),
        ({"compiler": "jaxlib 0.10.2, other"}, "by 'jaxlib 0.10.2, PJRT', and this is"),
        ({"flags": ["--b"]}, "--a --b"),
        ({"program": "q"}, "have changed"),
        ({"options": "p"}, "compile options"),
    ],
)
def test_each_difference_has_its_own_sentence(here: dict, reason: str) -> None:
    assert difference(FACTS, FACTS) is None
    found = difference(FACTS, FACTS | here)
    assert found is not None
    assert reason in found[1]


def test_the_program_for_this_machine_gives_the_reason() -> None:
    """Not the one for another chip, which is in the file too."""
    here = FACTS | {"program": "q"}
    other = FACTS | {"devices": [["TPU v6 lite", [0, 0, 0, 0]]]}
    assert max(filter(None, (difference(each, here) for each in (FACTS, other))))[1].endswith("changed")


def test_a_damaged_or_missing_file_gets_a_one_sentence_error(file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.compiled"
    cut.write_bytes(file.read_bytes()[:-100])
    for each in (cut, tmp_path / "none.compiled"):
        with pytest.raises(PreflightError, match="has no compiled programs") as refused:
            CompiledPrograms(each)
        assert refused.value.code == "compiled_unusable"
