"""Training on real XLA: what it computes, how often it compiles, what a checkpoint keeps. One compilation
serves many tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("PJRT_DEVICE", "CPU")

from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402
from tpulab_recipes.fashion_mnist.config import Config  # noqa: E402
from tpulab_recipes.fashion_mnist.data import Images, train_batches  # noqa: E402
from tpulab_recipes.fashion_mnist.trainer import Trainer  # noqa: E402
from tpulab_recipes.images.garments import draw_dataset  # noqa: E402
from tpulab_recipes.runtime import Backend, installed_backends  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402

TINY = Config(width=0.125, batch_size=8, dropout=0.0)
TRAIN, TEST = Images(*draw_dataset(40, seed=0)), Images(*draw_dataset(21, seed=1))


@pytest.fixture(
    scope="module", params=[name for name in ("torch_xla", "cpu") if name in installed_backends()]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    return make(request.param, "cpu")


def losses(trainer: Trainer, steps: int, skip: int = 0) -> list[float]:
    batches = list(train_batches(TRAIN, TINY.batch_size, seed=0, epoch=0))
    found = []
    for number in range(skip, skip + steps):
        batch = trainer.backend.shard_batch(batches[number % len(batches)])
        found.append(trainer.train_step(batch))
    return [float(loss) for loss in found]


def test_it_learns_one_batch_compiles_each_program_once_and_a_new_rate_compiles_nothing(
    backend: Backend,
) -> None:
    trainer = Trainer(TINY, backend)
    batch = backend.shard_batch(next(train_batches(TRAIN, TINY.batch_size, 0, 0)))
    before = backend.compilations().count
    first = float(trainer.train_step(batch))
    for step in range(26):
        trainer.set_learning_rate(1e-3 * (1 - step / 50))
        last = trainer.train_step(batch)
    assert float(last) < 0.6 * first
    assert backend.compilations().count - before == int(backend.compiles_steps)


def test_accuracy_with_a_ragged_last_batch_is_a_plain_count(backend: Backend) -> None:
    trainer = Trainer(TINY, backend)
    found = trainer.evaluate(TEST)
    one_by_one = np.concatenate(
        [
            trainer.evaluate(Images(TEST.pixels[i : i + 7], TEST.labels[i : i + 7])).predicted
            for i in (0, 7, 14)
        ]
    )
    assert found.predicted.tolist() == one_by_one.tolist()
    assert found.accuracy == sum(a == b for a, b in zip(found.predicted, TEST.labels, strict=True)) / 21
    assert found.confusion.sum() == 21
    assert np.trace(found.confusion) == round(found.accuracy * 21)
    assert found.confusion.sum(axis=1).tolist() == np.bincount(TEST.labels, minlength=10).tolist()


def test_training_resumes_from_a_checkpoint_bit_for_bit(backend: Backend) -> None:
    whole = Trainer(TINY, backend)
    expected = losses(whole, 6)
    half = Trainer(TINY, backend)
    losses(half, 3)
    state = backend.to_host(half.state())
    other = Trainer(TINY, backend)
    losses(other, 1, skip=5)
    other.load_state(state)
    assert losses(other, 3, skip=3) == expected[3:]


def test_xla_computes_the_same_as_plain_pytorch() -> None:
    if "torch_xla" not in installed_backends():
        pytest.skip("torch_xla is not installed here")
    plain, xla = Trainer(TINY, make("cpu", None)), Trainer(TINY, make("torch_xla", "cpu"))
    assert losses(xla, 4) == pytest.approx(losses(plain, 4), rel=2e-3)


#: The mode is chosen once in a process, so this is a separate one.
TWO_DEVICES = """
import json
from fashion_mnist.test_trainer import TEST, TINY, TRAIN, losses
from tpulab_recipes import runtime
from tpulab_recipes.fashion_mnist.trainer import Trainer, measure_scaling, replicas_are_equal
backend = runtime.use("torch_xla", spmd=True)
trainer = Trainer(TINY, backend)
out = {"losses": losses(trainer, 5), "accuracy": trainer.evaluate(TEST).accuracy}
out["equal"] = replicas_are_equal(trainer)
out["devices"] = backend.world().global_devices
out["shards"] = len(backend.shards(next(trainer.model.parameters())))
out["parts"] = [each.parts for each in measure_scaling(trainer, TRAIN, [1, 2], steps=1)]
print(json.dumps(out))
"""


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_two_devices_train_like_one_and_their_replicas_are_equal() -> None:
    tests = Path(__file__).parents[1]
    path = os.pathsep.join(map(str, (tests, tests.parent / "src")))
    done = subprocess.run(
        [sys.executable, "-c", TWO_DEVICES],
        env={**os.environ, "CPU_NUM_DEVICES": "2", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    two = json.loads(done.stdout.splitlines()[-1])
    one = Trainer(TINY, make("torch_xla", "cpu"))
    assert two["losses"] == pytest.approx(losses(one, 5), rel=1e-4)
    assert two["accuracy"] == one.evaluate(TEST).accuracy
    assert (two["equal"], two["devices"], two["shards"], two["parts"]) == (True, 2, 2, [1, 2])


def test_shares_of_processes_cover_every_row_and_differ_between_epochs() -> None:
    from tpulab_recipes.fashion_mnist.processes import rows_of_process
    from tpulab_recipes.runtime import World

    worlds = [World(index, 3, 1, 3, one_program=False) for index in range(3)]
    rows = [rows_of_process(TRAIN, world, seed=0, epoch=0) for world in worlds]
    assert {len(share) for share in rows} == {14}
    assert set(np.concatenate(rows).tolist()) == set(range(40))
    assert not np.array_equal(rows[0], rows_of_process(TRAIN, worlds[0], seed=0, epoch=1))
