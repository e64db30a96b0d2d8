/** A gateway that some process serves, found by the files in its state folder. */
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { DevicesPage, type Health, HoldersPage } from '@tpulab/protocol';
import { type GatewayRecord, readGatewayRecord, readToken } from '../server/state-folder.js';
import { CommandError } from './command-errors.js';
import { requestGateway } from './gateway-request.js';

const ANSWER_MS = 10_000;
/** Kernels are given time to end by themselves before they are killed. */
const SHUTDOWN_MS = 60_000;
const RESTART_MS = 180_000;

/** What the commands need of the kernels. */
const Kernels = Type.Array(
  Type.Object({
    id: Type.String(),
    name: Type.String(),
    execution_state: Type.String(),
    connections: Type.Integer(),
    last_activity: Type.String(),
    reason: Type.Optional(Type.String())
  })
);
const Sessions = Type.Array(Type.Object({ path: Type.String(), kernel: Type.Object({ id: Type.String() }) }));

export class RunningGateway {
  private constructor(
    readonly record: GatewayRecord,
    readonly health: Health,
    readonly token: string
  ) {}

  /** Throws `no_gateway` when none serves the folder, `gateway_unresponsive` when one does but does not answer. */
  static async find(stateDir: string): Promise<RunningGateway> {
    const record = await readGatewayRecord(stateDir);
    const token = await readToken(stateDir);
    if (!record || token === null || !isAlive(record.pid)) throw noGateway(stateDir);
    let health: unknown;
    try {
      health = await ask(record.url, token, 'GET', 'bridge/v1/health', ANSWER_MS);
    } catch (cause) {
      throw new CommandError(
        'gateway_unresponsive',
        `Process ${record.pid} should serve ${stateDir} at ${record.url}, but does not answer; see gateway.log there, or end that process.`,
        { cause }
      );
    }
    // Another program may have got the port of a gateway that was killed.
    if (!isHealth(health) || health.gatewayId !== record.gatewayId) throw noGateway(stateDir);
    return new RunningGateway(record, health, token);
  }

  async kernels(): Promise<Static<typeof Kernels>> {
    const answer = await ask(this.record.url, this.token, 'GET', 'api/kernels', ANSWER_MS);
    if (!Value.Check(Kernels, answer))
      throw new CommandError('gateway_unresponsive', 'The list of kernels is garbled.');
    return answer;
  }

  async devices(): Promise<DevicesPage> {
    const answer = await ask(this.record.url, this.token, 'GET', 'bridge/v1/devices', ANSWER_MS);
    if (!Value.Check(DevicesPage, answer))
      throw new CommandError('gateway_unresponsive', 'What the gateway says of the devices is garbled.');
    return answer;
  }

  /** @param remote name of a remote, for the chips of that one */
  async holders(remote?: string): Promise<HoldersPage> {
    const path = `${below(remote)}bridge/v1/devices/holders`;
    const answer = await ask(this.record.url, this.token, 'GET', path, ANSWER_MS);
    if (!Value.Check(HoldersPage, answer))
      throw new CommandError('gateway_unresponsive', 'What the gateway says of the holders is garbled.');
    return answer;
  }

  /** Shuts down the kernel that the process belongs to. */
  async endHolder(pid: number, remote?: string): Promise<void> {
    const path = `${below(remote)}bridge/v1/devices/holders/${pid}/end`;
    await ask(this.record.url, this.token, 'POST', path, SHUTDOWN_MS);
  }

  async removeLock(remote?: string): Promise<void> {
    await ask(this.record.url, this.token, 'DELETE', `${below(remote)}bridge/v1/devices/lock`, ANSWER_MS);
  }

  async removeKernel(id: string): Promise<void> {
    await ask(this.record.url, this.token, 'DELETE', `api/kernels/${id}`, SHUTDOWN_MS);
  }

  /** Resolves when the kernel has been asked; what it does with that is its own business. */
  async interruptKernel(id: string): Promise<void> {
    await ask(this.record.url, this.token, 'POST', `api/kernels/${id}/interrupt`, ANSWER_MS);
  }

  /** Resolves when the new process has answered. */
  async restartKernel(id: string): Promise<void> {
    await ask(this.record.url, this.token, 'POST', `api/kernels/${id}/restart`, RESTART_MS);
  }

  /** Which documents run on which kernels. */
  async documents(): Promise<{ path: string; kernelId: string }[]> {
    const answer = await ask(this.record.url, this.token, 'GET', 'api/sessions', ANSWER_MS);
    if (!Value.Check(Sessions, answer))
      throw new CommandError('gateway_unresponsive', 'The list of sessions is garbled.');
    return answer.map(({ path, kernel }) => ({ path, kernelId: kernel.id }));
  }

  /** Asks the process to end and waits until it has. */
  async stop(): Promise<void> {
    const { pid } = this.record;
    process.kill(pid, 'SIGTERM');
    const deadline = performance.now() + SHUTDOWN_MS;
    while (isAlive(pid)) {
      if (performance.now() > deadline) {
        throw new CommandError(
          'gateway_not_stopped',
          `The gateway (pid ${pid}) has not ended within a minute; end it with kill -9 ${pid}, its kernels go on.`
        );
      }
      await new Promise(resolve => setTimeout(resolve, 50));
    }
  }
}

function noGateway(stateDir: string): CommandError {
  return new CommandError(
    'no_gateway',
    `No gateway serves ${stateDir}; start one with "tpulab serve", or name its folder with --state-dir.`
  );
}

/** The check of a schema with a format needs the format registered; the shape is what matters here. */
function isHealth(value: unknown): value is Health {
  return typeof value === 'object' && value !== null && 'gatewayId' in value && 'status' in value;
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function ask(
  url: string,
  token: string,
  method: string,
  path: string,
  timeoutMs: number
): Promise<unknown> {
  const { status, body: text } = await requestGateway({ url, token, method, path, timeoutMs });
  const body: unknown = status === 204 ? null : JSON.parse(text);
  if (status < 200 || status > 299) {
    const message = (body as { message?: string } | null)?.message ?? `it answered ${status}`;
    throw new CommandError('gateway_unresponsive', `The gateway refused ${method} ${path}: ${message}`);
  }
  return body;
}

function below(remote: string | undefined): string {
  return remote === undefined ? '' : `remotes/${encodeURIComponent(remote)}/`;
}
