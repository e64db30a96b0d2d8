/**
 * A remote whose gateway and setup send a false value in every field of the protocol's schemas. A script replaces ssh and
 * creates the sockets that ssh would create.
 */
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  DevicesPage,
  EventsFrame,
  Health,
  OutputsPage,
  STREAM_FRAME,
  StreamNote,
  type Remote
} from '@tpulab/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { remotesCommand } from '../cli/remotes/remotes-command.js';
import { runCommand } from '../cli/testing/command-line.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import type { HostSetup } from '../../../machines/src/machine.js';
import { HOSTILE_TEXT, wrongValuesOf, SSH_WITH_WRONG_ANSWERS } from './testing/wrong-values.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const GATEWAY_ID = 'the-gateway';
const ROUNDS = 12;
/** Size limit for everything that this gateway reports about one remote, whatever the remote reports about itself. */
const VIEW_BYTES = 400_000;

let folder: string;
let liar: Server;
let bridge: TemporaryGateway;
/** Id of a kernel on this machine; the lying gateway has a kernel with the same id. */
let named: string | null = null;
/** Kernels whose journal was requested from the lying gateway. */
const requests: string[] = [];

/** A random value for the schema; another one at each call. */
function lie(schema: Parameters<typeof wrongValuesOf>[0]): unknown {
  return fc.sample(wrongValuesOf(schema), 1)[0];
}

function noise(): string {
  return fc.sample(HOSTILE_TEXT, 1)[0] ?? '';
}

function frame(type: number, body: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32LE(Buffer.byteLength(body), 0);
  head.writeUInt8(type, 4);
  return Buffer.concat([head, Buffer.from(body)]);
}

/** A setup that already lies before a gateway exists. */
const setup: HostSetup = {
  prepare: (_shell, { onStage, onCheck, onLog }) => {
    for (let count = 0; count < 5; count++) {
      onStage({ name: `s${count}`, title: noise(), detail: noise(), state: 'running', fraction: null });
      onCheck({ name: noise(), message: noise(), remedy: noise(), state: 'warning' });
      onLog(noise());
    }
    const socketPath = path.join(folder, 'liar.sock');
    return Promise.resolve({
      socketPath,
      token: 'a-token-of-the-liar',
      gatewayId: GATEWAY_ID,
      version: noise()
    });
  },
  clean: () => Promise.resolve()
};

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  await writeFile(path.join(folder, 'ssh'), SSH_WITH_WRONG_ANSWERS);
  await chmod(path.join(folder, 'ssh'), 0o700);
  liar = createServer((request, response) => {
    const target = request.url ?? '';
    const kernel = /\/kernels\/([^/]+)\/journal/.exec(target)?.[1];
    if (kernel !== undefined) requests.push(kernel);
    if (target.startsWith('/bridge/v1/health')) {
      const health = lie(Health) as object | null;
      response.end(JSON.stringify({ ...health, gatewayId: GATEWAY_ID, status: 'ok' }));
    } else if (target.startsWith('/bridge/v1/devices')) response.end(JSON.stringify(lie(DevicesPage)));
    else if (target.includes('/journal/stream')) {
      response.write(frame(STREAM_FRAME.note, JSON.stringify(lie(StreamNote))));
      response.end(frame(STREAM_FRAME.records, noise()));
    } else {
      response.setHeader('content-type', 'text/html');
      response.setHeader('set-cookie', 'a=b; Path=/');
      response.setHeader('clear-site-data', '"*"');
      response.setHeader('content-security-policy', 'default-src *');
      response.end(`<script>alert(1)</script>${JSON.stringify(lie(OutputsPage))}`);
    }
  });
  const sockets = new WebSocketServer({ server: liar });
  sockets.on('connection', socket => {
    socket.send('null');
    socket.send(noise());
    for (let count = 0; count < 20; count++) socket.send(JSON.stringify(lie(EventsFrame)));
    const kernels = Array.from({ length: 4 }, (_, index) => ({
      topic: 'kernels',
      kernelId: `00000000-0000-4000-8000-00000000000${index}`,
      ...{ name: noise(), executionState: noise(), connections: 0, reason: null, removed: false }
    }));
    const events = [...kernels, ...(named === null ? [] : [{ ...kernels[0], kernelId: named }])];
    socket.send(JSON.stringify({ op: 'events', events }));
  });
  liar.listen(path.join(folder, 'liar.sock'));
  await once(liar, 'listening');
  bridge = await TemporaryGateway.start({ remotes: { setup, sshProgram: path.join(folder, 'ssh') } });
  await bridge.gateway.ready;
});

