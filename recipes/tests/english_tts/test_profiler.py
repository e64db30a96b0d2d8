"""The seed's profiler reports the step clock's values."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

tpulab = pytest.importorskip("tpulab")

from english_tts.tiny_voice import STATISTICS, TINY, made_up  # noqa: E402
from tpulab_recipes.english_tts.english_trainer import EnglishTrainer, open_run  # noqa: E402
from tpulab_recipes.english_tts.interbatch_profiler import InterbatchProfiler, hints  # noqa: E402

from tpulab.agent.process_agent import current_agent  # noqa: E402


@pytest.fixture
def reported() -> Any:
    """The clock's own samples."""
    samples: list[Any] = []

    def tap(messages: list[Any]) -> None:
        for message in messages:
            if message["type"] == "steps":
                samples.extend(message["steps"])

    taps = current_agent().recorder.taps
    taps.append(tap)
    yield samples
    taps.remove(tap)


def test_its_numbers_equal_the_step_clocks(new_trainer: Callable[..., Any], reported: list[Any]) -> None:
    run = open_run(TINY, "profiled")
    trainer = new_trainer(enable_interbatch_profiling=True, run=run, num_epochs=2)
    trainer.train()
    found = trainer.get_profiling_report()
    trainer.profiler.close()
    assert found["total_batch_count"] == len(reported) == trainer.steps_done
    walls, inputs = [each["wallMs"] for each in reported], [each["inputMs"] for each in reported]
    gaps = [each["inputMs"] + each["gapMs"] for each in reported]
    for phase, values in (("total_batch", walls), ("data_loading", inputs), ("interbatch", gaps)):
        assert found[f"{phase}_mean_ms"] == pytest.approx(statistics.fmean(values))
        assert found[f"{phase}_median_ms"] == statistics.median(values)
        assert found[f"{phase}_total_s"] == pytest.approx(sum(values) / 1e3)
    totals = run.run._tracked.run.totals
    assert found["total_batch_total_s"] == pytest.approx(totals.wall / 1e9, rel=1e-6)
    waited = totals.measured.input + totals.unknown.input
    assert found["data_loading_total_s"] == pytest.approx(waited / 1e9, rel=1e-6)
    samples = len(reported) * TINY.batch_size / (totals.wall / 1e9)
    assert found["throughput_samples_per_sec"] == pytest.approx(samples, rel=1e-6)


def test_a_step_without_bands_lasts_exactly_its_wall_time() -> None:
    profiler, chance = InterbatchProfiler(), random.Random(38)
    names = ("inputMs", "hostMs", "compileMs", "deviceMs", "gapMs")
    for _ in range(1_000):
        spans = [chance.randrange(10 ** chance.randrange(1, 13)) for _ in names]
        step = dict(zip(names, [span / 1e6 for span in spans], strict=True))
        profiler._steps = [step]
        assert profiler.get_statistics()["total_batch_mean_ms"] == sum(spans) / 1e6
    profiler.close()


def test_samples_and_checkpoints_within_a_step_do_not_count_for_its_batch(reported: list[Any]) -> None:
    profiler = InterbatchProfiler(batch_size=4)
    run = tpulab.run("with samples", log=False)
    profiler.follow(run)
    for number in run.steps(range(4)):
        if number == 2:
            with run.band("sample"):
                time.sleep(0.2)
    run.finish()
    found = profiler.get_statistics()
    profiler.close()
    assert sum(each["wallMs"] for each in reported) >= 200
    assert found["total_batch_count"] == 4
    assert found["total_batch_total_s"] == pytest.approx(run._tracked.run.totals.wall / 1e9, rel=1e-6)
    assert found["total_batch_total_s"] <= sum(each["wallMs"] for each in reported) / 1e3 - 0.2


def test_waits_for_slow_batches_count_as_data_loading(reported: list[Any]) -> None:
    profiler = InterbatchProfiler(batch_size=4)
    assert profiler.report() == "No batch has been measured yet."

    def slow_batches() -> Iterator[int]:
        for number in range(3):
            time.sleep(0.02)
            yield number

    run = tpulab.run("slow batches", log=False)
    profiler.follow(run)
    for _ in run.steps(slow_batches()):
        time.sleep(0.01)
    run.finish()
    found = profiler.get_statistics()
    assert [found[f"{phase}_count"] for phase in ("total_batch", "data_loading")] == [3, 3]
    assert found["data_loading_total_s"] == pytest.approx(sum(each["inputMs"] for each in reported) / 1e3)
    assert found["data_loading_min_ms"] >= 20
    assert found["data_loading_total_s"] <= found["total_batch_total_s"] - 0.03
    assert "of the time waits for data" in profiler.report()
    profiler.reset()
    assert profiler.get_statistics() == {}
    profiler.close()


def test_hints_name_the_bottleneck_and_nothing_else() -> None:
    calm = {"data_loading_efficiency_pct": 95.0, "interbatch_overhead_pct": 6.0}
    assert hints(calm) == []
    assert len(hints(calm | {"interbatch_overhead_pct": 30.0})) == 1


def test_a_rate_that_was_changed_from_the_page_is_resumed(host: Any, tmp_path: Path) -> None:
    config = TINY.but(output_dir=str(tmp_path), num_epochs=1)
    utterances = [made_up(each) for each in range(6)]

    def trainer() -> EnglishTrainer:
        run = open_run(config, "steered")
        return EnglishTrainer(config, host, utterances, [], STATISTICS, run=run)

    first = trainer()
    first.run.run.set("learning_rate", 0.003)  # type: ignore[attr-defined]
    first.train()
    first.close()
    assert first.peak == pytest.approx(0.003, rel=1e-6)
    second = trainer()
    assert second.setup_checkpoint_resumption() == first.steps_done
    second.before_step()
    assert second.peak == first.peak
    second.close()


def test_a_run_that_is_stopped_continues_from_the_step_where_it_was(host: Any, tmp_path: Path) -> None:
    config = TINY.but(output_dir=str(tmp_path), num_epochs=3, log_interval=1)
    utterances = [made_up(each) for each in range(12)]
    trainer = EnglishTrainer(config, host, utterances, [], STATISTICS, run=open_run(config, "stopped"))
    trainer.on_figures.append(lambda *_: trainer.run.run.stop())  # type: ignore[attr-defined]
    assert trainer.train() == {}
    trainer.close()
    again = EnglishTrainer(config, host, utterances, [], STATISTICS)
    assert again.setup_checkpoint_resumption() == trainer.steps_done == 1
    again.train()
    assert again.steps_done == 3 * again.steps_per_epoch
    again.close()
