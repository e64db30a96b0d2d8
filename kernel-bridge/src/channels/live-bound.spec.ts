import { FLOOD_MIME, type FloodNote } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RecordChannel } from '../journal/record.js';
import { decodeV1, encodeV1, PART } from '../jupyter/index.js';
import { newHeader, newMessage } from '../jupyter/kernel-message.js';
import { BOUND_LIMITS, LiveBound } from './live-bound.js';
import { OutgoingMessage } from './outgoing-message.js';

interface Sent {
  readonly seq: number;
  readonly type: string;
  readonly content: Record<string, unknown>;
}

const REQUEST = newHeader({ msgType: 'execute_request', session: 'page', msgId: 'run' });
let sent: Sent[];
let unsent: number;
let seq: number;
let bound: LiveBound;

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  unsent = seq = 0;
  bound = new LiveBound('k1');
  bound.attach({
    send: (number, v1) => {
      const { parts } = decodeV1(v1);
      const part = (index: number): Record<string, unknown> =>
        JSON.parse(parts[index]?.toString() ?? '') as Record<string, unknown>;
      expect(part(PART.header)['session']).toBe('kernel');
      sent.push({ seq: number, type: String(part(PART.header)['msg_type']), content: part(PART.content) });
    },
    unsent: () => unsent
  });
});

afterEach(() => vi.useRealTimers());

function output(msgType: string, content: object): void {
  seq += 1;
  const parts = newMessage({ msgType, session: 'kernel', parent: REQUEST, content });
  const payload = encodeV1({ channel: 'iopub', parts });
  bound.take(new OutgoingMessage({ seq, timeNs: 0n, channel: RecordChannel.iopub, payload }));
}

const print = (text: string, name = 'stdout'): void => output('stream', { name, text });
const idle = (): void => output('status', { execution_state: 'idle' });
const textOf = (messages: readonly Sent[]): string =>
  messages.flatMap(({ type, content }) => (type === 'stream' ? [content['text']] : [])).join('');
const ofType = (type: string): Sent[] => sent.filter(each => each.type === type);

interface Shown {
  readonly note: FloodNote;
  readonly text: string;
}

function notes(): Shown[] {
  return sent.flatMap(({ content }) => {
    const data = content['data'] as Record<string, unknown> | undefined;
    return data?.[FLOOD_MIME] === undefined
      ? []
      : [{ note: data[FLOOD_MIME] as FloodNote, text: String(data['text/plain']) }];
  });
}

