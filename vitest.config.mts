/**
 * Unit and integration specs of the TypeScript packages and of the scripts. `*.integration.spec.ts` start real processes and
 * run as a part of their own; a spec that needs a DOM says so in its first line.
 *
 * Specs of a worker share its modules: importing them for each file would take a quarter of the bridge's time, and most of the
 * extension's, which imports JupyterLab. A spec that replaces a module (`vi.mock`) is a `*.mocked.spec.ts`, and has a process of its
 * own. Each spec of the extension with a DOM has a thread of its own, which begins sooner than a process: what one of them puts into
 * its page would be there for the next one.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const root = fileURLToPath(new URL('.', import.meta.url));
const INTEGRATION = '**/*.integration.spec.{ts,tsx,mjs}';
const MOCKED = '**/*.mocked.spec.{ts,tsx,mjs}';

/** Two shared cores: what takes a moment elsewhere may take long here. A test that hangs still ends. */
const TEST_TIMEOUT_MS = 60_000;

const shared = {
  root,
  // The sources, so that a spec never tests what was built yesterday.
  resolve: {
    alias: [
      { find: /^@tpulab\/(protocol|machines)$/, replacement: `${root}$1/src/index.ts` },
      { find: '@tpulab/machines/environments', replacement: `${root}machines/src/environments/index.ts` },
      { find: /^@tpulab\/platform\/(.+)\.js$/, replacement: `${root}platform/src/$1.ts` }
    ]
  }
};
const timeouts = { testTimeout: TEST_TIMEOUT_MS, hookTimeout: TEST_TIMEOUT_MS };

/** Many wait for sockets and processes rather than compute: three at a time even on two cores, where Vitest would run one. */
const UNIT_WORKERS = Math.max(3, availableParallelism() - 1);

/**
 * `@jupyter/web-components` 0.17.1 imports a file without its extension, which Node refuses and Vite resolves: all of JupyterLab
 * that leads there goes through Vite.
 */
const server = { deps: { inline: [/@jupyter(lab)?\//] } };

const ofUnits = { environment: 'node', maxWorkers: UNIT_WORKERS, server, ...timeouts };

function unit(name: string, include: string[]) {
  return { ...shared, test: { name, include, exclude: [INTEGRATION, MOCKED], isolate: false, ...ofUnits } };
}

/** What the session page's build makes of a script that runs in frames: its address. */
const frameScripts = {
  name: 'frame-scripts',
  enforce: 'pre' as const,
  load: (id: string) => (id.endsWith('?frame') ? `export default '${id}'` : null)
};

/** The extension's specs with a DOM, which their first line requests. */
const withDom = ['src', 'session'].flatMap(folder =>
  readdirSync(`${root}extension/${folder}`, { recursive: true, encoding: 'utf8' })
    .filter(file => /\.spec\.tsx?$/.test(file))
    .map(file => `extension/${folder}/${file.replaceAll('\\', '/')}`)
    .filter(file => readFileSync(root + file, 'utf8').startsWith('// @vitest-environment jsdom'))
);

function extension() {
  const { test, ...others } = unit('extension', ['extension/{src,session}/**/*.spec.{ts,tsx}']);
  const exclude = [...test.exclude, ...withDom];
  return { ...others, plugins: [frameScripts], test: { ...test, exclude } };
}

function extensionWithDom() {
  const { test, ...others } = unit('extension-dom', withDom);
  return { ...others, plugins: [frameScripts], test: { ...test, isolate: true, pool: 'threads' as const } };
}

export default defineConfig({
  test: {
    tags: [{ name: 'long', description: 'takes long, and shorter specs cover most of it: `npm run test:long`' }],
    projects: [
      unit('protocol', ['protocol/src/**/*.spec.ts']),
      unit('machines', ['{platform,machines}/src/**/*.spec.ts']),
      unit('kernel-bridge', ['kernel-bridge/src/**/*.spec.ts']),
      extension(),
      extensionWithDom(),
      unit('scripts', ['scripts/**/*.spec.mjs', 'bench/**/*.spec.mjs']),
      {
        ...shared,
        test: {
          name: 'mocked',
          include: [
            '{protocol,platform,machines,kernel-bridge,extension,scripts}/**/*.mocked.spec.{ts,tsx,mjs}'
          ],
          ...ofUnits
        }
      },
      {
        ...shared,
        test: {
          name: 'integration',
          include: [
            '{machines,kernel-bridge}/src/**/*.integration.spec.ts',
            'scripts/**/*.integration.spec.mjs',
            'protocol/src/**/*.integration.spec.ts'
          ],
          environment: 'node',
          // They start kernels, and wait for them half of the time.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
          testTimeout: 4 * TEST_TIMEOUT_MS,
          hookTimeout: 4 * TEST_TIMEOUT_MS
        }
      }
    ]
  }
});
