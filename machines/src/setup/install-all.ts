/** Installs missing parts on a host, one stage after the other. Existing parts stay unchanged. */
import { acceleratorFor } from './host-checks.js';
import type { ChipTable } from '../chips/chip-table.js';
import { findUv } from '../environments/uv.js';
import { type FetchContext, fetchTool, isPublic, type WheelFile, wheelOf } from './fetch-here.js';
import type { HostFacts } from './probe-script.js';
import { EXIT, hostScript } from './host-scripts.js';
import { type HostSession, QUICK_MS, sendFile } from './host-session.js';
import { type EnvironmentInstallation, installEnvironment, installPython } from './install-environment.js';
import { archiveOf } from './payload.js';
import { sha256Of } from '../ssh/ssh-shell.js';
import { hasEnvironment, type Platform, type SetupContext, type ToolWheel } from './host-layout.js';
import { type RunningStage, SetupError, type StageReporter } from './stage-reporter.js';
import path from 'node:path';

export interface Installation {
  readonly session: HostSession;
  readonly facts: HostFacts;
  readonly context: SetupContext;
  /** Remote folder for uploads, relative. */
  readonly incoming: string;
  readonly stages: StageReporter;
  readonly chips: ChipTable;
  /** Local folder for files that are fetched or made for hosts. */
  readonly cache: string;
  /** uv of this machine; null: found when it is needed. */
  readonly uv: string | null;
  /** Packages that were added to the environment on the earlier machine. */
  readonly added: readonly string[];
}

export async function installAll(installation: Installation): Promise<void> {
  const reachesIndex = await tool(installation, 'node', true);
  await bridge(installation);
  await environment(installation, await tool(installation, 'uv', reachesIndex));
}

/** Whether the host may download the next tool itself; each failed attempt costs a DNS time-out. */
async function tool(installation: Installation, name: 'node' | 'uv', mayDownload: boolean): Promise<boolean> {
  const { session, facts, context, stages } = installation;
  const { tools, layout } = context;
  const { version } = tools[name];
  if (facts.have.has(layout[name])) {
    stages.skip(name, `${version}, already installed`);
    return mayDownload;
  }
  return stages.run(name, async stage => {
    const how = await installTool({
      session,
      stage,
      platform: platformOf(facts),
      uv: localUv(installation),
      tool: tools[name],
      incoming: installation.incoming,
      place: layout[name],
      mayDownload,
      fetching: () => fetching(installation)
    });
    return { value: how === 'downloaded by the machine', detail: `${version}, ${how}` };
  });
}

async function bridge({ session, facts, context, incoming, stages, cache }: Installation): Promise<void> {
  const { layout, payload } = context;
  if (facts.have.has(layout.bridge)) {
    stages.skip('bridge', `${payload.version}, already installed`);
    return;
  }
  const send = async (stage: RunningStage): Promise<void> => {
    stage.at('packing');
    const { file, sha256 } = await archiveOf(payload, cache, session.signal);
    const name = `${incoming}/bridge.tar.gz`;
    await sendFile(session, file, name, stage);
    const args = [name, sha256, layout.bridge];
    const { code, lines } = await session.run(hostScript('unpack'), args, {
      timeoutMs: 5 * QUICK_MS
    });
    if (code === EXIT.checksum) throw checksumWrong(session, 'The server');
    if (code === 0) return;
    const reason = lines.at(-1) ?? `code ${code}`;
    throw new SetupError(
      'setup_unpack_failed',
      `The server could not be unpacked on ${session.host}: ${reason}.`
    );
  };
  await stages.run('bridge', async stage => {
    await send(stage);
    return { value: undefined, detail: payload.version };
  });
}

async function environment(installation: Installation, reachesIndex: boolean): Promise<void> {
  const { session, facts, context, incoming, stages, chips, added } = installation;
  const { layout, tools, definition } = context;
  const title = `Environment ${definition.name}`;
  const accelerator = acceleratorFor(facts, chips, definition);
  if (hasEnvironment(facts, context, accelerator)) {
    stages.skip('python', 'already installed');
    stages.skip('environment', 'already installed', title);
    return;
  }
  const wanted: EnvironmentInstallation = {
    session,
    layout,
    incoming,
    tools,
    definition,
    accelerator,
    reachesIndex,
    added,
    fetching: () => fetching(installation)
  };
  const python = await stages.run('python', async stage => {
    const found = await installPython(wanted, stage);
    return { value: found.python, detail: found.isOurs ? 'our own' : found.python };
  });
  await stages.run(
    'environment',
    async stage => {
      await installEnvironment(wanted, python, stage);
      return { value: undefined, detail: accelerator === 'tpu' ? 'for TPU' : 'for the CPU' };
    },
    title
  );
}

