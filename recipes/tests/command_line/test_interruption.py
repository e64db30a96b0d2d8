"""Signals that end a command: one sentence, a checkpoint that resumes, the shell's exit status."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpulab_recipes.common.interruption import _PAIR_S

#: A module that is run as a recipe is: `python -m tpulab_recipes.NAME`.
_COMMAND = """
import sys, time
from pathlib import Path
from tpulab_recipes.common.command_line import exit_status
from tpulab_recipes.common.interruption import Interrupted, requested, stoppable

class Ending:
    def __del__(self):
        print("ready", flush=True)
        time.sleep(60)

def run():
    kind = sys.argv[1]
    if kind == "trains":
        with stoppable():
            print("ready", flush=True)
            while not requested():
                time.sleep(0.01)
            time.sleep(float(sys.argv[2]))
            print("more figures", flush=True)
            Path(sys.argv[3]).write_text("checkpoint")
            raise Interrupted(" after step 7, saved in here")
    elif kind == "in a destructor":
        Ending()
        print("went on", flush=True)
    else:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            if kind == "converted":
                raise ValueError("a callback failed: KeyboardInterrupt")
            raise

sys.exit(exit_status(run))
"""
_SAVED = "\nInterrupted after step 7, saved in here; run the same command again to resume.\n"
_PLAIN = "\nInterrupted; run the same command again to resume.\n"


@pytest.fixture(autouse=True)
def _ctrl_c_is_not_ignored() -> Iterator[None]:
    """A shell has the processes ignore it that it runs in the background, the tests too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _started(
    folder: Path, *arguments: str, through: tuple[str, ...] = (), **options: object
) -> subprocess.Popen[str]:
    (folder / "command.py").write_text(_COMMAND)
    # The package is imported as `python -m` of one of its modules imports it.
    start = "import sys, runpy; args = sys.argv[1:]; sys.argv[0] = '-m'; import tpulab_recipes; "
    start += "sys.argv = ['command', *args[1:]]; runpy.run_path(args[0])"
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [*through, sys.executable, "-c", start, str(folder / "command.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, text=True, env=environment, **options)  # type: ignore[call-overload,no-any-return]


def _ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_lets_a_training_save_its_step(number: signal.Signals, status: int, tmp_path: Path) -> None:
    file = tmp_path / "step"
    process = _started(tmp_path, "trains", "0.2", str(file))
    _ready(process)
    process.send_signal(number)
    process.send_signal(number)  # As of a launcher that forwards the terminal's.
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (status, "more figures\n", _SAVED)
    assert file.read_text() == "checkpoint"


def test_a_second_signal_does_not_wait_for_the_step(tmp_path: Path) -> None:
    process = _started(tmp_path, "trains", "60", str(tmp_path / "step"))
    _ready(process)
    process.send_signal(signal.SIGINT)
    time.sleep(_PAIR_S + 0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "\nInterrupted before its step was saved; run the same command again to resume.\n"


@pytest.mark.parametrize("kind", ["waits", "converted", "in a destructor"])
def test_an_interrupt_is_one_sentence_wherever_it_arrives(kind: str, tmp_path: Path) -> None:
    process = _started(tmp_path, kind)
    _ready(process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (143, "", _PLAIN)


def test_a_training_in_a_closed_terminal_is_saved(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    file = tmp_path / "step"
    process = _started(
        tmp_path,
        "trains",
        "0.5",
        str(file),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    assert os.read(ours, 100).startswith(b"ready")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    os.close(ours)  # From now on, writing to the terminal fails.
    assert process.wait(timeout=30) == 129
    assert file.read_text() == "checkpoint"


def test_a_signal_that_the_parent_ignores_stays_ignored(tmp_path: Path) -> None:
    process = _started(
        tmp_path,
        "trains",
        "0",
        str(tmp_path / "step"),
        through=("nohup",),
    )
    _ready(process)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith(_SAVED)


def test_the_launcher_of_processes_ends_without_a_traceback(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    launch = [
        sys.executable,
        "-m",
        "tpulab_recipes.runtime.torch_launch",
        "--nproc-per-node",
        "2",
        str(script),
    ]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script.write_text("import time; print('ready', flush=True); time.sleep(60)")
    process: subprocess.Popen[str] = subprocess.Popen(launch, env=environment, **options)  # type: ignore[call-overload]
    _ready(process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (143, False), err
    script.write_text("import sys; sys.exit(3)")
    ended = subprocess.run(launch, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False), ended.stderr
    assert "ended with exit code 3" in ended.stderr


def test_a_command_whose_output_is_no_longer_read_ends_as_other_programs_do(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(
        "import sys\nfrom tpulab_recipes.common.command_line import exit_status\n"
        "sys.exit(exit_status(lambda: [print(n) for n in range(100_000)]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "prints"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        assert (process.wait(60), process.stderr.read() if process.stderr else "") == (141, "")
