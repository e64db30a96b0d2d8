import type { TelemetryMessage } from '@tpulab/protocol';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { KernelTelemetry } from '../events/kernel-telemetry.js';
import { compile, hello, run, steps, T0, telemetry } from '../events/samples.spec-data.js';
import { lineNotes } from './line-notes.js';
const LINE_9 = { cellId: 'c', executionCount: 4, line: 9, file: null, function: null };
const WAITS: TelemetryMessage = {
  type: 'advice',
  time: T0,
  id: 'a',
  kind: 'sync-each-step',
  message: 'Each step waits.',
  remedy: 'Use run.log.',
  location: LINE_9,
  run: 'r1'
};

let kernel: KernelTelemetry;
let seq = 0;

function receive(...messages: TelemetryMessage[]): void {
  for (const message of messages) {
    seq += 1;
    kernel.applyTelemetry(telemetry('k', seq, message), T0);
  }
}

const texts = (): string[] => lineNotes(kernel, 48).map(({ line, text }) => `${line}: ${text}`);

beforeEach(() => {
  kernel = new KernelTelemetry('k');
  seq = 0;
});
afterEach(() => kernel.dispose());

it('states how long the device idles for a line, if at all', () => {
  receive(hello(), run(), steps(0, 20, { deviceMs: 20, gapMs: 25 }), WAITS);
  expect(texts()).toEqual(['9: device idle 25.0 ms per step']);
});

it('states that a line waits if the device stays busy or its load is unknown', () => {
  receive(hello(), run(), steps(0, 20, { deviceMs: 45, gapMs: 0 }), WAITS);
  expect(texts()).toEqual(['9: waits for the device in each step']);
});

it('counts compilations from the second on, and only those with a line', () => {
  receive(hello(), compile(1), compile(2, { location: null }));
  expect(texts()).toEqual([]);
  receive(compile(3, { variant: 2 }));
  expect(texts()).toEqual(['12: compiled 2×']);
});
