"""The three widgets."""

from __future__ import annotations

import os
import uuid
from typing import Any, ClassVar

import ipywidgets
import traitlets

from tpulab.agent.process_agent import current_agent
from tpulab.telemetry.cells import notebook_shell
from tpulab.widgets.hosts import WidgetFilesError, chosen_host, host_traits
from tpulab.widgets.picture import control_picture, device_picture, step_picture
from tpulab.widgets.publisher import publisher
from tpulab.widgets.snapshot import without_run

#: Number of views that one widget remembers; more than a user opens.
MAX_VIEWS = 256

__all__ = ["DeviceMonitor", "StepTimeline", "TrainingControls", "WidgetFilesError"]


class TelemetryWidget(ipywidgets.DOMWidget):  # type: ignore[misc]
    """A widget with this kernel's measurements. `close()` ends it."""

    _name: ClassVar[str]
    _file: ClassVar[str]
    #: whether its page sends requests even where it has no bridge
    _steers: ClassVar[bool] = False

    # ipywidgets fixes these for a class; here the front end decides.
    _model_module = traitlets.Unicode("").tag(sync=True)
    _model_module_version = traitlets.Unicode("").tag(sync=True)
    _model_name = traitlets.Unicode("").tag(sync=True)
    _view_module = traitlets.Unicode("").tag(sync=True)
    _view_module_version = traitlets.Unicode("").tag(sync=True)
    _view_name = traitlets.Unicode("").tag(sync=True)
    _snapshot = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    _esm = traitlets.Unicode("").tag(sync=True)
    _css = traitlets.Unicode("").tag(sync=True)
    _anywidget_id = traitlets.Unicode("").tag(sync=True)
    #: id of this kernel at the bridge; empty without one
    kernel_id = traitlets.Unicode("", read_only=True).tag(sync=True)
    #: id of the run to show; empty for the newest
    run_id = traitlets.Unicode("").tag(sync=True)
    #: name of that run, used before its first step gives it an id; empty for the newest
    run_name = traitlets.Unicode("").tag(sync=True)

    def __init__(self, run: Any = None, **options: Any) -> None:
        """
        Args:
            run: a run of `tpulab.run` to stay with; None follows the newest one.

        Raises:
            WidgetFilesError: the front end that was chosen is not in this installation.
        """
        self._display_id: str | None = None
        #: views of pages by their own names: views with the bridge, and views that depend on this comm
        self._by_bridge: set[str] = set()
        self._by_comm: set[str] = set()
        traits = host_traits(chosen_host(getattr(notebook_shell(), "user_ns", {})), self._name, self._file)
        publisher_ = publisher()
        #: the newest, whether it was sent or not
        self._newest = publisher_.store.take()
        super().__init__(**traits, _snapshot=self._newest, **options)
        self.set_trait("kernel_id", os.environ.get("TPULAB_KERNEL_ID", ""))
        self.on_msg(self._on_message)
        if self.kernel_id or self._steers:
            self._listen_while_busy()
        # A run whose first step has not started has no id yet; until then it is unknown.
        if hasattr(run, "when_announced"):
            self.run_name = run.name or "run"
            run.when_announced(lambda run_id: self.set_trait("run_id", run_id))
        #: content of the picture: the newest of its run, even when another run has started
        self._pictured = self._newest if self._is_of_its_run(self._newest) else without_run(self._newest)
        publisher_.add(self)

    def _is_of_its_run(self, snapshot: dict[str, Any]) -> bool:
        run = snapshot["run"]
        return not self.run_name or (run is not None and run["run"] == self.run_id)

    def _picture(self, snapshot: dict[str, Any]) -> str:
        raise NotImplementedError

    def take(self, snapshot: dict[str, Any]) -> None:
        """Shows a newer snapshot. It is sent only to pages that requested it: with a bridge everything that
        is sent is written to the journal, shown or not."""
        self._newest = snapshot
        if self._is_of_its_run(snapshot):
            self._pictured = snapshot
        if self._is_requested:
            self._snapshot = self._pictured

    @property
    def _is_requested(self) -> bool:
        return bool(self._by_comm) or not (self.kernel_id or self._by_bridge)

    def keep_picture(self) -> None:
        """Replaces the saved picture in the notebook with a current one."""
        # The whole snapshot, for readers of the file without a bridge, only when the cell is over.
        if self._is_requested or not current_agent().cells.are_running:
            self._snapshot = self._pictured
        if self._display_id is not None:
            from IPython.display import update_display

            update_display(self._bundle(), raw=True, display_id=self._display_id)

    def _on_message(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if content.get("type") != "feed":
            return
        view, by = str(content.get("view"))[:64], content.get("by")
        self._by_bridge.discard(view)
        self._by_comm.discard(view)
        if len(self._by_bridge) + len(self._by_comm) >= MAX_VIEWS:
            # Pages may close without a message: every remaining one gets snapshots again.
            self._by_bridge.clear()
        elif by in ("bridge", "comm"):
            (self._by_bridge if by == "bridge" else self._by_comm).add(view)
        self.take(self._newest)

    def _listen_while_busy(self) -> None:
        """Messages of a page are processed while the cell is busy too: source of its figures, requests."""
        from tpulab.widgets.live_widget import live

        # The handlers set flags only, which any thread may.
        live(self, immediate=True)

    def close(self) -> None:
        publisher().remove(self)
        super().close()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, None)
        data = {**data, "text/html": self._picture(self._pictured)}
        return data if metadata is None else (data, metadata)

    def _ipython_display_(self, **_: Any) -> None:
        from IPython.display import display

        self._display_id = uuid.uuid4().hex
        display(self._bundle(), raw=True, display_id=self._display_id)

    def _bundle(self) -> Any:
        bundle = self._repr_mimebundle_()
        return bundle[0] if isinstance(bundle, tuple) else bundle


class DeviceMonitor(TelemetryWidget):
    """The devices of this kernel: memory, and with a bridge their load."""

    _name = "DeviceMonitor"
    _file = "device-monitor"

    def _picture(self, snapshot: dict[str, Any]) -> str:
        return device_picture(snapshot)


class StepTimeline(TelemetryWidget):
    """The time split of the newest steps, and what limits them."""

    _name = "StepTimeline"
    _file = "step-timeline"

    def _picture(self, snapshot: dict[str, Any]) -> str:
        return step_picture(snapshot)

    #: newest steps to show
    window = traitlets.Int(64, min=8, max=2048).tag(sync=True)


class TrainingControls(TelemetryWidget):
    """Progress and loss of a run of `tpulab.run`, with its buttons and hyperparameters.

    They work while the cell is busy: through the bridge if the page has one, otherwise as a live widget
    (`tpulab.live`).
    """

    _name = "TrainingControls"
    _file = "training-controls"
    _steers = True

    def _picture(self, snapshot: dict[str, Any]) -> str:
        return control_picture(snapshot)

    def _on_message(self, widget: Any, content: dict[str, Any], buffers: Any) -> None:
        super()._on_message(widget, content, buffers)
        if content.get("type") != "command" or not isinstance(content.get("command"), dict):
            return
        agent = current_agent()
        answer, reported = agent.commands.receive(content["command"])
        if not reported:
            agent.send_control(answer)
        self.send({"type": "answer", "answer": answer})
