"""A training step of PyTorch as StableHLO: the compiler of JAX computes from it what torch_xla computes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tpulab_recipes.compile_ahead import torch_export, torch_lowering
from tpulab_recipes.compile_ahead.torch_export import ExportedStep, export_step
from tpulab_recipes.resnet_profiling.config import Config as ResNetConfig
from tpulab_recipes.resnet_profiling.trainer import Trainer as ResNetTrainer
from tpulab_recipes.runtime import DeviceRuntimeError
from tpulab_recipes.runtime.selection import make

from tpulab.check.exported import as_function, read_step

BATCH = 8


@pytest.fixture(scope="module")
def backend() -> Any:
    return make("torch_xla", "cpu")


@pytest.fixture(scope="module")
def trainer(backend: Any) -> ResNetTrainer:
    return ResNetTrainer(ResNetConfig(width=0.0625, batch_size=BATCH), backend)


def a_batch(backend: Any) -> Any:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((BATCH, 3, 32, 32), np.float32)
    return backend.shard_batch({"images": images, "labels": np.arange(BATCH, dtype=np.int32)})


def exported_from(trainer: ResNetTrainer, backend: Any) -> ExportedStep:
    return export_step(
        backend,
        lambda batch: {"figures": [trainer.train_step(batch)]},
        a_batch(backend),
        model=trainer.model,
        optimizer=trainer.optimizer,
        name="resnet",
    )


def test_jax_computes_the_same_update_from_the_exported_step(
    trainer: ResNetTrainer, backend: Any, tmp_path: Path
) -> None:
    before = backend.to_host(dict(trainer.model.named_parameters()))
    exported = exported_from(trainer, backend)
    exported.program.save(tmp_path / "step.zip")
    arguments = [value.cpu().numpy() for value in exported.arguments]

    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        found = jax.jit(as_function(read_step(tmp_path / "step.zip"), "cpu"))(*arguments)

    backend.sync()  # now torch_xla runs the step that it traced
    for ours, theirs in zip(found, exported.results, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs.detach().cpu().numpy(), rtol=2e-4, atol=2e-5)
    after = backend.to_host(dict(trainer.model.named_parameters()))
    compiled = backend.compilations().count
    for _ in range(3):  # as a loop takes it, the same step is one program
        trainer.train_step(a_batch(backend))
    assert backend.compilations().count - compiled <= 1
    assert all(not before[name].equal(after[name]) for name in before if "weight" in name)


def test_the_program_states_which_inputs_are_rows_and_which_are_state(
    trainer: ResNetTrainer, backend: Any
) -> None:
    program = exported_from(trainer, backend).program
    rows = {value.shape for value in program.inputs if value.role == "batch"}
    assert rows == {(BATCH, 3, 32, 32), (BATCH,)}
    state = sum(int(np.prod(value.shape)) for value in program.inputs if value.role == "state")
    parameters = sum(value.numel() for value in trainer.model.parameters())
    # SGD with momentum: a parameter and its moment, and the statistics of the norms.
    assert 2 * parameters <= state < 2.1 * parameters
    backend.sync()


def test_a_step_that_reads_a_value_back_is_refused(trainer: ResNetTrainer, backend: Any) -> None:
    with pytest.raises(DeviceRuntimeError, match="reads a value back") as refused:
        export_step(
            backend,
            lambda batch: trainer.train_step(batch).item(),
            a_batch(backend),
            model=trainer.model,
            optimizer=trainer.optimizer,
            name="resnet",
        )
    assert refused.value.code == "bad_program"


def test_an_export_queries_no_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in torch_lowering.VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(torch_export, "find_spec", lambda _: "torch_tpu is there")
    torch_export.LoweringBackend()
    assert {name: os.environ[name] for name in torch_lowering.VARIABLES} == torch_lowering.VARIABLES
