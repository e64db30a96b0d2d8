"""Widgets for notebooks: devices, steps and controls of this kernel, in any front end that shows ipywidgets.

`DeviceMonitor()`, `StepTimeline()` and `TrainingControls()` are displayed like any other widget. In a
JupyterLab with TPULab their figures come from the bridge and their commands go by it; elsewhere both travel
over the widget's own comm, twice a second. A saved notebook keeps a picture. Needs ipywidgets, which is
imported with this package only.
"""

from tpulab.widgets.views import DeviceMonitor, StepTimeline, TrainingControls, WidgetFilesError

__all__ = ["DeviceMonitor", "StepTimeline", "TrainingControls", "WidgetFilesError"]
