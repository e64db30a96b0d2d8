/** Math as in JupyterLab, by its own typesetter, loaded with the first formula. */
import '@jupyterlab/mathjax-extension/style/base.css';
import { MathJaxTypesetter } from '@jupyterlab/mathjax-extension';
import type { MathDocument } from 'mathjax-full/js/core/MathDocument.js';
import { type MathItem, STATE } from 'mathjax-full/js/core/MathItem.js';

type Formula = MathItem<HTMLElement, Text, Document>;

const DEFINITION =
  /\\(?:(?:re)?newcommand|providecommand|def|let|DeclareMathOperator|(?:re)?newenvironment|require)\b/;
/** MathJax's output for the name of an undefined macro. */
const UNKNOWN = 'mjx-assistive-mml mtext[mathcolor="red"]';
/** A notebook with more failing formulas has another problem. */
const MAX_OPEN = 500;

const typesetter = new MathJaxTypesetter();
/** Formulas with macros that are undefined so far: texts are typeset as they arrive, and on a busy computer a definition may be late. */
let open: Formula[] = [];
let turn = Promise.resolve();

export function typeset(element: HTMLElement): Promise<void> {
  turn = turn.then(() => setInTurn(element));
  return turn;
}

async function setInTurn(element: HTMLElement): Promise<void> {
  await typesetter.typeset(element);
  const document = (await typesetter.mathDocument()) as MathDocument<HTMLElement, Text, Document>;
  const formulas = [...document.math];
  open = open.filter(({ typesetRoot }) => typesetRoot.isConnected);
  if (formulas.some(({ math }) => DEFINITION.test(math))) {
    for (const formula of open)
      if (element.compareDocumentPosition(formula.typesetRoot) & Node.DOCUMENT_POSITION_FOLLOWING)
        formula.rerender(document, STATE.COMPILED);
    document.outputJax.styleSheet(document);
  }
  open = [...open, ...formulas]
    .filter(({ typesetRoot }) => typesetRoot.querySelector(UNKNOWN) !== null)
    .slice(-MAX_OPEN);
}
