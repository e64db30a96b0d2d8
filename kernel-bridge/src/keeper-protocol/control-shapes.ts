/** Commands to a run and what became of them, as `protocol/src/control.ts` has them (spec), for a keeper that passes them on. */
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import {
  either,
  integer,
  isShaped,
  number,
  object,
  oneOf,
  orNull,
  type Shape,
  text,
  truth
} from '../platform/shape.js';

const Action = oneOf(
  'pause',
  'resume',
  'stop',
  'set',
  'checkpoint',
  'evaluate',
  'sample',
  'free',
  'memory',
  'profile'
);
const HyperValue = either(number(), truth, text({ max: 1_000 }));

export const CommandShape: Shape<ControlCommand> = object(
  { id: text({ min: 1, max: 64, pattern: /^[A-Za-z0-9._-]+$/ }), action: Action },
  { run: orNull(text({ max: 64 })), name: text({ max: 200 }), value: HyperValue },
  { exact: true }
);

const MessageShape: Shape<ControlMessage> = object({
  type: oneOf('control'),
  time: number({ min: 0 }),
  id: text(),
  run: orNull(text()),
  action: Action,
  name: orNull(text()),
  value: orNull(HyperValue),
  before: orNull(HyperValue),
  origin: oneOf('page', 'code', 'replay'),
  phase: oneOf('accepted', 'applied', 'refused', 'expired', 'failed'),
  step: orNull(integer({ min: 0 })),
  durationMs: orNull(number({ min: 0 })),
  reason: orNull(text())
});

/** Whether a message of an agent tells what became of a command. */
export function isControlMessage(value: Readonly<Record<string, unknown>>): value is ControlMessage {
  return value['type'] === 'control' && isShaped(MessageShape, value);
}
