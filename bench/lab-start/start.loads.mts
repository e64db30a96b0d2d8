/** Loads Lab with and without the extension in turn, and records the time of each. */
import { writeFile } from 'node:fs/promises';
import { test } from '@playwright/test';
import { LabServer } from '../../ui-tests/lab/lab-server.js';

test('loads', async ({ browser }) => {
  const { loads, file } = JSON.parse(process.env['TPULAB_LAB_START'] ?? '{}') as {
    loads: number;
    file: string;
  };
  const labs = {
    without: await LabServer.start({ galata: true, breakage: 'absent' }),
    with: await LabServer.start({ galata: true })
  };
  const times: Record<keyof typeof labs, number[]> = { without: [], with: [] };
  const context = await browser.newContext();
  try {
    // The first load of each fills the browser's cache and does not count.
    for (let load = 0; load <= loads; load += 1) {
      for (const name of ['without', 'with'] as const) {
        const page = await context.newPage();
        await page.goto(`${labs[name].url}/lab?reset`);
        await page.waitForFunction(() => 'jupyterapp' in window);
        const ms = await page.evaluate(async () => {
          await (window as unknown as { jupyterapp: { restored: Promise<void> } }).jupyterapp.restored;
          return performance.now();
        });
        if (load > 0) times[name].push(Math.round(ms));
        await page.close();
      }
    }
  } finally {
    await context.close();
    await labs.without.stop();
    await labs.with.stop();
  }
  await writeFile(file, JSON.stringify(times));
});
