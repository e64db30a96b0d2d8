/**
 * The other hosts of a slice: they are made ready together with the first one, and offered with it as one kernel that runs
 * each cell on all of them. A failing host never blocks the first one: the failure is reported, and the kernel is offered
 * once all hosts are ready.
 */
import type { RemoteCheck, RemoteStage } from '@tpulab/protocol';
import pLimit from 'p-limit';
import { plainText } from '@tpulab/platform/plain-text.js';
import type { EquippedHost, HostSetup, RemoteShell, SetupOptions } from '../machine.js';
import { RemoteProblem, remoteErrorOf } from '../remote-error.js';
import type { SshTarget } from '../ssh/ssh-config.js';
import { script } from '../setup/host-scripts.js';

/** Limit of hosts at a time: each needs its own ssh, perhaps a tunnel, and mostly waits. */
const HOSTS_AT_ONCE = 16;
/** sshd allows ten sessions per connection, and the first host needs some of them. */
const SESSIONS = 6;
/** Time limit for importing JAX or PyTorch on a newly installed machine. */
const ADMIT_MS = 180_000;
const REACH_MS = 60_000;
const QUICK_MS = 60_000;
/** The script that waits for a loss ends automatically after five minutes. */
const AWAIT_LOSS_MS = 6 * 60_000;
/** These paths become words of files and commands there. */
const PLAIN_PATH = /^\/[\w@%+=:,./-]+$/;
const PUBLIC_KEY = /^[a-z0-9-]+(@openssh\.com)? [A-Za-z0-9+/]+={0,3}$/;
const ADDRESS = /^\d{1,3}(\.\d{1,3}){3}$/;
const USER = /^[a-z_][\w.-]{0,63}$/i;

interface OtherHost {
  /** Worker number, from 1. */
  readonly index: number;
  readonly target: SshTarget;
}

interface SliceSetupOptions {
  readonly hosts: readonly OtherHost[];
  readonly equip: NonNullable<HostSetup['equip']>;
  /** Logs in to one of the hosts while `use` runs. */
  readonly withShell: <T>(host: OtherHost, use: (shell: RemoteShell) => Promise<T>) => Promise<T>;
  readonly wanted: Pick<SetupOptions, 'environment' | 'added' | 'sender' | 'signal' | 'onLog'>;
  readonly onStage: (stage: RemoteStage) => void;
  readonly onCheck: (check: RemoteCheck) => void;
  /** The hosts as they were last set up: a host with other keys was recreated. */
  readonly before?: readonly ReadyHost[];
}

/** The first host, with its installation. */
interface FirstHost {
  readonly shell: RemoteShell;
  readonly equipped: EquippedHost;
  /** Type of the slice: `v5litepod-16`; null: unknown. */
  readonly type: string | null;
}

export interface ReadyHost extends OtherHost {
  readonly user: string;
  readonly address: string;
  readonly keys: readonly string[];
}

/** The data of the first host that the others need; null if the first host is unusable. */
interface FirstHostKey {
  readonly host: FirstHost;
  readonly publicKey: string;
}

export class SliceSetup {
  readonly #first: Promise<FirstHostKey | null>;
  #resolveFirst!: (key: FirstHostKey | null) => void;
  readonly #ready: Promise<readonly PromiseSettledResult<ReadyHost>[]>;
  readonly #sessionLimit = pLimit(SESSIONS);

