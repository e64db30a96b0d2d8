/** Tests against libzmq, through zeromq.js: an independent implementation, which kernels use. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Publisher, Router, XPublisher } from 'zeromq';
import { encodeCommand, encodeMessage } from './frame-codec.js';
import { GREETING_BYTES, greeting, type SocketType } from './handshake.js';
import { ZmtpSocket, type ZmtpSocketOptions } from './zmtp-socket.js';

vi.setConfig({ testTimeout: 60_000 });

let folder: string;
let address: string;
const opened: ZmtpSocket[] = [];
const peers: { close(): void }[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'zmtp-'));
  address = `ipc://${join(folder, 'socket')}`;
});

afterEach(async () => {
  await Promise.all(opened.splice(0).map(socket => socket.close()));
  peers.splice(0).forEach(peer => peer.close());
  rmSync(folder, { recursive: true });
});

interface Received {
  readonly socket: ZmtpSocket;
  readonly messages: string[][];
  readonly failures: unknown[];
  connected: number;
  disconnected: number;
}

function open(type: SocketType, options: Partial<ZmtpSocketOptions> = {}): Received {
  const received = { messages: [] as string[][], failures: [] as unknown[], connected: 0, disconnected: 0 };
  const socket = new ZmtpSocket({
    type,
    endpoint: address,
    message: frames => received.messages.push(frames.map(frame => frame.toString())),
    connected: () => received.connected++,
    disconnected: () => received.disconnected++,
    failed: error => received.failures.push(error),
    ...options
  });
  opened.push(socket);
  return Object.assign(received, { socket });
}

function peer<T extends { close(): void }>(socket: T): T {
  peers.push(socket);
  return socket;
}

const becomes = (test: () => boolean): Promise<boolean> =>
  vi.waitUntil(test, { timeout: 30_000, interval: 5 });
const bytes = (...texts: string[]): Buffer[] => texts.map(text => Buffer.from(text));

/** Resolves when the ROUTER knows the identity, which it learns a moment after the handshake; before that it drops messages. */
async function known(router: Router, dealer: Received): Promise<void> {
  dealer.socket.send(bytes('here I am'));
  await router.receive();
}

