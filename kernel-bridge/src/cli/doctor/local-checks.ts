/** The checks of `tpulab doctor` on this computer. All checks run, and none changes anything. */
import { access, constants, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { type EnvironmentInfo, type RemoteCheck, sizeText } from '@tpulab/protocol';
import { EnvironmentCatalog, findUv, PACKAGE_FOLDER, runProgram, runUv } from '@tpulab/machines/environments';
import { ChipTable, failed, findChips, ok, readPayload, warning } from '@tpulab/machines';
import { presenceOfGateway } from '../../gateway/running-gateways.js';
import { nameOf } from '@tpulab/platform/process-identity.js';
import { readGatewayRecord } from '../../gateway/state-folder.js';

interface LocalContext {
  readonly stateDir: string;
  readonly envDir: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

const MIN_FREE_BYTES = 2 * 2 ** 30;
const PROGRAM_MS = 20_000;
const JUPYTER_MS = 60_000;
/** `engines` of package.json, which a bundle contains too. */
const MIN_NODE: readonly [number, number] = [20, 19];
const PYTHON_RANGE = '>=3.11,<3.14';

type Check = (context: LocalContext) => Promise<RemoteCheck | readonly RemoteCheck[]>;

/** In the order in which people read them. A check that throws counts as failed, and never ends the others. */
export async function checkHere(context: LocalContext): Promise<RemoteCheck[]> {
  const all = await Promise.all(
    CHECKS.map(async ([name, check]) => {
      try {
        return await check(context);
      } catch (error) {
        context.signal.throwIfAborted();
        // The message of the error contains the remedy.
        return failed(name, error instanceof Error ? error.message : String(error), null);
      }
    })
  );
  return all.flat();
}

const node: Check = async () => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const fits = major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1]);
  if (fits) return ok('Node', process.versions.node);
  return failed(
    'Node',
    `${process.versions.node} is too old`,
    `Install Node ${MIN_NODE.join('.')} or newer.`
  );
};

const uv: Check = async ({ signal }) => {
  const program = findUv();
  const { stdout } = await runUv({ uv: program, args: ['--version'], signal });
  return ok('uv', `${stdout[0] ?? 'uv'} (${program})`);
};

const python: Check = async ({ signal }) => {
  const { exitCode, stdout } = await runUv({
    uv: findUv(),
    args: ['python', 'find', '--no-project', PYTHON_RANGE],
    signal
  });
  if (exitCode === 0) return ok('Python', stdout[0] ?? '');
  return failed(
    'Python',
    `no Python ${PYTHON_RANGE} was found`,
    'Install Python 3.11, 3.12 or 3.13, or let uv do it: "uv python install 3.12".'
  );
};

const ssh: Check = async ({ signal }) => {
  const version = await versionOf('ssh', ['-V'], signal);
  return version === null
    ? failed(
        'ssh',
        'not found',
        'Install OpenSSH ("sudo apt-get install openssh-client"). TPU VMs are reached through it.'
      )
    : ok('ssh', version);
};

const rsync: Check = async ({ signal }) => {
  const version = await versionOf('rsync', ['--version'], signal);
  return version === null
    ? warning('rsync', 'not found', 'Install rsync to sync folders to TPU VMs faster.')
    : ok('rsync', version);
};

const gcloud: Check = async ({ signal }) => {
  const version = await versionOf('gcloud', ['--version'], signal);
  if (version === null)
    return warning(
      'gcloud',
      'not found',
      'Install the Google Cloud CLI to connect to TPU VMs by name. ssh hosts do not need it.'
    );
  const { stdout } = await runProgram({
    command: 'gcloud',
    args: ['config', 'list', '--format=value(core.account,core.project)'],
    env: process.env,
    signal,
    timeoutMs: PROGRAM_MS
  });
  const [account = '', project = ''] = (stdout[0] ?? '').split('\t');
  if (account === '') return warning('gcloud', `${version}, not logged in`, 'Run "gcloud auth login".');
  if (project === '')
    return warning(
      'gcloud',
      `${version}, ${account}, no project`,
      'Run "gcloud config set project PROJECT".'
    );
  return ok('gcloud', `${version}, ${account}, project ${project}`);
};

const disk: Check = async ({ stateDir }) => {
  const place = await existing(stateDir);
  const { bavail, bsize } = await statfs(place);
  const free = bavail * bsize;
  const text = `${sizeText(free)} free for ${stateDir}`;
  return free >= MIN_FREE_BYTES
    ? ok('disk', text)
    : warning('disk', text, 'Free some space: journals and environments are written there.');
};

