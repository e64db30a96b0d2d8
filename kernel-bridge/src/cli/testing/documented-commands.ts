/** For specs: the commands in the pages about remotes, and how the tests run each of them. */
import { mkdir, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { inTerminal } from './terminal.js';

export const PAGES = ['connect.md', 'tpu-vm.md', 'colab.md', 'remotes-in-lab.md'];

/** A command from the page, the person's answers, and its expected output. */
export interface Step {
  readonly line: string;
  readonly typed?: string;
  readonly shows: RegExp;
  /** Exit code; if omitted: 0. */
  readonly code?: number;
  /** The step is an action of the reader between two commands. */
  readonly isOwn?: true;
}

const CONNECTED = /is connected/;

/** Run on a stand-in VM, in this order. */
export const ON_A_VM: readonly Step[] = [
  { line: 'tpulab doctor', shows: /this computer/ },
  { line: 'tpulab connect gcloud:my-tpu --zone us-east5-b', shows: /my-tpu is connected/ },
  { line: 'tpulab connect gcloud:us-east5-b/my-tpu', shows: /my-tpu is connected/ },
  { line: 'tpulab connect gcloud:my-tpu', shows: /my-tpu is connected/ },
  { line: 'tpulab disconnect my-tpu', shows: /my-tpu is disconnected/ },
  {
    line: 'tpulab connect gcloud:my-tpu --zone us-east5-b --tunnel-through-iap',
    shows: /my-tpu is connected/
  },
  { line: 'tpulab disconnect my-tpu', shows: /my-tpu is disconnected/, isOwn: true },
  { line: 'tpulab connect gcloud:my-tpu --zone us-east5-b --internal-ip', shows: /my-tpu is connected/ },
  { line: 'tpulab connect gcloud:queued-resource/us-east5-b/my-queue', shows: /my-queue is connected/ },
  {
    line: 'tpulab connect gcloud:instance/us-east5-b/my-tpu --tunnel-through-iap',
    shows: /my-tpu-2 is connected/
  },
  { line: 'tpulab connect me@192.0.2.7', shows: CONNECTED },
  { line: 'tpulab connect my-alias', shows: /my-alias is connected/ },
  { line: 'tpulab connect NAME --take-over', shows: /my-tpu is connected/ },
  { line: 'tpulab machine ls', shows: /my-tpu +connected/ },
  { line: 'tpulab machine describe my-tpu', shows: /my-tpu: connected/ },
  { line: 'tpulab machine reconnect my-tpu', shows: /is being connected/ },
  { line: 'tpulab machine log my-tpu', shows: /Google Cloud: done[\s\S]* connected/ },
  // This command fails because the program under test has no bundle beside it that could be installed there.
  {
    line: 'tpulab doctor my-tpu',
    shows: /my-tpu is ready[\s\S]* accepts the ssh login[\s\S]*is not built[\s\S]*1 error/,
    code: 1
  },
  { line: 'tpulab ssh my-tpu', typed: 'echo at-$((6 * 7)); exit 5\n', shows: /at-42/, code: 5 },
  { line: 'tpulab ssh my-tpu -- nproc', shows: /^\d+\s*$/ },
  { line: 'tpulab ssh-config my-tpu --write', shows: /"ssh my-tpu" works now/ },
  { line: 'ssh my-tpu hostname', shows: /stand-in-tpu/, isOwn: true },
  { line: 'tpulab copy push my-tpu ./project', shows: /copied to my-tpu:\/home\/\w+\/project/ },
  { line: 'rm project/old.txt', shows: /^$/, isOwn: true },
  {
    line: 'tpulab copy push my-tpu ./project --delete',
    typed: 'y\n',
    shows: /delete +old\.txt[\s\S]*delete 1 file\?[\s\S]*0 files, 0 bytes copied/
  },
  { line: 'tpulab copy pull my-tpu ./project', shows: /0 files, 0 bytes copied/ },
  { line: 'tpulab copy push NAME FOLDER', shows: /0 files, 0 bytes copied/ },
  { line: 'tpulab copy pull NAME FOLDER', shows: /0 files, 0 bytes copied/ },
  { line: 'tpulab execute train.ipynb --on my-tpu', shows: /train\.ipynb finished/ },
  { line: 'tpulab execute train.ipynb --on my-tpu --detach', shows: /train\.ipynb runs as kernel/ },
  { line: 'tpulab execute train.ipynb --on my-tpu --attach', shows: /train\.ipynb finished/ },
  { line: 'tpulab outputs --machine my-tpu train.ipynb', shows: /\b42\b/ },
  { line: 'tpulab outputs --machine NAME NOTEBOOK', shows: /\b42\b/ },
  { line: 'tpulab execute train.ipynb', shows: /train\.ipynb finished/, isOwn: true },
  { line: 'tpulab outputs KERNEL', shows: /\b42\b/ },
  { line: 'tpulab ps --machine my-tpu', shows: /No TPU chips on my-tpu/ },
  { line: 'tpulab ps --machine my-tpu --end PID', shows: /./, code: 1 },
  { line: 'tpulab ps --machine my-tpu --remove-lock', shows: /./ },
  {
    line: 'tpulab connect gcloud:instance-group/us-east5-b/my-group --host-only',
    shows: /my-group is connected/
  },
  { line: 'tpulab machine clean my-tpu', typed: 'y\n', shows: /Clean my-tpu\?[\s\S]*my-tpu is clean/ },
  { line: 'tpulab machine rm my-tpu', shows: /my-tpu removed/ }
];

/** Run with a stand-in for Google's `colab`, in this order. */
export const ON_COLAB: readonly Step[] = [
  { line: 'colab usage', shows: /compute units/i },
  { line: 'tpulab doctor colab:', shows: /the colab command is there and logged in/ },
  { line: 'tpulab connect colab:', typed: 'yes\n', shows: /colab-v5e1 is connected/ },
  { line: 'tpulab machine describe colab-v5e1', shows: /compute units left/ },
  { line: 'tpulab copy push colab-v5e1 ./project', shows: /copied to colab-v5e1:\S+\/project/ },
  { line: 'tpulab machine log colab-v5e1', shows: / connected/ },
  { line: 'tpulab disconnect colab-v5e1 --stop', shows: /its Colab runtime has ended/ },
  { line: 'tpulab connect colab: --tpu v6e1', typed: 'yes\n', shows: /colab-v6e1 is connected/ },
  { line: 'tpulab disconnect colab-v6e1 --stop', shows: /its Colab runtime has ended/, isOwn: true }
];

/** Commands by their first words, with the reason why no test runs them. */
export const NOT_RUN: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [
      'gcloud auth login',
      'gcloud config set project',
      'gcloud services enable',
      'gcloud compute firewall-rules create',
      'gcloud compute instances create',
      'gcloud compute instances delete',
      'gcloud compute tpus queued-resources create',
      'gcloud compute tpus queued-resources delete',
      'gcloud compute tpus tpu-vm create',
      'gcloud compute tpus tpu-vm delete'
    ].map(command => [command, 'changes an account or a project of Google Cloud'])
  ),
  ...Object.fromEntries(
    [
      'gcloud compute disks list',
      'gcloud compute instances list',
      'gcloud compute tpus accelerator-types list',
      'gcloud compute tpus queued-resources describe',
      'gcloud compute tpus queued-resources list',
      'gcloud compute tpus tpu-vm list'
    ].map(command => [command, 'asks a project of Google Cloud, and its answer is for a person alone'])
  ),
  'colab ssh --proxy-mode': 'is what TPULab gives to ssh, and no command for a person',
  'tpulab examples': 'comes with the packages, where scripts/package/packages.integration.spec.mjs runs it',
  'uv tool install google-colab-cli': 'installs a program of Google from the package index'
};

