/** Follows the journal of one kernel of a remote for as long as the remote can be reached and the kernel lives. */
import { writeAtomically } from '../../platform/write-atomically.js';
import type { Readable } from 'node:stream';
import path from 'node:path';
import type { Logger } from 'pino';
import { KernelDocuments } from '../../kernels/kernel-documents.js';
import type { RemoteAnswer, RemoteGateway } from '../remote-gateway.js';
import type { MirroredJournal } from './mirrored-journal.js';
import { type FrameBudget, framesOf, StreamError } from './stream-frames.js';

/** It is left alone for a while. */
export class RestartStorm extends StreamError {}

/** `ended`: all of it is here. `unknown`: the remote has no such kernel and no journal of one. */
export type FollowEnd = 'ended' | 'unknown' | 'disconnected';

export interface FollowOptions {
  readonly gateway: RemoteGateway;
  readonly kernelId: string;
  readonly journal: MirroredJournal;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Of its remote. */
  readonly budget: FrameBudget;
  readonly onProgress: (progress: { readonly behindBytes: number }) => void;
  /** Whether the remote may begin another journal for this kernel now. */
  readonly mayRestart: () => boolean;
  /** Without a byte for so long the connection counts as lost; the remote says its standing more often. */
  readonly silenceMs?: number;
}

const SILENCE_MS = 35_000;

/** Rejects with a `StreamError` when the remote sends what is not a journal, and with the system's error when our disk fails. */
export async function followJournal(options: FollowOptions): Promise<FollowEnd> {
  const { gateway, kernelId, journal, signal, log } = options;
  let response: RemoteAnswer;
  try {
    const silenceMs = options.silenceMs ?? SILENCE_MS;
    response = await gateway.answer({ method: 'GET', target: pathOf(kernelId, journal), signal, silenceMs });
  } catch {
    return 'disconnected';
  }
  if (response.status !== 200) {
    response.body.destroy();
    return response.status === 404 ? 'unknown' : 'disconnected';
  }
  await using documents = new KernelDocuments(journal.kernelDir, log);
  let behindBytes = 0;
  try {
    for await (const frame of framesOf(guarded(response.body), { budget: options.budget, signal })) {
      if (frame.kind === 'records') {
        await journal.append(frame.bytes);
        behindBytes = Math.max(behindBytes - frame.bytes.length, 0);
      } else if (frame.kind === 'skipped') {
        behindBytes = Math.max(behindBytes - frame.bytes, 0);
      } else if (frame.note.kind === 'restart') {
        if (!options.mayRestart()) throw new RestartStorm('the machine begins one journal after the other');
        const lastSeq = journal.nextSeq - 1;
        const aside = await journal.restart();
        log.warn(
          { kernelId, lastSeq, aside },
          'the machine has another journal; the copy of the old one was archived'
        );
      } else if (frame.note.kind === 'standing') {
        behindBytes = frame.note.behindBytes;
        // Only helps to find the outputs later: no harm comes to the records, and it is tried again.
        for (const each of frame.note.documents ?? []) await documents.note(each).catch(() => undefined);
      } else if (frame.note.kind === 'ended') {
        const { endedAt, reason, specName } = frame.note;
        await writeAtomically(path.join(journal.kernelDir, 'ended.json'), {
          kernelId,
          specName,
          endedAt,
          reason
        });
        options.onProgress({ behindBytes: 0 });
        return 'ended';
      }
      options.onProgress({ behindBytes });
    }
  } catch (error) {
    if (error instanceof ConnectionLost) return 'disconnected';
    throw error;
  } finally {
    response.body.destroy();
  }
  return 'disconnected';
}

function pathOf(kernelId: string, { nextSeq, checksum }: MirroredJournal): string {
  const query = new URLSearchParams({ from: String(nextSeq) });
  if (checksum !== undefined) query.set('checksum', String(checksum));
  return `/bridge/v1/kernels/${encodeURIComponent(kernelId)}/journal/stream?${query.toString()}`;
}

class ConnectionLost extends Error {}

/** Tells a lost connection apart from a failing disk of ours, which shows in the same loop. */
async function* guarded(response: Readable): AsyncGenerator<Buffer, void, void> {
  try {
    yield* response as AsyncIterable<Buffer>;
  } catch (cause) {
    if (cause instanceof StreamError) throw cause;
    throw new ConnectionLost('the connection was lost', { cause });
  }
}
