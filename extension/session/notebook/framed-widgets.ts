/**
 * Third-party widgets. The page has their state and their channel to the kernel, and runs none of their code: the code is in a frame
 * of an opaque origin, which has copies of these models, and may name only models that belong to its output.
 */
import * as base from '@jupyter-widgets/base';
import type { WidgetManager } from '@jupyter-widgets/jupyterlab-manager/lib/manager';
import { Widget } from '@lumino/widgets';
import type { FromFrame, SentModel, State, ToFrame } from '../frame/messages.js';
import widgetsAddress from '../frame/widgets.ts?frame';
import type { Files } from './files-of-notebook.js';
import { frameScript, OutputFrame } from './output-frame.js';
import { frameStyle } from './scripted-html.js';
import { modelsIn } from '../files/widget-state.js';
import { messageOf, trans } from '../text.js';

type Buffers = readonly (ArrayBuffer | ArrayBufferView)[];

export interface FramedParts {
  readonly manager: WidgetManager;
  readonly files: Files;
  readonly packageFile: (name: string) => Promise<string | null>;
}

/** Messages for a model whose code is not loaded yet; a canvas requests the messages that it has missed. */
const MAX_EARLY = 200;
/** Time for a widget to draw without its kernel. */
const ANSWER_MS = 5_000;

/** A model whose class the page lacks: its state as the kernel sends it, with references as they are written. */
export class FramedModel extends base.WidgetModel {
  early: { readonly content: unknown; readonly buffers: Buffers }[] = [];

  override defaults(): Record<string, unknown> {
    return {};
  }

  override initialize(...given: Parameters<base.WidgetModel['initialize']>): void {
    super.initialize(...given);
    this.early = [];
    this.on('msg:custom', (content: unknown, buffers: Buffers = []) => {
      if (this.followers === 0 && this.early.length < MAX_EARLY) this.early.push({ content, buffers });
    });
  }

  /** Buffers stay unchanged; the base class would lose them. */
  override serialize(state: Record<string, unknown>): never {
    return { ...state } as never;
  }

  followers = 0;
}
FramedModel.serializers = {};

/** The view, in a box of the page. */
export class FramedView extends base.DOMWidgetView {
  override render(): void {
    const parts = (this.model.widget_manager as unknown as { framed: FramedParts }).framed;
    this.frame = new WidgetFrame(parts, this.model, message => this.frame?.showMessage(message));
    this.el.append(this.frame.node);
  }

  override remove(): this {
    this.frame?.dispose();
    super.remove();
    return this;
  }

  // Applied in the frame.
  override setLayout(): void {}
  override setStyle(): void {}
  override updateTooltip(): void {}
  override update_classes(): void {}

  declare private frame: WidgetFrame | undefined;
}

export function framedWidget(
  parts: FramedParts,
  model: base.WidgetModel,
  onFailed: (message: string) => void
): Widget {
  const widget = new Widget();
  const frame = new WidgetFrame(parts, model, onFailed);
  widget.node.append(frame.node);
  widget.disposed.connect(() => frame.dispose());
  model.once('destroy', () => widget.dispose());
  return widget;
}

/** The state of a model as it is sent: with references in place of models. */
export function stateOf(model: base.WidgetModel): State {
  return model.serialize(model.get_state());
}

class WidgetFrame {
  private readonly frame: OutputFrame;
  private readonly known = new Set<string>();
  private undo: (() => void)[] = [];
  /** The model that this frame is changing; the frame needs no notification of its own change. */
  private changing: string | null = null;

  constructor(
    private readonly parts: FramedParts,
    private readonly root: base.WidgetModel,
    private readonly onFailed: (message: string) => void
  ) {
    this.frame = new OutputFrame({
      content: async () => ({
        html: '',
        css: `${themeVariables()} ${frameStyle(document.body)}`,
        scripts: [await frameScript(widgetsAddress)],
        data: { root: root.model_id }
      }),
      onLink: parts.files.follow,
      onLoad: () => this.begin(),
      onMessage: message => void this.receive(message)
    });
  }

  get node(): HTMLElement {
    return this.frame.node;
  }

  showMessage(message: string): void {
    this.frame.showText(message);
  }

  dispose(): void {
    this.end();
    this.frame.dispose();
  }

  private begin(): void {
    this.end();
    this.known.add(this.root.model_id);
  }

