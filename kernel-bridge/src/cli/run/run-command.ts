/** `tpulab execute`: runs a notebook top to bottom on a remote, whether or not this terminal stays open. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { chooseKernel, kernelOf, NotebookText } from '@tpulab/protocol';
import { Command, InvalidArgumentError, Option } from 'commander';
import { chosenStateFolder, RunningGateway, type StateOptions } from '../running-gateway.js';
import { CommandError, interruptible, print, type Streams } from '../output.js';
import { SLICE_ENVIRONMENTS, SLICE_KERNELS } from '@tpulab/machines';
import { INDEX_LIMITS } from '../../outputs/index.js';
import { NotebookFile } from '../outputs/notebook-file.js';
import { BridgeCalls, parametersCode, parameterValue, sessionPath } from './bridge-calls.js';
import { followRun } from './follow-run.js';
import { type Follow, RESTARTS, RunFile, type RunRecord, shownRun } from './rerun.js';

interface RunOptions extends StateOptions {
  readonly on?: string;
  readonly kernel?: string;
  readonly detach?: true;
  readonly attach?: true;
  readonly keepKernel?: true;
  readonly restarts?: number;
  readonly parameter?: readonly string[];
  readonly parameters?: string;
}

interface BeginOptions extends RunOptions {
  readonly variables: Readonly<Record<string, unknown>>;
}

const TAGS = `
Cell tags: raises-exception (an error is expected, the run continues), skip-execution (the cell is not run),
parameters (the cell after which -p and --parameters put their values, as papermill does).`;

/** SIGHUP is missing: closing the terminal does not interrupt the run. */
const INTERRUPTIONS = ['SIGINT', 'SIGTERM'] as const;
/** The shell's exit code for Ctrl+C: the result of the notebook is not known yet. */
const INTERRUPTED = 130;

/** The index of a kernel's outputs forgets the oldest executions at its limit, a tenth at once. */
const MOST_CELLS = 0.9 * INDEX_LIMITS.executions;

/** Attributes of options that apply only when a run starts. */
const START_OPTIONS = ['detach', 'kernel', 'keepKernel', 'parameter', 'parameters'];

function count(text: string): number {
  if (!/^\d{1,3}$/.test(text)) throw new InvalidArgumentError('It takes a number from 0 to 999.');
  return Number(text);
}

type StartFollower = (args: readonly string[]) => void;

