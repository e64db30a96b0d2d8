"""The widgets of the package, with a real agent; their front ends are tested in browsers (ui-tests)."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest

pytest.importorskip("ipywidgets")

import tpulab
from keeper_double import PATIENCE_S
from tpulab.agent.process_agent import current_agent
from tpulab.widgets import DeviceMonitor, StepTimeline, TrainingControls, WidgetFilesError
from tpulab.widgets import publisher as publisher_module
from tpulab.widgets.hosts import VARIABLE, chosen_host, host_traits, module_source
from tpulab.widgets.picture import control_picture
from tpulab.widgets.publisher import publisher
from tpulab.widgets.snapshot import POINTS, MetricPoints
from tpulab.widgets.views import MAX_VIEWS


@pytest.fixture(autouse=True)
def _no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tests give snapshots to widgets, and not the thread of the publisher, twice a second."""
    monkeypatch.setattr(publisher_module, "PERIOD_S", 3600.0)


@pytest.fixture
def trained() -> Any:
    publisher()
    run = tpulab.run("seen", {"batch": 8}, hyperparameters={"rate": tpulab.hyper(0.5, min=0.0, max=1.0)})
    for turn in run.steps(range(20)):
        run.log(loss=1.0 / (turn + 1))
    current_agent().settle(PATIENCE_S)
    return run


@pytest.mark.usefixtures("trained")
def test_a_snapshot_has_the_newest_run_with_its_steps_metrics_and_hyperparameters() -> None:
    snapshot = publisher().store.take()
    assert snapshot["run"]["name"] == "seen"
    assert [row[0] for row in snapshot["steps"]] == list(range(20))
    for _, _, wall, *spans, _known in snapshot["steps"]:
        assert sum(spans) == pytest.approx(wall, abs=0.01)
    steps, values = snapshot["metrics"]["loss"]
    assert steps == list(range(20))
    assert values[3] == 0.25
    assert [hyper["name"] for hyper in snapshot["run"]["control"]["hyperparameters"]] == ["rate"]


def test_a_metric_of_a_long_run_is_thinned_and_keeps_its_beginning_and_its_order() -> None:
    points = MetricPoints()
    for step in range(10_000):
        points.add(step, float(step))
    assert len(points.steps) <= POINTS
    assert points.steps[0] == 0
    assert points.steps == sorted(points.steps)
    assert points.steps[-1] > 9_000
    assert points.values == [float(step) for step in points.steps]


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize(("widget", "words"), [(StepTimeline, "per step"), (TrainingControls, "rate = 0.5")])
def test_a_displayed_widget_has_a_picture_for_readers_without_widgets(widget: Any, words: str) -> None:
    shown = widget()
    bundle = shown._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/html"].startswith("<svg")
    assert words in bundle["text/html"]
    shown.close()


def test_a_widget_made_before_its_run_begins_stays_with_it_from_its_first_step_on() -> None:
    run = tpulab.run("mine")
    shown = TrainingControls(run)
    assert shown.run_id == ""
    for _ in run.steps(range(3)):
        pass
    mine = shown.run_id
    assert mine != ""
    for _ in tpulab.steps(range(3), name="another"):
        pass
    assert shown.run_id == mine
    shown.close()
    later = StepTimeline(run)
    assert later.run_id == mine
    later.close()


def test_a_widget_made_before_its_run_begins_shows_nothing_of_the_previous_run() -> None:
    for _ in tpulab.steps(range(3), name="earlier"):
        pass
    current_agent().settle(PATIENCE_S)
    run = tpulab.run("to come", hyperparameters={"rate": 0.5})
    shown = TrainingControls(run)
    assert (shown.run_id, shown.run_name) == ("", "to come")
    assert "No run had started." in shown._repr_mimebundle_()["text/html"]
    for _ in run.steps(range(3)):
        pass
    current_agent().settle(PATIENCE_S)
    shown.take(publisher().store.take())
    assert "to come: " in shown._repr_mimebundle_()["text/html"]
    shown.close()


def test_a_run_that_begins_is_in_the_snapshot_although_the_loop_before_it_is_reported_later() -> None:
    store = publisher().store
    for _ in tpulab.steps(range(3), name="evaluation"):
        pass
    run = tpulab.run("training")
    for turn in run.steps(range(3)):
        # Its beginning, and the steps and the end of the loop before, are reported together.
        current_agent().settle(PATIENCE_S)
        snapshot = store.take()
        assert snapshot["run"]["name"] == "training"
        assert [row[0] for row in snapshot["steps"]] == list(range(turn))
    for _ in tpulab.steps(range(3), name="evaluation"):
        pass
    current_agent().settle(PATIENCE_S)
    assert store.take()["run"]["name"] == "training"
    run.finish()
    for _ in tpulab.steps(range(3), name="evaluation"):
        current_agent().settle(PATIENCE_S)
    assert store.take()["run"]["name"] == "evaluation"


