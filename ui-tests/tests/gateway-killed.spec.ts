/** A gateway that dies while a cell runs loses none of the cell's output. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from './fixtures.js';
import { openNotebook, readCells, setSource } from './lab-page.js';
import { notebookText } from './notebook-file.js';

const LINES = 300;
const EXPECTED = Array.from({ length: LINES }, (_, n) => `line ${n}\n`).join('');

// The gate stops the cell in the middle of its output until the test has killed the gateway, however fast the machine is.
const CELL = `import pathlib, time
for n in range(${LINES}):
    print("line", n, flush=True)
    while n == ${LINES / 2} and not pathlib.Path("GATE").exists():
        time.sleep(0.01)
print("done")`;

test('the output of a running cell is complete and in order after the gateway was killed', async ({
  lab,
  page
}) => {
  const gate = join(lab.rootDir, 'gate');
  await writeFile(join(lab.rootDir, 'count.ipynb'), notebookText([CELL.replace('GATE', gate)]));
  await openNotebook(page, 'count.ipynb');
  const output = async (): Promise<string> => (await readCells(page))[0]?.text ?? '';
  await page.notebook.selectCells(0);
  await page.keyboard.press('Control+Enter');
  await expect.poll(output).toContain(`line ${LINES / 2}\n`);
  const status = page.locator('#jp-main-statusbar');
  await expect(status).toContainText('live');

  // Each change is checked, because the next gateway may start immediately.
  const shown = await status.evaluateHandle(bar => {
    const seen = { reconnecting: false };
    const check = (): void => {
      seen.reconnecting ||= bar.textContent.includes('reconnecting');
    };
    new MutationObserver(check).observe(bar, { childList: true, characterData: true, subtree: true });
    return seen;
  });
  const { before, after } = await lab.killGateway();
  expect(after.url).toBe(before.url);
  await expect.poll(() => shown.evaluate(({ reconnecting }) => reconnecting)).toBe(true);
  await writeFile(gate, '');

  await expect.poll(output, { timeout: 120_000 }).toContain('done\n');
  expect(await output()).toBe(`${EXPECTED}done\n`);
  await expect.poll(async () => (await readCells(page))[0]?.executionCount).toBe(1);

  await expect(status).toContainText('live');

  // The kernel is the same one, and answers again.
  await setSource(page, 0, 'print(n)');
  await page.notebook.runCell(0, true);
  await expect.poll(output).toBe(`${LINES - 1}\n`);
});
