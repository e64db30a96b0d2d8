/** The parser with diagrams, loaded with the first diagram. */
import { createMarkdownParser } from '@jupyterlab/markedparser-extension';
import { MermaidManager, MermaidMarkdown } from '@jupyterlab/mermaid';
import { languages } from './editors.js';

export const parser = createMarkdownParser(languages, {
  blocks: [new MermaidMarkdown({ mermaid: new MermaidManager() })]
});
