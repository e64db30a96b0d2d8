"""`tpulab.hf.Callback` in Hugging Face's own Trainer, with a tiny model of random weights."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from keeper_double import KeeperDouble  # noqa: E402
from tpulab.hf import Callback  # noqa: E402

pytestmark = pytest.mark.usefixtures("agent")


class Line(torch.nn.Module):
    """y = w x, to be learned."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        guess = x * self.weight
        return {"loss": (guess - labels).pow(2).mean(), "logits": guess}


class Steer(transformers.TrainerCallback):  # type: ignore[misc]
    """Does something at the end of a step, while the Trainer is busy."""

    def __init__(self, at: dict[int, Callable[[Any], None]]) -> None:
        self._at = at
        self.rates: list[float] = []
        self.evaluated: list[int] = []
        self.saved: list[int] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.rates.append(float(kwargs["optimizer"].param_groups[0]["lr"]))
        self._at.get(state.global_step, lambda _: None)(control)

    def on_evaluate(self, *given: Any, **_: Any) -> None:
        self.evaluated.append(given[1].global_step)

    def on_save(self, *given: Any, **_: Any) -> None:
        self.saved.append(given[1].global_step)


def train(folder: Path, callback: Callback, steer: Steer) -> Any:
    data = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(64)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=2,
        max_steps=20,
        learning_rate=0.1,
        optim="adamw_torch",
        lr_scheduler_type="constant",
        logging_steps=2,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model=Line(), args=arguments, train_dataset=data, eval_dataset=data[:4], callbacks=[callback, steer]
    )
    trainer.train()
    return trainer


def test_a_page_steers_the_trainer(tmp_path: Path, keeper: KeeperDouble) -> None:
    sent: dict[str, str] = {}

    def command(action: str, **fields: Any) -> Callable[[Any], None]:
        def send(_: Any) -> None:
            sent[action] = keeper.command(action, **fields)
            keeper.outcome(sent[action], "accepted")

        return send

    steer = Steer(
        {
            3: command("set", name="learning_rate", value=0.01),
            5: command("evaluate"),
            7: command("checkpoint"),
            10: command("stop"),
        }
    )
    callback = Callback()
    trainer = train(tmp_path, callback, steer)
    assert keeper.outcome(sent["set"], "applied")["step"] == 3
    assert steer.rates[:3] == pytest.approx([0.1] * 3)
    assert steer.rates[4:] == pytest.approx([0.01] * (len(steer.rates) - 4))
    assert steer.evaluated == [6]
    assert steer.saved == [8]
    assert trainer.state.global_step == 11
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    assert (end["name"], end["state"], end["control"]["state"]) == ("Line", "finished", "stopped")
    assert end["totalSteps"] == 20
    assert any("loss" in step.get("metrics", {}) for step in keeper.steps(end["run"]))
    assert (tmp_path / "out" / "tpulab-run.jsonl").exists()


def test_a_training_without_commands_is_unchanged(tmp_path: Path, keeper: KeeperDouble) -> None:
    with_callback = train(tmp_path / "a", Callback("quiet", log=False), Steer({}))
    keeper.wait(keeper.ended_runs, "the end of the run")
    assert with_callback.state.global_step == 20
    assert float(with_callback.model.weight) > 0


@pytest.mark.parametrize(
    ("device", "given", "used"),
    [("xla", "adamw_torch_fused", "adamw_torch"), ("xla", "sgd", "sgd"), ("cpu", "adamw_torch_fused", None)],
)
def test_the_fused_optimizer_is_replaced_on_xla(
    device: str, given: str, used: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """N17: the Trainer chooses it automatically, and torch_xla refuses it."""
    names = transformers.training_args.OptimizerNames
    arguments = SimpleNamespace(optim=names(given), device=torch.device(device))
    Callback().on_init_end(arguments, None, None)
    assert arguments.optim == names(used or given)
    assert ("fused AdamW does not run on XLA" in capsys.readouterr().err) is (used == "adamw_torch")


def test_steps_last_from_start_to_start_and_figures_count_for_their_own_step(
    tmp_path: Path, keeper: KeeperDouble
) -> None:
    """Case T11: between two steps the Trainer loads, evaluates, saves and logs."""

    class Slow(torch.utils.data.Dataset):  # type: ignore[type-arg,misc]
        def __len__(self) -> int:
            return 64

        def __getitem__(self, _: int) -> dict[str, torch.Tensor]:
            time.sleep(0.01)
            return {"x": torch.ones(1), "labels": torch.ones(1)}

    class Between(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            time.sleep(0.02)

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        max_steps=12,
        optim="adamw_torch",
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=4,
        save_strategy="steps",
        save_steps=6,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    data = Slow()
    evaluation = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(4)]
    transformers.Trainer(
        model=Line(),
        args=arguments,
        train_dataset=data,
        eval_dataset=evaluation,
        callbacks=[Callback(), Between()],
    ).train()
    [end] = keeper.wait(keeper.ended_runs, "the end of the run")
    steps = keeper.steps(end["run"])
    assert [step["index"] for step in steps] == list(range(12))
    # The time after the end of a step belongs to it. A thread loads the batches, some before the first step.
    assert min(step["wallMs"] for step in steps) >= 20
    for one, other in itertools.pairwise(steps):
        assert other["startTime"] - one["startTime"] == pytest.approx(one["wallMs"], abs=1)

    def at(name: str) -> list[int]:
        return [step["index"] + 1 for step in steps if name in step.get("metrics", {})]

    assert at("loss") == [2, 4, 6, 8, 10, 12]
    assert at("eval_loss") == [4, 8, 12]
    assert at("train_loss") == at("train_runtime") == [12]
    bands = [(band["kind"], band["step"] + 1) for band in keeper.of_type("band")]
    assert sorted(bands) == [
        ("checkpoint", 6),
        ("checkpoint", 12),
        *(("evaluate", step) for step in (4, 8, 12)),
    ]
    assert all(band["inStep"] for band in keeper.of_type("band"))
    for step in steps:
        spans = sum(step[f"{name}Ms"] for name in ("input", "host", "compile", "device", "gap"))
        assert spans + sum(step.get("bands", {}).values()) == pytest.approx(step["wallMs"], abs=0.01)
