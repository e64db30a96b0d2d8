import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { expect, test } from 'vitest';
import { ChannelLink, type Deliver } from '../backends/channel-link.js';
import { attached } from './kernel-waits.js';

/** A v1 frame of a kernel with the session id `session`. */
function frame(session: string): ArrayBuffer {
  const parts = ['iopub', JSON.stringify({ msg_id: 'm', session }), '{}', '{}', '{}'];
  const table = new DataView(new ArrayBuffer(8 * (parts.length + 2)));
  table.setBigUint64(0, BigInt(parts.length + 1), true);
  let offset = table.byteLength;
  ['', ...parts].forEach((part, index) => {
    offset += part.length;
    table.setBigUint64(8 * (index + 1), BigInt(offset), true);
  });
  const text = new TextEncoder().encode(parts.join(''));
  return new Uint8Array([...new Uint8Array(table.buffer), ...text]).buffer;
}

function connection(): Kernel.IKernelConnection {
  const owner = {};
  return {
    connectionStatus: 'connected',
    anyMessage: new Signal(owner),
    connectionStatusChanged: new Signal(owner)
  } as unknown as Kernel.IKernelConnection;
}

test('knows the session of a kernel that sent its last message before the wait', async () => {
  const link = new ChannelLink();
  const deliver: Deliver = () => undefined;
  link.attached(0, deliver);
  link.received({ seq: 1, data: frame('first') }, deliver);
  link.received({ seq: 0, data: frame('restarted') }, deliver);
  expect(await attached(connection(), link, AbortSignal.timeout(30_000))).toBe('restarted');
});

test('waits for a socket that numbers its messages', async () => {
  const link = new ChannelLink();
  await expect(attached(connection(), link, AbortSignal.timeout(20))).rejects.toThrow();
});
