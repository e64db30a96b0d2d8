/**
 * Runs each cell with too much output on each side, types letters in another cell meanwhile, and interrupts it. Records the
 * figures.
 */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Browser, chromium, type Page, test } from '@playwright/test';
import { LabServer } from '../../ui-tests/lab/lab-server.js';
import { SessionGateway } from '../../ui-tests/lab/session-gateway.js';
import { notebookText } from '../../ui-tests/tests/notebook-file.js';
import { findChromium } from '../../scripts/test/chromium.mjs';

interface Side {
  readonly name: string;
  readonly kernel: string;
  readonly write: (file: string, text: string) => Promise<void>;
  readonly address: (file: string) => string;
  /** Starts a kernel for a notebook; resolves with a function that ends it. */
  readonly session: (path: string, name: string) => Promise<() => Promise<void>>;
}

/** The measured cells: an endless one runs until it is interrupted. */
const CELLS: Readonly<Record<string, { readonly code: string; readonly isEndless: boolean }>> = {
  baseline: { code: 'pass', isEndless: false },
  'endless print': { code: "while True: print('x'*200)", isEndless: true },
  'endless display updates': {
    code: [
      "h = display({'text/plain': '0'}, raw=True, display_id=True)",
      'n = 0',
      'while True:',
      "    n += 1; h.update({'text/plain': str(n)}, raw=True)"
    ].join('\n'),
    isEndless: true
  },
  '2,000 images': {
    code: [
      'import os, struct, zlib',
      'def chunk(kind, data):',
      "    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))",
      'def png():',
      "    rows = b''.join(b'\\0' + os.urandom(300) for _ in range(100))",
      "    head = struct.pack('>IIBBBBB', 100, 100, 8, 2, 0, 0, 0)",
      "    return b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')",
      'from IPython.display import Image, display',
      'for _ in range(2000): display(Image(png()))'
    ].join('\n'),
    isEndless: false
  },
  'a line of 100 MB': { code: "print('y' * 100_000_000)", isEndless: false },
  'a traceback of 10 MB': {
    code: "raise ValueError('\\n'.join('z' * 99 for _ in range(100_000)))",
    isEndless: false
  }
};

const EDITOR = '.jp-CodeCell .cm-content';
/** A page that is not loaded by then never loads. */
const WAIT_MS = 60_000;
/** A letter or an interrupt that takes longer has no effect for the user. */
const EFFECT_MS = 30_000;

/** The largest renderer process of the browser, in MB. */
function pageMB(pids: readonly number[]): number {
  const sizes = pids.map(pid => {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
    } catch {
      return 0;
    }
  });
  return Math.round(Math.max(0, ...sizes));
}

async function renderers(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  return processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => id);
}

interface Typed {
  readonly typed: readonly number[];
}

/** The browser's own measure (Event Timing): from the key press, whatever the page was doing, to the paint that shows the letter. */
function measureKeys(): void {
  const typed: number[] = [];
  Object.assign(globalThis, { typed });
  const keys = (list: PerformanceObserverEntryList): void =>
    void typed.push(
      ...list
        .getEntries()
        .filter(({ name }) => name === 'keydown')
        .map(({ duration }) => duration)
    );
  new PerformanceObserver(keys).observe({ type: 'event', durationThreshold: 16 } as PerformanceObserverInit);
}

/** Types a letter into a cell that shows `count` letters, and waits until it is shown. */
async function letter(page: Page, count: number): Promise<void> {
  const editor = page.locator(EDITOR).nth(1);
  await page.keyboard.type('x');
  const deadline = Date.now() + EFFECT_MS;
  while (((await editor.textContent({ timeout: EFFECT_MS })) ?? '').trim().length <= count) {
    if (Date.now() > deadline) break;
  }
}

const percentile = (all: readonly number[], share: number): number =>
  [...all].sort((a, b) => a - b)[Math.ceil(all.length * share) - 1] ?? Number.NaN;

interface Measured {
  letterP50Ms: number | null;
  letterP95Ms: number | null;
  letters: number;
  pageMB: number;
  interruptMs: number | null;
}

/** A page that freezes keeps the values measured so far. */
async function measure(side: Side, cell: string, seconds: number): Promise<Measured> {
  const browser = await chromium.launch({
    executablePath: findChromium() ?? '',
    args: ['--no-sandbox', '--disable-gpu']
  });
  const found: Measured = { letterP50Ms: null, letterP95Ms: null, letters: 0, pageMB: 0, interruptMs: null };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>(resolve => {
    timer = setTimeout(resolve, seconds * 1000 + 2 * WAIT_MS + EFFECT_MS);
  });
  const file = `${cell.replace(/\W+/g, '-')}-${side.name.replace(/\W+/g, '-')}.ipynb`;
  const end = await side.session(file, side.kernel);
  const measuring = measureInPage(browser, { side, cell, file, seconds }, found).catch((error: unknown) =>
    console.log(`${cell}, ${side.name}: ${String(error).split('\n')[0]}`)
  );
  await Promise.race([measuring, late]);
  clearTimeout(timer);
  await browser.close();
  // An uninterrupted cell would slow down the next measurement.
  await end();
  return found;
}

