/**
 * Runs that the bridge has stored: `GET /bridge/v1/runs` lists them, `GET /bridge/v1/runs/:key` returns one. They outlive
 * their kernels, so that a finished run can be opened again and compared. The stored data is bounded: points of metrics are
 * thinned, steps are summed up.
 */
import { type Static, Type } from '@sinclair/typebox';
import { ControlMessage, HyperValue, Hyperparameter, RunBranch } from './control.js';
import { AdviceMessage, BandMessage, CodeLocation, CompileReason, MediaMessage } from './telemetry.js';

const UnixMs = Type.Number({ minimum: 0, description: 'Unix time in milliseconds' });
const Ms = Type.Number({ minimum: 0, description: 'duration in milliseconds' });

/** `interrupted`: the kernel ended before the run reported its end. */
export const StoredRunState = Type.Union([
  Type.Literal('running'),
  Type.Literal('finished'),
  Type.Literal('failed'),
  Type.Literal('interrupted')
]);
export type StoredRunState = Static<typeof StoredRunState>;

/** Maximum number of metrics of a run; the agent reports which ones it has left out. */
export const MAX_METRICS = 128;

/** A name that is safe in a path. */
export const StoredRunKey = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$' });

export function storedRunKey(kernelId: string, run: string): string {
  const safe = (text: string): string => text.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 90);
  return `${safe(kernelId)}.${safe(run)}`;
}

/** A user's labels for a run: `PATCH /bridge/v1/runs/:key` replaces the named ones. */
export const RunLabels = Type.Object(
  {
    tags: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 40 }), { maxItems: 16, uniqueItems: true })
    ),
    note: Type.Optional(Type.String({ maxLength: 2_000 })),
    group: Type.Optional(Type.String({ maxLength: 80, description: 'empty: of none' }))
  },
  { additionalProperties: false }
);
export type RunLabels = Static<typeof RunLabels>;

export const StoredRunSummary = Type.Object({
  key: StoredRunKey,
  kernelId: Type.String(),
  run: Type.String({ description: 'id of the run within its kernel' }),
  name: Type.String(),
  state: StoredRunState,
  startedAt: UnixMs,
  lastAt: UnixMs,
  steps: Type.Integer({ minimum: 0 }),
  totalSteps: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
  config: Type.Record(Type.String(), Type.Union([HyperValue, Type.Null()])),
  metrics: Type.Record(Type.String(), Type.Number(), { description: 'newest value of each' }),
  labels: Type.Optional(RunLabels),
  machine: Type.Optional(Type.String({ description: 'devices of the run, for example `TPU v5 lite × 8`' })),
  document: Type.Optional(Type.String({ description: 'the notebook that it ran in' })),
  branch: Type.Optional(RunBranch),
  stepMs: Type.Optional(
    Type.Number({ minimum: 0, description: 'mean of the steps without a compilation or an evaluation' })
  )
});
export type StoredRunSummary = Static<typeof StoredRunSummary>;

const Sums = { wallMs: Ms, inputMs: Ms, hostMs: Ms, deviceMs: Ms, gapMs: Ms };

/** Sums over the steps in a part of a run, without steps that compiled or contained an evaluation, a checkpoint or similar work. */
export const RunPart = Type.Object({
  step: Type.Integer({ minimum: 0, description: 'the first step of the part' }),
  time: UnixMs,
  steps: Type.Integer({ minimum: 0 }),
  wallMs: Ms,
  watched: Type.Object(
    { steps: Type.Integer({ minimum: 0 }), ...Sums },
    { description: 'of those whose device time is known' }
  ),
  unwatched: Type.Object(Sums, { description: 'of the others: device time is in host and gap' })
});
export type RunPart = Static<typeof RunPart>;

/** A program of a run. */
export const RunProgram = Type.Object({
  function: Type.String(),
  step: Type.Integer({ minimum: 0, description: 'steps that were done when it was compiled' }),
  ms: Ms,
  cacheHit: Type.Boolean(),
  location: Type.Union([CodeLocation, Type.Null()]),
  reason: CompileReason,
  fingerprint: Type.Union([Type.String(), Type.Null()], {
    description: 'equal where two runs gave XLA the same program; null where it is not known'
  }),
  reused: Type.Optional(Type.Boolean({ description: 'it was compiled before the run' }))
});
export type RunProgram = Static<typeof RunProgram>;

export const StoredRun = Type.Intersect([
  StoredRunSummary,
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
    parts: Type.Optional(
      Type.Object({
        size: Type.Integer({ minimum: 1, description: 'steps of a part' }),
        list: Type.Array(RunPart)
      })
    ),
    programs: Type.Optional(Type.Array(RunProgram)),
    tokensPerStep: Type.Optional(Type.Number({ minimum: 0 })),
    alerts: Type.Optional(
      Type.Array(AdviceMessage, {
        description: 'a metric that became NaN or broke a rule, or steps that slowed down'
      })
    ),
    media: Type.Optional(
      Type.Array(MediaMessage, {
        description:
          'pictures, sound and text without their data, in order: the first, the newest, and some between'
      })
    ),
    bands: Type.Array(BandMessage),
    commands: Type.Array(ControlMessage, { description: 'each with its newest word' })
  })
]);
export type StoredRun = Static<typeof StoredRun>;

/** Newest first. */
export const StoredRuns = Type.Object({ runs: Type.Array(StoredRunSummary) });
export type StoredRuns = Static<typeof StoredRuns>;

/** Advice that counts as an alert: users are notified of it even without an open page. */
export const ALERTS: ReadonlySet<AdviceMessage['kind']> = new Set(['non-finite-metric', 'alert', 'slower']);

/** Steps of a run's checkpoints, ascending: those that commands report, and those in its bands. */
export function checkpointSteps({ bands, commands }: Pick<StoredRun, 'bands' | 'commands'>): number[] {
  const saved = bands.filter(({ kind, failed }) => kind === 'checkpoint' && !failed).map(({ step }) => step);
  const applied = commands.flatMap(({ action, phase, step }) =>
    action === 'checkpoint' && phase === 'applied' ? (step ?? []) : []
  );
  return [...new Set([...saved, ...applied])].sort((a, b) => a - b);
}

/** Maximum number of pictures, sounds and texts of a run. */
export const MAX_MEDIA = 48;

/**
 * Adds a medium. If a name has too many, the one whose neighbours are closest is removed: the first, the newest and some
 * between them stay.
 */
export function addMedium(media: MediaMessage[], message: MediaMessage): void {
  if (media.some(({ id }) => id === message.id)) return;
  media.push(message);
  if (media.length <= MAX_MEDIA) return;
  const same = media.filter(({ name }) => name === message.name);
  const gap = (at: number): number => (same[at + 1]?.step ?? Infinity) - (same[at - 1]?.step ?? -Infinity);
  const places = same.map((_, at) => at).sort((a, b) => gap(a) - gap(b));
  const least = same[places[0] ?? 0] ?? message;
  media.splice(media.indexOf(least), 1);
}
