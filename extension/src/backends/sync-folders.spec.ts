import { expect, test } from 'vitest';
import { SyncFolders } from './sync-folders.js';

function memory(): Pick<Storage, 'getItem' | 'setItem'> {
  const items = new Map<string, string>();
  return { getItem: key => items.get(key) ?? null, setItem: (key, value) => void items.set(key, value) };
}

test('a notebook in a synced folder starts in the remote folder, any other does not', () => {
  const folders = new SyncFolders(memory());
  folders.set('my-tpu', { folder: 'work', remoteFolder: 'there/work/' });
  expect(folders.pathOn('my-tpu', 'work/a/b.ipynb')).toBe('there/work/a/b.ipynb');
  expect(folders.pathOn('my-tpu', 'workshop/b.ipynb')).toBeNull();
  expect(folders.pathOn('other', 'work/b.ipynb')).toBeNull();
  folders.set('my-tpu', { folder: '', remoteFolder: 'all' });
  expect(folders.pathOn('my-tpu', 'b.ipynb')).toBe('all/b.ipynb');
});

test('entries of other programs are ignored', () => {
  expect(new SyncFolders({ getItem: () => '{"folder":1}', setItem: () => undefined }).get('x')).toBeNull();
  expect(new SyncFolders(null).get('x')).toBeNull();
});
