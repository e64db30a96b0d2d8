// @ts-check
import { describe, expect, it } from 'vitest';
import { isInstalled } from './npm-packages.mjs';

const lock = JSON.stringify({
  packages: {
    '': { version: '0.1.0' },
    'node_modules/a': { version: '1.0.0' },
    'node_modules/b-darwin': { version: '2.0.0', optional: true }
  }
});

/** @param {Record<string, { version: string }>} packages */
const installed = packages => JSON.stringify({ packages });

describe('the npm packages', () => {
  it('are complete when each has its version; packages of other systems may be missing', () => {
    expect(isInstalled(lock, installed({ 'node_modules/a': { version: '1.0.0' } }))).toBe(true);
  });

  it('are incomplete when one is missing or has another version', () => {
    expect(isInstalled(lock, installed({}))).toBe(false);
    expect(isInstalled(lock, installed({ 'node_modules/a': { version: '1.0.1' } }))).toBe(false);
    const other = { 'node_modules/a': { version: '1.0.0' }, 'node_modules/b-darwin': { version: '1.0.0' } };
    expect(isInstalled(lock, installed(other))).toBe(false);
  });
});
