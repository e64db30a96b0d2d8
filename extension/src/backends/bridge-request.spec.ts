import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Type } from '@sinclair/typebox';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { requestBridge, bodyAs, type BridgeQuestion, messageOf, NoAnswer } from './bridge-request.js';
import { fixedBridgeSettings } from './bridge-settings.js';

const LONG_MS = 60_000;

let server: Server;
let respond: (response: ServerResponse, target: string) => void;
beforeEach(async () => {
  server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const { authorization, 'content-type': type } = request.headers;
      const head = `${request.method} ${request.url} ${authorization} ${type}`;
      respond(response, `${head} ${Buffer.concat(parts).toString()}`);
    });
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise(resolve => server.close(resolve));
});

function question(more: Partial<BridgeQuestion> = {}): BridgeQuestion {
  const { port } = server.address() as AddressInfo;
  const settings = fixedBridgeSettings({ url: `http://127.0.0.1:${port}/below/`, token: 'secret' });
  return { settings, route: 'bridge/v1/a%2Fb?from=3', timeoutMs: LONG_MS, ...more };
}

async function codeOf(asking: Promise<unknown>): Promise<string> {
  const error: unknown = await asking.then(
    () => new Error('It was answered.'),
    (reason: unknown) => reason
  );
  if (!(error instanceof NoAnswer)) throw error;
  return error.code;
}

it('sends a request below the address, with the token, and a body as JSON', async () => {
  respond = (response, target) => response.end(target);
  const { text } = await requestBridge(question({ method: 'POST', body: { a: 1 } }));
  expect(text).toBe('POST /below/bridge/v1/a%2Fb?from=3 token secret application/json {"a":1}');
  expect((await requestBridge(question())).text).toBe(
    'GET /below/bridge/v1/a%2Fb?from=3 token secret application/json '
  );
});

it('returns a refusal as an answer, with its message', async () => {
  respond = response => response.writeHead(409, 'Busy').end('{"message":"It is busy."}');
  const answer = await requestBridge(question());
  expect(answer.response).toMatchObject({ ok: false, status: 409 });
  expect(messageOf(answer)).toBe('It is busy.');
  respond = response => response.writeHead(500).end('<html>');
  const silent = await requestBridge(question());
  expect(silent.body).toBeUndefined();
  expect(messageOf(silent)).toBeNull();
});

it('returns a body of the expected form, or nothing', async () => {
  const schema = Type.Object({ count: Type.Number() });
  respond = response => response.end('{"count":4}');
  expect(bodyAs(schema, await requestBridge(question()))).toEqual({ count: 4 });
  respond = response => response.end('{"count":"four"}');
  expect(bodyAs(schema, await requestBridge(question()))).toBeNull();
});

it('sends nothing without an address', async () => {
  expect(await codeOf(requestBridge(question({ settings: null })))).toBe('request.noAddress');
});

it('reports that no server answers', async () => {
  respond = response => response.destroy();
  expect(await codeOf(requestBridge(question()))).toBe('request.noAnswer');
});

it('gives up after the deadline, even in the middle of an answer', async () => {
  respond = () => undefined;
  expect(await codeOf(requestBridge(question({ timeoutMs: 50 })))).toBe('request.timeout');
  respond = response => response.write('{"half":');
  expect(await codeOf(requestBridge(question({ timeoutMs: 500 })))).toBe('request.timeout');
});

it('gives up when one of its signals is aborted', async () => {
  const [one, other] = [new AbortController(), new AbortController()];
  respond = () => other.abort();
  const signals = [one.signal, undefined, other.signal];
  expect(await codeOf(requestBridge(question({ signals })))).toBe('request.noAnswer');
});

it('distinguishes a truncated answer from none; a truncated refusal is a refusal', async () => {
  const halfWith = (status: number) => (response: ServerResponse) => {
    response.writeHead(status, { 'content-length': '100' });
    response.write('{"half":', () => response.destroy());
  };
  respond = halfWith(200);
  expect(await codeOf(requestBridge(question()))).toBe('request.cutOff');
  respond = halfWith(503);
  expect(await requestBridge(question())).toMatchObject({
    response: { status: 503 },
    text: '',
    body: undefined
  });
});
