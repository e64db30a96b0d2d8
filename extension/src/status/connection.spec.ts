import { describe, expect, it } from 'vitest';
import type { CurrentKernel } from '../tokens.js';
import type { StreamState } from '../events/event-stream.js';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import { kernelState } from '../events/samples.spec-data.js';
import type { IBackend } from '../tokens.js';
import { type Connection, connectionOf, connectionText } from './connection.js';
const NOW = 1_790_000_000_000;
const LIVE: StreamState = { kind: 'live', gatewayId: 'g' };
const WAITING: StreamState = {
  kind: 'waiting',
  attempt: 2,
  retryAt: NOW + 7_000,
  failure: { code: 'cut', detail: '' }
};

type Bridged = Extract<CurrentKernel, { kind: 'bridge' }>;

function bridged(fields: Partial<Bridged> = {}, backend: Partial<IBackend> = {}): Bridged {
  return {
    kind: 'bridge',
    document: 'a.ipynb',
    kernelName: 'JAX',
    kernelId: 'k',
    clientId: 'c',
    connection: 'connected',
    status: 'idle',
    backend: { id: 'bridge', state: 'ok', lastError: null, nextRetryAt: null, ...backend } as IBackend,
    ...fields
  };
}

function client(state: 'replaying' | 'live', pending: number): KernelTelemetry {
  const telemetry = new KernelTelemetry('k');
  telemetry.applyClient({ topic: 'clients', kernelId: 'k', sessionId: 'c', state, pending });
  return telemetry;
}

describe('connectionOf', () => {
  it('shows nothing without a kernel, and states plainly that a stock kernel is local', () => {
    expect(connectionOf({ current: { kind: 'none' }, stream: LIVE, telemetry: null }).kind).toBe('none');
    const noKernel: CurrentKernel = { kind: 'no-kernel', document: 'a' };
    expect(connectionOf({ current: noKernel, stream: LIVE, telemetry: null }).kind).toBe('none');
    const local: CurrentKernel = { kind: 'local', document: 'a', kernelName: 'Python 3' };
    expect(connectionOf({ current: local, stream: null, telemetry: null }).kind).toBe('local');
  });

  it('is live when the kernel is connected, even before the stream of events is', () => {
    expect(connectionOf({ current: bridged(), stream: LIVE, telemetry: client('live', 0) }).kind).toBe(
      'live'
    );
    expect(connectionOf({ current: bridged(), stream: WAITING, telemetry: null }).kind).toBe('live');
  });

  it("warns while the kernel's output cannot be recorded", () => {
    const telemetry = client('live', 0);
    const journalFault = { code: 'journal_disk_full', message: 'The disk is full.' };
    telemetry.applyState(kernelState('k', 'busy', { journalFault }));
    const connection = connectionOf({ current: bridged(), stream: LIVE, telemetry });
    expect(connection).toEqual({ kind: 'at-risk', why: 'The disk is full.' });
    const shown = connectionText(connection, NOW);
    expect(shown?.label).toBe('output at risk');
    expect(shown?.detail).toMatch(/^The disk is full\. .*a gap shows where\.$/);
    telemetry.applyState(kernelState('k', 'busy'));
    expect(connectionOf({ current: bridged(), stream: LIVE, telemetry }).kind).toBe('live');
  });

  it('does not promise that a kernel comes back whose machine was preempted', () => {
    const lastError = { code: 'remote.preempted', message: 'my-tpu was preempted.' };
    const current = bridged({ connection: 'connecting' }, { state: 'down', lastError });
    expect(connectionOf({ current, stream: WAITING, telemetry: null })).toEqual({
      kind: 'lost',
      reason: 'my-tpu was preempted.',
      dead: false
    });
  });

  it('counts messages still to be replayed to this page, not to another one', () => {
    const telemetry = client('replaying', 12_345);
    expect(connectionOf({ current: bridged(), stream: LIVE, telemetry })).toEqual({
      kind: 'replaying',
      pending: 12_345
    });
    const other = bridged({ clientId: 'another' });
    expect(connectionOf({ current: other, stream: LIVE, telemetry }).kind).toBe('live');
  });

  it('counts down to whichever attempt comes first', () => {
    const current = bridged({ connection: 'connecting' });
    expect(connectionOf({ current, stream: WAITING, telemetry: null })).toMatchObject({
      retryAt: NOW + 7_000
    });
    const sooner = bridged({ connection: 'connecting' }, { state: 'down', nextRetryAt: NOW + 2_000 });
    expect(connectionOf({ current: sooner, stream: WAITING, telemetry: null })).toMatchObject({
      kind: 'reconnecting',
      retryAt: NOW + 2_000
    });
  });

  it('is connecting while an attempt is under way', () => {
    const current = bridged({ connection: 'connecting' });
    expect(connectionOf({ current, stream: LIVE, telemetry: null }).kind).toBe('connecting');
    expect(connectionOf({ current, stream: { kind: 'connecting', attempt: 3 }, telemetry: null }).kind).toBe(
      'connecting'
    );
  });

  it('is lost when nothing more is tried: the kernel is dead, refused, or its socket given up', () => {
    const dead = new KernelTelemetry('k');
    dead.applyState(kernelState('k', 'dead', { reason: 'exited with code 1' }));
    expect(connectionOf({ current: bridged(), stream: LIVE, telemetry: dead })).toEqual({
      kind: 'lost',
      reason: 'exited with code 1',
      dead: true
    });
    const refused = bridged({ connection: 'disconnected' }, { state: 'auth' });
    expect(connectionOf({ current: refused, stream: WAITING, telemetry: null })).toMatchObject({
      kind: 'lost',
      dead: false
    });
    const givenUp = bridged({ connection: 'disconnected' });
    expect(connectionOf({ current: givenUp, stream: LIVE, telemetry: null }).kind).toBe('lost');
  });
});

describe('connectionText', () => {
  const text = (connection: Connection) => connectionText(connection, NOW);

  it.each([
    [{ kind: 'live' }, 'live', false],
    [{ kind: 'local' }, 'local', false],
    [{ kind: 'connecting' }, 'reconnecting…', true],
    [{ kind: 'reconnecting', retryAt: NOW + 6_400, why: '' }, 'reconnecting in 7 s', true],
    [{ kind: 'reconnecting', retryAt: NOW - 300, why: '' }, 'reconnecting in 1 s', true],
    [{ kind: 'replaying', pending: 12_345 }, 'replaying (12,345 to go)', false],
    [{ kind: 'lost', reason: '', dead: true }, 'lost', false],
    [{ kind: 'lost', reason: '', dead: false }, 'lost', true]
  ] as [Connection, string, boolean][])('says %j as %s', (connection, label, canReconnect) => {
    expect(text(connection)).toMatchObject({ label, canReconnect });
  });

  it('states the event in the tooltip and that nothing is lost', () => {
    const why = { code: 'timeout', detail: '' } as const;
    expect(text({ kind: 'reconnecting', retryAt: NOW + 1, why })?.detail).toBe(
      'The TPULab server did not answer within 10 s. The kernel keeps running, and no output is lost. Click to retry now.'
    );
    expect(text({ kind: 'lost', reason: 'killed by SIGKILL', dead: true })?.detail).toContain(
      'killed by SIGKILL'
    );
  });

  it('shows nothing without machines', () => {
    expect(text({ kind: 'none' })).toBeNull();
  });
});
