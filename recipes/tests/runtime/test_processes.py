"""Two real processes, brought together over loopback: torch.distributed with gloo, and JAX's own. torch_xla's
processes do not find each other on a CPU (docs/recipe-notes.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reserved_port import reserved_port
from tpulab_recipes.runtime import installed_backends

#: Both import their framework and compile, on a machine that may be busy. Reached only when one waits for the
#: other for ever.
DEADLINE_S = 600
PROGRAM = Path(__file__).with_name("one_process.py")

Output = list[dict[str, Any]]


def run(name: str, folder: Path, processes: int) -> Output:
    """What each process wrote."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4", "OMP_NUM_THREADS": "1"}
    with reserved_port() as port:
        started = [
            subprocess.Popen(
                [sys.executable, str(PROGRAM), name, str(folder), str(process), str(processes), str(port)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for process in range(processes)
        ]
        try:
            for each in started:
                output, _ = each.communicate(timeout=DEADLINE_S)
                assert each.returncode == 0, output[-3000:]
        finally:
            for each in started:
                if each.poll() is None:
                    each.kill()
                    each.wait()
    return [json.loads((folder / f"{n}-of-{processes}.json").read_text()) for n in range(processes)]


@pytest.mark.skipif("cpu" not in installed_backends(), reason="PyTorch is not installed here")
class TestOneProcessForEachDevice:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("torch")

    @pytest.fixture(scope="class")
    @classmethod
    def both(cls, folder: Path) -> Output:
        return run("cpu", folder, 2)

    def test_each_process_has_its_index_and_their_number(self, both: Output) -> None:
        for process, printed in enumerate(both):
            counts = {"process_count": 2, "local_devices": 1, "global_devices": 2}
            assert printed["world"] == {"process_index": process, **counts, "one_program": False}
            assert printed["devices"] == [0, 1]
            assert printed["memory"] == [process]
            assert printed["describe"].endswith("in 2 processes")

    def test_equal_seeds_draw_equal_numbers_in_both(self, both: Output) -> None:
        assert both[0]["drawn"] == both[1]["drawn"]

    def test_their_rows_are_disjoint_and_complete(self, both: Output) -> None:
        first, second = (set(printed["rows"]) for printed in both)
        assert (len(first), len(second), len(first | second)) == (20, 20, 40)

    def test_each_takes_its_own_rows_of_a_common_batch(self, both: Output) -> None:
        assert [printed["own_rows"] for printed in both] == [
            {"x": [0, 1, 2], "rate": 0.5},
            {"x": [3, 4, 5], "rate": 0.5},
        ]

    def test_differently_drawn_weights_are_replaced_by_the_first_ones(self, both: Output) -> None:
        assert both[0]["drawn_apart"] != both[1]["drawn_apart"]
        assert [printed["prepared"] for printed in both] == [both[0]["drawn_apart"]] * 2

    def test_gradients_travel_in_few_messages(self, both: Output) -> None:
        """Of 16 tensors of a small network, together."""
        assert [printed["messages_a_step"] for printed in both] == [1.0, 1.0]

    def test_their_reduced_metrics_are_equal_in_both(self, both: Output) -> None:
        assert [printed["reduced"] for printed in both] == [{"mean": 1.5, "sum": 3.0, "max": 2.0}] * 2

    def test_they_train_like_one_process_with_both_shares(self, both: Output, folder: Path) -> None:
        (alone,) = run("cpu", folder, 1)
        assert both[0]["losses"] == both[1]["losses"]
        assert both[0]["losses"] == pytest.approx(alone["losses"], rel=1e-4)
        assert len(set(alone["losses"])) == 4

    def test_their_replicas_are_equal_after_training(self, both: Output) -> None:
        assert both[0]["weights"] == both[1]["weights"]

    def test_accuracy_is_a_plain_count_although_both_end_with_a_ragged_batch(self, both: Output) -> None:
        assert [printed["read"] for printed in both] == [11, 10]
        for printed in both:
            assert printed["sums"] == {"correct": printed["counted"], "read": 21}

    def test_no_thread_of_their_group_outlives_it(self, both: Output) -> None:
        """One that runs while Python ends may abort the process."""
        assert [printed["threads_left"] for printed in both] == [0, 0]

    def test_only_the_main_one_writes_a_checkpoint(self, both: Output, folder: Path) -> None:
        assert len(both) == 2
        assert [file.parent.name for file in folder.rglob("*.pt") if "-of-2" in str(file)] == [
            "checkpoints-0-of-2"
        ]


@pytest.mark.skipif("jax" not in installed_backends(), reason="JAX is not installed here")
class TestOneProgramOverTwoProcesses:
    @pytest.fixture(scope="class")
    @classmethod
    def both(cls, tmp_path_factory: pytest.TempPathFactory) -> Output:
        return run("jax", tmp_path_factory.mktemp("jax"), 2)

    def test_each_process_has_its_index_and_their_number(self, both: Output) -> None:
        for process, printed in enumerate(both):
            counts = {"process_count": 2, "local_devices": 4, "global_devices": 8}
            assert printed["world"] == {"process_index": process, **counts, "one_program": True}
            assert printed["devices"] == [0] * 4 + [1] * 4
            assert printed["describe"].endswith("8 devices in 2 processes")

    def test_equal_seeds_draw_equal_numbers_in_both(self, both: Output) -> None:
        assert both[0]["drawn"] == both[1]["drawn"]

    def test_the_shards_of_a_batch_are_disjoint_and_complete(self, both: Output) -> None:
        whole = np.arange(48, dtype=np.float32).reshape(16, 3)
        assert [len(printed["rows"]) for printed in both] == [4, 4]
        assert np.array_equal(np.concatenate([*both[0]["rows"], *both[1]["rows"]]), whole)

    def test_every_device_of_both_holds_a_whole_replica(self, both: Output) -> None:
        whole = np.arange(48, dtype=np.float32).reshape(16, 3)
        for printed in both:
            assert len(printed["replicas"]) == 4
            assert all(np.array_equal(piece, whole) for piece in printed["replicas"])

    def test_host_copies_are_whole_in_both(self, both: Output) -> None:
        for printed in both:
            assert np.array_equal(printed["whole"], np.arange(48, dtype=np.float32).reshape(16, 3))

    def test_a_mean_over_all_rows_matches_one_process(self, both: Output) -> None:
        assert [printed["mean"] for printed in both] == pytest.approx([23.5, 23.5])

    def test_accuracy_is_a_plain_count_although_the_last_batch_is_ragged(self, both: Output) -> None:
        for printed in both:
            assert printed["sums"] == {"correct": printed["counted"], "read": 21}
