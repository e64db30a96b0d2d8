import { describe, expect, it } from 'vitest';
import { TelemetryHistory } from './telemetry-history.js';
import { LineSplitter } from '../keeper/telemetry-socket.js';

function add(history: TelemetryHistory, message: Record<string, unknown>): number {
  return history.add({ seq: history.lastSeq + 1, json: JSON.stringify(message) }, message).seq;
}

const heldTypes = (history: TelemetryHistory): unknown[] =>
  history.after(0).map(({ json }) => (JSON.parse(json) as { type: unknown }).type);

describe('the history of telemetry', () => {
  it('numbers messages from 1 and returns the messages after any number, in order', () => {
    const history = new TelemetryHistory();
    expect([history.firstSeq, history.lastSeq]).toEqual([1, 0]);
    for (const type of ['hello', 'steps', 'devices', 'steps', 'run']) {
      add(history, { type, run: 'r' });
    }
    expect(heldTypes(history)).toEqual(['hello', 'steps', 'devices', 'steps', 'run']);
    expect(history.after(3).map(({ seq }) => seq)).toEqual([4, 5]);
    expect([history.firstSeq, history.lastSeq]).toEqual([1, 5]);
  });

  it('drops steps and replaced messages, and keeps the newest message on every other subject', () => {
    const history = new TelemetryHistory({ messages: 8, bytes: Infinity });
    add(history, { type: 'hello' });
    add(history, { type: 'compile', id: 1, phase: 'started' });
    add(history, { type: 'devices', time: 1 });
    add(history, { type: 'run', run: 'a', state: 'running' });
    const retained = [
      add(history, { type: 'run', run: 'b', state: 'running' }),
      add(history, { type: 'compile', id: 1, phase: 'finished' }),
      add(history, { type: 'devices', time: 2 }),
      add(history, { type: 'run', run: 'a', state: 'finished' })
    ];
    for (let index = 0; index < 100; index++) {
      add(history, { type: 'steps', run: 'b' });
    }
    expect(history.after(0).map(({ seq }) => seq)).toEqual([1, ...retained, 106, 107, 108]);
    expect(history.firstSeq).toBe(1);
  });

  it('gives a new page the state and the newest steps of ten runs of a day, below 300 kB', () => {
    const history = new TelemetryHistory({ messages: 4_000, bytes: 2 * 1024 * 1024 });
    add(history, { type: 'hello' });
    const control = {
      config: Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`option ${at}`, at]))
    };
    const sample = { startTime: 1.79e12 + 0.123, wallMs: 50.123456, inputMs: 1.234567, hostMs: 3.456789 };
    const spans = { compileMs: 0, deviceMs: 45.678901, gapMs: 0.123456, deviceKnown: true };
    const metrics = { loss: 0.1234567890123456, accuracy: 0.9876543210987654 };
    for (let run = 0; run < 10; run++) {
      add(history, { type: 'run', run, state: 'running', control });
      for (let index = 0; index < 4_000; index++) {
        add(history, { type: 'steps', run, dropped: 0, steps: [{ index, ...sample, ...spans, metrics }] });
        if (index % 10 === 0) add(history, { type: 'pace', run, step: index, mfu: { value: 0.4 } });
        if (index % 50 === 0) add(history, { type: 'control', id: `${run} ${index}`, action: 'checkpoint' });
      }
    }
    const bytes = (records: readonly { json: string }[]): number =>
      records.reduce((sum, { json }) => sum + json.length, 0);
    const first = history.newest(240 * 1024);
    expect(bytes(history.after(0))).toBeGreaterThan(3 * bytes(first));
    expect(bytes(first)).toBeLessThan(300_000);
    const runs = first.filter(({ json }) => json.includes('"type":"run"'));
    expect(runs).toHaveLength(10);
    expect(first[0]?.seq).toBe(1);
    expect(first.at(-1)?.seq).toBe(history.lastSeq);
    expect(first.filter(({ json }) => json.includes('"type":"steps"')).length).toBeGreaterThan(500);
    expect(first.map(({ seq }) => seq)).toEqual([...first.map(({ seq }) => seq)].sort((a, b) => a - b));
  });

  it('is bounded in bytes too, even by messages that it prefers to keep', () => {
    const history = new TelemetryHistory({ messages: Infinity, bytes: 1_000 });
    for (let id = 0; id < 100; id++) {
      add(history, { type: 'compile', id, text: 'x'.repeat(60) });
    }
    const held = history.after(0);
    expect(held.reduce((sum, { json }) => sum + json.length, 0)).toBeLessThanOrEqual(1_000);
    expect(held.at(-1)?.seq).toBe(100);
    expect(history.firstSeq).toBe(held[0]?.seq);
  });
});

describe('lines of the agent', () => {
  const split = (chunks: string[], limit = 10): { lines: string[]; tooLong: number } => {
    const result = { lines: [] as string[], tooLong: 0 };
    const splitter = new LineSplitter(
      limit,
      line => result.lines.push(line.toString()),
      () => result.tooLong++
    );
    chunks.forEach(chunk => splitter.push(Buffer.from(chunk)));
    return result;
  };

  it('are split at line ends, wherever the chunks are split', () => {
    expect(split(['a', 'b\nc', '\n\nd\n', 'e'])).toEqual({ lines: ['ab', 'c', 'd'], tooLong: 0 });
  });

  it('that are too long are left out up to their end, and counted once', () => {
    expect(split(['short\n', 'far too', ' long, ', 'far too long\nok\n'])).toEqual({
      lines: ['short', 'ok'],
      tooLong: 1
    });
  });
});
