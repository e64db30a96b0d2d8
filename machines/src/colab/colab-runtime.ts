/** The runtime of one remote: creates it after a person agrees, reaches it, detects that it was reclaimed, and ends it. */
import { setTimeout as wait } from 'node:timers/promises';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import type { ColabAccelerator, RemoteCheck, RemoteConsent, RemoteStage } from '@tpulab/protocol';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';
import { jsonIn } from '@tpulab/platform/json-text.js';
import { RemoteProblem } from '../remote-error.js';
import { staged } from '../machine.js';
import type { SshTarget } from '../ssh/ssh-config.js';
import { type ColabAccount, isColabProblem } from './colab-account.js';
import {
  type ColabUsage,
  isNotFound,
  type ListedRuntime,
  parseRuntimes,
  PRIVATE_START
} from './colab-command.js';
import { explainColab, MANAGE_SESSIONS } from './colab-problem.js';
import { balanceCheck, colabConsent } from './consent.js';
import { quoted } from '../ssh/ssh-shell.js';

/** The HTTP limit of `colab new`, which waits for a TPU to become free. */
const REQUEST_S = 600;
/** `colab new` tries four times, and waits 10, 20 and 40 s in between. */
const NEW_MS = (4 * REQUEST_S + 120) * 1000;
const TICK_MS = 5_000;
/** How long to poll after an aborted `new` and after `stop`. */
const POLL_MS = 60_000;
/** After a lost connection, the runtime accepts a new one only after some time. */
const BUSY_MS = 3 * 60_000;
/** Compute units are charged per hour; the warning appears one hour before they are used up. */
const BALANCE_MS = 5 * 60_000;
const STOP_CHECKS = 5;
const STOP_CHECK_MS = 2_000;

/** Callbacks with which connecting shows progress and asks the person. */
interface Reaching {
  readonly onStage: (stage: RemoteStage) => void;
  readonly onCheck: (check: RemoteCheck) => void;
  /** Resolves with true when the person agrees. */
  readonly ask: (consent: RemoteConsent) => Promise<boolean>;
  readonly signal: AbortSignal;
}

interface ColabRuntimeOptions {
  readonly accelerator: ColabAccelerator;
  readonly account: ColabAccount;
  /** Folder used only by this remote. */
  readonly folder: string;
  readonly stopCheckMs?: number;
  readonly balanceMs?: number;
}

export class ColabRuntime {
  readonly #records: RuntimeRecords;
  /** The person agreed, but no runtime was created yet: after a temporary failure there is no second prompt. */
  #isAgreed = false;
  /** Since when another connection occupies the runtime's only SSH slot. */
  #busySince: number | null = null;

  constructor(private readonly options: ColabRuntimeOptions) {
    this.#records = new RuntimeRecords(options.folder);
  }

