import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KernelDocuments } from '../kernels/kernel-documents.js';
import { KernelStory } from '../outputs/testing/kernel-story.js';
import { journalCommand } from './journal/journal-command.js';
import { outputsCommand } from './outputs/outputs-command.js';
import { runCommand } from './testing/command-line.js';

const KERNEL = '00000000-0000-4000-8000-000000000007';

let stateDir: string;
beforeEach(async () => {
  stateDir = await mkdtemp(path.join(tmpdir(), 'tpmo-'));
});
afterEach(async () => rm(stateDir, { recursive: true, force: true }));

describe('--machine', () => {
  it('reads the mirrored journals of that machine', async () => {
    const folder = path.join(stateDir, 'mirrors', 'my-tpu', 'kernels', KERNEL);
    await mkdir(folder, { recursive: true });
    const story = new KernelStory();
    story.cell('cell-a', "print('far away')", 1, id => story.stream(id, 'far away\n'));
    await story.writeTo(path.join(folder, 'journal'));
    const shown = await runCommand(outputsCommand, KERNEL, '--machine', 'my-tpu', '--state-dir', stateDir);
    expect(shown.stdout).toContain('far away');
    await new KernelDocuments(folder, pino({ level: 'silent' })).note('deep/far.ipynb');
    const requested = ['deep/far.ipynb', '--machine', 'my-tpu', '--state-dir', stateDir];
    expect((await runCommand(outputsCommand, ...requested)).stdout).toContain('far away');
    const listed = await runCommand(journalCommand, 'list', '--machine', 'my-tpu', '--state-dir', stateDir);
    expect(listed.stdout).toContain(KERNEL.slice(0, 8));
  });

  it('lists the machines with a mirror here, and accepts no path as a name', async () => {
    await mkdir(path.join(stateDir, 'mirrors', 'my-tpu'), { recursive: true });
    for (const name of ['other', '..', '../mirrors/my-tpu']) {
      const { error } = await runCommand(journalCommand, 'list', '--machine', name, '--state-dir', stateDir);
      expect([error?.code, error?.message]).toEqual(['mirror_unknown', expect.stringContaining('my-tpu')]);
    }
  });
});