def test_a_monitor_without_devices_is_reported() -> None:
    shown = DeviceMonitor()
    assert "<svg" in shown._repr_mimebundle_()["text/html"]
    shown.close()


def test_a_picture_leaves_out_values_that_are_not_numbers_and_reports_them() -> None:
    run = {"name": "diverges", "state": "running"}
    picture = control_picture({"run": run, "metrics": {"loss": [[0, 1, 2], [1.0, 0.5, None]]}})
    assert "loss NaN" in picture
    [points] = re.findall(r"points=\"([^\"]*)\"", picture)
    assert len(points.split()) == 2


def test_the_picture_of_a_run_stays_with_it_when_another_one_begins() -> None:
    def train(name: str) -> None:
        for _ in tpulab.run(name).steps(range(3)):
            pass
        current_agent().settle(PATIENCE_S)
        snapshot = publisher().store.take()
        for widget in (mine, newest):
            widget.take(snapshot)

    first = tpulab.run("first")
    mine, newest = StepTimeline(first), StepTimeline()
    assert "No step was measured" in mine._repr_mimebundle_()["text/html"]
    for _ in first.steps(range(3)):
        pass
    current_agent().settle(PATIENCE_S)
    mine.take(publisher().store.take())
    train("second")
    assert "first: " in mine._repr_mimebundle_()["text/html"]
    assert "second: " in newest._repr_mimebundle_()["text/html"]
    for widget in (mine, newest):
        widget.close()


def test_names_in_a_picture_cannot_break_out_of_it() -> None:
    run = tpulab.run("<script>alert(1)</script>")
    for _ in run.steps(range(3)):
        pass
    current_agent().settle(PATIENCE_S)
    shown = StepTimeline()
    assert "<script>" not in shown._repr_mimebundle_()["text/html"]
    shown.close()


def test_snapshots_are_sent_only_to_pages_without_a_better_source() -> None:
    shown = StepTimeline()

    def send_feed(view: str, by: str | None) -> None:
        shown._handle_custom_msg({"type": "feed", "view": view, "by": by}, [])

    def is_sent() -> bool:
        shown.take({**publisher().store.take(), "time": shown._newest["time"] + 1})
        return bool(shown._snapshot["time"] == shown._newest["time"])

    assert is_sent(), "no page has sent a feed, and there is no bridge whose journal would store snapshots"
    send_feed("a page with the bridge", "bridge")
    assert not is_sent()
    send_feed("a page without", "comm")
    assert shown._snapshot == shown._newest, "a new page gets the newest at once"
    assert is_sent()
    send_feed("a page without", None)
    assert not is_sent()
    send_feed("a page with the bridge", None)
    assert is_sent()
    for number in range(MAX_VIEWS):
        send_feed(f"reloaded {number}", "bridge")
    assert not is_sent()
    send_feed("one too many to be true", "bridge")
    assert is_sent()
    shown.close()


