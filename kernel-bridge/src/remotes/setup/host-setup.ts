/** Makes a host ready: checks it, installs what is missing, starts the gateway there. Can be broken off and called again at any point. */
import { type RemoteCheck, type RemoteStage, sizeText } from '@tpulab/protocol';
import { ChipTable } from '../../devices/index.js';
import { plainText } from '../../platform/plain-text.js';
import { explainHost } from '../ssh/explain.js';
import { shown } from '../ssh/ssh-config.js';
import { variantOf } from '../../environments/definition.js';
import { pythonOf } from '../../environments/folders.js';
import type {
  CleanOptions,
  EquippedHost,
  HostSetup,
  PreparedHost,
  RemoteShell,
  SetupOptions
} from '../contracts.js';
import { acceleratorFor, checkHost, warning } from './host-checks.js';
import { type HostFacts, parseFacts, PROBE_SCRIPT } from './probe-script.js';
import {
  DEFAULT_FOLDER,
  environmentFolder,
  hasEnvironment,
  incomingOf,
  partsOf,
  readContext,
  type SetupContext
} from './host-layout.js';
import { CLEAN_SCRIPT } from './host-scripts.js';
import { HostSession, QUICK_MS } from './host-session.js';
import { installAll } from './install-all.js';
import { setupCache } from './payload.js';
import { SetupError, StageReporter } from './stage-reporter.js';
import { checkRunning, type Newcomer, startHostGateway } from './start-gateway.js';
import { RemoteProblem } from '../remote-error.js';

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
    equip: (shell, wanted) => equip(shell, wanted, options),
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

/** @param check judges what runs there, before anything is sent */
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
    if (failures.length > 0) throw unfit(shell.host, failures);
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

/** What people choose a machine by, and whether something is to be looked at. */
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
  const { stdout } = await shell.run(PROBE_SCRIPT, [folder, root, ...parts], { signal, timeoutMs: QUICK_MS });
  signal.throwIfAborted();
  const facts = parseFacts(stdout, shell.host);
  // Unix seconds here, and what a start-up file there prints.
  return { facts, asked: requestedAt, now: now() / 1000, noise: shell.noise ?? null };
}

