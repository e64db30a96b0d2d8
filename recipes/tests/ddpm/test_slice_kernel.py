"""Notebook 05's own training cells in a kernel over two hosts: the same result as one process with as many
devices, a checkpoint that one host loads, and training that resumes after a host was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ddpm.tiny import SHALLOW, TRAINING
from jupyter_client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from quick_compiling import JAX_QUICKLY

from tpulab.slice.spec import SliceSpec

pytestmark = pytest.mark.skipif(
    os.environ.get("TPULAB_WHOLE_LESSONS") != "1", reason="`npm run test:lessons` trains it on a slice"
)

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "notebooks" / "05-ddpm.ipynb"
#: Generous: all hosts compile, on a machine that may be busy.
DEADLINE_S = 600
#: Each host reads its part of the same images.
BATCH = 8


def training_cells(folder: Path, hosts: int) -> str:
    """From the parameters to the run, with a small network. All devices take part."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in cells]
    (imports,) = (source for source in sources if "make_mesh(jax.devices()" in source)
    (training,) = (source for source in sources if "trainer = Trainer(" in source)
    settings = SHALLOW | TRAINING | {"train.batch_size": BATCH // hosts, "train.log_loss_every_steps": 1}
    given = {
        "settings": settings,
        "output_dir": str(folder),
        "train_steps": 8,
        "evaluations": 1,
        "devices": 0,
    }
    changed = "".join(f"{name} = {value!r}\n" for name, value in given.items())
    return "\n".join([sources[0], changed, imports, training])


TRAIN = """
import json, os
trainer.train(until={until}, run=run)
print(json.dumps([trainer.resumed_at, [row.loss for row in trainer.history], os.getpid()]))
"""


def kept_in(programs: Path) -> dict[str, str]:
    """What was compiled is not compiled again."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(programs),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


class Slice:
    """A kernel over two processes of two devices each."""

    def __init__(self, folder: Path, programs: Path) -> None:
        """`programs`: where those that were compiled are kept."""
        folder.mkdir()
        spec = folder / "slice.json"
        SliceSpec("test", ("",), cpu_devices=2).save(spec)
        file, _ = write_connection_file(str(folder / "c.json"), transport="ipc", ip=str(folder / "z"))
        paths = [str(ROOT / "recipes" / "src"), str(ROOT / "kernel-agent" / "src")]
        env = {name: value for name, value in os.environ.items() if not name.startswith("TPULAB_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tpulab.slice", "lead", str(spec), "-f", file],
            env=env
            | JAX_QUICKLY
            | kept_in(programs)
            | {"PYTHONPATH": os.pathsep.join(paths), "TPULAB_TEXT": "0"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
        )
        self.client = BlockingKernelClient(connection_file=file)
        self.client.load_connection_file()
        self.client.start_channels()

    def cell(self, code: str) -> tuple[dict[str, Any], str, list[str]]:
        """The reply, what process 0 printed, and what is folded below it."""
        printed, folds = "", {}

        def take(message: dict[str, Any]) -> None:
            nonlocal printed
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                printed += content["text"]
            elif "tpulab-hosts" in content.get("data", {}).get("text/html", ""):
                folds[content["transient"]["display_id"]] = content["data"]["text/plain"]

        reply = self.client.execute_interactive(code, timeout=DEADLINE_S, output_hook=take)
        return reply["content"], printed, list(folds.values())

    def close(self) -> None:
        self.client.shutdown()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.client.stop_channels()


def output(answer: tuple[dict[str, Any], str, list[str]]) -> Any:
    reply, printed, _ = answer
    assert reply["status"] == "ok", "\n".join(reply["traceback"])
    return json.loads(printed.splitlines()[-1])


def alone(*parts: str, programs: Path) -> list[Any]:
    """One process with four devices."""
    paths = [str(ROOT / "recipes" / "src"), str(ROOT / "kernel-agent" / "src")]
    cpu = {"JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu", "TPULAB_TEXT": "0"}
    env = os.environ | JAX_QUICKLY | kept_in(programs) | cpu
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(parts)],
        env=env | {"PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "agg"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_the_notebook_trains_on_a_slice_and_continues_after_a_host_was_killed(tmp_path: Path) -> None:
    # Unix sockets have short paths.
    run, saved = tmp_path / "run", tmp_path / "saved"
    kernel = Slice(tmp_path / "k", tmp_path / "programs")
    try:
        reply, printed, _ = kernel.cell(training_cells(run, 2))
        assert reply["status"] == "ok", "\n".join(reply["traceback"])
        assert "on 4 of 4 devices" in printed
        resumed, losses, _ = output(kernel.cell(TRAIN.format(until=4)))
        assert (resumed, len(losses)) == (None, 4)
        shutil.copytree(run, saved)
        pid = int(kernel.cell("%%host 1\nprint(os.getpid())")[1])
        os.kill(pid, signal.SIGKILL)
        reply, _, _ = kernel.cell("trainer.train(until=8, run=run)")
        assert reply["ename"] == "HostLostError"
        assert "Host 1" in reply["evalue"]
    finally:
        kernel.close()
    kernel = Slice(tmp_path / "again", tmp_path / "programs")
    try:
        assert kernel.cell(training_cells(run, 2))[0]["status"] == "ok"
        resumed, later, _ = output(kernel.cell(TRAIN.format(until=6)))
        assert (resumed, len(later)) == (4, 2)
    finally:
        kernel.close()
    one, loaded = alone(
        # Never interrupted.
        *(training_cells(tmp_path / "one", 1), TRAIN.format(until=6), "trainer.close()\n"),
        # The slice's checkpoint.
        *(training_cells(saved, 1), TRAIN.format(until=6)),
        programs=tmp_path / "alone",
    )
    assert losses + later == pytest.approx(one[1], abs=1e-6)
    assert loaded[0] == 4
    assert later == pytest.approx(loaded[1], abs=1e-6)
