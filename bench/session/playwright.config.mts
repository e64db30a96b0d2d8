/** The browser of the specs, with one file that is no test but a measurement. */
import base from '../../ui-tests/playwright.config.js';

export default {
  ...base,
  testDir: '.',
  outputDir: '../../ui-tests/test-results',
  testMatch: '*.loads.mts',
  timeout: 900_000,
  projects: [{ name: 'loads' }]
};
