import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { JournalPage } from '@tpulab/protocol';
import { inTemporaryFolder } from '../journal/testing/journal-folder.js';
import { KernelStory, segmentsOf } from './testing/kernel-story.js';
import { readJournalPage } from './journal-page.js';

/** Forty records in several segments; the last one is a gap. */
async function inJournal(work: (dir: string, lastSeq: number) => Promise<void>): Promise<void> {
  await inTemporaryFolder(async dir => {
    const story = new KernelStory();
    const id = story.request('x', { cellId: 'a' });
    for (let n = 0; n < 38; n++)
      story.iopub(id, 'comm_msg', { n, x: 'x'.repeat(200) }, [Buffer.from([0, 255])]);
    story.gap(3, 'The disk was full.');
    await story.writeTo(dir, { segmentBytes: 4096 });
    await work(dir, story.messages.length);
  });
}

async function pages(dir: string, lastSeq: number, limit: number): Promise<JournalPage['entries']> {
  const entries: JournalPage['entries'] = [];
  for (let from = 1; from <= lastSeq;) {
    const page = await readJournalPage(dir, { from, limit, lastSeq, isOver: true });
    entries.push(...page.entries);
    expect(page.next).toBeGreaterThan(from);
    from = page.next;
  }
  return entries;
}

describe('a range of a journal', () => {
  it('has the messages of both sides, their buffers, and gaps for missing ones', () =>
    inJournal(async (dir, lastSeq) => {
      const entries = await pages(dir, lastSeq, 7);
      expect(entries.map(({ seq }) => seq)).toEqual(Array.from({ length: lastSeq }, (_, n) => n + 1));
      expect(entries[0]).toMatchObject({
        channel: 'shell',
        fromClient: true,
        metadata: { cellId: 'a' },
        header: { msg_type: 'execute_request' }
      });
      expect(entries[1]).toMatchObject({
        channel: 'iopub',
        fromClient: false,
        parent_header: entries[0]!.header,
        buffers: [Buffer.from([0, 255]).toString('base64')]
      });
      expect(entries.at(-1)).toMatchObject({
        channel: 'bridge',
        header: null,
        content: { type: 'gap', count: 3 }
      });
    }));

  it('has a gap where bytes are damaged, and continues after it', () =>
    inJournal(async (dir, lastSeq) => {
      const file = (await segmentsOf(dir))[1]!;
      const bytes = await readFile(file);
      bytes[100]! ^= 1;
      await writeFile(file, bytes);
      const entries = await pages(dir, lastSeq, 5);
      const gap = entries.find(({ content }) => content?.['code'] === 'journal_damaged');
      expect(gap).toMatchObject({ channel: 'bridge', content: { type: 'gap', fromSeq: gap!.seq } });
      const toSeq = gap!.content!['toSeq'] as number;
      const seqs = entries.map(({ seq }) => seq);
      expect(seqs).toEqual(
        Array.from({ length: lastSeq }, (_, n) => n + 1).filter(seq => seq <= gap!.seq || seq > toSeq)
      );
    }));

  it('begins at the start of the journal, when its oldest records have been removed', () =>
    inJournal(async (dir, lastSeq) => {
      const [oldest, second] = await segmentsOf(dir);
      await rm(oldest!);
      const page = await readJournalPage(dir, { from: 1, limit: 100, lastSeq, isOver: true });
      expect(page.firstSeq).toBe(Number(path.basename(second!, '.seg')));
      expect(page.entries[0]!.seq).toBe(page.firstSeq);
    }));

  it('is empty past the end', () =>
    inJournal(async (dir, lastSeq) => {
      const page = await readJournalPage(dir, { from: lastSeq + 5, limit: 10, lastSeq, isOver: true });
      expect(page).toMatchObject({ entries: [], next: lastSeq + 5, lastSeq });
    }));
});
