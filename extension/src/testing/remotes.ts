/** Remotes for specs. */
import type { Remote, RemoteStage } from '@tpulab/protocol';

export function remote(given: Partial<Remote> = {}): Remote {
  return {
    name: 'my-tpu',
    source: { kind: 'ssh', destination: 'ada@vm' },
    hosts: ['vm'],
    environment: 'jax',
    install: true,
    state: 'disconnected',
    stages: [],
    checks: [],
    error: null,
    prompt: null,
    notice: null,
    nextAttemptAt: null,
    connectedAt: null,
    roundTripMs: null,
    accelerator: null,
    gatewayId: null,
    mirror: { kernels: 0, bytes: 0, behindBytes: 0 },
    ...given
  };
}

export function stage(title: string, state: RemoteStage['state'], detail: string | null = null): RemoteStage {
  return { name: title, title, state, detail, fraction: null };
}
