/**
 * The client side of the start of a ZMTP 3.0 connection, with the NULL mechanism: greetings of 64 bytes, then one READY
 * command from each side that names the type of its socket.
 *
 * The greeting declares 3.0, not 3.1: a 3.1 peer then accepts subscriptions as messages, which every version understands.
 */
import { encodeCommand, ZmtpError } from './frame-codec.js';

export type SocketType = 'DEALER' | 'SUB';

export const GREETING_BYTES = 64;
const SIGNATURE_FIRST = 0xff;
const SIGNATURE_LAST = 0x7f;
const VERSION_AT = 10;
const MECHANISM_AT = 12;
const MECHANISM_BYTES = 20;

const COMPATIBLE: Readonly<Record<SocketType, readonly string[]>> = {
  DEALER: ['ROUTER', 'DEALER', 'REP'],
  SUB: ['PUB', 'XPUB']
};

export function greeting(): Buffer {
  const bytes = Buffer.alloc(GREETING_BYTES);
  bytes[0] = SIGNATURE_FIRST;
  bytes[9] = SIGNATURE_LAST;
  bytes[VERSION_AT] = 3;
  bytes.write('NULL', MECHANISM_AT, 'latin1');
  return bytes;
}

/** Throws `zmtp_peer_unsupported` unless the other end supports ZMTP 3 without encryption. */
export function checkGreeting(bytes: Buffer): void {
  if (bytes[0] !== SIGNATURE_FIRST || ((bytes[9] ?? 0) & 1) === 0) {
    throw new ZmtpError('zmtp_peer_unsupported', 'The peer does not speak ZMTP.');
  }
  const major = bytes[VERSION_AT] ?? 0;
  if (major < 3) {
    throw new ZmtpError('zmtp_peer_unsupported', `The peer speaks ZMTP ${major}; 3 is needed (libzmq 4).`);
  }
  const end = MECHANISM_AT + MECHANISM_BYTES;
  const mechanism = bytes.toString('latin1', MECHANISM_AT, end).replace(/\0+$/, '');
  if (mechanism !== 'NULL') {
    throw new ZmtpError(
      'zmtp_peer_unsupported',
      `The peer requires the mechanism ${mechanism}; only NULL is supported.`
    );
  }
}

export function readyCommand(type: SocketType, identity: string): Buffer {
  return encodeCommand(
    'READY',
    Buffer.concat([property('Socket-Type', type), property('Identity', identity)])
  );
}

/** Throws `zmtp_peer_unsupported` when the peer's socket type does not match ours. */
export function checkReady(data: Buffer, type: SocketType): void {
  const peer = properties(data).get('socket-type') ?? '';
  if (!COMPATIBLE[type].includes(peer)) {
    throw new ZmtpError(
      'zmtp_peer_unsupported',
      `A ${type} socket cannot talk to a socket of type "${peer}".`
    );
  }
}

function property(name: string, value: string): Buffer {
  const length = Buffer.alloc(4);
  const bytes = Buffer.from(value, 'utf8');
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([Buffer.from([name.length]), Buffer.from(name, 'latin1'), length, bytes]);
}

/** Names are compared case-insensitively. */
function properties(data: Buffer): Map<string, string> {
  const found = new Map<string, string>();
  let at = 0;
  while (at < data.length) {
    const nameEnd = at + 1 + (data[at] ?? 0);
    const begin = nameEnd + 4;
    const end = begin <= data.length ? begin + data.readUInt32BE(nameEnd) : Infinity;
    if (end > data.length) throw new ZmtpError('zmtp_frame_malformed', 'A READY command is cut off.');
    found.set(data.toString('latin1', at + 1, nameEnd).toLowerCase(), data.toString('utf8', begin, end));
    at = end;
  }
  return found;
}
