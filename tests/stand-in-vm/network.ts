/**
 * The path from this machine to a stand-in VM: a namespace for the VM and one for a router between, which can drop everything
 * without an error, as an unreachable network does. Addresses are from 198.18.0.0/15, which is for such use (RFC 2544).
 */
import { execFile, execFileSync } from 'node:child_process';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MAX_NETWORKS = 250;

export class StandInNetwork implements AsyncDisposable {
  readonly vmNamespace: string;
  readonly routerNamespace: string;
  /** Address of this machine, as the VM sees it. */
  readonly hostAddress: string;
  readonly vmAddress: string;
  readonly #link: string;
  /** Its ends of the links to others, and how it routes through each. */
  readonly #joined: { readonly device: string; readonly route: string }[] = [];

  private constructor(number: number) {
    this.vmNamespace = `tplvm${number}`;
    this.routerNamespace = `tplrt${number}`;
    this.#link = `tplh${number}`;
    this.hostAddress = `198.18.${number}.1`;
    this.vmAddress = `198.18.${number}.6`;
  }

  static async make(): Promise<StandInNetwork> {
    const network = new StandInNetwork(await takeNumber());
    try {
      await network.#build();
      return network;
    } catch (error) {
      await network[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** All packets in both directions are dropped without an error. */
  async cut(): Promise<void> {
    await this.#forwarding(0);
    for (const { device } of this.#joined) await this.#own(`link set dev ${device} down`);
  }

  async restore(): Promise<void> {
    await this.#forwarding(1);
    for (const { device, route } of this.#joined) {
      await this.#own(`link set dev ${device} up`);
      // It was removed with the link.
      await this.#own(`route replace ${route}`);
    }
  }

  /** A link between two of them, as between hosts of a slice: each reaches the other at its usual address. */
  async join(other: StandInNetwork): Promise<void> {
    const name = (from: StandInNetwork, to: StandInNetwork): string =>
      `${from.vmNamespace.slice(3)}-${to.vmNamespace.slice(5)}`;
    const [here, there] = [name(this, other), name(other, this)];
    const route = ({ vmAddress }: StandInNetwork, device: string, from: StandInNetwork): string =>
      `${vmAddress}/32 dev ${device} src ${from.vmAddress}`;
    const commands = [
      `-n ${this.vmNamespace} link add name ${here} type veth peer name ${there} netns ${other.vmNamespace}`,
      `-n ${this.vmNamespace} link set dev ${here} up`,
      `-n ${other.vmNamespace} link set dev ${there} up`,
      `-n ${this.vmNamespace} route add ${route(other, here, this)}`,
      `-n ${other.vmNamespace} route add ${route(this, there, other)}`
    ];
    for (const command of commands) await run('ip', command.split(' '));
    this.#joined.push({ device: here, route: route(other, here, this) });
    other.#joined.push({ device: there, route: route(this, there, other) });
  }

  /** Another address of this machine, as when it moves to another network. Connections do not notice. */
  async changeAddresses(): Promise<void> {
    const address = `${this.hostAddress.replace(/\.1$/, '.129')}/32`;
    await run('ip', ['addr', 'add', address, 'dev', this.#link]).catch(() =>
      run('ip', ['addr', 'del', address, 'dev', this.#link])
    );
  }

  /** Delays every packet, in each direction by half of it. False where the kernel has no netem. */
  async delay(roundTripMs: number): Promise<boolean> {
    try {
      for (const device of ['near', 'far']) {
        await run('ip', [
          'netns',
          'exec',
          this.routerNamespace,
          'tc',
          'qdisc',
          'replace',
          'dev',
          device,
          'root',
          'netem',
          'delay',
          `${roundTripMs / 2}ms`
        ]);
      }
      return true;
    } catch {
      return false;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run('ip', ['link', 'del', this.#link]).catch(() => undefined);
    // The VM's namespace comes last: its name shows that the number is claimed.
    for (const name of [this.routerNamespace, this.vmNamespace]) {
      await run('ip', ['netns', 'del', name]).catch(() => undefined);
    }
  }

  async #build(): Promise<void> {
    const { hostAddress, vmAddress, vmNamespace, routerNamespace } = this;
    const [upAddress, downAddress] = [2, 5].map(last => hostAddress.replace(/\.1$/, `.${last}`));
    const commands = [
      `link add name ${this.#link} type veth peer name near netns ${routerNamespace}`,
      `addr add ${hostAddress}/30 dev ${this.#link}`,
      `link set dev ${this.#link} up`,
      `-n ${routerNamespace} link add name far type veth peer name eth0 netns ${vmNamespace}`,
      `-n ${routerNamespace} addr add ${upAddress}/30 dev near`,
      `-n ${routerNamespace} addr add ${downAddress}/30 dev far`,
      `-n ${routerNamespace} link set dev near up`,
      `-n ${routerNamespace} link set dev far up`,
      `-n ${vmNamespace} addr add ${vmAddress}/30 dev eth0`,
      `-n ${vmNamespace} link set dev lo up`,
      `-n ${vmNamespace} link set dev eth0 up`,
      `-n ${vmNamespace} route add default via ${downAddress}`,
      `route add ${hostAddress.replace(/\.1$/, '.4')}/30 via ${upAddress}`
    ];
    for (const command of commands) await run('ip', command.split(' '));
    await this.restore();
  }

  /** For a link; a link whose other end was removed is removed too. */
  async #own(command: string): Promise<void> {
    await run('ip', ['-n', this.vmNamespace, ...command.split(' ')]).catch(() => undefined);
  }

  async #forwarding(value: 0 | 1): Promise<void> {
    const command = `echo ${value} > /proc/sys/net/ipv4/ip_forward`;
    await run('ip', ['netns', 'exec', this.routerNamespace, 'sh', '-c', command]);
  }
}

/** For a test that was killed: old, and no process is in it. */
const FORGOTTEN_MS = 60 * 60_000;

async function removeForgotten(): Promise<void> {
  const folder = '/var/run/netns';
  for (const name of await readdir(folder).catch(() => [])) {
    const number = /^tplvm(\d+)$/.exec(name)?.[1];
    if (number === undefined) continue;
    const { mtimeMs } = await stat(path.join(folder, name));
    const { stdout: pids } = await run('ip', ['netns', 'pids', name]);
    if (Date.now() - mtimeMs < FORGOTTEN_MS || pids.trim() !== '') continue;
    for (const one of [`tplrt${number}`, name]) await run('ip', ['netns', 'del', one]).catch(() => undefined);
  }
}

/** A unique number: a namespace of its name can be created only once. */
async function takeNumber(): Promise<number> {
  await removeForgotten().catch(() => undefined);
  const first = process.pid % MAX_NETWORKS;
  for (let tries = 0; tries < MAX_NETWORKS; tries++) {
    const number = (first + tries) % MAX_NETWORKS;
    try {
      await run('ip', ['netns', 'add', `tplvm${number}`]);
    } catch {
      continue;
    }
    execFileSync('ip', ['netns', 'add', `tplrt${number}`]);
    return number;
  }
  throw new Error('No number for a network is free; remove old ones with "ip netns del".');
}
