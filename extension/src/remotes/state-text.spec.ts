import { describe, expect, it } from 'vitest';
import { remote, stage } from '../testing/remotes.js';
import { acceleratorName, remoteKernelName, sourceName } from '../backends/remote-names.js';
import { figuresText, canCancel, stateText } from './state-text.js';

describe('the state of a remote in words', () => {
  it('counts down to the next attempt', () => {
    const lost = remote({ state: 'reconnecting', nextAttemptAt: 10_000 });
    expect(stateText(lost, 2_000).label).toBe('reconnecting in 8 s');
    expect(stateText(lost, 20_000).label).toBe('reconnecting in 1 s');
  });

  it('names the stage that runs', () => {
    const stages = [stage('uv', 'done'), stage('Python environment jax', 'running', '40 MB')];
    const settingUp = remote({ state: 'setting-up', stages });
    expect(stateText(settingUp, 0).detail).toBe('Python environment jax: 40 MB');
    expect(canCancel(settingUp)).toBe(true);
  });

  it("names the cloud's pending step, and its duration so far", () => {
    const queue = { state: 'WAITING_FOR_RESOURCES', since: 1_000 };
    const { detail } = stateText(remote({ name: 'my-tpu', state: 'queued', queue }), 7_201_000);
    expect(detail).toBe(
      'Google Cloud reports WAITING_FOR_RESOURCES for my-tpu, 2 h so far. It is connected as soon as it is ready.'
    );
  });

  it('names the failure', () => {
    const error = {
      code: 'remote.host_key_changed',
      message: 'The host key has changed.',
      command: 'ssh-keygen -R h'
    };
    expect(stateText(remote({ state: 'failed', error }), 0).detail).toBe('The host key has changed.');
  });

  it('has accelerator and round trip while it is connected', () => {
    const accelerator = { type: 'v5litepod-8', chip: 'v5e', chips: 8 };
    expect(figuresText(remote({ state: 'connected', accelerator, roundTripMs: 22.6 }))).toBe('v5e-8 · 23 ms');
    expect(figuresText(remote({ state: 'reconnecting', accelerator, roundTripMs: 22.6 }))).toBe('v5e-8');
    expect(figuresText(remote({ state: 'connected', roundTripMs: 0.2 }))).toBe('1 ms');
  });
});

describe('names', () => {
  it('of accelerators have their usual spelling', () => {
    expect(acceleratorName({ accelerator: { type: 'v6e-1', chip: null, chips: 0 } })).toBe('v6e-1');
    expect(acceleratorName({ accelerator: null })).toBeNull();
  });

  it('of remote kernels name their place', () => {
    expect(remoteKernelName('JAX (XLA) on this machine', 'my-tpu (v5e-8)')).toBe('JAX · my-tpu (v5e-8)');
    expect(remoteKernelName('Python 3 (ipykernel)', 'lab')).toBe('Python 3 (ipykernel) · lab');
  });

  it('of sources are one line', () => {
    expect(sourceName({ kind: 'ssh', destination: 'ada@host' })).toBe('ada@host');
    const source = { kind: 'gcloud', product: 'tpu-vm', name: 'n', zone: 'z' } as const;
    expect(sourceName(source)).toBe('n, z');
  });
});
