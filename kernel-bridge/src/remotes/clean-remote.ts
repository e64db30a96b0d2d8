/** Removes from a remote what was installed there, over a connection of its own. */
import type { Remote } from './remote.js';
import { RemoteProblem, told } from './remote-error.js';
import { openLink } from './open-link.js';

/** The remote is disconnected afterwards, whether it worked or not. */
export async function cleanRemote(remote: Remote, signal: AbortSignal): Promise<void> {
  await remote.disconnect();
  remote.move({ kind: 'connecting' });
  remote.beginAttempt();
  try {
    const { link } = await openLink(remote, null, signal);
    try {
      const { setup, installed } = remote.context;
      await (remote.record.install ? setup : installed).clean(link.shell, {
        signal,
        onStage: stage => remote.stage(stage),
        onCheck: check => remote.check(check),
        onLog: line => remote.log.add(line)
      });
      remote.log.add('cleaned: nothing of ours is left there');
    } finally {
      await link[Symbol.asyncDispose]();
    }
    remote.move({ kind: 'disconnected' });
  } catch (error) {
    if (signal.aborted) {
      remote.move({ kind: 'disconnected' });
      throw new RemoteProblem('remote_interrupted', 'Cleaning was interrupted; run it again.', {
        cause: error
      });
    }
    remote.move({ kind: 'failed', error: told(error) });
    throw error;
  }
}
