/** The widgets without JupyterLab and without a bridge: saved state of a real kernel, in html-manager and in anywidget's host. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, type Page, test } from '@playwright/test';
import { build } from 'vite';
import { CHECKOUT, ENV_DIR } from '../lab/paths.js';
import { checkAccessibility } from './accessibility.js';

const SOURCES = join(CHECKOUT, 'ui-tests', 'widgets-page');
/** Answered by the spec itself: no port is needed. */
const ORIGIN = 'http://widgets.test';
let folder: string;

test.beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tpulab-widgets-'));
  await build({
    configFile: false,
    root: SOURCES,
    base: './',
    logLevel: 'error',
    resolve: {
      alias: [
        { find: '@tpulab/protocol', replacement: join(CHECKOUT, 'protocol/src/index.ts') },
        {
          find: 'anywidget?raw',
          replacement: `${join(CHECKOUT, 'node_modules/anywidget/dist/index.js')}?raw`
        }
      ]
    },
    build: { outDir: folder, emptyOutDir: true, chunkSizeWarningLimit: 4_000 }
  });
});

test.afterAll(() => rm(folder, { recursive: true, force: true }));

/** State of the three widgets as `ipywidgets` saves it, for one of the two front ends. */
async function savedState(host: string): Promise<unknown> {
  const { stdout } = await promisify(execFile)(
    join(ENV_DIR, 'jax', 'bin', 'python'),
    [join(SOURCES, 'make_widgets.py')],
    {
      env: { ...process.env, TPULAB_WIDGETS: host, TPULAB_AGENT_SOCKET: '', JAX_PLATFORMS: 'cpu' },
      maxBuffer: 64 * 1024 * 1024
    }
  );
  const line = stdout.split('\n').find(text => text.startsWith('SAVED '));
  if (line === undefined) throw new Error(`No widgets were made:\n${stdout}`);
  return JSON.parse(line.slice('SAVED '.length));
}

async function open(page: Page, saved: unknown): Promise<void> {
  page.on('console', message => {
    if (message.type() === 'error') process.stderr.write(`page: ${message.text()}\n`);
  });
  await page.route(`${ORIGIN}/**`, async route => {
    const path = new URL(route.request().url()).pathname;
    await route.fulfill({ path: join(folder, path === '/' ? 'index.html' : path) });
  });
  await page.goto(`${ORIGIN}/`);
  await page.evaluate(async state => {
    await window.showWidgets(state as Parameters<typeof window.showWidgets>[0]);
  }, saved);
}

for (const host of ['tpulab', 'anywidget']) {
  test(`saved widgets show their saved state, and follow the kernel's messages, in the host of ${host}`, async ({
    page
  }) => {
    await open(page, await savedState(host));
    const shown = page.locator('.jp-TPULabWidget');
    await expect(shown).toHaveCount(3);
    const [devices, steps, controls] = [shown.nth(0), shown.nth(1), shown.nth(2)];
    await expect(devices).toContainText(/\d+ XLA devices?, CPU/);
    await expect(steps.getByRole('img', { name: /^Where the time went: .*host [1-9]/ })).toBeVisible();
    await expect(controls).toContainText('40 of 40 steps');
    await expect(controls.getByRole('slider', { name: 'rate' })).toBeVisible();
    await checkAccessibility(page, page.locator('main'));

    // Ten more steps, as the kernel sends them over the comm; and a run that has not ended, so that it can be steered.
    await page.evaluate(() => {
      const state = window.shown.state(2) as {
        run: { state: string; totalSteps: number; control: { state: string } };
        steps: number[][];
      };
      const next = structuredClone(state);
      next.run.state = 'running';
      next.run.totalSteps = 100;
      next.run.control.state = 'running';
      const last = next.steps.at(-1) ?? [];
      for (let at = 1; at <= 10; at += 1) next.steps.push([(last[0] ?? 0) + at, ...last.slice(1)]);
      window.shown.update(2, { _snapshot: next });
    });
    await expect(controls).toContainText('50 of 100 steps');
    await controls.getByRole('button', { name: 'Pause' }).click();
    await expect(controls.getByRole('button', { name: 'Pause' })).toBeDisabled();
    const sent = await page.evaluate(() => window.shown.sent as { type: string }[]);
    // Each has reported to the kernel that it depends on the messages of its comm.
    const feeds = sent.filter(({ type }) => type === 'feed');
    expect(feeds).toMatchObject(Array.from({ length: 3 }, () => ({ by: 'comm' })));
    const requested = sent.filter(({ type }) => type !== 'feed');
    expect(requested).toMatchObject([{ type: 'command', command: { action: 'pause' } }]);
    const { command } = requested[0] as unknown as { command: { id: string; run: string } };
    await page.evaluate(answer => window.shown.answer(2, { type: 'answer', answer }), {
      type: 'control',
      time: 1,
      id: command.id,
      run: command.run,
      action: 'pause',
      name: null,
      value: null,
      before: null,
      origin: 'page',
      phase: 'refused',
      step: null,
      durationMs: null,
      reason: 'the run is over'
    });
    await expect(controls.getByRole('alert')).toContainText('Pause: the run is over');
  });
}
