/** Math as in JupyterLab, by its own typesetter, loaded with the first formula. */
import '@jupyterlab/mathjax-extension/style/base.css';
import { MathJaxTypesetter } from '@jupyterlab/mathjax-extension';

const typesetter = new MathJaxTypesetter();

export function typeset(element: HTMLElement): Promise<void> {
  return typesetter.typeset(element);
}
