/**
 * Browser tests: the real JupyterLab, extension, bridge and kernel. A spec gets its Lab from the fixture `lab`
 * (tests/fixtures.ts), on a free port and with its own state folder.
 */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { defineConfig, type Project } from '@playwright/test';

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

/**
 * Chromium loads the lists below its address bar as separate pages with each window: more than a second of CPU time for a
 * test, which shows none of them. Of several lists of features only the last one counts, so Playwright's own is repeated.
 */
const DISABLED_FEATURES = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  // Playwright's
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'DialMediaRouteProvider',
  'GlobalMediaControls',
  'HttpsUpgrades',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'BlockOriginHeaderModificationOnRedirect',
  'Translate',
  'AutoDeElevate',
  'OptimizationHints'
];

/** The longest files, which start first: at the end no worker runs one of them alone. */
const LONG = /(newcomer|remote-faults|diffusion|lesson)\.spec\.ts$/;

/** A variable selects one kind of special test, such as images or PyTorch pages; without one, the ordinary specs run. */
function filesToRun(): Project[] {
  if (process.env['TPULAB_SCREENSHOTS'] === '1') return [{ name: 'images', testMatch: '*.screenshots.ts' }];
  // A notebook that compiles for minutes, in the session page.
  if (process.env['TPULAB_LESSON_PAGES'] === '1') return [{ name: 'lessons', testMatch: '*.lessons.ts' }];
  // The outputs of other people's packages: `npm run test:outputs`.
  if (process.env['TPULAB_OUTPUTS'] === '1') return [{ name: 'outputs', testMatch: '*.outputs.ts' }];
  // Other people's extensions together with ours: `npm run test:smoke`.
  if (process.env['TPULAB_SMOKE'] === '1') return [{ name: 'smoke', testMatch: '*.smoke.ts' }];
  // Each of these tests trains a separate notebook.
  if (process.env['TPULAB_TORCH_PAGES'] === '1')
    return [{ name: 'torch', testMatch: '*.torch.ts', fullyParallel: true }];
  return [
    { name: 'long', testMatch: LONG },
    { name: 'pages', testMatch: '*.spec.ts', testIgnore: LONG }
  ];
}

export default defineConfig({
  testDir: 'tests',
  projects: filesToRun(),
  outputDir: 'test-results',
  // Test files, two at a time: each waits for its kernel or its machine while the other one computes. Each worker has
  // its own Lab, shared by its files with the same options; each stand-in VM has its own network.
  workers: 2,
  timeout: 480_000,
  expect: { timeout: 120_000 },
  forbidOnly: process.env['CI'] !== undefined,
  reporter: [['list']],
  use: {
    viewport: { width: 1440, height: 900 },
    video: 'off',
    // A copy of the whole page for each action is an eighth of a test's CPU time. A failure has its screenshot, and its trace if the test
    // is run again with traces on.
    trace: process.env['TPULAB_TRACE'] === '1' ? { mode: 'retain-on-failure', screenshots: false } : 'off',
    screenshot: 'only-on-failure',
    actionTimeout: 120_000,
    launchOptions: {
      executablePath: findChromium(),
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-lcd-text',
        '--disable-background-networking',
        `--disable-features=${DISABLED_FEATURES.join(',')}`
      ]
    }
  }
});
