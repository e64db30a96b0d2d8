/**
 * Runs that the bridge has kept: `GET /bridge/v1/runs` lists them, `GET /bridge/v1/runs/:key` is one. They outlive their kernels,
 * so that a finished run can be opened again and compared. What is kept is bounded: points of metrics are thinned, steps are summed up.
 */
import { type Static, Type } from '@sinclair/typebox';
import { ControlMessage, HyperValue, Hyperparameter } from './control.js';
import { BandMessage } from './telemetry.js';

const UnixMs = Type.Number({ minimum: 0, description: 'Unix time in milliseconds' });
const Ms = Type.Number({ minimum: 0, description: 'duration in milliseconds' });

/** `interrupted`: the kernel ended before the run said that it had. */
export const KeptRunState = Type.Union([
  Type.Literal('running'),
  Type.Literal('finished'),
  Type.Literal('failed'),
  Type.Literal('interrupted')
]);
export type KeptRunState = Static<typeof KeptRunState>;

/** A name that is safe in a path. */
export const KeptRunKey = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$' });

export const KeptRunSummary = Type.Object({
  key: KeptRunKey,
  kernelId: Type.String(),
  run: Type.String({ description: 'id of the run within its kernel' }),
  name: Type.String(),
  state: KeptRunState,
  startedAt: UnixMs,
  lastAt: UnixMs,
  steps: Type.Integer({ minimum: 0 }),
  totalSteps: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
  config: Type.Record(Type.String(), Type.Union([HyperValue, Type.Null()])),
  metrics: Type.Record(Type.String(), Type.Number(), { description: 'newest value of each' })
});
export type KeptRunSummary = Static<typeof KeptRunSummary>;

export const KeptRun = Type.Intersect([
  KeptRunSummary,
  Type.Object({
    v: Type.Literal(1),
    hyperparameters: Type.Array(Hyperparameter),
    series: Type.Record(
      Type.String(),
      Type.Object({
        steps: Type.Array(Type.Number()),
        values: Type.Array(Type.Number()),
        group: Type.Optional(
          Type.Integer({
            minimum: 1,
            description: 'steps of which the lowest and the highest are held; absent: 1'
          })
        ),
        waiting: Type.Optional(
          Type.Array(Type.Tuple([Type.Number(), Type.Number()]), {
            description: 'the newest points, of which none has been let go: step and value'
          })
        )
      }),
      { description: 'points of each metric, thinned so that its extremes stay, in the order of their steps' }
    ),
    totals: Type.Object(
      { wallMs: Ms, inputMs: Ms, hostMs: Ms, compileMs: Ms, deviceMs: Ms, gapMs: Ms },
      { description: 'sums over all steps' }
    ),
    bands: Type.Array(BandMessage),
    commands: Type.Array(ControlMessage, { description: 'each with its newest word' })
  })
]);
export type KeptRun = Static<typeof KeptRun>;

/** Newest first. */
export const KeptRuns = Type.Object({ runs: Type.Array(KeptRunSummary) });
export type KeptRuns = Static<typeof KeptRuns>;
