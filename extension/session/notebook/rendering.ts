/** How outputs and Markdown are shown. Parser, sanitizer, Mermaid and math come with the first text that needs them. */
import {
  errorRendererFactory,
  type IRenderMime,
  type IRenderMimeRegistry,
  RenderMimeRegistry,
  standardRendererFactories
} from '@jupyterlab/rendermime';
import type { ReadonlyPartialJSONObject, ReadonlyPartialJSONValue } from '@lumino/coreutils';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import type { IError } from '@jupyterlab/nbformat';
import { sizeText } from '@tpulab/protocol';
import { printedTextFactory } from '../../src/reattach/flood-output.js';
import { hostsOutputFactory } from '../../src/slices/hosts-output.js';
import { loadSanitizer } from '../kit/sanitizer.js';
import { trans } from '../text.js';

/** A value with at most this many children is unfolded, and rendered, from the start. */
const OPEN_CHILDREN = 20;
const MAX_CHILDREN = 1_000;
const MAX_TEXT = 100_000;

class DataOutput extends Widget implements IRenderMime.IRenderer {
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

/** An error: its cause in one line, and its traceback, which is folded when it is long. */
const ERROR = 'application/vnd.jupyter.error';
const TRACEBACK = 'application/vnd.jupyter.stderr';
/** A traceback of at most this many lines can be read at a glance. */
const SHORT = 12;

const foldedErrorFactory: IRenderMime.IRendererFactory = {
  safe: true,
  mimeTypes: [ERROR],
  // Preferred to the plain traceback.
  defaultRank: (errorRendererFactory.defaultRank ?? 110) - 1,
  createRenderer: options => new FoldedError(options)
};

class FoldedError extends Widget implements IRenderMime.IRenderer {
  constructor(options: IRenderMime.IRendererOptions) {
    super();
    this.addClass('tpl-Error');
    this.traceback = errorRendererFactory.createRenderer({ ...options, mimeType: TRACEBACK });
    this.traceback.node.dataset['mimeType'] = TRACEBACK;
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { ename, evalue, traceback } = model.data[ERROR] as unknown as IError;
    const [first = ''] = evalue.split('\n', 1);
    const what = document.createElement('strong');
    what.textContent = first === '' ? ename : `${ename}: ${first}`;
    const lines = traceback.join('\n').split('\n').length;
    const details = document.createElement('details');
    details.open = lines <= SHORT;
    const summary = document.createElement('summary');
    summary.append(
      what,
      Object.assign(document.createElement('span'), { textContent: trans.__('%1 lines', lines) })
    );
    details.append(summary, this.traceback.node);
    this.node.replaceChildren(details);
    await this.traceback.renderModel(model);
  }

  override dispose(): void {
    this.traceback.dispose();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    MessageLoop.sendMessage(this.traceback, Widget.Msg.AfterAttach);
  }
  protected override onBeforeDetach(): void {
    MessageLoop.sendMessage(this.traceback, Widget.Msg.BeforeDetach);
  }
  /** Otherwise the widget counts as attached, and cannot be disposed. */
  protected override onAfterDetach(): void {
    MessageLoop.sendMessage(this.traceback, Widget.Msg.AfterDetach);
  }

  private readonly traceback: IRenderMime.IRenderer;
}

const MATH = /\$|\\[([]|\\begin\{|\\(?:eq)?ref\{/;
const MERMAID = /^\s*(```|~~~)\s*mermaid/m;

const markdownParser: IRenderMime.IMarkdownParser = {
  render: async text => {
    const { parser } = await (MERMAID.test(text) ? import('./mermaid.js') : import('./markdown.js'));
    return parser.render(text);
  }
};

const latexTypesetter: IRenderMime.ILatexTypesetter = {
  typeset: element => {
    if (MATH.test(element.textContent)) void import('./math.js').then(({ typeset }) => typeset(element));
  }
};

/** Text shown unchanged, unless it has colours, and pictures. */
const PLAIN_TYPES = /^(text\/plain|application\/vnd\.jupyter\.std(out|err)|image\/.*)$/;
const COLOURS = '\x1b';
const JSON_TYPE = 'application/json';
/** Placeholder text of an object: the other types of the output have more detail. */
const NO_TEXT = /^\s*<[^<>]* object(?: at 0x[0-9a-f]+)?>\s*$/;

/** Every output has a view: types without a renderer are shown as data. */
class PageRendermime extends RenderMimeRegistry {
  constructor(private readonly parts: RenderMimeRegistry.IOptions) {
    super(parts);
  }

  override preferredMimeType(
    bundle: ReadonlyPartialJSONObject,
    safe: 'ensure' | 'prefer' | 'any' = 'ensure'
  ): string | undefined {
    const found = super.preferredMimeType(bundle, safe);
    const text = bundle['text/plain'];
    const isText =
      found === 'text/plain' && !NO_TEXT.test(Array.isArray(text) ? text.join('') : (text as string));
    if (found === 'text/plain' && bundle[JSON_TYPE] !== undefined) return JSON_TYPE;
    if (found !== undefined && (found !== 'text/plain' || isText)) return found;
    const known = new Set(this.mimeTypes);
    return Object.keys(bundle).find(type => !known.has(type) && bundle[type] !== '') ?? found;
  }

  override createRenderer(mimeType: string): IRenderMime.IRenderer {
    const renderer =
      this.getFactory(mimeType) === undefined ? new DataOutput(mimeType) : super.createRenderer(mimeType);
    const render = renderer.renderModel.bind(renderer);
    renderer.renderModel = async model => {
      const text = model.data[mimeType] as string | readonly string[];
      if (!PLAIN_TYPES.test(mimeType) || [text].flat().join('').includes(COLOURS)) await loadSanitizer();
      await render(model);
    };
    return renderer;
  }

  override clone(options: IRenderMimeRegistry.ICloneOptions = {}): RenderMimeRegistry {
    const clone = new PageRendermime({ ...this.parts, ...options });
    for (const type of this.mimeTypes) {
      const factory = this.getFactory(type);
      if (factory) clone.addFactory({ ...factory, mimeTypes: [type] }, this.getRank(type));
    }
    return clone;
  }
}

export function pageRendermime(linkHandler: IRenderMime.ILinkHandler): RenderMimeRegistry {
  return new PageRendermime({
    initialFactories: [
      ...standardRendererFactories,
      printedTextFactory,
      foldedErrorFactory,
      hostsOutputFactory
    ],
    markdownParser,
    latexTypesetter,
    linkHandler
  });
}