const PROGRAM = /^(tpulab|gcloud|colab|uv) /;

/**
 * Commands in fenced blocks that have no language or a shell's, and commands in running text, where a bare name is only a
 * mention.
 */
export function documentedCommands(page: string): string[] {
  const text = readFileSync(new URL(`../../../../docs/${page}`, import.meta.url), 'utf8');
  const [fenced, running]: [string[], string[]] = [[], []];
  let language: string | null = null;
  // A line that ends with a backslash continues on the next line.
  for (const line of text.replace(/ *\\\n */g, ' ').split('\n')) {
    const fence = /^\s*```(\w*)$/.exec(line);
    if (fence) language = language === null ? (fence[1] ?? '') : null;
    else if (language === null) running.push(line);
    else if (['', 'sh', 'bash'].includes(language)) fenced.push(line);
  }
  const inline = [...running.join('\n').matchAll(/`(?:npx )?((?:tpulab|colab) [^`\n]+)`/g)]
    .map(([, line = '']) => line)
    .filter(line => line.split(' ').length > 2);
  const commands = [...fenced, ...inline].map(line =>
    line
      .replace(/\s+#.*$/, '')
      .replace(/^npx (?=tpulab)/, '')
      .trim()
  );
  return [...new Set(commands.filter(line => PROGRAM.test(line)))];
}

/** Replacements for the reader's own names. */
const PLACEHOLDERS = { NAME: 'my-tpu', FOLDER: './project', NOTEBOOK: 'train.ipynb', KERNEL: 'train.ipynb' };

/** The checkout's uv: the program under test has no uv beside it. */
const UV = fileURLToPath(new URL('../../../../.tpulab/tools/bin/uv', import.meta.url));

const CELL = {
  cell_type: 'code',
  id: 'a',
  metadata: {},
  source: 'print(6 * 7)',
  outputs: [],
  execution_count: null
};

/** A person who types the commands of the pages, in a folder with a project and a notebook. */
export class Reader {
  readonly #folder: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #placeholders: Readonly<Record<string, string>>;

  private constructor(
    folder: string,
    env: NodeJS.ProcessEnv,
    placeholders: Readonly<Record<string, string>>
  ) {
    this.#folder = folder;
    this.#env = env;
    this.#placeholders = placeholders;
  }

  /** @param program runs as `tpulab` @param path folders of programs, after it @param others further placeholders */
  static async make(options: {
    readonly folder: string;
    readonly program: string;
    readonly path: string;
    readonly home: string;
    readonly stateDir: string;
    readonly others?: Readonly<Record<string, string>>;
  }): Promise<Reader> {
    const { folder, program, home, stateDir, others } = options;
    const bin = path.join(folder, 'bin');
    for (const each of [bin, path.join(folder, 'project')]) await mkdir(each, { recursive: true });
    const start = `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`;
    await writeFile(path.join(bin, 'tpulab'), start, { mode: 0o755 });
    await writeFile(path.join(folder, 'project', 'old.txt'), 'old');
    await writeFile(path.join(folder, 'project', 'model.py'), 'LAYERS = 3\n');
    const notebook = { cells: [CELL], metadata: {}, nbformat: 4, nbformat_minor: 5 };
    await writeFile(path.join(folder, 'train.ipynb'), JSON.stringify(notebook));
    const env = {
      ...process.env,
      HOME: home,
      PATH: `${bin}${path.delimiter}${options.path}`,
      TPULAB_STATE_DIR: stateDir,
      TPULAB_UV: UV
    };
    return new Reader(folder, env, { ...PLACEHOLDERS, ...others });
  }

  /** Resolves after the command has ended, with all of its output. */
  type({ line, typed = '' }: Step): Promise<{ readonly code: number; readonly output: string }> {
    const words = line.split(' ').map(word => this.#placeholders[word] ?? word);
    return inTerminal(['sh', '-c', words.join(' ')], { cwd: this.#folder, env: this.#env, typed });
  }
}
