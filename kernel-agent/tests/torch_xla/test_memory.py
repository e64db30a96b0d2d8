"""A device without memory, in torch_xla: the requested bytes, and the owners of the rest.

In a separate process, because a failed allocation persists in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

PROGRAM = """
import json, sys
import torch, torch_xla
from tpulab.memory import error as errors
from tpulab.memory import retained
from tpulab.runtimes.devices import DeviceReport

device = torch_xla.device()
model = torch.nn.Sequential(torch.nn.Linear(256, 256, bias=False)).to(device)
optimizer = torch.optim.Adam(model.parameters())
row = torch.ones(1, 256, device=device)

def train():
    scratch = torch.ones(512, 512, device=device)
    model(row).sum().backward()
    optimizer.step()
    torch_xla.sync(wait=True)
    refused = torch.ones(1 << 24, 1 << 22, device=device)
    torch_xla.sync(wait=True)

try:
    train()
except RuntimeError as error:
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
pending = torch.zeros(1024, 1024, device=device)  # a graph so far, and no memory
view = model[0].weight.detach()[0]
transfers = torch_xla._XLAC._xla_counter_value("aten::_local_scalar_dense")
message = errors.memory_error(sys.last_value, 1, None, None, DeviceReport().read)
freed = retained.free_retained()
assert torch_xla._XLAC._xla_counter_value("aten::_local_scalar_dense") == transfers, "no value was read"
print("RESULT" + json.dumps([message, freed]))
"""


def result() -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert found, done.stderr[-3000:]
    message, freed = json.loads(found[0].removeprefix("RESULT"))
    return message, freed


def test_the_largest_tensors_are_named_without_reading_them_and_free_releases_memory() -> None:
    message, freed = result()
    assert (message["what"], message["requestedBytes"]) == ("allocation", 1 << 48)
    owners = {tuple(entry["names"]): entry for entry in message["arrays"]}
    names = [name for entry in message["arrays"] for name in entry["names"]]
    assert owners["last traceback: train, scratch",]["bytes"] == 512 * 512 * 4
    weights = next(entry for entry in message["arrays"] if "model.0.weight" in entry["names"])
    assert (weights["shape"], weights["dtype"]) == ([256, 256], "float32")
    # The weight and its gradient; a view of the weight does not count.
    # The view is named first, so the gradient has a separate entry.
    gradient = next(entry for entry in message["arrays"] if "model.0.weight.grad" in entry["names"])
    assert (weights["count"], weights["bytes"]) == (1, 256 * 256 * 4)
    assert (gradient["count"], gradient["bytes"]) == (1, 256 * 256 * 4)
    assert "optimizer.state[<Parameter>]['exp_avg']" in names
    shapes = [entry["shape"] for entry in message["arrays"]]
    assert [1024, 1024] not in shapes, "it is not computed yet"
    assert [1 << 24, 1 << 22] not in shapes, "it is the one that was refused"
    assert message["heldBytes"] == {"traceback": 512 * 512 * 4, "outputs": 0}
    assert "freed 1.0 MiB of arrays" in freed
