import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type NotebookOutput, StreamText } from '@tpulab/protocol';
import { OutputArea } from './output-area.js';

const stream = (text: string, name = 'stdout'): NotebookOutput => ({ output_type: 'stream', name, text });
const display = (data: Record<string, unknown>): NotebookOutput => ({
  output_type: 'display_data',
  data,
  metadata: {}
});

function shown(area: OutputArea): NotebookOutput[] {
  return area.entries().map(({ output }) => output);
}

function textOf(output: NotebookOutput | undefined): string {
  if (output?.output_type === 'stream') return output.text;
  if (output?.output_type === 'display_data') return String(output.data['text/plain']);
  throw new Error('neither a text nor a display');
}

const notice = (bytes: number): string => `<${bytes}>`;

describe('a long text', () => {
  const line = fc
    .string({ unit: fc.constantFrom('a', 'é', '🙂', 'bc'), maxLength: 12 })
    .map(text => `${text}\n`);

  it('keeps its beginning and its end, and states how many bytes are missing between them', () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 60 }), fc.integer({ min: 2, max: 80 }), (lines, limit) => {
        const text = new StreamText(limit, part => Buffer.byteLength(part));
        for (const each of lines) text.write(each);
        const whole = lines.join('');
        const retained = text.toString(notice);
        if (text.cutBytes === 0) {
          expect(retained).toBe(whole);
          return;
        }
        const [head, tail] = retained.split(notice(text.cutBytes)) as [string, string];
        expect(whole.startsWith(head)).toBe(true);
        expect(whole.endsWith(tail)).toBe(true);
        const sizes = [head, tail].map(part => Buffer.byteLength(part));
        expect(sizes[0]! + sizes[1]! + text.cutBytes).toBe(Buffer.byteLength(whole));
        // The unfinished line may be equally long.
        expect(text.size).toBeLessThanOrEqual(2 * limit + 16);
      })
    );
  });

  it('of a progress bar stays one line, however often it is drawn', () => {
    const text = new StreamText(1000);
    for (let step = 0; step <= 100_000; step++) text.write(`\r${step}/100000`);
    expect([text.toString(notice), text.cutBytes]).toEqual(['100000/100000', 0]);
  });

  it.each([
    ['a😀\b end', 'a end'],
    ['😀x\ry', 'yx'],
    ['xy\r😀', '😀y'],
    ['a😀😀b\b\b\bc', 'ac'],
    ['🕐 1\r🕑 2', '🕑 2'],
    ['ab😀\rxyz', 'xyz']
  ])('is edited by whole characters: %j', (written, shown) => {
    for (const size of [1, 2, 99]) {
      const text = new StreamText(1000);
      const parts = Array.from(written);
      while (parts.length > 0) text.write(parts.splice(0, size).join(''));
      expect(text.toString(notice)).toBe(shown);
    }
  });

  it.each([
    ['rich status', 'Working ...\r\x1b[2KDone\n', 'Done\n'],
    ['erase before the return', 'Working ...\x1b[2K\rDone', 'Done       '],
    ['erase to the end', 'abcdef\rxy\x1b[K', 'xy'],
    ['erase to the end, with its number', 'abcdef\rxy\x1b[0K!', 'xy!'],
    ['erase from the start', 'abcdef\rxy\x1b[1K', '  cdef'],
    ['two bars of rich', 'a 1\nb 1\r\x1b[2K\x1b[1A\x1b[2Ka 2\nb 2\n', 'a 2\nb 2\n'],
    ['nested bars of tqdm', 'a: 1\n\rb: 1\x1b[A\n\rb: 2\x1b[A\ra: 2\n\r    \r\x1b[A\ra: 3\n', 'a: 3\n    '],
    ['an emoji above', '🕐 one\ntwo\x1b[1A\r🕑', '🕑 one\ntwo'],
    ['farther up than there are lines', 'a\nb\x1b[9A\rc', 'c\nb'],
    ['a shorter line above', 'a\nbcd\x1b[Ae', 'a  e\nbcd'],
    ['colours stay', '\x1b[31mred\x1b[0m', '\x1b[31mred\x1b[0m'],
    ['an unfinished sequence', 'a\x1b[2', 'a\x1b[2']
  ])('follows a cursor: %s', (_name, written, shown) => {
    for (const size of [1, 2, 3, 99]) {
      const text = new StreamText(1000);
      const parts = Array.from(written);
      while (parts.length > 0) text.write(parts.splice(0, size).join(''));
      expect(text.toString(notice)).toBe(shown);
      expect(text.size).toBe(shown.length);
    }
  });

  it('without a single line end is bounded too', () => {
    const text = new StreamText(1000);
    for (let part = 0; part < 1000; part++) text.write('x'.repeat(997));
    expect(text.size).toBeLessThanOrEqual(3000);
    const retained = text.toString(() => '').length;
    expect(retained + text.cutBytes).toBe(997_000);
  });
});

describe('a large amount of output', () => {
  it('keeps the first and the last outputs, and states between them what is missing', () => {
    const area = new OutputArea(20_000);
    for (let n = 0; n < 10_000; n++) area.add(display({ 'text/plain': `${n}` }), { seq: n + 1 });
    const texts = shown(area).map(textOf);
    const between = texts.findIndex(text => text.includes('left out here'));
    expect([texts[0], texts.at(-1)]).toEqual(['0', '9999']);
    expect(texts.slice(0, between)).toEqual(texts.slice(0, between).map((_, n) => `${n}`));
    const missing = 10_000 - (texts.length - 1);
    expect(texts[between]).toContain(`${missing} outputs, `);
    expect(area.cutBytes).toBeGreaterThan(100_000);
    expect(area.bytes).toBeLessThan(21_000);
  });

  it('in one output is described, not shown', () => {
    const area = new OutputArea(10_000);
    area.add(display({ 'image/png': 'A'.repeat(50_000), 'text/plain': '<Figure>' }), { seq: 1 });
    const [entry] = area.entries();
    expect(textOf(entry?.output)).toMatch(/^\[tpulab: image\/png, text\/plain, 48.9 KiB, left out here; /);
    expect(entry?.cutBytes).toBeGreaterThan(50_000);
  });

  it('is removed for good when the cell clears it', () => {
    const area = new OutputArea(2000);
    for (let n = 0; n < 1000; n++) area.add(display({ 'text/plain': 'x' }), { seq: n });
    area.clear(true);
    area.add(stream('new'), { seq: 1001 });
    expect([shown(area), area.cutBytes, area.clearPending]).toEqual([[stream('new')], 0, false]);
  });
});

describe('a display', () => {
  it('is updated wherever it is shown, even as the result of a cell, and remains a result', () => {
    const area = new OutputArea(Infinity);
    const result: NotebookOutput = {
      output_type: 'execute_result',
      data: { 'text/plain': 'old' },
      metadata: {},
      execution_count: 4
    };
    area.add(display({ 'text/plain': 'old' }), { seq: 1, displayId: 'd' });
    area.add(result, { seq: 2, displayId: 'd' });
    area.add(display({ 'text/plain': 'other' }), { seq: 3, displayId: 'e' });
    area.update('d', display({ 'text/plain': 'new' }), { seq: 4 });
    expect(shown(area)).toEqual([
      display({ 'text/plain': 'new' }),
      { ...result, data: { 'text/plain': 'new' } },
      display({ 'text/plain': 'other' })
    ]);
    expect(area.displays()).toEqual(
      new Map([
        ['d', 4],
        ['e', 3]
      ])
    );
  });
});
