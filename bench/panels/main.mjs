// @ts-check
/**
 * How much of the page's main thread eight live step panels take, visible and hidden.
 *
 * `npm run bench -- panels [--seconds N] [--heap-minutes N] [--no-save]`. Builds the panels as they are, opens them in Chromium and feeds each
 * ten frames a second with ten steps in each. The share is CPU time of the page's main thread, as Chromium counts it.
 * Reading the frames without any panel is measured in the same run, to compare with; so are eight line charts against charts of
 * Recharts, which GPU dashboards use, and a grid of 256 devices. Writes `bench/results/panels.json`.
 *
 * `--heap-minutes N` measures only how the heap of three such pages, open together, grows
 * in N minutes. Writes `bench/results/panels-heap.json`.
 *
 * `--hosts N` measures the panel of a slice of N hosts with four chips each, and the tabs with each host's output, beside a slice
 * of four. Writes `bench/results/slice-panel.json`.
 */
import { createServer } from 'node:http';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, extname, join, normalize } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from '@playwright/test';
import { build } from 'vite';
import { requireChromium } from '../../scripts/test/chromium.mjs';
import { machineFacts } from '../measure/machine.mjs';
import { printTable, saveResults } from '../measure/results.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
/** Design aim: percent of the main thread while eight panels are seen. */
const AIM_PERCENT = 5;
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    'heap-minutes': { type: 'string', default: '0' },
    hosts: { type: 'string', default: '0' },
    'no-save': { type: 'boolean', default: false }
  }
});
const seconds = Number(values.seconds);
const heapMinutes = Number(values['heap-minutes']);
const hosts = Number(values.hosts);
/** Lines per host; a fold shows about this many while a cell runs. */
const TAB_LINES = 100;
if (!(seconds >= 1 && seconds <= 600)) {
  console.error(`--seconds takes 1 to 600, not "${values.seconds}".`);
  process.exit(2);
}
if (heapMinutes !== 0 && !(heapMinutes >= 3 && heapMinutes <= 600)) {
  console.error(`--heap-minutes takes 3 to 600, not "${values['heap-minutes']}".`);
  process.exit(2);
}

if (hosts !== 0 && !(hosts >= 2 && hosts <= 1024)) {
  console.error(`--hosts takes 2 to 1024, not "${values.hosts}".`);
  process.exit(2);
}