afterAll(async () => {
  await bridge[Symbol.asyncDispose]();
  liar.closeAllConnections();
  liar.close();
  await rm(folder, { recursive: true, force: true });
});

async function remote(): Promise<Remote> {
  const { body } = await bridge.rest('GET', '/bridge/v1/machines/liar');
  return body as Remote;
}

function texts(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => [key, ...texts(each)]);
}

function expectPlain(value: unknown): void {
  for (const text of texts(value)) expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/);
}

it('shows nothing unescaped in a view, a log or a terminal, ends nothing, and fills nothing', async () => {
  const source = { kind: 'ssh', destination: 'liar' };
  expect((await bridge.rest('POST', '/bridge/v1/machines', { body: { name: 'liar', source } })).status).toBe(
    201
  );
  for (let round = 0; round < ROUNDS; round++) {
    if (round > 0) await bridge.rest('POST', '/bridge/v1/machines/liar/connect', { body: {} });
    await vi.waitFor(async () => expect((await remote()).roundTripMs).not.toBeNull(), 60_000);
    const view = await remote();
    expectPlain(view);
    expect(JSON.stringify(view).length).toBeLessThan(VIEW_BYTES);
    await bridge.rest('POST', '/bridge/v1/machines/liar/disconnect');
  }
  expectPlain((await bridge.rest('GET', '/bridge/v1/machines/liar/log')).body);
  for (const args of [
    ['describe', 'liar'],
    ['log', 'liar'],
    ['ls', '--json']
  ]) {
    const { stdout } = await runCommand(remotesCommand, ...args, '--state-dir', bridge.folder);
    expect(stdout).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
  }
  expect((await bridge.rest('GET', '/bridge/v1/health')).body).toMatchObject({ status: 'ok' });
  const retained = await bridge.rest('GET', '/bridge/v1/machines/liar/mirror');
  expect((retained.body as { kernels: unknown[] }).kernels.length).toBeLessThanOrEqual(4);
});

it('gets no cookie, no script and no policy into the browser', async () => {
  await bridge.rest('POST', '/bridge/v1/machines/liar/connect', { body: {} });
  await vi.waitFor(async () => expect((await remote()).state).toBe('connected'), 60_000);
  const { headers } = await bridge.rest('GET', '/machines/liar/api/kernels/x');
  expect(headers.get('content-security-policy')).toBe("sandbox; default-src 'none'; frame-ancestors 'self'");
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect([headers.get('set-cookie'), headers.get('clear-site-data')]).toEqual([null, null]);
});

it('that lists a kernel under the id of a local kernel neither changes, shows nor ends the local one', async () => {
  const started = await bridge.rest('POST', '/api/kernels', { body: { name: 'python3' } });
  expect(started.status).toBe(201);
  const { id } = started.body as { id: string };
  named = id;
  await bridge.rest('POST', '/bridge/v1/machines/liar/disconnect');
  await bridge.rest('POST', '/bridge/v1/machines/liar/connect', { body: {} });
  // The mirror of the remote has a kernel with that id, beside this gateway's own kernel.
  const mirrored = async (): Promise<string[]> =>
    (
      (await bridge.rest('GET', '/bridge/v1/machines/liar/mirror')).body as {
        kernels: { kernelId: string }[];
      }
    ).kernels.map(({ kernelId }) => kernelId);
  await vi.waitFor(async () => expect(requests).toContain(id), 60_000);
  expect((await bridge.rest('GET', `/api/kernels/${id}`)).body).toMatchObject({ id, name: 'python3' });
  const outputs = await bridge.rest('GET', `/bridge/v1/kernels/${id}/outputs`);
  expect(outputs).toMatchObject({ status: 200, body: { alive: true, executions: [] } });
  // Removing the remote's kernel does not remove the local one.
  await bridge.rest('POST', '/bridge/v1/machines/liar/disconnect');
  await bridge.rest('DELETE', '/bridge/v1/machines/liar/mirror');
  expect(await mirrored()).not.toContain(id);
  expect((await bridge.rest('DELETE', '/bridge/v1/machines/liar')).status).toBe(204);
  expect((await bridge.rest('GET', `/bridge/v1/kernels/${id}/outputs`)).body).toMatchObject({ alive: true });
  expect((await bridge.rest('DELETE', `/api/kernels/${id}`)).status).toBe(204);
});
