"""Training in bf16 with masters in fp32, and gradients part by part."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.runtime.selection import installed_backends, make  # noqa: E402
from tpulab_recipes.torch_training import backward_in_parts, create_optimizer_state  # noqa: E402

ROWS = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)


@pytest.fixture(params=[name for name in ("cpu", "torch_xla") if name in installed_backends()])
def backend(request: pytest.FixtureRequest) -> Any:
    return make(request.param, "cpu" if request.param == "torch_xla" else None)


def _model(backend: Any) -> Any:
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 1)
    return backend.prepare(torch.nn.Sequential(*layers))


def test_bf16_trains_with_masters_gradients_and_moments_in_fp32(backend: Any) -> None:
    model, rows = _model(backend), backend.to_device(ROWS)
    wanted = rows.sum(dim=1, keepdim=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    create_optimizer_state(optimizer)
    losses, types = [], set()
    for _ in range(30):
        with backend.step():
            with backend.precision("bfloat16"):
                output = model(rows)
            types.add(output.dtype)
            loss = (output.float() - wanted).square().mean()
            loss.backward()
            types |= {parameter.grad.dtype for parameter in model.parameters()}
            backend.optimizer_step(optimizer)
            optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    # The products are bf16, what is kept from step to step is not.
    assert types == {torch.bfloat16, torch.float32}
    kept = [*model.parameters(), *(state["exp_avg"] for state in optimizer.state.values())]
    assert {tensor.dtype for tensor in kept} == {torch.float32}
    assert losses[-1] < 0.1 * losses[0]


def test_gradients_in_parts_match_the_whole_batch(backend: Any) -> None:
    found = []
    for parts in (1, 4):
        model, batch = _model(backend), {"x": backend.to_device(ROWS)}

        def loss_of(rows: dict[str, Any], model: Any = model) -> Any:
            with backend.precision("float32"):
                return model(rows["x"]).square().sum() / len(ROWS)

        loss = backend.compile(partial(backward_in_parts, loss_of, batch, parts))()
        gradients = backend.to_host([parameter.grad for parameter in model.parameters()])
        found.append((float(loss), [gradient.numpy() for gradient in gradients]))
    (whole_loss, whole), (loss, gradients) = found
    assert loss == pytest.approx(whole_loss, rel=1e-6)
    for one, other in zip(gradients, whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_parts_that_do_not_divide_the_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="32 rows cannot be divided into 5 parts"):
        backward_in_parts(lambda _: None, {"x": torch.from_numpy(ROWS)}, 5)