const state: Check = async ({ stateDir }) => {
  const place = await existing(stateDir);
  try {
    await access(place, constants.W_OK);
  } catch {
    return failed(
      'state folder',
      `${place} cannot be written`,
      'Check its owner, or choose another folder with --state-dir.'
    );
  }
  const record = await readGatewayRecord(stateDir);
  const presence = record === null ? 'ended' : await presenceOfGateway(stateDir, record);
  if (record === null || presence === 'ended' || presence === 'silent')
    return ok('gateway', 'none runs for this state folder');
  if (presence === 'here') return ok('gateway', `runs (process ${record.pid}), ${record.url}`);
  return failed(
    'gateway',
    `runs on ${await nameOf(record.host)}, which shares this state folder`,
    'Use it there, or choose another folder for this machine with --state-dir.'
  );
};

const ports: Check = async () => {
  await new Promise<void>((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => server.close(() => resolve()));
  });
  return ok('ports', 'a free port on 127.0.0.1 is available');
};

const environments: Check = async ({ envDir }) => {
  const catalog = new EnvironmentCatalog(envDir === undefined ? {} : { environments: envDir });
  const created = (await catalog.list()).filter(({ state: at }) => at !== 'available');
  if (created.length === 0) return warning('environments', 'none is created', 'Run "tpulab env create jax".');
  return created.map(environmentCheck);
};

function environmentCheck({ name, state: at, detail }: EnvironmentInfo): RemoteCheck {
  const remedy = `Run "tpulab env create ${name}".`;
  if (at === 'ready') return ok(`environment ${name}`, 'ready');
  const text = detail ?? at;
  return at === 'broken'
    ? failed(`environment ${name}`, text, remedy)
    : warning(`environment ${name}`, text, remedy);
}

const chips: Check = async () => {
  const found = await findChips(new ChipTable());
  if (found.length === 0) return ok('chips', 'none; kernels run on the CPU');
  const names = [...new Set(found.map(({ name }) => name ?? 'unknown'))];
  return ok('chips', `${found.length} × ${names.join(', ')}`);
};

const jupyter: Check = async ({ signal, env }) => {
  const command = await jupyterCommand(env);
  let version: string;
  try {
    const { stdout, stderr } = await runProgram({
      command,
      args: ['labextension', 'list'],
      env: process.env,
      signal,
      timeoutMs: JUPYTER_MS
    });
    version = [...stdout, ...stderr].join('\n');
  } catch {
    return warning(
      'JupyterLab',
      'not found',
      'Install it with the extension: "pip install tpulab". The server itself works without it.'
    );
  }
  const line = version.split('\n').find(each => each.includes('@tpulab/labextension'));
  if (line === undefined)
    return warning(
      'JupyterLab',
      'its extension is not installed',
      'Run "pip install tpulab" in the environment of JupyterLab.'
    );
  return /enabled/i.test(line) && /ok/i.test(line)
    ? ok('JupyterLab', 'its extension is enabled')
    : failed('JupyterLab', line.trim(), 'Run "jupyter labextension enable @tpulab/labextension".');
};

const payload: Check = async () => {
  try {
    const { version } = await readPayload();
    return ok('bridge for TPU VMs', version);
  } catch (error) {
    return warning('bridge for TPU VMs', 'not built', error instanceof Error ? error.message : null);
  }
};

const CHECKS: readonly (readonly [string, Check])[] = [
  ['Node', node],
  ['uv', uv],
  ['Python', python],
  ['ssh', ssh],
  ['rsync', rsync],
  ['gcloud', gcloud],
  ['disk', disk],
  ['gateway', state],
  ['ports', ports],
  ['environments', environments],
  ['chips', chips],
  ['JupyterLab', jupyter],
  ['bridge for TPU VMs', payload]
];

/** The first line that a program prints about itself; null if it does not exist. */
async function versionOf(
  command: string,
  args: readonly string[],
  signal: AbortSignal
): Promise<string | null> {
  try {
    const { exitCode, stdout, stderr } = await runProgram({
      command,
      args,
      env: process.env,
      signal,
      timeoutMs: PROGRAM_MS
    });
    signal.throwIfAborted();
    return exitCode === 0
      ? ([...stdout, ...stderr].find(line => line.trim() !== '')?.trim() ?? command)
      : null;
  } catch {
    signal.throwIfAborted();
    return null;
  }
}

/** JupyterLab beside the wheel's `tpulab` command, otherwise the checkout's, otherwise the one on PATH. */
async function jupyterCommand(env: LocalContext['env']): Promise<string> {
  const candidates = [
    ...(env['TPULAB_UV'] ? [path.join(path.dirname(env['TPULAB_UV']), 'jupyter')] : []),
    path.resolve(PACKAGE_FOLDER, '..', '.tpulab', 'lab', 'bin', 'jupyter')
  ];
  for (const candidate of candidates) if (await canRun(candidate)) return candidate;
  return 'jupyter';
}

async function canRun(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false
  );
}

async function existing(folder: string): Promise<string> {
  for (let at = path.resolve(folder); ; at = path.dirname(at)) {
    if (
      at === path.dirname(at) ||
      (await access(at).then(
        () => true,
        () => false
      ))
    )
      return at;
  }
}
