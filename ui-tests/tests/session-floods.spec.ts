/** Endless output, displays of an earlier process, and widgets whose page was away, in the session page. */
import { notebookText } from './notebook-file.js';
import { cell, expect, open, run, test } from './session-steps.js';

test('a cell that prints without end leaves the page usable, is counted, and can be interrupted from its bar', async ({
  page,
  gateway
}) => {
  await gateway.write(
    'flood.ipynb',
    notebookText(["while True: print('x' * 200)", '', "print('after the flood')"])
  );
  await open(page, gateway, 'flood.ipynb');
  await run(page, 0);
  const bar = cell(page, 0).locator('.jp-TPULabFlood-bar');
  await expect(bar).toContainText(/[\d,]{6,} lines, [\d.]+ [MG]iB so far/);
  await cell(page, 1).locator('.cm-content').click();
  await page.keyboard.type('letter');
  await expect(cell(page, 1).locator('.cm-content')).toHaveText('letter');
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete');
  await bar.getByRole('button', { name: 'Interrupt' }).click();
  await expect(cell(page, 0).getByText('KeyboardInterrupt').first()).toBeVisible();
  await expect(bar).not.toContainText('so far');
  await expect(bar.getByRole('button', { name: 'Interrupt' })).toBeHidden();
  const download = page.waitForEvent('download');
  await bar.getByRole('button', { name: 'Download' }).click();
  await (await download).cancel();
  await run(page, 2);
  await expect(cell(page, 2).locator('.jp-OutputArea-output')).toHaveText(/after the flood/);
  await expect.poll(() => gateway.read('flood.ipynb')).toContain('after the flood');
  // The file has the beginning, the counts and the end.
  expect((await gateway.read('flood.ipynb')).length).toBeLessThan(2_000_000);
  await expect(page.locator('.tpl-TopBar-saved.jp-mod-saved')).toBeVisible();
  await page.reload();
  await expect(bar).toContainText(/[\d,]{6,} lines/);
});

test('a display of an earlier process is not updated by the next one', async ({ page, gateway }) => {
  const show = "from IPython.display import display\nh = display('one', display_id='d')\n";
  await gateway.write('ids.ipynb', notebookText([show, "h.update('two')", `${show}h.update('three')`]));
  await open(page, gateway, 'ids.ipynb');
  const shown = (at: number) => cell(page, at).locator('.jp-OutputArea-output');
  await run(page, 0);
  await expect(shown(0)).toHaveText(/one/);
  await run(page, 1);
  await expect(shown(0)).toHaveText(/two/);
  const [kernel] = (await (await gateway.request('api/kernels')).json()) as { id: string }[];
  const kernels = (await (await gateway.request('api/sessions')).json()) as {
    path: string;
    kernel: { id: string };
  }[];
  const id = kernels.find(({ path }) => path === 'ids.ipynb')?.kernel.id ?? kernel?.id;
  // Like another page or `tpulab kernels restart`.
  await fetch(new URL(`api/kernels/${id}/restart`, gateway.url), {
    method: 'POST',
    headers: { authorization: `token ${gateway.token}` }
  });
  await run(page, 2);
  await expect(shown(2)).toHaveText(/three/);
  await expect(shown(0)).toHaveText(/two/);
  await expect.poll(() => gateway.read('ids.ipynb')).toContain('three');
  await page.reload();
  await expect(shown(2)).toHaveText(/three/);
  await expect(shown(0)).toHaveText(/two/);
});

const WIDGETS = [
  'import time, pathlib\nimport ipywidgets as w\nfrom IPython.display import display\nout = w.Output()\ndisplay(out)',
  [
    "pathlib.Path('begun').touch()",
    'with out:',
    "    for i in range(20): print('line', i); time.sleep(0.05)",
    "pathlib.Path('ended').touch()"
  ].join('\n')
];

test('an Output widget has its captures from the time without an open page', async ({ page, gateway }) => {
  await gateway.write('captured.ipynb', notebookText(WIDGETS));
  await open(page, gateway, 'captured.ipynb');
  await page.getByRole('button', { name: 'Run all' }).click();
  await expect
    .poll(() =>
      gateway.read('begun').then(
        () => true,
        () => false
      )
    )
    .toBe(true);
  await page.goto('about:blank');
  await expect
    .poll(() =>
      gateway.read('ended').then(
        () => true,
        () => false
      )
    )
    .toBe(true);
  await open(page, gateway, 'captured.ipynb');
  const lines = cell(page, 0).locator('.jp-OutputArea .widget-output');
  await expect(lines).toContainText('line 19');
  expect((await lines.textContent())?.match(/line \d+/g)).toEqual(
    Array.from({ length: 20 }, (_, i) => `line ${i}`)
  );
});

test('an output that came after a save is shown when the page was left before the answer to the save', async ({
  page,
  gateway
}) => {
  await page.addInitScript(() => {
    const Whole = WebSocket;
    globalThis.WebSocket = class extends Whole {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        this.addEventListener('message', event => {
          if ('isCut' in globalThis) event.stopImmediatePropagation();
        });
      }
    };
  });
  const code = "import pathlib\nprint('printed'); pathlib.Path('printed').touch()";
  await gateway.write('left.ipynb', notebookText([code, '']));
  await open(page, gateway, 'left.ipynb');
  await page.evaluate(() => Object.assign(globalThis, { isCut: true }));
  await run(page, 0);
  await expect.poll(() => gateway.read('printed').catch(() => null)).not.toBeNull();
  // The file is written, and the page is left before the answer.
  await page.route(/left\.ipynb/, async route => {
    if (route.request().method() === 'PUT') await route.fetch();
    else await route.continue();
  });
  await cell(page, 1).locator('.cm-content').click();
  await page.keyboard.type('# typed');
  await expect.poll(() => gateway.read('left.ipynb')).toContain('# typed');
  expect(await gateway.read('left.ipynb')).not.toContain('"printed\\n"');
  await page.goto('about:blank');
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await open(page, gateway, 'left.ipynb');
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText(/printed/);
});

