/**
 * Polls the gateway of a remote: measures the round trip, detects a gateway that ended while ssh stayed connected, and
 * reads the kind of TPU and the packages that a person has added to the machine's environments.
 */
import { DevicesPage, EnvironmentInfo, type Remote, RemoteNotice } from '@tpulab/protocol';
import { Type } from '@sinclair/typebox';
import { RemoteGateway } from './remote-gateway.js';
import { RemoteProblem } from './remote-error.js';
import type { RemoteReport } from './remote-report.js';
import { Value } from '@sinclair/typebox/value';

const EVERY_MS = 5_000;
/** ssh itself notices a dead connection earlier; this limit is for a gateway that hangs. */
const SILENCE_MS = 30_000;
/** Limit after a network change: a gateway that is still reachable answers sooner. */
const PROBE_MS = 4_000;
/** Interval between two checks of the packages that the user has added on the host. */
const PACKAGES_MS = 30_000;
const ENVIRONMENTS = 50;
const PACKAGES = 500;
const PACKAGE_CHARACTERS = 200;

interface GatewayWatchOptions {
  readonly socketPath: string;
  readonly token: string;
  readonly gatewayId: string;
  readonly host: string;
  /** Shows the round trip and the accelerator. */
  readonly report: Pick<RemoteReport, 'beat' | 'accelerator'>;
  /** Receives the packages that a person has added, by environment. */
  readonly added: (found: Record<string, string[]>) => void;
  readonly everyMs?: number;
}

interface Failure {
  readonly problem: RemoteProblem;
  readonly isSilent: boolean;
}

export class GatewayWatch implements Disposable {
  /** Resolves with the reason when the gateway does not answer correctly, or the watch ends. */
  readonly failed: Promise<Failure>;
  readonly #gateway: RemoteGateway;
  readonly #over = new AbortController();
  #fail!: (failure: Failure) => void;
  #timer: NodeJS.Timeout | null = null;
  #hasAccelerator = false;
  #packagesAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: GatewayWatchOptions) {
    this.#gateway = new RemoteGateway(options);
    this.failed = new Promise(resolve => (this.#fail = resolve));
    void this.#beat(SILENCE_MS);
  }

  /** Sends a request immediately, with a short time limit. */
  probe(): void {
    if (!this.#over.signal.aborted) void this.#check(PROBE_MS);
  }

  /** Forces a new connection although the gateway answers. */
  end(problem: RemoteProblem): void {
    this.#fail({ problem, isSilent: false });
  }

  [Symbol.dispose](): void {
    this.#over.abort();
    if (this.#timer) clearTimeout(this.#timer);
    this.#gateway[Symbol.dispose]();
  }

  async #beat(timeoutMs: number): Promise<void> {
    await this.#check(timeoutMs);
    if (this.#over.signal.aborted) return;
    this.#timer = setTimeout(() => void this.#beat(timeoutMs), this.options.everyMs ?? EVERY_MS);
    this.#timer.unref();
  }

  async #check(timeoutMs: number): Promise<void> {
    const { gatewayId, host, report } = this.options;
    const { signal } = this.#over;
    const started = performance.now();
    // A probe uses its own connection: the pooled connection may hang.
    using own = timeoutMs === PROBE_MS ? new RemoteGateway(this.options) : null;
    try {
      const { status, body } = await (own ?? this.#gateway).json('/bridge/v1/health', { signal, timeoutMs });
      const health = body as { gatewayId?: unknown; notice?: unknown } | null;
      if (signal.aborted) return;
      if (status !== 200 || health?.gatewayId !== gatewayId) {
        const problem = new RemoteProblem(
          'remote_lost',
          `Another server answers on ${host} than before; it was restarted.`
        );
        this.#fail({ problem, isSilent: false });
        return;
      }
      report.beat(performance.now() - started, noticeOf(health.notice));
      void this.#checkAccelerator();
      void this.#checkPackages();
    } catch (cause) {
      if (signal.aborted) return;
      const { name, message } = cause as Error;
      const problem = new RemoteProblem(
        'remote_lost',
        `The server on ${host} does not answer (${message}).`,
        { cause }
      );
      this.#fail({ problem, isSilent: name === 'TimeoutError' || name === 'AbortError' });
    }
  }

  /** Runs once; retried with the next beat if the answer was incomplete. */
  async #checkAccelerator(): Promise<void> {
    if (this.#hasAccelerator) return;
    this.#hasAccelerator = true;
    const { report } = this.options;
    try {
      const found = await acceleratorOf(this.#gateway, this.#over.signal);
      this.#hasAccelerator = found !== null;
      report.accelerator(found);
    } catch {
      this.#hasAccelerator = false;
    }
  }

  async #checkPackages(): Promise<void> {
    if (performance.now() - this.#packagesAt < PACKAGES_MS) return;
    this.#packagesAt = performance.now();
    const { signal } = this.#over;
    const answer = await this.#gateway.json('/bridge/v1/environments', { signal }).catch(() => null);
    if (signal.aborted || !Value.Check(Type.Array(EnvironmentInfo), answer?.body)) return;
    const there = answer.body
      .filter(({ state }) => state === 'ready' || state === 'outdated')
      .slice(0, ENVIRONMENTS);
    const lists = there.map(
      one => [one.name, (one.added ?? []).filter(isPackage).slice(0, PACKAGES)] as const
    );
    if (lists.length > 0) this.options.added(Object.fromEntries(lists));
  }
}

const isPackage = (line: string): boolean => line.length <= PACKAGE_CHARACTERS;

function noticeOf(value: unknown): RemoteNotice | null {
  return Value.Check(RemoteNotice, value) ? value : null;
}

export async function acceleratorOf(
  gateway: RemoteGateway,
  signal: AbortSignal
): Promise<Remote['accelerator']> {
  const { status, body } = await gateway.json('/bridge/v1/devices', { signal });
  if (status !== 200 || !Value.Check(DevicesPage, body)) return null;
  return {
    type: body.accelerator.type,
    chip: body.chips[0]?.name ?? null,
    chips: body.chips.length
  };
}
