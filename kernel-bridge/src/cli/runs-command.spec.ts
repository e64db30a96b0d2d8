import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { StoredRun } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { runsCommand } from './runs-command.js';
import { type Ran, runCommand } from './testing/command-line.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const T0 = 1_790_000_000_000;
/** Written by tensorboardX 2.6.5. */
const GOLDEN_EVENTS = [
  '1800000000000000a37f4b22090000c0dd4eacda411a0d627261696e2e4576656e743a32b9de556f1800000000000000a37f',
  '4b22090000c0dd4eacda412a0d0a0b0a046c6f7373150000c03fc24148f21a00000000000000129bd82d09a835c3dd4eacda',
  '4110022a0d0a0b0a046c6f7373150000803eabaaca871b000000000000001a0d9e1309273100de4eacda4110ac022a0d0a0b',
  '0a046c6f737315000000c0c8d689b0'
].join('');

function hex(base64: string): string {
  return Buffer.from(base64, 'base64').toString('hex');
}

/** 40 steps; each waits this long for input. */
function run(name: string, at: number, inputMs: number, fingerprint: string): StoredRun {
  const sums = { wallMs: 40 * (inputMs + 9), inputMs: 40 * inputMs, hostMs: 40, deviceMs: 320, gapMs: 0 };
  const location = { cellId: null, executionCount: 3, line: 9, file: null, function: null };
  const reason = { verdict: 'first' as const, argument: null, before: null, after: null, advice: null };
  return {
    ...{ v: 1, key: `k.r${at}`, kernelId: 'k', run: `r${at}`, name, state: 'finished' },
    ...{ startedAt: T0 + at, lastAt: T0 + at + 1000, steps: 40, totalSteps: 40 },
    ...{ config: { workers: at, rows: 64 }, metrics: { loss: 0.25 }, hyperparameters: [], series: {} },
    ...{ bands: [], commands: [], machine: 'TPU v5 lite × 8', stepMs: inputMs + 9 },
    totals: { ...sums, compileMs: 0 },
    parts: {
      size: 40,
      list: [
        {
          step: 0,
          time: T0,
          steps: 40,
          wallMs: sums.wallMs,
          watched: { steps: 40, ...sums },
          unwatched: { ...sums }
        }
      ]
    },
    programs: [{ function: 'train_step', step: 0, ms: 900, cacheHit: false, location, reason, fingerprint }]
  };
}

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP8z8DA+J8BAAgJAgFJnjqBAAAAAElFTkSuQmCC';
const WAV = 'UklGRioAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQYAAAAAAP8/AcA=';
/** Encoded by the messages of tensorboardX 2.6.5. */
const GOLDEN_MEDIA = [
  `09000000e04eacda4110042a5e0a5c0a086d656469756d203022500801100218032248${hex(PNG)}`,
  '09621000e04eacda4110042a240a220a086d656469756d2031420c0807120042066120746578744a080a060a0474657874',
  `09c52000e04eacda4110042a540a520a086d656469756d203232460d0000fa4510012232${hex(WAV)}2a09617564696f2f776176`
];

const MEDIA = [
  ['image/png', PNG],
  ['text/plain', 'a text'],
  ['audio/wav', WAV],
  // A kernel may send any bytes.
  ['image/png', PNG.slice(0, 20)],
  ['audio/wav', 'aaaa']
].map(([mime = '', data], id) => ({
  ...{ type: 'media' as const, time: T0 + id, run: 'r1', id, step: 4, name: `medium ${id}`, mime, data }
}));

/** A run with two checkpoints, and a value that commands can change. */
function steered(): StoredRun {
  const command = { type: 'control' as const, time: T0, run: 'r3', name: null, value: null, before: null };
  const applied = { origin: 'code' as const, phase: 'applied' as const, durationMs: 1, reason: null };
  const rate = { name: 'rate', value: 0.5, initial: 0.5, kind: 'number' as const, min: 0, max: 1 };
  return {
    ...run('steered', 3, 1, 'aa'),
    startedAt: T0 - 9000,
    series: { loss: { steps: [0, 2], values: [1.5, 0.25], waiting: [[300, -2]] } },
    hyperparameters: [{ ...rate, scale: 'linear', choices: null, description: null, recompiles: false }],
    commands: [10, 20].map(step => ({ ...command, ...applied, id: `${step}`, action: 'checkpoint', step }))
  };
}

let folder: string;
let bridge: TemporaryGateway;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-runs-'));
  await mkdir(path.join(folder, 'runs'));
  // The file of the last one is missing.
  const listed = [...MEDIA, ...MEDIA.slice(1, 2).map(one => ({ ...one, id: MEDIA.length }))];
  const media = listed.map(medium => ({ ...medium, data: undefined }));
  for (const each of [{ ...run('quick', 1, 1, 'aa'), media }, run('slow\x1b[31m', 2, 31, 'bb'), steered()])
    await writeFile(path.join(folder, 'runs', `${each.key}.json`), JSON.stringify(each));
  await mkdir(path.join(folder, 'runs', 'k.r1.media'));
  for (const medium of MEDIA)
    await writeFile(path.join(folder, 'runs', 'k.r1.media', `${medium.id}.json`), JSON.stringify(medium));
  bridge = await TemporaryGateway.start({ stateDir: folder });
  await bridge.gateway.ready;
});

afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const runs = (...args: readonly string[]): Promise<Ran> =>
  runCommand(runsCommand, ...args, '--state-dir', folder);

describe('tpulab runs', () => {
  it('lists the stored runs, newest first, one to a line', async () => {
    const { stdout } = await runs('list');
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[1]).toMatch(
      /^quick {2}finished {2}40 of 40 steps {2}10\.0 ms a step {2}loss 0\.25 .* k\.r1$/
    );
    expect(stdout).not.toContain('\x1b');
    expect(JSON.parse((await runs('list', '--json')).stdout)).toMatchObject({
      runs: [{}, { name: 'quick' }, { name: 'steered' }]
    });
  });

  it('shows one, by its key or its name', async () => {
    const { stdout } = await runs('show', 'quick');
    expect(stdout).toContain('time     device 80%, input 10%, host 10%, compile 0%, idle 0%');
    expect(stdout).toContain('settings workers=1, rows=64');
    expect((await runs('show', 'k.r1')).stdout).toBe(stdout);
    expect((await runs('show', 'none')).error).toMatchObject({ code: 'run_not_found' });
  });

  it('writes curves as CSV, everything as JSON, and an event file for TensorBoard', async () => {
    const out = path.join(folder, 'out');
    await runs('export', 'k.r3', 'quick', '--out', out);
    expect(await readFile(out, 'utf8')).toContain('steered,k.r3,loss,2,0.25\r\n');
    await runs('export', 'k.r3', '--to', 'json', '--out', out);
    expect(JSON.parse(await readFile(out, 'utf8'))).toMatchObject({ runs: [{ name: 'steered' }] });
    const { stdout } = await runs('export', 'k.r3', '--to', 'tensorboard', '--out', path.join(folder, 'tb'));
    expect(stdout).toContain('Wrote 1 to ');
    // The same three points as tensorboardX 2.6.5 writes them, including wall times and checksums.
    const events = await readFile(path.join(folder, 'tb', 'k.r3', 'events.out.tfevents.0.k.r3'));
    expect(events.toString('hex')).toBe(GOLDEN_EVENTS);
    expect((await runs('export', 'none', '--out', out)).error).toMatchObject({ code: 'run_not_found' });
    for (const [format, code] of [
      ['csv', 'EISDIR'],
      ['tensorboard', 'ENOENT']
    ] as const) {
      const to = format === 'csv' ? folder : '/proc/x';
      expect((await runs('export', 'k.r3', '--to', format, '--out', to)).error).toMatchObject({
        code: 'export_not_written',
        message: expect.stringContaining(`${to}: the system says ${code}`) as unknown
      });
    }
  });

  it('exports pictures, sound and text to TensorBoard', async () => {
    const { stdout } = await runs('export', 'quick', '--to', 'tensorboard', '--out', path.join(folder, 'tb'));
    expect(stdout).toContain('Left out: 3 pictures, sounds or texts that are not stored or damaged.');
    const events = await readFile(path.join(folder, 'tb', 'k.r1', 'events.out.tfevents.0.k.r1'));
    for (const golden of GOLDEN_MEDIA) expect(events.toString('hex')).toContain(golden);
  });

  it('requests a branch at a checkpoint only, and with a hyperparameter of the run', async () => {
    const error = async (...args: readonly string[]) => (await runs('branch', ...args)).error;
    expect(await error('quick')).toMatchObject({ message: 'quick has no such checkpoint: it has none.' });
    expect(await error('k.r3', '--step', '5')).toMatchObject({ message: /it has 10, 20\.$/ });
    expect(await error('k.r3', '--set', 'lr=1')).toMatchObject({
      message: /hyperparameter "lr"; it has: rate\.$/
    });
    expect(await error('k.r3', '--set', 'rate=fast')).toMatchObject({
      message: 'rate is a number, not "fast".'
    });
    // The request is valid, but the kernel has ended.
    expect(await error('k.r3', '--set', 'rate=0.1')).toMatchObject({ code: 'kernel_not_found' });
  });

  it('compares two: the cost of each span, the program that changed, the settings that differ', async () => {
    const { stdout } = await runs('compare', 'k.r2', 'quick');
    expect(stdout).toMatch(/takes 30\.0 ms more per step than quick\.\n/);
    expect(stdout).toContain('step    10.0 ms and 40.0 ms');
    expect(stdout).toContain('input   1.00 ms and 31.0 ms (+30.0 ms)');
    expect(stdout).toContain('Program changed: train_step (cell [3], line 9)');
    expect(stdout).toContain('workers: 1 and 2');
    expect(stdout).not.toContain('\x1b');
  });
});
