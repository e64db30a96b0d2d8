/**
 * Pre-flight checks that clients of the gateway start: `tpulab check` of a saved notebook in a separate process, and the last
 * report of each notebook. One check at a time, because a check uses all cores.
 */
import { createHash } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Value } from '@sinclair/typebox/value';
import {
  CheckReport,
  type CheckRequest,
  kernelOf,
  type NotebookCheck,
  NotebookText,
  type PriceChange,
  StoredCheck
} from '@tpulab/protocol';
import {
  aotPython,
  compilerState,
  type EnvironmentCatalog,
  EnvironmentError,
  pythonOfEnvironment,
  runProgram,
  UvProgress
} from '@tpulab/machines/environments';
import type { RootFolder } from '../files/root-folder.js';
import { isWithheld } from '../kernels/kernel-env.js';
import { BridgeError, bridgeError } from '@tpulab/platform/errors.js';
import { asObject, jsonIn } from '@tpulab/platform/json-text.js';
import { makeFolder, readIfThere } from '@tpulab/platform/missing-files.js';
import { NamedJobs, type RunningJob } from '@tpulab/platform/named-jobs.js';
import { writeAtomically } from '@tpulab/platform/write-atomically.js';

/** Time limit in seconds for running the notebook on the CPU; programs after it are not checked. */
const RUN_LIMIT_S = 600;
/** Time limit for the whole check: the longest program of the recipes compiles in 83 s on a busy machine. */
const CHECK_LIMIT_MS = 60 * 60_000;
/** Lines of output; the report is the last one. */
const MAX_LINES = 20;
/** Reports; the oldest ones beyond this number are deleted. */
const MAX_STORED = 200;
/** The `tpulab` command, which uses a machine through this server. */
const PROGRAM = fileURLToPath(new URL('../../bin/tpulab.js', import.meta.url));
/** "compiling train_step for v5e-8 (3 of 20)" */
const PROGRESS_LINE = /^(.*) \((\d+) of (\d+)\)$/;

