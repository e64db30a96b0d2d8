/**
 * Output of a kernel, by cell: `GET /bridge/v1/kernels/:id/outputs`.
 *
 * The outputs are compacted as a notebook would show them. An execution is sent either whole or not at all: a page that
 * requests `since` replaces its copies of the executions in the answer, and then continues live with `resume=<until>` on
 * the channels socket. docs/server-api.md has the rules.
 */
import { type Static, Type } from '@sinclair/typebox';

const Seq = Type.Integer({ minimum: 0, description: "position in the kernel's journal" });
const Bytes = Type.Integer({ minimum: 0, description: 'bytes of UTF-8 or of base64 text' });
const Time = Type.String({ format: 'date-time' });
const MimeBundle = Type.Record(Type.String(), Type.Unknown());

/** An output in nbformat's memory form: texts are whole strings, not lists of lines. */
export const NotebookOutput = Type.Union([
  Type.Object({ output_type: Type.Literal('stream'), name: Type.String(), text: Type.String() }),
  Type.Object({ output_type: Type.Literal('display_data'), data: MimeBundle, metadata: MimeBundle }),
  Type.Object({
    output_type: Type.Literal('execute_result'),
    data: MimeBundle,
    metadata: MimeBundle,
    execution_count: Type.Union([Type.Integer(), Type.Null()])
  }),
  Type.Object({
    output_type: Type.Literal('error'),
    ename: Type.String(),
    evalue: Type.String(),
    traceback: Type.Array(Type.String())
  })
]);
export type NotebookOutput = Static<typeof NotebookOutput>;

export const OutputEntry = Type.Object({
  output: NotebookOutput,
  firstSeq: Seq,
  lastSeq: Seq,
  displayId: Type.Union([Type.String(), Type.Null()]),
  cursor: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description: 'streams: where in `text` the next character goes; before its end after a carriage return'
  }),
  cutBytes: Bytes,
  buffers: Type.Integer({
    minimum: 0,
    description: 'binary buffers of the message; the journal has them at `firstSeq`'
  })
});
export type OutputEntry = Static<typeof OutputEntry>;

export const CellExecutionState = Type.Union(
  [
    Type.Literal('queued'),
    Type.Literal('running'),
    Type.Literal('ok'),
    Type.Literal('error'),
    Type.Literal('aborted'),
    Type.Literal('lost')
  ],
  { description: 'lost: the kernel ended or was restarted before it answered' }
);
export type CellExecutionState = Static<typeof CellExecutionState>;

/** Messages that are missing from the journal; also shown among the outputs. */
export const OutputGap = Type.Object({
  seq: Seq,
  count: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
  code: Type.String(),
  reason: Type.String()
});
export type OutputGap = Static<typeof OutputGap>;

/** One execute_request and its outputs. */
export const CellExecution = Type.Object({
  msgId: Type.String({ description: '`msg_id` of the execute_request' }),
  cellId: Type.Union([Type.String(), Type.Null()], {
    description: '`metadata.cellId` of the execute_request; null when the client named none'
  }),
  codeHash: Type.Union([Type.String(), Type.Null()], {
    description: 'SHA-256 of the code as UTF-8, hexadecimal; null when the request is no longer kept'
  }),
  state: CellExecutionState,
  executionCount: Type.Union([Type.Integer(), Type.Null()]),
  requestedAt: Time,
  startedAt: Type.Union([Time, Type.Null()]),
  finishedAt: Type.Union([Time, Type.Null()]),
  finishedSeq: Type.Optional(
    Type.Integer({ minimum: 0, description: 'the record of its end; later ones may update its displays' })
  ),
  requestSeq: Seq,
  changedSeq: Type.Integer({ minimum: 0, description: 'the newest record that changed anything of it' }),
  outputs: Type.Array(OutputEntry),
  clearPending: Type.Boolean({
    description: 'clear_output(wait=True) came last: the next output replaces these'
  }),
  cutBytes: Bytes,
  gaps: Type.Array(OutputGap)
});
export type CellExecution = Static<typeof CellExecution>;

/** Output that an ipywidgets Output widget has captured; it belongs to no cell. */
export const CapturedOutputs = Type.Object({
  commId: Type.String({ description: "the widget's model id" }),
  msgIds: Type.Array(Type.String(), { description: 'executions whose outputs it captured' }),
  capturing: Type.Boolean({ description: 'it continues capturing' }),
  changedSeq: Seq,
  outputs: Type.Array(OutputEntry),
  clearPending: Type.Boolean(),
  cutBytes: Bytes
});
export type CapturedOutputs = Static<typeof CapturedOutputs>;

export const OutputsPage = Type.Object({
  kernelId: Type.String(),
  alive: Type.Boolean({ description: 'false: the kernel has ended, nothing more will come' }),
  until: Type.Integer({
    minimum: 0,
    description: 'all records up to this one are taken into account; continue with `since` or `resume`'
  }),
  executions: Type.Array(CellExecution, { description: 'in the order of their requests' }),
  widgets: Type.Array(CapturedOutputs),
  nextAfter: Type.Union([Type.Integer(), Type.Null()], {
    description:
      '`after` of the page that follows; when the last page has come, ask once more with `since` = `until` of the first'
  }),
  forgotten: Type.Integer({ minimum: 0, description: 'old executions that are no longer listed' })
});
export type OutputsPage = Static<typeof OutputsPage>;

export const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export const OutputsQuery = Type.Object({
  cell: Type.Optional(
    Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 1000 })], {
      description: 'only these cells; repeatable'
    })
  ),
  since: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'only executions that changed after this record'
    })
  ),
  after: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'only executions requested after this record (paging)'
    })
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, description: 'executions in a page, 200 unless told' })
  ),
  maxBytes: Type.Optional(
    Type.Integer({
      minimum: 1024,
      maximum: MAX_OUTPUT_BYTES,
      description: 'of outputs of one execution, 2 MiB unless told; what is more is cut in the middle'
    })
  ),
  history: Type.Optional(
    Type.Boolean({
      description: 'include earlier executions of cells that were rerun; otherwise the newest of each cell'
    })
  )
});
export type OutputsQuery = Static<typeof OutputsQuery>;

/** Keys with these names make Yjs, in which JupyterLab edits notebooks, refuse the whole notebook. */
const REFUSED_KEYS = ['constructor', '__proto__'];

/**
 * The `data` or `metadata` of an output without keys that no notebook can contain; data with only such keys is replaced by
 * a text.
 */
export function withoutRefusedKeys<T extends object>(bundle: T, isData: boolean): T {
  if (!REFUSED_KEYS.some(key => Object.hasOwn(bundle, key))) return bundle;
  const rest = Object.entries(bundle).filter(([key]) => !REFUSED_KEYS.includes(key));
  const note = '[tpulab: data of a type that no notebook can contain is left out]';
  return Object.fromEntries(isData && rest.length === 0 ? [['text/plain', note]] : rest) as T;
}
