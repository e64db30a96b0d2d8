/** What the specs of the session page share: a gateway for all tests of a worker, and how a notebook is opened in the page. */
import { type Browser, expect, type Locator, type Page, test as plain } from '@playwright/test';
import { SessionGateway } from '../lab/session-gateway.js';

export { expect } from '@playwright/test';

export const test = plain.extend<object, { gateway: SessionGateway }>({
  gateway: [
    async ({}, use) => {
      const gateway = await SessionGateway.start();
      await use(gateway);
      await gateway.stop();
    },
    { scope: 'worker', timeout: 300_000 }
  ]
});

export const cell = (page: Page, at: number): Locator => page.locator('.jp-CodeCell').nth(at);

/** Until its kernel is connected. */
export async function open(page: Page, gateway: SessionGateway, notebook: string): Promise<void> {
  await page.goto(gateway.link(notebook));
  await expect(page.locator('.jp-CodeCell .cm-content').first()).toBeVisible();
  await expect(page.getByRole('button', { name: /^Runtime: .* connected, / })).toBeVisible();
}

/** In a browser of its own. */
export async function openElsewhere(browser: Browser, link: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(link);
  return page;
}