function fetching(installation: Installation): FetchContext {
  const { session, facts, context, cache } = installation;
  return {
    cache,
    definitions: context.definitions,
    uv: localUv(installation),
    platform: platformOf(facts),
    signal: session.signal,
    onLine: line => session.log(line)
  };
}

function localUv({ uv }: Installation): string {
  if (uv !== null) return uv;
  try {
    return findUv();
  } catch (cause) {
    throw new SetupError(
      'setup_uv_missing',
      'uv, which downloads the files for the host, was not found on this machine; install it ("pip install uv") or set TPULAB_UV.',
      { cause, command: 'pip install uv' }
    );
  }
}

function platformOf({ machine, glibc }: HostFacts): Platform {
  return { machine: machine === 'aarch64' ? 'aarch64' : 'x86_64', glibc: glibc ?? [2, 28] };
}

interface ToolInstallation {
  readonly session: HostSession;
  readonly tool: ToolWheel;
  readonly platform: Platform;
  readonly uv: string;
  readonly incoming: string;
  /** Path of the unpacked tool, relative. */
  readonly place: string;
  readonly stage: RunningStage;
  readonly fetching: () => FetchContext;
  /** False: the host has failed to reach the address. */
  readonly mayDownload: boolean;
}

const DOWNLOAD_MS = 30 * 60_000;
const UNPACK_MS = 10 * 60_000;

/**
 * Puts Node or uv on a host: downloaded there if the host can reach the package index, otherwise fetched here and sent.
 * Reports which.
 */
async function installTool(
  installation: ToolInstallation
): Promise<'downloaded by the machine' | 'sent from this computer'> {
  const { session, tool, place } = installation;
  const wheel = await wheelOf(tool, installation.platform, installation.uv, session.signal);
  const file = `${installation.incoming}/${wheel.fileName}`;
  const isThere =
    installation.mayDownload && isPublic(wheel.url) && (await downloadOnHost(installation, wheel, file));
  let sum = wheel.sha256;
  if (!isThere) {
    installation.stage.at('the host does not reach the package index; fetching it here');
    const local = await fetchTool(tool, installation.fetching());
    sum = await sha256Of(local);
    await sendFile(session, local, file, installation.stage);
  }
  installation.stage.at('unpacking');
  const end = await session.run(hostScript('unpack'), [file, sum, place, tool.program], {
    timeoutMs: UNPACK_MS
  });
  if (end.code === 0) return isThere ? 'downloaded by the machine' : 'sent from this computer';
  if (end.code === EXIT.checksum) throw checksumWrong(session, wheel.fileName);
  throw new SetupError(
    'setup_unpack_failed',
    `${tool.name} ${tool.version} does not run on ${session.host}: ${end.lines.at(-1) ?? `code ${end.code}`}.`
  );
}

async function downloadOnHost(
  { session, stage }: ToolInstallation,
  wheel: WheelFile,
  file: string
): Promise<boolean> {
  stage.at('downloading');
  const end = await session.run(hostScript('download'), [file, wheel.sha256, wheel.url], {
    timeoutMs: DOWNLOAD_MS,
    onValue: (key, value) => {
      if (key === 'waiting') stage.at(value);
      if (key === 'bytes') stage.moved('downloading', Number(value), wheel.bytes);
    }
  });
  if (end.code === 0) return true;
  if (end.code === EXIT.checksum) throw checksumWrong(session, path.basename(file));
  session.log(`${wheel.fileName} could not be downloaded there (code ${end.code})`);
  return false;
}

function checksumWrong(session: HostSession, file: string): SetupError {
  return new SetupError(
    'setup_checksum_wrong',
    `${file} arrived on ${session.host} with a wrong checksum and was removed; connect again. If that does not help, something is modifying your downloads.`
  );
}
