import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ControlMessage } from '@tpulab/protocol';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ControlLine } from './control-line.js';
import { isControlMessage } from '../keeper-protocol/messages.js';

const ANSWER: ControlMessage = {
  type: 'control',
  time: 1,
  id: 'a',
  run: 'r',
  action: 'pause',
  name: null,
  value: null,
  before: null,
  origin: 'page',
  phase: 'accepted',
  step: null,
  durationMs: null,
  reason: null
};

let folder: string;
let server: Server;
let agent: Socket;
let socket: Socket;
let line: ControlLine;
let expired: ControlMessage[];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  server = createServer();
  server.listen(path.join(folder, 's'));
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  agent = connect(path.join(folder, 's'));
  expired = [];
  line = new ControlLine(message => expired.push(message), pino({ level: 'silent' }), 60_000);
  [socket] = await accepted;
  // The telemetry socket does this for its connections.
  socket.on('error', () => undefined);
  socket.resume();
  line.use(socket);
});

afterEach(async () => {
  line[Symbol.dispose]();
  agent.destroy();
  server.close();
  await rm(folder, { recursive: true });
});

describe('the control line to an agent', () => {
  it('writes one line for each command and resolves with the answer of the same id', async () => {
    const request = line.send({ id: 'a', action: 'set', name: 'lr', value: 0.5 });
    const [chunk] = (await once(agent, 'data')) as [Buffer];
    expect(chunk.toString()).toBe('{"id":"a","action":"set","name":"lr","value":0.5}\n');
    line.received({ ...ANSWER, id: 'other' });
    line.received(ANSWER);
    await expect(request).resolves.toEqual(ANSWER);
  });

  it('answers all callers with the same id', async () => {
    const both = Promise.all([
      line.send({ id: 'a', action: 'pause' }),
      line.send({ id: 'a', action: 'pause' })
    ]);
    line.received(ANSWER);
    await expect(both).resolves.toEqual([ANSWER, ANSWER]);
  });

  it('rejects when no answer comes, and when the connection ends', async () => {
    const impatient = new ControlLine(() => undefined, pino({ level: 'silent' }), 100);
    impatient.use(socket);
    await expect(impatient.send({ id: 'a', action: 'pause' })).rejects.toMatchObject({
      code: 'control_unanswered'
    });
    const cut = line.send({ id: 'b', action: 'pause' });
    agent.destroy();
    await expect(cut).rejects.toMatchObject({ code: 'control_unavailable' });
    await expect(line.send({ id: 'c', action: 'pause' })).rejects.toMatchObject({
      code: 'control_unavailable'
    });
  });

  it('lets commands that were accepted and not applied expire with the process, once', () => {
    line.received(ANSWER);
    line.received({ ...ANSWER, id: 'b' });
    line.received({ ...ANSWER, id: 'b', phase: 'applied', step: 3 });
    line.processEnded();
    line.processEnded();
    expect(expired).toMatchObject([{ id: 'a', phase: 'expired' }]);
    expect(isControlMessage({ ...expired[0]! })).toBe(true);
  });

  it('ignores a message that is not about a command', () => {
    expect(isControlMessage({ type: 'control', id: 'a' })).toBe(false);
    expect(isControlMessage({ ...ANSWER, type: 'run' })).toBe(false);
  });
});
