/** Why folders were not made the same. `code` is listed in docs/errors.md. */
import { RemoteProblem } from '../remote-error.js';

/** What rsync or the way to the remote has said, with what to do about it. */
export function syncProblem(code: number | null, words: string, host: string): RemoteProblem {
  const last = words.trim().split('\n').slice(-2).join(' ').slice(-400);
  if (/rsync: (command )?not found|rsync: No such file/i.test(words) || code === 127) {
    return new RemoteProblem(
      'sync_no_rsync',
      `${host} has no rsync; install it there (Debian and Ubuntu: sudo apt-get install rsync), then sync again.`
    );
  }
  if (/No space left|Disk quota/i.test(words)) {
    return new RemoteProblem(
      'remote_disk_full',
      `A disk is full (${last}); free some space, then sync again.`
    );
  }
  if (code === 12 || code === 30 || code === 255) {
    return new RemoteProblem(
      'remote_lost',
      `The connection to ${host} ended while files were copied (${last}); sync again: what is there stays.`
    );
  }
  return new RemoteProblem(
    'sync_failed',
    `rsync ended with ${code ?? 'a signal'}: ${last || 'no reason given'}`
  );
}
