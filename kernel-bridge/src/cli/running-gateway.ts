/** The gateway of a running process, found by the files in its state folder. */
import { CodedError } from '@tpulab/platform/errors.js';
import { jsonIn } from '@tpulab/platform/json-text.js';
import { KernelModel } from '../kernels/kernel-model.js';
import { setTimeout as delay } from 'node:timers/promises';
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { DevicesPage, type Health, HoldersPage } from '@tpulab/protocol';
import { nameOf, processStart } from '@tpulab/platform/process-identity.js';
import { isWithin } from '@tpulab/platform/paths.js';
import { IDENTITY, isProof, newChallenge } from '../http/gateway-proof.js';
import {
  presenceOfGateway,
  type RunningGatewayFolder,
  runningGateways
} from '../gateway/running-gateways.js';
import { type GatewayRecord, readGatewayRecord, readToken, stateFolder } from '../gateway/state-folder.js';
import { CommandError, type OutputOptions } from './output.js';
import { requestGateway } from '../http/gateway-request.js';
import path from 'node:path';
import type { Command } from 'commander';
import { PACKAGE_FOLDER } from '@tpulab/machines/environments';
import { readdir, stat } from 'node:fs/promises';

/** A gateway that forwards to a remote may have to wait for it. */
const ANSWER_MS = 30_000;
const FIRST_ANSWER_MS = 10_000;
/** A newly started gateway first queries its kernels, and a busy machine is slow. */
const READY_MS = 30_000;
const READY_POLL_MS = 250;
/** Kernels have time to end before they are killed. */
const SHUTDOWN_MS = 60_000;
const RESTART_MS = 180_000;

/** The fields of a kernel that the commands need. */
const Kernels = Type.Array(Type.Object({ ...KernelModel.properties, last_activity: Type.String() }));
const Sessions = Type.Array(Type.Object({ path: Type.String(), kernel: Type.Object({ id: Type.String() }) }));

interface RequestOptions {
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Default 30 s. */
  readonly timeoutMs?: number;
}

/** The gateway refused with an error code (docs/errors.md), or one of its operations has failed with that code. */
export class GatewayRefusal extends CodedError<string> {
  constructor(
    code: string,
    message: string,
    /** HTTP status of the answer; null: it was not one. */
    readonly status: number | null = null
  ) {
    super(code, message);
  }
}

export class RunningGateway {
  private constructor(
    readonly record: GatewayRecord,
    readonly health: Health,
    readonly token: string
  ) {}

  /** Throws `no_gateway` if none serves the folder, `gateway_unresponsive` if one does but does not answer. */
  static async find(stateDir: string): Promise<RunningGateway> {
    const record = await readGatewayRecord(stateDir);
    const token = await readToken(stateDir);
    if (!record || token === null) throw noGateway(stateDir);
    const presence = await presenceOfGateway(stateDir, record);
    if (presence === 'elsewhere') {
      throw new CommandError(
        'no_gateway',
        `The server of ${stateDir} runs on ${await nameOf(record.host)} (pid ${record.pid} there); run the command there, or choose another state folder with --state-dir.`
      );
    }
    if (presence !== 'here') throw noGateway(stateDir);
    // Another program may have got the port of a killed gateway, and must not receive the token.
    if (!(await answerOf(record, stateDir, provesItself(record)))) throw noGateway(stateDir);
    const answer = send(record.url, token, 'GET', 'bridge/v1/health', { timeoutMs: FIRST_ANSWER_MS });
    const health = await answerOf(record, stateDir, answer);
    if (!isHealth(health) || health.gatewayId !== record.gatewayId) throw noGateway(stateDir);
    return new RunningGateway(record, health, token);
  }

  /** @throws GatewayRefusal; CommandError if the answer does not fit the schema */
  async request<T extends TSchema>(
    schema: T,
    method: string,
    path: string,
    how?: RequestOptions
  ): Promise<Static<T>> {
    const answer = await this.send(method, path, how);
    if (Value.Check(schema, answer)) return answer;
    throw new CommandError(
      'gateway_unresponsive',
      `The response of the server to ${method} ${path} is garbled.`
    );
  }

