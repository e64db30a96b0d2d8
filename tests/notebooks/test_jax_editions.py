"""Notebooks 02 and 03 in JAX, through a bridge: their text about the compiled programs is correct."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..notebook_run import COMPILE_QUICKLY, Executed, require_environment, run_notebook

CELL_DEADLINE_S = 600


def execute(file: str, folder: Path, ask: str, before: str = "", **settings: object) -> Executed:
    require_environment("jax")
    return run_notebook(
        file,
        folder,
        settings=settings,
        probe=f"import json\nprint(json.dumps({{{ask}}}))",
        cell_deadline_s=CELL_DEADLINE_S,
        before=before,
    )


class TestMultiCore:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        names = ("losses", "held", "exchanged", "size", "difference")
        kinds = "{way: collectives_of(program.as_text())[0] for way, program in compiled.items()}"
        ask = ", ".join(f"{name!r}: {name}" for name in names) + f", 'kinds': {kinds}"
        folder = tmp_path_factory.mktemp("multi-core")
        return execute("02-multi-core-jax.ipynb", folder, ask, width=64, steps=12)

    def test_all_ways_train_the_same_network(self, lesson: Executed) -> None:
        one, *others = lesson.values["losses"].values()
        assert len(one) == 12
        assert one[-1] < 0.8 * one[0]
        for losses in others:
            assert losses == pytest.approx(one, abs=1e-4)

    def test_data_parallel_exchanges_the_gradient_and_the_loss_and_holds_everything(
        self, lesson: Executed
    ) -> None:
        size = lesson.values["size"]
        assert set(lesson.values["kinds"]["data parallel"]) == {"all-reduce"}
        assert lesson.values["exchanged"]["data parallel"] == 4 * (size + 1)
        assert lesson.values["held"]["data parallel"] == size
        assert lesson.values["kinds"]["one device"] == {}

    def test_divided_weights_take_less_memory_and_are_gathered(self, lesson: Executed) -> None:
        weights = 64 * 64 + 64 * 64 + 64 * 10
        assert lesson.values["held"]["fully sharded"] == weights // 8 + 64 + 64 + 10
        assert "all-gather" in lesson.values["kinds"]["fully sharded"]
        assert lesson.values["held"]["tensor parallel"] < lesson.values["size"] / 4
        # Size of activations: the same for any number of hidden units.
        assert "all-reduce" in lesson.values["kinds"]["tensor parallel"]

    def test_the_exchange_by_hand_gives_the_same_gradient(self, lesson: Executed) -> None:
        assert lesson.values["difference"] < 1e-5
        assert lesson.lines("by-hand")[-1] == "{'all-reduce': 1}"


class TestProfiling:
    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, tmp_path_factory: pytest.TempPathFactory) -> Executed:
        ask = "'found': found, 'spent': [[*part, ms] for part, ms in spent.items()], 'flops': cost['flops']"
        small = {"batch_size": 16, "channels": 4, "mistake_steps": 3}
        folder = tmp_path_factory.mktemp("profiling")
        return execute("03-profiling-jax.ipynb", folder, ask, COMPILE_QUICKLY, **small)

    def test_the_profile_is_added_up_by_the_names_of_the_network(self, lesson: Executed) -> None:
        spent = {(scope, direction): ms for scope, direction, ms in lesson.values["spent"]}
        for block in ("block0", "block1", "block2"):
            assert spent[block, "forward"] > 0
            assert spent[block, "backward"] > 0
        assert sum(shares(lesson)) == pytest.approx(100, abs=1)

    def test_the_mistakes_compile_as_the_text_states(self, lesson: Executed) -> None:
        found = lesson.values["found"]
        assert {name: figures["compiled"] for name, figures in found.items()} == {
            "none": 0,
            "slow-input": 0,
            "new-function": 3,
            "static-number": 3,
            "without-jit": 0,
        }
        assert found["slow-input"]["step_ms"] >= 200
        splits = re.findall(r"the panel: (.*)", lesson.text("mistakes"))
        assert len(splits) == 5
        assert ["compile" in split for split in splits] == [False, False, True, True, False]

    def test_the_arithmetic_of_a_step_is_known(self, lesson: Executed) -> None:
        # Three convolutions with stride 2, forward: 2 operations for each weight and output pixel.
        forward = 2 * 16 * (27 * 4 * 16**2 + 36 * 8 * 8**2 + 72 * 16 * 4**2)
        assert 2 * forward < lesson.values["flops"] < 5 * forward


def shares(lesson: Executed) -> list[float]:
    return [float(share) for share in re.findall(r"([\d.]+)%$", lesson.text("capture"), re.MULTILINE)]
