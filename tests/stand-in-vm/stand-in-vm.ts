/**
 * A stand-in for a TPU VM that is reached over a network: a real sshd with its own host key, users and keys, in separate
 * namespaces. Programs on either side cannot distinguish it from the original.
 */
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  authorize,
  hashPassword,
  newHostKey,
  PASSWORD,
  rootKeysFile,
  publicHostKey,
  USER,
  USER_ID,
  writeAccounts,
  writeSshd
} from './accounts.js';
import { requireProgram } from './availability.js';
import { Laptop } from './laptop.js';
import { Machine } from './machine.js';
import { StandInNetwork } from './network.js';
import { OutboundProxy } from './outbound-proxy.js';
import { SmallDisk } from '../../kernel-bridge/src/faults/testing/small-disk.js';
import { type InstalledBridge, installBridge } from './installed-bridge.js';
import { METADATA_PROGRAM, type Metadata } from './metadata.js';

export interface StandInVmOptions {
  readonly hostName?: string;
  /** Its user already has the bridge on the PATH, with kernels that start quickly. */
  readonly bridge?: boolean;
  /** Adds further files to its homes before it boots. */
  readonly install?: (homes: string, user: string, userId: number) => Promise<InstalledBridge>;
  /** Its homes are on a disk of this size, which can be filled. */
  readonly homeDiskMiB?: number;
  /** Logging in with a password is possible. */
  readonly password?: boolean;
  /** It can reach other machines, as through a NAT, by a proxy that its environment names. */
  readonly internet?: boolean;
  /** Its environment claims to be in Google's cloud, so that the metadata server is queried for notices. */
  readonly inCloud?: boolean;
  /** Further missing programs, beside `node`. */
  readonly hidden?: readonly string[];
  /** Paths there to their mounted sources: stand-ins for `/sys/bus/pci/devices`, `/dev/vfio`. */
  readonly mounts?: Readonly<Record<string, string>>;
  /** Root logs in, with keys that are added while it runs, and has the bridge on its PATH: as in a container of Colab. */
  readonly root?: boolean;
  /** Variables of its first process; a login does not have them. */
  readonly initEnv?: Readonly<Record<string, string>>;
  /** Command lines that run there as root from the boot on: a metric server. */
  readonly services?: readonly string[];
}

const DEADLINE_MS = 60_000;
const COMPILER_DOUBLE = path.join(import.meta.dirname, '../../kernel-agent/tests/check/compiler_double.py');

interface Parts {
  readonly proxy: OutboundProxy | null;
  readonly disk: SmallDisk | null;
  readonly accounts: Parameters<typeof writeSshd>[1];
}

export class StandInVm implements AsyncDisposable {
  readonly #proxy: OutboundProxy | null;
  readonly #disk: SmallDisk | null;
  readonly #accounts: Parts['accounts'];

  private constructor(
    readonly folder: string,
    readonly network: StandInNetwork,
    readonly machine: Machine,
    readonly laptop: Laptop,
    parts: Parts
  ) {
    this.#accounts = parts.accounts;
    this.#proxy = parts.proxy;
    this.#disk = parts.disk;
  }

  /** Resolves when the laptop's key can log in; its host key is known there as `vm` and by address. */
  static async start(options: StandInVmOptions = {}): Promise<StandInVm> {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpv-'));
    await chmod(folder, 0o755);
    const network = await StandInNetwork.make();
    const { homeDiskMiB, hostName = 'stand-in-tpu', bridge = true, internet = false } = options;
    const disk = homeDiskMiB === undefined ? null : SmallDisk.make(homeDiskMiB);
    const proxy = internet ? await OutboundProxy.listen(network.hostAddress) : null;
    await Machine.layOut(folder);
    await writeAccounts(folder, {
      hostName,
      address: network.vmAddress,
      hashedPassword: await hashPassword(PASSWORD)
    });
    await newHostKey(folder);
    const env = {
      ...(proxy ? proxyVariables(proxy.url) : {}),
      ...(options.inCloud === true ? { GCE_METADATA_HOST: 'metadata.google.internal' } : {})
    };
    const { root = false, initEnv = {} } = options;
    const accounts = { password: options.password ?? false, env, root };
    const sshd = await writeSshd(folder, accounts);
    await writeFile(path.join(folder, 'opt', 'metadata.cjs'), METADATA_PROGRAM);
    const home = disk?.folder ?? path.join(folder, 'home');
    await chmod(home, 0o755);
    const nothing = (): Promise<InstalledBridge> => Promise.resolve({ visible: [], mounts: {} });
    const install = options.install ?? (bridge ? installBridge : nothing);
    const installed = await install(home, USER, USER_ID);
    const machine = new Machine({
      folder,
      homes: home,
      networkNamespace: network.vmNamespace,
      hostName,
      visible: installed.visible,
      hidden: ['node', 'npm', 'npx', ...(options.hidden ?? [])],
      prepare: root
        ? [`mkdir -p /root/.local/bin`, `ln -s /home/${USER}/.local/bin/tpulab /root/.local/bin`]
        : [],
      env: initEnv,
      mounts: { ...installed.mounts, ...options.mounts },
      services: [sshd, '/opt/node /opt/metadata.cjs /opt/metadata.json', ...(options.services ?? [])]
    });
    const laptop = await Laptop.make(path.join(folder, 'laptop'));
    const vm = new StandInVm(folder, network, machine, laptop, { proxy, disk, accounts });
    try {
      await vm.setMetadata({});
      await vm.authorize(await laptop.publicKey());
      await laptop.configure(['Host vm', `  HostName ${network.vmAddress}`, `  User ${USER}`]);
      await vm.knowHostKey();
      await vm.boot();
      return vm;
    } catch (error) {
      await vm[Symbol.asyncDispose]();
      throw error;
    }
  }

