/** Math, loaded with the first formula. */
import 'katex/dist/katex.min.css';
import renderMathInElement from 'katex/contrib/auto-render';

export function typeset(element: HTMLElement): void {
  renderMathInElement(element, {
    delimiters: [
      { left: '$$', right: '$$', display: true },
      { left: '\\[', right: '\\]', display: true },
      { left: '$', right: '$', display: false },
      { left: '\\(', right: '\\)', display: false },
      { left: '\\begin{equation}', right: '\\end{equation}', display: true },
      { left: '\\begin{align}', right: '\\end{align}', display: true },
      { left: '\\begin{align*}', right: '\\end{align*}', display: true }
    ],
    throwOnError: false
  });
}