function judge(
  { facts, asked: requestedAt, now, noise }: Probed,
  context: SetupContext,
  { chips = new ChipTable() }: HostSetupOptions
): RemoteCheck[] {
  const { layout, definition } = context;
  const { name, description } = definition;
  const accelerator = acceleratorFor(facts, chips, definition);
  const { diskMiB = ENVIRONMENT_MIB } = variantOf(definition, accelerator).description;
  const environmentBytes = hasEnvironment(facts, context, accelerator) ? 0 : diskMiB * MIB;
  const startUp = noise === null ? [] : [startUpFile(noise)];
  return startUp.concat(
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

function startUpFile(line: string): RemoteCheck {
  return warning(
    'start-up files',
    `a start-up file there prints "${line}", also for commands`,
    'Print in ~/.bashrc only where a person is: put "[[ $- == *i* ]] || return" above it. Copying folders is slower otherwise.'
  );
}

function unfit(host: string, failures: readonly RemoteCheck[]): SetupError {
  const all = failures.map(({ name, message, remedy }) => `${name}: ${message}. ${remedy ?? ''}`.trim());
  return new SetupError('setup_host_unfit', `${host} cannot be used. ${all.join(' ')}`);
}

async function clean(shell: RemoteShell, wanted: CleanOptions, options: HostSetupOptions): Promise<void> {
  const {
    facts: { base }
  } = await probe(shell, wanted.signal, [], options);
  const session = new HostSession(shell, base, wanted);
  const { code, lines } = await session.run(CLEAN_SCRIPT, [], { timeoutMs: CLEAN_MS });
  if (code === 0) return;
  throw new SetupError(
    'setup_clean_failed',
    `TPULab's folder on ${shell.host} could not be removed completely; the error was "${plainText(lines.at(-1) ?? `code ${code}`, 300)}". Remove it manually.`,
    { command: `ssh ${shown(shell.host)} rm -rf ${shown(options.folder ?? DEFAULT_FOLDER)}` }
  );
}

const STEP_MS = 30_000;
const START_MS = 180_000;

/** A login shell's PATH, without its prompts and greetings; tools of a user are often only there. */
const USER_PATH = `PATH="$PATH:$HOME/.local/bin:$HOME/bin"
export PATH`;

/** Fails with 3 where there is none. */
const FIND = `${USER_PATH}
command -v tpulab > /dev/null || exit 3`;

/**
 * Prints version, record and token of the gateway that serves the state folder, a line each, after it was started where none did.
 * Exit 4: it does not start; why is on standard error.
 */
const SERVE = `${USER_PATH}
# One that cannot be run says so at once.
version=$(tpulab --version) || exit 4
state="\${TPULAB_STATE_DIR:-\${XDG_STATE_HOME:-$HOME/.local/state}/tpulab}"
umask 077
mkdir -p "$state/run" || { echo "the state folder $state cannot be made" >&2; exit 4; }
serves() { tpulab status --state-dir "$state" --json 2> /dev/null | grep -q '"status":"'; }
# Cheap, and not as sure: a process of another program may have got the number.
seems_to() {
  pid_there=$(sed -n 's/.*"pid":\\([0-9]*\\).*/\\1/p' "$state/gateway.json" 2> /dev/null)
  [ -n "$pid_there" ] && kill -0 "$pid_there" 2> /dev/null
}
if ! serves; then
  free=$(df -Pk "$state" | awk 'NR == 2 { print $4 }')
  if [ "\${free:-9999}" -lt 1024 ]; then echo "No space left on device: $free KiB for $state" >&2; exit 4; fi
  rm -f "$state/gateway.json"
  out="$state/run/serve.out"
  if command -v setsid > /dev/null; then
    setsid tpulab serve --unix-socket --state-dir "$state" > "$out" 2>&1 < /dev/null &
  else
    nohup tpulab serve --unix-socket --state-dir "$state" > "$out" 2>&1 < /dev/null &
  fi
  pid=$!
  tries=0
  until seems_to; do
    # One that ends at once may have met another that has just been started; then that one is soon there.
    kill -0 "$pid" 2> /dev/null || tries=$((tries + 10))
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ]; then tail -n 20 "$out" >&2; exit 4; fi
    sleep 0.2
  done
fi
echo "$version"
tr -d '\\n' < "$state/gateway.json"; echo
cat "$state/token"`;

/**
 * The setup of a host on which nothing is to be installed: the `tpulab` that is on its PATH is used. Starts its gateway on a
 * unix socket when none runs, detached, so that it goes on after the connection has ended.
 */
export class InstalledSetup implements HostSetup {
  async prepare(shell: RemoteShell, options: SetupOptions): Promise<PreparedHost> {
    const { signal } = options;
    const stage = stages(options.onStage);
    stage('bridge', 'Server', 'running', null);
    const found = await shell.run(FIND, [], { signal, timeoutMs: STEP_MS });
    if (found.code !== 0) {
      stage('bridge', 'Server', 'failed', null);
      throw new RemoteProblem(
        'remote_bridge_missing',
        `There is no program "tpulab" on ${shell.host}; install it there, or connect with --install.`
      );
    }
    stage('bridge', 'Server', 'done', null);
    stage('gateway', 'Gateway', 'running', null);
    const served = await shell.run(SERVE, [], { signal, timeoutMs: START_MS });
    if (served.code !== 0) {
      stage('gateway', 'Gateway', 'failed', null);
      throw notStarted(shell.host, served.stderr);
    }
    const prepared = parse(served.stdout);
    if (!prepared) {
      throw new RemoteProblem(
        'remote_bridge_failed',
        `The server on ${shell.host} does not listen on a unix socket; stop it there with "tpulab stop" (its kernels keep running), then connect again.`
      );
    }
    stage('gateway', 'Gateway', 'done', null);
    return prepared;
  }

  /** Nothing was put there, so the gateway is all there is to end; its kernels are ended too. */
  async clean(shell: RemoteShell, { signal }: CleanOptions): Promise<void> {
    await shell.run(`${USER_PATH}\ntpulab stop --kernels`, [], { signal, timeoutMs: START_MS });
  }
}

function stages(onStage: (stage: RemoteStage) => void) {
  return (name: string, title: string, state: RemoteStage['state'], detail: string | null): void =>
    onStage({ name, title, state, detail, fraction: null });
}

function notStarted(host: string, output: string): RemoteProblem {
  const why = output.trim().split('\n').slice(-3).join(' ');
  return (
    explainHost(host, output) ??
    new RemoteProblem('remote_bridge_failed', `The server on ${host} does not start: ${why}`)
  );
}

/** The last three lines; a login shell may have said something before. */
function parse(stdout: string): PreparedHost | null {
  const [version = '', record = '', token = ''] = stdout.trim().split('\n').slice(-3);
  try {
    const { url, gatewayId } = JSON.parse(record) as { url?: string; gatewayId?: string };
    const socket = /^http\+unix:\/\/([^/]+)\//.exec(url ?? '')?.[1];
    if (socket === undefined || gatewayId === undefined || token === '') return null;
    return { socketPath: decodeURIComponent(socket), token, gatewayId, version };
  } catch {
    return null;
  }
}
