"""Optimizer state made early changes nothing; checkpoints are whole or missing."""

from __future__ import annotations

import copy
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.common.errors import StorageError  # noqa: E402
from tpulab_recipes.common.preparation import split_by_name  # noqa: E402
from tpulab_recipes.common.storage import Folder  # noqa: E402
from tpulab_recipes.runtime.selection import make  # noqa: E402
from tpulab_recipes.torch_training import (  # noqa: E402
    CheckpointError,
    create_optimizer_state,
    load_checkpoint,
    load_flat_adamw,
    make_adamw,
    save_checkpoint,
    set_learning_rate,
    snapshot,
)
from tpulab_recipes.torch_training.checkpoint import checkpoints  # noqa: E402
from tpulab_recipes.torch_training.flat_adamw import FlatAdamW  # noqa: E402
from tpulab_recipes.torch_training.snapshot import refuse_changes  # noqa: E402

CPU = make("cpu", None)
OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1),
}


def train(model, optimizer, steps: int = 5) -> list[torch.Tensor]:
    torch.manual_seed(1)
    for _ in range(steps):
        model(torch.randn(8, 3)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_state_made_before_the_first_step_changes_no_parameter_of_any_step(name: str) -> None:
    first = torch.nn.Linear(3, 2)
    second = copy.deepcopy(first)
    plain, early = OPTIMIZERS[name](first.parameters()), OPTIMIZERS[name](second.parameters())
    create_optimizer_state(early)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    for a, b in zip(train(first, plain), train(second, early), strict=True):
        assert torch.equal(a, b)


def test_one_vector_is_updated_as_each_tensor_and_either_resumes_from_the_other() -> None:
    first, rates = torch.nn.Linear(3, 2), {"lr": 0.02, "betas": (0.8, 0.99), "eps": 1e-9}
    second = copy.deepcopy(first)

    def groups(model: torch.nn.Linear) -> list[dict[str, object]]:
        # One that learns more slowly, and has another that is frozen beside it.
        frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
        return [{"params": [model.weight]}, {"params": [frozen, model.bias], "lr": 0.01}]

    def flat(model: torch.nn.Linear) -> FlatAdamW:
        made = FlatAdamW(groups(model), **rates)
        made.place(CPU)
        return made

    plain, one = torch.optim.AdamW(groups(first), **rates), flat(second)
    for turn in range(2):
        for a, b in zip(train(first, plain), train(second, one), strict=True):
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(one.state_dict(), plain.state_dict())
        if turn == 0:
            theirs, ours = copy.deepcopy(plain.state_dict()), copy.deepcopy(one.state_dict())
            one = flat(second)
            load_flat_adamw(CPU, one, theirs)
            load_flat_adamw(CPU, plain, ours)


def test_a_learning_rate_is_a_number_where_nothing_compiles() -> None:
    optimizer = OPTIMIZERS["adam"](torch.nn.Linear(3, 2).parameters())
    set_learning_rate(CPU, optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_checkpoint_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    state = {"model": {"w": torch.arange(6.0).reshape(2, 3)}, "steps_done": 7, "rate": 0.1}
    save_checkpoint(CPU, tmp_path, 7, state)
    step, back = load_checkpoint(tmp_path)
    assert (step, back["steps_done"], back["rate"]) == (7, 7, 0.1)
    assert torch.equal(back["model"]["w"], state["model"]["w"])


def test_no_checkpoint_is_none_and_the_newest_wins(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    for step in (2, 100, 30, 4):
        save_checkpoint(CPU, tmp_path, step, {"s": step})
    assert load_checkpoint(tmp_path)[0] == 100
    assert [file.name for file in checkpoints(tmp_path)] == [f"step-{n:08d}.pt" for n in (4, 30, 100)]


def test_a_damaged_checkpoint_is_named_and_code_in_it_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "step-00000009.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match=r"step-00000009\.pt cannot be read"):
        load_checkpoint(tmp_path)
    torch.save({"x": Path}, tmp_path / "step-00000010.pt")
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path)
    # Of several, the newest that can be read.
    save_checkpoint(CPU, tmp_path, 8, {"s": 8})
    assert load_checkpoint(tmp_path)[0] == 8


def test_a_write_that_fails_leaves_the_older_checkpoint_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    save_checkpoint(CPU, tmp_path, 1, {"s": 1})

    def full(*_: object) -> None:
        _[1].write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(StorageError, match="no space is left; free some"):
        save_checkpoint(CPU, tmp_path, 2, {"s": 2})
    assert [file.name for file in tmp_path.iterdir()] == ["step-00000001.pt"]
    assert np.array_equal(load_checkpoint(tmp_path)[1]["s"], 1)


def _killed(at: str, folder: Path) -> int:
    """Writes a checkpoint in a separate process, which is killed at some point; returns its exit status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def half(_: object, file: object) -> None:
        file.write(b"PK\x03\x04 half of it")
        file.flush()
        die()

    place, after = (torch, half) if at == "save" else (os, die)
    setattr(place, at, after)
    Folder.remove = die if at == "old ones" else Folder.remove
    save_checkpoint(CPU, folder, 4, {"s": 4, "w": torch.ones(1000)})
    os._exit(0)


@pytest.mark.parametrize("at", ["save", "fsync", "replace", "old ones"])
def test_a_process_that_is_killed_anywhere_leaves_whole_checkpoints(at: str, tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(CPU, tmp_path, step, {"s": step})
    assert _killed(at, tmp_path) == signal.SIGKILL
    step, state = load_checkpoint(tmp_path)
    assert step == state["s"] == (4 if at == "old ones" else 3)
    save_checkpoint(CPU, tmp_path, 5, {"s": 5})
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [f"step-{n:08d}.pt" for n in ((3, 4, 5) if at == "old ones" else (2, 3, 5))]


def test_a_bucket_holds_checkpoints_as_a_folder_does(tmp_path: Path, monkeypatch, capsys) -> None:
    """Case R4: they were written to a local folder `gs:`."""
    monkeypatch.chdir(tmp_path)
    place = "memory://bucket/run"
    for step in (1, 2, 3, 4):
        name = save_checkpoint(CPU, place, step, {"w": torch.full((3,), float(step))}).name
    assert name == "step-00000004.pt"
    assert list(tmp_path.iterdir()) == []
    assert Folder(place).names() == [f"step-{n:08d}.pt" for n in (2, 3, 4)]
    Folder(place).put("step-00000005.pt", b"PK\x03\x04 torn")
    step, state = load_checkpoint(place)
    assert (step, state["w"].tolist()) == (4, [4.0] * 3)
    assert "passed over: memory://bucket/run/step-00000005.pt cannot be read" in capsys.readouterr().err


def test_torn_checkpoints_are_named_and_only_a_whole_one_is_resumed_from(tmp_path: Path, capsys) -> None:
    """Case D17."""
    for step in (1, 2):
        (tmp_path / f"step-0000000{step}.pt").write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path}: none of its 2 checkpoint(s) can be read.")
    assert capsys.readouterr().err == ""


def test_a_disk_that_is_too_full_is_named_before_anything_is_written(tmp_path: Path, monkeypatch) -> None:
    """Case D17."""
    save_checkpoint(CPU, tmp_path, 1, {"s": 1})
    full = type(shutil.disk_usage(tmp_path))(2**30, 2**30 - 2**20, 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(StorageError, match="has 1 MiB left and a checkpoint needs 8; free some space"):
        save_checkpoint(CPU, tmp_path, 2, {"w": torch.zeros(2**21)})
    assert [file.name for file in tmp_path.iterdir()] == ["step-00000001.pt"]


@dataclass
class _Config:
    seed: int = 0


def test_a_state_is_copied_to_the_host_once(tmp_path: Path, monkeypatch) -> None:
    """It was copied again to be written: 2 x 19 GB for the full size of Dia."""
    model = CPU.prepare(torch.nn.Linear(2, 3))
    optimizer = make_adamw(CPU, model, learning_rate=1e-3, weight_decay=0.0)
    state = snapshot(CPU, model=model, optimizer=optimizer, step=1, config=_Config())
    written: list[dict] = []
    monkeypatch.setattr(torch, "save", lambda found, _: written.append(found))
    save_checkpoint(CPU, tmp_path, 1, state)
    for name, value in state["model"].items():
        assert written[0]["model"][name].data_ptr() == value.data_ptr()
        assert value.data_ptr() != model.state_dict()[name].data_ptr(), "the next step changes the model"


def test_held_out_clips_do_not_depend_on_the_order_and_stay_when_a_clip_is_added() -> None:
    """It was the first by name: of a sliced recording its first minutes, of several speakers one."""
    names = [f"{speaker}-{n:03}" for speaker in "abcd" for n in range(50)]
    _, held = split_by_name(names, names, 0.2)
    assert len(held) == 40
    assert {name[0] for name in held} == set("abcd")
    backwards = names[::-1]
    assert set(split_by_name(backwards, backwards, 0.2)[1]) == set(held)
    for n in range(20):
        more = [*names, f"new-{n}"]
        _, after = split_by_name(more, more, 0.2)
        # At most one moves, because a fifth of 201 clips is 40 too.
        assert len(set(held) - set(after)) <= 1


def test_a_checkpoint_of_another_recipe_or_a_newer_version_is_named() -> None:
    saved = {"epochs": 2, "seed": 0, "rate": 0.1}
    with pytest.raises(CheckpointError, match="written by another recipe; write to another folder"):
        refuse_changes({"epochs": 2, "hop": 3, "bands": 4}, saved)
    with pytest.raises(CheckpointError, match=r"does not know \(momentum\); update TPULab"):
        refuse_changes(saved | {"momentum": 0.9, "epochs": 3}, saved, ("epochs",))
    with pytest.raises(CheckpointError, match=r"other settings: rate is 0\.1 there and 0\.2 here"):
        refuse_changes(saved, saved | {"rate": 0.2})
