/** For specs: a "host" that is this machine with another home folder and PATH, reached without ssh. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import {
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile
} from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { RemoteShell, ShellOptions, ShellResult } from '../../machine.js';

/** Programs of a plain Linux that our scripts may use; no Node, and only an old Python. */
const PROGRAMS = [
  ...[
    'sh',
    'bash',
    'env',
    'id',
    'uname',
    'getconf',
    'date',
    'stat',
    'df',
    'du',
    'dirname',
    'basename',
    'readlink',
    'ls',
    'cat',
    'cp'
  ],
  ...[
    'mkdir',
    'mv',
    'rm',
    'rmdir',
    'chmod',
    'ln',
    'wc',
    'cut',
    'tr',
    'sed',
    'grep',
    'head',
    'tail',
    'sleep',
    'kill',
    'sha256sum',
    'touch'
  ],
  ...[
    'flock',
    'find',
    'setsid',
    'nohup',
    'tar',
    'gzip',
    'curl',
    'wget',
    'unzip',
    'tee',
    'sort',
    'uname',
    'ldd',
    'true',
    'false'
  ]
];

/** The connection is lost; programs there may continue or end. */
export class CutError extends Error {
  override readonly name = 'CutError';
  readonly code = 'cut';
}

interface LocalHostOptions {
  /** Additional variables for programs there. */
  readonly env?: Readonly<Record<string, string>>;
  /** Programs that are removed from PATH. */
  readonly without?: readonly string[];
  /** The program `python3` there; null: none. */
  readonly python?: string | null;
}

export class LocalHost implements AsyncDisposable {
  readonly host = 'local-host';
  /** Called before each script and upload; may throw, or cut the connection later. */
  onCall: (what: { readonly kind: 'run' | 'upload'; readonly text: string }) => void = () => undefined;
  readonly #children = new Set<ChildProcess>();
  #cut: ((error: Error) => void)[] = [];

  private constructor(
    readonly home: string,
    readonly env: Readonly<Record<string, string>>
  ) {}

  static async make({ env = {}, without = [], python = null }: LocalHostOptions = {}): Promise<LocalHost> {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-host-'));
    const [home, bin] = [path.join(folder, 'home'), path.join(folder, 'bin')];
    await mkdir(home);
    await mkdir(bin);
    for (const name of PROGRAMS) {
      const real = ['/usr/bin', '/bin'].map(place => path.join(place, name)).find(file => existsSync(file));
      if (real !== undefined && !without.includes(name))
        await symlink(real, path.join(bin, name)).catch(() => undefined);
    }
    if (python !== null) await symlink(python, path.join(bin, 'python3'));
    return new LocalHost(home, { HOME: home, PATH: bin, LANG: 'C.UTF-8', USER: 'somebody', ...env });
  }

  get shell(): RemoteShell {
    return {
      host: this.host,
      run: (script, args, options) => this.#run(script, args, options),
      upload: (local, remote, options) => this.#upload(local, remote, options)
    };
  }

  /** Simulates a network failure: programs no longer report their results. */
  cut(): void {
    const cuts = this.#cut;
    this.#cut = [];
    for (const reject of cuts) reject(new CutError('the connection is gone'));
  }

  async read(file: string): Promise<string> {
    return readFile(path.join(this.home, file), 'utf8');
  }

  /** The entries of a folder there, sorted; empty if it does not exist. */
  async list(folder: string): Promise<string[]> {
    return (await readdir(path.join(this.home, folder)).catch((): string[] => [])).sort();
  }

  async write(file: string, text: string): Promise<void> {
    const at = path.join(this.home, file);
    await mkdir(path.dirname(at), { recursive: true });
    await writeFile(at, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) if (child.pid !== undefined) endGroup(child.pid);
    await rm(path.dirname(this.home), { recursive: true, force: true, maxRetries: 5 });
  }

  async #run(script: string, args: readonly string[], options: ShellOptions): Promise<ShellResult> {
    this.onCall({ kind: 'run', text: script });
    options.signal.throwIfAborted();
    const child = spawn('/bin/sh', ['-c', script, 'sh', ...args], {
      cwd: this.home,
      env: this.env,
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true
    });
    this.#children.add(child);
    child.stdin.on('error', () => undefined).end(options.stdin ?? '');
    let stdout = '';
    let stderr = '';
    createInterface({ input: child.stdout }).on('line', line => {
      stdout += `${line}\n`;
      options.onLine?.(line);
    });
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const ended = new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', code => resolve(code ?? 255));
    });
    const settled = new AbortController();
    try {
      const code = await Promise.race([ended, this.#broken(options, settled.signal)]);
      return { code, stdout, stderr };
    } catch (error) {
      ended.catch(() => undefined);
      if (child.pid !== undefined) endGroup(child.pid);
      throw error;
    } finally {
      settled.abort();
      this.#children.delete(child);
    }
  }

  async #upload(
    local: string,
    remote: string,
    { signal, onProgress }: Parameters<RemoteShell['upload']>[2]
  ): Promise<void> {
    this.onCall({ kind: 'upload', text: remote });
    signal.throwIfAborted();
    await mkdir(path.dirname(remote), { recursive: true });
    // A unique name, because two setups may send the same file at the same time.
    const part = `${remote}.${randomUUID()}.partial`;
    await copyFile(local, part);
    await rename(part, remote);
    onProgress?.(1, 1);
  }

  /** Rejects when the connection is lost; `settled` ends the watch. */
  #broken({ signal, timeoutMs }: ShellOptions, settled: AbortSignal): Promise<never> {
    return new Promise((_, reject) => {
      this.#cut.push(reject);
      const abort = (): void => reject(signal.reason as Error);
      signal.addEventListener('abort', abort, { once: true });
      const timer = setTimeout(() => reject(new CutError('the script took too long')), timeoutMs);
      settled.addEventListener('abort', () => {
        signal.removeEventListener('abort', abort);
        clearTimeout(timer);
        this.#cut = this.#cut.filter(each => each !== reject);
      });
    });
  }
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The process has ended already.
  }
}

/** A Python of this machine that runs, but is too old for our environments. */
export function oldPython(): string | null {
  const candidates = ['/usr/bin/python3.10', '/usr/bin/python3.9', ...pyenv('3.10'), ...pyenv('3.9')];
  return candidates.find(file => existsSync(file)) ?? null;
}

/** The folder with the pyenv Pythons of this machine. */
export function pyenvVersions(): string {
  return path.join(process.env['PYENV_ROOT'] ?? path.join(homedir(), '.pyenv'), 'versions');
}

function pyenv(version: string): string[] {
  const found = pyenvVersions();
  return existsSync(found)
    ? ['0', '1', '2', '3', '13', '14', '15', '16', '17', '18'].map(
        patch => `${found}/${version}.${patch}/bin/python3`
      )
    : [];
}

/** Access of this machine to a package index: proxies, certificates, uv's settings. */
export function networkVariables(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value !== undefined && /^(\w+_proxy|SSL_CERT_(FILE|DIR)|UV_(?!CACHE)\w+)$/i.test(name)
        ? [[name, value]]
        : []
    )
  );
}
