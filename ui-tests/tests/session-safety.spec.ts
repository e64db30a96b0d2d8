/** A person's own notebooks in the session page: opening one writes nothing, and nothing in it is lost. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { notebookText } from './notebook-file.js';
import { cell, expect, open, run, test } from './session-steps.js';

const OLD = JSON.stringify({
  metadata: { name: 'old' },
  nbformat: 3,
  nbformat_minor: 0,
  worksheets: [
    {
      metadata: {},
      cells: [
        { cell_type: 'heading', level: 1, metadata: {}, source: ['My work of a year'] },
        {
          cell_type: 'code',
          input: ['print(6 * 7)'],
          language: 'python',
          metadata: {},
          outputs: [{ output_type: 'stream', stream: 'stdout', text: ['42\n'] }],
          prompt_number: 1
        }
      ]
    }
  ]
});

// A14
test('a notebook of nbformat 3 is shown, and its file changes only when a person converts it', async ({
  page,
  gateway
}) => {
  await gateway.write('old.ipynb', OLD);
  await open(page, gateway, 'old.ipynb');
  await expect(page.getByRole('heading', { name: 'My work of a year' })).toBeVisible();
  await expect(page.getByText('has an older format')).toBeVisible();
  await run(page, 0);
  await expect(cell(page, 0).locator('.jp-InputPrompt')).toHaveText('[1]:');
  await page.keyboard.press('Control+s');
  expect(await gateway.read('old.ipynb')).toBe(OLD);
  await page.getByRole('button', { name: 'Convert the file' }).click();
  await expect.poll(() => gateway.read('old.ipynb').catch(() => '')).toContain('# My work of a year');
  await expect(page.getByText('has an older format')).toBeHidden();
  const trash = await readdir(join(gateway.folder, 'notebooks', '.tpulab-trash'), { recursive: true });
  expect(trash.some(name => name.endsWith('old.ipynb'))).toBe(true);
});

// E3, X8
test('a notebook of another language is shown as it is, and never run by another kernel', async ({
  page,
  gateway
}) => {
  const r = JSON.parse(notebookText(['x <- 1'], 'ir')) as { metadata: object; cells: object[] };
  r.metadata = { kernelspec: { name: 'ir', display_name: 'R', language: 'R' }, language_info: { name: 'R' } };
  r.cells = [{ ...r.cells[0], outputs: [{ output_type: 'stream', name: 'stdout', text: ['as it was'] }] }];
  const text = JSON.stringify(r);
  await gateway.write('r.ipynb', text);
  await page.goto(gateway.link('r.ipynb'));
  await expect(page.getByText('This notebook needs the kernel R ("ir")')).toBeVisible();
  await run(page, 0);
  await expect(cell(page, 0)).toContainText('as it was');
  expect(await gateway.read('r.ipynb')).toBe(text);
  expect(await (await gateway.ask('api/sessions')).text()).not.toContain('"r.ipynb"');
});

test('a kernel that takes the place of python3 leaves the name in the file, also when a cell is run', async ({
  page,
  gateway
}) => {
  const text = notebookText(['1 + 1'], 'python3');
  await gateway.write('p.ipynb', text);
  await open(page, gateway, 'p.ipynb');
  expect(await gateway.read('p.ipynb')).toBe(text);
  await run(page, 0);
  await expect.poll(() => gateway.read('p.ipynb')).toContain('text/plain');
  expect(await gateway.read('p.ipynb')).toContain('"name":"python3"');
  // The environment of the kernel that took its place, and who else uses it.
  await gateway.write('beside.ipynb', notebookText(['1']));
  const body = { path: 'beside.ipynb', name: '', type: 'notebook', kernel: { name: 'tpulab-jax' } };
  await fetch(new URL('api/sessions', gateway.url), {
    method: 'POST',
    headers: { authorization: `token ${gateway.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body)
  });
  await page.getByRole('button', { name: /^Runtime: / }).click();
  const chip = page.getByRole('dialog', { name: 'Runtime' });
  await expect(chip.getByRole('heading', { name: 'Packages you added' })).toBeVisible();
  // Notebooks of earlier tests may follow.
  await expect(chip.getByText(/^Also used by beside\.ipynb/)).toBeVisible();
});

test('follows its file: a change is shown, and a deleted file is written again on request', async ({
  page,
  gateway
}) => {
  await gateway.write('f.ipynb', notebookText(['first']));
  await open(page, gateway, 'f.ipynb');
  await gateway.write('f.ipynb', notebookText(['second']));
  await expect(page.getByText('Reloaded. f.ipynb changed on disk')).toBeVisible();
  await expect(cell(page, 0).locator('.cm-content')).toHaveText('second');
  await rm(join(gateway.folder, 'notebooks', 'f.ipynb'));
  await expect(page.getByText('f.ipynb was deleted or moved')).toBeVisible();
  await page.getByRole('button', { name: 'Save again' }).click();
  await expect.poll(() => gateway.read('f.ipynb').catch(() => '')).toContain('second');
});

test('outputs of several lines are shown and saved as the file has them', async ({ page, gateway }) => {
  const notebook = JSON.parse(notebookText(['print("a\\nb")', '1'])) as {
    cells: { outputs: object[]; execution_count: number | null }[];
  };
  const outputs = [{ output_type: 'stream', name: 'stdout', text: ['a\n', 'b\n'] }];
  Object.assign(notebook.cells[0]!, { outputs, execution_count: 1 });
  await gateway.write('lines.ipynb', JSON.stringify(notebook));
  await open(page, gateway, 'lines.ipynb');
  await expect(cell(page, 0).locator('.jp-OutputArea-output pre')).toHaveText('a\nb\n');
  await cell(page, 1).locator('.cm-content').click();
  await page.keyboard.type('0');
  await expect.poll(() => gateway.read('lines.ipynb')).toMatch(/01|10/);
  const saved = JSON.parse(await gateway.read('lines.ipynb')) as typeof notebook;
  expect(saved.cells[0]?.outputs).toEqual(outputs);
});