  private end(): void {
    this.undo.forEach(undo => undo());
    this.undo = [];
    this.known.clear();
  }

  private async receive(message: FromFrame): Promise<void> {
    switch (message.kind) {
      case 'ask': {
        const { what, name, question } = message;
        const found = what === 'model' ? this.model(String(name)) : this.parts.packageFile(String(name));
        return found.then(
          answer => this.post({ kind: 'answer', question, answer }),
          (error: unknown) => this.post({ kind: 'unanswered', question, message: messageOf(error) })
        );
      }
      case 'update':
        return this.update(message.id, message.state);
      case 'custom':
        if (this.known.has(message.id)) {
          const model = await this.parts.manager.get_model(message.id);
          model.send(message.content as never, model.callbacks(), message.buffers as never);
          if (!model.comm_live) setTimeout(() => this.watchForAnswer(), ANSWER_MS);
        }
        return;
      case 'failed': {
        this.onFailed(failure(this.root, String(message.message)));
        return;
      }
      case 'error':
        this.showMessage(trans.__('JavaScript error: %1', String(message.message)));
        return;
      default:
      // The frame object has handled all other messages.
    }
  }

  /** A widget that gets its whole content from its kernel shows nothing after the kernel has ended. */
  private watchForAnswer(): void {
    if (this.known.size > 0 && this.frame.isEmpty)
      this.onFailed(trans.__('This widget gets its content from its kernel, which has ended: run its cell.'));
  }

  private post(message: ToFrame): void {
    this.frame.answer(message);
  }

  private async model(id: string): Promise<SentModel | null> {
    const { manager } = this.parts;
    if (!this.known.has(id) || !manager.has_model(id)) return null;
    const model = await manager.get_model(id);
    this.follow(id, model);
    const state = stateOf(model);
    this.learn(state);
    return {
      name: model.get('_model_name') as string,
      module: model.get('_model_module') as string,
      version: model.get('_model_module_version') as string,
      state
    };
  }

  private follow(id: string, model: base.WidgetModel): void {
    const onChange = (): void => {
      const changed = model.changedAttributes();
      if (this.changing === id || changed === false) return;
      const state = model.serialize({ ...changed }) as State;
      this.learn(state);
      this.post({ kind: 'update', id, state });
    };
    const onCustom = (content: unknown, buffers: Buffers = []): void =>
      this.post({ kind: 'custom', id, content, buffers });
    const onClose = (): void => this.post({ kind: 'closed', id });
    model.on('change', onChange);
    model.on('msg:custom', onCustom);
    model.on('destroy', onClose);
    if (model instanceof FramedModel) {
      model.followers += 1;
      for (const { content, buffers } of model.early.splice(0))
        queueMicrotask(() => onCustom(content, buffers));
    }
    this.undo.push(() => {
      model.off('change', onChange);
      model.off('msg:custom', onCustom);
      model.off('destroy', onClose);
      if (model instanceof FramedModel) model.followers -= 1;
    });
  }

  private learn(state: State): void {
    for (const id of modelsIn(state)) this.known.add(id);
  }

  /** Passes changes of the frame on to the kernel and to all other views. */
  private update(id: string, state: State): Promise<void> {
    const { manager } = this.parts;
    if (!this.known.has(id) || [...modelsIn(state)].some(named => !this.known.has(named)))
      return Promise.resolve();
    return manager.get_model(id).then(model => {
      const set = async (): Promise<void> => {
        const { _deserialize_state } = model.constructor as typeof base.WidgetModel;
        const attributes = await _deserialize_state.call(model.constructor, state as never, manager as never);
        this.changing = id;
        try {
          model.set(attributes);
        } finally {
          this.changing = null;
        }
        model.save_changes(model.callbacks());
      };
      model.state_change = model.state_change
        .then(set)
        .catch((error: unknown) => this.showMessage(messageOf(error)));
      return model.state_change as Promise<void>;
    });
  }
}

function failure(model: base.WidgetModel, why: string): string {
  const module = String(model.get('_view_module'));
  return /has no front end/.test(why)
    ? trans.__(
        'The session page does not have the code of %1: the environment of the kernel has no front end of it. JupyterLab may have one.',
        module
      )
    : trans.__('This widget of %1 cannot be shown: %2', module, why);
}

/** The colours and sizes of JupyterLab's theme, which widgets use. */
function themeVariables(): string {
  return document.getElementById('tpulab-theme')?.textContent ?? '';
}
