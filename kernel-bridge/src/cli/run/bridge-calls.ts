/** What `tpulab execute` asks of the gateway on which the notebook runs: this machine's own, or that of a remote behind it. */
import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { type Static, Type } from '@sinclair/typebox';
import { type CellExecution, MAX_OUTPUT_BYTES, type OutputsPage } from '@tpulab/protocol';
import WebSocket from 'ws';
import { socketPathOf } from '../../http/unix-listening.js';
import { WORKING_DIR } from '../../kernels/working-directory.js';
import { newHeader } from '../../jupyter/new-message.js';
import { CommandError } from '../command-errors.js';
import { below, type RunningGateway } from '../running-gateway.js';
import { EXIT_ENDS_RUN, THREADS_END } from './python-requests.js';

const ANSWER_MS = 60_000;
/** A kernel that has to load its framework, on a machine that is busy. */
const START_MS = 180_000;
const TAKEN_MS = 60_000;
const LOOK_MS = 200;

const Session = Type.Object({
  id: Type.String(),
  path: Type.String(),
  kernel: Type.Object({ id: Type.String() })
});
export type RunSession = Static<typeof Session>;
const Kernelspec = Type.Object({
  name: Type.String(),
  spec: Type.Object({
    language: Type.String(),
    metadata: Type.Object({ framework: Type.Optional(Type.String()) })
  })
});
const Specs = Type.Object({
  default: Type.String(),
  kernelspecs: Type.Record(Type.String(), Kernelspec)
});

const KernelNow = Type.Object({
  execution_state: Type.String(),
  reason: Type.Optional(Type.String()),
  last_end: Type.Optional(Type.String())
});
const Resolved = Type.Object({
  resolved: Type.Array(Type.Object({ scope: Type.String(), path: Type.String() }))
});

export interface Cell {
  readonly id: string | null;
  readonly source: string;
  /** An error of it is expected, and the next cell runs. */
  readonly mayRaise?: boolean | undefined;
}

/** Where and on what a notebook runs. */
export interface RunStart {
  readonly path: string;
  readonly kernelName: string;
  readonly isPython: boolean;
  /** Of the notebook; null where it runs on another machine. */
  readonly folder: string | null;
}

/** Unlike that of any other notebook of this machine; the kernel starts in the home folder where there is no such one. */
export function sessionPath(notebook: string): string {
  return notebook.replace(/^\/+/, '');
}

export class BridgeCalls {
  readonly #gateway: RunningGateway;
  readonly #prefix: string;

  constructor(gateway: RunningGateway, remote: string | null) {
    this.#gateway = gateway;
    this.#prefix = below(remote);
  }

  async specs(): Promise<Static<typeof Specs>> {
    return this.#gateway.ask(Specs, 'GET', `${this.#prefix}api/kernelspecs`);
  }

  async sessions(): Promise<RunSession[]> {
    return this.#gateway.ask(Type.Array(Session), 'GET', `${this.#prefix}api/sessions`);
  }

  async begin({ path, kernelName, folder }: RunStart): Promise<RunSession> {
    const body = {
      path,
      name: path.split('/').at(-1) ?? path,
      type: 'notebook',
      kernel: { name: kernelName },
      ...(folder !== null && { env: { [WORKING_DIR]: folder } })
    };
    const how = { json: body, timeoutMs: START_MS };
    return this.#gateway.ask(Session, 'POST', `${this.#prefix}api/sessions`, how);
  }

  /** Starts a kernel and hands it the cells. */
  async start(start: RunStart, cells: readonly Cell[]): Promise<{ kernelId: string; sessionId: string }> {
    const { id: sessionId, kernel } = await this.begin(start);
    try {
      await this.execute(kernel.id, cells, start.isPython);
    } catch (error) {
      await this.end(sessionId).catch(() => undefined);
      throw error;
    }
    return { kernelId: kernel.id, sessionId };
  }

  /** Whether a kernel works, and how its processes ended; null while it cannot be asked. */
  async kernel(kernelId: string): Promise<Static<typeof KernelNow> | null> {
    const path = `${this.#prefix}api/kernels/${kernelId}`;
    return this.#gateway.ask(KernelNow, 'GET', path).catch(() => null);
  }

  /** The folder in which a kernel was started; null where that is not known. */
  async folderOf(kernelId: string): Promise<string | null> {
    const path = `${this.#prefix}api/resolvePath?${new URLSearchParams({ path: '.', kernel: kernelId }).toString()}`;
    const found = await this.#gateway.ask(Resolved, 'GET', path).catch(() => null);
    return found?.resolved.find(({ scope }) => scope === 'kernel')?.path ?? null;
  }

