/**
 * Makes a host ready: checks it, installs missing parts, starts the gateway there. Can be interrupted and called again at any
 * point.
 */
import { type RemoteCheck, sizeText } from '@tpulab/protocol';
import { ChipTable } from '../chips/chip-table.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import { shown } from '../ssh/ssh-config.js';
import { variantOf } from '../environments/definition.js';
import { pythonOf } from '../environments/folders.js';
import type {
  CleanOptions,
  EquippedHost,
  HostSetup,
  PreparedHost,
  RemoteShell,
  SetupOptions
} from '../machine.js';
import { acceleratorFor, checkHost, warning } from './host-checks.js';
import { type HostFacts, parseFacts } from './probe-script.js';
import {
  DEFAULT_FOLDER,
  environmentFolder,
  hasEnvironment,
  incomingOf,
  partsOf,
  readContext,
  type SetupContext
} from './host-layout.js';
import { script } from './host-scripts.js';
import { HostSession, QUICK_MS } from './host-session.js';
import { installAll } from './install-all.js';
import { setupCache } from './payload.js';
import { SetupError, StageReporter } from './stage-reporter.js';
import { checkRunning, type Newcomer, startHostGateway } from './start-gateway.js';

export interface HostSetupOptions {
  /** The bundle to copy; by default the running one, otherwise the checkout's. */
  readonly payload?: string | undefined;
  /** On the host: relative to the home folder, or absolute. */
  readonly folder?: string | undefined;
  /** Replaces `/` on the host for devices, sysfs and proc. */
  readonly root?: string | undefined;
  readonly chips?: ChipTable | undefined;
  /** Local folder for files that are fetched or made for hosts. */
  readonly cache?: string | undefined;
  readonly uv?: string | undefined;
  /** Current Unix time here, in milliseconds. */
  readonly now?: (() => number) | undefined;
}

const MIB = 2 ** 20;
/** Node, uv and the bridge, unpacked and in transit. */
const TOOLS_BYTES = 400 * MIB;
/** For an environment whose description has no size. */
const ENVIRONMENT_MIB = 1000;
const CLEAN_MS = 10 * 60_000;

export function createHostSetup(options: HostSetupOptions = {}): HostSetup {
  return {
    prepare: (shell, wanted) => prepare(shell, wanted, options),
    equip: (shell, wanted) => equip(shell, wanted, options),
    clean: (shell, wanted) => clean(shell, wanted, options)
  };
}

/** Runs only the checks, for `tpulab doctor`; changes nothing there. */
export async function checkRemoteHost(
  shell: RemoteShell,
  { environment, signal }: Pick<SetupOptions, 'environment' | 'signal'>,
  options: HostSetupOptions = {}
): Promise<readonly RemoteCheck[]> {
  const context = await readContext(environment, options.payload);
  return judge(await probe(shell, signal, partsOf(context), options), context, options);
}

async function prepare(
  shell: RemoteShell,
  wanted: SetupOptions,
  options: HostSetupOptions
): Promise<PreparedHost> {
  const { sender, takeOver = false } = wanted;
  const newcomer = (bridge: string): Newcomer => ({ bridge, sender, takeOver });
  const installed = await install(shell, wanted, options, (facts, { layout }) =>
    checkRunning(shell.host, facts, newcomer(layout.bridge))
  );
  const { folder = DEFAULT_FOLDER } = options;
  const { equipped, ...host } = installed;
  const started = await startHostGateway({ ...host, folder, newcomer: newcomer(host.context.layout.bridge) });
  return { ...started, equipped };
}

async function equip(
  shell: RemoteShell,
  wanted: SetupOptions,
  options: HostSetupOptions
): Promise<EquippedHost> {
  return (await install(shell, wanted, options)).equipped;
}