  /** Like `request`, but returns any answer. A refusal because the gateway has just started is retried. */
  async send(method: string, path: string, how: RequestOptions = {}): Promise<unknown> {
    const deadline = performance.now() + READY_MS;
    for (;;) {
      try {
        return await send(this.record.url, this.token, method, path, how);
      } catch (error) {
        const isStarting = error instanceof GatewayRefusal && error.code === 'not_ready';
        if (!isStarting || performance.now() > deadline) throw error;
      }
      await delay(READY_POLL_MS);
    }
  }

  kernels(): Promise<Static<typeof Kernels>> {
    return this.request(Kernels, 'GET', 'api/kernels');
  }

  devices(): Promise<DevicesPage> {
    return this.request(DevicesPage, 'GET', 'bridge/v1/devices');
  }

  /** @param remote name of a remote, for its chips */
  holders(remote?: string): Promise<HoldersPage> {
    return this.request(HoldersPage, 'GET', `${below(remote)}bridge/v1/devices/holders`);
  }

  /** Shuts down the kernel that the process belongs to. */
  async endHolder(pid: number, remote?: string): Promise<void> {
    const path = `${below(remote)}bridge/v1/devices/holders/${pid}/end`;
    await this.send('POST', path, { timeoutMs: SHUTDOWN_MS });
  }

  async removeLock(remote?: string): Promise<void> {
    await this.send('DELETE', `${below(remote)}bridge/v1/devices/lock`);
  }

  async removeKernel(id: string): Promise<void> {
    await this.send('DELETE', `api/kernels/${id}`, { timeoutMs: SHUTDOWN_MS });
  }

  /** Resolves once the request was sent to the kernel; the kernel's reaction is not awaited. */
  async interruptKernel(id: string): Promise<void> {
    await this.send('POST', `api/kernels/${id}/interrupt`);
  }

  /** Resolves after the new process has answered. */
  async restartKernel(id: string): Promise<void> {
    await this.send('POST', `api/kernels/${id}/restart`, { timeoutMs: RESTART_MS });
  }

  async documents(): Promise<{ path: string; kernelId: string }[]> {
    const answer = await this.request(Sessions, 'GET', 'api/sessions');
    return answer.map(({ path, kernel }) => ({ path, kernelId: kernel.id }));
  }

  /** Requests that the process end, and waits for its end. */
  async stop(): Promise<void> {
    const { pid } = this.record;
    process.kill(pid, 'SIGTERM');
    const deadline = performance.now() + SHUTDOWN_MS;
    // A process that has ended without a parent to reap it, as in a container without an init, counts as ended.
    while ((await processStart(pid)) !== null) {
      if (performance.now() > deadline) {
        throw new CommandError(
          'gateway_not_stopped',
          `The server (pid ${pid}) did not stop within a minute; end it with kill -9 ${pid}: its kernels keep running.`
        );
      }
      await delay(50);
    }
  }
}

function noGateway(stateDir: string): CommandError {
  return new CommandError(
    'no_gateway',
    `No server is running for ${stateDir}; start one with "npm start" or "tpulab serve", or choose its state folder with --state-dir.`
  );
}

async function answerOf<T>({ pid, url }: GatewayRecord, stateDir: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    throw new CommandError(
      'gateway_unresponsive',
      `Process ${pid} should be serving ${stateDir} at ${url}, but does not answer; see gateway.log there, or end that process.`,
      { cause }
    );
  }
}

/** Validating a schema with a format requires that format to be registered; only the shape matters here. */
function isHealth(value: unknown): value is Health {
  return typeof value === 'object' && value !== null && 'gatewayId' in value && 'status' in value;
}

/** @throws if nothing answers. A gateway of an earlier version has no key; then only its id is checked. */
async function provesItself({ url, proofKey }: GatewayRecord): Promise<boolean> {
  if (proofKey === undefined) return true;
  const challenge = newChallenge();
  const path = `${IDENTITY.slice(1)}?challenge=${challenge}`;
  const { body } = await requestGateway({
    url,
    token: null,
    method: 'GET',
    path,
    timeoutMs: FIRST_ANSWER_MS
  });
  return isProof(proofKey, challenge, jsonIn(body));
}

