import { Value } from '@sinclair/typebox/value';
import { type ControlCommand, type ControlMessage, NoticeEvent, type RemoteNotice } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { MetadataServer } from '../devices/testing/metadata-server.js';
import { checkpointOnNotice } from './notice-checkpoint.js';
import { silent, TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });
const WAIT = { timeout: 30_000 };

let metadata: MetadataServer;
let bridge: TemporaryGateway;

beforeEach(async () => {
  metadata = await MetadataServer.start({ preempted: 'FALSE', 'maintenance-event': 'NONE' });
  bridge = await TemporaryGateway.start({ env: { ...process.env, GCE_METADATA_HOST: metadata.host } });
  await bridge.gateway.ready;
});
afterEach(async () => {
  await bridge[Symbol.asyncDispose]();
  await metadata[Symbol.asyncDispose]();
});

describe('a gateway on a machine of the cloud', () => {
  it('reports preemption in its health and on the events socket, and to pages that connect later', async () => {
    const health = async () =>
      (await bridge.rest('GET', '/bridge/v1/health')).body as { notice: RemoteNotice | null };
    expect((await health()).notice).toBeNull();
    const early = await subscribe();
    metadata.set('preempted', 'TRUE');
    await vi.waitFor(() => expect(early.notices).toHaveLength(1), WAIT);
    expect([...Value.Errors(NoticeEvent, early.notices[0])]).toEqual([]);
    expect((await health()).notice).toMatchObject({ kind: 'preemption' });
    const late = await subscribe();
    await vi.waitFor(() => expect(late.notices).toEqual(early.notices), WAIT);
    early.socket.close();
    late.socket.close();
  });
});

describe('a checkpoint at a notice', () => {
  it('is requested once from each kernel, and a kernel without a run causes no error', async () => {
    let notify: (notice: RemoteNotice | null) => void = () => undefined;
    const commands: [string, ControlCommand][] = [];
    const kernel = (id: string) => ({
      id,
      control: async (command: ControlCommand): Promise<ControlMessage> => {
        commands.push([id, command]);
        throw new Error('no run');
      }
    });
    checkpointOnNotice({
      notices: {
        listen: listener => {
          notify = listener;
          return { [Symbol.dispose]: () => undefined };
        }
      },
      kernels: () => [kernel('one'), kernel('two')],
      log: silent()
    });
    const notice: RemoteNotice = { kind: 'preemption', since: 1, deadline: 2, message: '' };
    notify(notice);
    notify(notice);
    notify(null);
    expect(commands.map(([id, { action }]) => [id, action])).toEqual([
      ['one', 'checkpoint'],
      ['two', 'checkpoint']
    ]);
    notify({ ...notice, since: 5 });
    expect(commands).toHaveLength(4);
  });
});

async function subscribe(): Promise<{ socket: WebSocket; notices: NoticeEvent[] }> {
  const url = new URL(`bridge/v1/events?token=${TOKEN}`, bridge.url.replace(/^http/, 'ws'));
  const socket = new WebSocket(url);
  const notices: NoticeEvent[] = [];
  socket.on('message', data => {
    const frame = JSON.parse((data as Buffer).toString()) as { op: string; events?: object[] };
    for (const event of frame.events ?? []) if ('notice' in event) notices.push(event as NoticeEvent);
  });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  socket.send(JSON.stringify({ op: 'subscribe', topics: ['devices'] }));
  return { socket, notices };
}
