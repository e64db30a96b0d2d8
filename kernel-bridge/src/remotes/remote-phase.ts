/** Where a remote stands, and where it can go from there. */
import type { RemoteError, RemotePrompt, RemoteQueue, RemoteState } from '@tpulab/protocol';

export type RemotePhase =
  | { readonly kind: 'disconnected' }
  | { readonly kind: 'connecting' }
  /** Of ssh, or, after its connection was given up, of the next attempt. */
  | { readonly kind: 'waiting'; readonly prompt: RemotePrompt }
  | { readonly kind: 'setting-up' }
  | { readonly kind: 'connected'; readonly since: number; readonly gatewayId: string }
  | { readonly kind: 'reconnecting'; readonly error: RemoteError; readonly nextAttemptAt: number }
  /** Looked for again at `nextAttemptAt`; null: now. */
  | { readonly kind: 'queued'; readonly queue: RemoteQueue; readonly nextAttemptAt: number | null }
  | { readonly kind: 'failed'; readonly error: RemoteError }
  | { readonly kind: 'preempted'; readonly error: RemoteError };

/** From each state to those that can follow. A person can end any of them, so `disconnected` always can. */
const NEXT: Readonly<Record<RemoteState, readonly RemoteState[]>> = {
  disconnected: ['connecting'],
  connecting: [
    'waiting',
    'setting-up',
    'connected',
    'reconnecting',
    'queued',
    'failed',
    'preempted',
    'disconnected'
  ],
  waiting: ['connecting', 'waiting', 'reconnecting', 'queued', 'failed', 'preempted', 'disconnected'],
  'setting-up': ['connected', 'connecting', 'waiting', 'reconnecting', 'failed', 'preempted', 'disconnected'],
  connected: ['reconnecting', 'connecting', 'failed', 'preempted', 'disconnected'],
  reconnecting: ['connecting', 'reconnecting', 'queued', 'failed', 'preempted', 'disconnected'],
  // Looked for again without leaving it, so that nobody sees it flicker through a wait of hours.
  queued: ['connecting', 'waiting', 'queued', 'reconnecting', 'failed', 'preempted', 'disconnected'],
  failed: ['connecting', 'disconnected'],
  // Looked for again without leaving it, until another machine has its name.
  preempted: ['connecting', 'waiting', 'queued', 'reconnecting', 'failed', 'preempted', 'disconnected']
};

export function canFollow(from: RemoteState, to: RemoteState): boolean {
  return NEXT[from].includes(to);
}

/** The phase after `from`; a step that the table does not have is a mistake in the program. */
export function follow(from: RemotePhase, to: RemotePhase): RemotePhase {
  if (!canFollow(from.kind, to.kind)) {
    throw new TypeError(`a machine cannot go from ${from.kind} to ${to.kind}`);
  }
  return to;
}