  /** Whether a runtime was created, or may have been, and is not known to have ended. */
  async exists(): Promise<boolean> {
    return (await this.#records.read()) !== null;
  }

  /** The target for ssh; creates a runtime if none exists and the person agrees. @throws RemoteProblem */
  async reach(to: Reaching): Promise<SshTarget> {
    const { account } = this.options;
    await staged(to, 'colab', 'Colab command', async () => account.version(to.signal));
    const usage = await staged(to, 'colab-account', 'Colab account', async () => account.usage(to.signal));
    let record = await this.#settled(to);
    if (record === null) {
      record = await this.#create(to, usage);
      to.onCheck(balanceCheck(await account.usage(to.signal).catch(() => usage)));
    } else to.onCheck(balanceCheck(usage));
    const program = await account.command.program();
    return colabTarget(program, record.session, this.#records.filesOf(record.session), account.workFolder);
  }

  /** Reports the balance repeatedly until the signal fires; while Colab cannot be queried, the last known balance is kept. */
  async watchBalance(onCheck: Reaching['onCheck'], signal: AbortSignal): Promise<void> {
    const { account, balanceMs = BALANCE_MS } = this.options;
    while (!signal.aborted) {
      await wait(balanceMs, undefined, { signal, ref: false }).catch(() => undefined);
      const usage = await account.usage(signal).catch(() => null);
      if (usage !== null) onCheck(balanceCheck(usage));
    }
  }

  /** The cause of an ssh failure: queries whether the runtime still exists, because `colab` does not report that to ssh. */
  async explain(problem: RemoteProblem, signal: AbortSignal): Promise<RemoteProblem> {
    const isBusy = problem.code === 'colab_busy';
    if (!isBusy) this.#busySince = null;
    const record = await this.#records.read();
    if (record === null) return problem;
    if (isBusy) {
      this.#busySince ??= performance.now();
      return performance.now() - this.#busySince < BUSY_MS ? problem : connectionInUse();
    }
    const hasEnded = await this.#hasEnded(record, signal).catch(() => false);
    return hasEnded ? this.#reclaimed(problem) : problem;
  }

  /** Resolves once the runtime has certainly ended; immediately if none is known. @throws RemoteProblem `colab_not_stopped` */
  async stop(signal: AbortSignal): Promise<void> {
    this.#isAgreed = false;
    const record = await this.#records.read();
    if (record === null) return;
    const { account, stopCheckMs = STOP_CHECK_MS } = this.options;
    const { config } = this.#records.filesOf(record.session);
    const status = await account.query(config, ['status', '-s', record.session], { signal });
    const [runtime] = parseRuntimes(status.lines);
    if (runtime === undefined) {
      const lost = await this.#unrecorded(record, signal);
      await this.#records.forget();
      if (lost.length > 0) throw unrecorded(lost);
      return;
    }
    await account.query(config, ['stop', '-s', record.session], { signal });
    for (let remaining = STOP_CHECKS; ; remaining--) {
      const running = await account.runtimes(config, signal);
      if (!running.some(({ endpoint }) => endpoint === runtime.endpoint)) break;
      if (remaining === 1) throw notStopped(runtime.endpoint);
      await wait(stopCheckMs, undefined, { signal });
    }
    await this.#records.forget();
  }

  withdraw(): void {
    this.#isAgreed = false;
    this.#busySince = null;
  }

  /** The recorded runtime; null if one has to be created. An aborted creation may have left a runtime with or without a record. */
  async #settled({ signal }: Reaching): Promise<RuntimeRecord | null> {
    const record = await this.#records.read();
    if (record === null || record.state === 'created') return record;
    if (!(await this.#hasEnded(record, signal))) return this.#records.write({ ...record, state: 'created' });
    const lost = await this.#unrecorded(record, signal);
    await this.#records.forget();
    if (lost.length > 0) throw unrecorded(lost);
    return null;
  }

  async #create(to: Reaching, usage: ColabUsage): Promise<RuntimeRecord> {
    const { account, accelerator } = this.options;
    const running = await account.runtimes(await this.#records.emptyConfig(), to.signal);
    if (!this.#isAgreed) {
      if (!(await to.ask(colabConsent(accelerator, usage, running)))) throw declined();
      this.#isAgreed = true;
    }
    to.signal.throwIfAborted();
    const record = await this.#records.begin(running.map(({ endpoint }) => endpoint));
    const created = await staged(
      to,
      'colab-runtime',
      `Colab runtime with a TPU ${accelerator}`,
      async report => {
        const since = performance.now();
        const tick = setInterval(
          () => report(`waiting for Colab, ${Math.round((performance.now() - since) / 1000)} s so far`),
          TICK_MS
        );
        try {
          await this.#new(record, to.signal);
        } finally {
          clearInterval(tick);
        }
        return this.#records.write({ ...record, state: 'created' });
      }
    );
    this.#isAgreed = false;
    return created;
  }

  async #new(record: RuntimeRecord, signal: AbortSignal): Promise<void> {
    const { account, accelerator } = this.options;
    const { config } = this.#records.filesOf(record.session);
    try {
      await account.query(config, ['new', '-s', record.session, '--tpu', accelerator], {
        signal,
        timeoutMs: NEW_MS,
        env: { COLAB_CLI_REQUEST_TIMEOUT: String(REQUEST_S) }
      });
    } catch (error) {
      // If aborted, the record stays: the next attempt searches for a runtime that was created nevertheless.
      if (signal.aborted || !isColabProblem(error)) throw error;
      const lost = await this.#unrecorded(record, AbortSignal.timeout(POLL_MS)).catch(() => null);
      if (lost === null) throw error;
      if (lost.length > 0) {
        await this.#records.forget();
        throw unrecorded(lost);
      }
      // A runtime that missed the time limit may still appear.
      if (error.code !== 'colab_unavailable' && error.code !== 'colab_failed') await this.#records.forget();
      throw error;
    }
  }

  async #hasEnded(record: RuntimeRecord, signal: AbortSignal): Promise<boolean> {
    const { config } = this.#records.filesOf(record.session);
    const { lines } = await this.options.account.query(config, ['status', '-s', record.session], { signal });
    return isNotFound(lines, record.session);
  }

  /** Runtimes created since then with our hardware, which this session file does not contain. */
  async #unrecorded(record: RuntimeRecord, signal: AbortSignal): Promise<ListedRuntime[]> {
    const { account, accelerator } = this.options;
    const { config } = this.#records.filesOf(record.session);
    const before = new Set(record.before);
    return (await account.runtimes(config, signal)).filter(
      ({ session, endpoint, hardware }) =>
        session === null && !before.has(endpoint) && hardware.toLowerCase() === accelerator
    );
  }

