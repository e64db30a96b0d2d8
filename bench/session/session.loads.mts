/** Loads the session page and JupyterLab in turn, then scrolls and floods the session page; writes down the figures. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Browser, type BrowserContext, type CDPSession, type Page, test } from '@playwright/test';
import { LabServer } from '../../ui-tests/lab/lab-server.js';
import { SessionGateway } from '../../ui-tests/lab/session-gateway.js';
import { notebookText } from '../../ui-tests/tests/notebook-file.js';

interface Load {
  readonly editorMs: number;
  readonly resultMs: number;
  readonly bytes: number;
  readonly requests: number;
}

const NOTEBOOK = 'bench.ipynb';
const EDITOR = '.jp-CodeCell .cm-content';
const RESULT = '.jp-CodeCell .jp-OutputArea-output';
const LINES = 20_000;

/** As the figures are given: 10 Mbit/s, 40 ms, a quarter of the processor. */
async function slowDown(session: CDPSession): Promise<void> {
  const throughput = 10_000_000 / 8;
  await session.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 40,
    downloadThroughput: throughput,
    uploadThroughput: throughput
  });
  await session.send('Emulation.setCPUThrottlingRate', { rate: 4 });
}

/** Milliseconds since navigation when a selector is first there; looked at in each frame. */
function seenAt(page: Page, selector: string, text: string | null): Promise<number> {
  return page.evaluate(
    ([wanted, content]) =>
      new Promise<number>(resolve => {
        const look = (): void => {
          const found = document.querySelector(wanted ?? '');
          if (found !== null && (content === null || found.textContent.trim() === content))
            resolve(performance.now());
          else requestAnimationFrame(look);
        };
        look();
      }),
    [selector, text]
  );
}

async function load(browser: Browser, address: string, isSlow: boolean): Promise<Load> {
  const context: BrowserContext = await browser.newContext();
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  let bytes = 0;
  let requests = 0;
  session.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength;
    requests += 1;
  });
  if (isSlow) await slowDown(session);
  await page.goto(address, { waitUntil: 'commit' });
  const editorMs = await seenAt(page, EDITOR, null);
  await page.locator(EDITOR).first().click();
  // JupyterLab drops a cell that is run before its kernel is connected, so the keys are pressed until one takes.
  const pressed = setInterval(() => void page.keyboard.press('Control+Enter').catch(() => undefined), 250);
  await page.keyboard.press('Control+Enter');
  const resultMs = await seenAt(page, RESULT, '2').finally(() => clearInterval(pressed));
  await context.close();
  return { editorMs: Math.round(editorMs), resultMs: Math.round(resultMs), bytes, requests };
}

/** Frames a second and the longest pause between two, while `action` goes on. */
async function frames(page: Page, action: () => Promise<void>): Promise<{ fps: number; longestMs: number }> {
  await page.evaluate(() => {
    const scope = globalThis as unknown as { times: number[]; isOver: boolean };
    scope.times = [];
    scope.isOver = false;
    const note = (at: number): void => {
      scope.times.push(at);
      if (!scope.isOver) requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
  });
  await action();
  const times = await page.evaluate(() => {
    const scope = globalThis as unknown as { times: number[]; isOver: boolean };
    scope.isOver = true;
    return scope.times;
  });
  const gaps = times.slice(1).map((at, index) => at - (times[index] ?? at));
  const seconds = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1000;
  return { fps: Math.round(gaps.length / seconds), longestMs: Math.round(Math.max(...gaps)) };
}

test('loads', async ({ browser, page }) => {
  const { loads, file } = JSON.parse(process.env['TPULAB_SESSION_BENCH'] ?? '{}') as {
    loads: number;
    file: string;
  };
  const gateway = await SessionGateway.start();
  const lab = await LabServer.start({ galata: true });
  try {
    const text = notebookText(['1 + 1']);
    await gateway.write(NOTEBOOK, text);
    await writeFile(join(lab.rootDir, NOTEBOOK), text);
    const pages = {
      'session page': gateway.link(NOTEBOOK),
      JupyterLab: `${lab.url}/lab/tree/${NOTEBOOK}?reset`
    };
    const all: Record<string, Load[]> = {};
    for (const isSlow of [false, true]) {
      for (let at = 0; at <= loads; at += 1) {
        for (const [name, address] of Object.entries(pages)) {
          const one = await load(browser, address, isSlow);
          // The first starts the kernel, which the others find.
          if (at > 0) (all[`${name}, ${isSlow ? 'slow' : 'loopback'}`] ??= []).push(one);
        }
      }
    }
    await gateway.write(
      'long.ipynb',
      notebookText(Array.from({ length: 1000 }, (_, at) => `x${at} = ${at}`))
    );
    await page.goto(gateway.link('long.ipynb'));
    await page.locator(EDITOR).first().waitFor();
    await page.mouse.move(720, 450);
    const scroll = await frames(page, async () => {
      for (let at = 0; at < 150; at += 1) {
        await page.mouse.wheel(0, 240);
        await page.waitForTimeout(16);
      }
    });
    await gateway.write(
      'flood.ipynb',
      notebookText([`for i in range(${LINES}): print("line", i)`, 'after = 1'])
    );
    await page.goto(gateway.link('flood.ipynb'));
    await page.getByRole('button', { name: /^Runtime: .* connected, / }).waitFor();
    await page.locator(EDITOR).first().click();
    const since = Date.now();
    const flood = await frames(page, async () => {
      await page.keyboard.press('Control+Enter');
      await page
        .locator('.jp-CodeCell')
        .first()
        .getByText(`line ${LINES - 1}`)
        .waitFor();
    });
    const shownMs = Date.now() - since;
    await writeFile(file, JSON.stringify({ loads: all, scroll, flood: { ...flood, shownMs } }));
  } finally {
    await gateway.stop();
    await lab.stop();
  }
});
