import { afterEach, describe, expect, it, vi } from 'vitest';
import { type AppendOptions, JournalWriter } from '../journal/journal-writer.js';
import { inTemporaryFolder } from '../journal/testing/journal-folder.js';
import type { ChannelName, KernelMessage } from '../jupyter/kernel-message.js';
import { KernelJournal } from './kernel-journal.js';

afterEach(() => vi.restoreAllMocks());

const message = (channel: ChannelName): KernelMessage => ({
  channel,
  parts: Array.from({ length: 4 }, () => Buffer.from('{}'))
});

async function appended(write: (journal: KernelJournal) => void): Promise<AppendOptions> {
  return inTemporaryFolder(async dir => {
    const append = vi.spyOn(JournalWriter.prototype, 'append');
    await using journal = await KernelJournal.open(dir, {
      onWritten: () => undefined,
      onFault: () => undefined
    });
    write(journal);
    return append.mock.calls.at(-1)![2] ?? {};
  });
}

describe('the journal of a kernel', { timeout: 60_000 }, () => {
  it.each<[string, ChannelName, string, string | null]>([
    ['an execute_reply', 'shell', 'execute_reply', null],
    ['an error', 'iopub', 'error', null],
    ['an idle status', 'iopub', 'status', 'idle']
  ])('is synced soon after %s', async (_what, channel, msgType, status) => {
    expect(await appended(journal => journal.fromKernel(message(channel), msgType, status))).toMatchObject({
      durable: true,
      essential: true
    });
  });

  it.each<[string, ChannelName, string, string | null]>([
    ['a stream', 'iopub', 'stream', null],
    ['a display', 'iopub', 'display_data', null],
    ['a busy status', 'iopub', 'status', 'busy'],
    ['a completion', 'shell', 'complete_reply', null]
  ])('takes its time after %s', async (_what, channel, msgType, status) => {
    const options = await appended(journal => journal.fromKernel(message(channel), msgType, status));
    expect(options.durable).toBe(false);
  });

  it('holds what clients wait for before output, when the disk is full', async () => {
    const isEssential = async (channel: ChannelName, msgType: string, status: string | null = null) =>
      (await appended(journal => journal.fromKernel(message(channel), msgType, status))).essential;
    expect(await isEssential('shell', 'execute_reply')).toBe(true);
    expect(await isEssential('stdin', 'input_request')).toBe(true);
    expect(await isEssential('iopub', 'status', 'busy')).toBe(true);
    expect(await isEssential('iopub', 'stream')).toBe(false);
  });
});