async function measureInPage(
  browser: Browser,
  { side, cell, file, seconds }: { side: Side; cell: string; file: string; seconds: number },
  found: Measured
): Promise<void> {
  const chosen = CELLS[cell];
  if (!chosen) throw new Error(cell);
  const kernelspec = { kernelspec: { name: side.kernel, display_name: side.kernel, language: 'python' } };
  const notebook = JSON.parse(notebookText([chosen.code, '', "print('after the flood')"])) as {
    metadata: object;
  };
  notebook.metadata = { ...notebook.metadata, ...kernelspec };
  await side.write(file, JSON.stringify(notebook));
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.addInitScript(measureKeys);
  await page.goto(side.address(file));
  const editors = page.locator(EDITOR);
  await editors.first().click({ timeout: WAIT_MS });
  await page
    .getByRole('button', { name: /JAX|Python 3|This computer/ })
    .first()
    .waitFor({ timeout: WAIT_MS });
  // A page that has just connected still reads its kernel's earlier messages.
  await page.waitForTimeout(5_000);
  const startedAt = Date.now();
  await page.keyboard.press('Control+Enter');
  await editors.nth(1).click({ timeout: WAIT_MS });
  await page.evaluate(() => ((globalThis as unknown as { typed: number[] }).typed.length = 0));
  let count = 0;
  while (Date.now() - startedAt < seconds * 1000) {
    await letter(page, count++);
    found.pageMB = Math.max(found.pageMB, pageMB(await renderers(browser)));
    found.letters = count;
    await page.waitForTimeout(200);
  }
  const slow = await page.evaluate(() => (globalThis as unknown as Typed).typed);
  // The browser does not list events of less than 16 ms.
  const letters = [...slow, ...Array.from({ length: Math.max(0, count - slow.length) }, () => 16)];
  found.letterP50Ms = percentile(letters, 0.5);
  found.letterP95Ms = percentile(letters, 0.95);
  if (chosen.isEndless) {
    const interruptedAt = Date.now();
    // The first may close a list of completions.
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await page.keyboard.press('i');
    await page.keyboard.press('i');
    await page
      .locator('.jp-CodeCell')
      .first()
      .getByText('KeyboardInterrupt')
      .first()
      .waitFor({ timeout: EFFECT_MS })
      .then(() => (found.interruptMs = Date.now() - interruptedAt))
      .catch(() => undefined);
  }
}

async function ask(url: string, token: string | null, method: string, body?: object): Promise<string> {
  const headers = {
    'content-type': 'application/json',
    ...(token === null ? {} : { authorization: `token ${token}` })
  };
  const response = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${new URL(url).pathname}: ${response.status} ${text}`);
  return text;
}

test('floods', async () => {
  const {
    seconds,
    file,
    sides: named,
    cells: chosen
  } = JSON.parse(process.env['TPULAB_FLOOD_BENCH'] ?? '{}') as {
    seconds: number;
    file: string;
    sides: string;
    cells: string;
  };
  const gateway = await SessionGateway.start();
  const lab = await LabServer.start({ galata: true });
  try {
    const labGateway = await lab.reach();
    const made = (url: string, token: string | null) => async (path: string, name: string) => {
      const sessions = new URL('api/sessions', url).href;
      const session = { path, name: path, type: 'notebook', kernel: { name } };
      const { id } = JSON.parse(await ask(sessions, token, 'POST', session)) as { id: string };
      return () => ask(`${sessions}/${id}`, token, 'DELETE').then(() => undefined);
    };
    const inLab = {
      write: (name: string, text: string) => writeFile(join(lab.rootDir, name), text),
      address: (name: string) => `${lab.url}/lab/tree/${name}?reset`
    };
    const sides: readonly Side[] = [
      {
        name: 'session page',
        kernel: 'tpulab-jax',
        write: (name, text) => gateway.write(name, text),
        address: name => gateway.link(name),
        session: made(gateway.url, gateway.token)
      },
      {
        name: 'JupyterLab with TPULab',
        kernel: 'tpulab-jax',
        ...inLab,
        session: made(labGateway.url, labGateway.token)
      },
      { name: 'JupyterLab, stock kernel', kernel: 'python3', ...inLab, session: made(`${lab.url}/`, null) }
    ];
    const results: Record<string, Record<string, object>> = {};
    for (const cell of Object.keys(CELLS).filter(name => name.includes(chosen))) {
      for (const side of sides.filter(({ name }) => name.includes(named))) {
        const found = await measure(side, cell, CELLS[cell]?.isEndless ? seconds : Math.min(seconds, 30));
        console.log(`${cell}, ${side.name}: ${JSON.stringify(found)}`);
        (results[cell] ??= {})[side.name] = found;
        await writeFile(file, JSON.stringify(results));
      }
    }
  } finally {
    await gateway.stop();
    await lab.stop();
  }
});
