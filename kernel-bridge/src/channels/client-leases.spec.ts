import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RETRY_MS } from '@tpulab/platform/retried-write.js';
import { ClientLeases, LEASE_TIMES } from './client-leases.js';

let folder: string;
let file: string;
let attached: Set<string>;
let done: string[];
let faults: (string | null)[];
const open: ClientLeases[] = [];

function leases(): ClientLeases {
  const made = new ClientLeases(file, LEASE_TIMES, {
    isAttached: session => attached.has(session),
    deleteSubshell: id => void done.push(`delete ${id}`),
    disconnectDebugger: () => void done.push('disconnect'),
    onWriteFault: error => faults.push(error === null ? null : ((error as NodeJS.ErrnoException).code ?? '')),
    onUnreadable: error => faults.push(`unreadable: ${error.name}`)
  });
  open.push(made);
  made.kernelIs('kernel-1');
  return made;
}

beforeEach(() => {
  vi.useFakeTimers();
  folder = mkdtempSync(path.join(tmpdir(), 'leases-'));
  file = path.join(folder, 'leases.json');
  attached = new Set(['a']);
  done = [];
  faults = [];
});

afterEach(() => {
  for (const lease of open.splice(0)) lease[Symbol.dispose]();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

describe('[19] a lease of a client', () => {
  it('is kept while the client is attached, for however long', () => {
    const held = leases();
    held.subshellCreated('a', 's1');
    held.debugger = 'a';
    vi.advanceTimersByTime(100 * LEASE_TIMES.subshellMs);
    expect(done).toEqual([]);
  });

  it('is kept in memory while the disk refuses writes, and written when it accepts them again', () => {
    file = path.join(folder, 'absent', 'leases.json');
    const held = leases();
    held.subshellCreated('a', 's1');
    held.debugger = 'a';
    expect([held.subshellsOf('a'), held.debugger, faults]).toEqual([['s1'], 'a', ['ENOENT']]);
    vi.advanceTimersByTime(RETRY_MS);
    expect(faults).toEqual(['ENOENT']);
    mkdirSync(path.dirname(file));
    vi.advanceTimersByTime(RETRY_MS);
    expect([existsSync(file), faults]).toEqual([true, ['ENOENT', null]]);
    expect(leases().subshellsOf('a')).toEqual(['s1']);
  });

  it.each(['', '{"kernelSession":"k', '{"version":2}'])(
    'counts as nothing when a power loss left its file as %j, and reports it',
    text => {
      writeFileSync(file, text);
      expect(leases().debugger).toBeNull();
      expect(faults).toEqual([expect.stringContaining('unreadable')]);
    }
  );

  it('expires after its time: the debugger soon, subshells after a day', () => {
    const held = leases();
    held.subshellCreated('a', 's1');
    held.subshellCreated('a', 's2');
    held.debugger = 'a';
    attached.clear();
    held.clientsChanged();
    vi.advanceTimersByTime(LEASE_TIMES.debuggerMs - 1);
    expect(done).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(done).toEqual(['disconnect']);
    expect(held.debugger).toBeNull();
    vi.advanceTimersByTime(LEASE_TIMES.subshellMs);
    expect(done).toEqual(['disconnect', 'delete s1', 'delete s2']);
    expect(held.subshellsOf('a')).toEqual([]);
  });

  it('is kept when the client returns in time, and the time then restarts', () => {
    const held = leases();
    held.subshellCreated('a', 's1');
    for (let time = 0; time < 3; time++) {
      attached.clear();
      held.clientsChanged();
      vi.advanceTimersByTime(LEASE_TIMES.subshellMs - 1);
      attached.add('a');
      held.clientsChanged();
    }
    expect(done).toEqual([]);
  });

  it('is known to the next gateway, which restarts its full time', () => {
    const first = leases();
    first.subshellCreated('a', 's1');
    first.debugger = 'a';
    first[Symbol.dispose]();
    attached.clear();
    const second = leases();
    expect(second.debugger).toBe('a');
    expect(second.subshellsOf('a')).toEqual(['s1']);
    second.clientsChanged();
    vi.advanceTimersByTime(LEASE_TIMES.debuggerMs + 1);
    expect(done).toEqual(['disconnect']);
  });

  it('ends with the kernel process', () => {
    const held = leases();
    held.subshellCreated('a', 's1');
    held.debugger = 'a';
    expect(held.kernelIs('kernel-1')).toBe(false);
    expect(held.kernelIs('kernel-2')).toBe(true);
    expect([held.debugger, held.subshellsOf('a')]).toEqual([null, []]);
    attached.clear();
    held.clientsChanged();
    vi.advanceTimersByTime(2 * LEASE_TIMES.subshellMs);
    expect(done).toEqual([]);
  });

  it('ends with the kernel process even when another gateway saw the process last', () => {
    leases().subshellCreated('a', 's1');
    const later = leases();
    expect(later.kernelIs('kernel-2')).toBe(true);
    expect(later.subshellsOf('a')).toEqual([]);
  });

  it('ends when the client itself releases it', () => {
    const held = leases();
    held.subshellCreated('a', 's1');
    held.subshellDeleted('s1');
    attached.clear();
    held.clientsChanged();
    vi.advanceTimersByTime(2 * LEASE_TIMES.subshellMs);
    expect(done).toEqual([]);
    expect(() => statSync(file)).toThrow('ENOENT');
  });

  it.each(['', '{', '{"debugger":1}', '[]'])('is nothing when the file contains %j', text => {
    writeFileSync(file, text);
    const held = leases();
    expect(held.debugger).toBeNull();
    held.subshellCreated('a', 's1');
    expect(leases().subshellsOf('a')).toEqual(['s1']);
  });

  it('is written to a file that only its owner can read', () => {
    leases().subshellCreated('a', 's1');
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});
