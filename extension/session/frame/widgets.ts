/**
 * Runs in the frame of an output with third-party widgets: views and copies of the models, whose originals are in the page. The
 * code of a package comes from the environment of the kernel, through the page.
 */
import '@jupyter-widgets/base/css/index.css';
import '@jupyter-widgets/controls/css/widgets-base.css';
import '../../../style/widget-icons.css';
import * as base from '@jupyter-widgets/base';
import { ManagerBase } from '@jupyter-widgets/base-manager';
import * as controls from '@jupyter-widgets/controls';
import { PromiseDelegate } from '@lumino/coreutils';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import anywidget from 'anywidget';
import { addDefine, loadPackage } from './packages.js';
import type { FrameContent, FromFrame, SentModel, State, ToFrame } from './messages.js';

type Buffers = (ArrayBuffer | ArrayBufferView)[];

const scope = globalThis as typeof globalThis & {
  tpulabFrame?: { readonly content: FrameContent; readonly port: MessagePort };
};

class PageComm {
  readonly target_name = 'jupyter.widget';
  onMessage: (message: never) => unknown = () => undefined;
  onSettled: () => void = () => undefined;

  constructor(
    readonly comm_id: string,
    private readonly post: (message: FromFrame) => void
  ) {}

  get jsonIdentifier(): string {
    return this.comm_id;
  }

  open(): string {
    return '';
  }

  close(): string {
    return '';
  }

  send(
    data: unknown,
    callbacks?: { iopub?: Record<string, unknown> },
    _metadata?: unknown,
    buffers: Buffers = []
  ): string {
    const { method, state, buffer_paths, content } = data as {
      method: string;
      state: State;
      buffer_paths?: (string | number)[][];
      content: unknown;
    };
    if (method === 'update') {
      base.put_buffers(state as never, buffer_paths ?? [], buffers);
      this.post({ kind: 'update', id: this.comm_id, state });
    } else if (method === 'custom') {
      this.post({ kind: 'custom', id: this.comm_id, content, buffers });
    }
    // The model delays the next message until this one is processed; here the page delays them.
    const status = callbacks?.iopub?.['status'] as ((message: unknown) => void) | undefined;
    queueMicrotask(() => status?.({ content: { execution_state: 'idle' } }));
    return base.uuid();
  }

  on_msg(onMessage: PageComm['onMessage']): void {
    this.onMessage = onMessage;
  }

  on_close(onSettled: () => void): void {
    this.onSettled = onSettled;
  }

  receive(data: unknown, buffers: Buffers = []): unknown {
    return this.onMessage({ content: { data }, buffers: buffers.map(asView) } as never);
  }
}

class FrameManager extends ManagerBase {
  private readonly comms = new Map<string, PageComm>();
  private readonly requests = new Map<string, Promise<base.WidgetModel>>();
  private readonly answers = new Map<number, PromiseDelegate<SentModel | string | null>>();

  constructor(private readonly port: MessagePort) {
    super();
    port.addEventListener('message', ({ data }: MessageEvent<ToFrame>) => this.receive(data));
    port.start();
  }

  readonly post = (message: FromFrame): void => this.port.postMessage(message);

  override get_model(id: string): Promise<base.WidgetModel> {
    let model = this.requests.get(id);
    if (model === undefined) {
      model = this.request('model', id).then(sent => this.make(id, sent));
      this.requests.set(id, model);
    }
    return model;
  }

  override has_model(id: string): boolean {
    return this.requests.has(id);
  }

  protected override async loadClass(className: string, module: string): Promise<never> {
    const exports = (await this.moduleOf(module)) as Record<string, unknown>;
    const found = exports[className];
    if (found === undefined) throw new Error(`${module} has no ${className}`);
    return found as never;
  }

  protected override _create_comm(): Promise<never> {
    return Promise.reject(new Error('A widget in a frame cannot make another one in the kernel.'));
  }

  protected override async _get_comm_info(): Promise<object> {
    return {};
  }

