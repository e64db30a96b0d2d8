"""Two processes whose rows are of unequal length train as one process with all rows does: losses are means
over all labels and frames, not means of means."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from reserved_port import reserved_port

torch = pytest.importorskip("torch")
pytest.importorskip("transformers.models.dia")

PROGRAM = Path(__file__).with_name("unequal_shares.py")
ROOT = Path(__file__).parents[1]


def _run(folder: Path, processes: int) -> dict[str, Any]:
    paths = os.pathsep.join(map(str, (ROOT, ROOT.parent / "src")))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with reserved_port() as port:
        started = [
            subprocess.Popen(
                [sys.executable, str(PROGRAM), str(folder), str(each), str(processes), str(port)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for each in range(processes)
        ]
        try:
            for each in started:
                output, _ = each.communicate(timeout=600)
                assert each.returncode == 0, output[-3000:]
        finally:
            for each in started:
                if each.poll() is None:
                    each.kill()
                    each.wait()
    found: dict[str, Any] = torch.load(folder / f"{processes}.pt", weights_only=True)
    return found


@pytest.mark.long
def test_two_processes_with_unequal_shares_equal_one_with_all_rows(tmp_path: Path) -> None:
    one, two = _run(tmp_path, 1), _run(tmp_path, 2)
    for recipe in one:
        assert two[recipe]["losses"] == pytest.approx(one[recipe]["losses"], rel=1e-5)
        for name, value in one[recipe]["weights"].items():
            torch.testing.assert_close(two[recipe]["weights"][name], value, rtol=1e-4, atol=2e-6, msg=name)
