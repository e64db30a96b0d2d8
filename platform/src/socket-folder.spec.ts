import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { isPlainPath, socketFolder } from './socket-folder.js';

let folder: string;
beforeEach(() => (folder = mkdtempSync(path.join(tmpdir(), 'tpl-'))));
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

it.each(['my state', "q'q", '100%25', 'x${HOME}', 'jürgen', 'a#b', 'a\\b', '~x', 'n'.repeat(100)])(
  'a folder named %j is not given to other programs; its substitute is short, plain, private and the same each time',
  name => {
    vi.stubEnv('XDG_RUNTIME_DIR', folder);
    const near = path.join(folder, name, 'run', 'ssh');
    const found = socketFolder(near, 70);
    expect(isPlainPath(found)).toBe(true);
    expect(found.length).toBeLessThanOrEqual(70);
    expect(statSync(found).mode & 0o777).toBe(0o700);
    expect(socketFolder(near, 70)).toBe(found);
    expect(socketFolder(`${near}2`, 70)).not.toBe(found);
  }
);

it('a short and plain folder is used unchanged, and any other only where this program alone reads it', () => {
  for (const [name, odd] of [
    ['run', false],
    ['my run', true]
  ] as const) {
    const near = path.join(folder, name);
    expect(socketFolder(near, 90, { odd })).toBe(near);
  }
});

it('a folder that others can enter is not used', () => {
  vi.stubEnv('XDG_RUNTIME_DIR', folder);
  const near = path.join(folder, 'my state');
  const first = socketFolder(near, 90);
  chmodSync(path.dirname(first), 0o777);
  expect(socketFolder(near, 90)).not.toBe(first);
});
