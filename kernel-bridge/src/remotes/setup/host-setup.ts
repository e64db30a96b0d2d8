/** Makes a host ready: checks it, installs what is missing, starts the gateway there. Can be broken off and called again at any point. */
import type { RemoteCheck } from '@tpulab/protocol';
import { ChipTable } from '../../devices/index.js';
import { variantOf } from '../../environments/definition.js';
import type { HostSetup, PreparedHost, RemoteShell, SetupOptions } from '../contracts.js';
import { acceleratorFor } from './host-chips.js';
import { checkHost } from './host-checks.js';
import { type HostFacts, parseFacts } from './host-facts.js';
import { DEFAULT_FOLDER, incomingOf } from './host-layout.js';
import { CLEAN_SCRIPT } from './host-scripts.js';
import { HostSession, QUICK_MS } from './host-session.js';
import { installAll } from './install-all.js';
import { setupCache } from './payload.js';
import { PROBE_SCRIPT } from './probe-script.js';
import { hasEnvironment, partsOf, readContext, type SetupContext } from './setup-context.js';
import { SetupError } from './setup-error.js';
import { StageReporter } from './stage-reporter.js';
import { checkRunning, startHostGateway } from './start-gateway.js';

export interface HostSetupOptions {
  /** The bundle that is copied; default the one that runs, else the checkout's. */
  readonly payload?: string | undefined;
  /** On the host: relative to the home folder, or absolute. */
  readonly folder?: string | undefined;
  /** What stands for `/` on the host where devices, sysfs and proc are. */
  readonly root?: string | undefined;
  readonly chips?: ChipTable | undefined;
  /** Here, for what is fetched and made for hosts. */
  readonly cache?: string | undefined;
  readonly uv?: string | undefined;
  /** Unix milliseconds here. */
  readonly now?: (() => number) | undefined;
}

const MIB = 2 ** 20;
/** Node, uv and the bridge, unpacked and on their way. */
const TOOLS_BYTES = 400 * MIB;
/** Of an environment whose description does not say. */
const ENVIRONMENT_MIB = 1000;
const CLEAN_MS = 10 * 60_000;

export function createHostSetup(options: HostSetupOptions = {}): HostSetup {
  return {
    prepare: (shell, wanted) => prepare(shell, wanted, options),
    clean: (shell, wanted) => clean(shell, wanted, options)
  };
}

/** The checks alone, for `tpulab doctor`; nothing is changed there. */
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
  const stages = new StageReporter(wanted.onStage);
  const { facts, context, newcomer } = await stages.run('check', async () => {
    const needed = await readContext(wanted.environment, options.payload);
    const found = await probe(shell, wanted.signal, partsOf(needed), options);
    const { sender, takeOver = false } = wanted;
    const comer = { bridge: needed.layout.bridge, sender, takeOver };
    checkRunning(shell.host, found, comer);
    const checks = judge(found, needed, options);
    for (const check of checks) wanted.onCheck(check);
    const failures = checks.filter(({ state }) => state === 'failed');
    if (failures.length > 0) throw unfit(shell.host, failures);
    const warnings = checks.filter(({ state }) => state === 'warning').length;
    return {
      value: { facts: found, context: needed, newcomer: comer },
      detail: warnings === 0 ? 'all well' : `${warnings} to look at`
    };
  });
  const session = new HostSession(shell, facts.base, wanted);
  const { chips = new ChipTable(), cache = setupCache(), uv = null } = options;
  const incoming = incomingOf(wanted.sender);
  await installAll({ session, facts, context, incoming, stages, chips, cache, uv });
  return startHostGateway({ session, facts, context, incoming, stages, newcomer });
}

async function probe(
  shell: RemoteShell,
  signal: AbortSignal,
  parts: readonly string[],
  { folder = DEFAULT_FOLDER, root = '' }: HostSetupOptions
): Promise<HostFacts> {
  const { stdout } = await shell.run(PROBE_SCRIPT, [folder, root, ...parts], { signal, timeoutMs: QUICK_MS });
  signal.throwIfAborted();
  return parseFacts(stdout, shell.host);
}

function judge(
  facts: HostFacts,
  context: SetupContext,
  { now = Date.now, chips = new ChipTable() }: HostSetupOptions
): RemoteCheck[] {
  const { layout, definition } = context;
  const { name, description } = definition;
  const accelerator = acceleratorFor(facts, chips, definition);
  const { diskMiB = ENVIRONMENT_MIB } = variantOf(definition, accelerator).description;
  const environmentBytes = hasEnvironment(facts, context, accelerator) ? 0 : diskMiB * MIB;
  return checkHost({
    facts,
    chips,
    now: now() / 1000,
    neededBytes: (facts.have.has(layout.node) ? 0 : TOOLS_BYTES) + environmentBytes,
    environment: { name, chips: description.tpu?.chips ?? null }
  });
}

function unfit(host: string, failures: readonly RemoteCheck[]): SetupError {
  const all = failures.map(({ name, message, remedy }) => `${name}: ${message}. ${remedy ?? ''}`.trim());
  return new SetupError('setup_host_unfit', `${host} cannot be used. ${all.join(' ')}`);
}

async function clean(
  shell: RemoteShell,
  wanted: Omit<SetupOptions, 'environment' | 'sender' | 'takeOver'>,
  options: HostSetupOptions
): Promise<void> {
  const { base } = await probe(shell, wanted.signal, [], options);
  const session = new HostSession(shell, base, wanted);
  const { code, lines } = await session.run(CLEAN_SCRIPT, [], { timeoutMs: CLEAN_MS });
  if (code === 0) return;
  throw new SetupError(
    'setup_clean_failed',
    `${base} on ${shell.host} could not be removed whole (${lines.at(-1) ?? `code ${code}`}); remove it by hand.`,
    { command: `ssh ${shell.host} rm -rf ${base}` }
  );
}