  get destination(): string {
    return `${USER}@${this.network.vmAddress}`;
  }

  /** Of its user. */
  get home(): string {
    return path.join(this.#disk?.folder ?? path.join(this.folder, 'home'), USER);
  }

  async boot(): Promise<void> {
    await this.machine.boot();
    await this.#untilSshd('does not answer', answers => answers === true);
  }

  /** All its processes are killed; its disk persists. */
  async reboot(): Promise<void> {
    await this.machine.powerOff();
    await this.boot();
  }

  /** As its user. */
  run(script: string): Promise<string> {
    return this.machine.run(script, USER);
  }

  async authorize(...publicKeys: string[]): Promise<void> {
    await authorize(path.dirname(this.home), publicKeys);
  }

  /** As when it is recreated under the same name; takes effect for new connections. */
  async changeHostKey(): Promise<void> {
    await newHostKey(this.folder);
    await this.#restartSshd();
  }

  /** Lines of sshd_config, as an administrator may have them; they take effect for new connections. */
  async configureSshd(...more: readonly string[]): Promise<void> {
    await writeSshd(this.folder, { ...this.#accounts, more });
    await this.#restartSshd();
  }

  /** `tpulab check` finds a double of libtpu's compiler there. A check with the variable `WAITS` waits, after `~/waits` exists. */
  async useCompilerDouble(): Promise<void> {
    const python = `/home/${path.basename(this.home)}/compiler`;
    await this.run(`cat > '${python}' <<'END'
#!/bin/sh
[ -z "$WAITS" ] || { echo $$ > "$HOME/waits"; exec sleep 1000; }
[ "$2" = tpulab.check.compiler ] && exec /opt/environment/bin/python '${COMPILER_DOUBLE}' "$@"
exec /opt/environment/bin/python "$@"
END
chmod +x '${python}'`);
    await this.configureSshd(`SetEnv TPULAB_AOT_PYTHON=${python}`);
  }

  /** The login shell of its user. */
  async setShell(shell: string): Promise<void> {
    const file = path.join(this.folder, 'etc', 'passwd');
    const text = await readFile(file, 'utf8');
    // In place: the file is mounted there.
    await writeFile(file, text.replace(new RegExp(`^(${USER}:.*:)[^:]*$`, 'm'), `$1${shell}`));
  }

  /** File of the added keys with which root may log in. */
  get rootKeys(): string {
    return rootKeysFile(this.folder);
  }

  async #restartSshd(): Promise<void> {
    await this.machine.run('pkill -x -o sshd');
    // It goes to the background before it binds its port, and ends silently when the previous one still has it.
    await this.#untilSshd('is still there', answers => answers === false);
    await this.machine.run(`${requireProgram('sshd')} -f /opt/sshd_config`);
    await this.#untilSshd('does not answer', answers => answers === true);
  }

  async #untilSshd(otherwise: string, isExpected: (answers: boolean | null) => boolean): Promise<void> {
    const deadline = performance.now() + DEADLINE_MS;
    while (!isExpected(await answers(this.network.vmAddress))) {
      if (performance.now() > deadline) throw new Error(`Its sshd ${otherwise}: ${await this.sshdLog()}`);
      await delay(50);
    }
  }

  publicHostKey(): Promise<string> {
    return publicHostKey(this.folder);
  }

  async knowHostKey(): Promise<void> {
    await this.laptop.know(['vm', this.network.vmAddress], await this.publicHostKey());
  }

  /** Removes the rest of the disk of its homes. */
  fillDisk(): void {
    this.#disk!.fill();
  }

  freeDisk(): void {
    this.#disk!.free();
  }

  /** The content of its metadata server from now on; clients that wait for a change are notified. */
  async setMetadata(metadata: Metadata): Promise<void> {
    const file = path.join(this.folder, 'opt', 'metadata.json');
    // As a whole: the server reads it repeatedly.
    await writeFile(`${file}.new`, JSON.stringify(metadata));
    await rename(`${file}.new`, file);
  }

  sshdLog(): Promise<string> {
    return readFile(path.join(this.folder, 'opt', 'sshd.log'), 'utf8').catch(() => '');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.machine.powerOff();
    await this.network[Symbol.asyncDispose]();
    await this.#proxy?.[Symbol.asyncDispose]();
    this.#disk?.[Symbol.dispose]();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** The variables that programs read, and the variables with this machine's package index and its trusted certificates. */
function proxyVariables(url: string): Record<string, string> {
  const own = Object.entries(process.env).filter(([name]) =>
    /^((PIP|UV)_(INDEX|EXTRA|FIND|DEFAULT)|SSL_CERT_)/.test(name)
  );
  return {
    HTTPS_PROXY: url,
    HTTP_PROXY: url,
    https_proxy: url,
    http_proxy: url,
    NO_PROXY: 'localhost,127.0.0.1,169.254.169.254,metadata.google.internal',
    ...Object.fromEntries(own.map(([name, value]) => [name, value ?? '']))
  };
}

/** Null: it accepts connections, and has sent nothing within a second. */
async function answers(address: string): Promise<boolean | null> {
  return new Promise(resolve => {
    const socket = connect({ host: address, port: 22, timeout: 1000 });
    socket.once('data', () => resolve(true)).once('error', () => resolve(false));
    for (const event of ['timeout', 'end']) socket.once(event, () => resolve(null));
    for (const event of ['data', 'timeout']) socket.once(event, () => socket.destroy());
  });
}
