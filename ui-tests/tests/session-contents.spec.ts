/** The contents of a notebook in the session page, beside its cells. */
import { cell, expect, open, run, test } from './session-steps.js';

// The first queued cell from the top must not count as the running one.
test('the contents show as running the cell that the kernel runs, in any order of requests', async ({
  page,
  gateway
}) => {
  const text = (source: string, at: number): object => ({
    cell_type: 'markdown',
    id: `text-${at}`,
    metadata: {},
    source
  });
  const code = (source: string, at: number): object => ({
    ...{ cell_type: 'code', id: `cell-${at}`, metadata: {}, source, outputs: [], execution_count: null }
  });
  const until = (name: string): string =>
    `import pathlib, time\nwhile not pathlib.Path('${name}').exists(): time.sleep(0.02)`;
  const cells = ['First', 'Second', 'Third'].flatMap((name, at) => [
    text(`# ${name}`, at),
    code(until(`end-of-${name}`), at)
  ]);
  const kernelspec = { name: 'tpulab-jax', display_name: 'JAX (XLA) on this machine', language: 'python' };
  await gateway.write(
    'order.ipynb',
    JSON.stringify({ cells, metadata: { kernelspec }, nbformat: 4, nbformat_minor: 5 })
  );
  await open(page, gateway, 'order.ipynb');
  const contents = page.locator('.tpl-Contents li');
  await run(page, 2);
  await run(page, 1);
  await run(page, 0);
  await expect(contents).toHaveText(['Firstqueued', 'Secondqueued', 'Thirdrunning']);
  await gateway.write('end-of-Third', '');
  await expect(contents).toHaveText(['Firstqueued', 'Secondrunning', /^Third[\d.]+ m?s$/]);
  // Headings follow their cells.
  await cell(page, 2).locator('.cm-content').click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('b');
  await page.keyboard.press('m');
  await page.keyboard.press('Enter');
  await page.keyboard.type('## Fourth');
  await expect(contents).toHaveText(['Firstqueued', 'Secondrunning', /^Third/, 'Fourth']);
  await gateway.write('end-of-Second', '');
  await expect(contents).toHaveText(['Firstrunning', /^Second/, /^Third/, 'Fourth']);
  await gateway.write('end-of-First', '');
  await expect(contents).toHaveText([/^First[\d.]+ m?s$/, /^Second/, /^Third/, 'Fourth']);
});
