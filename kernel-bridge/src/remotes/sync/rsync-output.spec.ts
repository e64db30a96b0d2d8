import { expect, test } from 'vitest';
import { changeOf } from './rsync-output.js';
import { rsyncArguments } from './rsync-arguments.js';

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

test('both ways take what is newer and delete nothing', () => {
  const folders = { local: '/srv/my work/', remote: 'work' };
  const ssh = { program: 'ssh', controlPath: '/tmp/x/c' };
  const request = { direction: 'both', delete: true, exclude: ['*.ckpt'], include: ['best.ckpt'] } as const;
  const args = rsyncArguments(
    'to-remote',
    folders,
    { ...request, exclude: [...request.exclude], include: [...request.include] },
    ssh,
    true
  );
  expect(args).toContain('--update');
  expect(args).toContain('--dry-run');
  expect(args).not.toContain('--delete');
  expect(args.indexOf('--include=best.ckpt')).toBeLessThan(args.indexOf('--exclude=*.ckpt'));
  expect(args.slice(-2)).toEqual(['/srv/my work/', 'remote:work/']);
  expect(
    rsyncArguments('from-remote', folders, { direction: 'from-remote', delete: true }, ssh, false)
  ).toContain('--delete');
});
