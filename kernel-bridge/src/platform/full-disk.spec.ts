import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SmallDisk, smallDiskProblem } from '../faults/testing/small-disk.js';
import { fullDisk } from '@tpulab/platform/full-disk.js';

const noDisk = smallDiskProblem();

describe.skipIf(noDisk !== null)(`a small disk${noDisk === null ? '' : ` (skipped: ${noDisk})`}`, () => {
  let disk: SmallDisk;
  beforeEach(() => {
    disk = SmallDisk.make(1, 20);
  });
  afterEach(() => disk[Symbol.dispose]());

  function failureOf(action: () => void): unknown {
    try {
      action();
    } catch (error) {
      return error;
    }
    throw new Error('That went well.');
  }

  it('without room for more files reports that, and not a lack of space', () => {
    disk.fillFiles();
    const error = failureOf(() => writeFileSync(path.join(disk.folder, 'one-more'), ''));
    expect(fullDisk(error)).toMatchObject({ why: 'the disk has no room for more files (inodes)' });
  });

  it('without room for more bytes reports that, when a file is created and when it is written', () => {
    const file = openSync(path.join(disk.folder, 'open'), 'w');
    disk.fill();
    const errors = [
      failureOf(() => writeSync(file, Buffer.alloc(100_000))),
      failureOf(() => writeFileSync(path.join(disk.folder, 'other'), Buffer.alloc(100_000)))
    ];
    closeSync(file);
    for (const error of errors)
      expect(fullDisk(error)).toEqual({ why: 'the disk is full', remedy: 'free some space' });
  });
});

it('distinguishes a quota of the user from a full disk, and another failure from both', () => {
  const failed = (code: string): Error => Object.assign(new Error(code), { code });
  expect(fullDisk(failed('EDQUOT'))?.why).toBe('your quota on the disk is used up');
  expect(fullDisk(failed('EIO'))).toBeNull();
});
