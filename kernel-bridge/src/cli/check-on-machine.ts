/**
 * `tpulab check --on MACHINE`: copies the source's folder to the machine, runs the check there, and brings its results
 * back.
 */
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir, hostname, tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import type { SyncRequest } from '@tpulab/protocol';
import { script, SshShell } from '@tpulab/machines';
import { forTerminal, plainText } from '@tpulab/platform/plain-text.js';
import { isWithin } from '@tpulab/platform/paths.js';
import { agree, CommandError, type ConfirmOptions, type Streams } from './output.js';
import type { RemoteCalls } from './remotes/remote-calls.js';
import { copyFolder, filesText } from './remotes/sync-command.js';

/** Larger copies are confirmed first. */
const LARGE_BYTES = 100e6;
const LARGE_FILES = 5_000;
const SMALL_STEP_MS = 60_000;
/** Options whose values are files on this computer. */
const INPUTS = ['prices', 'config', 'compare'] as const;
const OUTPUTS = ['json', 'junit', 'sarif', 'saveCompiled'] as const;

export type FileOptions = Partial<Record<(typeof INPUTS)[number], string>> &
  Partial<Record<(typeof OUTPUTS)[number], string | true>>;

export function isFile(option: string): boolean {
  return [...INPUTS, ...OUTPUTS].some(name => name === option);
}

interface CheckOnMachine {
  readonly calls: RemoteCalls;
  readonly machine: string;
  readonly source: string;
  readonly files: FileOptions;
  /** The other options, and the arguments of a script. */
  readonly options: readonly string[];
  readonly rest: readonly string[];
  readonly confirm: Pick<ConfirmOptions, 'yes'>;
  readonly streams: Streams;
  readonly signal: AbortSignal;
}

/** The working directory if the source is in it, because scripts read files below it; otherwise the folder of the source. */
export function copiedFolder(source: string, home = homedir()): string {
  const here = process.cwd();
  const isCopied = isWithin(here, path.resolve(source)) && ![path.parse(here).root, home].includes(here);
  return isCopied ? here : path.dirname(path.resolve(source));
}

/** Resolves with the check's exit code. @throws GatewayRefusal, RemoteProblem, CommandError */
export async function checkOnMachine(check: CheckOnMachine): Promise<number> {
  const { calls, machine, source, files, streams, signal } = check;
  const note = (text: string): void => void streams.stderr.write(`${text}\n`);
  const { program, controlPath } = await calls.ssh(machine);
  const shell = new SshShell({ program, controlPath, host: machine });
  const folder = copiedFolder(source);
  const there = await copied(check, folder, note);
  const run = `${there}-${randomUUID()}`;
  const small = { signal, timeoutMs: SMALL_STEP_MS };
  const received = await mkdtemp(path.join(tmpdir(), 'tpulab-check-'));
  const input = new PassThrough();
  try {
    await shell.run('umask 077 && mkdir -p -- "$1"', [`${run}/in`], small);
    const place = async (name: string, file: string): Promise<string> => {
      const at = path.resolve(file);
      if (isWithin(folder, at)) return posix(path.relative(folder, at));
      await shell.upload(at, `${run}/in/${name}`, { signal });
      return `${run}/in/${name}`;
    };
    const args = [...check.options];
    for (const [name, file] of Object.entries(inputsOf(source, folder, files))) {
      args.push(`--${name}=${await place(name, file)}`);
    }
    const wanted = new Map(
      OUTPUTS.flatMap(name => {
        const file = fileOf(name, source, files);
        return file === null ? [] : [[name, file]];
      })
    );
    for (const name of wanted.keys())
      args.push(`--${name === 'saveCompiled' ? 'save-compiled' : name}=${run}/out/${name}`);
    if (files.json === true) args.push('--json');
    const own = path.join(homedir(), '.config/tpulab/prices.toml');
    const prices = existsSync(own) ? await place('own-prices', own) : '';
    const pid = await calls.pid(machine);
    args.push('--', posix(path.relative(folder, path.resolve(source))), ...check.rest);
    note(`checking ${source} on ${machine}`);
    const { code, stderr } = await shell.stream(
      script('check.sh'),
      [String(pid), there, `${run}/out`, posix(path.normalize(source)), prices, ...args],
      { signal, stdin: input, onLine: line => note(plainText(line)) }
    );
    if (stderr !== '') note(plainText(stderr));
    const request = { localFolder: received, remoteFolder: `${run}/out`, direction: 'from-remote' } as const;
    await copyFolder(calls, machine, request, () => undefined);
    const names = new Map([...wanted].map(([name, file]) => [`${run}/out/${name}`, file]));
    await fetchResults(received, wanted, names.set(there, folder), streams);
    return code;
  } finally {
    input.end();
    await rm(received, { recursive: true, force: true });
    // Even after an interruption; if the connection is lost, the folder remains on the machine.
    await shell
      .run('rm -rf -- "$1"', [run], { signal: AbortSignal.timeout(SMALL_STEP_MS), timeoutMs: SMALL_STEP_MS })
      .catch(() => undefined);
  }
}

