"""Widgets for notebooks: devices, steps and controls of this kernel, in any front end that shows ipywidgets.

`DeviceMonitor()`, `StepTimeline()` and `TrainingControls()` are displayed like any other widget. In a
JupyterLab with TPULab their figures come from the bridge and their commands go by it; elsewhere both travel
over the widget's own comm, twice a second. A saved notebook keeps a picture. They need ipywidgets, which is
imported when one of them is first used; `tpulab.live` is in this package too, and works without that import.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tpulab.widgets.hosts import WidgetFilesError
    from tpulab.widgets.views import DeviceMonitor, StepTimeline, TrainingControls

__all__ = ["DeviceMonitor", "StepTimeline", "TrainingControls", "WidgetFilesError"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'tpulab.widgets' has no attribute {name!r}")
    from tpulab.widgets import views

    return getattr(views, name)