/** @param check judges the gateway that runs on the host, before any file is sent */
async function install(
  shell: RemoteShell,
  wanted: SetupOptions,
  options: HostSetupOptions,
  check: (facts: HostFacts, context: SetupContext) => void = () => undefined
) {
  const stages = new StageReporter(wanted.onStage);
  const { facts, context } = await stages.run('check', async () => {
    const needed = await readContext(wanted.environment, options.payload);
    const found = await probe(shell, wanted.signal, partsOf(needed), options);
    check(found.facts, needed);
    const checks = judge(found, needed, options);
    for (const one of checks) wanted.onCheck(one);
    const failures = checks.filter(({ state }) => state === 'failed');
    if (failures.length > 0) throw unsuitableHost(shell.host, failures);
    return { value: { facts: found.facts, context: needed }, detail: checkedText(found.facts, checks) };
  });
  const session = new HostSession(shell, facts.base, wanted);
  const { chips = new ChipTable(), cache = setupCache(), uv = null } = options;
  const incoming = incomingOf(wanted.sender);
  await installAll({
    session,
    facts,
    context,
    incoming,
    stages,
    chips,
    cache,
    uv,
    added: wanted.added ?? []
  });
  const equipped = { folder: facts.base, python: pythonOf(`${facts.base}/${environmentFolder(context)}`) };
  return { session, facts, context, incoming, stages, equipped };
}

/** The facts by which people choose a machine, and whether a check needs attention. */
function checkedText({ diskFreeBytes }: HostFacts, checks: readonly RemoteCheck[]): string {
  const chips = checks.find(({ name, state }) => name === 'chips' && state === 'ok');
  const warnings = checks.filter(({ state }) => state === 'warning').length;
  return [
    chips?.message ?? null,
    diskFreeBytes === null ? null : `${sizeText(diskFreeBytes)} disk free`,
    warnings === 0 ? null : `${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`
  ]
    .filter(part => part !== null)
    .join(', ');
}

type Probed = Awaited<ReturnType<typeof probe>>;

async function probe(
  shell: RemoteShell,
  signal: AbortSignal,
  parts: readonly string[],
  { folder = DEFAULT_FOLDER, root = '', now = Date.now }: HostSetupOptions
) {
  const requestedAt = now() / 1000;
  const { stdout } = await shell.run(script('probe.sh'), [folder, root, ...parts], {
    signal,
    timeoutMs: QUICK_MS
  });
  signal.throwIfAborted();
  const facts = parseFacts(stdout, shell.host);
  // Unix seconds here, and the output of a start-up file there.
  return { facts, requestedAt, now: now() / 1000, noise: shell.noise ?? null };
}

function judge(
  { facts, requestedAt, now, noise }: Probed,
  context: SetupContext,
  { chips = new ChipTable() }: HostSetupOptions
): RemoteCheck[] {
  const { layout, definition } = context;
  const { name, description } = definition;
  const accelerator = acceleratorFor(facts, chips, definition);
  const { diskMiB = ENVIRONMENT_MIB } = variantOf(definition, accelerator).description;
  const environmentBytes = hasEnvironment(facts, context, accelerator) ? 0 : diskMiB * MIB;
  const startupProblems = noise === null ? [] : [startupFile(noise)];
  return startupProblems.concat(
    checkHost({
      facts,
      chips,
      requestedAt,
      now,
      neededBytes: (facts.have.has(layout.node) ? 0 : TOOLS_BYTES) + environmentBytes,
      environment: { name, chips: description.tpu?.chips ?? null }
    })
  );
}

function startupFile(line: string): RemoteCheck {
  return warning(
    'start-up files',
    `a start-up file there prints "${line}", also for commands`,
    'Print in ~/.bashrc only where a person is: put "[[ $- == *i* ]] || return" above it. Copying folders is slower otherwise.'
  );
}

function unsuitableHost(host: string, failures: readonly RemoteCheck[]): SetupError {
  const all = failures.map(({ name, message, remedy }) => `${name}: ${message}. ${remedy ?? ''}`.trim());
  return new SetupError('setup_host_unfit', `${host} cannot be used. ${all.join(' ')}`);
}

async function clean(shell: RemoteShell, wanted: CleanOptions, options: HostSetupOptions): Promise<void> {
  const {
    facts: { base }
  } = await probe(shell, wanted.signal, [], options);
  const session = new HostSession(shell, base, wanted);
  const { code, lines } = await session.run(script('clean.sh'), [], { timeoutMs: CLEAN_MS });
  if (code === 0) return;
  throw new SetupError(
    'setup_clean_failed',
    `TPULab's folder on ${shell.host} could not be removed completely; the error was "${plainText(lines.at(-1) ?? `code ${code}`, 300)}". Remove it manually.`,
    { command: `ssh ${shown(shell.host)} rm -rf ${shown(options.folder ?? DEFAULT_FOLDER)}` }
  );
}
