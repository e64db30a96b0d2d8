import { expect, test } from 'vitest';
import { changeOf, isUsableRsync, rsyncArguments } from './rsync-arguments.js';

test.each([
  ['<f+++++++++ 12 data/a file.csv', 'to-remote', { path: 'data/a file.csv', action: 'send', bytes: 12 }],
  ['>f.st...... 7 model.py', 'from-remote', { path: 'model.py', action: 'receive', bytes: 7 }],
  ['*deleting   0 old.py', 'to-remote', { path: 'old.py', action: 'delete', bytes: 0 }],
  ['*deleting   old.py', 'to-remote', { path: 'old.py', action: 'delete', bytes: 0 }],
  ['cd+++++++++ 4096 data/', 'to-remote', null],
  ['.d..t...... 4096 ./', 'to-remote', null],
  ['sending incremental file list', 'to-remote', null]
] as const)('reads %s', (line, way, change) => {
  expect(changeOf(line, way)).toEqual(change);
});

test('include patterns precede exclude patterns, and nothing is deleted without a request', () => {
  const folders = { local: '/srv/my work/', remote: 'work' };
  const ssh = { program: 'ssh', controlPath: '/tmp/x/c' };
  const args = rsyncArguments(
    'to-remote',
    folders,
    { exclude: ['*.ckpt'], include: ['best.ckpt'] },
    ssh,
    true
  );
  expect(args).toContain('--dry-run');
  expect(args).not.toContain('--delete');
  expect(args.indexOf('--include=best.ckpt')).toBeLessThan(args.indexOf('--exclude=*.ckpt'));
  expect(args.slice(-2)).toEqual(['/srv/my work/', 'remote:work/']);
  expect(rsyncArguments('from-remote', folders, { delete: true }, ssh, false)).toContain('--delete');
});

test.each([
  ['rsync  version 3.2.7  protocol version 31', true],
  ['rsync  version 3.4.1  protocol version 32', true],
  ['rsync  version 2.6.9  protocol version 29', false],
  ['openrsync: protocol version 29\nrsync version 2.6.9 compatible', false],
  ['', false]
])('%s is usable: %s', (words, isUsable) => {
  expect(isUsableRsync(words)).toBe(isUsable);
});
