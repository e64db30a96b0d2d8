/** Data without a view of its own: JSON as a tree that unfolds, and one line for unknown types. */
import type { IRenderMime } from '@jupyterlab/rendermime';
import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import { sizeText } from '@tpulab/protocol';
import { trans } from '../text.js';

/** Unfolded from the start; when unfolded, written immediately. */
const OPEN_CHILDREN = 20;
const MAX_CHILDREN = 1_000;
const MAX_TEXT = 100_000;

export class DataOutput extends Widget implements IRenderMime.IRenderer {
  constructor(private readonly type: string) {
    super();
    this.addClass('tpl-DataOutput');
  }

  async renderModel({ data }: IRenderMime.IMimeModel): Promise<void> {
    const value = data[this.type] as ReadonlyPartialJSONValue;
    const isKnown = /^application\/(json|geo\+json)$/.test(this.type);
    const tree = node(null, value, isKnown);
    if (isKnown) {
      this.node.replaceChildren(tree);
      return;
    }
    const size = new Blob([typeof value === 'string' ? value : JSON.stringify(value)]).size;
    const line = document.createElement('p');
    line.textContent = trans.__('No view for %1 (%2)', this.type, sizeText(size));
    const details = document.createElement('details');
    const summary = document.createElement('summary');
    summary.textContent = trans.__('Show the data');
    details.append(summary, tree);
    this.node.replaceChildren(line, details);
  }
}

/** A value below its name. A folded part is rendered when it is unfolded. */
function node(
  name: string | null,
  value: ReadonlyPartialJSONValue | undefined,
  isOpen: boolean
): HTMLElement {
  if (typeof value !== 'object' || value === null) {
    const leaf = document.createElement('div');
    leaf.append(...named(name), literal(value));
    return leaf;
  }
  const entries = Object.entries(value);
  const isList = Array.isArray(value);
  const details = document.createElement('details');
  const summary = document.createElement('summary');
  const count = isList ? `[${entries.length}]` : `{${entries.length}}`;
  summary.append(...named(name), count);
  details.append(summary);
  const fill = (): void => {
    const shown = entries.slice(0, MAX_CHILDREN);
    details.append(...shown.map(([key, child]) => node(key, child, false)));
    if (shown.length < entries.length) details.append(trans.__('… %1 more', entries.length - shown.length));
  };
  if (isOpen && entries.length <= OPEN_CHILDREN) {
    details.open = true;
    fill();
  } else {
    details.addEventListener('toggle', fill, { once: true });
  }
  return details;
}

function named(name: string | null): (Node | string)[] {
  if (name === null) return [];
  const key = document.createElement('b');
  key.textContent = name;
  return [key, ': '];
}

function literal(value: ReadonlyPartialJSONValue | undefined): HTMLElement {
  const code = document.createElement('code');
  const text = JSON.stringify(value ?? null);
  code.textContent = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
  return code;
}
