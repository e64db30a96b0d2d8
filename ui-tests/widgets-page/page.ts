/** A page without JupyterLab that shows saved widgets: by html-manager with our module, or by anywidget's own host. */
import type { WidgetModel } from '@jupyter-widgets/base';
import * as base from '@jupyter-widgets/base';
import { HTMLManager } from '@jupyter-widgets/html-manager/lib/htmlmanager';
import anywidgetSource from 'anywidget?raw';
import '../../style/index.js';
import { widgetExports } from '../../extension/src/widgets/host.js';

/** The result of `ipywidgets.embed.embed_data`. */
interface Saved {
  readonly manager_state: Parameters<HTMLManager['set_state']>[0];
  readonly view_specs: readonly { readonly model_id: string }[];
}

interface Shown {
  /** Like a kernel that sends a newer state. */
  update(index: number, state: Record<string, unknown>): void;
  state(index: number): unknown;
  /** The page's messages to the kernel. */
  readonly sent: unknown[];
  answer(index: number, content: object): void;
}

declare global {
  interface Window {
    showWidgets(saved: Saved): Promise<Shown>;
    shown: Shown;
  }
}

let made: Record<string, unknown> | null = null;

/** anywidget ships an AMD module; its only dependency is the base package of this page. Loaded once: model and view share state. */
function anywidgetHost(): Record<string, unknown> {
  if (made) return made;
  const exported: Record<string, unknown>[] = [];
  const define = (_: string[], factory: (given: typeof base) => Record<string, unknown>): void => {
    exported.push(factory(base));
  };
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the host is run as it is published
  const run = new Function('define', anywidgetSource) as (define_: typeof define) => void;
  run(define);
  made = exported[0] ?? null;
  if (!made) throw new Error('The module of anywidget defines nothing.');
  return made;
}

async function load(module: string): Promise<unknown> {
  switch (module) {
    case '@tpulab/widgets':
      return widgetExports;
    case 'anywidget':
      return anywidgetHost();
    default:
      throw new Error(`No module ${module} in this page.`);
  }
}

window.showWidgets = async saved => {
  const manager = new HTMLManager({ loader: load });
  await manager.set_state(saved.manager_state);
  const sent: unknown[] = [];
  const models: WidgetModel[] = [];
  for (const { model_id } of saved.view_specs) {
    const model = await manager.get_model(model_id);
    model.send = (content: unknown) => void sent.push(content);
    const view = await manager.create_view(model);
    const place = document.querySelector('main')?.appendChild(document.createElement('section'));
    if (place) await manager.display_view(view, place);
    models.push(model);
  }
  const modelAt = (index: number): WidgetModel => {
    const model = models[index];
    if (!model) throw new Error(`No widget ${index}.`);
    return model;
  };
  window.shown = {
    sent,
    update: (index, state) => {
      modelAt(index).set(state);
    },
    state: index => modelAt(index).get('_snapshot') as unknown,
    answer: (index, content) => {
      modelAt(index).trigger('msg:custom', content, []);
    }
  };
  return window.shown;
};
