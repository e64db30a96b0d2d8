/** Where a widget's figures are from: the bridge where the page has one, else the comm of the widget. */
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import type { MachineTelemetry } from '../machine/machine-telemetry.js';
import { ControlModel } from '../runs/model.js';
import type { AnyModel } from './afm.js';
import { asSnapshot, SnapshotReader } from './snapshot.js';

/** What JupyterLab with our extension gives to the widgets of its page. */
export interface WidgetHost {
  /** Null for a kernel that is on no bridge. */
  telemetryOf(kernelId: string): KernelTelemetry | null;
  machineOf(kernelId: string): MachineTelemetry | null;
  /** Sends by the bridge, which does not wait for the cell. */
  send(kernelId: string, command: ControlCommand): Promise<ControlMessage>;
}

/** The name under which a page offers its host; modules find it there, because their only argument is the model. */
export const HOST_KEY = Symbol.for('tpulab.widget-host');

export interface Feed {
  readonly kernel: KernelTelemetry;
  readonly machine: MachineTelemetry | null;
  readonly control: ControlModel;
  /** The run that the widget is of, or the newest one. */
  readonly run: Run | null;
  /** Told after each change of any of it. */
  onChange(listener: () => void): void;
  dispose(): void;
}

const SNAPSHOT = '_snapshot';

export function openFeed(model: AnyModel): Feed {
  const host = (globalThis as { [HOST_KEY]?: WidgetHost })[HOST_KEY] ?? null;
  const snapshot = asSnapshot(model.get(SNAPSHOT));
  const kernelId = textOf(model.get('kernel_id')) ?? snapshot?.kernelId ?? null;
  const live = host && kernelId !== null ? host.telemetryOf(kernelId) : null;
  return live && host && kernelId !== null
    ? new BridgeFeed(model, live, host, kernelId)
    : new CommFeed(model);
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function runOf(kernel: KernelTelemetry, model: AnyModel): Run | null {
  const wanted = textOf(model.get('run_id'));
  return kernel.runs.runs.find(({ id }) => id === wanted) ?? kernel.runs.current;
}

class BridgeFeed implements Feed {
  readonly control: ControlModel;
  readonly machine: MachineTelemetry | null;
  private readonly _listeners: (() => void)[] = [];

  constructor(
    private readonly _model: AnyModel,
    readonly kernel: KernelTelemetry,
    host: WidgetHost,
    kernelId: string
  ) {
    this.machine = host.machineOf(kernelId);
    this.control = new ControlModel(kernel, command => host.send(kernelId, command));
    kernel.changed.connect(this._tell, this);
    this.machine?.changed.connect(this._tell, this);
    this.control.changed.connect(this._tell, this);
  }

  get run(): Run | null {
    return runOf(this.kernel, this._model);
  }

  onChange(listener: () => void): void {
    this._listeners.push(listener);
  }

  dispose(): void {
    this._listeners.length = 0;
    this.kernel.changed.disconnect(this._tell, this);
    this.machine?.changed.disconnect(this._tell, this);
    this.control.dispose();
  }

  private _tell(): void {
    for (const listener of this._listeners) {
      listener();
    }
  }
}

/** How long an answer may take before the request counts as lost: a busy kernel answers when it is asked by `tpulab.live`. */
const ANSWER_MS = 15_000;

class CommFeed implements Feed {
  readonly kernel = new KernelTelemetry('widget');
  readonly machine = null;
  readonly control: ControlModel;
  private readonly _reader = new SnapshotReader(this.kernel);
  private readonly _listeners: (() => void)[] = [];
  private readonly _waiting = new Map<string, (message: ControlMessage) => void>();

  constructor(private readonly _model: AnyModel) {
    this.control = new ControlModel(this.kernel, command => this._send(command));
    this._model.on(`change:${SNAPSHOT}`, this._onSnapshot);
    this._model.on('msg:custom', this._onMessage);
    this.kernel.changed.connect(this._tell, this);
    this.control.changed.connect(this._tell, this);
    this._onSnapshot();
  }

  get run(): Run | null {
    return runOf(this.kernel, this._model);
  }

  onChange(listener: () => void): void {
    this._listeners.push(listener);
  }

  dispose(): void {
    this._listeners.length = 0;
    this._model.off(`change:${SNAPSHOT}`, this._onSnapshot);
    this._model.off('msg:custom', this._onMessage);
    this.control.dispose();
    this.kernel.dispose();
  }

  private readonly _onSnapshot = (): void => {
    const snapshot = asSnapshot(this._model.get(SNAPSHOT));
    if (snapshot) {
      this._reader.read(snapshot);
    }
  };

  private readonly _onMessage = (message: unknown): void => {
    const { type, answer } = message as { type?: unknown; answer?: ControlMessage };
    if (type === 'answer' && answer) {
      this._waiting.get(answer.id)?.(answer);
      this._waiting.delete(answer.id);
    }
  };

  private _send(command: ControlCommand): Promise<ControlMessage> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this._waiting.delete(command.id);
        reject(
          new Error('The kernel did not answer; it may be busy without TPULab. Try again when it is idle.')
        );
      }, ANSWER_MS);
      this._waiting.set(command.id, message => {
        clearTimeout(timer);
        resolve(message);
      });
      this._model.send({ type: 'command', command });
    });
  }

  private _tell(): void {
    for (const listener of this._listeners) {
      listener();
    }
  }
}