const machine = machineFacts();
const folder = await mkdtemp(join(tmpdir(), 'tpulab-panels-'));
try {
  await build({
    root: HERE,
    base: './',
    logLevel: 'error',
    build: { outDir: folder, emptyOutDir: true, chunkSizeWarningLimit: 4_000 }
  });
  if (hosts > 0) {
    const results = await inBrowser(folder, measureHosts);
    printTable(
      'a slice of',
      ['main thread %', 'script %', 'layout %', 'tabs ms'],
      results.map(row => [
        `${row.hosts} hosts`,
        row.mainThreadPercent,
        row.scriptPercent,
        row.layoutPercent,
        row.tabsMs
      ])
    );
    await save('slice-panel', { slices: results });
  } else if (heapMinutes > 0) {
    const results = await inBrowser(folder, measureHeaps);
    printHeaps(results);
    await save('panels-heap', results);
  } else {
    const results = await inBrowser(folder, measure);
    print(results);
    await save('panels', results);
    process.exitCode =
      results.seen.mainThreadPercent <= AIM_PERCENT &&
      results.lines.mainThreadPercent <= AIM_PERCENT &&
      results.hidden.framesDrawn === 0
        ? 0
        : 1;
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** @param {'panels' | 'panels-heap' | 'slice-panel'} name @param {object} results */
async function save(name, results) {
  if (values['no-save']) return;
  await saveResults(name, machine, results, { seconds, heapMinutes });
}

/**
 * Serves the built page and opens a browser for as long as `use` takes.
 *
 * @template T
 * @param {string} root
 * @param {(open: () => Promise<Opened>) => Promise<T>} use
 * @returns {Promise<T>}
 */
async function inBrowser(root, use) {
  const server = createServer((request, response) => {
    const path = normalize(new URL(request.url ?? '/', 'http://x').pathname);
    const file = join(root, path === '/' ? 'index.html' : path);
    readFile(file).then(
      body => {
        const type = TYPES[/** @type {keyof typeof TYPES} */ (extname(file))] ?? 'application/octet-stream';
        response.writeHead(200, { 'content-type': type }).end(body);
      },
      () => response.writeHead(404).end()
    );
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const executablePath = await requireChromium(new AbortController().signal, console.log);
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  /** @type {Error[]} */
  const errors = [];
  try {
    const result = await use(async () => {
      // A separate context: a page behind another one of the same window would draw nothing.
      const context = await browser.newContext({ viewport: { width: 1500, height: 1400 } });
      const page = await context.newPage();
      page.on('pageerror', error => errors.push(error));
      await page.goto(`http://127.0.0.1:${port}/`);
      await page.waitForFunction(() => 'bench' in window);
      const devtools = await context.newCDPSession(page);
      await devtools.send('Performance.enable');
      return { page, devtools };
    });
    if (errors[0]) {
      throw errors[0];
    }
    return result;
  } finally {
    await browser.close();
    server.close();
  }
}

/** @typedef {{ page: import('@playwright/test').Page, devtools: import('@playwright/test').CDPSession }} Opened */

/** @param {() => Promise<Opened>} open */
async function measureHosts(open) {
  const rows = [];
  for (const count of [4, hosts]) {
    const { page, devtools } = await open();
    await page.evaluate(given => /** @type {any} */ (window).bench.mountHosts(given), count);
    await page.waitForSelector('.jp-TPULabHosts');
    await wait(2_000);
    const { mainThreadPercent, scriptPercent, layoutPercent } = await window_(page, devtools);
    await page.evaluate(() => /** @type {any} */ (window).bench.unmount());
    const tabsMs = await page.evaluate(
      ([given, lines]) => /** @type {any} */ (window).bench.openTabs(given, lines),
      [count, TAB_LINES]
    );
    rows.push({
      hosts: count,
      mainThreadPercent,
      scriptPercent,
      layoutPercent,
      tabsMs: Math.round(tabsMs * 10) / 10
    });
    await page.close();
  }
  return rows;
}

/** @param {() => Promise<Opened>} open */
async function measureHeaps(open) {
  const loads = {
    panels: (/** @type {any} */ bench) =>
      (bench.feedEndlessly(), bench.mount()),
    lines: (/** @type {any} */ bench) => bench.mountLines('ours'),
    devices: (/** @type {any} */ bench) => bench.mountDevices(256)
  };
  /** @type {Record<string, { devtools: Opened['devtools'], mib: number[] }>} */
  const pages = {};
  for (const [name, mount] of Object.entries(loads)) {
    const { page, devtools } = await open();
    await page.evaluate(`(${mount.toString()})(window.bench)`);
    pages[name] = { devtools, mib: [] };
  }
  for (let minute = 0; minute <= heapMinutes; minute += 1) {
    if (minute > 0) await wait(60_000);
    for (const { devtools, mib } of Object.values(pages)) {
      mib.push(Math.round(((await heap(devtools)) / 2 ** 20) * 1_000) / 1_000);
    }
  }
  return Object.fromEntries(
    Object.entries(pages).map(([name, { mib }]) => [
      name,
      { mibEachMinute: mib, mibPerHour: slope(mib) * 60 }
    ])
  );
}

/** Least squares over the second half, when all buffers are full. @param {number[]} values each minute */
function slope(values) {
  const later = values.slice(Math.floor(values.length / 2));
  const middle = (later.length - 1) / 2;
  const mean = later.reduce((sum, value) => sum + value, 0) / later.length;
  const [up, across] = later.reduce(
    ([up = 0, across = 0], value, at) => [up + (at - middle) * (value - mean), across + (at - middle) ** 2],
    [0, 0]
  );
  return (up ?? 0) / (across || 1);
}

/** @param {Awaited<ReturnType<typeof measureHeaps>>} results */
function printHeaps(results) {
  printTable(
    'heap after a collection, MiB',
    ['at first', 'half way', 'at last', 'an hour in the second half'],
    Object.entries(results).map(([name, { mibEachMinute: mib, mibPerHour }]) => [
      name,
      mib[0],
      mib[Math.floor(mib.length / 2)],
      mib.at(-1),
      mibPerHour
    ])
  );
}

/** @param {() => Promise<Opened>} open */
async function measure(open) {
  const { page, devtools } = await open();
  const idle = await window_(page, devtools);
  // Enough for all windows of measurement, with the pauses between them.
  const frames = (seconds * 3 + 60) * 10;
  await page.evaluate(count => /** @type {any} */ (window).bench.feed(count), frames);
  const reading = await window_(page, devtools);
  await page.evaluate(() => /** @type {any} */ (window).bench.mount());
  await page.waitForFunction(
    () =>
      /** @type {any} */ (window).bench.counts().charts === 8 &&
      /** @type {any} */ (window).bench.counts().frames > 5
  );
  const seen = await window_(page, devtools);
  await page.evaluate(() => /** @type {any} */ (window).bench.hide(true));
  const hidden = await window_(page, devtools);
  await page.evaluate(() => {
    const { bench } = /** @type {any} */ (window);
    bench.hide(false);
    bench.feed(0);
    bench.unmount();
  });
  const lines = await load(page, devtools, bench => bench.mountLines('ours'));
  const recharts = await load(page, devtools, bench => bench.mountLines('recharts'));
  const devices = await load(page, devtools, bench => bench.mountDevices(256));
  return { idle, reading, seen, hidden, lines, recharts, devices };
}

/**
 * One load that draws independently: mounted, measured, and removed.
 *
 * @param {import('@playwright/test').Page} page
 * @param {import('@playwright/test').CDPSession} devtools
 * @param {(bench: any) => void} mount
 */
async function load(page, devtools, mount) {
  await page.evaluate(`(${mount.toString()})(window.bench)`);
  await wait(2_000);
  const measured = await window_(page, devtools);
  await page.evaluate(() => /** @type {any} */ (window).bench.unmount());
  return measured;
}

/** The heap after a collection, bytes. @param {import('@playwright/test').CDPSession} devtools */
async function heap(devtools) {
  await devtools.send('HeapProfiler.collectGarbage');
  const { metrics } = await devtools.send('Performance.getMetrics');
  return metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? Number.NaN;
}

/**
 * One window of measurement, after a second for the page to settle.
 *
 * @param {import('@playwright/test').Page} page
 * @param {import('@playwright/test').CDPSession} devtools
 */
async function window_(page, devtools) {
  await wait(1_000);
  const before = await sample(page, devtools);
  await wait(seconds * 1_000);
  const after = await sample(page, devtools);
  const share = (/** @type {'task' | 'script' | 'layout'} */ name) =>
    Math.round(((after[name] - before[name]) / (after.at - before.at)) * 10_000) / 100;
  return {
    mainThreadPercent: share('task'),
    scriptPercent: share('script'),
    layoutPercent: share('layout'),
    framesDrawn: after.frames - before.frames,
    steps: after.steps - before.steps
  };
}

/**
 * @param {import('@playwright/test').Page} page
 * @param {import('@playwright/test').CDPSession} devtools
 */
async function sample(page, devtools) {
  const { metrics } = await devtools.send('Performance.getMetrics');
  const value = (/** @type {string} */ name) => metrics.find(metric => metric.name === name)?.value ?? NaN;
  const counts = await page.evaluate(() => /** @type {any} */ (window).bench.counts());
  return {
    at: value('Timestamp'),
    // CPU time: on a busy machine, task time includes waiting for a core.
    task: value('ThreadTime'),
    script: value('ScriptDuration'),
    layout: value('LayoutDuration') + value('RecalcStyleDuration'),
    ...counts
  };
}

/** @param {Awaited<ReturnType<typeof measure>>} results */
function print(results) {
  const rows = [
    ['page without anything', results.idle],
    ['frames read, no panel', results.reading],
    ['8 panels seen', results.seen],
    ['8 panels hidden', results.hidden],
    ['8 charts, ours', results.lines],
    ['8 charts, Recharts', results.recharts],
    ['256 devices, 2 Hz', results.devices]
  ];
  console.log('\nMain thread of the page, percent of one core; 8 panels, 10 frames/s with 10 steps each\n');
  console.log('                          all  script  layout  frames drawn');
  for (const [name, row] of /** @type {[string, typeof results.seen][]} */ (rows)) {
    const cells = [row.mainThreadPercent, row.scriptPercent, row.layoutPercent].map(figure =>
      figure.toFixed(2).padStart(7)
    );
    console.log(`${name.padEnd(22)}${cells.join(' ')}  ${String(row.framesDrawn).padStart(8)}`);
  }
  console.log(
    '\nThe charts: 4 series of 600 points, redrawn 10 times a second, by ours and by the peer in one run.'
  );
  const own = results.hidden.mainThreadPercent - results.reading.mainThreadPercent;
  console.log(
    `\nAim: seen at most ${AIM_PERCENT} %. Hidden panels themselves: ${Math.max(0, own).toFixed(2)} % and no frame.`
  );
}
