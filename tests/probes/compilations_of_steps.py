"""Runs inside a kernel before the lesson: how often the compiler had run after each step of each run.

`compilations_after["AlexNet on one core"][1]` is the count after step 2. A step counts when it is recorded.
"""


def _count_after_each_step() -> dict[str, list[int]]:
    from tpulab_recipes import runtime

    from tpulab.training.run import TrainingRun

    counts: dict[str, list[int]] = {}
    record = TrainingRun.log

    def record_and_count(run: TrainingRun, **metrics: object) -> None:
        record(run, **metrics)
        counts.setdefault(run.name, []).append(runtime.current().compilations().count)

    TrainingRun.log = record_and_count
    return counts


compilations_after = _count_after_each_step()
