/** For specs: stand-in machines as the hosts of one slice, a laptop whose gcloud lists them, and its gateway. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Remote, RemoteCheck } from '@tpulab/protocol';
import { vi } from 'vitest';
import {
  computeDryRun,
  preparedHost,
  type GcloudAnswer,
  hostKeyAttributes,
  Laptop,
  managedInstances,
  queuedResource,
  StandInVm,
  tpuDryRun,
  tpuNode,
  USER,
  unavailableReason
} from '../../../../../tests/stand-in-vm/index.js';
import { createHostSetup } from '../../../../../machines/src/setup/host-setup.js';
import { makeBundle, UV } from '../../../../../machines/src/setup/testing/bundles.js';
import { DisposalStack } from '@tpulab/platform/disposal-stack.js';
import { Hub } from '../../testing/hub.js';

/** Why a stand-in slice cannot run on this machine; null: it can. */
export function sliceProblem(): string | null {
  return unavailableReason() ?? (existsSync(UV) ? null : 'the setup has not been done');
}

export type SliceProduct = 'tpu-vm' | 'queued-resource' | 'instance-group';

/** A folder that all hosts share, like a mounted bucket. */
export const SHARED = '/opt/shared';
const WHERE = { zone: 'us-east5-b', project: 'p' };

export class StandInSlice implements AsyncDisposable {
  readonly vms: StandInVm[] = [];
  /** How often all machines have been created. */
  #generation = 0;

  private constructor(
    readonly folder: string,
    readonly payload: string,
    readonly laptop: Laptop,
    readonly product: SliceProduct,
    readonly hub: Hub,
    /** Environment of the machines. */
    readonly environment: string,
    private readonly owned: DisposalStack
  ) {}

