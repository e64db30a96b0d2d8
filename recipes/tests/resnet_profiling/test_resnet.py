"""ResNet18 against torchvision, and batches with and without the mistakes."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from fits_xla import ShapeLedger, forbid_operators, trace_full_graph  # noqa: E402
from tpulab_recipes.resnet_profiling.config import FULL_SIZE, Config, Mistake  # noqa: E402
from tpulab_recipes.resnet_profiling.resnet import ResNet18  # noqa: E402
from tpulab_recipes.resnet_profiling.trainer import (  # noqa: E402
    Trainer,
    batches_with_mistake,
    made_up_batches,
    steps_in_epoch,
)
from tpulab_recipes.runtime.selection import installed_backends, make  # noqa: E402


def of_torchvision() -> torch.nn.Module:
    """torchvision's ResNet18 with the first layers that small images take."""
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = torch.nn.Identity()
    return model


@pytest.mark.parametrize("training", [False, True])
def test_equals_torchvision_with_the_same_weights(training: bool) -> None:
    torch.manual_seed(0)
    theirs, ours = of_torchvision().train(training), ResNet18().train(training)
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(ours(images), torch.log_softmax(theirs(images), dim=-1), atol=1e-5)
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        assert torch.allclose(a.float(), b.float(), atol=1e-6), name


def test_the_full_size_has_the_flags_of_the_original() -> None:
    assert (FULL_SIZE.width, FULL_SIZE.batch_size, FULL_SIZE.learning_rate) == (1.0, 128, 0.02)
    assert (FULL_SIZE.momentum, FULL_SIZE.weight_decay, FULL_SIZE.log_every) == (0.9, 5e-4, 20)
    assert (FULL_SIZE.train_images, steps_in_epoch(FULL_SIZE)) == (50_000, 390)


def test_the_step_is_one_graph_without_data_dependent_operators() -> None:
    model = ResNet18(width=0.125)
    assert trace_full_graph(model.eval(), torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    with forbid_operators():
        torch.nn.functional.nll_loss(
            model.train()(torch.zeros(2, 3, 32, 32)), torch.tensor([0, 1])
        ).backward()


@pytest.mark.parametrize("name", [name for name in ("torch_xla", "cpu") if name in installed_backends()])
def test_all_steps_are_one_compilation(name: str) -> None:
    backend = make(name, "cpu")
    config = Config(width=0.0625, batch_size=4)
    trainer = Trainer(config, backend)
    before = backend.compilations().count
    losses = [float(trainer.train_step(batch)) for batch in backend.batches(made_up_batches(config, 4))]
    assert losses[-1] < losses[0]
    assert backend.compilations().count - before == int(backend.compiles_steps)


def test_torch_compile_takes_the_whole_step_and_compiles_no_later_one() -> None:
    """What `torch_tpu` is given, with a compiler that runs what Dynamo traced as it is."""
    backend, config = make("cpu", None), Config(width=0.0625, batch_size=4)
    plain, traced = Trainer(config, backend), Trainer(config, backend)
    torch._dynamo.reset()
    graphs = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(traced.train_step, backend=graphs, dynamic=False)
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(3):
        rows = {"images": rng.standard_normal((4, 3, 32, 32), np.float32), "labels": np.arange(4)}
        batch = backend.to_device(rows)
        np.testing.assert_allclose(float(compiled(batch)), float(plain.train_step(batch)), rtol=1e-5)
        counts.append(graphs.frame_count)
    assert counts[0] > 0
    assert counts == [counts[0]] * 3


@pytest.mark.parametrize("mistake", get_args(Mistake))
def test_only_the_mistake_of_changing_shapes_changes_them(mistake: str) -> None:
    ledger = ShapeLedger()
    step = ledger.watch(len)
    for batch in batches_with_mistake(Config(), 9, mistake, input_s=0.0):
        step(batch)
    assert len(ledger.signatures) == (4 if mistake == "changing-shapes" else 1)
    assert ledger.signatures.total() == 9


def test_more_shapes_than_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="more shapes than"):
        list(batches_with_mistake(Config(batch_size=2), 30, "changing-shapes"))


def test_made_up_batches_are_zeros_of_the_right_shape() -> None:
    (batch,) = made_up_batches(Config(batch_size=4), 1)
    assert batch["images"].shape == (4, 3, 32, 32)
    assert not batch["images"].any()
