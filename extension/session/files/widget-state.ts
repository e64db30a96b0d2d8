/** The widget state in the metadata of a notebook, and the relations of its models. Without the code that shows them. */
import type { INotebookModel } from '@jupyterlab/notebook';

export const VIEW = 'application/vnd.jupyter.widget-view+json';
export const STATE = 'application/vnd.jupyter.widget-state+json';
const MODEL = /^(?:IPY_MODEL_|anywidget:)(.+)$/;

interface SavedModel {
  readonly model_name: string;
  readonly model_module: string;
  readonly model_module_version: string;
  readonly state: Record<string, unknown>;
}

export type SavedModels = Readonly<Record<string, SavedModel>>;

/** The widget state of a file. Anyone may have written it: invalid models are skipped. */
export function savedModels(widgets: unknown): SavedModels {
  const { state } = ((widgets as Record<string, unknown> | undefined)?.[STATE] ?? {}) as { state?: unknown };
  const isModel = (model: unknown): boolean =>
    isObject(model) && isObject((model as Partial<SavedModel>).state);
  return Object.fromEntries(Object.entries(state ?? {}).filter(([, model]) => isModel(model))) as SavedModels;
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null;

export function hasSavedState(notebook: INotebookModel, id: string): boolean {
  return Object.hasOwn(savedModels(notebook.getMetadata('widgets')), id);
}

/** The last value of saved ipywidgets as text, which runs no code: for example of a progress bar. '' for others. */
export function savedText(widgets: unknown, id: string): string {
  const saved = savedModels(widgets);
  return [...referencedModels([id], each => saved[each]?.state)]
    .map(each => {
      const { description = '', value } = saved[each]?.state ?? {};
      const isText = /^(HTML|HTMLMath|Label)Model$/.test(saved[each]?.model_name ?? '');
      if (isText) return new DOMParser().parseFromString(String(value), 'text/html').body.textContent;
      const isShort = typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean';
      return typeof description === 'string' && description !== '' && isShort
        ? `${description} ${value}`
        : '';
    })
    .filter(text => text.trim() !== '')
    .join(' ')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Ids of the models that a value references, at any depth. */
export function* modelsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') {
    const id = MODEL.exec(value)?.[1];
    if (id !== undefined) yield id;
  } else if (Array.isArray(value)) {
    for (const each of value) yield* modelsIn(each);
  } else if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) {
    for (const each of Object.values(value)) yield* modelsIn(each);
  }
}

/** These models and all models that they reference, in display order, and the links between them. */
export function referencedModels(
  ids: Iterable<string>,
  stateOf: (id: string) => unknown,
  links: SavedModels = {}
): Set<string> {
  const found = new Set<string>();
  const open = [...ids];
  const add = (): void => {
    for (let id = open.shift(); id !== undefined; id = open.shift()) {
      const state = found.has(id) ? undefined : stateOf(id);
      if (state === undefined) continue;
      found.add(id);
      open.unshift(...modelsIn(state));
    }
  };
  add();
  for (const [id, { model_name, state }] of Object.entries(links)) {
    if (/LinkModel$/.test(model_name) && [...modelsIn(state)].some(each => found.has(each))) open.push(id);
  }
  add();
  return found;
}

/** Ids of the widgets in outputs, as a file or a model has them. */
export function* shownModels(outputs: Iterable<unknown>): Generator<string> {
  for (const output of outputs) {
    const view = (output as { data?: Record<string, unknown> } | null)?.data?.[VIEW];
    const id = (view as { model_id?: unknown } | undefined)?.model_id;
    if (typeof id === 'string') yield id;
  }
}