  async #reclaimed(cause: RemoteProblem): Promise<RemoteProblem> {
    await this.#records.forget();
    return new RemoteProblem(
      'colab_reclaimed',
      'Colab reclaimed the runtime: its kernels have ended, and files stored only there are lost. Outputs that reached this computer are kept. Connect again to create a new runtime.',
      { cause, action: { label: 'Create a new runtime', connect: {} } }
    );
  }
}

function declined(): RemoteProblem {
  return new RemoteProblem('colab_declined', 'No runtime was created, because you did not agree.');
}

function connectionInUse(): RemoteProblem {
  return new RemoteProblem(
    'colab_taken',
    'Another SSH connection to this runtime has been open for 3 minutes; Colab allows one. Close it (another terminal or another computer), then connect again.'
  );
}

function unrecorded(lost: readonly ListedRuntime[]): RemoteProblem {
  const names = lost.map(({ endpoint }) => endpoint).join(', ');
  return new RemoteProblem(
    'colab_unrecorded',
    `A runtime was created, but its reply was lost: ${names}. It uses compute units, and no command can reach or end it. End it ${MANAGE_SESSIONS}, then connect again.`
  );
}

function notStopped(endpoint: string): RemoteProblem {
  return new RemoteProblem(
    'colab_not_stopped',
    `The colab command reported that it ended the runtime, but ${endpoint} is still running and uses compute units. End it ${MANAGE_SESSIONS}.`
  );
}

/** How ssh reaches a Colab runtime: through `colab ssh --proxy-mode`, without the user's own configuration. */

/** The ProxyCommand counts as connecting: it logs in, queries the server for the runtime, and opens a WebSocket. */
const CONNECT_S = 60;

/**
 * Neither `-s`, with which `colab` creates a runtime if it knows none of that name, nor `--rm`, which would end the runtime at
 * every disconnect: without both, `colab` uses the only runtime of this session file and never creates one.
 */
function colabTarget(program: string, session: string, files: RuntimeFiles, workFolder: string): SshTarget {
  const command = [program, '--config', files.config, 'ssh', '--proxy-mode', '-i', files.key];
  const start = `export TYPER_STANDARD_TRACEBACK=1; ${PRIVATE_START}`;
  const proxy = ['/bin/sh', '-c', quoted(start), 'sh', ...command.map(quoted)].join(' ');
  const options = [
    `ProxyCommand=${proxy.replaceAll('%', '%%')}`,
    'User=root',
    'IdentitiesOnly=yes',
    'IdentityAgent=none',
    `HostKeyAlias=${session}`,
    `UserKnownHostsFile="${files.knownHosts.replaceAll('%', '%%')}"`,
    // The host key of a new runtime is not published anywhere; once seen, it must not change.
    'StrictHostKeyChecking=accept-new'
  ];
  return {
    destination: session,
    options: ['-F', 'none', '-i', files.key, ...options.flatMap(option => ['-o', option])],
    connectTimeoutS: CONNECT_S,
    explain: explainColab,
    preamble: `${TPU_VARIABLES}\n[ ! -d ${quoted(workFolder)} ] || export TPULAB_ROOT_DIR=${quoted(workFolder)}`
  };
}

