/** axe on our parts of the page, with no exceptions. */
import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page } from '@playwright/test';

const MARK = 'data-tpulab-axe';

/** Fails with the rule, the element and its help for each violation inside one of `roots`. */
export async function checkAccessibility(page: Page, ...roots: Locator[]): Promise<void> {
  for (const root of roots) {
    await root.evaluate((element, mark) => {
      element.setAttribute(mark, '');
    }, MARK);
  }
  await transitionsEnded(page);
  // Legacy mode: axe opens no extra page to merge frames of other origins. Our parts have no such frames.
  const axe = new AxeBuilder({ page }).include(`[${MARK}]`).setLegacyMode();
  const { violations, passes } = await axe.analyze();
  const found = violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`
  );
  expect(found).toEqual([]);
  // A scan without any checked element would pass as well.
  expect(passes.length).toBeGreaterThan(0);
}

/** A colour in transition has neither colour's contrast. Endless animations are not awaited. */
async function transitionsEnded(page: Page): Promise<void> {
  await page.evaluate(async () => {
    const ending = document
      .getAnimations()
      .filter(
        ({ effect, playState }) =>
          playState === 'running' && Number.isFinite(Number(effect?.getComputedTiming().endTime))
      );
    await Promise.allSettled(ending.map(animation => animation.finished));
  });
}
