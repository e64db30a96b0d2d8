/** Runs the widget modules as ordinary Jupyter widgets: in JupyterLab, and wherever `@jupyter-widgets/base` is available. */
import { DOMWidgetModel, DOMWidgetView } from '@jupyter-widgets/base';
import deviceMonitor from './afm/device-monitor.js';
import stepTimeline from './afm/step-timeline.js';
import trainingControls from './afm/training-controls.js';
import type { WidgetModule } from './afm.js';

export const MODULE_NAME = '@tpulab/widgets';
/** Version of the traits shared by Python and the views; increases when they change. */
export const MODULE_VERSION = '1.0.0';

function modelClass(name: string): typeof DOMWidgetModel {
  return class extends DOMWidgetModel {
    override defaults() {
      return {
        ...super.defaults(),
        _model_module: MODULE_NAME,
        _model_module_version: MODULE_VERSION,
        _model_name: `${name}Model`,
        _view_module: MODULE_NAME,
        _view_module_version: MODULE_VERSION,
        _view_name: `${name}View`,
        _snapshot: null,
        kernel_id: '',
        run_id: '',
        run_name: ''
      };
    }
  };
}

function viewClass(module: WidgetModule): typeof DOMWidgetView {
  return class extends DOMWidgetView {
    override render(): void {
      super.render();
      // The host's element has its own classes and styles, so the module gets an element inside.
      const el = document.createElement('div');
      this.el.replaceChildren(el);
      this._end = module.render({ model: this.model, el });
    }

    override remove(): void {
      this._end?.();
      this._end = undefined;
      super.remove();
    }

    private _end: (() => void) | undefined;
  };
}

/** The exports that a widget manager loads from our module, by Python's names. */
export const widgetExports = {
  DeviceMonitorModel: modelClass('DeviceMonitor'),
  DeviceMonitorView: viewClass(deviceMonitor),
  StepTimelineModel: modelClass('StepTimeline'),
  StepTimelineView: viewClass(stepTimeline),
  TrainingControlsModel: modelClass('TrainingControls'),
  TrainingControlsView: viewClass(trainingControls)
};
