import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ChannelsClient, Message } from '../testing/channels-client.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

let bridge: TemporaryGateway;
let kernelId: string;
let seq = 0;

beforeEach(async () => {
  bridge = await TemporaryGateway.start({ leases: { debuggerMs: 200 } });
  await bridge.gateway.ready;
  kernelId = await bridge.startKernel();
});

afterEach(async () => bridge[Symbol.asyncDispose]());

interface Response {
  readonly success: boolean;
  readonly command: string;
  readonly message?: string;
  readonly request_seq: number;
  readonly body: Record<string, unknown>;
}

async function debug(client: ChannelsClient, command: string, args: object = {}): Promise<Response> {
  const request = { type: 'request', seq: ++seq, command, arguments: args };
  const reply = await client.request('control', 'debug_request', request);
  expect(reply.header.msg_type).toBe('debug_reply');
  return reply.content as unknown as Response;
}

async function begin(client: ChannelsClient): Promise<void> {
  const options = {
    clientID: 'spec',
    clientName: 'spec',
    adapterID: '',
    pathFormat: 'path',
    linesStartAt1: true,
    columnsStartAt1: true,
    supportsVariableType: true,
    supportsVariablePaging: true,
    supportsRunInTerminalRequest: true,
    locale: 'en'
  };
  expect(await debug(client, 'initialize', options)).toMatchObject({ success: true });
  expect(await debug(client, 'attach')).toMatchObject({ success: true });
}

/** Sets a breakpoint in the second line of a cell, as a notebook does, and runs the cell up to that line. */
async function runToBreakpoint(client: ChannelsClient): Promise<{ id: string; threadId: number }> {
  const code = 'x = 1\nx = x + 1\nprint("went on with", x)';
  const dumped = await debug(client, 'dumpCell', { code });
  const source = { path: dumped.body['sourcePath'] };
  const set = await debug(client, 'setBreakpoints', {
    breakpoints: [{ line: 2 }],
    source,
    sourceModified: false
  });
  expect(set.body['breakpoints']).toMatchObject([{ verified: true, line: 2 }]);
  expect(await debug(client, 'configurationDone')).toMatchObject({ success: true });
  const id = client.execute(code);
  const stopped = await client.first(isEvent('stopped'));
  const { threadId } = stopped.content['body'] as { threadId: number };
  return { id, threadId };
}

function isEvent(name: string): (message: Message) => boolean {
  return ({ channel, header, content }) =>
    channel === 'iopub' && header.msg_type === 'debug_event' && content['event'] === name;
}

describe('the debugger of a real kernel', () => {
  it('[19] stops at a breakpoint of a cell, shows the stack, and continues', async () => {
    using client = await bridge.connect(kernelId);
    using watching = await bridge.connect(kernelId);
    await watching.run('pass');
    await begin(client);
    const { id, threadId } = await runToBreakpoint(client);
    const stack = await debug(client, 'stackTrace', { threadId });
    expect((stack.body['stackFrames'] as { line: number }[])[0]).toMatchObject({ line: 2 });
    expect(client.printed(id)).toBe('');
    expect(await debug(client, 'continue', { threadId })).toMatchObject({ success: true });
    await client.done(id);
    expect(client.printed(id)).toBe('went on with 2\n');
    await watching.first(isEvent('stopped'));
    expect(await debug(client, 'disconnect')).toMatchObject({ success: true });
  });

  it('[19] belongs to one client at a time: a second one is refused, in the protocol of debuggers', async () => {
    using first = await bridge.connect(kernelId);
    using second = await bridge.connect(kernelId);
    await begin(first);
    const refused = await debug(second, 'initialize');
    expect(refused).toMatchObject({ success: false, command: 'initialize', request_seq: seq });
    expect(refused.message).toMatch(/^Another client is debugging/);
    const reported = second.messages.find(({ header }) => header.msg_type === 'debug_reply');
    await second.until(() =>
      second
        .answers(reported?.parent.msg_id ?? '')
        .some(({ header, content }) => header.msg_type === 'status' && content['execution_state'] === 'idle')
    );
    expect(await debug(second, 'setBreakpoints')).toMatchObject({ success: false });
    // Every client may send requests that change nothing.
    expect(await debug(second, 'debugInfo')).toMatchObject({ success: true, body: { isStarted: true } });
    await second.run('pass');
    expect(await debug(first, 'disconnect')).toMatchObject({ success: true });
    await begin(second);
  });

  it('[19] is released when the lease of its client ends: the cell continues, and another client may debug', async () => {
    const ended = await bridge.connect(kernelId);
    using other = await bridge.connect(kernelId);
    await other.run('pass');
    await begin(ended);
    const { id } = await runToBreakpoint(ended);
    await ended.abort();
    await other.until(() => other.printed(id) === 'went on with 2\n');
    await begin(other);
  });

  it('[19] is free again after a restart', async () => {
    using first = await bridge.connect(kernelId);
    using second = await bridge.connect(kernelId);
    await begin(first);
    await bridge.rest('POST', `/api/kernels/${kernelId}/restart`);
    await second.run('pass');
    await begin(second);
  });
});
