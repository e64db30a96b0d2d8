import { EventsFrame } from '@tpulab/protocol';
import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { describe, expect, it } from 'vitest';
import { FrameError, parseFrame } from './parse-frame.js';
import { compile, devices, hello, kernelState, run, steps, telemetry } from './samples.spec-data.js';

/** The compiler sees TypeBox's types twice and treats them as different. */
const SCHEMA = EventsFrame as unknown as TSchema;

const ALL = [
  telemetry('k', 1, hello()),
  telemetry('k', 2, devices()),
  telemetry('k', 3, run()),
  telemetry('k', 4, steps(0, 2, { metrics: { loss: 0.5 } })),
  telemetry('k', 5, compile(1)),
  kernelState('k', 'idle'),
  { topic: 'clients' as const, kernelId: 'k', sessionId: 's', state: 'replaying' as const, pending: 3 }
];

describe('parseFrame', () => {
  it('reads every kind of event that the protocol knows', () => {
    const frame = { op: 'events', events: ALL };
    expect(Value.Check(SCHEMA, frame)).toBe(true);
    expect(parseFrame(JSON.stringify(frame))).toEqual({ op: 'events', events: ALL, skipped: 0 });
  });

  it('reads the answers of the gateway', () => {
    const subscribed = { op: 'subscribed', topics: ['steps'], gatewayId: 'g1', historyFrom: { k: 4 } };
    expect(parseFrame(JSON.stringify(subscribed))).toEqual({
      op: 'subscribed',
      gatewayId: 'g1',
      historyFrom: { k: 4 }
    });
    const error = { op: 'error', code: 'events.bad_request', message: 'No.' };
    expect(parseFrame(JSON.stringify(error))).toEqual(error);
  });

  it('skips events of a newer bridge and retains the rest of the frame', () => {
    const unknown = { topic: 'weather', kernelId: 'k', seq: 8, data: { type: 'rain' } };
    const newer = { topic: 'steps', kernelId: 'k', seq: 9, data: { type: 'profile' } };
    const frame = parseFrame(JSON.stringify({ op: 'events', events: [unknown, ALL[1], newer, null, 7] }));
    expect(frame).toEqual({ op: 'events', events: [ALL[1]], skipped: 4 });
  });

  it('accepts an event exactly when the schema of the protocol does, whatever field is missing or wrong', () => {
    let refused = 0;
    for (const event of ALL) {
      for (const damaged of damages(event)) {
        const valid = Value.Check(SCHEMA, { op: 'events', events: [damaged] });
        const parsed = parseFrame(JSON.stringify({ op: 'events', events: [damaged] }));
        expect(parsed).toMatchObject({ skipped: valid ? 0 : 1 });
        refused += valid ? 0 : 1;
      }
    }
    expect(refused).toBeGreaterThan(100);
  });

  it.each([
    '',
    '{',
    '[]',
    'null',
    '7',
    '{"op":"party"}',
    '{"op":"events","events":{}}',
    '{"op":"subscribed"}'
  ])('refuses %j with a code and a remedy', text => {
    expect(() => parseFrame(text)).toThrow(FrameError);
    expect(() => parseFrame(text)).toThrow(/update both/);
  });

  it('is not fooled by the names of inherited properties', () => {
    const event = { topic: 'steps', kernelId: 'k', seq: 1, data: { type: 'constructor' } };
    expect(parseFrame(JSON.stringify({ op: 'events', events: [event] }))).toMatchObject({ skipped: 1 });
  });
});

/** Copies of a value, each with one field, at any depth, omitted or replaced by a value of the wrong type. */
function* damages(value: unknown): Generator {
  if (typeof value !== 'object' || value === null) {
    return;
  }
  for (const [key, inner] of Object.entries(value)) {
    const copy = (next: unknown): unknown =>
      Array.isArray(value)
        ? value.map((item, at) => (String(at) === key ? next : (item as unknown)))
        : { ...value, [key]: next };
    if (!Array.isArray(value)) {
      yield Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
    }
    yield copy({ wrong: true });
    yield copy(-1.5);
    for (const deeper of damages(inner)) {
      yield copy(deeper);
    }
  }
}
