/** Opens the ssh connection of a remote: where its hosts are, the questions of ssh, and what to say when it fails. */
import { createHash } from 'node:crypto';
import path from 'node:path';
import type { Remote } from './remote.js';
import { RemoteProblem } from './remote-error.js';
import { RemoteLink } from './remote-link.js';
import { resolveSource, withCloudRemedy } from './resolve-source.js';
import { commandFor, type SshTarget } from './ssh/target.js';

export type Targets = readonly [SshTarget, ...SshTarget[]];

/** @param known hosts of an earlier attempt, if they are still to be used */
export async function openLink(
  remote: Remote,
  known: Targets | null,
  signal: AbortSignal
): Promise<{ readonly link: RemoteLink; readonly targets: Targets }> {
  const { gcloud, sshProgram } = remote.context;
  const { source } = remote.record;
  const stage = (name: string, title: string, state: 'running' | 'done' | 'failed'): void =>
    remote.stage({ name, title, state, detail: null, fraction: null });
  let targets = known;
  let running: [string, string] | null = null;
  try {
    if (targets === null) {
      running = ['gcloud', 'Google Cloud'];
      if (source.kind === 'gcloud') stage(...running, 'running');
      targets = await resolveSource(source, gcloud, signal);
      if (source.kind === 'gcloud') stage(...running, 'done');
      remote.change({ hosts: targets.map(({ destination }) => destination) });
    }
    const [target] = targets;
    remote.log.add(commandFor(target));
    running = ['ssh', 'SSH'];
    const { askpass, runDir } = await remote.context.place();
    stage(...running, 'running');
    using asking = askpass.register(remote.prompts.ask);
    // Short, and the same at each attempt, so that what a killed gateway has left behind is found.
    const id = createHash('sha256').update(remote.name).digest('hex').slice(0, 10);
    const link = await RemoteLink.open({
      program: sshProgram,
      target,
      controlPath: path.join(runDir, `${id}.c`),
      socketPath: path.join(runDir, `${id}.s`),
      askpass: asking.env,
      log: line => remote.log.add(line),
      signal
    });
    stage(...running, 'done');
    return { link, targets };
  } catch (error) {
    if (running && !signal.aborted) stage(...running, 'failed');
    if (remote.prompts.wasRefused) throw unanswered(targets?.[0]);
    throw withCloudRemedy(error, source);
  }
}

function unanswered(target: SshTarget | undefined): RemoteProblem {
  return new RemoteProblem(
    'remote_question_unanswered',
    'A question of ssh was not answered, so it did not log in. Connect again to be asked again, or log in once in a terminal.',
    target ? { command: commandFor(target) } : {}
  );
}
