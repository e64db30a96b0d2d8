import { expect, test } from 'vitest';
import { type IRunCell, lostGroup } from './group-watch.js';

const LOST = {
  name: 'HostLostError',
  value: 'Host 1 (me@10.0.0.4) is lost: its process was killed by SIGKILL. The others cannot go on.'
};

function cell(id: string, executionCount: number | null, error: IRunCell['error'] = null): IRunCell {
  return { id, executionCount, error };
}

test('a lost host is found in the cell that ran last', () => {
  expect(lostGroup([cell('a', 1), cell('b', 3, LOST), cell('c', null)])).toEqual({
    cellId: 'b',
    executionCount: 3,
    reason: 'Host 1 (me@10.0.0.4) is lost: its process was killed by SIGKILL'
  });
});

test('an error of an earlier run, or any other error, requires no restart', () => {
  expect(lostGroup([cell('a', 3, LOST), cell('b', 4)])).toBeNull();
  expect(lostGroup([cell('a', 3, { name: 'ValueError', value: 'no' })])).toBeNull();
  expect(lostGroup([cell('a', 3, { name: 'HostSelectionError', value: 'no host 9' })])).toBeNull();
  expect(lostGroup([])).toBeNull();
});