describe('a DEALER', () => {
  it('is known to a ROUTER by its identity, and gets messages sent to that', async () => {
    const router = peer(new Router({ linger: 0 }));
    await router.bind(address);
    const dealer = open('DEALER', { identity: 'tpulab-1' });
    dealer.socket.send(bytes('', 'question'));
    const [identity, ...rest] = await router.receive();
    expect([identity?.toString(), ...rest.map(String)]).toEqual(['tpulab-1', '', 'question']);
    await router.send(['tpulab-1', 'answer', '']);
    await becomes(() => dealer.messages.length > 0);
    expect(dealer.messages).toEqual([['answer', '']]);
  });

  it('keeps queued messages until the address is bound, in order', async () => {
    const dealer = open('DEALER');
    for (let n = 0; n < 100; n++) dealer.socket.send(bytes(String(n)));
    const router = peer(new Router({ linger: 0 }));
    await router.bind(address);
    for (let n = 0; n < 100; n++) expect((await router.receive())[1]?.toString()).toBe(String(n));
  });

  it('reconnects after the other end has ended, and reports both', async () => {
    const first = new Router({ linger: 0 });
    await first.bind(address);
    const dealer = open('DEALER', { identity: 'same' });
    await becomes(() => dealer.connected === 1);
    first.close();
    await becomes(() => dealer.disconnected === 1);
    const second = peer(new Router({ linger: 0, handover: true }));
    await second.bind(address);
    await becomes(() => dealer.connected === 2);
    await known(second, dealer);
    await second.send(['same', 'again']);
    await becomes(() => dealer.messages.length > 0);
    expect(dealer.messages).toEqual([['again']]);
  });

  it('carries buffers of any size both ways, byte for byte', async () => {
    const router = peer(new Router({ linger: 0, sendHighWaterMark: 0, receiveHighWaterMark: 0 }));
    await router.bind(address);
    const sizes = [0, 1, 255, 256, 16_384, 16_385, 1_000_000, 50_000_000];
    const buffers = sizes.map(size => Buffer.alloc(size, size % 251));
    const got: Buffer[][] = [];
    const dealer = open('DEALER', { message: frames => got.push(frames.map(frame => Buffer.from(frame))) });
    dealer.socket.send(buffers);
    const [identity, ...there] = await router.receive();
    expect(there.map((buffer, index) => buffer.equals(buffers[index] ?? Buffer.alloc(0)))).toEqual(
      sizes.map(() => true)
    );
    await router.send([identity ?? '', ...buffers]);
    await becomes(() => got.length > 0);
    expect(got[0]?.map((buffer, index) => buffer.equals(buffers[index] ?? Buffer.alloc(0)))).toEqual(
      sizes.map(() => true)
    );
  });

  it('works over TCP as well', async () => {
    const router = peer(new Router({ linger: 0 }));
    await router.bind('tcp://127.0.0.1:*');
    const dealer = open('DEALER', { endpoint: router.lastEndpoint ?? '' });
    dealer.socket.send(bytes('hello'));
    expect((await router.receive())[1]?.toString()).toBe('hello');
  });

  it('reports an error of its owner, and continues with the next message', async () => {
    const router = peer(new Router({ linger: 0 }));
    await router.bind(address);
    const texts: string[] = [];
    const dealer = open('DEALER', {
      identity: 'owner',
      message: ([frame]) => {
        texts.push(String(frame));
        if (texts.length === 1) throw new Error('not this one');
      }
    });
    await known(router, dealer);
    await router.send(['owner', 'one']);
    await router.send(['owner', 'two']);
    await becomes(() => texts.length === 2);
    expect(dealer.failures).toEqual([new Error('not this one')]);
  });
});

describe('a SUB', () => {
  it('subscribes to everything, in a way that an XPUB reports', async () => {
    const publisher = peer(new XPublisher({ linger: 0 }));
    await publisher.bind(address);
    const subscriber = open('SUB');
    expect((await publisher.receive())[0]).toEqual(Buffer.from([1]));
    await publisher.send(['any.topic', 'body']);
    await becomes(() => subscriber.messages.length > 0);
    expect(subscriber.messages).toEqual([['any.topic', 'body']]);
  });

  it('receives a flood without loss from a publisher that has no high-water mark', async () => {
    const publisher = peer(new Publisher({ linger: 0, sendHighWaterMark: 0 }));
    await publisher.bind(address);
    let probed = false;
    let next = 1;
    let wrong = 0;
    open('SUB', {
      message: frames => {
        if (frames.length === 1) probed = true;
        else if (frames[0]?.readUInt32LE() !== next++) wrong++;
      }
    });
    // A publisher does not report its subscribers: a message that arrives means that the subscription exists.
    await becomes(() => {
      if (!probed) void publisher.send(['probe']).catch(() => undefined);
      return probed;
    });
    const count = 50_000;
    for (let n = 1; n <= count; n++) {
      const body = Buffer.alloc(200);
      body.writeUInt32LE(n);
      await publisher.send([body, Buffer.alloc(n % 700)]);
    }
    await becomes(() => next > count);
    expect([next - 1, wrong]).toEqual([count, 0]);
  });

  it('has delivered everything when it reports that the connection has ended', async () => {
    const publisher = new XPublisher({ linger: 10_000, sendHighWaterMark: 0 });
    await publisher.bind(address);
    let lastAtEnd = -1;
    const subscriber = open('SUB', { disconnected: () => (lastAtEnd = subscriber.socket.received) });
    await publisher.receive();
    for (let n = 0; n < 1000; n++) await publisher.send([Buffer.alloc(2000)]);
    publisher.close();
    await becomes(() => lastAtEnd >= 0);
    expect(lastAtEnd).toBe(1000);
  });
});