/** Copies into a folder below the user's cache folder there; files that are missing here are deleted there. */
async function copied(check: CheckOnMachine, folder: string, note: (text: string) => void): Promise<string> {
  const { calls, machine, confirm, streams } = check;
  const id = createHash('sha256').update(`${hostname()}\n${folder}`).digest('hex').slice(0, 16);
  const request: SyncRequest = {
    ...{ localFolder: folder, remoteFolder: `~/.cache/tpulab/checks/${id}` },
    direction: 'to-remote',
    delete: true
  };
  const { bytes, files } = await calls.planSync(machine, request);
  if (bytes > LARGE_BYTES || files > LARGE_FILES) {
    const plan = `${filesText(files)}, ${(bytes / 1e6).toFixed(0)} MB of ${folder} are copied to ${machine}; in a folder that contains only the source and what it needs there would be fewer.`;
    await agree(streams, confirm, { plan, question: `Copy them?` });
  }
  const { remoteFolder, leftOut } = await copyFolder(calls, machine, request, note);
  for (const { path: file, reason } of leftOut) note(`not copied: ${file} (${reason})`);
  return remoteFolder;
}

/** Includes the nearest tpulab.toml above the folder, which the check there would not find. */
function inputsOf(source: string, folder: string, files: FileOptions): Record<string, string> {
  const named = INPUTS.flatMap(name => (files[name] === undefined ? [] : [[name, files[name]] as const]));
  const found: Record<string, string> = Object.fromEntries(named);
  for (let at = path.dirname(path.resolve(source)); found['config'] === undefined; at = path.dirname(at)) {
    const file = path.join(at, 'tpulab.toml');
    if (existsSync(file)) {
      if (isWithin(folder, file)) break;
      found['config'] = file;
    }
    if (at === path.dirname(at)) break;
  }
  return found;
}

function fileOf(name: (typeof OUTPUTS)[number], source: string, files: FileOptions): string | null {
  const file = files[name];
  if (name !== 'saveCompiled' || file !== true) return typeof file === 'string' ? file : null;
  return path.join(path.dirname(source), '.tpulab-compiled', `${path.parse(source).name}.compiled`);
}

/** Writes the results to the requested files, with names of this computer in their texts. */
async function fetchResults(
  received: string,
  wanted: ReadonlyMap<string, string>,
  names: ReadonlyMap<string, string>,
  { stdout }: Streams
): Promise<void> {
  const named = (text: string, escape: (name: string) => string): string => {
    let result = text;
    for (const [there, here] of names) result = result.replaceAll(there, escape(here));
    return result;
  };
  const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);
  const present = new Set(await readdir(received));
  for (const [name, file] of wanted) {
    if (!present.has(name)) continue;
    const bytes = await readFile(path.join(received, name));
    const escape = name === 'junit' ? inXml : inJson;
    const content = name === 'saveCompiled' ? bytes : named(bytes.toString('utf8'), escape);
    try {
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, content);
    } catch (cause) {
      throw new CommandError('export_not_written', `${file} cannot be written.`, { cause });
    }
  }
  const printed = present.has('printed') ? await readFile(path.join(received, 'printed'), 'utf8') : '';
  stdout.write(forTerminal(named(printed, printed.startsWith('{') ? inJson : text => text)));
}

function inXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}

function posix(file: string): string {
  return file.split(path.sep).join('/');
}
