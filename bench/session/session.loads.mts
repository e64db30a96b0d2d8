/** Loads the session page and JupyterLab in turn, then scrolls and floods both; records the figures. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Browser, type CDPSession, type Page, test } from '@playwright/test';
import { LabServer } from '../../ui-tests/lab/lab-server.js';
import { SessionGateway } from '../../ui-tests/lab/session-gateway.js';
import { notebookText } from '../../ui-tests/tests/notebook-file.js';

interface Load {
  readonly editorMs: number;
  readonly resultMs: number;
  readonly bytes: number;
  readonly requests: number;
}

/** One of the two pages: the folder of its notebooks, how it opens one, and the gateway of its kernels. */
interface Side {
  readonly name: string;
  readonly write: (file: string, text: string) => Promise<void>;
  readonly address: (file: string) => string;
  /** Resolves when a cell may be run. */
  readonly isReady: (page: Page) => Promise<void>;
  readonly ask: (path: string, body: object) => Promise<{ id: string; kernel: { id: string } }>;
}

const EDITOR = '.jp-CodeCell .cm-content';
const RESULT = '.jp-CodeCell .jp-OutputArea-output';
/** The scrolled element of a notebook, on both sides. */
const SCROLLER = '.jp-Notebook .jp-WindowedPanel-outer';
const CELLS = 1_000;
/** One turn of a mouse wheel in CSS pixels, and how often it is turned: far enough from the end of the notebook on both sides. */
const WHEEL_PX = 120;
const WHEEL_TURNS = 200;
const LINES = 20_000;
const WAIT_MS = 180_000;

/** Slows the page down as stated with the results: 10 Mbit/s, 40 ms, a quarter of the CPU speed. */
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

/** Runs in the page: records when editor and result are first drawn, in milliseconds since navigation. */
function watch([editor, result]: readonly [string, string]): void {
  const seen: { editorMs?: number; resultMs?: number } = {};
  (globalThis as unknown as { seen: object }).seen = seen;
  const check = (): void => {
    if (seen.editorMs === undefined && document.querySelector(editor) !== null)
      seen.editorMs = performance.now();
    if (document.querySelector(result)?.textContent.trim() === '2') seen.resultMs ??= performance.now();
    if (seen.resultMs === undefined) requestAnimationFrame(check);
  };
  check();
}

const seenAt = (page: Page, what: 'editorMs' | 'resultMs'): Promise<number> =>
  page
    .waitForFunction(
      key => (globalThis as unknown as { seen: Record<string, number | undefined> }).seen[key],
      what,
      { timeout: WAIT_MS, polling: 50 }
    )
    .then(async handle => (await handle.jsonValue()) ?? Number.NaN);

interface LabApp {
  readonly shell: {
    readonly currentWidget: {
      readonly sessionContext?: {
        readonly session: { readonly kernel: { connectionStatus: string } | null } | null;
      };
    } | null;
  };
}

/** JupyterLab drops a cell that is run before its kernel is connected. */
async function labIsReady(page: Page): Promise<void> {
  await page.waitForFunction(
    () => {
      const { jupyterapp } = globalThis as unknown as { jupyterapp?: LabApp };
      const session = jupyterapp?.shell.currentWidget?.sessionContext?.session;
      return session?.kernel?.connectionStatus === 'connected';
    },
    undefined,
    { timeout: WAIT_MS, polling: 'raf' }
  );
}

async function load(browser: Browser, side: Side, file: string, isSlow: boolean): Promise<Load> {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send('Network.enable');
    let bytes = 0;
    let requests = 0;
    session.on('Network.loadingFinished', ({ encodedDataLength }) => {
      bytes += encodedDataLength;
      requests += 1;
    });
    await page.addInitScript(watch, [EDITOR, RESULT] as const);
    if (isSlow) await slowDown(session);
    await page.goto(side.address(file), { waitUntil: 'commit' });
    const editorMs = await seenAt(page, 'editorMs');
    await page.locator(EDITOR).first().click();
    await side.isReady(page);
    // Once: each further press would clear the expected output, and a slow page would never show it.
    await page.keyboard.press('Control+Enter');
    const resultMs = await seenAt(page, 'resultMs');
    return { editorMs: Math.round(editorMs), resultMs: Math.round(resultMs), bytes, requests };
  } finally {
    await context.close();
  }
}

/** Frames a second and the longest pause between two, while `action` runs. */
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

/** A session of the notebook with a running kernel, so that no load waits for the start of one. */
async function attach(side: Side, file: string, kernelId: string | null): Promise<string> {
  const kernel = kernelId === null ? { name: 'tpulab-jax' } : { id: kernelId };
  const made = await side.ask('api/sessions', { path: file, name: file, type: 'notebook', kernel });
  return made.kernel.id;
}

/** Opens a notebook with a separate kernel, and waits until both are ready. */
async function opened(browser: Browser, side: Side, file: string, cells: readonly string[]): Promise<Page> {
  await side.write(file, notebookText(cells));
  await attach(side, file, null);
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  await page.goto(side.address(file));
  await page.locator(EDITOR).first().waitFor();
  return page;
}

