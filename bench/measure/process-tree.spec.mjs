import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { cpuMsBetween, sampleTree, total } from './process-tree.mjs';

describe.runIf(process.platform === 'linux')('the figures of a process tree', () => {
  it('count a server and its children, but not kernels', async () => {
    const script = `
      const { spawn } = require('node:child_process');
      const rest = 'process.stdin.resume(); process.stdout.write("x")';
      for (const name of ['keeper/' + 'main.js', 'tpulab' + '.launcher'])
        spawn(process.execPath, ['-e', rest, name], { stdio: ['pipe', 'inherit', 'inherit'] });
      process.stdin.resume();`;
    const server = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] });
    try {
      let ready = '';
      while (ready.length < 2) ready += String((await once(server.stdout, 'data'))[0]);
      const samples = sampleTree(server.pid ?? null);
      expect(samples.map(({ role }) => role)).toEqual(['server', 'keeper']);
      expect(total(samples, 'rssMb')).toBeGreaterThan(total(samples, 'rssMb', 'keeper'));
      // Both map the memory of the same Node executable.
      expect(total(samples, 'pssMb')).toBeGreaterThan(0);
      expect(total(samples, 'pssMb')).toBeLessThan(total(samples, 'rssMb'));
    } finally {
      const ended = once(server, 'exit');
      server.stdin.end();
      server.kill();
      await ended;
    }
  });

  it('are empty where there is no server', () => {
    expect(sampleTree(null)).toEqual([]);
  });
});

it('counts a new process in full', () => {
  const sample = (/** @type {number} */ pid, /** @type {number} */ cpuMs) =>
    /** @type {const} */ ({ pid, role: 'server', cpuMs, rssMb: 0, pssMb: 0, peakMb: 0 });
  expect(cpuMsBetween([sample(1, 100)], [sample(1, 130), sample(2, 50)])).toBe(80);
});
