/** Creates the kernel environment on a host, with our own Python if the host's does not fit. */
import path from 'node:path';
import { mkdtemp, rm } from 'node:fs/promises';
import { type Definition, variantOf } from '../environments/definition.js';
import { addedPackages } from '../environments/added-packages.js';
import { environmentFolder } from '../environments/folders.js';
import { UvProgress } from '../environments/index.js';
import { environmentsFolder } from '../environments/locations.js';
import { type FetchContext, fetchEnvironment, fetchPython, OWN_PYTHON } from './fetch-here.js';
import type { HostLayout, HostTools } from './host-layout.js';
import { EXIT, hostScript, REMOVE_SCRIPT } from './host-scripts.js';
import { type HostSession, QUICK_MS, type ScriptEnd, sendFile, sendFiles } from './host-session.js';
import { tar } from './payload.js';
import { sha256Of } from '../ssh/ssh-shell.js';
import { RemoteProblem } from '../remote-error.js';
import { type RunningStage, SetupError } from './stage-reporter.js';

export interface EnvironmentInstallation {
  readonly session: HostSession;
  readonly layout: HostLayout;
  /** Remote folder for uploads, relative. */
  readonly incoming: string;
  readonly tools: HostTools;
  readonly definition: Definition;
  readonly accelerator: 'tpu' | 'cpu';
  /** False: the host has just failed to reach a package index, so its own index is queried only once. */
  readonly reachesIndex: boolean;
  /** Packages that were added to the environment on the earlier machine. */
  readonly added: readonly string[];
  readonly fetching: () => FetchContext;
}

const PYTHON_MS = 15 * 60_000;
const ENVIRONMENT_MS = 3 * 3600_000;
/** Error code of `tpulab env create` for a network failure. */
const NETWORK = 'env_network';

export async function installPython(
  installation: EnvironmentInstallation,
  stage: RunningStage
): Promise<{ readonly python: string; readonly isOurs: boolean }> {
  const { session, definition } = installation;
  const range = definition.description.python;
  const find = (install: string): Promise<ScriptEnd> =>
    session.run(hostScript('python'), [uvOf(installation), range, install], {
      timeoutMs: PYTHON_MS,
      onText: text => stage.at(text.trim())
    });
  const found = (await find('')).values.get('python');
  if (found !== undefined) return { python: found, isOurs: found.startsWith(`${session.base}/python/`) };
  stage.at(`installing Python ${range} on ${session.host}`);
  const installed = await find(OWN_PYTHON);
  if (installed.code !== 0 && installed.code !== EXIT.download) throw noPython(session, range, installed);
  if (installed.code === EXIT.download) await sendPython(installation, stage);
  const ours = installed.values.get('python') ?? (await find('')).values.get('python');
  if (ours === undefined) throw noPython(session, range, installed);
  return { python: ours, isOurs: true };
}

export async function installEnvironment(
  installation: EnvironmentInstallation,
  python: string,
  stage: RunningStage
): Promise<void> {
  const { session, definition, layout, tools } = installation;
  const uv = new UvProgress();
  // The host cannot install packages that exist only on this machine, such as a folder or a link.
  const here = await addedPackages(environmentFolder(environmentsFolder(undefined), definition.name));
  const released = [...here, ...installation.added].filter(line => /^[\w.-]+==[\w.!+-]+$/.test(line));
  // For a package on both machines, the version of the earlier machine is installed.
  const also = [...new Map(released.map(line => [line.split('==', 1)[0], line])).values()];
  const create = (wheels: string): Promise<ScriptEnd> =>
    session.run(
      hostScript('environment'),
      [
        ...[`${layout.node}/${tools.node.program}`, layout.bridge, uvOf(installation), layout.environments],
        ...[definition.name, python, installation.accelerator, wheels],
        installation.reachesIndex ? '' : '0',
        also.join('\n')
      ],
      {
        timeoutMs: ENVIRONMENT_MS,
        onText: text => {
          if (text.startsWith('{')) return;
          stage.at(uv.line(text), uv.fraction, uv.transfer);
        },
        onValue: (key, value) => {
          if (key === 'waiting') stage.at(value);
        }
      }
    );
  let end = await create('');
  if (end.code !== 0 && failureOf(end).code === NETWORK) {
    const wheels = `${installation.incoming}/wheels-${definition.name}`;
    await sendWheels(installation, python, wheels, stage);
    end = await create(wheels);
    if (end.code === 0) await session.run(REMOVE_SCRIPT, [wheels], { timeoutMs: QUICK_MS });
  }
  if (end.code === 0) return;
  const { code, message } = failureOf(end);
  if (code === 'env_disk_full') throw new RemoteProblem('remote_disk_full', `${session.host}: ${message}`);
  throw new SetupError(
    'setup_environment_failed',
    `The environment "${definition.name}" could not be created on ${session.host}: ${message}`
  );
}

async function sendWheels(
  { session, definition, accelerator, fetching }: EnvironmentInstallation,
  python: string,
  folder: string,
  stage: RunningStage
): Promise<void> {
  stage.at('the host does not reach the package index; fetching the packages here');
  const version = await versionOf(session, python);
  const { lockFile, name } = variantOf(definition, accelerator);
  const files = await fetchEnvironment(lockFile, `${name}-${accelerator}`, version, fetching());
  await sendFiles(session, files, folder, stage);
}

async function sendPython(
  { session, incoming, fetching }: EnvironmentInstallation,
  stage: RunningStage
): Promise<void> {
  stage.at('the host cannot download Python builds; downloading here');
  const context = fetching();
  const folder = await fetchPython(context);
  const staging = await mkdtemp(path.join(context.cache, '.sending-'));
  try {
    const archive = path.join(staging, 'python.tar.gz');
    await tar(folder, archive, session.signal);
    const name = `${incoming}/python.tar.gz`;
    await sendFile(session, archive, name, stage);
    const end = await session.run(hostScript('unpack'), [name, await sha256Of(archive), 'python'], {
      timeoutMs: PYTHON_MS
    });
    if (end.code !== 0) throw noPython(session, OWN_PYTHON, end);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function versionOf(session: HostSession, python: string): Promise<string> {
  const script = `"$2" -c 'import sys; print("version\\t%d.%d" % sys.version_info[:2])'`;
  const { values } = await session.run(script, [python], { timeoutMs: QUICK_MS });
  return values.get('version') ?? OWN_PYTHON;
}

/** The command prints its failure as one line of JSON. */
function failureOf({ code, lines }: ScriptEnd): { readonly code: string; readonly message: string } {
  for (const line of [...lines].reverse()) {
    if (!line.startsWith('{"error"')) continue;
    const { error } = JSON.parse(line) as { error: { code?: string; message?: string } };
    return { code: error.code ?? 'unknown', message: error.message ?? line };
  }
  return { code: 'unknown', message: lines.at(-1) ?? `it ended with code ${code}` };
}

function noPython(session: HostSession, range: string, end: ScriptEnd): SetupError {
  return new SetupError(
    'setup_python_failed',
    `There is no Python ${range} on ${session.host} and none could be installed there (${end.lines.at(-1) ?? `code ${end.code}`}); install one there, or let the host or this machine reach the internet.`
  );
}

function uvOf({ layout, tools }: EnvironmentInstallation): string {
  return `${layout.uv}/${tools.uv.program}`;
}
