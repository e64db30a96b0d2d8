import { curvesCsv, type StoredRun, type StoredRunSummary, tableCsv } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { isFound, settingColumns, type TableChoice, tableRows } from './runs-table.js';

const T0 = 1_790_000_000_000;
const NEWEST: TableChoice = {
  ...{ search: '', state: null, sort: 'startedAt', descending: true, metric: 'loss', grouped: true },
  unfolded: []
};

function summary(name: string, fields: Partial<StoredRunSummary> = {}): StoredRunSummary {
  return {
    ...{ key: `k.${name}`, kernelId: 'k', run: name, name, state: 'finished', startedAt: T0, lastAt: T0 + 5 },
    ...{ steps: 10, totalSteps: null, config: {}, metrics: {} },
    ...fields
  };
}

const names = (runs: readonly StoredRunSummary[], choice: Partial<TableChoice>): string[] =>
  tableRows(runs, { ...NEWEST, ...choice }).map(({ group, runs: list }) => group ?? list[0]?.name ?? '');

describe('the table of runs', () => {
  it('finds words in name, labels, notebook, machine and settings, all of them', () => {
    const run = summary('voice-24', {
      ...{ document: 'lessons/voice.ipynb', machine: 'TPU v6e × 8', config: { lr: 3e-4, sharding: 'fsdp' } },
      labels: { tags: ['Paper'], note: 'longer clips' }
    });
    for (const search of ['', 'VOICE paper', 'clips v6e', 'lr=3.00e-4', 'sharding=fsdp lessons']) {
      expect(isFound(run, search)).toBe(true);
    }
    expect(isFound(run, 'voice replicated')).toBe(false);
  });

  it('sorts by figures, with unknown values last in both orders, and names by their numbers', () => {
    const runs = [
      summary('lr-10', { metrics: { loss: 2 }, startedAt: T0 + 1 }),
      summary('lr-9', { metrics: { loss: 1 }, startedAt: T0 + 2 }),
      summary('none', { startedAt: T0 + 3 })
    ];
    expect(names(runs, {})).toEqual(['none', 'lr-9', 'lr-10']);
    expect(names(runs, { sort: 'metric', descending: false })).toEqual(['lr-9', 'lr-10', 'none']);
    expect(names(runs, { sort: 'metric', descending: true })).toEqual(['lr-10', 'lr-9', 'none']);
    expect(names(runs, { sort: 'name', descending: false })).toEqual(['lr-9', 'lr-10', 'none']);
  });

  it('shows a group as one row, unless expanded', () => {
    const runs = [
      summary('a', { labels: { group: 'sweep' } }),
      summary('b'),
      summary('c', { labels: { group: 'sweep' }, state: 'failed' })
    ];
    expect(names(runs, { sort: 'name', descending: false })).toEqual(['sweep', 'b']);
    expect(names(runs, { sort: 'name', descending: false, grouped: false })).toEqual(['a', 'b', 'c']);
    expect(names(runs, { state: 'failed', grouped: false })).toEqual(['c']);
  });

  it('has columns for settings that differ, and none for loops without settings', () => {
    const runs = [
      summary('a', { config: { lr: 1, batch: 8 } }),
      summary('b', { config: { lr: 2, batch: 8 } })
    ];
    expect(settingColumns([...runs, summary('plain')], 4)).toEqual({ all: 1, shown: ['lr'] });
  });
});

it('exports runs as tables that a spreadsheet does not mistake for formulas', () => {
  const run = {
    ...summary('=cmd', { config: { lr: 1 }, metrics: { 'a,b': 3 }, labels: { note: 'say "hi"' } }),
    series: { 'a,b': { steps: [0, 4], values: [1, 2], waiting: [[5, 3]] } }
  } as unknown as StoredRun;
  expect(curvesCsv([run]).trimEnd().split('\r\n')).toEqual([
    'run,key,metric,step,value',
    `'=cmd,k.=cmd,"a,b",0,1`,
    `'=cmd,k.=cmd,"a,b",4,2`,
    `'=cmd,k.=cmd,"a,b",5,3`
  ]);
  const [head, line] = tableCsv([run]).split('\r\n');
  expect(head).toContain('idle_ms,lr,"a,b"');
  expect(line).toMatch(/^'=cmd,.*"say ""hi""".*,1,3$/);
});

it('names that every object has are settings and metrics like others', () => {
  const odd = summary('odd', { config: { constructor: 1 }, metrics: { toString: 2 } });
  const [, first, second] = tableCsv([odd, summary('plain')] as unknown as StoredRun[]).split('\r\n');
  expect(first).toMatch(/,1,2$/);
  expect(second).toMatch(/,,,$/);
});
