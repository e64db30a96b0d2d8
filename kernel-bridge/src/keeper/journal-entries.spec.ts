import { describe, expect, it } from 'vitest';
import type { ChannelName, KernelMessage } from '../jupyter/kernel-message.js';
import { decodeV1 } from '../jupyter/v1-frame.js';
import { fromKernel } from './journal-entries.js';

const message = (channel: ChannelName): KernelMessage => ({
  channel,
  parts: Array.from({ length: 4 }, () => Buffer.from('{}'))
});

describe('messages of a kernel in its journal', () => {
  it.each<[string, ChannelName, string, string | null]>([
    ['an execute_reply', 'shell', 'execute_reply', null],
    ['an error', 'iopub', 'error', null],
    ['an idle status', 'iopub', 'status', 'idle']
  ])('is synced soon after %s', (_what, channel, msgType, status) => {
    expect(fromKernel(message(channel), msgType, status)[2]).toEqual({ durable: true, essential: true });
  });

  it.each<[string, ChannelName, string, string | null]>([
    ['a stream', 'iopub', 'stream', null],
    ['a display', 'iopub', 'display_data', null],
    ['a busy status', 'iopub', 'status', 'busy'],
    ['a completion', 'shell', 'complete_reply', null]
  ])('is not synced early after %s', (_what, channel, msgType, status) => {
    expect(fromKernel(message(channel), msgType, status)[2]).toMatchObject({ durable: false });
  });

  // Jupyter's own kernels send invalid UTF-8 for file names that are not UTF-8.
  it('is UTF-8, whatever the kernel sends; buffers stay as they are', () => {
    const bytes = Buffer.from('{"text":"r\xe9sum\xe9"}', 'latin1');
    const parts = [...message('iopub').parts.slice(1), bytes, bytes];
    const pieces = fromKernel({ channel: 'iopub', parts }, 'stream', null)[1];
    expect(decodeV1(Buffer.concat(pieces as Buffer[])).parts.slice(3)).toEqual([
      Buffer.from('{"text":"r\ufffdsum\ufffd"}'),
      bytes
    ]);
  });

  it('stores messages that clients wait for before output, when the disk is full', () => {
    const isEssential = (channel: ChannelName, msgType: string, status: string | null = null) =>
      fromKernel(message(channel), msgType, status)[2]?.essential;
    expect(isEssential('shell', 'execute_reply')).toBe(true);
    expect(isEssential('stdin', 'input_request')).toBe(true);
    expect(isEssential('iopub', 'status', 'busy')).toBe(true);
    expect(isEssential('iopub', 'stream')).toBe(false);
  });
});
