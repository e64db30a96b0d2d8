/** Kernel environments of a machine, and their creation. */
import { type Static, Type } from '@sinclair/typebox';
import { JobError, JobState } from './jobs.js';
import { Transfer } from './transfer.js';

/** One kernel environment (`GET /bridge/v1/environments`, `tpulab env list`). */
export const EnvironmentInfo = Type.Object({
  name: Type.String(),
  displayName: Type.String(),
  state: Type.Union(
    [Type.Literal('available'), Type.Literal('ready'), Type.Literal('outdated'), Type.Literal('broken')],
    {
      description: 'available: described, not created; outdated: created from another lock file'
    }
  ),
  path: Type.Union([Type.String(), Type.Null()]),
  kernelspec: Type.String({ description: 'name of its kernelspec at the bridge' }),
  detail: Type.Union([Type.String(), Type.Null()]),
  added: Type.Optional(
    Type.Array(Type.String(), {
      description: 'packages that the user added, as lines of a requirements file'
    })
  ),
  diskMiB: Type.Optional(
    Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      description: 'what it takes on disk with its downloads, roughly; null: unknown'
    })
  )
});
export type EnvironmentInfo = Static<typeof EnvironmentInfo>;

/** State of the current or last creation of an environment (`/bridge/v1/environments/NAME/creation`). */
export const EnvironmentCreation = Type.Object({
  name: Type.String(),
  state: JobState,
  stages: Type.Array(
    Type.Object({
      title: Type.String({ description: 'for example "installing 62 packages"' }),
      state: Type.Union([Type.Literal('running'), Type.Literal('done'), Type.Literal('failed')]),
      startedAt: Type.Number({ description: 'Unix ms' }),
      endedAt: Type.Union([Type.Number({ description: 'Unix ms' }), Type.Null()])
    }),
    { description: 'in order, as far as it has come' }
  ),
  detail: Type.Union([Type.String(), Type.Null()], {
    description: 'what the running stage is at, for example "downloading jaxlib (81.1MiB)"'
  }),
  error: JobError,
  fraction: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()], {
    description: 'how much of the whole is done, roughly; null: unknown'
  }),
  transfer: Type.Union([Transfer, Type.Null()], { description: 'the downloads, while some run' })
});
export type EnvironmentCreation = Static<typeof EnvironmentCreation>;
