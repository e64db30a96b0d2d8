"""`tpulab.live(widget)`: a widget that acts while its cell is busy.

    speed = tpulab.live(widgets.FloatSlider(value=1))
    display(speed.widget)
    for batch in run.steps(loader):
        train(batch, speed.value)

Values are delivered on the main thread, between two steps or when `.value` is read, so that callbacks never
run in the middle of a step. With `immediate=True` they run immediately, on a separate thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tpulab.agent.process_agent import current_agent
from tpulab.telemetry.cells import notebook_shell
from tpulab.widgets.live_route import LiveRoute, LiveRouteError

_route: LiveRoute | None = None
_warned = False


class LiveWidgetError(TypeError):
    """The argument is not an open ipywidget."""

    code = "LIVE_WIDGET"


class LiveWidget:
    """A widget that reacts while a cell runs. Created by `live`."""

    def __init__(self, widget: Any, ids: list[str]) -> None:
        self.widget = widget
        self._ids = ids

    @property
    def value(self) -> Any:
        """The newest value of the widget, even while its cell is busy."""
        self.poll()
        return self.widget.value

    def poll(self) -> None:
        """Delivers waiting messages: sets values and runs callbacks, now. Only on the main thread."""
        pump()

    def close(self) -> None:
        """Turns the widget back into an ordinary one. It stays on the page."""
        if _route is not None:
            for comm_id in self._ids:
                _route.comms.pop(comm_id, None)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    def __repr__(self) -> str:
        return f"tpulab.live({self.widget!r})"


def live(widget: Any, *, immediate: bool = False) -> LiveWidget:
    """Makes a widget, and the widgets inside it, react while a synchronous cell is busy.

    Args:
        widget: an ipywidget: a slider, a button, a text, or a box of widgets.
        immediate: run callbacks immediately, on the thread `tpulab-live`, while the cell continues. They must
            not use anything that the cell uses at the same time. Otherwise they run on the main thread,
            between two steps of a measured loop, or when you read `.value` or call `.poll()`.

    Raises:
        LiveWidgetError: `widget` is not a widget, or was closed.
    """
    ids = [comm.comm_id for comm in _comms(widget)]
    if not ids:
        raise LiveWidgetError(f"{type(widget).__name__} is not an open ipywidget.")
    route = _find_route()
    if route is not None:
        for comm_id in ids:
            route.comms[comm_id] = immediate
        current_agent().tracker.between_steps = pump
    return LiveWidget(widget, ids)


def pump() -> None:
    """Delivers waiting messages to live widgets. Cheap if there are none."""
    if _route is not None:
        _route.pump()


def _comms(widget: Any) -> Iterator[Any]:
    comm = getattr(widget, "comm", None)
    if getattr(comm, "comm_id", None) is None:
        return
    yield comm
    children = getattr(widget, "children", ())
    for child in children if isinstance(children, (tuple, list)) else ():
        yield from _comms(child)


def _find_route() -> LiveRoute | None:
    """The route of this process's kernel, installed if missing. None where it cannot be installed."""
    global _route, _warned
    kernel = getattr(notebook_shell(), "kernel", None)
    if _route is None and kernel is not None:
        try:
            _route = LiveRoute.install(kernel)
        except LiveRouteError as error:
            if not _warned:
                _warned = True
                current_agent().warn("live widgets react only after their cell: %s", error)
    return _route
