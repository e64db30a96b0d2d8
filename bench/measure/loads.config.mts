/** The browser of the specs, with files that measure instead of tests: nothing records the page's actions while it is timed. */
import base from '../../ui-tests/playwright.config.js';

export default {
  ...base,
  testDir: '..',
  outputDir: '../../ui-tests/test-results',
  testMatch: '**/*.loads.mts',
  timeout: 1_800_000,
  workers: 1,
  projects: [{ name: 'loads' }],
  use: { ...base.use, trace: 'off', screenshot: 'off' }
};
