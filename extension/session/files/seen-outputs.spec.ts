import { describe, expect, it } from 'vitest';
import { STATE, VIEW } from './widget-state.js';
import { SeenOutputs } from './seen-outputs.js';

function store() {
  const stored = new Map<string, string>();
  return {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => void stored.set(key, value)
  };
}

interface Cell {
  cell_type: string;
  metadata: { trusted?: boolean; tags?: string[] };
  outputs: object[];
}
const cellWith = (data: object, trusted?: boolean): Cell => ({
  cell_type: 'code',
  metadata: trusted === undefined ? {} : { trusted },
  outputs: [{ output_type: 'display_data', data, metadata: {} }]
});
const HTML = { 'text/html': '<script>draw()</script>', 'text/plain': 'chart' };

describe('outputs', () => {
  it('are not trusted because their file says so', () => {
    const notebook = { cells: [cellWith(HTML, true)] };
    new SeenOutputs(store()).mark(notebook);
    expect(notebook.cells[0]!.metadata).toEqual({});
  });

  it('that were trusted here stay trusted in the next page and after another program rewrites them', () => {
    const shared = store();
    const saved = { cells: [{ ...cellWith(HTML, true), metadata: { trusted: true, tags: ['a'] } }] };
    new SeenOutputs(shared).learn(saved);
    // The file does not contain this mark.
    expect(saved.cells[0]!.metadata).toEqual({ tags: ['a'] });
    const again = {
      cells: [cellWith({ 'text/plain': ['chart'], 'text/html': ['<script>', 'draw()</script>'] })]
    };
    new SeenOutputs(shared).mark(again);
    expect(again.cells[0]!.metadata.trusted).toBe(true);
  });

  it('are recognised whatever the order of their parts in the file', () => {
    const known = new SeenOutputs(store());
    known.learn({ cells: [cellWith({ 'application/vnd.plotly.v1+json': { layout: {}, data: [] } }, true)] });
    const again = { cells: [cellWith({ 'application/vnd.plotly.v1+json': { data: [], layout: {} } })] };
    known.mark(again);
    expect(again.cells[0]!.metadata.trusted).toBe(true);
  });

  it('that differ by a letter are not recognised', () => {
    const known = new SeenOutputs(store());
    known.learn({ cells: [cellWith(HTML, true)] });
    const other = { cells: [cellWith({ ...HTML, 'text/html': '<script>draw(1)</script>' })] };
    known.mark(other);
    expect(other.cells[0]!.metadata.trusted).toBeUndefined();
  });

  it('with widgets are recognised together with their state in the file, each cell’s newest state', () => {
    // The state names code, so a known output with other state counts as unknown.
    const shared = store();
    const saved = (value: number, esm = '') => ({
      cells: [{ ...cellWith({ [VIEW]: { model_id: 'a' } }, true), id: 'cell' }],
      metadata: {
        widgets: {
          [STATE]: {
            state: {
              a: { model_name: 'Box', state: { children: ['IPY_MODEL_b'], value } },
              b: { model_name: 'AnyModel', state: { _esm: esm } },
              unused: { model_name: 'AnyModel', state: {} }
            }
          }
        }
      }
    });
    const trusts = (notebook: ReturnType<typeof saved>) => {
      new SeenOutputs(shared).mark(notebook);
      return notebook.cells[0]!.metadata.trusted === true;
    };
    const known = new SeenOutputs(shared);
    known.learn(saved(1));
    expect(trusts(saved(1))).toBe(true);
    expect(trusts(saved(1, 'steal()'))).toBe(false);
    known.learn(saved(2));
    expect([trusts(saved(1)), trusts(saved(2))]).toEqual([false, true]);
  });

  it('are recognised while the page is open if there is no storage', () => {
    const full = {
      getItem: () => 'not JSON',
      setItem: () => {
        throw new Error('full');
      }
    };
    for (const known of [new SeenOutputs(null), new SeenOutputs(full)]) {
      known.learn({ cells: [cellWith(HTML, true)] });
      const again = { cells: [cellWith(HTML)] };
      known.mark(again);
      expect(again.cells[0]!.metadata.trusted).toBe(true);
    }
  });

  it.each([
    ...[null, [], { cells: 3 }, { cells: [null, { outputs: 'x' }, { outputs: [null] }] }],
    { metadata: { widgets: { [STATE]: { state: { a: null } } } }, cells: [{ outputs: [] }] }
  ])('of an invalid notebook are left alone: %j', notebook =>
    expect(() => new SeenOutputs(store()).mark(notebook)).not.toThrow()
  );
});
