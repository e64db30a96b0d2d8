/** The parser with diagrams, loaded with the first diagram. */
import { createMarkdownParser } from '@jupyterlab/markedparser-extension';
import { MermaidManager, MermaidMarkdown } from '@jupyterlab/mermaid';
import type { IRenderMime } from '@jupyterlab/rendermime';
import { languages } from './editors.js';

export function parser(): IRenderMime.IMarkdownParser {
  return createMarkdownParser(languages, {
    blocks: [new MermaidMarkdown({ mermaid: new MermaidManager() })]
  });
}
