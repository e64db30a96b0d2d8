// @vitest-environment jsdom
import { expect, it, vi } from 'vitest';

// jsdom lacks these, and JupyterLab's packages need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends Event {},
    matchMedia: () => ({ addListener: () => undefined })
  })
);

const { typeset } = await import('./math.js');

const shown = (text: string): HTMLElement => {
  const element = document.body.appendChild(document.createElement('p'));
  element.textContent = text;
  return element;
};
const meaning = (element: HTMLElement): string | undefined =>
  element.querySelector('mjx-assistive-mml')?.innerHTML;

// Macros carry over from one cell to the next, as in JupyterLab.
it('typesets a formula with a macro from a text above, whichever of the two is typeset first', async () => {
  const before = shown('$\\half{z}$');
  const definition = shown('$\\def\\half#1{\\frac{#1}{2}} \\half{x}$');
  const after = shown('$\\half{y}$');
  await typeset(before);
  await typeset(after);
  expect(meaning(after)).toContain('red');
  await typeset(definition);
  expect(meaning(definition)).toContain('<mfrac><mi>x</mi><mn>2</mn></mfrac>');
  expect(meaning(after)).toContain('<mfrac><mi>y</mi><mn>2</mn></mfrac>');
  // As in JupyterLab, text above a definition does not use it.
  expect(meaning(before)).toContain('red');
  expect(after.querySelectorAll('mjx-container')).toHaveLength(1);
});
