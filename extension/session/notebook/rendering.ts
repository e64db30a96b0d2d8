/** How outputs and Markdown are shown. Parser, sanitizer, Mermaid and math come with the first text that needs them. */
import type { IRenderMime } from '@jupyterlab/rendermime';
import {
  type IRenderMimeRegistry,
  RenderMimeRegistry,
  standardRendererFactories
} from '@jupyterlab/rendermime';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { printedTextFactory } from '../../src/reattach/flood-output.js';
import { hostsOutputFactory } from '../../src/slices/hosts-output.js';
import { loadSanitizer } from '../kit/sanitizer.js';
import { foldedErrorFactory } from './folded-error.js';
import { DataOutput } from './data-output.js';

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
const WITHOUT_MARKUP = /^(text\/plain|application\/vnd\.jupyter\.std(out|err)|image\/.*)$/;
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
      if (!WITHOUT_MARKUP.test(mimeType) || [text].flat().join('').includes(COLOURS)) await loadSanitizer();
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