export function runCommand(
  streams: Streams,
  startFollower: StartFollower = inBackground,
  { awayPollMs }: Pick<Follow, 'awayPollMs'> = {}
): Command {
  return new Command('execute')
    .description('run all cells of a notebook, here or on a machine, and save outputs as they arrive')
    .argument('[notebook]', 'notebook on this computer')
    .addHelpText('after', TAGS)
    .option('--on <name>', 'the machine, as "tpulab machine ls" shows it (default: this computer)')
    .option(
      '--kernel <name>',
      "kernelspec on the machine (default: the notebook's, else the first one found)"
    )
    .option(
      '-p, --parameter <name value...>',
      "set a variable after the cell tagged 'parameters'; repeatable"
    )
    .option('--parameters <file>', 'set variables from a YAML or JSON file; -p wins')
    .option('--detach', 'return at once and save outputs in the background')
    .addOption(
      new Option('--attach', 'follow a detached run and exit with its result').conflicts(START_OPTIONS)
    )
    .option('--keep-kernel', 'leave the kernel and its variables running afterwards')
    .option(
      '--restarts <count>',
      `on a slice, maximum reruns after losing a host (default: ${RESTARTS}; 0: never); with --attach from now on`,
      count
    )
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action((named: string | undefined, options: RunOptions) =>
      interruptible(async signal => {
        const { requested, parameters } = await given(named, options);
        const stateDir = await chosenStateFolder(options.stateDir);
        const gateway = await RunningGateway.find(stateDir);
        const remote = options.on ?? null;
        const { path: notebook } = await NotebookFile.read(requested);
        const calls = new BridgeCalls(gateway, remote);
        const file = new RunFile(stateDir, notebook, remote);
        const record =
          options.attach === true
            ? await startedRun(file, requested, options)
            : await begin(calls, file, notebook, { ...options, variables: parameters });
        const again = `tpulab execute ${requested} --attach${remote === null ? '' : ` --on ${remote}`}`;
        if (options.detach === true) {
          startFollower([
            ...['execute', notebook, '--attach', '--json', '--state-dir', stateDir],
            ...(remote === null ? [] : ['--on', remote])
          ]);
          print(
            streams,
            options,
            shownRun(record),
            `${requested} runs as kernel ${record.kernelId}. Follow it with "${again}".`
          );
          return;
        }
        using _ = survivingTerminal();
        if (options.attach !== true) await printFolder(calls, record, requested, streams);
        const note = (text: string): void => {
          if (options.json !== true) streams.stderr.write(`${text}\n`);
        };
        for (const { at, reason } of record.again?.losses ?? []) note(`${at}: ${reason}. It was rerun.`);
        const ended =
          record.endedAt === null
            ? await followRun({ calls, file, record, signal, note, awayPollMs })
            : record;
        if (ended === null) {
          const end = remote === null ? ` End it with "tpulab kernels stop ${record.kernelId}".` : '';
          note(`Stopped following; ${requested} keeps running. Follow it with "${again}".${end}`);
          process.exitCode = INTERRUPTED;
          return;
        }
        const shows = `"tpulab outputs ${ended.kernelId}${remote === null ? '' : ` --machine ${remote}`}"`;
        if (typeof ended.problem === 'string') {
          throw new CommandError(
            'notebook_not_written',
            `${ended.failure ?? `All cells of ${requested} have run.`} ${ended.problem} ${shows} shows the outputs, and with --into writes them.`
          );
        }
        if (ended.failure !== null) {
          throw new CommandError(
            'notebook_failed',
            `${ended.failure} The outputs so far are in ${requested}.`
          );
        }
        const skipped =
          ended.skipped === undefined || ended.skipped === 0 ? '' : ` ${cellsSkipped(ended.skipped)}.`;
        // Printed to the same stream as the cell lines, so that one stream shows the whole run; JSON uses the other stream.
        const { leftOut = 0 } = ended;
        const except =
          leftOut === 0
            ? ''
            : `, except those of ${leftOut} ${leftOut === 1 ? 'cell' : 'cells'} edited or removed meanwhile; ${shows} shows them`;
        note(`${requested} finished; it contains the outputs${except}.${skipped}`);
        if (options.json === true) print(streams, options, shownRun(ended), '');
      }, INTERRUPTIONS)
    );
}

async function startedRun(
  file: RunFile,
  requested: string,
  { on, restarts }: RunOptions
): Promise<RunRecord> {
  const record = await file.read();
  if (record?.again && record.endedAt === null && restarts !== undefined) {
    const changed = { ...record, again: { ...record.again, most: restarts } };
    await file.write(changed);
    return changed;
  }
  if (record) return record;
  throw new CommandError(
    'run_unknown',
    `No run of ${requested} ${on === undefined ? 'here' : `on ${on}`} was started from this machine; run it without --attach.`
  );
}

/** The notebook and the values; for \`-p NAME VALUE\`, the last word may be the notebook, if it follows them. */
async function given(
  named: string | undefined,
  { parameter = [], parameters }: RunOptions
): Promise<{ requested: string; parameters: Readonly<Record<string, unknown>> }> {
  const rest = [...parameter];
  const requested = named ?? (rest.length % 2 === 1 ? rest.pop() : undefined);
  if (requested === undefined || rest.length % 2 === 1) {
    throw new CommandError(
      'run_not_started',
      requested === undefined
        ? 'Name a notebook: tpulab execute NOTEBOOK.'
        : 'Each -p takes a name and a value: -p rate 0.1.'
    );
  }
  // Few runs need the YAML parser, so it is loaded on demand.
  const { valuesIn } = await import('./values-file.js');
  const values: Record<string, unknown> = parameters === undefined ? {} : await valuesIn(parameters);
  for (let at = 0; at < rest.length; at += 2) values[rest[at] ?? ''] = parameterValue(rest[at + 1] ?? '');
  return { requested, parameters: values };
}

