/**
 * Steering a run while its cell is busy: commands to the agent in a kernel, and their results.
 *
 * A page posts a command to `/bridge/v1/kernels/:id/control`. It passes through gateway and keeper to the agent, never over
 * the shell channel. The agent answers immediately whether it accepts the command (`accepted` or `refused`), applies it at
 * the next boundary between two steps, and reports every change as a `control` message (topic runs of the events socket).
 */
import { type Static, Type } from '@sinclair/typebox';

const UnixMs = Type.Number({ minimum: 0, description: 'Unix time in milliseconds' });

/**
 * Actions for a run. `stop` takes effect after the current step; `call` calls one of the run's own actions. The others are
 * for the kernel, not a run: `branch` starts the next run that calls `run.restore` with this run's log at the checkpoint of
 * `step`, with the hyperparameter `name` set to `value`; `free` releases only the objects of the last traceback and
 * `Out[]`; `memory` is answered by a `memory` message, and `profile` by a `profile` message after its seconds.
 */
export const ControlAction = Type.Union([
  Type.Literal('pause'),
  Type.Literal('resume'),
  Type.Literal('stop'),
  Type.Literal('set'),
  Type.Literal('checkpoint'),
  Type.Literal('evaluate'),
  Type.Literal('sample'),
  Type.Literal('call'),
  Type.Literal('branch'),
  Type.Literal('free'),
  Type.Literal('memory'),
  Type.Literal('profile')
]);
export type ControlAction = Static<typeof ControlAction>;

/** A value of a hyperparameter. */
export const HyperValue = Type.Union([Type.Number(), Type.Boolean(), Type.String({ maxLength: 1_000 })]);
export type HyperValue = Static<typeof HyperValue>;

/**
 * Body of `POST /bridge/v1/kernels/:id/control`. A command is applied only once, however often it is sent: repeat it with
 * the same `id` if no answer arrived.
 */
export const ControlCommand = Type.Object(
  {
    id: Type.String({
      minLength: 1,
      maxLength: 64,
      pattern: '^[A-Za-z0-9._-]+$',
      description: 'made by who asks, unique (a UUID)'
    }),
    action: ControlAction,
    run: Type.Optional(
      Type.Union([Type.String({ maxLength: 64 }), Type.Null()], {
        description: 'id of the run; null or absent: the newest run that can be steered'
      })
    ),
    name: Type.Optional(
      Type.String({ maxLength: 200, description: 'of the hyperparameter (set, branch) or the action (call)' })
    ),
    value: Type.Optional(HyperValue),
    step: Type.Optional(Type.Integer({ minimum: 0, description: 'of the checkpoint (branch)' }))
  },
  { additionalProperties: false }
);
export type ControlCommand = Static<typeof ControlCommand>;

/**
 * `accepted`: will be applied at the next boundary. `applied`: done. `refused`: will not be done; `reason` states why.
 * `expired`: was accepted, but the run or the process ended first. `failed`: was tried and raised an exception; the run
 * continues.
 */
export const ControlPhase = Type.Union([
  Type.Literal('accepted'),
  Type.Literal('applied'),
  Type.Literal('refused'),
  Type.Literal('expired'),
  Type.Literal('failed')
]);
export type ControlPhase = Static<typeof ControlPhase>;

/** The result of a command, reported at each change (at most two per id: accepted, then one of the others). */
export const ControlMessage = Type.Object({
  type: Type.Literal('control'),
  time: UnixMs,
  id: Type.String(),
  run: Type.Union([Type.String(), Type.Null()]),
  action: ControlAction,
  name: Type.Union([Type.String(), Type.Null()], { description: 'hyperparameter (set) or action (call)' }),
  value: Type.Union([HyperValue, Type.Null()], { description: 'the value asked for' }),
  before: Type.Union([HyperValue, Type.Null()], {
    description: 'the value that was replaced, once it has been'
  }),
  origin: Type.Union([Type.Literal('page'), Type.Literal('code')], {
    description: 'who asked: a page, or the code of the cell'
  }),
  phase: ControlPhase,
  step: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description: 'index of the first step for which it holds; null before it is applied'
  }),
  durationMs: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
    description: 'how long a checkpoint, an evaluation, a sample or a pause took'
  }),
  reason: Type.Union([Type.String(), Type.Null()], {
    description: 'one sentence: why not, or what came of it'
  })
});
export type ControlMessage = Static<typeof ControlMessage>;

/**
 * State of a run that can be steered. The transitions are `TRANSITIONS` in `kernel-agent/src/tpulab/control/state.py`:
 * idle → starting → running ⇄ pausing → paused → running; from each of these stopping → stopped
 * (on request), finished (it reached its end) or failed.
 */
export const ControlState = Type.Union([
  Type.Literal('idle'),
  Type.Literal('starting'),
  Type.Literal('running'),
  Type.Literal('pausing'),
  Type.Literal('paused'),
  Type.Literal('stopping'),
  Type.Literal('stopped'),
  Type.Literal('finished'),
  Type.Literal('failed')
]);
export type ControlState = Static<typeof ControlState>;

/** A hyperparameter that a page may change, and its input control. */
export const Hyperparameter = Type.Object({
  name: Type.String(),
  value: HyperValue,
  initial: HyperValue,
  kind: Type.Union([
    Type.Literal('number'),
    Type.Literal('integer'),
    Type.Literal('boolean'),
    Type.Literal('choice'),
    Type.Literal('text')
  ]),
  min: Type.Union([Type.Number(), Type.Null()]),
  max: Type.Union([Type.Number(), Type.Null()]),
  scale: Type.Union([Type.Literal('linear'), Type.Literal('log')]),
  choices: Type.Union([Type.Array(HyperValue), Type.Null()]),
  description: Type.Union([Type.String(), Type.Null()]),
  recompiles: Type.Boolean({
    description: 'true for values that are no arrays (choice, text): a new one may compile the step again'
  })
});
export type Hyperparameter = Static<typeof Hyperparameter>;

/** The run that another one was branched from, and the step of the checkpoint. */
export const RunBranch = Type.Object({ run: Type.String(), step: Type.Integer({ minimum: 0 }) });

/** The controls of a run; in each `run` message of a run created with `tpulab.run`. */
export const RunControl = Type.Object({
  state: ControlState,
  actions: Type.Array(ControlAction, {
    description: 'what it understands: checkpoint, evaluate, sample and call only with a function for them'
  }),
  own: Type.Optional(
    Type.Array(Type.String({ maxLength: 60 }), { description: 'names of its own actions (call)' })
  ),
  hyperparameters: Type.Array(Hyperparameter),
  config: Type.Record(Type.String(), Type.Union([HyperValue, Type.Null()]), {
    description: 'what the run was started with, as far as it is numbers, booleans and text'
  }),
  log: Type.Union([Type.String(), Type.Null()], {
    description: "path of the run's log (JSON lines), relative to the kernel's folder"
  }),
  branch: Type.Optional(RunBranch)
});
export type RunControl = Static<typeof RunControl>;

/** Answer of `POST /bridge/v1/kernels/:id/control`: the message of the agent, `accepted`, or an earlier result. */
export const ControlAnswer = ControlMessage;
export type ControlAnswer = ControlMessage;
