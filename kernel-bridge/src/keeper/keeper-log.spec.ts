import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { inTemporaryFolder } from '../journal/testing/journal-folder.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { type KeeperLog, keeperLog } from './keeper-log.js';

/** The contents of a log after `write`. */
async function output(write: (log: KeeperLog) => void): Promise<Record<string, unknown>[]> {
  let lines: Record<string, unknown>[] = [];
  await inTemporaryFolder(folder => {
    const file = path.join(folder, 'keeper.log');
    const fd = openSync(file, 'a');
    write(keeperLog(fd));
    closeSync(fd);
    const text = readFileSync(file, 'utf8').trimEnd();
    lines = text === '' ? [] : text.split('\n').map(line => JSON.parse(line) as Record<string, unknown>);
    return Promise.resolve();
  });
  return lines;
}

describe('the log of a keeper', () => {
  it('has a line for each event, with level, time and process', async () => {
    const before = Date.now();
    const [first, second, ...rest] = await output(log => {
      log.debug('not written');
      log.info('plain');
      log.warn({ seq: 3, bytes: 5n, undefined: undefined }, 'with fields');
    });
    expect(first).toMatchObject({ level: 30, pid: process.pid, msg: 'plain' });
    expect(first?.['time']).toBeGreaterThanOrEqual(before);
    expect(second).toMatchObject({ level: 40, seq: 3, bytes: 5, msg: 'with fields' });
    expect(rest).toEqual([]);
  });

  it('contains the code, message, stack and cause of an error', async () => {
    const cause = Object.assign(new Error('no space'), { code: 'ENOSPC' });
    const [line] = await output(log =>
      log.error({ err: new KeeperError('keeper_protocol', 'Broken.', { cause }) }, 'failed')
    );
    expect(line).toMatchObject({
      level: 50,
      err: { code: 'keeper_protocol', message: 'Broken.', cause: { code: 'ENOSPC', message: 'no space' } },
      msg: 'failed'
    });
    expect(line?.['err']).toHaveProperty('stack', expect.stringContaining('keeper-log.spec'));
  });

  it('does not end a process whose log entry cannot be written', async () => {
    const round: Record<string, unknown> = {};
    round['round'] = round;
    expect(await output(log => log.fatal(round, 'lost'))).toEqual([]);
    expect(() => keeperLog(1_000_000).fatal('no such descriptor')).not.toThrow();
  });
});