/** Waits until no more cells come into the page automatically, at most `WAIT_MS`. Resolves with their number. */
async function settled(page: Page): Promise<number> {
  const editors = page.locator(EDITOR);
  let count = -1;
  for (const sinceMs = Date.now(); Date.now() - sinceMs < WAIT_MS;) {
    const now = await editors.count();
    if (now === count) break;
    count = now;
    await page.waitForTimeout(3_000);
  }
  return editors.count();
}

/** The same turns of the wheel on both sides, from the beginning towards the end, once the notebook is loaded. */
async function scroll(browser: Browser, side: Side): Promise<object> {
  const cells = Array.from({ length: CELLS }, (_, at) => `x${at} = ${at}`);
  const page = await opened(browser, side, 'long.ipynb', cells);
  const editors = await settled(page);
  const scroller = page.locator(SCROLLER).first();
  const scrolledPx = (): Promise<number> => scroller.evaluate(({ scrollTop }) => Math.round(scrollTop));
  await scroller.hover();
  const fromPx = await scrolledPx();
  const found = await frames(page, async () => {
    for (let at = 0; at < WHEEL_TURNS; at += 1) {
      await page.mouse.wheel(0, WHEEL_PX);
      await page.waitForTimeout(16);
    }
  });
  const distancePx = (await scrolledPx()) - fromPx;
  // Estimated heights of cells become real ones on the way, which moves the notebook a little without scrolling.
  const wantedPx = WHEEL_TURNS * WHEEL_PX;
  if (Math.abs(distancePx - wantedPx) > wantedPx / 10)
    throw new Error(`${side.name}: scrolled by ${distancePx} px, not by ${wantedPx} px.`);
  await page.context().close();
  return { ...found, distancePx, editors };
}

/** The time until a flood's last line is shown, and then the time until a letter appears in another cell. */
async function flood(browser: Browser, side: Side): Promise<object> {
  const cells = [`for i in range(${LINES}): print("line", i)`, ''];
  const page = await opened(browser, side, 'flood.ipynb', cells);
  await page.locator('.jp-Notebook').waitFor();
  const first = page.locator('.jp-CodeCell').first();
  await page.locator(EDITOR).first().click();
  await side.isReady(page);
  const sinceMs = Date.now();
  const { longestMs, fps } = await frames(page, async () => {
    await page.keyboard.press('Control+Enter');
    await first.getByText(`line ${LINES - 1}`).waitFor({ timeout: WAIT_MS });
  });
  const shownMs = Date.now() - sinceMs;
  await page.locator(EDITOR).nth(1).click();
  const typedAt = Date.now();
  await page.keyboard.type('a');
  await page.locator(EDITOR).nth(1).getByText('a').waitFor();
  const letterMs = Date.now() - typedAt;
  await page.context().close();
  return { fps, longestMs, shownMs, letterMs };
}

async function post(
  url: string,
  token: string,
  body: object
): Promise<{ id: string; kernel: { id: string } }> {
  const headers = { authorization: `token ${token}`, 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`POST ${new URL(url).pathname}: ${response.status}`);
  return (await response.json()) as { id: string; kernel: { id: string } };
}

test('loads', async ({ browser }) => {
  const { loads, file } = JSON.parse(process.env['TPULAB_SESSION_BENCH'] ?? '{}') as {
    loads: number;
    file: string;
  };
  const gateway = await SessionGateway.start();
  const lab = await LabServer.start({ galata: true });
  try {
    const labGateway = await lab.reach();
    const sides: readonly Side[] = [
      {
        name: 'session page',
        write: (name, text) => gateway.write(name, text),
        address: name => gateway.link(name),
        // A cell waits there for its kernel.
        isReady: () => Promise.resolve(),
        ask: (path, body) => post(new URL(path, gateway.url).href, gateway.token, body)
      },
      {
        name: 'JupyterLab',
        write: (name, text) => writeFile(join(lab.rootDir, name), text),
        address: name => `${lab.url}/lab/tree/${name}?reset`,
        isReady: labIsReady,
        ask: (path, body) => post(new URL(path, labGateway.url).href, labGateway.token, body)
      }
    ];
    const kernels = new Map<Side, string>();
    const all: Record<string, Load[]> = {};
    for (const isSlow of [false, true]) {
      for (let at = 0; loads > 0 && at <= loads; at += 1) {
        for (const side of sides) {
          // A separate file and cell: they contain no results of an earlier page.
          const name = `load-${isSlow ? 'slow' : 'fast'}-${at}.ipynb`;
          await side.write(name, notebookText(['1 + 1']).replace('cell-0', `cell-${isSlow}-${at}`));
          kernels.set(side, await attach(side, name, kernels.get(side) ?? null));
          const one = await load(browser, side, name, isSlow);
          console.log(`${side.name}${isSlow ? ', slow' : ''} ${at}: ${JSON.stringify(one)}`);
          // At the first one the kernel may still be starting, and no file has been read before.
          if (at > 0) (all[`${side.name}, ${isSlow ? 'slow' : 'loopback'}`] ??= []).push(one);
        }
      }
    }
    const scrolled: Record<string, object> = {};
    const flooded: Record<string, object> = {};
    for (const side of sides) {
      scrolled[side.name] = await scroll(browser, side);
      flooded[side.name] = await flood(browser, side);
    }
    await writeFile(file, JSON.stringify({ loads: all, scroll: scrolled, flood: flooded }));
  } finally {
    await gateway.stop();
    await lab.stop();
  }
});
