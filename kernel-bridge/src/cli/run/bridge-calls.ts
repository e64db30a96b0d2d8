/**
 * Requests of `tpulab execute` to the gateway that runs the notebook: this machine's own, or through it the gateway of a
 * remote.
 */
import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { type Static, Type } from '@sinclair/typebox';
import { type CellExecution, MAX_OUTPUT_BYTES, type OutputsPage } from '@tpulab/protocol';
import WebSocket from 'ws';
import { socketPathOf } from '../../http/unix-listening.js';
import { QUEUE_LIMITS } from '../../channels/start-queue.js';
import { WORKING_DIR } from '../../kernels/kernel-env.js';
import { newHeader } from '../../jupyter/kernel-message.js';
import { CommandError } from '../output.js';
import { below, type RunningGateway } from '../running-gateway.js';

const ANSWER_MS = 60_000;
/** Time limit for a kernel that loads its framework on a busy machine. */
const START_MS = 180_000;
/** The longest time in which the kernel accepts no further cell. */
const TAKEN_MS = 60_000;
const POLL_MS = 200;

const Session = Type.Object({
  id: Type.String(),
  path: Type.String(),
  kernel: Type.Object({ id: Type.String() })
});
type RunSession = Static<typeof Session>;
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
  /** An error of this cell is expected, and the next cell runs. */
  readonly mayRaise?: boolean | undefined;
}

/** The machine and the kernel where a run starts. */
interface RunStart {
  readonly path: string;
  readonly kernelName: string;
  readonly isPython: boolean;
  /** Folder of the notebook; null if it runs on another machine. */
  readonly folder: string | null;
}

/** Unique among the notebooks of this machine; if the folder does not exist there, the kernel starts in the home folder. */
export function sessionPath(notebook: string): string {
  return notebook.replace(/^\/+/, '');
}

export class BridgeCalls {
  readonly #prefix: string;

  constructor(
    private readonly gateway: RunningGateway,
    remote: string | null
  ) {
    this.#prefix = below(remote);
  }

  async specs(): Promise<Static<typeof Specs>> {
    return this.gateway.request(Specs, 'GET', `${this.#prefix}api/kernelspecs`);
  }

  async sessions(): Promise<RunSession[]> {
    return this.gateway.request(Type.Array(Session), 'GET', `${this.#prefix}api/sessions`);
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
    return this.gateway.request(Session, 'POST', `${this.#prefix}api/sessions`, how);
  }

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

  /** Whether a kernel is busy, and how its processes ended; null while the gateway is unreachable. */
  async kernel(kernelId: string): Promise<Static<typeof KernelNow> | null> {
    const path = `${this.#prefix}api/kernels/${kernelId}`;
    return this.gateway.request(KernelNow, 'GET', path).catch(() => null);
  }

  /** The start folder of a kernel; null if unknown. */
  async folderOf(kernelId: string): Promise<string | null> {
    const path = `${this.#prefix}api/resolvePath?${new URLSearchParams({ path: '.', kernel: kernelId }).toString()}`;
    const found = await this.gateway.request(Resolved, 'GET', path).catch(() => null);
    return found?.resolved.find(({ scope }) => scope === 'kernel')?.path ?? null;
  }

  /** Ends the session and its kernel; the output is retained. */
  async end(sessionId: string): Promise<void> {
    await this.gateway.send('DELETE', `${this.#prefix}api/sessions/${sessionId}`, { timeoutMs: ANSWER_MS });
  }

  /** @param since returns only changes after this record */
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
      const page = await this.gateway.send('GET', path, { timeoutMs: ANSWER_MS });
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
   * Sends all cells to the kernel together: from then on they run without a client. The first error ends the run, because
   * the kernel aborts all queued cells. Resolves when the journal there contains every request.
   */
  async execute(kernelId: string, cells: readonly Cell[], isPython: boolean): Promise<void> {
    const session = randomUUID();
    const socket = await this.#open(kernelId, session);
    try {
      // A kernel that starts holds only so many requests.
      for (const end = performance.now() + START_MS; cells.length >= QUEUE_LIMITS.requests;) {
        const now = await this.kernel(kernelId);
        if (now?.execution_state !== 'starting' || performance.now() > end) break;
        await new Promise(resolve => setTimeout(resolve, POLL_MS));
      }
      const ids = new Set<string>();
      const send = (cell: Cell, isSilent: boolean, then: string | null): void => {
        const msgId = randomUUID();
        if (!isSilent) ids.add(msgId);
        socket.send(JSON.stringify(executeRequest({ ...cell, msgId, session, isSilent, then })));
      };
      if (isPython) send({ id: null, source: BEFORE_CELLS, mayRaise: true }, true, null);
      for (const cell of cells) send(cell, false, isPython && cell === cells.at(-1) ? THREADS_END : null);
      let deadline = performance.now() + TAKEN_MS;
      for (;;) {
        const left = ids.size;
        const { executions } = await this.outputs(kernelId, 0);
        for (const { msgId } of executions) ids.delete(msgId);
        if (ids.size === 0) return;
        if (ids.size < left) deadline = performance.now() + TAKEN_MS;
        if (socket.readyState !== WebSocket.OPEN || performance.now() > deadline) {
          throw new CommandError(
            'run_not_started',
            `The kernel did not accept ${ids.size} of ${cells.length} cells; run it again.`
          );
        }
        await new Promise(resolve => setTimeout(resolve, POLL_MS));
      }
    } finally {
      socket.close();
    }
  }

