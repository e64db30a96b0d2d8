/** JupyterLab's Markdown parser, loaded with the first text. */
import { createMarkdownParser } from '@jupyterlab/markedparser-extension';
import { languages } from './editors.js';

export const parser = createMarkdownParser(languages);