describe('a peer that does not follow the protocol', () => {
  let server: Server;
  const sockets: Socket[] = [];

  /** Runs `answer` for each connection. */
  async function answering(answer: (socket: Socket) => void): Promise<void> {
    server = createServer(socket => {
      sockets.push(socket);
      socket.on('error', () => undefined);
      answer(socket);
    });
    await new Promise<void>(resolve => server.listen(join(folder, 'socket'), resolve));
    peers.push({
      close: () => {
        sockets.splice(0).forEach(socket => socket.destroy());
        server.close();
      }
    });
  }

  const old = (): Buffer => {
    const hello = greeting();
    hello[10] = 2;
    return hello;
  };
  const curve = (): Buffer => {
    const hello = greeting();
    hello.fill(0, 12, 32).write('CURVE', 12);
    return hello;
  };
  const router = (...more: Buffer[]): Buffer =>
    Buffer.concat([
      greeting(),
      encodeCommand('READY', Buffer.from('\x0bSocket-Type\0\0\0\x06ROUTER', 'latin1')),
      ...more
    ]);

  it.each([
    ['uses another protocol', Buffer.from('HTTP/1.1 400 Bad Request\r\n'.repeat(4)), 'zmtp_peer_unsupported'],
    ['speaks ZMTP 2', old(), 'zmtp_peer_unsupported'],
    ['asks for encryption', curve(), 'zmtp_peer_unsupported'],
    [
      'is a socket of the wrong type',
      Buffer.concat([
        greeting(),
        encodeCommand('READY', Buffer.from('\x0bSocket-Type\0\0\0\x04PULL', 'latin1'))
      ]),
      'zmtp_peer_unsupported'
    ],
    [
      'cuts its READY off',
      Buffer.concat([greeting(), encodeCommand('READY', Buffer.from('\x0bSocket'))]),
      'zmtp_frame_malformed'
    ],
    ['sends frames that are none', router(Buffer.from([0x40, 1, 1])), 'zmtp_frame_malformed']
  ])('causes a specific error when it %s', async (_, bytesOfPeer, code) => {
    await answering(socket => socket.write(bytesOfPeer));
    const dealer = open('DEALER');
    await becomes(() => dealer.failures.length > 0);
    expect(dealer.failures[0]).toMatchObject({ name: 'ZmtpError', code });
  });

  it('is answered when it sends a ping', async () => {
    let answer = Buffer.alloc(0);
    await answering(socket => {
      socket.on('data', chunk => (answer = Buffer.concat([answer, chunk])));
      socket.write(router(encodeCommand('PING', Buffer.from([0, 10, 65, 66]))));
    });
    open('DEALER');
    await becomes(() => answer.includes('PONG'));
    expect(answer.subarray(GREETING_BYTES).includes(encodeCommand('PONG', Buffer.from('AB')))).toBe(true);
  });

  it('may send its greeting byte by byte', async () => {
    await answering(socket => {
      const all = router(...encodeMessage(bytes('made it')));
      void (async () => {
        for (const byte of all) await new Promise(resolve => socket.write(Buffer.from([byte]), resolve));
      })();
    });
    const dealer = open('DEALER');
    await becomes(() => dealer.messages.length > 0);
    expect(dealer.messages).toEqual([['made it']]);
  });
});

describe('an address', () => {
  it.each(['', 'ipc://', 'inproc://x', 'tcp://host', 'tcp://host:0', 'tcp://host:70000'])(
    'that is none is refused: "%s"',
    endpoint => {
      expect(() => open('DEALER', { endpoint })).toThrow(
        expect.objectContaining({ code: 'zmtp_endpoint_invalid' }) as Error
      );
    }
  );
});

describe('closing', () => {
  it('ends a socket that never connected', async () => {
    const dealer = open('DEALER');
    dealer.socket.send(bytes('nobody will read this'));
    await dealer.socket.close();
    expect([dealer.connected, dealer.disconnected, dealer.failures]).toEqual([0, 0, []]);
  });
});
