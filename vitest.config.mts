/**
 * Unit and integration specs of the TypeScript packages and of the scripts. `*.integration.spec.ts` start real processes and
 * run as a part of their own; a spec that needs a DOM says so in its first line.
 */
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const root = fileURLToPath(new URL('.', import.meta.url));
const INTEGRATION = '**/*.integration.spec.{ts,tsx,mjs}';

/** Two shared cores: what takes a moment elsewhere may take long here. A test that hangs still ends. */
const TEST_TIMEOUT_MS = 60_000;

const shared = {
  root,
  // The sources, so that a spec never tests what was built yesterday.
  resolve: { alias: { '@tpulab/protocol': `${root}protocol/src/index.ts` } }
};
const timeouts = { testTimeout: TEST_TIMEOUT_MS, hookTimeout: TEST_TIMEOUT_MS };

/** Many wait for sockets and processes rather than compute: three at a time even on two cores, where Vitest would run one. */
const UNIT_WORKERS = Math.max(3, availableParallelism() - 1);

function unit(name: string, include: string[]) {
  const test = { name, include, exclude: [INTEGRATION], environment: 'node', maxWorkers: UNIT_WORKERS };
  return { ...shared, test: { ...test, ...timeouts } };
}

export default defineConfig({
  test: {
    projects: [
      unit('protocol', ['protocol/src/**/*.spec.ts']),
      unit('kernel-bridge', ['kernel-bridge/src/**/*.spec.ts']),
      unit('extension', ['extension/{src,session}/**/*.spec.{ts,tsx}']),
      unit('scripts', ['scripts/**/*.spec.mjs', 'bench/**/*.spec.mjs']),
      {
        ...shared,
        test: {
          name: 'integration',
          include: [
            'kernel-bridge/src/**/*.integration.spec.ts',
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
