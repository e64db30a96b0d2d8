/**
 * Executions on a remote that were requested through this gateway (`POST /bridge/v1/machines/NAME/requested`): their
 * outputs are trusted as if they had arrived live. All other executions that a remote reports are untrusted.
 */
import { type Static, Type } from '@sinclair/typebox';

const Id = Type.String({ minLength: 1, maxLength: 256 });

export const RequestedExecution = Type.Object({
  msgId: Id,
  cellId: Type.Union([Type.String({ maxLength: 256 }), Type.Null()])
});
export type RequestedExecution = Static<typeof RequestedExecution>;

/** Limit per request; a page repeats the request for the rest. */
export const MAX_REQUESTED = 1_000;

export const RequestedQuestion = Type.Object({
  kernelId: Id,
  executions: Type.Array(RequestedExecution, { maxItems: MAX_REQUESTED })
});
export type RequestedQuestion = Static<typeof RequestedQuestion>;

export const RequestedAnswer = Type.Object({
  requested: Type.Array(Type.String(), { description: 'message ids, of those in the question' })
});
export type RequestedAnswer = Static<typeof RequestedAnswer>;
