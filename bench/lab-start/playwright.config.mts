/** The browser of the specs, with one file that measures instead of tests. */
import base from '../../ui-tests/playwright.config.js';

export default {
  ...base,
  testDir: '.',
  outputDir: '../../ui-tests/test-results',
  testMatch: '*.loads.mts',
  timeout: 590_000
};