// The widget manager abandons its first request after four seconds.
test('a bar is live again after the page was loaded while the connection was cut', async ({
  page,
  gateway
}) => {
  const code = [
    'import time, pathlib, ipywidgets as w',
    'from IPython.display import display',
    "bar = w.Label('step 0')",
    'display(bar)\nn = 0',
    "while not pathlib.Path('enough').exists():",
    "    n += 1; bar.value = f'step {n}'; time.sleep(0.05)"
  ].join('\n');
  await gateway.write('bar.ipynb', notebookText([code]));
  await open(page, gateway, 'bar.ipynb');
  await run(page, 0);
  const bar = cell(page, 0)
    .locator('.jp-OutputArea')
    .getByText(/^step \d+$/);
  await expect(bar).toBeVisible();
  await expect.poll(() => gateway.read('bar.ipynb')).toContain('Label(');
  await page.addInitScript(() => {
    const cut = { attempts: 0, isOver: false };
    const Whole = WebSocket;
    Object.assign(globalThis, { cut });
    globalThis.WebSocket = class extends Whole {
      constructor(url: string | URL, protocols?: string | string[]) {
        const isLost = String(url).includes('/channels') && !cut.isOver;
        cut.attempts += isLost ? 1 : 0;
        // No server listens there.
        super(isLost ? 'ws://127.0.0.1:1/' : url, protocols);
      }
    };
  });
  interface Cut {
    readonly cut: { readonly attempts: number; isOver: boolean };
  }
  await page.reload();
  await expect(page.locator('.jp-CodeCell .cm-content').first()).toBeVisible();
  // JupyterLab tries again after 1, 2, 4 seconds: by then the manager has given up.
  const attempts = () => page.evaluate(() => (globalThis as unknown as Cut).cut.attempts);
  await expect.poll(attempts).toBeGreaterThan(3);
  await page.evaluate(() => {
    (globalThis as unknown as Cut).cut.isOver = true;
  });
  await expect(bar).toBeVisible();
  const value = async (): Promise<number> => Number((await bar.textContent())?.slice(5));
  const before = await value();
  await expect.poll(value).toBeGreaterThan(before);
  await gateway.write('enough', '');
});

// The kernel has ended before the page saves, but its messages are still on their way to the page.
test('a page that lags behind saves its content, and the rest comes back after a reload', async ({
  page,
  gateway
}) => {
  await gateway.write('behind.ipynb', notebookText(["print('one')", "print('after')", "print('third')"]));
  await page.addInitScript(() => {
    const slow = { isOver: true };
    const Whole = WebSocket;
    Object.assign(globalThis, { slow });
    globalThis.WebSocket = class extends Whole {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        const late = (event: Event): void => {
          if (!slow.isOver && String(url).includes('/channels')) event.stopImmediatePropagation();
        };
        super.addEventListener('message', late);
      }
    };
  });
  interface Slow {
    readonly slow: { isOver: boolean };
  }
  await open(page, gateway, 'behind.ipynb');
  const shown = (at: number) => cell(page, at).locator('.jp-OutputArea-output');
  await run(page, 0);
  await expect(shown(0)).toHaveText(/one/);
  await page.evaluate(() => {
    (globalThis as unknown as Slow).slow.isOver = false;
  });
  await run(page, 1);
  await run(page, 2);
  const outputs = async (): Promise<string> => {
    const sessions = (await (await gateway.request('api/sessions')).json()) as {
      path: string;
      kernel: { id: string };
    }[];
    const id = sessions.find(({ path }) => path === 'behind.ipynb')?.kernel.id;
    return (await gateway.request(`bridge/v1/kernels/${id}/outputs`)).text();
  };
  await expect.poll(async () => (await outputs()).match(/"state":"ok"/g)?.length).toBe(3);
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('End');
  await page.keyboard.type(' # saved');
  await expect.poll(() => gateway.read('behind.ipynb')).toContain('# saved');
  expect(await gateway.read('behind.ipynb')).not.toContain('third\\n');
  await page.reload();
  await expect(shown(2)).toHaveText(/third/);
  await expect(shown(1)).toHaveText(/after/);
  await expect(cell(page, 2).locator('.jp-InputPrompt')).toHaveText('[3]:');
  await expect.poll(() => gateway.read('behind.ipynb')).toContain('third\\n');
});

test('an emoji that is overwritten is replaced as a whole, in the page and in the file', async ({
  page,
  gateway
}) => {
  const code = [
    "import time\nfor x in '🕐🕑🕒':",
    "    print(f'\\r{x} at work', end='', flush=True); time.sleep(0.2)",
    "print('\\r😀😀', end='', flush=True); time.sleep(0.2); print('\\b!')"
  ].join('\n');
  await gateway.write('emoji.ipynb', notebookText([code, "print('high', chr(0xD83D), 'end')"]));
  await open(page, gateway, 'emoji.ipynb');
  await run(page, 0);
  await expect(cell(page, 0).locator('.jp-OutputArea-output')).toHaveText('😀! work');
  await run(page, 1);
  await expect(cell(page, 1).locator('.jp-OutputArea-output')).toHaveText('high \ufffd end');
  await expect.poll(() => gateway.read('emoji.ipynb')).toContain('high \ufffd end');
  expect(await gateway.read('emoji.ipynb')).toContain('😀! work');
});
