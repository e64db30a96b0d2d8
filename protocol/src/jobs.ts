/** Progress of a job that a client has requested: creating an environment, copying a folder. */
import { type Static, Type } from '@sinclair/typebox';

export const JobState = Type.Union([
  Type.Literal('idle'),
  Type.Literal('running'),
  Type.Literal('done'),
  Type.Literal('failed'),
  Type.Literal('cancelled')
]);
export type JobState = Static<typeof JobState>;

export const JobError = Type.Union([
  Type.Object({ code: Type.String(), message: Type.String() }),
  Type.Null()
]);
export type JobError = Static<typeof JobError>;
