"""A training step that torch_tpu lowers without a chip: JAX computes from it what PyTorch computes."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Recording needs torch alone; what lowers is a process of its own.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_tpu") is None or importlib.util.find_spec("jax") is None,
    reason="torch_tpu or JAX is not installed in this environment",
)
torch = pytest.importorskip("torch")

from tpulab_recipes.compile_ahead.torch_export import ExportedStep, LoweringBackend, export_step  # noqa: E402
from tpulab_recipes.runtime import DeviceRuntimeError  # noqa: E402
from tpulab_recipes.torch_training import make_adamw  # noqa: E402

ROWS, TIMES, WIDTH = 4, 6, 16


class Network(torch.nn.Module):  # type: ignore[misc]
    """Parts that were hard to lower: statistics that change, random numbers, attention, a recurrent layer, a
    running sum, an activation that torch_tpu lacks. No biases whose gradient is only rounding, which Adam
    would make as large as any other."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv1d(3, WIDTH, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm1d(WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, 2, dropout=0.1, bias=False, batch_first=True)
        self.recurrent = torch.nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Mish(), torch.nn.Linear(WIDTH, 5))

    def forward(self, x: Any) -> Any:
        found = self.norm(self.convolution(x)).transpose(1, 2)
        found = found + self.attention(found, found, found, need_weights=False)[0]
        noise = torch.rand_like(found).cumsum(1) * 0.01
        found, _ = self.recurrent(torch.nn.functional.dropout(found + noise, 0.2))
        return self.head(found[:, -1])


def exported(step_of: Any = None) -> tuple[ExportedStep, Network]:
    backend = LoweringBackend()
    torch.manual_seed(0)
    model = Network().train()
    optimizer = make_adamw(backend, model, learning_rate=1e-3, weight_decay=0.1, clip_norm=1.0)
    batch = {"x": torch.randn(ROWS, 3, TIMES), "y": torch.arange(ROWS)}

    def step(rows: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(model(rows["x"]), rows["y"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return {"loss": loss.detach()}

    step = step_of(model) if step_of is not None else step
    return export_step(backend, step, batch, model=model, optimizer=optimizer, name="all"), model


def test_jax_computes_the_same_update_from_the_lowered_step(tmp_path: Path) -> None:
    import jax

    from tpulab.check.exported import as_function, read_step

    found, model = exported()
    found.program.save(tmp_path / "step.zip")
    program = read_step(tmp_path / "step.zip")
    assert program.source.startswith("torch_tpu 0.2.0, torch 2.")
    with jax.enable_x64(True):
        results = jax.jit(as_function(program, "cpu"))(*[value.numpy() for value in found.arguments])
    for ours, theirs in zip(results, found.results, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs.detach().numpy(), rtol=2e-4, atol=2e-5)
    # torch_tpu 0.2.0 alone leaves them as they were.
    assert float(model.norm.running_var.sub(1).abs().max()) > 0

    roles = [value.role for value in program.inputs]
    assert {value.shape for value in program.inputs if value.role == "batch"} == {(ROWS, 3, TIMES), (ROWS,)}
    state = sum(int(np.prod(value.shape)) for value in program.inputs if value.role == "state")
    parameters = sum(value.numel() for value in model.parameters())
    # A parameter and its two moments; counters and the statistics of the norm.
    assert 3 * parameters <= state < 3.1 * parameters
    # The masks of two dropouts and the noise.
    random = [value.shape for value in program.inputs if value.role == "other" and len(value.shape) > 1]
    assert (ROWS, TIMES, WIDTH) in random
    assert roles.count("other") < 12


def test_a_step_that_reads_a_value_back_is_refused() -> None:
    with pytest.raises(DeviceRuntimeError, match="reads a value back") as refused:
        exported(lambda model: lambda rows: model(rows["x"]).sum().item())
    assert refused.value.code == "bad_program"


def test_a_part_of_a_tensor_that_was_made_before_the_step_is_refused() -> None:
    def step_of(model: Network) -> Any:
        part = model.convolution.weight.detach()[:2]
        return lambda rows: (model(rows["x"]).sum(), part.sum())

    with pytest.raises(DeviceRuntimeError, match="part of another one") as refused:
        exported(step_of)
    assert refused.value.code == "bad_program"


def test_operations_that_torch_tpu_cannot_lower_are_named() -> None:
    def step_of(model: Network) -> Any:
        return lambda rows: torch.linalg.eigvals(model(rows["x"])[:, :ROWS])

    with pytest.raises(DeviceRuntimeError, match="cannot lower this step") as refused:
        exported(step_of)
    assert refused.value.code == "bad_program"
    assert "linalg_eig" in str(refused.value)
