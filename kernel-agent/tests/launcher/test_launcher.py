"""The launcher starts the same kernel as ipykernel, except for its additional guarantees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import zmq
from ipykernel import subshell_manager
from ipykernel.kernelapp import IPKernelApp

from keeper_double import PATIENCE_S, wait_until
from kernel_process import LAUNCHER, STOCK, KernelProcess
from tpulab.launcher.__main__ import drop_working_directory
from tpulab.launcher.lossless_iopub import (
    IopubHookError,
    LosslessContext,
    LosslessKernelApp,
    UnboundedPair,
)

FLOOD = 20_000
HERE = Path(__file__).parents[1]


def delivered(folder: Path, launcher: tuple[str, ...]) -> int:
    """Number of outputs of a flood that reach a reader which is stopped (SIGSTOP) while the kernel prints."""
    with KernelProcess(folder, launcher) as kernel:
        info = kernel.client.get_connection_info()
        endpoint = f"ipc://{info['ip']}-{info['iopub_port']}"
        reader = subprocess.Popen(
            [sys.executable, str(HERE / "stalling_reader.py"), endpoint], stdout=subprocess.PIPE, text=True
        )
        assert reader.stdout is not None
        try:
            kernel.run("from IPython.display import display")
            while not _readable(reader):
                kernel.run("None")
            assert reader.stdout.readline() == "ready\n"
            os.kill(reader.pid, signal.SIGSTOP)
            kernel.finish(
                f"for n in range({FLOOD}): display({{'text/plain': str(n)}}, raw=True)", patience_s=300
            )
            os.kill(reader.pid, signal.SIGCONT)
            # Repeated until it arrives: without the launcher the first ones may be dropped too.
            while not _readable(reader):
                kernel.finish("display({'text/plain': 'END'}, raw=True)")
            return int(reader.stdout.readline())
        finally:
            reader.kill()
            reader.wait()
            reader.stdout.close()


def _readable(reader: subprocess.Popen[str]) -> bool:
    poller = zmq.Poller()
    poller.register(reader.stdout, zmq.POLLIN)
    return bool(poller.poll(200))


def test_a_reader_that_stalls_during_a_flood_gets_every_output(short_folder: Path) -> None:
    assert delivered(short_folder, LAUNCHER) == FLOOD


@pytest.mark.long
def test_the_same_reader_loses_outputs_of_a_stock_kernel(short_folder: Path) -> None:
    # If this ever fails, ipykernel no longer drops, and the launcher's hook can be removed.
    assert delivered(short_folder, STOCK) < FLOOD


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_cell_waits_for_its_reader_when_that_is_chosen_and_loses_nothing(
    how: str, short_folder: Path
) -> None:
    launcher = (*LAUNCHER, "--LosslessKernelApp.iopub_mark=100")
    env = {"TPULAB_IOPUB_QUEUE": "block"} if how == "variable" else {}
    if how == "option":
        launcher = (*launcher, "--LosslessKernelApp.iopub_queue=block")
    count, lines = short_folder / "count", 5_000
    code = (
        f"out = open({str(count)!r}, 'w')\n"
        f"for n in range({lines}):\n    print(n, 'x' * 4000, flush=True)\n    print(n, file=out, flush=True)"
    )
    with KernelProcess(short_folder, launcher, env=env) as kernel:
        info = kernel.client.get_connection_info()
        with zmq.Context() as context, context.socket(zmq.SUB) as reader:
            reader.setsockopt(zmq.RCVHWM, 1)
            reader.setsockopt(zmq.SUBSCRIBE, b"stream")
            reader.connect(f"ipc://{info['ip']}-{info['iopub_port']}")
            while not reader.poll(200):
                kernel.run("print('are you there?')")
            kernel.client.iopub_channel.stop()  # it would be a reader that never reads
            request = kernel.client.execute(code)
            stood: set[str] = set()

            def stands_still() -> bool:
                seen = count.read_text() if count.exists() else ""
                repeated = seen in stood and bool(seen)
                stood.add(seen)
                time.sleep(1)
                return repeated

            wait_until(stands_still, "the cell to wait for its reader")
            assert len(count.read_text().split()) < lines
            got: list[int] = []
            text = ""
            while len(got) < lines:
                assert reader.poll(60_000), f"{len(got)} lines have come"
                frames = reader.recv_multipart()
                at = frames.index(b"<IDS|MSG>")
                if request.encode() in frames[at + 3]:
                    text += json.loads(frames[at + 5])["text"]
                    *whole, text = text.split("\n")
                    got += [int(line.split()[0]) for line in whole]
            assert got == list(range(lines))


def test_the_kernel_sees_the_arguments_and_the_path_that_ipykernel_would_give_it(short_folder: Path) -> None:
    code = "import sys, os; print(sys.path[0] == '', os.getcwd() in sys.path, type(get_ipython()).__name__)"
    seen = []
    for number, launcher in enumerate((LAUNCHER, STOCK)):
        folder = short_folder / str(number)
        folder.mkdir()
        with KernelProcess(folder, launcher) as kernel:
            seen.append(kernel.run(code))
    assert seen[0] == seen[1]
    assert "ZMQInteractiveShell" in seen[0]


def test_options_of_ipykernel_are_accepted(short_folder: Path) -> None:
    options = (*LAUNCHER, "--IPKernelApp.exec_lines=answer=42")
    with KernelProcess(short_folder, options) as kernel:
        assert kernel.run("print(answer)") == "42\n"


def test_files_beside_the_notebook_do_not_shadow_modules_while_the_kernel_starts(short_folder: Path) -> None:
    for name in ("random", "socket", "typing", "json", "zmq", "queue"):
        (short_folder / f"{name}.py").write_text("raise RuntimeError('shadowed')\n")
    (short_folder / "mine.py").write_text("value = 7\n")
    with KernelProcess(short_folder) as kernel:
        assert kernel.run("import mine; print(mine.value)") == "7\n"


def test_the_kernel_starts_when_the_agent_cannot(short_folder: Path) -> None:
    (short_folder / "sitecustomize.py").write_text("import sys; sys.modules['tpulab.agent'] = None\n")
    with KernelProcess(short_folder, env={"PYTHONPATH": str(short_folder)}) as kernel:
        assert kernel.run("print(1 + 1)") == "2\n"
    lines = [line for line in kernel.log_text().splitlines() if "tpulab" in line]
    assert len(lines) == 1, lines
    assert "the agent did not start" in lines[0]


def test_the_kernel_starts_when_the_socket_is_missing(short_folder: Path) -> None:
    env = {"TPULAB_AGENT_SOCKET": str(short_folder / "nobody.sock")}
    with KernelProcess(short_folder, env=env) as kernel:
        assert kernel.run("import tpulab; print(list(tpulab.steps([1])))") == "[1]\n"
        assert kernel.shut_down() == 0


def test_the_working_directory_is_dropped_in_each_of_its_spellings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for spelling in ("", str(tmp_path), os.path.realpath(tmp_path)):
        path = [spelling, "/elsewhere"]
        drop_working_directory(path)
        assert path == ["/elsewhere"]
    path = ["/elsewhere"]
    drop_working_directory(path)
    assert path == ["/elsewhere"]


def test_the_send_mark_is_lifted_for_publishers_only() -> None:
    with zmq.Context() as context:
        proxy = LosslessContext(context)
        for kind, mark in ((zmq.XPUB, 0), (zmq.ROUTER, 1000)):
            with proxy.socket(kind) as made:
                assert made.getsockopt(zmq.SNDHWM) == mark
        assert len(proxy.publishers) == 1
        assert proxy.underlying == context.underlying


@pytest.mark.parametrize("change", ["makes none", "makes two", "publishes elsewhere"])
def test_an_ipykernel_that_works_differently_is_refused_with_a_sentence(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class IopubThread:
        socket: object = None

    def init_iopub(app: IPKernelApp, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        made = [context.socket(zmq.XPUB) for _ in range({"makes none": 0, "makes two": 2}.get(change, 1))]
        app.iopub_thread = IopubThread()
        monkeypatch.setattr(IopubThread, "socket", made if change == "publishes elsewhere" else made[:1])

    monkeypatch.setattr(IPKernelApp, "init_iopub", init_iopub)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        with pytest.raises(IopubHookError, match="supports ipykernel 7"):
            LosslessKernelApp().init_iopub(context)
    finally:
        context.destroy(linger=0)


def test_a_kernel_that_would_lose_output_ends_with_an_exit_code(short_folder: Path) -> None:
    (short_folder / "sitecustomize.py").write_text(
        "import ipykernel.kernelapp as k\n"
        "k.IPKernelApp.init_iopub = lambda self, context: setattr(self, 'iopub_thread', None)\n"
    )
    kernel = KernelProcess(short_folder, env={"PYTHONPATH": str(short_folder)})
    wait_until(lambda: kernel.process.poll() is not None, "the kernel to end")
    assert kernel.process.returncode != 0
    assert "Cannot make iopub lossless" in kernel.log_text()


# A01
def test_a_text_with_half_a_character_arrives_and_is_utf_8(short_folder: Path) -> None:
    with KernelProcess(short_folder) as kernel:
        assert kernel.run("print('high', chr(0xD83D), 'low', chr(0xDE00), 'end')") == (
            "high \ufffd low \ufffd end\n"
        )
        assert kernel.run(r"print(b'r\xe9sum\xe9.csv'.decode(errors='surrogateescape'))") == (
            "r\ufffdsum\ufffd.csv\n"
        )
        with pytest.raises(AssertionError, match="bad \ufffd"):
            kernel.run(r"raise ValueError('bad \ud83d')")
        assert kernel.run("float('nan'), print('alive 😀')") == "alive 😀\n"


# A19
@pytest.mark.parametrize("first", ["", "import faulthandler; faulthandler.enable()"])
def test_a_crash_of_native_code_is_in_the_log_with_the_line_of_the_cell(
    short_folder: Path, first: str
) -> None:
    with KernelProcess(short_folder) as kernel:
        kernel.run(first)
        kernel.client.execute("import ctypes\n\nctypes.string_at(0)")
        kernel.process.wait(PATIENCE_S)
    assert "Fatal Python error: Segmentation fault" in kernel.log_text()
    assert ", line 3 in <module>" in kernel.log_text()


# A09
@pytest.mark.parametrize("how", ["exit()", "quit"])
def test_exit_ends_waiting_cells_too(short_folder: Path, how: str) -> None:
    with KernelProcess(short_folder) as kernel:
        # The kernel should stay, so nothing ends: no waiting cell is aborted either.
        assert kernel.run("exit(True); print('goes on')") == "goes on\n"
        kernel.client.execute(how)
        kernel.client.execute("print('must not run')")
        assert kernel.process.wait(PATIENCE_S) == 0
        message: list[str] = []
        while kernel.client.iopub_channel.msg_ready():
            message.append(str(kernel.client.get_iopub_msg(timeout=PATIENCE_S)["content"]))
        assert any("exit() was called" in text for text in message)
        assert not any("must not run\\n" in text for text in message)


def test_waiting_requests_never_block_a_thread_of_the_kernel() -> None:
    """A run of 10,000 cells stopped after 303: the two threads waited for one another."""
    context: zmq.Context[Any] = zmq.Context()
    pair = UnboundedPair(context, "test")
    for _ in range(5000):
        pair.from_socket.send(b"request", zmq.NOBLOCK)
    assert subshell_manager.SocketPair is UnboundedPair
    pair.close()
    context.destroy()


@pytest.mark.parametrize("stream", ["Tee()", "5", "None", "open(os.devnull, 'w')", "io.StringIO()"])
def test_a_cell_with_a_stream_that_cannot_be_flushed_is_answered(short_folder: Path, stream: str) -> None:
    with KernelProcess(short_folder) as kernel:
        code = f"import io, os, sys\nclass Tee:\n    def write(self, text): pass\nsys.stdout = {stream}"
        kernel.run(f"{code}\nif hasattr(sys.stdout, 'close'): sys.stdout.close()")
        assert "goes on" in kernel.run("_ = sys.stderr.write('goes on')")


# A18
def test_a_cell_that_awaits_is_interrupted(short_folder: Path) -> None:
    with KernelProcess(short_folder) as kernel:
        waits = "import asyncio\nprint('waits', flush=True)\nawait asyncio.Event().wait()"
        request = kernel.client.execute(waits)
        while "waits" not in str(kernel.client.get_iopub_msg(timeout=PATIENCE_S)["content"].get("text")):
            pass
        kernel.process.send_signal(signal.SIGINT)
        kernel.end_of(request)
        assert kernel.run("print('goes on')") == "goes on\n"


# A11
def test_output_before_a_fork_is_printed_once(short_folder: Path) -> None:
    code = (
        "import os\nprint('before')\npid = os.fork()\n"
        "if pid == 0:\n    print('child', flush=True)\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\nprint('parent')"
    )
    with KernelProcess(short_folder) as kernel:
        assert sorted(kernel.run(code).split()) == ["before", "child", "parent"]