  /** Starts with all hosts. */
  constructor(private readonly options: SliceSetupOptions) {
    this.#first = new Promise(resolve => (this.#resolveFirst = resolve));
    const limit = pLimit(HOSTS_AT_ONCE);
    this.#ready = Promise.allSettled(
      options.hosts.map(host => limit(() => this.#row(host, stage => this.#prepare(host, stage))))
    );
  }

  /** The first host is unusable, so no kernel is offered. Resolves when nothing runs on the other hosts. */
  async abandon(): Promise<void> {
    this.#resolveFirst(null);
    await this.#ready;
  }

  /**
   * The hosts of the kernel that is now offered there; null: none. A check shows the name of the kernel, or why a host is not
   * ready.
   */
  async offer(name: string, first: FirstHost): Promise<readonly ReadyHost[] | null> {
    const { wanted, onCheck, hosts, before = [] } = this.options;
    try {
      const answers = await this.#run(first.shell, script('slice-key.sh'), [first.equipped.folder], QUICK_MS);
      this.#resolveFirst({ host: first, publicKey: checked(answers.trim(), PUBLIC_KEY, first.shell.host) });
      const results = await this.#ready;
      const ready = results.flatMap(one => (one.status === 'fulfilled' ? [one.value] : []));
      const failures = results.flatMap((one, at) =>
        one.status === 'rejected' ? [`Host ${hosts[at]?.index}: ${remoteErrorOf(one.reason).message}`] : []
      );
      if (failures.length > 0) throw new RemoteProblem('remote_slice_incomplete', failures.join(' '));
      const title = await this.#write(name, first, ready);
      const again = ready.filter(host => isAnother(host, before)).map(({ index }) => index);
      const changes = again.length === 0 ? '' : ` ${recreatedText(again)}`;
      if (changes !== '') wanted.onLog(changes.trim());
      onCheck({
        name: CHECK,
        state: 'ok',
        message: `The kernel "${title}" runs each cell on all hosts; other kernels use the chips of the first host.${changes}`,
        remedy: null
      });
      return ready;
    } catch (error) {
      this.#resolveFirst(null);
      await this.#ready;
      wanted.signal.throwIfAborted();
      onCheck({
        name: CHECK,
        state: 'warning',
        message: `The kernel over all ${hosts.length + 1} hosts is not offered. ${remoteErrorOf(error).message}`,
        remedy: 'Kernels use the chips of the first host. Make the host reachable, then try again.',
        action: { label: 'Try again', connect: {} }
      });
      return null;
    }
  }

  async #prepare(host: OtherHost, row: Row): Promise<ReadyHost> {
    const { equip, withShell, wanted } = this.options;
    row('SSH');
    return withShell(host, async shell => {
      const { python } = await equip(shell, {
        ...wanted,
        onStage: ({ title, state, detail, fraction, transfer }) => {
          if (state === 'running')
            row(detail === null ? title : `${title}: ${detail}`, { fraction, transfer: transfer ?? null });
        },
        onCheck: ({ name, state, message, remedy }) => {
          if (state !== 'ok') wanted.onLog(`host ${host.index}: ${name}: ${message} ${remedy ?? ''}`.trim());
        },
        onLog: line => wanted.onLog(`host ${host.index}: ${line}`)
      });
      row('waiting for the first host');
      const first = await this.#first;
      if (first === null)
        throw new RemoteProblem('remote_interrupted', 'the first host could not be set up.');
      row('Key of the slice');
      const admitted = await this.#admit(shell, first.publicKey, checked(python, PLAIN_PATH, shell.host));
      row('Connection to the first host');
      const address = await this.#sessionLimit(() => this.#reach(first.host, host, admitted));
      return { ...host, ...admitted, address };
    });
  }

  async #admit(shell: RemoteShell, publicKey: string, python: string) {
    const { signal } = this.options.wanted;
    const { code, stdout, stderr } = await shell.run(script('slice-admit.sh'), [publicKey, python], {
      signal,
      timeoutMs: ADMIT_MS
    });
    if (code === 3) {
      throw new RemoteProblem(
        'remote_slice_incomplete',
        `The Python of its environment (${python}) does not work: ${lastLine(stderr)}. Remove that environment there, then connect again.`
      );
    }
    if (code !== 0) throw failed('Its file authorized_keys cannot be written', stderr);
    const values = (name: string): string[] =>
      stdout.split('\n').flatMap(line => (line.startsWith(`${name}\t`) ? [line.slice(name.length + 1)] : []));
    const addresses = [...new Set(values('address'))].filter(address => ADDRESS.test(address));
    return {
      user: checked(values('user')[0] ?? '', USER, shell.host),
      addresses,
      keys: values('key').filter(key => PUBLIC_KEY.test(key))
    };
  }

  async #reach(
    first: FirstHost,
    { index }: OtherHost,
    { user, addresses, keys }: { user: string; addresses: readonly string[]; keys: readonly string[] }
  ): Promise<string> {
    const knownHosts = addresses.flatMap(address => keys.map(key => `${address} ${key}\n`)).join('');
    const { code, stdout, stderr } = await first.shell.run(
      script('slice-reach.sh'),
      [first.equipped.folder, String(index), user],
      { signal: this.options.wanted.signal, timeoutMs: REACH_MS, stdin: knownHosts }
    );
    const address = /^address\t(.+)$/m.exec(stdout)?.[1] ?? '';
    if (code === 0 && addresses.includes(address)) return address;
    throw failed(
      `The first host does not reach it at ${addresses.join(', ') || 'any address'}`,
      stderr,
      'Let the hosts of the slice reach each other (firewall rules), then connect again.'
    );
  }

  /** @returns the title of the kernel */
  async #write(name: string, first: FirstHost, others: readonly ReadyHost[]): Promise<string> {
    const { folder, python } = first.equipped;
    const knownHosts = others.flatMap(({ address, keys }) => keys.map(key => `${address} ${key}\n`)).join('');
    const reached = others.map(({ user, address }) => `${user}@${address}`);
    const args = [
      folder,
      checked(python, PLAIN_PATH, first.shell.host),
      name,
      shortType(first.type),
      ...reached
    ];
    const answers = await this.#run(first.shell, script('slice-offer.sh'), args, QUICK_MS, knownHosts);
    return plainText(/“(.+)”/.exec(answers)?.[1] ?? name, 200);
  }

  async #run(
    shell: RemoteShell,
    script: string,
    args: readonly string[],
    timeoutMs: number,
    stdin = ''
  ): Promise<string> {
    const { signal } = this.options.wanted;
    const { code, stdout, stderr } = await shell.run(script, args, { signal, timeoutMs, stdin });
    if (code !== 0) throw failed(`${shell.host} could not be prepared for the slice`, stderr);
    return stdout;
  }

  /** One row of the stages for a whole host. */
  async #row(host: OtherHost, work: (row: Row) => Promise<ReadyHost>): Promise<ReadyHost> {
    const { onStage, wanted } = this.options;
    try {
      const ready = await work((detail, more) => onStage(hostStage(host, 'running', detail, more)));
      onStage(hostStage(host, 'done', `${ready.user}@${ready.address}`));
      return ready;
    } catch (error) {
      if (!wanted.signal.aborted) onStage(hostStage(host, 'failed', remoteErrorOf(error).message));
      throw error;
    }
  }
}

