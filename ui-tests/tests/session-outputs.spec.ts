/** Outputs with scripts in the session page: where they run, what they can reach there, and where they do not run. */
import type { FrameLocator, Page } from '@playwright/test';
import { notebookText } from './notebook-file.js';
import { cell, expect, open, run, test } from './session-steps.js';

const frame = (page: Page, at: number): FrameLocator => cell(page, at).frameLocator('.tpl-OutputFrame');

/** Tries what a hostile script would. */
const SPY = (gateway: string): string => `<p id="found">not run</p>
<script>
const attempts = {
  page: () => parent.document.title,
  token: () => sessionStorage.getItem('tpulab:session-token'),
  cookie: () => document.cookie,
  top: () => { top.location = 'about:blank'; }
};
const found = { origin: self.origin };
for (const [name, attempt] of Object.entries(attempts))
  try { attempt(); found[name] = 'done'; } catch (error) { found[name] = error.name; }
fetch('${gateway}session/').then(() => 'answered', () => 'refused').then(gateway => {
  document.getElementById('found').textContent = JSON.stringify({ ...found, gateway });
});
</script>`;
const NOTHING = JSON.stringify({
  origin: 'null',
  ...{ page: 'SecurityError', token: 'SecurityError', cookie: 'SecurityError', top: 'SecurityError' },
  gateway: 'refused'
});
/** As Plotly does: a library in an output of its own, and a chart that needs it in another. */
const LIBRARY = `'<script>' + '/* library */'.ljust(60_000) + 'window.draw = () => "drawn"; </script>'`;
const CHART = `'<p id="chart" style="height: 321px"></p><script>document.getElementById("chart").textContent = draw()</script>'`;

test('run in a frame that reaches nothing, and only where the notebook is trusted', async ({
  page,
  gateway
}) => {
  const spy = `HTML(${JSON.stringify(SPY(gateway.url))})`;
  await gateway.write(
    'scripts.ipynb',
    notebookText([`from IPython.display import HTML\n${spy}`, `HTML(${LIBRARY})`, `HTML(${CHART})`])
  );
  await open(page, gateway, 'scripts.ipynb');
  await page.getByRole('button', { name: 'Run all' }).click();
  await expect(frame(page, 0).locator('#found')).toHaveText(NOTHING);
  await expect(frame(page, 2).locator('#chart')).toHaveText('drawn');
  await expect(cell(page, 2).locator('.tpl-OutputFrame')).toHaveCSS('height', /^3[2-6]\d(\.\d+)?px$/);

  // The same browser knows these outputs again. What the file says of itself counts for nothing.
  await expect.poll(() => gateway.read('scripts.ipynb')).toContain('drawn');
  await expect(page.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible();
  const text = await gateway.read('scripts.ipynb');
  expect(text).not.toContain('"trusted"');
  await page.reload();
  await expect(frame(page, 2).locator('#chart')).toHaveText('drawn');

  const foreign = JSON.parse(text.replaceAll('not run', 'by a stranger')) as {
    cells: { metadata: object }[];
  };
  for (const each of foreign.cells) each.metadata = { trusted: true };
  await gateway.write('foreign.ipynb', JSON.stringify(foreign));
  await open(page, gateway, 'foreign.ipynb');
  await expect(cell(page, 0).getByText('by a stranger', { exact: true })).toBeVisible();
  await expect(cell(page, 0).getByText('This output has scripts.')).toBeVisible();
  await expect(cell(page, 0).locator('.tpl-OutputFrame')).toHaveCount(0);
  await cell(page, 0).getByRole('button', { name: 'Trust this notebook…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Trust' }).click();
  await expect(frame(page, 0).locator('#found')).toHaveText(NOTHING);
  await run(page, 2);
  await expect(cell(page, 2).locator('.jp-InputPrompt')).toHaveText(/\[\d+\]:/);
});