describe('bounded output', () => {
  it('of a cell with little output is passed on unchanged and immediately', () => {
    print('one\n');
    output('display_data', { data: { 'text/plain': 'two' }, metadata: {} });
    expect(sent.map(({ seq: number, type }) => [number, type])).toEqual([
      [1, 'stream'],
      [2, 'display_data']
    ]);
  });

  it('shows the beginning of endless text, counts the rest and shows its last lines', () => {
    const line = `${'x'.repeat(199)}\n`;
    for (let turn = 0; turn < 500; turn++) {
      print(line.repeat(200));
      vi.advanceTimersByTime(10);
    }
    print('the last line\n');
    idle();
    const text = textOf(sent);
    expect(text.length).toBeLessThanOrEqual(BOUND_LIMITS.headChars);
    expect(text).toMatch(/x\n$/);
    const all = notes();
    // Twice per second, so that the page stays responsive for its user.
    expect(all.length).toBeLessThan(14);
    expect(ofType('display_data')).toHaveLength(1);
    const last = all.at(-1);
    expect(last?.note).toEqual({
      kernelId: 'k1',
      msgId: 'run',
      from: 1,
      lines: 100_001,
      bytes: 20_000_014,
      leftOut: 0,
      isRunning: false
    });
    expect(last?.text.split('\n').length).toBeLessThanOrEqual(BOUND_LIMITS.tailLines + 1);
    // Text that a page redraws twice per second is short; text that it draws once need not be.
    const whileRunning = all.slice(0, -1).map(({ text: shown }) => shown.split('\n').length);
    expect(Math.max(...whileRunning)).toBe(BOUND_LIMITS.runningLines + 1);
    expect(last?.text.split('\n').length).toBeGreaterThan(BOUND_LIMITS.runningLines + 1);
    expect(last?.text).toMatch(/x\nthe last line\n$/);
    expect(sent.at(-1)?.type).toBe('status');
    const numbers = sent.map(each => each.seq);
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
  });

  it.each([-86_400_000, 86_400_000])('continues to count when the clock is set by %i ms', setByMs => {
    const tenSeconds = (): number => {
      const before = notes().length;
      for (let turn = 0; turn < 100; turn++) {
        print('x\n'.repeat(10_000));
        vi.advanceTimersByTime(100);
      }
      return notes().length - before;
    };
    const before = tenSeconds();
    expect(before).toBeGreaterThan(10);
    vi.setSystemTime(Date.now() + setByMs);
    expect(tenSeconds()).toBeGreaterThanOrEqual(before - 2);
  });

  it('cuts a single line of 100 MB', () => {
    print('y'.repeat(100_000_000));
    idle();
    expect(textOf(sent)).toHaveLength(BOUND_LIMITS.headChars);
    expect(notes().at(-1)?.note).toMatchObject({ bytes: 100_000_000, lines: 0 });
    expect(notes().at(-1)?.text.length).toBeLessThanOrEqual(BOUND_LIMITS.tailChars);
  });

  it('leaves a progress line alone, however long it runs', () => {
    for (let step = 0; step < 100_000; step++) {
      print(`\rstep ${step} of 100000 ${'#'.repeat(60)}`);
      if (step % 1000 === 0) vi.advanceTimersByTime(100);
    }
    idle();
    expect(notes()).toEqual([]);
    expect(textOf(sent).split('\r').at(-1)).toBe(`step 99999 of 100000 ${'#'.repeat(60)}`);
    expect(textOf(sent).length).toBeLessThan(500_000);
  });

  it('keeps the rest of a line that a shorter text overwrites, and continues where that text ended', () => {
    for (let turn = 0; turn < BOUND_LIMITS.perWindow; turn++) print('.');
    print('a longer line\rshort\n');
    print('another one\rno');
    print('t ');
    idle();
    const dots = '.'.repeat(BOUND_LIMITS.perWindow);
    expect(textOf(sent)).toBe(`${dots}a longer line\rshort\nnot her one\rnot `);
  });

  it('joins ten thousand updates of a display to a few, and ends at the newest', () => {
    output('display_data', { data: { 'text/plain': '0' }, metadata: {}, transient: { display_id: 'd' } });
    for (let turn = 1; turn <= 10_000; turn++) {
      output('update_display_data', {
        data: { 'text/plain': String(turn) },
        metadata: {},
        transient: { display_id: 'd' }
      });
      if (turn % 1000 === 0) vi.advanceTimersByTime(100);
    }
    idle();
    const updates = ofType('update_display_data');
    expect(updates.length).toBeLessThan(40);
    expect(updates.at(-1)?.content['data']).toEqual({ 'text/plain': '10000' });
  });

  it('sends each message immediately again after a window with few of them', () => {
    for (let turn = 0; turn < 100; turn++) print('x');
    vi.advanceTimersByTime(BOUND_LIMITS.windowMs);
    print('joined');
    expect(textOf(sent)).toBe('x'.repeat(100));
    vi.advanceTimersByTime(BOUND_LIMITS.windowMs);
    print(' at once');
    expect(textOf(sent)).toBe(`${'x'.repeat(100)}joined at once`);
  });

  it('joins state updates of a widget in quick succession, and loses none of their keys', () => {
    const update = (state: object): void =>
      output('comm_msg', { comm_id: 'w', data: { method: 'update', state, buffer_paths: [] } });
    for (let turn = 0; turn < 5_000; turn++)
      update(turn === 4_000 ? { bar_style: 'danger' } : { value: turn });
    output('comm_msg', { comm_id: 'w', data: { method: 'custom', content: 'done' } });
    const states = ofType('comm_msg').map(({ content }) => (content['data'] as { state?: object }).state);
    expect(states.length).toBeLessThan(40);
    expect(Object.assign({}, ...states)).toEqual({ value: 4_999, bar_style: 'danger' });
    expect(ofType('comm_msg').at(-1)?.content['data']).toEqual({ method: 'custom', content: 'done' });
  });

  it('sends only those frames of an animation that a page can show', () => {
    for (let frame = 0; frame < 5_000; frame++) {
      output('clear_output', { wait: true });
      output('display_data', { data: { 'image/png': `frame ${frame}` }, metadata: {} });
      if (frame % 500 === 0) vi.advanceTimersByTime(100);
    }
    idle();
    expect(ofType('display_data').length).toBeLessThan(300);
    expect(ofType('display_data').at(-1)?.content['data']).toEqual({ 'image/png': 'frame 4999' });
    expect(sent.at(-3)?.type).toBe('clear_output');
    expect(notes()).toEqual([]);
  });

  it('counts the images above the limit', () => {
    for (let image = 0; image < 2_000; image++) {
      output('display_data', { data: { 'image/png': 'i'.repeat(1000) }, metadata: {} });
    }
    idle();
    const images = ofType('display_data').filter(({ content }) => 'image/png' in (content['data'] as object));
    expect(images).toHaveLength(BOUND_LIMITS.displays);
    expect(notes().at(-1)?.note).toMatchObject({ leftOut: 2_000 - BOUND_LIMITS.displays, isRunning: false });
  });

  it('cuts a traceback of 10 MB and keeps its error', () => {
    output('error', {
      ename: 'E',
      evalue: 'v',
      traceback: ['first frame', 'f'.repeat(10_000_000), 'last frame']
    });
    const [error] = ofType('error');
    const traceback = error?.content['traceback'] as string[];
    expect(traceback.join('\n').length).toBeLessThan(BOUND_LIMITS.oneText);
    expect([traceback[0], traceback.at(-1)]).toEqual(['first frame', 'last frame']);
    expect(error?.content).toMatchObject({ ename: 'E', evalue: 'v' });
  });

  it('starts over after clear_output, and with another execution', () => {
    print('z'.repeat(2 * BOUND_LIMITS.headChars));
    output('clear_output', { wait: false });
    print('after\n');
    idle();
    expect(sent.at(-2)).toMatchObject({ type: 'stream', content: { text: 'after\n' } });
  });

  it('waits for a slow connection, and then sends the newest', () => {
    output('display_data', { data: { 'text/plain': '0' }, metadata: {}, transient: { display_id: 'd' } });
    unsent = 2 * BOUND_LIMITS.unsentBytes;
    for (let turn = 1; turn <= 100; turn++) {
      output('update_display_data', { data: { 'text/plain': `${turn}` }, transient: { display_id: 'd' } });
      vi.advanceTimersByTime(200);
    }
    expect(ofType('update_display_data')).toHaveLength(0);
    unsent = 0;
    vi.advanceTimersByTime(200);
    expect(ofType('update_display_data').map(({ content }) => content['data'])).toEqual([
      { 'text/plain': '100' }
    ]);
  });

  it('continues counting for a page that reconnects, and counts nothing twice', () => {
    print('z\n'.repeat(BOUND_LIMITS.headChars));
    vi.advanceTimersByTime(1000);
    const { lines } = notes().at(-1)?.note ?? { lines: 0 };
    const again: number[] = [];
    bound.attach({ send: number => again.push(number), unsent: () => 0 });
    seq -= 1;
    print('z\n'.repeat(BOUND_LIMITS.headChars));
    vi.advanceTimersByTime(1000);
    expect(again).toEqual([seq]);
    expect(lines).toBe(BOUND_LIMITS.headChars);
  });
});
