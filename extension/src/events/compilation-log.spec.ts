import { describe, expect, it } from 'vitest';
import { CompilationLog, MAX_COMPILATIONS } from './compilation-log.js';
import { compile, T0 } from './samples.spec-data.js';

describe('CompilationLog', () => {
  it('turns a started compilation into a finished one without counting it twice', () => {
    const log = new CompilationLog();
    log.apply(compile(1, { phase: 'started', time: T0, traceMs: 0, lowerMs: 0, compileMs: 0 }));
    expect(log.running.map(entry => entry.function)).toEqual(['train_step']);
    expect(log.count).toBe(0);
    log.apply(compile(1, { time: T0 + 1_000 }));
    expect(log.running).toEqual([]);
    expect(log.entries).toHaveLength(1);
    expect(log.entries[0]).toMatchObject({ state: 'finished', durationMs: 1_000, startedAt: T0 });
    expect([log.count, log.totalMs]).toEqual([1, 1_000]);
    log.apply(compile(1, { time: T0 + 2_000 }));
    expect([log.count, log.totalMs]).toEqual([1, 1_000]);
  });

  it('knows the start of a compilation of which it received only the end', () => {
    const log = new CompilationLog();
    log.apply(compile(3, { time: T0 + 5_000 }));
    expect(log.entries[0]?.startedAt).toBe(T0 + 4_000);
  });

  it('records afterwards that not all hosts of a slice compiled, and counts the compilation once', () => {
    const log = new CompilationLog();
    log.apply(compile(1, { time: T0 }));
    expect(log.entries[0]?.hosts).toBeNull();
    log.apply(compile(1, { time: T0, hosts: [0, 2] }));
    expect(log.entries.map(({ hosts }) => hosts)).toEqual([[0, 2]]);
    expect(log.count).toBe(1);
  });

  it('groups eager programs by name, the costliest first, outside the count', () => {
    const log = new CompilationLog();
    const small = { eager: true, traceMs: 1, lowerMs: 1, compileMs: 8 };
    log.apply(compile(1, { ...small, function: 'add', phase: 'started' }));
    log.apply(compile(1, { ...small, function: 'add' }));
    log.apply(compile(2, { ...small, function: 'broadcast_in_dim' }));
    log.apply(compile(3, { ...small, function: 'broadcast_in_dim' }));
    expect([log.count, log.eagerCount, log.eagerTotalMs]).toEqual([0, 3, 30]);
    expect(log.eager.map(({ function: name, count }) => [name, count])).toEqual([
      ['broadcast_in_dim', 2],
      ['add', 1]
    ]);
  });

  it('drops the oldest cards but continues to count', () => {
    const log = new CompilationLog();
    for (let id = 0; id < MAX_COMPILATIONS + 5; id += 1) {
      log.apply(compile(id));
    }
    expect(log.entries).toHaveLength(MAX_COMPILATIONS);
    expect(log.entries[0]?.id).toBe(5);
    expect(log.count).toBe(MAX_COMPILATIONS + 5);
  });
});