async function begin(
  calls: BridgeCalls,
  file: RunFile,
  notebook: string,
  options: BeginOptions
): Promise<RunRecord> {
  const opened = await NotebookFile.read(notebook);
  // Fail before the first cell runs, not after hours.
  await opened.checkWritable();
  let parsed = opened.notebook;
  const { kernelName, isPython } = await kernelFor(calls, parsed.metadata(), options);
  if (Object.keys(options.variables).length > 0) {
    if (!isPython)
      throw new CommandError(
        'run_not_started',
        `Parameters are written in Python, and ${kernelName} is not.`
      );
    parsed = await withParameters(notebook, options.variables);
  }
  const code = parsed.codeCells.filter(({ source }) => source.trim() !== '');
  const cells = code
    .filter(({ tags }) => !tags.includes('skip-execution'))
    .map(({ id, source, tags }) => ({
      id,
      source,
      ...(tags.includes('raises-exception') && { mayRaise: true })
    }));
  if (cells.length === 0)
    throw new CommandError('notebook_unusable', `${notebook} has no code cells to run.`);
  if (cells.length > MOST_CELLS) {
    throw new CommandError(
      'run_not_started',
      `${notebook} has ${cells.length} code cells, and a run has at most ${MOST_CELLS}; divide it, or join cells.`
    );
  }
  const path = sessionPath(await realpath(notebook));
  const before = (await calls.sessions()).find(session => session.path === path);
  if (before) await endBefore(calls, before.id, before.kernel.id, notebook);
  const folder = options.on === undefined ? dirname(notebook) : null;
  const record: RunRecord = {
    notebook,
    remote: options.on ?? null,
    ...(await calls.start({ path, kernelName, isPython, folder }, cells)),
    keepKernel: options.keepKernel === true,
    startedAt: new Date().toISOString(),
    skipped: code.length - cells.length,
    again: { kernelName, isPython, cells, most: options.restarts ?? RESTARTS, losses: [] },
    failure: null,
    endedAt: null
  };
  await file.write(record);
  return record;
}

const INJECTED = 'injected-parameters';

/**
 * Writes the parameters as papermill does: in a separate cell after the cell with the defaults, replacing the cell of an
 * earlier run.
 */
async function withParameters(
  notebook: string,
  variables: Readonly<Record<string, unknown>>
): Promise<NotebookText> {
  const file = await NotebookFile.read(notebook);
  const content = file.notebook.content();
  const tagged = (tag: string): number =>
    file.notebook.codeCells.find(({ tags }) => tags.includes(tag))?.index ?? -1;
  let source: string;
  try {
    source = parametersCode(variables);
  } catch (cause) {
    throw new CommandError(
      'run_not_started',
      `${cause instanceof Error ? cause.message : ''}; use a name of Python.`,
      { cause }
    );
  }
  const [old, defaults] = [tagged(INJECTED), tagged('parameters')];
  const id = content.cells[old]?.id ?? `parameters-${randomUUID().slice(0, 8)}`;
  const cell = {
    cell_type: 'code',
    execution_count: null,
    id,
    metadata: { tags: [INJECTED] },
    outputs: [],
    source
  };
  content.cells.splice(old >= 0 ? old : defaults + 1, old >= 0 ? 1 : 0, cell);
  const text = file.notebook.withContent(content);
  await file.replace(text, { backup: false });
  return new NotebookText(text);
}

const cellsSkipped = (count: number): string =>
  `${count} ${count === 1 ? 'cell was' : 'cells were'} skipped (tag skip-execution)`;

