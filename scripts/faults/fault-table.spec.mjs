// @ts-check
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { faultTable } from './fault-table.mjs';

const ROW = {
  case: 'gateway SIGKILL',
  client: 'stock',
  expected: 2000,
  lost: 0,
  doubled: 3,
  reordered: 0,
  replyFaults: 0,
  gap: 0,
  reported: [],
  cutOff: 0,
  catchUpMs: 120,
  note: ''
};

it('has the cases in the order in which they came, with the stock client first, in columns of one width', () => {
  const table = faultTable([
    { ...ROW, case: 'b', client: 'ours' },
    { ...ROW, case: 'b' },
    { ...ROW, case: 'a' }
  ]).split('\n');
  expect(
    table.slice(2).map(line =>
      line
        .split('|')
        .slice(1, 3)
        .map(cell => cell.trim())
    )
  ).toEqual([
    ['b', 'stock'],
    ['b', 'ours'],
    ['a', 'stock']
  ]);
  expect(new Set(table.map(line => line.length)).size).toBe(1);
});

it('reads the fields of the rows that the fault tests write', () => {
  const source = readFileSync('kernel-bridge/src/faults/testing/scoreboard.ts', 'utf8');
  const score = /interface Score extends Marks \{(.*?)\n\}/s.exec(source)?.[1] ?? '';
  const fields = [...score.matchAll(/^ {2}readonly (\w+):/gm)].map(([, field]) => field);
  const marks = ['expected', 'lost', 'doubled', 'reordered'];
  expect(new Set([...fields, ...marks])).toEqual(new Set(Object.keys(ROW)));
});

it('explains the numbers', () => {
  const text = faultTable([
    { ...ROW, gap: 7, reported: ['7 messages are missing'] },
    { ...ROW, gap: null, reported: ['?'] },
    { ...ROW, lost: 5 },
    { ...ROW, cutOff: 2, replyFaults: 1, catchUpMs: null, note: 'closed with 1000' }
  ]);
  expect(text).toContain('7 reported missing');
  expect(text).toContain('unknown number reported missing');
  expect(text).toContain('lost silently');
  expect(text).toContain('2 lost with the killed process; 1 replies missing or duplicated; closed with 1000');
  expect(text).toContain('never');
});
