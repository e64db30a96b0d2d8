import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { writeEntry } from './ssh-config-command.js';

let folder: string;

beforeEach(async () => (folder = await mkdtemp(path.join(tmpdir(), 'tpl-'))));
afterEach(async () => rm(folder, { recursive: true }));

const read = (name: string): Promise<string> => readFile(path.join(folder, name), 'utf8');

it('preserves the entries of the user, and includes our file once, in front', async () => {
  await writeFile(path.join(folder, 'config'), 'Host mine\n  User me\n');
  await writeEntry(folder, 'a', 'Host a\n  HostName 192.0.2.1');
  await writeEntry(folder, 'a', 'Host a\n  HostName 192.0.2.2');
  expect(await read('config')).toBe('Include tpulab_config\n\nHost mine\n  User me\n');
});

it('replaces the entry of the same name, and leaves the others', async () => {
  await writeEntry(folder, 'a', 'Host a\n  HostName 192.0.2.1');
  await writeEntry(folder, 'b', 'Host b\n  HostName 192.0.2.2');
  await writeEntry(folder, 'a', 'Host a\n  HostName 192.0.2.3');
  expect(await read('tpulab_config')).toBe('Host b\n  HostName 192.0.2.2\n\nHost a\n  HostName 192.0.2.3\n');
  expect((await stat(path.join(folder, 'tpulab_config'))).mode & 0o777).toBe(0o600);
});
