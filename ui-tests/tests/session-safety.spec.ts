/** A user's own notebooks in the session page: opening one writes nothing, and nothing in it is lost. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { MemoryLimit, overfill } from '../../kernel-bridge/src/testing/memory-limit.js';
import { checkAccessibility } from './accessibility.js';
import { ALONE, notebookText } from './notebook-file.js';
import { cell, expect, open, run, test, unwatched } from './session-steps.js';

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

test('a notebook that is not UTF-8 is refused, and its bytes stay', async ({ page, gateway }) => {
  const latin = Buffer.from(notebookText(["print('caf\u00e9')"]), 'latin1');
  const file = join(gateway.folder, 'notebooks', 'latin.ipynb');
  await writeFile(file, latin);
  await page.goto(gateway.link('latin.ipynb'));
  await expect(
    page.locator('#session').getByText('It is not text in UTF-8. The file was not changed.')
  ).toBeVisible();
  expect(await readFile(file)).toEqual(latin);
});

test('a notebook of another language is shown unchanged, and never run by another kernel', async ({
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
  expect(await (await gateway.request('api/sessions')).text()).not.toContain('"r.ipynb"');
});

test('a kernel that replaces python3 leaves the name in the file, even when a cell is run', async ({
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
  // The environment of the substitute kernel, and its other users.
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

test('follows its file: a change is shown, and a file deleted with its folder is written again on request', async ({
  page,
  gateway
}) => {
  const folder = join(gateway.folder, 'notebooks', 'branch');
  await mkdir(join(folder, 'work'), { recursive: true });
  await gateway.write('branch/work/f.ipynb', notebookText(['first']));
  await open(page, gateway, 'branch/work/f.ipynb');
  await gateway.write('branch/work/f.ipynb', notebookText(['second']));
  await expect(page.getByText('Reloaded. f.ipynb changed on disk')).toBeVisible();
  await expect(cell(page, 0).locator('.cm-content')).toHaveText('second');
  await rm(folder, { recursive: true });
  await expect(page.getByText('f.ipynb was deleted or moved')).toBeVisible();
  await page.getByRole('button', { name: 'Save again' }).click();
  await expect.poll(() => gateway.read('branch/work/f.ipynb').catch(() => '')).toContain('second');
  await expect(page.getByText('f.ipynb was deleted or moved')).toBeHidden();
});

test('what is typed below line ends of Windows is run and saved where it was typed', async ({
  page,
  gateway
}) => {
  const source = "one = 'ü'\r\ntwo = 'b'\r\nprint(one + two)";
  await gateway.write('crlf.ipynb', notebookText([source, 'left\r\nalone']));
  await open(page, gateway, 'crlf.ipynb');
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type(" # 'three'");
  await page.keyboard.press('Control+Enter');
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText('üb');
  const saved = async (): Promise<unknown[]> => {
    const { cells } = JSON.parse(await gateway.read('crlf.ipynb')) as {
      cells: { source: string | string[] }[];
    };
    return cells.map(({ source: text }) => [text].flat().join(''));
  };
  await expect.poll(saved).toEqual([`${source} # 'three'`, 'left\r\nalone']);
});

test('shows both versions of a notebook that changed here and elsewhere; the discarded one is in the trash', async ({
  page,
  gateway
}) => {
  const theirs = ['same = 1', 'import json\nstep(1)\nhistory.append(loss)', 'same = 2'];
  const trashed = async (end: string): Promise<string> => {
    const folder = join(gateway.folder, 'notebooks', '.tpulab-trash');
    const names = await readdir(folder, { recursive: true });
    const found = names.find(name => name.endsWith(end));
    return found === undefined ? '' : readFile(join(folder, found), 'utf8');
  };
  const diverge = async (name: string): Promise<void> => {
    await gateway.write(name, notebookText(['same = 1', 'import json\nstep(1)', 'same = 2']));
    await open(page, gateway, name);
    await unwatched(page, async () => {
      await gateway.write(name, notebookText(theirs));
      await cell(page, 1).locator('.cm-content').click();
      await page.keyboard.press('Control+End');
      await page.keyboard.type('\nlog(loss)');
    });
    await expect(page.getByRole('alert')).toContainText(`${name} changed on disk while you were editing`);
  };
  await diverge('two.ipynb');
  const card = page.getByRole('region', { name: 'Two versions of two.ipynb' });
  await expect(card).toContainText('1 cell differs. 2 other cells are the same.');
  await expect(card.getByRole('caption')).toHaveText('Cell 2');
  const row = card.getByRole('row', { name: /log\(loss\)/ });
  await expect(row.getByRole('cell', { name: 'history.append(loss)' })).toBeVisible();
  await expect(card.getByText('step(1)')).toHaveCount(2);
  await expect(card).toContainText('Keep both saves yours as two-mine.ipynb.');
  await cell(page, 2).locator('.cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('\nlate = 1');
  await expect(card).toContainText('2 cells differ. 1 other cell is the same.');
  await checkAccessibility(page, card);
  expect(await gateway.read('two.ipynb')).toBe(notebookText(theirs));
  await card.getByRole('button', { name: 'Keep mine' }).click();
  await expect.poll(() => gateway.read('two.ipynb')).toContain('log(loss)');
  await expect(card).toBeHidden();
  expect(await trashed('two-theirs.ipynb')).toBe(notebookText(theirs));

  await diverge('three.ipynb');
  await page.getByRole('button', { name: 'Take theirs' }).click();
  await expect(cell(page, 1).locator('.cm-content')).toContainText('history.append(loss)');
  expect(await gateway.read('three.ipynb')).toBe(notebookText(theirs));
  expect(await trashed('three-mine.ipynb')).toContain('log(loss)');
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

test('reports a kernel killed for lack of memory, and the preserved data', async ({ page, gateway }) => {
  const made = await MemoryLimit.make(400 * 2 ** 20);
  test.skip(typeof made === 'string', typeof made === 'string' ? made : '');
  await using limit = made as MemoryLimit;
  await gateway.write('full.ipynb', notebookText(["print('here')", overfill(limit)]));
  await open(page, gateway, 'full.ipynb');
  await run(page, 0);
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText(/here/);
  await run(page, 1);
  const why = /^The kernel ended: killed by SIGKILL, probably because the machine ran out of memory/;
  await expect(page.getByRole('status').filter({ hasText: why })).toBeVisible();
  await expect(cell(page, 1)).not.toHaveAttribute('data-tpl-state', 'running');
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText(/here/);
  // No dialog blocks the page.
  await run(page, 0);
  await expect(cell(page, 0).locator('.jp-InputPrompt')).toHaveText('[1]:');
});

/** Kills its kernel after a checkpoint, once. */
const KILLED = `import os, pathlib, signal, time, tpulab
run = tpulab.run("train", total=100)
for step in run.steps(range(100)):
    if step == 50:
        with run.band("checkpoint"): time.sleep(0.01)
    if step == 80 and not pathlib.Path("MARK").exists():
        pathlib.Path("MARK").touch(); time.sleep(2)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
print("trained")`;