  file(name: string): Promise<string | null> {
    return this.request('file', name) as Promise<string | null>;
  }

  /** The address from which the code of a widget loads further files. */
  needed(): string | undefined {
    return this.code.map(text => /(?:from|import)\s*\(?\s*["'](https?:[^"']+)/.exec(text)?.[1]).find(Boolean);
  }

  moduleOf(name: string): Promise<unknown> | object {
    switch (name) {
      case '@jupyter-widgets/base':
        return base;
      case '@jupyter-widgets/controls':
        return controls;
      case 'anywidget':
        return (any ??= anywidget(base));
      default:
        return loadPackage(name, this);
    }
  }

  private request(what: 'model' | 'file', name: string): Promise<SentModel | string | null> {
    const question = (this.question += 1);
    this.post({ kind: 'ask', what, name, question });
    const answer = new PromiseDelegate<SentModel | string | null>();
    this.answers.set(question, answer);
    return answer.promise;
  }

  private async make(id: string, sent: SentModel | string | null): Promise<base.WidgetModel> {
    if (sent === null || typeof sent === 'string') throw new Error(`no model ${id}`);
    const { _esm } = sent.state;
    if (typeof _esm === 'string') this.code.push(/^https?:/.test(_esm) ? `import "${_esm}"` : _esm);
    const comm = new PageComm(id, this.post);
    this.comms.set(id, comm);
    const options = {
      model_name: sent.name,
      model_module: sent.module,
      model_module_version: sent.version,
      model_id: id,
      comm: comm as never
    };
    return this.new_model(options, sent.state);
  }

  private receive(message: ToFrame): void {
    switch (message.kind) {
      case 'answer':
        this.answers.get(message.question)?.resolve(message.answer);
        this.answers.delete(message.question);
        break;
      case 'unanswered':
        this.answers.get(message.question)?.reject(new Error(message.message));
        this.answers.delete(message.question);
        break;
      case 'update':
        void this.comms
          .get(message.id)
          ?.receive({ method: 'update', state: message.state, buffer_paths: [] });
        break;
      case 'custom': {
        const { id, content, buffers } = message;
        // The state that was sent earlier is set first.
        void this.requests
          .get(id)
          ?.then(model => model.state_change)
          .then(() => this.comms.get(id)?.receive({ method: 'custom', content }, [...buffers]));
        break;
      }
      case 'closed':
        this.comms.get(message.id)?.onSettled();
    }
  }

  private question = 0;
  private readonly code: string[] = [];
}

let any: object | undefined;

const asView = (buffer: ArrayBuffer | ArrayBufferView): DataView =>
  buffer instanceof ArrayBuffer
    ? new DataView(buffer)
    : new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);

async function show(root: string, manager: FrameManager): Promise<void> {
  const model = await manager.get_model(root);
  const view = await manager.create_view(model);
  const widget = view.luminoWidget;
  const failed = (view.model as { get(name: string): unknown }).get('error');
  if (failed instanceof Error) throw failed;
  Widget.attach(widget, document.body);
  addEventListener('resize', () => MessageLoop.postMessage(widget, Widget.ResizeMessage.UnknownSize));
}

const received = scope.tpulabFrame;
delete scope.tpulabFrame;
if (received !== undefined) {
  const { root } = received.content.data as { readonly root: string };
  const manager = new FrameManager(received.port);
  addDefine(manager);
  const fail = (error: unknown): void => {
    const message = error instanceof Error ? error.message : String(error);
    const address = manager.needed();
    manager.post({
      kind: 'failed',
      message:
        /dynamically imported|initialize/.test(message) && address ? `needs the network: ${address}` : message
    });
  };
  show(root, manager).catch(fail);
  // anywidget throws where no caller awaits.
  addEventListener('unhandledrejection', ({ reason }) => {
    if (/dynamically imported|\[anywidget\]/.test(String(reason))) fail(reason);
  });
}
