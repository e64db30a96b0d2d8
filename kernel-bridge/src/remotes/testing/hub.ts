/** For specs: a gateway in this process that uses the ssh and gcloud of a stand-in's laptop, or of none (null). */
import type { Remote, RemoteState } from '@tpulab/protocol';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { GatewayOptions } from '../../gateway/gateway.js';
import { type Answer, type RestOptions, TemporaryGateway } from '../../testing/temporary-gateway.js';
import type { Laptop } from '../../../../tests/stand-in-vm/index.js';
import { gcloudOnPath } from '../../../../machines/src/gcloud/gcloud.js';
import { NetworkWatch } from '../../../../machines/src/network-watch.js';

const DEADLINE_MS = 90_000;
const POLL_MS = 25;

export class Hub implements AsyncDisposable {
  private constructor(readonly bridge: TemporaryGateway) {}

  static async start(laptop: Laptop | null, options: Partial<GatewayOptions> = {}): Promise<Hub> {
    const bridge = await TemporaryGateway.start({
      ...options,
      remotes: {
        ...(laptop && {
          sshProgram: path.join(laptop.bin, 'ssh'),
          gcloud: gcloudOnPath(path.join(laptop.bin, 'gcloud')),
          home: laptop.home
        }),
        network: new NetworkWatch({ addresses: recordedLinkAddresses() }),
        ...options.remotes
      }
    });
    await bridge.gateway.ready;
    return new Hub(bridge);
  }

  /** Adds a remote named `vm`, connected unless `body` prevents it. */
  async add(body: object = {}): Promise<Remote> {
    const source = { kind: 'ssh', destination: 'vm' };
    const answer = await this.rest('POST', '/bridge/v1/machines', {
      body: { name: 'vm', source, install: false, ...body }
    });
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return answer.body as Remote;
  }

  rest(method: string, target: string, options?: RestOptions): Promise<Answer> {
    return this.bridge.rest(method, target, options);
  }

  async remote(name = 'vm'): Promise<Remote> {
    return (await this.rest('GET', `/bridge/v1/machines/${name}`)).body as Remote;
  }

  async post(action: string, body?: object, name = 'vm'): Promise<Answer> {
    return this.rest('POST', `/bridge/v1/machines/${name}/${action}`, body ? { body } : {});
  }

  /** Resolves with the remote once it is in one of these states; rejects if it fails instead. */
  async until(states: RemoteState | readonly RemoteState[], name = 'vm'): Promise<Remote> {
    const wanted = [states].flat();
    const deadline = performance.now() + DEADLINE_MS;
    for (;;) {
      const remote = await this.remote(name);
      if (wanted.includes(remote.state)) return remote;
      if (performance.now() > deadline || remote.state === 'failed') {
        throw new Error(
          `Not ${wanted.join(' or ')}: ${JSON.stringify(remote, null, 1)}\n${await this.log(name)}`
        );
      }
      await delay(POLL_MS);
    }
  }

  async log(name = 'vm'): Promise<string> {
    const { lines } = (await this.rest('GET', `/bridge/v1/machines/${name}/log`)).body as {
      lines: { text: string }[];
    };
    return lines.map(({ text }) => text).join('\n');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bridge[Symbol.asyncDispose]();
  }
}

/**
 * Addresses of the links that exist now: specs that run in parallel add and remove links, which is not a network change of
 * this laptop.
 */
function recordedLinkAddresses(): () => string {
  const known = new Map<string, string>();
  const readAddresses = (isFirst: boolean): string => {
    for (const [name, all = []] of Object.entries(networkInterfaces()))
      if (isFirst || known.has(name)) known.set(name, all.map(({ address }) => address).join(' '));
    return [...known.values()].join('\n');
  };
  readAddresses(true);
  return () => readAddresses(false);
}
