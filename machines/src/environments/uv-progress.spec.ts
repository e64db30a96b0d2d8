import { describe, expect, it } from 'vitest';
import { UvProgress } from './uv.js';

const MIB = 2 ** 20;
let now = 0;
const after = (ms: number, progress: UvProgress, ...lines: string[]): UvProgress => {
  now += ms;
  for (const line of lines) progress.line(line);
  return progress;
};

describe('the progress of uv', () => {
  it('counts the finished and the started downloads of large files, with their mean rate', () => {
    const progress = new UvProgress(() => now);
    expect([progress.fraction, progress.transfer]).toEqual([null, null]);
    after(
      0,
      progress,
      'Resolved 3 packages in 192ms',
      'Downloading scipy (30.0MiB)',
      'Downloading numpy (10.0MiB)'
    );
    expect(progress.transfer).toEqual({ bytes: 0, totalBytes: 40 * MIB, bytesPerS: null });
    after(2_000, progress, ' Downloaded numpy');
    expect(progress.transfer).toEqual({ bytes: 10 * MIB, totalBytes: 40 * MIB, bytesPerS: 5 * MIB });
    expect(progress.fraction).toBeCloseTo(0.6 / 4);
  });

  it('returns each line with a space in its size', () => {
    const progress = new UvProgress(() => now);
    expect(progress.line('   Downloading jaxlib (81.1MiB)')).toBe('Downloading jaxlib (81.1 MiB)');
    expect(progress.line('Installed 3 packages in 1ms')).toBe('Installed 3 packages in 1ms');
  });

  it('continues to the installation and the bytecode, and never back', () => {
    const progress = after(
      0,
      new UvProgress(() => now),
      'Downloading jaxlib (80.1MiB)',
      ' Downloaded jaxlib'
    );
    after(1, progress, 'Prepared 62 packages in 10s');
    expect([progress.fraction, progress.transfer]).toEqual([0.6, null]);
    after(1, progress, 'Installed 62 packages in 1s');
    expect(progress.fraction).toBe(0.75);
    after(1, progress, 'Bytecode compiled 9000 files in 20s');
    expect(progress.fraction).toBe(0.9);
    // The next run of uv, for one of our packages.
    after(1, progress, 'Resolved 1 package in 2ms', 'Prepared 1 package in 1s', 'Installed 1 package in 1ms');
    expect(progress.fraction).toBe(0.9);
  });

  it('expects no download for files from the cache', () => {
    const progress = after(0, new UvProgress(() => now), 'Resolved 62 packages in 2ms', ' Downloaded ghost');
    expect([progress.fraction, progress.transfer]).toEqual([null, null]);
    expect(after(1, progress, 'Installed 62 packages in 3s').fraction).toBe(0.75);
  });
});
