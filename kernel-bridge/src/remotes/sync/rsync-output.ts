/** Reads the lines that rsync writes for each file (`%i %l %n`). */
import type { SyncChange } from '@tpulab/protocol';
import type { OneWay } from './rsync-arguments.js';

/** Null for what is no change of a file: folders, times, and words of rsync. */
export function changeOf(line: string, way: OneWay): SyncChange | null {
  const deleted = /^\*deleting\s+(?:\d+\s+)?(.+)$/.exec(line);
  if (deleted?.[1] !== undefined) return { path: deleted[1], action: 'delete', bytes: 0 };
  const moved = /^[<>c][fL][\w.+?~]*\s+(\d+)\s(.+)$/.exec(line);
  if (moved?.[1] === undefined || moved[2] === undefined) return null;
  return {
    path: moved[2],
    action: way === 'to-remote' ? 'send' : 'receive',
    bytes: Number(moved[1])
  };
}