  /** Starts machines that Google Cloud lists as running; no remote is added. */
  static async start(product: SliceProduct, hosts: number, environment = 'jax'): Promise<StandInSlice> {
    const owned = new DisposalStack();
    try {
      const folder = await mkdtemp(path.join(tmpdir(), 'tpl-slice-'));
      owned.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
      const payload = await makeBundle(path.join(folder, 'bundle'));
      vi.stubEnv('TPULAB_PAYLOAD', payload);
      owned.defer(() => vi.unstubAllEnvs());
      await mkdir(path.join(folder, 'shared'), { mode: 0o777 });
      const laptop = await Laptop.make(path.join(folder, 'laptop'));
      const setup = createHostSetup({ payload, cache: path.join(folder, 'cache'), uv: UV });
      const hub = await Hub.start(laptop, { remotes: { setup, queuePollMs: 500 } });
      const slice = new StandInSlice(folder, payload, laptop, product, hub, environment, owned);
      owned.defer(() => slice.#remove(slice.vms));
      owned.use(hub);
      await slice.createAll(hosts);
      return slice;
    } catch (error) {
      await owned[Symbol.asyncDispose]().catch(() => undefined);
      throw error;
    }
  }

  get source(): object {
    const name = { 'tpu-vm': 'my-tpu', 'queued-resource': 'queue', 'instance-group': 'my-group' }[
      this.product
    ];
    return { kind: 'gcloud', product: this.product, name, ...WHERE };
  }

  /** Creates machines with their own addresses, host keys and disks; Google Cloud lists their addresses. */
  async createAll(hosts: number): Promise<void> {
    this.#generation++;
    const tries = await Promise.allSettled(Array.from({ length: hosts }, (_, index) => this.#create(index)));
    const created = tries.flatMap(each => (each.status === 'fulfilled' ? each.value : []));
    const failed = tries.find(each => each.status === 'rejected');
    if (failed !== undefined) {
      await this.#remove(created);
      throw failed.reason;
    }
    // The old ones are removed last, so that the new ones get other addresses.
    const old = this.vms.splice(0, this.vms.length, ...created);
    for (const [at, vm] of created.entries()) {
      for (const other of created.slice(at + 1)) await vm.network.join(other.network);
    }
    await this.#remove(old);
    await this.#answerGcloud();
  }

  /** Recreates one machine under its name. */
  async recreate(index: number): Promise<void> {
    const created = await this.#create(index);
    const old = this.vms.splice(index, 1, created);
    for (const other of this.vms) if (other !== created) await other.network.join(created.network);
    await this.#remove(old);
    await this.#answerGcloud();
  }

  async #remove(vms: readonly StandInVm[]): Promise<void> {
    await Promise.all(vms.map(vm => vm[Symbol.asyncDispose]()));
  }

  async #create(index: number): Promise<StandInVm> {
    const vm = await StandInVm.start({
      hostName: `worker-${index}`,
      install: preparedHost(this.payload, this.environment),
      mounts: { [SHARED]: path.join(this.folder, 'shared') }
    });
    try {
      await vm.authorize(await this.laptop.publicKey());
      await vm.machine.run(`chmod 777 ${SHARED}`);
      return vm;
    } catch (error) {
      await this.#remove([vm]);
      throw error;
    }
  }

  /** Makes Google Cloud report the state, the addresses and the keys of the machines. */
  async #answerGcloud(): Promise<void> {
    const keys = await Promise.all(this.vms.map(vm => vm.publicHostKey()));
    const reached = this.vms.map(({ network }, index) => ({
      user: USER,
      address: network.vmAddress,
      key: path.join(this.laptop.ssh, 'id_ed25519'),
      knownHosts: this.laptop.knownHosts,
      hostKeyAlias:
        this.product === 'instance-group' ? `compute.${this.#id}${index}` : `tpu.${this.#id}-${index}`
    }));
    if (this.product === 'instance-group') {
      // gcloud's dry run writes these keys from the guest attributes.
      for (const [index, key] of keys.entries())
        await this.laptop.know([reached[index]!.hostKeyAlias], key, true);
      return this.laptop.answerGcloud([
        {
          words: ['instance-groups', 'managed', 'list-instances', 'my-group'],
          stdout: managedInstances(this.vms.map(() => ({ instanceStatus: 'RUNNING', currentAction: 'NONE' })))
        },
        ...reached.map((one, index) => ({
          words: ['compute', 'ssh', `my-group-${index}`, '--dry-run'],
          stdout: computeDryRun({ ...one, isKnown: true })
        }))
      ]);
    }
    const endpoints = this.vms.map(({ network }) => ({
      accessConfig: { externalIp: network.vmAddress },
      ipAddress: network.vmAddress,
      port: 8470
    }));
    const name = this.product === 'tpu-vm' ? 'my-tpu' : 'queue';
    const ssh = this.product === 'tpu-vm' ? 'tpu-vm' : 'queued-resources';
    return this.laptop.answerGcloud([
      ...this.#queue('ACTIVE'),
      {
        words: ['tpu-vm', 'describe', 'my-tpu'],
        stdout: tpuNode({ id: this.#id, networkEndpoints: endpoints })
      },
      { words: [ssh, 'ssh', name, '--worker=all', '--dry-run'], stdout: reached.map(tpuDryRun).join('') },
      { words: ['tpu-vm', 'get-guest-attributes', 'my-tpu'], stdout: hostKeyAttributes(...keys) }
    ]);
  }

  /** Ends all machines together; Google Cloud then reports each product as after a preemption. */
  async preempt(): Promise<void> {
    await Promise.all(this.vms.map(vm => vm.machine.powerOff()));
    await this.laptop.answerGcloud(
      this.product === 'instance-group'
        ? [
            {
              words: ['instance-groups', 'managed', 'list-instances', 'my-group'],
              stdout: managedInstances(
                this.vms.map(() => ({ instanceStatus: 'TERMINATED', currentAction: 'RECREATING' }))
              )
            }
          ]
        : [
            ...this.#queue('SUSPENDED'),
            { words: ['tpu-vm', 'describe', 'my-tpu'], stdout: tpuNode({ id: this.#id, state: 'PREEMPTED' }) }
          ]
    );
  }

  #queue(state: string): GcloudAnswer[] {
    return [{ words: ['queued-resources', 'describe', 'queue'], stdout: queuedResource(state) }];
  }

  get #id(): string {
    return `424242424${this.#generation}`;
  }

  async check(): Promise<RemoteCheck | undefined> {
    return checkOf(await this.hub.remote());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.owned[Symbol.asyncDispose]();
  }
}

export function checkOf({ checks }: Remote): RemoteCheck | undefined {
  return checks.find(({ name }) => name === 'slice');
}
