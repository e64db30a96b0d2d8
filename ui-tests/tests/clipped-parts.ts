/** Whether all of our dialog is readable. */
import { expect, type Page } from '@playwright/test';

/** Long enough for a page that is still laid out for another width. */
const LAID_OUT = { timeout: 60_000, intervals: [20, 100] };

/** Fails the test at its end: all cut parts are reported. */
export async function expectNothingClipped(page: Page, where: string): Promise<void> {
  const softly = expect.configure({ soft: true });
  await softly.poll(() => clippedParts(page), { message: where, ...LAID_OUT }).toEqual([]);
}

/** Texts and buttons of the dialog that lack the space they need, and parts outside the window. */
function clippedParts(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const frame = document.querySelector('.jp-TPULabDialog-frame');
    if (!frame) return ['no dialog'];
    const nameOf = (element: Element): string =>
      `${element.tagName.toLowerCase()}.${element.getAttribute('class') ?? ''}: ${element.textContent.slice(0, 60)}`;
    const isShown = (element: Element): boolean => element.getClientRects().length > 0;
    const wide = [...frame.querySelectorAll('*')].filter(
      element =>
        isShown(element) &&
        !element.matches('input, .jp-TPULab-unseen, svg, svg *') &&
        element.clientWidth > 0 &&
        element.scrollWidth > element.clientWidth
    );
    const outer = frame.getBoundingClientRect();
    const outside = [...frame.querySelectorAll('button, h2, .jp-TPULabDialog-foot *')].filter(element => {
      const { left, right } = element.getBoundingClientRect();
      return isShown(element) && (left < outer.left - 1 || right > outer.right + 1);
    });
    const footer = frame.querySelector('.jp-TPULabDialog-foot')?.getBoundingClientRect();
    const isFooterThere = footer !== undefined && footer.bottom <= innerHeight && footer.top >= 0;
    return [...wide, ...outside].map(nameOf).concat(isFooterThere ? [] : ['the footer is out of view']);
  });
}
