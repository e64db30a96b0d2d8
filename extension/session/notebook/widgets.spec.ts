// @vitest-environment jsdom
import { type KernelMessage, ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { STATE } from '../files/widget-state.js';

// jsdom lacks these, and the widgets need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, { DragEvent: class extends Event {}, matchMedia: () => new EventTarget() })
);

const { LazyWidgets } = await import('./widgets.js');
type Options = ConstructorParameters<typeof LazyWidgets>[0];

/** The part of a kernel's connection that widgets use. It records sent messages, and answers nothing automatically. */
class SilentKernel {
  readonly handleComms = true;
  status = 'idle';
  readonly sent: { comm: string; data: unknown }[] = [];
  target: (comm: object, message: object) => Promise<void> = async () => undefined;

  constructor(private readonly comms: readonly string[] = []) {}

  registerCommTarget(_: string, target: SilentKernel['target']): void {
    this.target = target;
  }

  createComm(_: string, id: string): object {
    return {
      commId: id,
      targetName: 'jupyter.widget',
      open: () => ({}),
      close: () => ({}),
      send: (data: unknown) => {
        this.sent.push({ comm: id, data });
        return { msg: { header: { msg_id: 'm' } } };
      }
    };
  }

  async requestCommInfo(): Promise<object> {
    return { content: { status: 'ok', comms: Object.fromEntries(this.comms.map(id => [id, {}])) } };
  }

  /** Opens a comm as the kernel does for a new widget. */
  opens(id: string, value: number): Promise<void> {
    const state = {
      _model_module: '@jupyter-widgets/controls',
      _model_module_version: '2.0.0',
      _model_name: 'IntSliderModel',
      value
    };
    return this.target(this.createComm('', id), {
      metadata: { version: '2.1.0' },
      content: { data: { state, buffer_paths: [] } }
    } satisfies { metadata: object; content: Partial<KernelMessage.ICommOpenMsg['content']> });
  }
}

function notebookOn(
  kernel: SilentKernel,
  widgets?: object
): { options: Options; status: Signal<object, string> } {
  const owner = {};
  const status = new Signal<object, string>(owner);
  const never = new Signal(owner);
  const sessionContext = {
    session: { kernel },
    ready: Promise.resolve(),
    kernelChanged: never,
    connectionStatusChanged: never,
    statusChanged: status
  };
  const context = { sessionContext, saveState: never, model: { getMetadata: () => widgets, cells: [] } };
  const content = { rendermime: { addFactory: () => undefined } };
  return {
    options: { panel: { context, content, sessionContext }, onDead: () => undefined } as never,
    status
  };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});

afterEach(() => {
  vi.useRealTimers();
});

it('opens each widget that a kernel creates while the manager is loading, once and in order', async () => {
  const kernel = new SilentKernel();
  const lazy = new LazyWidgets(notebookOn(kernel).options);
  await Promise.all([kernel.opens('first', 1), kernel.opens('second', 2)]);
  const manager = await lazy.load();
  expect(await lazy.load()).toBe(manager);
  const values = ['first', 'second'].map(async id => (await manager.get_model(id)).get('value') as number);
  expect(await Promise.all(values)).toEqual([1, 2]);
});

const SAVED = {
  [STATE]: {
    version_major: 2,
    version_minor: 0,
    state: {
      kept: {
        model_name: 'IntSliderModel',
        model_module: '@jupyter-widgets/controls',
        model_module_version: '2.0.0',
        state: { value: 7 }
      }
    }
  }
};

it('shows the state of the file when a kernel never reports its widgets', async () => {
  // Its list of widgets arrives, but the widget that it has closed never answers.
  const kernel = new SilentKernel(['closed']);
  const lazy = new LazyWidgets(notebookOn(kernel, SAVED).options);
  const manager = await lazy.load();
  const shown = manager.show('kept', () => undefined);
  await vi.runAllTimersAsync();
  expect(await shown).not.toBeNull();
  expect((await manager.get_model('kept')).get('value')).toBe(7);
  const requested = kernel.sent.map(({ data }) => (data as { method: string }).method);
  expect(requested).toEqual([...Array.from({ length: 5 }, () => 'request_states'), 'request_state']);
});

it('repeats a request to a busy kernel only when it is no longer busy', async () => {
  const kernel = new SilentKernel();
  const { options, status } = notebookOn(kernel, SAVED);
  const manager = await new LazyWidgets(options).load();
  kernel.status = 'busy';
  const shown = manager.show('kept', () => undefined);
  await vi.runAllTimersAsync();
  expect(kernel.sent).toHaveLength(1);
  kernel.status = 'idle';
  status.emit('idle');
  await vi.runAllTimersAsync();
  expect(await shown).not.toBeNull();
  expect(kernel.sent.length).toBeGreaterThan(1);
});

it('names a server that does not answer for a package within the time limit', async () => {
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(ms => {
    const control = new AbortController();
    setTimeout(() => control.abort(new Error('no answer in time')), ms);
    return control.signal;
  });
  const fetch = ({ signal }: Request): Promise<Response> =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
  const { options } = notebookOn(new SilentKernel());
  const kernelSettings = (): object => ServerConnection.makeSettings({ fetch: fetch as never });
  const manager = await new LazyWidgets({ ...options, kernelSettings } as Options).load();
  const requested = manager.framed.packageFile('nbextensions/slow/index.js');
  const refused = expect(requested).rejects.toThrow('no answer in time');
  await vi.runAllTimersAsync();
  await refused;
});
