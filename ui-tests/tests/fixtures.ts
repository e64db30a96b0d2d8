/** The fixtures of the specs: a running Lab, and Galata's page pointed at it. */
import { createRequire } from 'node:module';
import { test as galataTest } from '@jupyterlab/galata';
import { expect } from '@playwright/test';
import { type LabOptions, LabServer } from '../lab/lab-server.js';

export { expect };

/** Galata allows 15 s for Lab's start and its other waits. A busy machine needs more. */
const PATIENCE_MS = 120_000;

interface GalataUtils {
  waitForCondition: (condition: () => Promise<boolean> | boolean, timeout?: number) => Promise<void>;
}

// Galata has no setting for it.
const galataUtils = createRequire(import.meta.url)('@jupyterlab/galata/lib/utils') as GalataUtils;
galataUtils.waitForCondition = async (condition, timeout = PATIENCE_MS) => {
  await expect.poll(async () => condition(), { timeout, intervals: [50] }).toBe(true);
};

export interface LabFixtures {
  /** How the Lab of this spec file is started; specs with equal options share one. */
  readonly labOptions: LabOptions;
  readonly lab: LabServer;
}

/** A Lab for the duration of `use`. For specs that each need a different kind of Lab. */
export async function withLab(options: LabOptions, use: (lab: LabServer) => Promise<void>): Promise<void> {
  const lab = await LabServer.start(options);
  try {
    await use(lab);
  } finally {
    await lab.stop();
  }
}

/** Lab as users have it, with Galata's helpers; kernels and sessions are the real ones. */
export const test = galataTest.extend<object, LabFixtures>({
  labOptions: [{ galata: true }, { scope: 'worker', option: true }],
  lab: [({ labOptions }, use) => withLab(labOptions, use), { scope: 'worker', timeout: 420_000 }],
  baseURL: ({ lab }, use) => use(lab.url),
  // Galata would answer for the kernels of both servers, as if there were one.
  kernels: null,
  sessions: null,
  // Specs open the address of a notebook, as `npm start` does; then there is no launcher to wait for.
  autoGoto: false,
  waitForApplication: ({ baseURL: _ }, use) =>
    use(async page => {
      await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
    })
});
