import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RunningGateway } from '../cli/running-gateway.js';
import { processStart } from '@tpulab/platform/process-identity.js';
import { IDENTITY, isProof, newChallenge, newProofKey, proofOf } from './gateway-proof.js';
import { chooseToken, readGatewayRecord, readToken } from '../gateway/state-folder.js';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000 });

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** A foreign program at the gateway's address: answers like a gateway, and stores the requests it receives. */
async function stranger(): Promise<{ server: Server; received: IncomingMessage[]; url: string }> {
  const received: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    received.push(request);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ status: 'ok', gatewayId: 'the id', proof: proofOf('a guess', '00') }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

/** Leaves the record of a killed gateway, whose pid now belongs to another live process. */
async function leaveRecord(url: string): Promise<void> {
  await writeFile(path.join(folder, 'token'), 'the-token-of-before\n');
  const record = {
    url,
    pid: process.pid,
    gatewayId: 'the id',
    startedAt: 'before',
    processStart: await processStart(process.pid),
    proofKey: newProofKey()
  };
  await writeFile(path.join(folder, 'gateway.json'), JSON.stringify(record));
}

describe('a gateway', () => {
  it('proves without a token that its record is its own, differently for each challenge', async () => {
    await using bridge = await TemporaryGateway.start();
    const { proofKey = '' } = (await readGatewayRecord(bridge.folder))!;
    const proofs = new Set<unknown>();
    for (const challenge of [newChallenge(), newChallenge()]) {
      const { status, body } = await bridge.rest('GET', `${IDENTITY}?challenge=${challenge}`, {
        token: null
      });
      expect([status, Object.keys(body as object)]).toEqual([200, ['proof']]);
      expect(isProof(proofKey, challenge, body)).toBe(true);
      expect(isProof(newProofKey(), challenge, body)).toBe(false);
      expect(isProof(proofKey, newChallenge(), body)).toBe(false);
      proofs.add((body as { proof: string }).proof);
    }
    expect(proofs.size).toBe(2);
  });

  it('reveals nothing else without a token, and also checks Host and Origin for this route', async () => {
    await using bridge = await TemporaryGateway.start();
    const target = `${IDENTITY}?challenge=${newChallenge()}`;
    const requestWith = (headers: Record<string, string>) =>
      bridge.rest('GET', target, { token: null, headers });
    expect((await requestWith({ origin: 'http://evil.example' })).status).toBe(403);
    for (const bad of ['', '?challenge=', '?challenge=zz', `?challenge=${'0'.repeat(4000)}`]) {
      expect((await bridge.rest('GET', IDENTITY + bad, { token: null })).status).toBe(400);
    }
    for (const other of [`${IDENTITY}/`, `${IDENTITY}/x`, `//bridge/v1/identity`, '/bridge/v1/health']) {
      expect([other, (await bridge.rest('GET', other, { token: null })).status]).toEqual([other, 403]);
    }
    expect((await bridge.rest('POST', target, { token: null })).status).toBe(403);
  });
});

describe("a foreign program at the gateway's old address", () => {
  it('gets no token from the command line', async () => {
    const { server, received, url } = await stranger();
    await leaveRecord(url);
    await expect(RunningGateway.find(folder)).rejects.toMatchObject({ code: 'no_gateway' });
    server.close();
    expect(received.length).toBeGreaterThan(0);
    expect(received.map(({ headers }) => headers.authorization)).toEqual(received.map(() => undefined));
  });

  it('has a worthless token once a gateway is started on another port', async () => {
    const { server, url } = await stranger();
    await leaveRecord(url);
    await using bridge = await TemporaryGateway.start({ stateDir: folder, token: undefined });
    server.close();
    expect(bridge.gateway.token).not.toBe('the-token-of-before');
    expect((await bridge.rest('GET', '/api', { token: 'the-token-of-before' })).status).toBe(403);
  });

  it('has a worthless token even if the gateway stalled during its check for other programs', async () => {
    const { server, url } = await stranger();
    await leaveRecord(url);
    // Longer than the gateway's timeout for an answer, which has arrived by then.
    const standStill = (): void =>
      process.nextTick(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500));
    subscribe('net.client.socket', standStill);
    const token = await chooseToken(folder, undefined);
    unsubscribe('net.client.socket', standStill);
    server.close();
    expect(token).not.toBe('the-token-of-before');
  });

  it("has a worthless token even if it listens on the gateway's configured port", async () => {
    const { server, url } = await stranger();
    await writeFile(path.join(folder, 'token'), 'the-token-of-before\n');
    const port = Number(new URL(url).port);
    const start = TemporaryGateway.start({ stateDir: folder, token: undefined, port });
    await expect(start).rejects.toMatchObject({ code: 'address_in_use' });
    server.close();
    expect(await readToken(folder)).toBeNull();
  });
});

describe('a token', () => {
  it('stays the same if no other program was at the address', async () => {
    await leaveRecord('http://127.0.0.1:9/');
    await using bridge = await TemporaryGateway.start({ stateDir: folder, token: undefined });
    expect(bridge.gateway.token).toBe('the-token-of-before');
  });

  it('from the user is stored, whatever program listened at the address', async () => {
    const { server, url } = await stranger();
    await leaveRecord(url);
    await using bridge = await TemporaryGateway.start({ stateDir: folder });
    server.close();
    expect(bridge.gateway.token).toBe(TOKEN);
  });
});
