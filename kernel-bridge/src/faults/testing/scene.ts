/** The setup for faults: a bridge as separate processes with one kernel that prints numbers, and clients that count them. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type GapRecord,
  gapOf,
  JournalDamagedError,
  JournalReader,
  type JournalRecord,
  RecordChannel
} from '../../journal/index.js';
import { isSameProcess, processStart } from '@tpulab/platform/process-identity.js';
import { decodeV1, PART } from '../../jupyter/index.js';
import { bridgeBuild } from './bridge-build.js';
import { BridgeProcess } from './bridge-process.js';
import { type ClientKind, NumberedClient } from './numbered-client.js';
import { printedCount, numberedCell, type NumberedOptions, numbersIn } from './numbered-output.js';

const POLL_MS = 25;
/** Longest wait for a process or a state. */
const DEADLINE_MS = 240_000;

interface SceneOptions {
  /** Folder for the state, when it uses a separate disk. */
  readonly stateDir?: string;
  readonly program?: string;
  readonly args?: readonly string[];
}

export class Scene implements AsyncDisposable {
  readonly witness: string;
  /** A file that exists once the fault is over. */
  readonly faultOver: string;
  kernelId = '';
  readonly #clients: NumberedClient[] = [];
  /** Every process of this scene, so that none is left running, whatever fails. */
  readonly #processes = new Map<number, string | null>();

  private constructor(
    readonly folder: string,
    readonly stateDir: string,
    public bridge: BridgeProcess,
    public program: string,
    private readonly args: readonly string[]
  ) {
    this.witness = path.join(folder, 'witness');
    this.faultOver = path.join(folder, 'fault-over');
  }

  static async start(options: SceneOptions = {}): Promise<Scene> {
    const program = options.program ?? (await bridgeBuild());
    const folder = await mkdtemp(path.join(tmpdir(), 'tpf-'));
    const stateDir = options.stateDir ?? path.join(folder, 's');
    const args = options.args ?? [];
    const bridge = await BridgeProcess.start({ program, stateDir, args }).catch(async (error: unknown) => {
      await rm(folder, { recursive: true, force: true });
      throw error;
    });
    const scene = new Scene(folder, stateDir, bridge, program, args);
    try {
      await scene.startKernel();
    } catch (error) {
      await scene[Symbol.asyncDispose]();
      throw error;
    }
    return scene;
  }

  async startKernel(): Promise<void> {
    const { status, body } = await this.bridge.rest('POST', 'api/kernels', { name: 'lossless' });
    if (status !== 201) throw new Error(`no kernel: ${JSON.stringify(body)}`);
    this.kernelId = (body as { id: string }).id;
    await this.remember();
  }

  /** Clients connect to the current gateway, or to `url`. */
  async client(kind: ClientKind, url?: string): Promise<NumberedClient> {
    const client = new NumberedClient({ kind, kernelId: this.kernelId, url: () => url ?? this.bridge.url });
    this.#clients.push(client);
    return client.connect();
  }

  /** Makes the kernel print numbers for `client`; resolves with the request's id when the first one was printed. */
  async print(client: NumberedClient, options: Omit<NumberedOptions, 'witness'>): Promise<string> {
    const id = client.execute(numberedCell({ ...options, witness: this.witness }));
    await this.until(() => this.printedCount > 0, 'the first number');
    return id;
  }

  get printedCount(): number {
    return printedCount(this.witness);
  }

