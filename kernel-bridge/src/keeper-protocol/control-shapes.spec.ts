import { Value } from '@sinclair/typebox/value';
import { ControlCommand, ControlMessage } from '@tpulab/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CommandShape, isControlMessage } from './messages.js';

/** Values that some field accepts, and values that no field accepts. */
const anything = fc.oneof(
  fc.constantFrom(null, true, 0, 1, -1, 1.5, NaN, '', 'page', 'accepted', 'set', 'a b', 'x'.repeat(65)),
  fc.constantFrom('x'.repeat(201), 'x'.repeat(1_001), [], {}, 'control', 'id-1', 'checkpoint')
);

/** A valid value with some fields removed, replaced or added. */
function changed(good: Record<string, unknown>): fc.Arbitrary<Record<string, unknown>> {
  const names = [...Object.keys(good), 'other'];
  const change = fc.tuple(fc.constantFrom(...names), fc.option(anything, { nil: undefined }));
  return fc.array(change, { maxLength: 2 }).map(changes => {
    const value: Record<string, unknown> = { ...good, ...Object.fromEntries(changes) };
    return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined));
  });
}

describe('the checks of a keeper agree with the protocol', () => {
  it('of commands', () => {
    const good = { id: 'id-1', action: 'set', run: null, name: 'lr', value: 0.1 };
    expect(CommandShape.fault(good)).toBeNull();
    fc.assert(
      fc.property(changed(good), value => {
        expect(CommandShape.fault(value) === null).toBe(Value.Check(ControlCommand, value));
      }),
      { numRuns: 2_000 }
    );
  });

  it('of their results', () => {
    const good = {
      type: 'control',
      time: 1,
      id: 'id-1',
      run: 'r',
      action: 'set',
      name: 'lr',
      value: 'x',
      before: true,
      origin: 'page',
      phase: 'applied',
      step: 3,
      durationMs: 0.5,
      reason: null
    };
    expect(isControlMessage(good)).toBe(true);
    fc.assert(
      fc.property(changed(good), value => {
        expect(isControlMessage(value)).toBe(Value.Check(ControlMessage, value));
      }),
      { numRuns: 2_000 }
    );
  });
});