/** Files beside the notebook are found only if the kernel runs in its folder. */
async function printFolder(
  calls: BridgeCalls,
  { kernelId, notebook, remote }: RunRecord,
  requested: string,
  streams: Streams
): Promise<void> {
  const folder = await calls.folderOf(kernelId);
  if (folder === null || folder === dirname(notebook)) return;
  const where = remote === null ? 'here' : `on ${remote}`;
  streams.stderr.write(`${requested} runs in ${folder} ${where}, as its own folder is not there.\n`);
}

/** Each run begins with a new kernel, but a kernel that is still computing is not ended. */
async function endBefore(
  calls: BridgeCalls,
  sessionId: string,
  kernelId: string,
  notebook: string
): Promise<void> {
  const { executions, alive } = await calls.outputs(kernelId, 0);
  if (alive && executions.some(({ state }) => state === 'queued' || state === 'running')) {
    throw new CommandError(
      'run_in_progress',
      `${notebook} is already running on the machine, as kernel ${kernelId}. Follow it with --attach, or end it with "tpulab kernels".`
    );
  }
  await calls.end(sessionId);
}

/** Prefix of our environments' kernelspecs. */
const SPEC_PREFIX = 'tpulab-';

async function kernelFor(
  calls: BridgeCalls,
  metadata: Readonly<Record<string, unknown>>,
  { kernel: requested, on }: RunOptions
): Promise<{ kernelName: string; isPython: boolean }> {
  const { default: first, kernelspecs } = await calls.specs();
  const chosen = (kernelName: string): { kernelName: string; isPython: boolean } => ({
    kernelName,
    isPython: kernelspecs[kernelName]?.spec.language.toLowerCase() === 'python'
  });
  const names = Object.keys(kernelspecs);
  const there = names.length === 0 ? 'there is none' : `there are ${names.join(', ')}`;
  const refused = (why: string): CommandError => new CommandError('run_not_started', why);
  if (requested !== undefined) {
    if (names.includes(requested)) return chosen(requested);
    throw refused(`There is no kernel "${requested}" there; ${there}.`);
  }
  const specName = kernelOf(metadata);
  const { name } = specName;
  // A user who connects all hosts of a slice wants all chips; --kernel can select the first host's chips alone.
  const [slice, ...more] = Object.values(kernelspecs).filter(
    each =>
      each.name.startsWith(SLICE_KERNELS) &&
      (name === '' || name === `${SPEC_PREFIX}${SLICE_ENVIRONMENTS[each.spec.metadata.framework ?? 'jax']}`)
  );
  if (on !== undefined && slice !== undefined && more.length === 0) return chosen(slice.name);
  const languages = new Map(Object.values(kernelspecs).map(each => [each.name, each.spec.language]));
  const choice = chooseKernel(specName, languages, first);
  if (choice.kind === 'found') return chosen(choice.name);
  const environment = name.startsWith(SPEC_PREFIX)
    ? name.slice(SPEC_PREFIX.length)
    : names.length === 0
      ? 'jax'
      : null;
  const remedy =
    environment === null
      ? ': install it there'
      : on === undefined
        ? `: "tpulab env create ${environment}" makes it`
        : `: "tpulab connect ${on} --environment ${environment}" installs it`;
  const language = specName.displayName === '' ? '' : ` (${specName.displayName})`;
  throw refused(
    `The notebook needs the kernel "${name || first}"${language}, which is missing there${remedy}. --kernel chooses another; ${there}. The file was not changed.`
  );
}

/** Lets the process outlive its terminal: outputs are still written into the notebook. */
function survivingTerminal(): Disposable {
  const ignore = (): void => undefined;
  const outputs = [process.stdout, process.stderr];
  process.on('SIGHUP', ignore);
  for (const stream of outputs) stream.on('error', ignore);
  return {
    [Symbol.dispose]: () => {
      process.off('SIGHUP', ignore);
      for (const stream of outputs) stream.off('error', ignore);
    }
  };
}

function inBackground(args: readonly string[]): void {
  const [, script] = process.argv;
  if (script === undefined) throw new TypeError('a command has a script');
  spawn(process.execPath, [script, ...args], { detached: true, stdio: 'ignore' }).unref();
}
