/** JupyterLab's Markdown parser, loaded with the first text. */
import { createMarkdownParser } from '@jupyterlab/markedparser-extension';
import type { IRenderMime } from '@jupyterlab/rendermime';
import { languages } from './editors.js';

export function parser(): IRenderMime.IMarkdownParser {
  return createMarkdownParser(languages);
}
