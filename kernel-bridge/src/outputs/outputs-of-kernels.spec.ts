import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { inTemporaryFolder } from '../journal/testing/journal-folder.js';
import type { Kernel } from '../kernels/kernel.js';
import type { KernelRegistry, RegistryListener } from '../kernels/kernel-registry.js';
import { OutputsOfKernels } from './outputs-of-kernels.js';
import { KernelStory } from './testing/kernel-story.js';

const KERNELS = 12;

/** A registry without running kernels; the spec controls its notifications. */
class NoneRuns implements Pick<KernelRegistry, 'find' | 'list' | 'listen'> {
  listener: RegistryListener | null = null;

  find(): undefined {
    return undefined;
  }

  list(): Kernel[] {
    return [];
  }

  listen(listener: RegistryListener): Disposable {
    this.listener = listener;
    return { [Symbol.dispose]: () => undefined };
  }
}

async function keepJournal(stateDir: string, text: string): Promise<string> {
  const kernelId = randomUUID();
  const folder = path.join(stateDir, 'kernels', kernelId);
  await mkdir(folder, { recursive: true });
  const story = new KernelStory();
  for (let count = 1; count <= 50; count++) {
    story.cell(`cell-${count}`, 'print(text)', count, id => story.stream(id, `${text}\n`));
  }
  await story.writeTo(path.join(folder, 'journal'));
  return kernelId;
}

it('answers for more ended kernels at the same time than it keeps cached afterwards', () =>
  inTemporaryFolder(async stateDir => {
    const kernels = await Promise.all(
      Array.from({ length: KERNELS }, (_, index) => keepJournal(stateDir, `kernel ${index}`))
    );
    const registry = new NoneRuns();
    await using outputs = new OutputsOfKernels({ stateDir, registry, log: pino({ enabled: false }) });
    for (let round = 0; round < 3; round++) {
      const pages = await Promise.all(kernels.map(kernelId => outputs.read(kernelId, {})));
      const printed = pages.map(({ executions }) => executions.at(-1)?.outputs.map(({ output }) => output));
      expect(printed).toEqual(
        kernels.map((_, index) => [{ output_type: 'stream', name: 'stdout', text: `kernel ${index}\n` }])
      );
      expect(pages.map(({ executions }) => executions.length)).toEqual(kernels.map(() => 50));
    }
  }));

it('rereads when a kernel returns under its id in the middle of an answer', () =>
  inTemporaryFolder(async stateDir => {
    const kernelId = await keepJournal(stateDir, 'before');
    const registry = new NoneRuns();
    await using outputs = new OutputsOfKernels({ stateDir, registry, log: pino({ enabled: false }) });
    await outputs.read(kernelId, {});
    const requested = outputs.read(kernelId, {});
    const directory = path.join(stateDir, 'kernels', kernelId);
    const noRecords = { [Symbol.dispose]: () => undefined };
    const back = { id: kernelId, directory, listen: () => noRecords } as unknown as Kernel;
    // Often enough that some occur during the reading.
    for (let turn = 0; turn < 30; turn++) {
      await pause(1);
      registry.listener?.added?.(back);
    }
    expect((await requested).executions).toHaveLength(50);
  }));
