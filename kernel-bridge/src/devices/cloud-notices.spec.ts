import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { RemoteNotice } from '@tpulab/protocol';
import { pino } from 'pino';
import { describe, expect, it, vi } from 'vitest';
import { CloudNotices, PREEMPTION_MS } from './cloud-notices.js';
import { FakeMachine } from './testing/fake-machine.js';
import { MetadataServer } from './testing/metadata-server.js';

const log = pino({ level: 'silent' });
const QUIET = { preempted: 'FALSE', 'maintenance-event': 'NONE' };
const WAIT = { timeout: 50_000 };

describe('notices of the cloud', () => {
  it('report immediately that a spot machine is preempted, with the deadline, and only once', async () => {
    await using server = await MetadataServer.start(QUIET);
    await using notices = new CloudNotices({ env: { GCE_METADATA_HOST: server.host }, log, now: () => 1000 });
    const reported: (RemoteNotice | null)[] = [];
    notices.listen(notice => reported.push(notice));
    await vi.waitFor(
      () => expect(server.requests.filter(each => each.includes('wait_for'))).toHaveLength(2),
      WAIT
    );
    expect(notices.notice).toBeNull();
    server.set('preempted', 'TRUE');
    await vi.waitFor(() => expect(reported).toHaveLength(1), WAIT);
    expect(reported[0]).toMatchObject({ kind: 'preemption', since: 1000, deadline: 1000 + PREEMPTION_MS });
    server.set('preempted', 'TRUE');
    server.set('maintenance-event', 'TERMINATE_ON_HOST_MAINTENANCE');
    await vi.waitFor(() => expect(server.requests.some(each => each.includes('upcoming'))).toBe(true), WAIT);
    expect(notices.notice).toMatchObject({ kind: 'preemption' });
    expect(reported).toHaveLength(1);
  });

  it('report the start and the end of maintenance', async () => {
    await using server = await MetadataServer.start({
      ...QUIET,
      'maintenance-event': 'TERMINATE_ON_HOST_MAINTENANCE',
      'upcoming-maintenance': '{"window_start_time": "2026-12-01T10:00:00Z", "can_reschedule": "FALSE"}'
    });
    await using notices = new CloudNotices({ env: {}, url: server.url, log });
    await vi.waitFor(() => expect(notices.notice?.kind).toBe('maintenance'), WAIT);
    expect(notices.notice?.deadline).toBe(Date.parse('2026-12-01T10:00:00Z'));
    server.set('maintenance-event', 'NONE');
    await vi.waitFor(() => expect(notices.notice).toBeNull(), WAIT);
  });

  it('are not queried outside the cloud', async () => {
    await using machine = await FakeMachine.make();
    await machine.write('sys/class/dmi/id/product_name', 'Standard PC\n');
    const requested = vi.spyOn(globalThis, 'fetch');
    const notices = new CloudNotices({ env: {}, root: machine.root, log });
    await notices[Symbol.asyncDispose]();
    expect(requested).not.toHaveBeenCalled();
    requested.mockRestore();
  });

  it('accept no other server as the metadata server, and end when the gateway ends', async () => {
    const portal = createServer((_, response) => response.writeHead(200, { etag: '1' }).end('TRUE'));
    await new Promise<void>(resolve => portal.listen(0, '127.0.0.1', resolve));
    const { port } = portal.address() as AddressInfo;
    const notices = new CloudNotices({ env: { GCE_METADATA_HOST: `127.0.0.1:${port}` }, log });
    await new Promise<void>(resolve => portal.once('request', () => resolve()));
    await notices[Symbol.asyncDispose]();
    expect(notices.notice).toBeNull();
    portal.closeAllConnections();
    await new Promise(resolve => portal.close(resolve));
  });
});