interface NotebookChecksOptions {
  readonly catalog: EnvironmentCatalog;
  readonly files: Pick<RootFolder, 'read'>;
  readonly rootDir: string;
  readonly folder: string;
  readonly stateDir: string;
  /** Names of the connected machines. */
  readonly machines: () => readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

type JobOfCheck = Pick<NotebookCheck, 'state' | 'error' | 'startedAt' | 'detail' | 'fraction'>;
/** A check as it is stored in a file: with a hash of the notebook's code. */
type Stored = StoredCheck & { readonly code: string };

const IDLE: JobOfCheck = { state: 'idle', error: null, startedAt: null, detail: null, fraction: null };

export class NotebookChecks implements AsyncDisposable {
  readonly #jobs = new NamedJobs<JobOfCheck>(error => ({
    code: error instanceof BridgeError || error instanceof EnvironmentError ? error.code : 'internal',
    message: error instanceof Error ? error.message : String(error)
  }));
  #running: string | null = null;
  #isStoring = false;

  constructor(private readonly options: NotebookChecksOptions) {}

  /** @throws BridgeError `file_…` */
  async status(notebook: string): Promise<NotebookCheck> {
    const compiler = await compilerState(this.options.catalog, this.options.env);
    const machines = [...this.options.machines()];
    const job = this.#jobs.status(notebook) ?? IDLE;
    const stored = await this.#readStored(notebook);
    if (job.state === 'running') {
      if (this.#isStoring) await this.#jobs.ended(notebook);
      // The report may be the one of this check, which has ended.
      if (this.#jobs.status(notebook)?.state !== 'running') return this.status(notebook);
    }
    if (stored === null) return { ...job, compiler, machines, last: null };
    // A running check will itself show whether the code has changed.
    const hash = job.state === 'running' ? null : codeOf(await this.#text(notebook))?.hash;
    const isCurrent = hash === stored.code;
    const last = Value.Clean(StoredCheck, { ...stored, isCurrent }) as StoredCheck;
    return { ...job, compiler, machines, last };
  }

  /** The report, as the check printed it. @throws BridgeError `file_…` */
  async report(notebook: string): Promise<unknown> {
    return (await this.#stored(notebook)).report;
  }

  /** @throws BridgeError `file_…`, `invalid_request`, `disk_full` */
  async setPrices(notebook: string, { chipHourUsd }: PriceChange): Promise<NotebookCheck> {
    const stored = await this.#stored(notebook);
    const { own } = stored.report.prices;
    if (own === null)
      throw bridgeError('invalid_request', 'tpulab.toml names the price list; change that one.');
    const date = new Date().toISOString().slice(0, 10);
    const comments = ((await readIfThere(own)) ?? '').split('\n').filter(line => line.startsWith('#'));
    const prices = Object.entries(chipHourUsd).map(([kind, usd]) => `${kind} = ${usd.toFixed(4)}`);
    const lines = [...comments, `date = ${date}`, '', '[chip_hour_usd]', ...prices.toSorted()];
    await makeFolder(path.dirname(own));
    await writeAtomically(own, `${lines.join('\n')}\n`);
    const report = { ...stored.report, prices: { ...stored.report.prices, date, chipHourUsd } };
    await this.#store(notebook, { ...stored, report });
    return this.status(notebook);
  }

  /** @throws BridgeError `check_busy`, `file_…` */
  async start(notebook: string, request: CheckRequest): Promise<NotebookCheck> {
    const text = await this.#text(notebook);
    const code = codeOf(text);
    if (code === null) throw bridgeError('invalid_request', `${notebook} is not a notebook.`);
    if (this.#running !== null) throw bridgeError('check_busy', this.#running);
    this.#running = notebook;
    this.#jobs.start(notebook, { ...IDLE, state: 'running', startedAt: Date.now() }, job =>
      this.#check(notebook, request, { text, ...code }, job).finally(() => {
        this.#running = null;
        this.#isStoring = false;
      })
    );
    return this.status(notebook);
  }

  /** Resolves after its processes have ended. */
  async cancel(notebook: string): Promise<NotebookCheck> {
    await this.#jobs.cancel(notebook);
    return this.status(notebook);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#jobs[Symbol.asyncDispose]();
  }

  async #text(notebook: string): Promise<string> {
    return (await this.options.files.read(notebook)).bytes.toString('utf8');
  }

  async #check(
    notebook: string,
    { chips, propose, saveCompiled, on }: CheckRequest,
    { text, cellIds, hash }: Code & { readonly text: string },
    job: RunningJob<JobOfCheck>
  ): Promise<void> {
    const { rootDir, env, stateDir } = this.options;
    const { signal } = job;
    const file = path.join(rootDir, notebook);
    const options = ['--chips', chips, '--limit', String(RUN_LIMIT_S), '--json'];
    if (propose === true) options.push('--propose');
    // Placed before another option, because its value may be missing.
    if (saveCompiled === true) options.push('--save-compiled');
    const command = on === undefined ? await this.#install(job) : process.execPath;
    const result = await runProgram({
      command,
      args:
        on === undefined
          ? ['-m', 'tpulab.check', ...options, '--python', await this.#pythonFor(text, command), file]
          : [PROGRAM, 'check', ...options, '--on', on, '--yes', '--state-dir', stateDir, '--', file],
      env: {
        ...Object.fromEntries(Object.entries(env).filter(([name]) => !isWithheld(name))),
        PYTHONUNBUFFERED: '1',
        // This process may be killed before it can end the check.
        TPULAB_END_WITH_PARENT: '1'
      },
      ...{ cwd: path.dirname(file), signal, timeoutMs: CHECK_LIMIT_MS, maxLines: MAX_LINES },
      onLine: line => job.change(progressIn(line))
    });
    signal.throwIfAborted();
    if (result.timedOut)
      throw bridgeError('check_failed', `The check was ended after ${CHECK_LIMIT_MS / 60_000} minutes.`);
    const report = jsonIn(result.stdout.at(-1));
    const { message } = asObject(asObject(report)['error']);
    if (typeof message === 'string') throw bridgeError('check_failed', message);
    if (!Value.Check(CheckReport, report)) {
      const last = result.stderr.at(-1) ?? `exit code ${result.exitCode ?? 'none'}`;
      throw bridgeError('check_failed', `The check gave no report; its last line is: ${last}`);
    }
    this.#isStoring = true;
    await this.#store(notebook, {
      ...{ checkedAt: Date.now(), chips, isCurrent: true, cellIds, report, code: hash }
    });
  }

  /** Resolves with the Python of the compiler's environment, which is first installed if it is missing. */
  #install(job: RunningJob<JobOfCheck>): Promise<string> {
    const uv = new UvProgress();
    const progress = {
      stage: (detail: string) => job.change({ detail }),
      detail: (line: string) => {
        const detail = uv.line(line);
        job.change({ ...(detail !== '' && { detail }), fraction: uv.fraction });
      },
      stageDone: () => job.change({ fraction: null })
    };
    return aotPython(this.options.catalog, {
      ...{ env: this.options.env, print: () => undefined, progress },
      signal: job.signal
    });
  }

  /**
   * The Python of the environment whose kernel the notebook names, because its packages are there; otherwise the compiler's
   * own, which has JAX, Flax and Optax.
   */
  async #pythonFor(text: string, compiler: string): Promise<string> {
    const kernel = kernelOf(asObject(asObject(jsonIn(text))['metadata'])).name;
    const found = (await this.options.catalog.list()).find(
      ({ kernelspec, state }) => kernelspec === kernel && (state === 'ready' || state === 'outdated')
    );
    return found === undefined ? compiler : pythonOfEnvironment(this.options.catalog, found.name);
  }

  #file(notebook: string): string {
    return path.join(this.options.folder, `${createHash('sha256').update(notebook).digest('hex')}.json`);
  }

  async #readStored(notebook: string): Promise<Stored | null> {
    const stored = jsonIn(await readIfThere(this.#file(notebook)));
    return Value.Check(StoredCheck, stored) ? (stored as Stored) : null;
  }

  async #stored(notebook: string): Promise<Stored> {
    const stored = await this.#readStored(notebook);
    if (stored === null) throw bridgeError('file_not_found', `a report of ${notebook}`);
    return stored;
  }

  async #store(notebook: string, stored: Stored): Promise<void> {
    const { folder } = this.options;
    await makeFolder(folder, 0o700);
    await writeAtomically(this.#file(notebook), stored);
    const files = (await readdir(folder)).map(name => path.join(folder, name));
    const filesByAge = await Promise.all(files.map(async file => ({ file, at: (await stat(file)).mtimeMs })));
    const oldest = filesByAge.sort((one, other) => other.at - one.at).slice(MAX_STORED);
    await Promise.all(oldest.map(({ file }) => rm(file, { force: true })));
  }
}

interface Code {
  readonly cellIds: string[];
  readonly hash: string;
}

/** Null for a text that is not a notebook. */
function codeOf(text: string): Code | null {
  try {
    const { codeCells } = new NotebookText(text);
    const sources = JSON.stringify(codeCells.map(({ source }) => source));
    const hash = createHash('sha256').update(sources).digest('hex');
    return { cellIds: codeCells.map(({ id }) => id), hash };
  } catch {
    return null;
  }
}

function progressIn(line: string): Partial<JobOfCheck> {
  const [, detail, done, of] = PROGRESS_LINE.exec(line) ?? [];
  if (detail !== undefined) return { detail, fraction: Number(done) / Number(of) };
  return /^(running|compiling) /.test(line) ? { detail: line } : {};
}
