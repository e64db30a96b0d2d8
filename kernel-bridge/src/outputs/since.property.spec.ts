/** The guarantee for a page that reconnects: `since` returns everything that has changed, in its current state. */
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inTemporaryFolder } from '../journal/testing/journal-folder.js';
import { KernelOutputs } from './kernel-outputs.js';
import type { Outputs } from './read-outputs.js';
import { story } from './testing/random-story.js';

function byId({ executions, widgets }: Outputs): Map<string, unknown> {
  return new Map<string, unknown>([
    ...executions.map(each => [each.msgId, each] as const),
    ...widgets.map(each => [each.commId, each] as const)
  ]);
}

describe('outputs since a record', () => {
  it('are all that differ from then, in their current state', async () => {
    await fc.assert(
      fc.asyncProperty(story, fc.nat(), (reported, at) =>
        inTemporaryFolder(async folder => {
          const journalDir = path.join(folder, 'journal');
          await reported.writeTo(journalDir);
          const since = at % (reported.messages.length + 1);
          const outputs = new KernelOutputs({ journalDir, indexFile: null });
          const then = byId(await outputs.read({ history: true }, since));
          const now = byId(await outputs.read({ history: true }, null));
          const changed = byId(await outputs.read({ history: true, since }, null));
          for (const [id, each] of changed) expect(each).toEqual(now.get(id));
          for (const [id, each] of now) if (!changed.has(id)) expect(each).toEqual(then.get(id));
          // Later changes are sent; a page that has replaced these has everything.
          for (const id of changed.keys()) then.delete(id);
          expect(new Map([...then, ...changed])).toEqual(now);
        })
      ),
      { numRuns: 60 }
    );
  });

  it('come in pages that can be combined while more is printed', async () => {
    await fc.assert(
      fc.asyncProperty(story, fc.nat(), fc.integer({ min: 1, max: 3 }), (reported, at, limit) =>
        inTemporaryFolder(async folder => {
          const journalDir = path.join(folder, 'journal');
          await reported.writeTo(journalDir);
          const outputs = new KernelOutputs({ journalDir, indexFile: null });
          const end = reported.messages.length;
          // The first page is read at this record, each further one a little later.
          let to = at % (end + 1);
          const page = await outputs.read({ limit, history: true }, to);
          const retained = byId(page);
          for (let after = page.nextAfter; after !== null;) {
            to = Math.min(to + 3, end);
            const next = await outputs.read({ limit, after, history: true }, to);
            for (const [id, each] of byId(next)) retained.set(id, each);
            after = next.nextAfter;
          }
          const rest = await outputs.read({ since: page.until, history: true }, null);
          for (const [id, each] of byId(rest)) retained.set(id, each);
          expect(retained).toEqual(byId(await outputs.read({ history: true }, null)));
        })
      ),
      { numRuns: 60 }
    );
  });
});