  async #open(kernelId: string, session: string): Promise<WebSocket> {
    const { record, token } = this.gateway;
    const path = `${this.#prefix}api/kernels/${kernelId}/channels?session_id=${session}`;
    const onSocket = socketPathOf(record.url);
    const url = onSocket ? `ws://localhost${onSocket.base}` : record.url.replace(/^http/, 'ws');
    const socket = new WebSocket(new URL(path, url), {
      headers: { authorization: `token ${token}` },
      handshakeTimeout: ANSWER_MS,
      ...(onSocket && { createConnection: () => connect(onSocket.socketPath) })
    });
    // The output is read from the journal instead.
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

/** Validating a schema with a format requires that format to be registered; only the shape matters here. */
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
    /** A Python expression, evaluated after the cell as a part of it. */
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

/* Extra requests of `tpulab execute` to a Python kernel. Kernels of other languages get none. */

/**
 * Runs silently before the cells. `exit` and `quit` end the notebook: IPython's own would only close a terminal, and the
 * next cell would run. It also prevents cells from running after an error: the kernel aborts only requests that it has
 * already received, not those on their way.
 */
const BEFORE_CELLS = `
def _tpulab_run():
    from IPython.core.autocall import IPyAutocall
    class Exit(IPyAutocall):
        rewrite = False
        def __call__(self, *args):
            raise SystemExit(*(args or ("exit() was called",)))
    get_ipython().user_ns.update(exit=Exit(), quit=Exit())
    kernel = getattr(get_ipython(), "kernel", None)
    if not hasattr(kernel, "do_execute") or not hasattr(kernel, "get_parent"):
        return
    execute, session, failed = kernel.do_execute, kernel.get_parent()["header"]["session"], []
    async def do_execute(*args, **kwargs):
        request = kernel.get_parent()
        if request["header"]["session"] != session:
            return await execute(*args, **kwargs)
        if failed:
            return {"status": "aborted"}
        reply = await execute(*args, **kwargs)
        if reply["status"] == "error" and request["content"].get("stop_on_error", True):
            failed.append(True)
        return reply
    kernel.do_execute = do_execute
_tpulab_run()
del _tpulab_run
`;

/**
 * Evaluated after the last cell, as a part of it: threads that keep a Python program alive also keep the run alive, for a
 * minute. Their output during that time belongs to that cell.
 */
const THREADS_END = `exec(${JSON.stringify(`
import sys, threading, time
end = time.monotonic() + 60
own = (threading.main_thread(), threading.current_thread())
threads = [thread for thread in threading.enumerate() if not thread.daemon and thread not in own]
for thread in threads:
    thread.join(max(0.0, end - time.monotonic()))
left = sum(thread.is_alive() for thread in threads)
if left:
    print(f"tpulab execute: {left} threads still run 60 s after the last cell; what they print later is not saved.", file=sys.stderr)
`)}, {})`;

/** A name that Python can assign to, so not a keyword. */
const NAME =
  /^(?!(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)$)[A-Za-z_]\w*$/;

/** papermill's cell: one `name = value` per line. @throws TypeError for an invalid Python name */
export function parametersCode(parameters: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(parameters).map(([name, value]) => {
    if (!NAME.test(name)) throw new TypeError(`"${name}" is not a valid parameter name`);
    return `${name} = ${literal(value)}`;
  });
  return ['# Parameters', ...lines].join('\n');
}

/** A value from the command line: a number, True, False or None in Python's notation; anything else is text. */
export function parameterValue(text: string): unknown {
  if (/^true$/i.test(text)) return true;
  if (/^false$/i.test(text)) return false;
  if (/^(none|null)$/i.test(text)) return null;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? new Digits(text) : text;
}

/** A number kept as written: 1e-3, 1.0 and numbers beyond JavaScript's range stay unchanged. */
class Digits {
  constructor(readonly text: string) {}
}

function literal(value: unknown): string {
  if (value instanceof Digits) return value.text;
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : `float("${value}")`;
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}: ${literal(each)}`);
  return `{${entries.join(', ')}}`;
}
