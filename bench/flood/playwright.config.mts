/** The browser of the specs, with one file that is no test but a measurement: nothing records what the page does while it is timed. */
import base from '../../ui-tests/playwright.config.js';

export default {
  ...base,
  testDir: '.',
  outputDir: '../../ui-tests/test-results',
  testMatch: '*.loads.mts',
  timeout: 1_800_000,
  workers: 1,
  projects: [{ name: 'loads' }],
  use: { ...base.use, trace: 'off', screenshot: 'off' }
};
