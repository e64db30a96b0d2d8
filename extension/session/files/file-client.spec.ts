import type { FileEntry, FileTrashed } from '@tpulab/protocol';
import { expect, it, vi } from 'vitest';
import { FileClient } from './file-client.js';

// For example an upload to a disk that is full: the file was in the trash then, and nothing in its place.
it('replaces a file, or leaves it where it was', async () => {
  const client = new FileClient({} as never);
  const trash = vi.spyOn(client, 'trash').mockResolvedValue({ id: '7' } as FileTrashed);
  const write = vi.spyOn(client, 'write').mockResolvedValue({ path: 'a.csv' } as FileEntry);
  const restore = vi.spyOn(client, 'restore').mockResolvedValue({} as FileEntry);
  expect(await client.replace('a.csv', 'new')).toEqual({ path: 'a.csv' });
  expect(trash).toHaveBeenCalledWith('a.csv');
  expect(write).toHaveBeenCalledWith('a.csv', 'new', null);
  expect(restore).not.toHaveBeenCalled();
  write.mockRejectedValue(new Error('the disk is full'));
  await expect(client.replace('a.csv', 'new')).rejects.toThrow('the disk is full');
  expect(restore).toHaveBeenCalledWith('7');
});
