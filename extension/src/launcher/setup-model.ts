/** The creation of an environment on this machine, followed until it exists. No DOM. */
import type { EnvironmentCreation, EnvironmentInfo } from '@tpulab/protocol';
import type { RemotesApi } from '../backends/remotes-api.js';
import { Changing } from '../platform/changing.js';

const POLL_MS = 1_000;

export class EnvironmentSetup extends Changing {
  /** @param api requests to the gateway of this machine */
  constructor(
    private readonly api: Pick<RemotesApi, 'request'>,
    readonly environment: EnvironmentInfo
  ) {
    super();
    void this.poll('GET');
  }

  /** Null until the gateway has reported it. */
  get creation(): EnvironmentCreation | null {
    return this._creation;
  }

  /** Why the gateway is unreachable; the request is repeated while a creation runs. */
  get problem(): string | null {
    return this._problem;
  }

  /** Begins, or joins a running creation. */
  start(): Promise<void> {
    return this.poll('POST');
  }

  stop(): Promise<void> {
    return this.poll('DELETE');
  }

  /** Ends the polling, not the creation. */
  override dispose(): void {
    clearTimeout(this._timer);
    super.dispose();
  }

  private async poll(method: 'GET' | 'POST' | 'DELETE'): Promise<void> {
    clearTimeout(this._timer);
    const route = `bridge/v1/environments/${encodeURIComponent(this.environment.name)}/creation`;
    try {
      this._creation = await this.api.request<EnvironmentCreation>(method, route);
      this._problem = null;
    } catch (error) {
      this._problem = error instanceof Error ? error.message : String(error);
    }
    if (this.isDisposed) {
      return;
    }
    if (this._creation?.state === 'running') {
      clearTimeout(this._timer);
      this._timer = setTimeout(() => void this.poll('GET'), POLL_MS);
    }
    this._changed.emit();
  }

  private _creation: EnvironmentCreation | null = null;
  private _problem: string | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

/** The environment offered on a machine without one: JAX, unless it exists already or cannot be created. */
export function offeredEnvironment(environments: readonly EnvironmentInfo[]): EnvironmentInfo | null {
  const isThere = environments.some(({ state }) => state === 'ready' || state === 'outdated');
  return isThere ? null : (environments.find(({ name }) => name === 'jax') ?? null);
}