test('reports how far a training was whose kernel was killed, and runs the cells up to it again', async ({
  page,
  gateway
}) => {
  await gateway.write('cut.ipynb', notebookText(["print('first')", KILLED.replaceAll('MARK', 'cut-once')]));
  await open(page, gateway, 'cut.ipynb');
  await run(page, 1);
  const end = page.getByRole('status').filter({ hasText: /^The kernel ended: killed by SIGKILL/ });
  await expect(end).toContainText(
    /RAM in use reached .* The run "train" had reached step \d+ of 100; its last checkpoint is from step 50\./
  );
  await page.getByRole('button', { name: 'Run up to the training again' }).click();
  await expect(cell(page, 1).locator('.jp-OutputArea-output')).toHaveText(/trained/);
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText(/first/);
});

test('a cell whose kernel was killed while no page was open is filled, and the notice names the cause', async ({
  page,
  gateway
}) => {
  await gateway.write('alone.ipynb', notebookText([ALONE]));
  await open(page, gateway, 'alone.ipynb');
  await run(page, 0);
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText(/begun/);
  await page.goto('about:blank');
  const sessions = (await (await gateway.request('api/sessions')).json()) as {
    path: string;
    kernel: { id: string };
  }[];
  const { kernel } = sessions.find(({ path }) => path === 'alone.ipynb')!;
  await gateway.write('gone', '');
  await expect
    .poll(async () => (await gateway.request(`bridge/v1/kernels/${kernel.id}/outputs`)).text())
    .toContain('last words');
  await gateway.write('over', '');
  await expect
    .poll(async () => (await gateway.request(`api/kernels/${kernel.id}`)).text())
    .toContain('exited with code 3');
  await open(page, gateway, 'alone.ipynb');
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText(/begun\s+last words/);
  await expect(page.getByText('The kernel ended: exited with code 3.')).toBeVisible();
});

