/** What `tpulab doctor NAME` looks at on a host: over an ssh connection of its own, so that it works without a gateway too. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { RemoteCheck, RemoteSource } from '@tpulab/protocol';
import { pino } from 'pino';
import { gcloudOnPath } from '../../remotes/gcloud/gcloud.js';
import { RemoteStore } from '../../remotes/remote-store.js';
import { resolveSource } from '../../remotes/resolve-source.js';
import { checkRemoteHost } from '../../remotes/setup/index.js';
import { SshMaster } from '../../remotes/ssh/master.js';
import { SshShell } from '../../remotes/ssh/ssh-shell.js';
import { codeOf } from '../output.js';
import { sourceOf, type TargetOptions } from '../remotes/connect-target.js';
import { failed, ok } from './local-checks.js';

export interface RemoteTarget extends TargetOptions {
  /** The name of a remote that was added, or what `tpulab connect` takes. */
  readonly target: string;
  readonly stateDir: string;
  readonly environment: string | undefined;
  readonly sshProgram: string;
  readonly signal: AbortSignal;
}

const DEFAULT_ENVIRONMENT = 'jax';

/** Asks nothing: what would have to be answered is a failed check with the command that settles it. */
export async function checkThere(wanted: RemoteTarget): Promise<RemoteCheck[]> {
  const { signal, sshProgram: program } = wanted;
  const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  try {
    const { source, environment } = await find(wanted);
    const [target] = await resolveSource(source, gcloudOnPath(), signal);
    const controlPath = path.join(folder, 'c');
    const log = (): void => undefined;
    await using _master = await SshMaster.open({ program, target, controlPath, askpass: null, log, signal });
    const shell = new SshShell({ program, controlPath, host: target.destination });
    const checks = await checkRemoteHost(shell, { environment, signal });
    return [ok('ssh', `${target.destination} lets you in`), ...checks];
  } catch (error) {
    signal.throwIfAborted();
    const code = codeOf(error);
    if (code === null) throw error;
    const { message, command } = error as Error & { command?: unknown };
    const name = code.startsWith('setup_') || code.startsWith('env_') ? 'what is installed' : 'ssh';
    return [failed(name, message, typeof command === 'string' ? `Run: ${command}` : null)];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function find(wanted: RemoteTarget): Promise<{ source: RemoteSource; environment: string }> {
  const { target, stateDir, environment } = wanted;
  const remotes = await new RemoteStore(stateDir, pino({ level: 'silent' })).load();
  const known = remotes.find(({ name }) => name === target);
  return {
    source: known?.source ?? sourceOf(target, wanted),
    environment: environment ?? known?.environment ?? DEFAULT_ENVIRONMENT
  };
}
