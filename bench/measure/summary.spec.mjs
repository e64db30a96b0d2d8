import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { summaryOf } from './summary.mjs';

const machine = {
  measuredAt: 'then',
  cpu: 'a processor',
  cores: 2,
  memoryGiB: 24,
  system: 'linux',
  node: 'v20',
  loadBefore: 0,
  commit: 'abc',
  changed: false
};
const results = (/** @type {number} */ bridgeMs) => ({
  10: {
    'direct ZeroMQ (Node)': { p50Ms: 5 },
    'TPULab bridge': { p50Ms: bridgeMs },
    jupyverse: { p50Ms: 6.5 },
    other: { p50Ms: 40 }
  }
});

describe('the summary', () => {
  /** @type {string} */
  let folder;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tpulab-summary-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });
  const save = (/** @type {number} */ bridgeMs) => {
    writeFileSync(join(folder, 'roundtrip.json'), JSON.stringify({ machine, results: results(bridgeMs) }));
  };

  it('is yes where the bridge is within 1 ms of direct ZeroMQ and ahead of the best peer', () => {
    save(5.9);
    expect(summaryOf(folder)).toMatch(
      /round trip, 10 a second, p50 \|.*best peer jupyverse 6\.50 ms \| yes \|/
    );
  });

  it('is no where a peer is ahead, although the bridge is near enough to direct ZeroMQ', () => {
    save(5.95);
    writeFileSync(
      join(folder, 'roundtrip.json'),
      JSON.stringify({ machine, results: { 10: { ...results(5.95)[10], jupyverse: { p50Ms: 5.9 } } } })
    );
    expect(summaryOf(folder)).toMatch(/\| \*\*no\*\* \|/);
  });

  it('is no where the bridge is more than 1 ms slower than direct ZeroMQ', () => {
    save(6.1);
    expect(summaryOf(folder)).toMatch(/\| \*\*no\*\* \|/);
  });

  it('leaves out missing measurements', () => {
    save(5.9);
    expect(summaryOf(folder)).not.toContain('catching up');
  });
});