test('a notebook with a backslash in its name opens, runs and is saved as itself', async ({
  page,
  gateway
}) => {
  const name = 'back\\slash [1] {a}~$HOME.ipynb';
  await gateway.write(name, notebookText(['print(6 * 7)']));
  await open(page, gateway, name);
  await run(page, 0);
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText(/42/);
  await expect.poll(() => gateway.read(name)).toContain('42');
});

test('a notebook that became read-only is kept in the page, copied on request, and saved once it is writable', async ({
  page,
  gateway
}) => {
  const text = notebookText(['first']);
  await gateway.write('kept.ipynb', text);
  await open(page, gateway, 'kept.ipynb');
  // Permissions do not restrict the superuser.
  const file = join(gateway.folder, 'notebooks', 'kept.ipynb');
  const isRoot = process.getuid?.() === 0;
  const setWritable = (isWritable: boolean) =>
    isRoot
      ? promisify(execFile)('chattr', [isWritable ? '-i' : '+i', file])
      : chmod(file, isWritable ? 0o644 : 0o444);
  const isHeld = await setWritable(false).then(
    () => true,
    () => false
  );
  test.skip(!isHeld, 'The file system has no files that the superuser may not write.');
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.type('unsaved');
  await expect(page.getByText('kept.ipynb is not saved. "kept.ipynb" is read-only.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Download' })).toBeVisible();
  expect(await gateway.read('kept.ipynb')).toBe(text);
  await page.getByRole('button', { name: 'Save elsewhere…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('A copy is saved as kept-copy.ipynb.')).toBeVisible();
  expect(await gateway.read('kept-copy.ipynb')).toContain('unsaved');
  await setWritable(true);
  await page.getByRole('button', { name: 'Save now' }).click();
  await expect.poll(() => gateway.read('kept.ipynb')).toContain('unsaved');
  await expect(page.getByText('is not saved')).toBeHidden();
});

test('a notebook whose path a folder has replaced is kept in the page, and reports it', async ({
  page,
  gateway
}) => {
  await gateway.write('place.ipynb', notebookText(['first']));
  await open(page, gateway, 'place.ipynb');
  const file = join(gateway.folder, 'notebooks', 'place.ipynb');
  await unwatched(page, async () => {
    await rm(file);
    await mkdir(file);
    await cell(page, 0).locator('.cm-content').click();
    await page.keyboard.type('unsaved');
    await page.keyboard.press('Control+s');
    await expect(page.getByText('place.ipynb is not saved. "place.ipynb" is not a file.')).toBeVisible();
  });
  await expect(page.getByRole('button', { name: 'Save elsewhere…' })).toBeVisible();
  await rm(file, { recursive: true });
});