  /** Its kernel ends with it; what it printed is kept. */
  async end(sessionId: string): Promise<void> {
    await this.#gateway.send('DELETE', `${this.#prefix}api/sessions/${sessionId}`, { timeoutMs: ANSWER_MS });
  }

  /** @param since only what changed after this record */
  async outputs(kernelId: string, since: number): Promise<OutputsPage> {
    const found: CellExecution[] = [];
    let first: OutputsPage | null = null;
    for (let after: number | null = 0; after !== null;) {
      const query = new URLSearchParams({
        history: 'true',
        maxBytes: String(MAX_OUTPUT_BYTES),
        since: String(since)
      });
      if (after > 0) query.set('after', String(after));
      const path = `${this.#prefix}bridge/v1/kernels/${kernelId}/outputs?${query.toString()}`;
      const page = await this.#gateway.send('GET', path, { timeoutMs: ANSWER_MS });
      if (!isPage(page))
        throw new CommandError('gateway_unresponsive', `The response to GET ${path} is garbled.`);
      first ??= page;
      found.push(...page.executions);
      after = page.nextAfter;
    }
    if (first === null) throw new TypeError('a page was asked for');
    return { ...first, executions: found };
  }

  /**
   * Hands all cells to the kernel at once: from then on they run without anybody here. The first error ends the run, as the kernel
   * aborts what waits behind it. Resolves when the journal there has every request.
   */
  async execute(kernelId: string, cells: readonly Cell[], isPython: boolean): Promise<void> {
    const session = randomUUID();
    const socket = await this.#open(kernelId, session);
    try {
      const ids = new Set<string>();
      const send = (cell: Cell, isSilent: boolean, then: string | null): void => {
        const msgId = randomUUID();
        if (!isSilent) ids.add(msgId);
        socket.send(JSON.stringify(executeRequest({ ...cell, msgId, session, isSilent, then })));
      };
      if (isPython) send({ id: null, source: EXIT_ENDS_RUN, mayRaise: true }, true, null);
      for (const cell of cells) send(cell, false, isPython && cell === cells.at(-1) ? THREADS_END : null);
      const deadline = performance.now() + TAKEN_MS;
      for (;;) {
        const { executions } = await this.outputs(kernelId, 0);
        for (const { msgId } of executions) ids.delete(msgId);
        if (ids.size === 0) return;
        if (socket.readyState !== WebSocket.OPEN || performance.now() > deadline) {
          throw new CommandError(
            'run_not_started',
            `The kernel did not accept ${ids.size} of ${cells.length} cells; run it again.`
          );
        }
        await new Promise(resolve => setTimeout(resolve, LOOK_MS));
      }
    } finally {
      socket.close();
    }
  }

  async #open(kernelId: string, session: string): Promise<WebSocket> {
    const { record, token } = this.#gateway;
    const path = `${this.#prefix}api/kernels/${kernelId}/channels?session_id=${session}`;
    const onSocket = socketPathOf(record.url);
    const url = onSocket ? `ws://localhost${onSocket.base}` : record.url.replace(/^http/, 'ws');
    const socket = new WebSocket(new URL(path, url), {
      headers: { authorization: `token ${token}` },
      handshakeTimeout: ANSWER_MS,
      ...(onSocket && { createConnection: () => connect(onSocket.socketPath) })
    });
    // What the kernel prints is read from the journal.
    socket.on('message', () => undefined);
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', cause =>
        reject(
          new CommandError('run_not_started', `The kernel cannot be reached (${cause.message}).`, { cause })
        )
      );
    });
    socket.on('error', () => undefined);
    return socket;
  }
}

/** The check of a schema with a format needs the format registered; the shape is what matters here. */
function isPage(value: unknown): value is OutputsPage {
  const page = value as Partial<OutputsPage> | null;
  return (
    typeof page === 'object' &&
    Array.isArray(page?.executions) &&
    Array.isArray(page.widgets) &&
    typeof page.until === 'number' &&
    typeof page.alive === 'boolean'
  );
}

function executeRequest(
  request: Cell & {
    readonly msgId: string;
    readonly session: string;
    readonly isSilent: boolean;
    /** An expression of Python, evaluated after the cell as a part of it. */
    readonly then: string | null;
  }
): object {
  const { msgId, session, source, id, isSilent, then, mayRaise = false } = request;
  return {
    channel: 'shell',
    header: JSON.parse(newHeader({ msgType: 'execute_request', session, msgId })) as object,
    parent_header: {},
    metadata: id === null ? {} : { cellId: id },
    content: {
      code: source,
      silent: isSilent,
      store_history: !isSilent,
      user_expressions: then === null ? {} : { then },
      allow_stdin: false,
      stop_on_error: !mayRaise
    },
    buffers: []
  };
}
