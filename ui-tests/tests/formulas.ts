/** Sixty texts with math, for which the session page gives the same result as JupyterLab. */

/** In Markdown cells; each list is a cell. */
const MARKDOWN: readonly (readonly string[])[] = [
  [
    'inline $x^2$ and \\(y_1\\)',
    '$$\\int_0^1 x\\,dx = \\tfrac12$$',
    '\\[ \\sum_{i=1}^n i \\]',
    'money: \\$5 and \\$10',
    'five $5 and ten $10 dollars',
    'code: `$x$` stays',
    'an escaped \\\\(not math\\\\)',
    '$a_b*c*d_e$ beside *emphasis*',
    '$x<y$ and $a & b$',
    'no math at all'
  ],
  [
    '\\begin{equation}\\label{one} E = mc^2 \\end{equation}',
    'by \\eqref{one} and \\ref{one}',
    '\\begin{align} a &= b \\\\ c &= d \\end{align}',
    '\\begin{align*} a &= b \\end{align*}',
    '\\begin{gather} a \\\\ b \\end{gather}',
    '$$\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}$$',
    '$$f(x) = \\begin{cases} 1 & x > 0 \\\\ 0 & \\text{else} \\end{cases}$$',
    '$\\tag{7} z$',
    '$$x \\tag{*}$$',
    '\\begin{nothing} x \\end{nothing}'
  ],
  [
    '$\\newcommand{\\R}{\\mathbb{R}} \\R^n$',
    '$\\def\\half#1{\\frac{#1}{2}} \\half{x}$',
    '$\\DeclareMathOperator{\\argmin}{arg\\,min} \\argmin_x f$',
    '$\\let\\eps\\varepsilon \\eps$'
  ],
  // Macros of the previous cell.
  ['$\\R^m$', '$\\half{y}$', '$\\argmin_y g$', '$\\undefinedmacro{x}$', '$\\frac{1}{$', '$\\left( x$'],
  [
    '$\\ce{H2O}$ and $\\ce{2H2 + O2 -> 2H2O}$',
    '$\\require{mhchem} \\ce{SO4^2-}$',
    '$\\require{physics} \\dv{f}{x}$',
    '$\\bra{a}\\ket{b}$',
    '$\\cancel{x}$',
    '$\\color{red}{x} + \\textcolor{blue}{y}$',
    '$\\href{https://example.com}{link}$',
    '$\\href{javascript:alert(1)}{bad}$',
    '$\\unicode{x263a}$',
    '$\\text{words and } x$'
  ],
  [
    '- item $x$\n- item $$y$$',
    '| a | b |\n| - | - |\n| $x|y$ | $z$ |',
    '> quoted $x$',
    '[link $x$](https://example.com)',
    '**bold $x$**',
    '$x$$y$'
  ]
];

/** In outputs. */
const HTML = [
  "<p class='mathjax_ignore'>from $5 to $10</p>",
  "<p class='tex2jax_ignore'>from $5 to $10</p>",
  "<p class='mathjax_ignore'>off <span class='mathjax_process'>$x$</span></p>",
  '<pre>$x$</pre><code>$y$</code>',
  '<table><tr><td>$5</td><td>$10</td></tr></table>',
  '<p>$x^2$ &lt; $y$</p>',
  '<p>split $x<b>y</b>$</p>',
  '<p>see \\ref{one}</p>'
];
const LATEX = [
  '$\\displaystyle \\sqrt{x}$',
  '$$x$$',
  '\\begin{equation} y \\end{equation}',
  'x + y',
  '$\\begin{array}{cc} 1 & 2 \\end{array}$',
  '$\\mathbb{R}$'
];

const output = (type: string, text: string): object => ({
  output_type: 'display_data',
  metadata: {},
  data: { [type]: text }
});

/** A notebook that has all of them, and needs no kernel. */
export const FORMULAS = JSON.stringify({
  cells: [
    ...MARKDOWN.map((texts, at) => ({
      cell_type: 'markdown',
      id: `text${at}`,
      metadata: {},
      source: texts.join('\n\n')
    })),
    {
      cell_type: 'code',
      id: 'outputs',
      execution_count: 1,
      metadata: {},
      source: '1',
      outputs: [
        ...HTML.map(text => output('text/html', text)),
        ...LATEX.map(text => output('text/latex', text))
      ]
    }
  ],
  metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } },
  nbformat: 4,
  nbformat_minor: 5
});

export const FORMULA_COUNT = MARKDOWN.flat().length + HTML.length + LATEX.length;

/** Runs in the page: returns each text as displayed, with the meaning of its formulas in MathML. */
export function shownMath(): string[] {
  const places =
    '.jp-RenderedMarkdown, .jp-OutputArea-output .jp-RenderedHTMLCommon, .jp-OutputArea-output.jp-RenderedHTMLCommon, .jp-RenderedLatex';
  return [...document.querySelectorAll(`:is(${places})`)]
    .filter(place => place.parentElement?.closest(places) === null)
    .map(place => {
      const copy = place.cloneNode(true) as HTMLElement;
      for (const math of copy.querySelectorAll('mjx-container'))
        math.replaceWith(` [${math.querySelector('mjx-assistive-mml')?.innerHTML}] `);
      // A reference leads to a place in this page, and contains the page's address where the page names its base.
      const text = copy.textContent.replaceAll(location.href.replace(/#.*/, '') + '#', '#');
      return text.replace(/\s+/g, ' ').trim();
    });
}
