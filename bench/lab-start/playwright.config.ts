/** The browser of the specs, with one file that is no test but a measurement. */
import base from '../../ui-tests/playwright.config';

export default { ...base, testDir: '.', testMatch: '*.loads.ts', timeout: 590_000 };
