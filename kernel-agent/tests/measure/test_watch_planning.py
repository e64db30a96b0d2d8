"""Which steps are watched: this depends on the cost of a wait and on the mean length of a step."""

from __future__ import annotations

from types import SimpleNamespace

from tpulab.measure.watch_plan import FIRST_STEPS, MAX_SKIP, WATCHED_IN_A_ROW, WatchPlan

MS = 1_000_000
WAIT_COST_NS = 30_000


def share_watched(walls_ms: list[float], *, after: int = FIRST_STEPS, sleeps: bool = False) -> float:
    """The share of steps of these lengths that is watched, without the first `after`."""
    device = SimpleNamespace(waits=0, watch_cost_ns=WAIT_COST_NS, sleeps=sleeps)
    plan = WatchPlan(device)
    watched = []
    for wall_ms in walls_ms:
        watched.append(plan.state in ("watching", "planning"))
        device.waits += watched[-1]
        plan.step_ended(int(wall_ms * MS), is_between=False, is_device_known=True)
    return sum(watched[after:]) / len(watched[after:])


def test_long_steps_are_all_watched() -> None:
    assert share_watched([20.0] * 100) == 1


def test_short_steps_are_watched_in_part() -> None:
    assert 0 < share_watched([0.7] * 500) < 0.1


def test_shorter_steps_are_all_watched_where_no_thread_is_woken() -> None:
    assert share_watched([2.6] * 500, sleeps=True) == 1
    assert share_watched([2.6] * 500) < 0.6


def test_the_first_steps_are_all_watched_however_short_they_are() -> None:
    assert share_watched([0.7] * FIRST_STEPS, after=0) == 1


def test_steps_that_queue_their_work_are_judged_by_the_mean() -> None:
    # The loop runs ahead: three calls return immediately, the fourth waits for the device.
    assert share_watched([0.3, 0.3, 0.3, 40.0] * 50, after=100) > 0.9


def test_an_occasional_checkpoint_does_not_make_short_steps_look_long() -> None:
    assert share_watched(([0.7] * 99 + [5_000.0]) * 5, after=100) < 0.15


def test_states_follow_each_other_as_in_the_table() -> None:
    plan = WatchPlan(SimpleNamespace(waits=0, watch_cost_ns=WAIT_COST_NS, sleeps=False))

    def after(steps: int = 1, *, is_between: bool = False, is_device_known: bool = True) -> tuple[str, bool]:
        for _ in range(steps):
            plan.step_ended(MS // 10, is_between=is_between, is_device_known=is_device_known)
        return plan.state, plan.posts

    assert after(FIRST_STEPS - 1) == ("watching", True)
    assert after() == ("planning", True)
    # Between two programs nothing is planned.
    assert after(5, is_between=True) == ("planning", True)
    assert after() == ("skipping", False)
    assert 0 < plan.left <= 1.5 * MAX_SKIP
    assert after(plan.left) == ("posting", True)
    assert after(3, is_between=True, is_device_known=False) == ("posting", True)
    assert after(is_between=True) == ("watching", True)
    assert after(WATCHED_IN_A_ROW - 1) == ("planning", True)
    assert after() == ("skipping", False)


def test_a_loop_is_measured_again_after_a_program_ended_unseen() -> None:
    device = SimpleNamespace(waits=0, watch_cost_ns=0, sleeps=True)
    plan = WatchPlan(device)
    for _ in range(6 * FIRST_STEPS):
        plan.step_ended(20 * MS, is_between=False, is_device_known=True)
    assert plan.state == "planning"
    device.sleeps = False
    plan.step_ended(20 * MS, is_between=False, is_device_known=True)
    assert (plan.state, plan.left) == ("watching", FIRST_STEPS)
