/** What the bridge on this machine has kept of the kernels of a remote: readable when the remote is away, or gone for good. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { MirroredKernel, MirroredKernels } from '@tpulab/protocol';
import { OutputsApi } from './outputs-api.js';

/** It looks through the folders of all kernels of the remote. */
const TIMEOUT_MS = 30_000;

export class KeptApi {
  /** `settings` of the bridge on this machine; null while its address is not known. */
  constructor(
    private readonly settings: () => ServerConnection.ISettings | null,
    private readonly remote: string
  ) {}

  /** Rejects when the bridge cannot say. Empty for a remote of which nothing is kept, and from a bridge that keeps nothing. */
  async kernels(signal: AbortSignal): Promise<readonly MirroredKernel[]> {
    const settings = this.settings();
    if (settings === null) {
      throw new Error('The address of the bridge is not known yet.');
    }
    const init = { signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]) };
    const response = await ServerConnection.makeRequest(
      URLExt.join(settings.baseUrl, this.route),
      init,
      settings
    );
    if (response.status === 404) {
      return [];
    }
    if (!response.ok) {
      throw await ServerConnection.ResponseError.create(response);
    }
    return ((await response.json()) as MirroredKernels).kernels;
  }

  outputs(kernelId: string): OutputsApi {
    return new OutputsApi(this.settings, `${this.route}/${encodeURIComponent(kernelId)}`);
  }

  private get route(): string {
    return `bridge/v1/remotes/${encodeURIComponent(this.remote)}/mirror`;
  }
}
