/** Whether outputs read from a journal are the same as nbclient's for the same messages. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { inTemporaryFolder } from '../journal/testing/journal-folder.js';
import { KernelOutputs } from './kernel-outputs.js';
import type { Outputs } from './read-outputs.js';
import type { KernelStory } from './testing/kernel-story.js';
import { runPython } from './testing/lab-python.js';
import { story } from './testing/random-story.js';

vi.setConfig({ testTimeout: 240_000 });

interface Shown {
  readonly executions: Record<string, unknown[]>;
  readonly widgets: Record<string, unknown[]>;
}

/** Reads the whole journal, and reads it again with the index left from reading only a part. */
async function readBack(reported: KernelStory, folder: string): Promise<Outputs[]> {
  const journalDir = path.join(folder, 'journal');
  await reported.writeTo(journalDir);
  const indexFile = path.join(folder, 'outputs.index');
  const whole = new KernelOutputs({ journalDir, indexFile: null });
  const read = [await whole.read({ history: true, maxBytes: Infinity }, null)];
  const first = new KernelOutputs({ journalDir, indexFile });
  await first.catchUp(Math.floor(reported.messages.length / 2));
  await first[Symbol.asyncDispose]();
  const second = new KernelOutputs({ journalDir, indexFile });
  read.push(await second.read({ history: true, maxBytes: Infinity }, null));
  return read;
}

function asShown({ executions, widgets }: Outputs): Shown {
  return {
    executions: Object.fromEntries(
      executions.map(({ msgId, outputs }) => [msgId, outputs.map(({ output }) => output)])
    ),
    widgets: Object.fromEntries(
      widgets.map(({ commId, outputs }) => [commId, outputs.map(({ output }) => output)])
    )
  };
}

describe('outputs read back from a journal', () => {
  it("are the same as nbclient's for the same messages, with and without an index", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const stories = fc.sample(story, { numRuns: 150, seed });
    await inTemporaryFolder(async folder => {
      const file = path.join(folder, 'stories.json');
      await writeFile(file, JSON.stringify(stories.map(({ messages }) => messages)));
      const expected = JSON.parse(await runPython('nbclient_oracle.py', [file])) as Shown[];
      for (const [number, reported] of stories.entries()) {
        const wanted = expected[number]!;
        const which = `story ${number} of seed ${seed}`;
        for (const read of await readBack(reported, path.join(folder, String(number)))) {
          const shown = asShown(read);
          expect(shown.executions, which).toEqual(wanted.executions);
          // Widgets without captured output are not reported.
          for (const [commId, outputs] of Object.entries(wanted.widgets)) {
            expect(shown.widgets[commId] ?? [], which).toEqual(outputs);
          }
        }
      }
    });
  });
});
