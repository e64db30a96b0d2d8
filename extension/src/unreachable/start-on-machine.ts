/** Connects a notebook with its kernel on a remote: its running kernel, else a new one. */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Session } from '@jupyterlab/services';
import { splitSpecName } from '../backends/spec-names.js';
import type { IBridgeBackends } from '../backends/tokens.js';

/** A remote that the hub reports as connected is one round trip away. */
const SERVING_WAIT_MS = 30_000;

export interface IStartOnMachine {
  readonly backends: IBridgeBackends;
  readonly sessions: Pick<Session.IManager, 'refreshRunning' | 'running'>;
  /** Of the notebook. */
  readonly context: Pick<DocumentRegistry.Context, 'path' | 'sessionContext'>;
}

/** Rejects when there is no kernel; Lab has then reported why. */
export async function startOnMachine(
  { backends, sessions, context }: IStartOnMachine,
  specName: string
): Promise<void> {
  const { sessionContext } = context;
  const backend = backends.gateway(splitSpecName(specName).place);
  // The start below reports its error.
  await backend?.serving(SERVING_WAIT_MS).catch(() => undefined);
  // It may have a kernel there already, started after the first list of this page.
  await sessions.refreshRunning().catch(() => undefined);
  if (sessionContext.isDisposed || sessionContext.session?.kernel) return;
  const running = [...sessions.running()].find(({ path }) => path === context.path);
  await sessionContext.changeKernel(running?.kernel ? { id: running.kernel.id } : { name: specName });
}
