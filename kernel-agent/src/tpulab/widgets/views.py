"""The three widgets."""

from __future__ import annotations

import os
import sys
import uuid
from typing import Any, ClassVar

import ipywidgets
import traitlets

from tpulab.process_agent import current_agent
from tpulab.widgets.hosts import WidgetFilesError, chosen_host, host_traits
from tpulab.widgets.picture import control_picture, device_picture, step_picture
from tpulab.widgets.publisher import publisher

__all__ = ["DeviceMonitor", "StepTimeline", "TrainingControls", "WidgetFilesError"]


class TelemetryWidget(ipywidgets.DOMWidget):  # type: ignore[misc]
    """A widget that shows what this kernel measures. `close()` ends it."""

    _name: ClassVar[str]
    _file: ClassVar[str]

    # ipywidgets fixes these for a class; here the host decides.
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

    def __init__(self, run: Any = None, **options: Any) -> None:
        """
        Args:
            run: a run of `tpulab.run` to stay with; None follows the newest one.

        Raises:
            WidgetFilesError: the front end that was chosen is not in this installation.
        """
        self._display_id: str | None = None
        traits = host_traits(chosen_host(_user_names()), self._name, self._file)
        publisher_ = publisher()
        snapshot = publisher_.store.take()
        super().__init__(**traits, _snapshot=snapshot, **options)
        self.set_trait("kernel_id", os.environ.get("TPULAB_KERNEL_ID", ""))
        # A run whose first step has not begun has no id yet; until then the newest run is followed.
        if hasattr(run, "when_announced"):
            run.when_announced(lambda run_id: self.set_trait("run_id", run_id))
        publisher_.add(self)

    def _picture(self, snapshot: dict[str, Any]) -> str:
        raise NotImplementedError

    def take(self, snapshot: dict[str, Any]) -> None:
        """Shows a newer snapshot."""
        self._snapshot = snapshot

    def keep_picture(self) -> None:
        """Replaces the picture that the notebook keeps by one of now."""
        if self._display_id is not None:
            from IPython.display import update_display

            update_display(self._bundle(), raw=True, display_id=self._display_id)

    def close(self) -> None:
        publisher().remove(self)
        super().close()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, None)
        data = {**data, "text/html": self._picture(self._snapshot or publisher().store.take())}
        return data if metadata is None else (data, metadata)

    def _ipython_display_(self, **_: Any) -> None:
        from IPython.display import display

        self._display_id = uuid.uuid4().hex
        display(self._bundle(), raw=True, display_id=self._display_id)

    def _bundle(self) -> Any:
        bundle = self._repr_mimebundle_()
        return bundle[0] if isinstance(bundle, tuple) else bundle


class DeviceMonitor(TelemetryWidget):
    """The devices of this kernel: memory, and with a bridge how busy they are."""

    _name = "DeviceMonitor"
    _file = "device-monitor"

    def _picture(self, snapshot: dict[str, Any]) -> str:
        return device_picture(snapshot)


class StepTimeline(TelemetryWidget):
    """Where the time of the newest steps goes, and what limits them."""

    _name = "StepTimeline"
    _file = "step-timeline"

    def _picture(self, snapshot: dict[str, Any]) -> str:
        return step_picture(snapshot)

    #: newest steps to show
    window = traitlets.Int(64, min=8, max=2048).tag(sync=True)


class TrainingControls(TelemetryWidget):
    """Progress and loss of a run of `tpulab.run`, buttons that steer it, and its hyperparameters.

    They act while the cell is busy: by the bridge where the page has it, else as a live widget
    (`tpulab.live`).
    """

    _name = "TrainingControls"
    _file = "training-controls"

    def _picture(self, snapshot: dict[str, Any]) -> str:
        return control_picture(snapshot)

    def __init__(self, run: Any = None, **options: Any) -> None:
        super().__init__(run, **options)
        from tpulab.live_widget import live

        self.on_msg(self._on_message)
        # The handler below sets flags only, which any thread may.
        live(self, immediate=True)

    def _on_message(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if content.get("type") != "command" or not isinstance(content.get("command"), dict):
            return
        agent = current_agent()
        answer, told = agent.desk.receive(content["command"])
        if not told:
            agent.tell_control(answer)
        self.send({"type": "answer", "answer": answer})


def _user_names() -> dict[str, Any]:
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_ipython() if callable(get_ipython) else None
    return getattr(shell, "user_ns", {})
