/** A range of a kernel's journal as JSON: `GET /bridge/v1/kernels/:id/journal`. */
import { type Static, Type } from '@sinclair/typebox';

const JsonObject = Type.Record(Type.String(), Type.Unknown());
const NullableObject = Type.Union([JsonObject, Type.Null()]);

export const JournalEntry = Type.Object({
  seq: Type.Integer({ minimum: 1 }),
  time: Type.String({ format: 'date-time' }),
  channel: Type.String({ description: 'shell, control, stdin, iopub, or bridge' }),
  fromClient: Type.Boolean(),
  header: NullableObject,
  parent_header: NullableObject,
  metadata: NullableObject,
  content: NullableObject,
  buffers: Type.Array(Type.String({ description: 'base64' }))
});
export type JournalEntry = Static<typeof JournalEntry>;

export const JournalPage = Type.Object({
  entries: Type.Array(JournalEntry),
  next: Type.Integer({ description: '`from` of the page that follows' }),
  firstSeq: Type.Integer({ description: 'the oldest record that is kept' }),
  lastSeq: Type.Integer({ description: 'the newest record of the kernel' })
});
export type JournalPage = Static<typeof JournalPage>;

export const JournalQuery = Type.Object({
  from: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 }))
});
export type JournalQuery = Static<typeof JournalQuery>;