async function send(
  url: string,
  token: string,
  method: string,
  path: string,
  { json, timeoutMs = ANSWER_MS }: RequestOptions
): Promise<unknown> {
  const { status, body } = await requestGateway({ url, token, method, path, timeoutMs, json });
  const answer: unknown = body === '' ? null : JSON.parse(body);
  if (status >= 200 && status <= 299) return answer;
  const { code = 'gateway_unresponsive', message = `The server answered ${status} to ${method} ${path}.` } =
    (answer ?? {}) as { code?: string; message?: string };
  throw new GatewayRefusal(code, message, status);
}

/** The path prefix for requests to the gateway of a remote. */
export function below(remote: string | null | undefined): string {
  return remote == null ? '' : `machines/${encodeURIComponent(remote)}/`;
}

/* Selects the state folder of a command: the named one, otherwise the folder of the running gateway. */

/** Options of every command that reads a state folder or calls its gateway. */
export interface StateOptions extends OutputOptions {
  readonly stateDir?: string;
}

export function ofState(command: Command, json = 'print JSON'): Command {
  return command
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', json);
}

/** @throws CommandError `no_gateway`, `several_gateways`, `gateway_unresponsive` */
export async function chosenGateway({ stateDir }: StateOptions): Promise<RunningGateway> {
  return RunningGateway.find(await chosenStateFolder(stateDir));
}

/** `.tpulab`, in which `npm start` stores its state: beside `kernel-bridge`, and around the bundle. */
const CHECKOUT_FOLDERS = ['../.tpulab', '..']
  .map(part => path.resolve(PACKAGE_FOLDER, part))
  .filter(folder => path.basename(folder) === '.tpulab');

/**
 * `--state-dir`, otherwise `$TPULAB_STATE_DIR`, otherwise the folder of the only running gateway; the checkout's own has
 * priority. If none runs, the default folder.
 *
 * @throws CommandError `several_gateways`
 */
export async function chosenStateFolder(
  requested: string | undefined,
  env: NodeJS.ProcessEnv = process.env,
  running: () => Promise<readonly RunningGatewayFolder[]> = runningGateways
): Promise<string> {
  if (requested !== undefined || (env['TPULAB_STATE_DIR'] ?? '') !== '') return stateFolder(requested, env);
  const found = await running();
  const own = found.filter(({ stateDir }) => isOfCheckout(stateDir));
  const [chosen, ...others] = own.length > 0 ? own : found;
  if (chosen === undefined) return stateFolder(undefined, env);
  if (others.length === 0) return chosen.stateDir;
  const lines = [chosen, ...others].map(
    ({ stateDir, record }) => `  --state-dir ${stateDir}  (${record.url}, since ${record.startedAt})`
  );
  throw new CommandError(
    'several_gateways',
    `${lines.length} servers are running; choose one with --state-dir. Newest first:\n${lines.join('\n')}`
  );
}

function isOfCheckout(stateDir: string): boolean {
  return CHECKOUT_FOLDERS.some(folder => isWithin(folder, stateDir));
}

/** `--machine NAME`: the command reads the local copy of a machine's output instead of the output of this server's kernels. */
export function withMirrorOption(command: Command): Command {
  return command
    .option('--machine <name>', "read the local copy of this machine's output")
    .hook('preAction', async (_, action) => {
      const { machine, stateDir } = action.opts<{ machine?: string; stateDir?: string }>();
      if (machine === undefined) return;
      action.setOptionValue('stateDir', await mirrorFolder(await chosenStateFolder(stateDir), machine));
    });
}

async function mirrorFolder(stateDir: string, remote: string): Promise<string> {
  const mirrors = path.join(stateDir, 'mirrors');
  const mirrored = await readdir(mirrors).catch((): string[] => []);
  const folder = path.join(mirrors, remote);
  const found = mirrored.includes(remote) ? await stat(folder).catch(() => null) : null;
  if (found?.isDirectory() === true) return folder;
  const names = mirrored.length === 0 ? 'there are none' : `saved: ${mirrored.join(', ')}`;
  throw new CommandError(
    'mirror_unknown',
    `No output of a machine named "${remote}" is saved on this computer (${names}).`
  );
}
