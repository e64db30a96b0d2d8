import { readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silent } from '../../testing/temporary-gateway.js';
import { RequestedExecutions } from './requested-executions.js';

let folder: string;
const log = silent();

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const open = (maxExecutions?: number): RequestedExecutions =>
  new RequestedExecutions({
    stateDir: folder,
    log,
    ...(maxExecutions === undefined ? {} : { maxExecutions })
  });
const of = (msgId: string, cellId: string | null = 'cell'): { msgId: string; cellId: string | null } => ({
  msgId,
  cellId
});

describe('an execution that was requested here', () => {
  it('is known immediately, and to the next gateway, unlike one that was not requested', async () => {
    {
      await using requested = open();
      requested.note('vm', 'k', of('m'));
      requested.note('vm', 'k', of('console', null));
      expect(await requested.among('vm', 'k', [of('m'), of('other')])).toEqual(['m']);
    }
    await using next = open();
    expect(await next.among('vm', 'k', [of('m'), of('console', null), of('other')])).toEqual([
      'm',
      'console'
    ]);
    expect(statSync(path.join(folder, 'requested', 'vm')).mode & 0o777).toBe(0o600);
  });

  it('counts for its own remote, kernel and cell only, whatever the remote says', async () => {
    await using requested = open();
    requested.note('vm', 'k', of('m'));
    expect(await requested.among('other', 'k', [of('m')])).toEqual([]);
    expect(await requested.among('vm', 'other', [of('m')])).toEqual([]);
    expect(await requested.among('vm', 'k', [of('m', 'other cell'), of('m', null)])).toEqual([]);
  });

  it('is dropped before newer ones, in memory and on disk', async () => {
    const ids = Array.from({ length: 100 }, (_, index) => `m${index}`);
    {
      await using requested = open(10);
      for (const id of ids) {
        requested.note('vm', 'k', of(id));
        await requested.among('vm', 'k', []);
      }
    }
    const lines = readFileSync(path.join(folder, 'requested', 'vm'), 'utf8')
      .trim()
      .split('\n');
    expect(lines.length).toBeLessThanOrEqual(20);
    await using next = open(10);
    expect(
      await next.among(
        'vm',
        'k',
        ids.map(id => of(id))
      )
    ).toEqual(ids.slice(-10));
  });

  it('is found even if the file contains garbage, and a failing disk only loses it', async () => {
    {
      await using requested = open();
      requested.note('vm', 'k', of('m'));
    }
    const file = path.join(folder, 'requested', 'vm');
    await writeFile(file, `\0garbage\n${readFileSync(file, 'utf8')}half a li`);
    await using next = open();
    expect(await next.among('vm', 'k', [of('m')])).toEqual(['m']);
    await rm(path.join(folder, 'requested'), { recursive: true });
    await writeFile(path.join(folder, 'requested'), 'a file where the folder should be');
    next.note('vm2', 'k', of('n'));
    expect(await next.among('vm2', 'k', [of('n')])).toEqual(['n']);
  });
});
