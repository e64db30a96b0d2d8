/** The side panel as a user finds it: by role and name. */
import { expect, type Locator, type Page } from '@playwright/test';

/** Including the sections of a kernel that has not run anything yet. */
export const SECTIONS = ['Devices', 'Where the time goes', 'Compilations', 'Run'] as const;
type Part = (typeof SECTIONS)[number] | 'Pre-flight' | 'Metrics' | 'Hyperparameters' | 'Log' | 'Other runs';

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
    // The panel may open itself at the same moment, or open slowly; a click on the selected tab folds it.
    await expect(async () => {
      if ((await tab.getAttribute('aria-selected')) !== 'true') await tab.click();
      await expect(this.root).toBeVisible({ timeout: 2_000 });
    }).toPass();
  }

  /** Drags the edge of the side area until the panel has this width, CSS pixels. */
  async widen(width: number): Promise<void> {
    const box = await this.root.boundingBox();
    if (!box) throw new Error('The panel is not on the screen.');
    await this.#page.mouse.move(box.x - 2, box.y + 40);
    await this.#page.mouse.down();
    await this.#page.mouse.move(box.x + box.width - width - 2, box.y + 40, { steps: 4 });
    await this.#page.mouse.up();
  }

  /** A section, unfolded. */
  async section(name: Part): Promise<Locator> {
    const section = this.root.getByRole('region', { name, exact: true });
    // Content shown for the first time, or for another notebook, appears a moment later.
    await section.waitFor();
    const button = section.getByRole('button', { name, expanded: false });
    if ((await button.count()) > 0) await button.click();
    return section;
  }

  /** The list of requests to the run, unfolded. */
  async requests(): Promise<Locator> {
    // It exists from the first request on.
    await expect(this.root.getByRole('region', { name: 'Log', exact: true })).toBeVisible();
    return (await this.section('Log')).getByRole('list', { name: /^Requests to the run/ });
  }

  /** The chart of the metric in the head of the run, opened. */
  async mainChart(metric: string): Promise<Locator> {
    const button = this.root.getByRole('button', { name: `Chart of ${metric}` });
    if ((await button.getAttribute('aria-expanded')) === 'false') await button.click();
    return (await this.section('Metrics')).getByRole('slider', { name: metric, exact: true });
  }

  /** How often each function was compiled, from the functions' lines and the line of small programs. */
  async compilationCounts(): Promise<Map<string, number>> {
    const section = await this.section('Compilations');
    const lines = section.getByRole('list', { name: 'Compiled functions, newest first' }).getByRole('button');
    await expect(lines.first()).toBeVisible();
    const earlier = section.getByRole('button', { name: /^Show .* earlier/ });
    if ((await earlier.count()) > 0) await earlier.click();
    // Not every kernel has them; if there are some, their line is drawn with the cards.
    const small = section.getByRole('button', { name: /small programs? outside jit/ });
    const hasSmall = (await small.count()) > 0;
    if (hasSmall && (await small.getAttribute('aria-expanded')) === 'false') await small.click();

    const counts = new Map<string, number>();
    const add = (name: string, count: number): unknown => counts.set(name, (counts.get(name) ?? 0) + count);
    for (const text of await lines.allInnerTexts()) {
      const [, name, times] = /^(\S+)\s+(?:×([\d,]+)\s+)?(?:compiled|recompiled)/.exec(text) ?? [];
      // An unfinished one, while the page receives earlier ones, counts separately and not for its function.
      add(name ?? text, Number(times?.replaceAll(',', '') ?? 1));
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
