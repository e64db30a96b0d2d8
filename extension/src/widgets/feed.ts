/** The source of a widget's figures: the bridge where the page has one, else the comm of the widget. */
import { type ISignal, Signal } from '@lumino/signaling';
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import type { IBridgeBackends } from '../backends/tokens.js';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import type { IBridgeEvents } from '../events/tokens.js';
import type { MachineTelemetry } from '../devices/machine-telemetry.js';
import { sendCommand } from '../runs/control-client.js';
import { ControlModel } from '../runs/model.js';
import type { IBackend } from '../tokens.js';
import type { AnyModel } from './afm.js';
import { asSnapshot, SnapshotReader } from './snapshot.js';
import { type Texts, trans, translateWith } from '../text/trans.js';

/** The interface that JupyterLab with our extension provides to the widgets of its page. */
export interface WidgetHost {
  /** Null for a kernel that is on no bridge. */
  telemetryOf(kernelId: string): KernelTelemetry | null;
  machineOf(kernelId: string): MachineTelemetry | null;
  /** Sends through the bridge, which does not wait for the cell. */
  send(kernelId: string, command: ControlCommand): Promise<ControlMessage>;
  readonly texts: Texts;
}

const JUPYTER_BACKEND = 'jupyter';

/** The name under which a page offers its host; modules find it there, because their only argument is the model. */
export const HOST_KEY = Symbol.for('tpulab.widget-host');

/** Gives the widgets of this page its live data. */
export function shareHost(backends: Pick<IBridgeBackends, 'backendOf'>, events: IBridgeEvents): void {
  const backendOf = (kernelId: string): IBackend | null => {
    const backend = backends.backendOf(kernelId);
    return backend && backend.id !== JUPYTER_BACKEND ? backend : null;
  };
  const host: WidgetHost = {
    telemetryOf: kernelId => (backendOf(kernelId) ? events.telemetryOf(kernelId) : null),
    machineOf: kernelId => events.machineOf(backendOf(kernelId)?.id ?? ''),
    send: (kernelId, command) =>
      sendCommand({ kernelId, settings: backendOf(kernelId)?.serverSettings ?? null }, command),
    texts: trans
  };
  (globalThis as { [HOST_KEY]?: WidgetHost })[HOST_KEY] = host;
}

export interface Feed {
  readonly kernel: KernelTelemetry;
  readonly machine: MachineTelemetry | null;
  readonly control: ControlModel;
  /** The run of the widget; the newest run for a widget without one. */
  readonly run: Run | null;
  /** Name of the widget's run, while the run has no data: usually its first step has not begun. */
  readonly awaited: string | null;
  /** Emitted after each change of these properties. */
  readonly changed: ISignal<unknown, void>;
  dispose(): void;
}

const SNAPSHOT = '_snapshot';

export function openFeed(model: AnyModel): Feed {
  const host = (globalThis as { [HOST_KEY]?: WidgetHost })[HOST_KEY] ?? null;
  translateWith(host && { load: () => host.texts });
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

interface Shown {
  readonly run: Run | null;
  readonly awaited: string | null;
}

/** A run has no id before its first step begins; its widget must not show another run's figures until then. */
function snapshotOf(kernel: KernelTelemetry, model: AnyModel): Shown {
  const wanted = textOf(model.get('run_id'));
  const run = kernel.runs.runs.findLast(({ id }) => id === wanted) ?? null;
  const awaited = run ? null : textOf(model.get('run_name'));
  return { run: awaited === null ? (run ?? kernel.runs.current) : null, awaited };
}

let views = 0;

/**
 * Reports the source of a view's data to the kernel, so that it need not send them to pages with the bridge. Returns a function
 * that reports the view's removal; a page that closes silently keeps its last report.
 */
function announce(model: AnyModel, by: 'bridge' | 'comm'): () => void {
  views += 1;
  const view = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}-${views}`;
  const setBusy = (value: string | null): void => {
    try {
      model.send({ type: 'feed', view, by: value });
    } catch {
      // A page without a kernel, or with an ended kernel: no data is sent then.
    }
  };
  setBusy(by);
  return () => setBusy(null);
}

/** Common to both feeds: the run of the widget, and one signal for all changes. */
abstract class WidgetFeed implements Feed {
  abstract readonly control: ControlModel;
  readonly changed = new Signal<this, void>(this);
  private readonly _unsubscribe: () => void;

  constructor(
    protected readonly model: AnyModel,
    readonly kernel: KernelTelemetry,
    readonly machine: MachineTelemetry | null,
    by: 'bridge' | 'comm'
  ) {
    kernel.changed.connect(this.emit, this);
    machine?.changed.connect(this.emit, this);
    this._unsubscribe = announce(model, by);
  }

  get run(): Run | null {
    return snapshotOf(this.kernel, this.model).run;
  }

  get awaited(): string | null {
    return snapshotOf(this.kernel, this.model).awaited;
  }

  dispose(): void {
    this._unsubscribe();
    Signal.clearData(this);
    this.control.dispose();
  }

  protected emit(): void {
    this.changed.emit();
  }
}

class BridgeFeed extends WidgetFeed {
  readonly control: ControlModel;

  constructor(model: AnyModel, kernel: KernelTelemetry, host: WidgetHost, kernelId: string) {
    super(model, kernel, host.machineOf(kernelId), 'bridge');
    this.control = new ControlModel(kernel, command => host.send(kernelId, command));
    this.control.changed.connect(this.emit, this);
  }
}

/** How long an answer may take before the request counts as lost: a busy kernel answers when `tpulab.live` checks for requests. */
const ANSWER_MS = 15_000;

class CommFeed extends WidgetFeed {
  readonly control: ControlModel;
  private readonly _reader: SnapshotReader;
  private readonly _waiting = new Map<string, (message: ControlMessage) => void>();

  constructor(model: AnyModel) {
    super(model, new KernelTelemetry('widget'), null, 'comm');
    this._reader = new SnapshotReader(this.kernel);
    this.control = new ControlModel(this.kernel, command => this._send(command));
    this.control.changed.connect(this.emit, this);
    model.on(`change:${SNAPSHOT}`, this._onSnapshot);
    model.on('msg:custom', this._onMessage);
    this._onSnapshot();
  }

  override dispose(): void {
    this.model.off(`change:${SNAPSHOT}`, this._onSnapshot);
    this.model.off('msg:custom', this._onMessage);
    super.dispose();
    this.kernel.dispose();
  }

  private readonly _onSnapshot = (): void => {
    const snapshot = asSnapshot(this.model.get(SNAPSHOT));
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
      this.model.send({ type: 'command', command });
    });
  }
}
