// @vitest-environment jsdom
import type { YCodeCell } from '@jupyter/ydoc';
import { describe, expect, it, vi } from 'vitest';

// jsdom lacks these, and JupyterLab's packages need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends Event {},
    matchMedia: () => ({ addListener: () => undefined })
  })
);

const { YNotebook } = await import('@jupyter/ydoc');
const { OutputAreaModel } = await import('@jupyterlab/outputarea');
const { keepCharactersWhole, keepLineEndsWhole, saveWellFormed } = await import('./whole-characters.js');

class Area extends OutputAreaModel {}
Object.assign(Area.prototype, {
  _add: (OutputAreaModel.prototype as unknown as { _add: unknown })._add
});
keepCharactersWhole(Area.prototype);

function shown(area: Area, ...parts: string[]): string {
  for (const text of parts) area.add({ output_type: 'stream', name: 'stdout', text });
  return area
    .toJSON()
    .map(output => [output['text'] as string | string[]].flat().join(''))
    .join('|');
}

describe('a line with an emoji', () => {
  it.each([
    [['a😀\b end'], 'a end'],
    [['😀x', '\ry'], 'yx'],
    [['😀', '\b'], ''],
    [['first\n🕐 1', '\r🕑 2', '\r🕒 3\nlast'], 'first\n🕒 3\nlast'],
    [['😀 ', 'more', '\b\b\b\bless'], '😀 less'],
    [['plain\r', 'P'], 'Plain']
  ])('is changed by whole characters: %j', (parts, text) => {
    expect(shown(new Area(), ...parts)).toBe(text);
  });

  it('is the position where a loaded cell continues', () => {
    const area = new Area();
    area.fromJSON([{ output_type: 'stream', name: 'stdout', text: ['one\n', '😀x'] }]);
    expect(shown(area, '\ry')).toBe('one\nyx');
  });

  it('is left to JupyterLab where another stream begins', () => {
    const area = new Area();
    shown(area, '😀x');
    area.add({ output_type: 'stream', name: 'stderr', text: '\ry😀' });
    expect(area.length).toBe(2);
    expect(shown(area)).toBe('😀x|y😀');
  });
});

describe('a cursor that a program moves', () => {
  it.each([
    [['kept\n', 'Working', '\r\x1b[2K', 'Done\n'], 'kept\nDone\n'],
    [['abcdef', '\rxy\x1b[K'], 'xy'],
    [['a 1\nb 1', '\r\x1b[2K\x1b[1A\x1b[2Ka 2\n', 'b 2\n'], 'a 2\nb 2\n'],
    [['a: 1\n', '\rb: 1\x1b[A', '\ra: 2', '\n\rb: 2\x1b[A', '\ra: 3\n'], 'a: 3\nb: 2'],
    [['x\n'.repeat(200), '\x1b[2A', 'y'], `${'x\n'.repeat(198)}y\nx\n`]
  ])('changes the lines that it means: %j', (parts, text) => {
    expect(shown(new Area(), ...parts)).toBe(text);
  });
});

it('an output with a key that Yjs refuses is stored without it', () => {
  const area = new Area();
  const notebook = new YNotebook();
  const odd = '{"constructor": "evil", "__proto__": "evil"}';
  const output = (data: string, metadata: string): never =>
    JSON.parse(`{"output_type":"display_data","data":${data},"metadata":${metadata}}`) as never;
  area.add(output(odd, odd));
  area.add(output('{"text/plain":"text","constructor":"evil"}', '{}'));
  const cell = notebook.addCell({ cell_type: 'code' }) as YCodeCell;
  cell.setOutputs(area.toJSON());
  expect(cell.getOutputs()).toMatchObject([
    { data: { 'text/plain': expect.stringContaining('left out') as unknown }, metadata: {} },
    { data: { 'text/plain': 'text' } }
  ]);
  expect(() => cell.setOutputs([output(odd, '{}')])).toThrow('Unexpected content type');
  notebook.dispose();
  area.dispose();
});

it('saved text has no half of a character, wherever the text comes from', () => {
  const half = '\ud83d';
  const model = {
    toJSON: (): unknown => ({ cells: [{ source: `a${half}`, outputs: [{ [half]: [1, null, 'ü😀'] }] }] })
  };
  saveWellFormed({ context: { model } } as never);
  expect(model.toJSON()).toEqual({
    cells: [{ source: 'a\ufffd', outputs: [{ '\ufffd': [1, null, 'ü😀'] }] }]
  });
});

// CodeMirror counts a line end as one character: what is typed at the end of such a cell would land before it.
it('the code of a cell has line ends of one character, as its editor counts them', () => {
  keepLineEndsWhole();
  const notebook = new YNotebook();
  const cell = notebook.addCell({ cell_type: 'code', source: 'one\r\ntwo\r\nthree\r' });
  expect(cell.getSource()).toBe('one\ntwo\nthree\r');
  notebook.dispose();
});
