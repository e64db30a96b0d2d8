/** The outputs of a remote's kernels stored by the bridge on this machine: readable when the remote is unreachable or deleted. */
import type { ServerConnection } from '@jupyterlab/services';
import type { MirroredKernel, MirroredKernels } from '@tpulab/protocol';
import { requestBridge } from '../backends/bridge-request.js';
import { OutputsApi, readable } from './outputs-api.js';
import { type ITrust, RequestedHere } from './trust.js';

/** The bridge searches the folders of all kernels of the remote. */
const TIMEOUT_MS = 30_000;

export class StoredOutputsApi {
  /** `settings` of the bridge on this machine; null while its address is unknown. */
  constructor(
    private readonly settings: () => ServerConnection.ISettings | null,
    private readonly remote: string
  ) {}

  /** Rejects when the bridge cannot answer. Empty for a remote without stored outputs, and from a bridge that stores none. */
  async kernels(signal: AbortSignal): Promise<readonly MirroredKernel[]> {
    const answer = await requestBridge({
      settings: this.settings(),
      route: this.route,
      timeoutMs: TIMEOUT_MS,
      signals: [signal]
    });
    if (answer.response.status === 404) return [];
    return (readable(answer) as MirroredKernels).kernels;
  }

  outputs(kernelId: string): OutputsApi {
    return new OutputsApi(this.settings, `${this.route}/${encodeURIComponent(kernelId)}`);
  }

  trust(kernelId: string): ITrust {
    return new RequestedHere(this.settings, this.remote, kernelId);
  }

  private get route(): string {
    return `bridge/v1/machines/${encodeURIComponent(this.remote)}/mirror`;
  }
}