/** Resolves with the numbers of the hosts that the kernel of the slice did not reach; if empty, call again. */
export async function lostHosts(
  { shell, equipped }: Pick<FirstHost, 'shell' | 'equipped'>,
  signal: AbortSignal
): Promise<number[]> {
  const { code, stdout, stderr } = await shell.run(script('slice-await-loss.sh'), [equipped.folder], {
    signal,
    timeoutMs: AWAIT_LOSS_MS
  });
  if (code !== 0) throw failed('The first host could not be watched', stderr);
  return stdout.split('\n').flatMap(line => (/^\d+$/.test(line) ? [Number(line)] : []));
}

/** Another machine under the same number, which has other host keys. */
function isAnother(host: ReadyHost, before: readonly ReadyHost[]): boolean {
  const previous = before.find(({ index }) => index === host.index);
  return previous !== undefined && !host.keys.some(key => previous.keys.includes(key));
}

function recreatedText(hosts: readonly number[]): string {
  const [who, were, have] = hosts.length === 1 ? ['Host', 'was', 'has'] : ['Hosts', 'were', 'have'];
  return `${who} ${hosts.join(', ')} ${were} recreated and ${have} been set up. Restart its kernel to use all hosts.`;
}

export const CHECK = 'slice';

type Progress = Partial<Pick<RemoteStage, 'fraction' | 'transfer'>>;
type Row = (detail: string, more?: Progress) => void;

/** The row of another host beside the stages of the first one. */
export function hostStage(
  { index, target }: OtherHost,
  state: RemoteStage['state'],
  detail: string,
  more: Progress = {}
): RemoteStage {
  const title = `Host ${index} (${target.destination})`;
  return { name: `host-${index}`, title, state, detail, fraction: null, ...more };
}

/** Google Cloud's name for a v5e-16 is `v5litepod-16`. */
function shortType(type: string | null): string {
  return (type ?? '').replace(/^v5litepod-/, 'v5e-').replace(/[^\w.-]/g, '');
}

function checked(text: string, form: RegExp, host: string): string {
  if (form.test(text)) return text;
  throw new RemoteProblem(
    'remote_slice_incomplete',
    `${host} said ${JSON.stringify(plainText(text, 200))}, which cannot be used for a slice.`
  );
}

function failed(what: string, stderr: string, remedy = ''): RemoteProblem {
  return new RemoteProblem('remote_slice_incomplete', `${what}: ${lastLine(stderr)}. ${remedy}`.trim());
}

function lastLine(text: string): string {
  return plainText(text.trim().split('\n').at(-1) ?? '', 300).replace(/\.$/, '') || 'no reason given';
}