def test_with_a_bridge_only_requested_snapshots_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case T8: a detached run, or one whose tab was closed, would fill its journal."""
    shown = StepTimeline()
    shown.set_trait("kernel_id", "k")
    monkeypatch.setattr(type(current_agent().cells), "are_running", property(lambda _: True))
    before = shown._snapshot
    for _ in range(3):
        shown.take({**publisher().store.take(), "time": shown._newest["time"] + 1})
        shown.keep_picture()
    assert shown._snapshot == before
    shown._handle_custom_msg({"type": "feed", "view": "a page without", "by": "comm"}, [])
    assert shown._snapshot == shown._newest
    shown._handle_custom_msg({"type": "feed", "view": "a page without", "by": None}, [])
    before = shown._snapshot
    shown.take({**publisher().store.take(), "time": shown._newest["time"] + 1})
    assert shown._snapshot == before
    shown.close()


def test_pictures_of_a_sweep_become_rare_and_the_last_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    from tpulab.widgets import publisher as room

    clock, running = [0], [True]
    own = room.Publisher()
    monkeypatch.setattr(room, "now_ns", lambda: clock[0])
    monkeypatch.setattr(type(own._agent.cells), "are_running", property(lambda _: running[0]))
    pictures: list[int] = []

    class Shown:
        def take(self, snapshot: Any) -> None: ...

        def keep_picture(self) -> None:
            pictures.append(own.store.ended)

    for _ in range(7 * 24 * 60):  # a trial a minute, for a week
        clock[0] += 60 * 10**9
        own.store.ended += 1
        own._round([Shown()])
    assert 10 < len(pictures) < 50
    # "Run all": the run of the next cell ends while a later cell runs.
    own.store.ended += 1
    own._agent.cells.begun += 1
    own._round([Shown()])
    assert pictures[-1] == own.store.ended
    own.store.ended += 1
    own._round([Shown()])
    assert pictures[-1] == own.store.ended - 1
    running[0] = False
    own._round([Shown()])
    assert pictures[-1] == own.store.ended


def test_the_picture_is_current_although_no_snapshot_was_sent() -> None:
    shown = StepTimeline()
    shown._handle_custom_msg({"type": "feed", "view": "v", "by": "bridge"}, [])
    for _ in tpulab.run("pictured").steps(range(3)):
        pass
    current_agent().settle(PATIENCE_S)
    shown.take(publisher().store.take())
    assert (shown._snapshot["run"] or {}).get("name") != "pictured"
    assert "pictured: " in shown._repr_mimebundle_()["text/html"]
    # The run has ended: a reader of the saved notebook without a bridge gets its last figures.
    shown.keep_picture()
    assert shown._snapshot["run"]["name"] == "pictured"
    shown.close()


def test_the_picture_shows_the_end_of_a_run_that_ends_while_a_snapshot_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tpulab.run("ends")
    shown = TrainingControls(run)
    for _ in run.steps(range(3)):
        pass
    current_agent().settle(PATIENCE_S)
    take = publisher().store.take

    def ends_meanwhile() -> Any:
        snapshot = take()
        run.finish()
        current_agent().settle(PATIENCE_S)
        return snapshot

    with monkeypatch.context() as during_the_round:
        during_the_round.setattr(publisher().store, "take", ends_meanwhile)
        publisher()._round([shown])
    publisher()._round([shown])
    assert "ends: finished" in shown._repr_mimebundle_()["text/html"]
    shown.close()


def test_the_picture_shows_the_end_of_a_run_that_another_one_follows_at_once() -> None:
    run = tpulab.run("first")
    shown = TrainingControls(run)
    for _ in run.steps(range(3)):
        pass
    current_agent().settle(PATIENCE_S)
    publisher()._round([shown])
    for turn in run.steps(range(3, 6)):
        run.log(loss=1.0 + turn)
    run.finish()
    for _ in tpulab.steps(range(3), name="next"):
        pass
    current_agent().settle(PATIENCE_S)
    publisher()._round([shown])
    picture = shown._repr_mimebundle_()["text/html"]
    assert "first: finished" in picture
    assert "loss 6" in picture
    assert shown._snapshot["run"]["name"] == "first", "a page opened later finds its run, not the next"
    assert publisher().store.take_ended() == []
    shown.close()


@pytest.mark.usefixtures("trained")
def test_a_command_over_the_comm_is_decided_and_answered() -> None:
    shown = TrainingControls()
    sent: list[dict[str, Any]] = []
    shown.send = lambda content, **_: sent.append(content)
    command = {"id": "c-1", "action": "pause", "run": "no-such-run"}
    shown._handle_custom_msg({"type": "command", "command": command}, [])
    assert sent[0]["type"] == "answer"
    assert sent[0]["answer"]["id"] == "c-1"
    assert sent[0]["answer"]["phase"] == "refused"
    shown._handle_custom_msg({"type": "something else"}, [])
    assert len(sent) == 1
    shown.close()


def test_the_front_end_is_chosen_by_where_the_notebook_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("VSCODE_PID", raising=False)
    assert chosen_host() == "tpulab"
    assert chosen_host({"__vsc_ipynb_file__": "a.ipynb"}) == "anywidget"
    monkeypatch.setenv(VARIABLE, "tpulab")
    assert chosen_host({"__vsc_ipynb_file__": "a.ipynb"}) == "tpulab"


def test_anywidget_gets_the_module_and_its_styles() -> None:
    traits = host_traits("anywidget", "StepTimeline", "step-timeline")
    assert traits["_esm"] == module_source("step-timeline")
    assert ".jp-TPULabWidget" in traits["_css"]
    assert "_css" not in host_traits("tpulab", "StepTimeline", "step-timeline")


def test_a_front_end_that_was_not_built_is_named_with_what_to_do() -> None:
    with pytest.raises(WidgetFilesError, match="npm run build"):
        module_source("no-such-widget")


def test_importing_the_package_imports_no_ipywidgets() -> None:
    code = "import sys, tpulab; tpulab.steps; assert 'ipywidgets' not in sys.modules"
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)
