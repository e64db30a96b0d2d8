/** How outputs and Markdown are shown. Parser, Mermaid and math come with the first text that needs them. */
import type { IRenderMime } from '@jupyterlab/rendermime';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { hostsOutputFactory } from '../../src/slices/hosts-output.js';
import { foldedErrorFactory } from './folded-error.js';

const MATH = /\$|\\\(|\\\[|\\begin\{/;
const MERMAID = /^\s*(```|~~~)\s*mermaid/m;

type Parser = IRenderMime.IMarkdownParser;

let plain: Promise<Parser> | undefined;
let withMermaid: Promise<Parser> | undefined;

const markdownParser: Parser = {
  render: async text => {
    const parser = MERMAID.test(text)
      ? (withMermaid ??= import('./mermaid.js').then(module => module.parser()))
      : (plain ??= import('./markdown.js').then(module => module.parser()));
    return (await parser).render(text);
  }
};

const latexTypesetter: IRenderMime.ILatexTypesetter = {
  typeset: element => {
    if (MATH.test(element.textContent)) {
      void import('./math.js').then(({ typeset }) => typeset(element));
    }
  }
};

export function pageRendermime(): RenderMimeRegistry {
  return new RenderMimeRegistry({
    initialFactories: [...standardRendererFactories, foldedErrorFactory, hostsOutputFactory],
    markdownParser,
    latexTypesetter
  });
}
