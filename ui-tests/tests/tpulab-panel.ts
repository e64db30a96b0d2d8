/** The side panel as a reader finds it: by role and name. */
import { expect, type Locator, type Page } from '@playwright/test';

export const SECTIONS = ['Devices', 'Steps', 'Compilations', 'Run'] as const;

export class TPULabPanel {
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  get root(): Locator {
    return this.#page.getByRole('region', { name: 'TPULab', exact: true });
  }

  async open(): Promise<void> {
    // By its caption: the tab of the dashboard is called TPULab too.
    const tab = this.#page.getByRole('tab', { name: /^TPULab: / });
    // The panel may show itself at the same moment, or take long to; a click on the tab that is chosen folds it away.
    await expect(async () => {
      if ((await tab.getAttribute('aria-selected')) !== 'true') await tab.click();
      await expect(this.root).toBeVisible({ timeout: 2_000 });
    }).toPass();
  }

  /** A section, unfolded. */
  async section(name: (typeof SECTIONS)[number]): Promise<Locator> {
    const section = this.root.getByRole('region', { name, exact: true });
    const button = section.getByRole('button', { name, expanded: false });
    if ((await button.count()) > 0) await button.click();
    return section;
  }

  /** How often each function was compiled, by the cards and by the line of small programs. */
  async compilationCounts(): Promise<Map<string, number>> {
    const section = await this.section('Compilations');
    const cards = section.getByRole('list', { name: 'Compilations, newest first' }).getByRole('listitem');
    await expect(cards.first()).toBeVisible();
    const earlier = section.getByRole('button', { name: /^Show .* earlier/ });
    if ((await earlier.count()) > 0) await earlier.click();
    // Not every kernel has them; where there are some, their line is drawn with the cards.
    const small = section.getByRole('button', { name: /small programs? outside jit/ });
    const hasSmall = (await small.count()) > 0;
    if (hasSmall && (await small.getAttribute('aria-expanded')) === 'false') await small.click();

    const counts = new Map<string, number>();
    const add = (name: string, count: number): unknown => counts.set(name, (counts.get(name) ?? 0) + count);
    for (const text of await cards.allInnerTexts()) {
      // One that is not finished, as while the page is told of earlier ones, counts for itself and not for its function.
      add(/^(\S+) (?:compiled|recompiled)/.exec(text)?.[1] ?? text, 1);
    }
    for (const text of await small
      .locator('xpath=following-sibling::ul')
      .getByRole('listitem')
      .allInnerTexts()) {
      const [name = '', figures = ''] = text.split(/\s+(.*)/s);
      add(name, Number(/^([\d,]+) ×/.exec(figures)?.[1]?.replaceAll(',', '') ?? 1));
    }
    return counts;
  }
}