/**
 * An ssh shell lacks the variables of the container, through which libtpu finds the chips. Only these variables are copied:
 * the others are for Colab's own kernels.
 */
const TPU_VARIABLES = `if [ -r /proc/1/environ ]; then
while IFS= read -r tpulab_pair; do
case $tpulab_pair in *=*) export "$tpulab_pair" ;; esac
done <<TPULAB_END
$(tr '\\0' '\\n' < /proc/1/environ | grep -E '^(TPU_[A-Za-z0-9_]*|PJRT_[A-Za-z0-9_]*|LD_LIBRARY_PATH)=')
TPULAB_END
fi`;

/**
 * The stored state of a remote's only runtime, in a folder that only this user can read: `runtime.json`, and for each
 * runtime a folder with its name, which contains the session file of `colab`, a key, and the host key that the runtime
 * presented. Session files contain tokens; only `colab` reads them. A name is never reused, because `colab` would lose the
 * earlier runtime with that name.
 */
const RuntimeRecord = Type.Object({
  session: Type.String({ pattern: '^tpulab-[a-z0-9]+$' }),
  /** `creating` until `colab` reports that the runtime runs; it may run before that. */
  state: Type.Union([Type.Literal('creating'), Type.Literal('created')]),
  /** Runtimes that the account had before this one. */
  before: Type.Array(Type.String())
});
type RuntimeRecord = Static<typeof RuntimeRecord>;

interface RuntimeFiles {
  /** Session file of `colab`. */
  readonly config: string;
  readonly key: string;
  readonly knownHosts: string;
}

class RuntimeRecords {
  constructor(private readonly folder: string) {}

  /** null: no runtime is known. */
  async read(): Promise<RuntimeRecord | null> {
    const json = jsonIn(await readFile(this.#file, 'utf8').catch(() => null));
    return Value.Check(RuntimeRecord, json) ? json : null;
  }

  /** Names a new runtime, and makes its folder and key. The record is written before the runtime is created. */
  async begin(before: readonly string[]): Promise<RuntimeRecord> {
    await this.#makeFolder(this.folder);
    const session = `tpulab-${randomBytes(4).toString('hex')}`;
    const { key } = this.filesOf(session);
    await this.#makeFolder(path.dirname(key));
    // The key has no comment: it would travel with the public key, and name the person and this computer.
    await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', key]);
    return this.write({ session, state: 'creating', before: [...before] });
  }

  async write(record: RuntimeRecord): Promise<RuntimeRecord> {
    await this.#makeFolder(this.folder);
    await writeAtomically(this.#file, JSON.stringify(record));
    return record;
  }

  /** The runtime has ended, or never existed. */
  async forget(): Promise<void> {
    const record = await this.read();
    await rm(this.#file, { force: true });
    if (record) await rm(path.dirname(this.filesOf(record.session).key), { recursive: true, force: true });
  }

  filesOf(session: string): RuntimeFiles {
    const folder = path.join(this.folder, session);
    return {
      config: path.join(folder, 'sessions.json'),
      key: path.join(folder, 'id_ed25519'),
      knownHosts: path.join(folder, 'known_hosts')
    };
  }

  /** A session file for queries about the whole account while no runtime exists. */
  async emptyConfig(): Promise<string> {
    await this.#makeFolder(this.folder);
    return path.join(this.folder, 'none.json');
  }

  get #file(): string {
    return path.join(this.folder, 'runtime.json');
  }

  async #makeFolder(folder: string): Promise<void> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await chmod(folder, 0o700);
  }
}
