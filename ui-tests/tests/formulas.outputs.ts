/** Math in the session page compared with a stock JupyterLab: `npm run test:outputs`. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { SessionGateway } from '../lab/session-gateway.js';
import { StockLab } from '../stock-lab/stock-lab.js';
import { FORMULA_COUNT, FORMULAS, shownMath } from './formulas.js';

test(`sets ${FORMULA_COUNT} formulas as JupyterLab does`, async ({ browser }) => {
  await using lab = await StockLab.start('none');
  const gateway = await SessionGateway.start();
  try {
    await writeFile(join(lab.rootDir, 'math.ipynb'), FORMULAS);
    await gateway.write('math.ipynb', FORMULAS);
    // JupyterLab typesets only visible formulas.
    const viewport = { width: 1200, height: 5_000 };
    const theirs = await (await browser.newContext({ viewport })).newPage();
    await theirs.goto(lab.notebookUrl('math.ipynb'));
    const ours = await (await browser.newContext({ viewport })).newPage();
    await ours.goto(gateway.link('math.ipynb'));
    await expect.poll(async () => (await theirs.evaluate(shownMath)).at(-1)).toMatch(/^\[.*\]$/);
    await expect.poll(async () => (await ours.evaluate(shownMath)).at(-1)).toMatch(/^\[.*\]$/);
    // Waits until nothing changes any more: JupyterLab typesets one place after the other.
    let before: string[] = [];
    await expect
      .poll(async () => {
        const now = await theirs.evaluate(shownMath);
        const isSame = JSON.stringify(now) === JSON.stringify(before);
        before = now;
        return isSame;
      })
      .toBe(true);
    await expect.poll(() => ours.evaluate(shownMath)).toEqual(before);
    await theirs.context().close();
    await ours.context().close();
  } finally {
    await gateway.stop();
  }
});
