// @vitest-environment jsdom
import { describe, expect, it, vi } from 'vitest';

// jsdom lacks these, and JupyterLab's packages need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends Event {},
    matchMedia: () => ({ addListener: () => undefined })
  })
);

const { OutputAreaModel } = await import('@jupyterlab/outputarea');
const { keepCharactersWhole, saveWellFormed } = await import('./whole-characters.js');

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

// A02
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

  it('is where the cell continues after it was loaded', () => {
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

// A01
it('saved text has no half of a character, wherever it comes from', () => {
  const half = '\ud83d';
  const model = {
    toJSON: (): unknown => ({ cells: [{ source: `a${half}`, outputs: [{ [half]: [1, null, 'ü😀'] }] }] })
  };
  saveWellFormed({ context: { model } } as never);
  expect(model.toJSON()).toEqual({
    cells: [{ source: 'a\ufffd', outputs: [{ '\ufffd': [1, null, 'ü😀'] }] }]
  });
});