  /** The current `keeper.json`. */
  get keeper(): { pid: number; kernelPid: number | null } | null {
    let text: string;
    try {
      text = readFileSync(path.join(this.kernelDir, 'keeper.json'), 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
    return JSON.parse(text) as { pid: number; kernelPid: number | null };
  }

  get kernelDir(): string {
    return path.join(this.stateDir, 'kernels', this.kernelId);
  }

  get journalDir(): string {
    return path.join(this.kernelDir, 'journal');
  }

  killGateway(): Promise<void> {
    return this.bridge.end('SIGKILL');
  }

  stopGateway(): Promise<void> {
    return this.bridge.end('SIGTERM');
  }

  /** Starts a gateway on the same port, of another build if one is given. */
  async startGateway(program = this.program): Promise<void> {
    this.program = program;
    const { port } = this.bridge;
    this.bridge = await BridgeProcess.start({ program, stateDir: this.stateDir, port, args: this.args });
    await this.remember();
  }

  async killKeeper(): Promise<void> {
    await this.kill(this.keeper?.pid ?? null);
  }

  async killKernel(): Promise<void> {
    await this.kill(this.keeper?.kernelPid ?? null);
  }

  /** Sends SIGKILL, and waits until the process has ended. */
  async kill(pid: number | null): Promise<void> {
    if (pid === null) throw new Error('There is no process to kill.');
    const start = await processStart(pid);
    process.kill(pid, 'SIGKILL');
    const deadline = performance.now() + DEADLINE_MS;
    while (await isSameProcess(pid, start)) {
      if (performance.now() > deadline) throw new Error(`Process ${pid} does not end.`);
      await delay(POLL_MS);
    }
  }

  async kernelModel(): Promise<{ status: number; execution_state?: string; reason?: string | null }> {
    const { status, body } = await this.bridge.rest('GET', `api/kernels/${this.kernelId}`);
    return { status, ...(body as object) };
  }

  async until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
    const deadline = performance.now() + DEADLINE_MS;
    while (!(await condition())) {
      if (performance.now() > deadline) throw new Error(`Waited in vain for ${what}.`);
      await delay(POLL_MS);
    }
  }

  /** The current contents of the journal's files, up to any damage: the numbers in order, and the content of their gap records. */
  async journal(): Promise<{ numbers: number[]; gaps: GapRecord[]; records: number }> {
    const found = { numbers: [], gaps: [], records: 0 };
    try {
      await this.#readJournal(found);
    } catch (error) {
      if (!(error instanceof JournalDamagedError)) throw error;
    }
    return found;
  }

  async #readJournal(found: { numbers: number[]; gaps: GapRecord[]; records: number }): Promise<void> {
    const reader = new JournalReader(this.journalDir);
    for await (const { channel, payload } of recordsAcross(reader)) {
      found.records++;
      const gap = gapOf({ channel, payload });
      if (gap) found.gaps.push(gap);
      else if (channel === RecordChannel.iopub) {
        const { parts } = decodeV1(payload);
        const { msg_type: type } = JSON.parse(parts[PART.header]!.toString('utf8')) as { msg_type: string };
        if (type === 'stream' || type === 'display_data') {
          found.numbers.push(...numbersIn(parts[PART.content]!.toString('utf8')));
        }
      }
    }
  }

  /** Remembers a process whose pid is written to a file. */
  async rememberFrom(file: string): Promise<void> {
    const pid = (): number => (existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0);
    await this.until(() => pid() > 0, 'the pid of a child');
    this.#processes.set(pid(), await processStart(pid()));
  }

  async activity(): Promise<{ lastActivityMs: number }> {
    const { body } = await this.bridge.rest('GET', `api/kernels/${this.kernelId}`);
    return { lastActivityMs: Date.parse((body as { last_activity: string }).last_activity) };
  }

  /** Remembers the current processes of the kernel. */
  async remember(): Promise<void> {
    for (const pid of [this.keeper?.pid, this.keeper?.kernelPid]) {
      if (pid != null && !this.#processes.has(pid)) this.#processes.set(pid, await processStart(pid));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client[Symbol.dispose]();
    await this.remember();
    await BridgeProcess.stopAll(this.program, this.stateDir).catch(() => undefined);
    await this.bridge.end('SIGKILL');
    await this.remember();
    for (const [pid, start] of this.#processes) {
      if (await isSameProcess(pid, start)) killGroup(pid);
    }
    for (const [pid, start] of this.#processes) {
      await this.until(async () => !(await isSameProcess(pid, start)), `the end of process ${pid}`);
    }
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** All records, with gap records for lost ones. */
async function* recordsAcross(reader: JournalReader): AsyncGenerator<JournalRecord> {
  for await (const batch of reader.readAcross(await reader.firstSeq())) yield* batch;
}

/** Keepers and kernels lead groups of their own. */
function killGroup(pid: number): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, 'SIGKILL');
    } catch {
      // The group has already ended.
    }
  }
}
