/**
 * Browser tests: the real JupyterLab, extension, bridge and kernel. A spec gets its Lab from the fixture `lab`
 * (tests/fixtures.ts), on a free port and with a state folder of its own.
 */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { defineConfig } from '@playwright/test';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** `TPULAB_CHROMIUM`, else the first Chromium on PATH: Playwright's own download is not used. */
function findChromium(): string {
  const given = process.env['TPULAB_CHROMIUM'];
  if (given) return given;
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const found = NAMES.flatMap(name => folders.map(folder => join(folder, name))).find(isExecutable);
  if (found) return found;
  throw new Error(
    'No Chromium on PATH. Install one (Debian: apt-get install chromium) or set TPULAB_CHROMIUM to its path.'
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Images are made on demand, and pages on PyTorch are tried where its environment is; nothing else then. */
function filesToRun(): string {
  if (process.env['TPULAB_SCREENSHOTS'] === '1') return '*.screenshots.ts';
  return process.env['TPULAB_TORCH_PAGES'] === '1' ? '*.torch.ts' : '*.spec.ts';
}

export default defineConfig({
  testDir: 'tests',
  testMatch: filesToRun(),
  outputDir: 'test-results',
  // Two cores carry the browser, Lab, the bridge and a kernel that compiles: one test at a time, patiently.
  workers: 1,
  timeout: 480_000,
  expect: { timeout: 120_000 },
  forbidOnly: process.env['CI'] !== undefined,
  reporter: [['list']],
  use: {
    viewport: { width: 1440, height: 900 },
    video: 'off',
    trace: 'retain-on-failure',
    screenshot: 'only-on-failure',
    actionTimeout: 120_000,
    launchOptions: {
      executablePath: findChromium(),
      args: ['--no-sandbox', '--disable-gpu', '--disable-lcd-text', '--disable-background-networking']
    }
  }
});
