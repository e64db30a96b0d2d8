/**
 * A kernel's journal as it grows (`GET /bridge/v1/kernels/ID/journal/stream`), and a gateway's copies of the journals of its
 * remotes (`GET /bridge/v1/machines/NAME/mirror`).
 *
 * The stream is a sequence of frames, `u32 little-endian length | u8 type | body`. Frames of type `records` contain whole records
 * as in the journal's files (docs/journal.md), in order and without holes; frames of type `note` contain a `StreamNote` as JSON.
 * The stream ends after the note `ended`; without it, the connection was lost and the client requests the stream again from its
 * position.
 */
import { type Static, Type } from '@sinclair/typebox';

export const JOURNAL_STREAM_TYPE = 'application/vnd.tpulab.journal-stream';

export const STREAM_FRAME = { records: 1, note: 2 } as const;

/** Bytes before the body of a frame. */
export const STREAM_FRAME_HEADER_BYTES = 5;

/** The longest path on Linux. Longer ones are not sent. */
export const MAX_DOCUMENT_PATH = 4096;

const Seq = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

export const JournalStreamQuery = Type.Object({
  from: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
  checksum: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 0xffff_ffff,
      description: 'checksum of record `from` - 1, as the client has it'
    })
  )
});
export type JournalStreamQuery = Static<typeof JournalStreamQuery>;

export const StreamNote = Type.Union([
  Type.Object(
    { kind: Type.Literal('restart') },
    { description: 'what the client has is of another journal: what follows begins at the oldest record' }
  ),
  Type.Object({
    kind: Type.Literal('gap'),
    fromSeq: Seq,
    toSeq: Seq,
    code: Type.String(),
    reason: Type.String()
  }),
  Type.Object(
    {
      kind: Type.Literal('standing'),
      lastSeq: Seq,
      behindBytes: Type.Number({ minimum: 0 }),
      documents: Type.Optional(
        Type.Array(Type.String({ maxLength: MAX_DOCUMENT_PATH }), {
          maxItems: 20,
          description:
            'paths of the documents that ran on the kernel, the newest last; only when they have changed'
        })
      )
    },
    { description: 'sent when the client has everything, and every few seconds' }
  ),
  Type.Object({
    kind: Type.Literal('ended'),
    lastSeq: Seq,
    endedAt: Type.String({ description: 'ISO 8601' }),
    reason: Type.String(),
    specName: Type.Union([Type.String(), Type.Null()])
  })
]);
export type StreamNote = Static<typeof StreamNote>;

/** One kernel of a remote, with the part of its journal that is on this machine. */
export const MirroredKernel = Type.Object({
  kernelId: Type.String(),
  name: Type.Union([Type.String(), Type.Null()], { description: 'kernelspec name at the remote' }),
  lastSeq: Seq,
  bytes: Type.Number({ minimum: 0 }),
  state: Type.Union(
    [Type.Literal('following'), Type.Literal('behind'), Type.Literal('ended'), Type.Literal('unknown')],
    {
      description:
        'behind: there may be more at the remote; unknown: the remote has neither the kernel nor its journal, for example a recreated machine'
    }
  ),
  endedAt: Type.Union([Type.String({ description: 'ISO 8601' }), Type.Null()]),
  wasShutDown: Type.Boolean({
    description: 'somebody has ended it; false also for one that went with its machine'
  }),
  documents: Type.Array(Type.String(), {
    description: 'paths of the documents that ran on it, the newest last; empty where that is not known'
  })
});
export type MirroredKernel = Static<typeof MirroredKernel>;

export const MirroredKernels = Type.Object({ kernels: Type.Array(MirroredKernel) });
export type MirroredKernels = Static<typeof MirroredKernels>;
