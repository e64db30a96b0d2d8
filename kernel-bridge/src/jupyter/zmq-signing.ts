/**
 * Messages as ZMQ frames: routing identities or a topic, `<IDS|MSG>`, the HMAC in hex, then the parts.
 * The signature covers the four JSON parts as transmitted. An empty key means unsigned.
 */
import { createHmac, createSecretKey, getHashes, timingSafeEqual } from 'node:crypto';
import { type ChannelName, JSON_PARTS, type KernelMessage, WireError } from './kernel-message.js';

const DELIMITER = Buffer.from('<IDS|MSG>');
const UNSIGNED = Buffer.alloc(0);

/** A DEALER gets none and a SUB one topic; more than a few means that the frames are not Jupyter's. */
const MAX_IDENTITIES = 16;

export interface MessageSigner {
  /** Frames to send. The parts are passed unchanged. */
  sign(parts: readonly Buffer[]): Buffer[];
  /** Checks the signature in constant time and returns the parts as received. Throws `signature_invalid` or `frame_malformed`. */
  verify(channel: ChannelName, frames: readonly Buffer[]): KernelMessage;
  /** Like `verify`, for a socket to which no other user can write: the signature is not checked. */
  accept(channel: ChannelName, frames: readonly Buffer[]): KernelMessage;
}

/** `scheme` is `signature_scheme` of the connection file, for example `hmac-sha256`. */
export function createSigner(scheme: string, key: string): MessageSigner {
  const algorithm = /^hmac-([a-z0-9-]+)$/i.exec(scheme)?.[1]?.toLowerCase();
  if (algorithm === undefined || !getHashes().includes(algorithm)) {
    throw new WireError(
      'scheme_unsupported',
      `Signature scheme "${scheme}" is not supported; use hmac-sha256.`
    );
  }
  // Created once, because preparing the key would be half the cost of each message.
  const secret = key === '' ? null : createSecretKey(Buffer.from(key));
  const digest = (parts: readonly Buffer[], from: number): Buffer => {
    if (secret === null) return UNSIGNED;
    const hmac = createHmac(algorithm, secret);
    for (let index = from; index < from + JSON_PARTS; index++) hmac.update(parts[index] ?? UNSIGNED);
    return Buffer.from(hmac.digest('hex'), 'latin1');
  };
  return {
    sign: parts => [DELIMITER, digest(parts, 0), ...parts],
    accept: (channel, frames) => ({ channel, parts: frames.slice(firstPart(frames)) }),
    verify: (channel, frames) => {
      const first = firstPart(frames);
      const signature = frames[first - 1];
      if (secret !== null) {
        const expected = digest(frames, first);
        if (signature?.length !== expected.length || !timingSafeEqual(signature, expected)) {
          throw new WireError(
            'signature_invalid',
            `A message on ${channel} has a wrong signature for this kernel.`
          );
        }
      }
      return { channel, parts: frames.slice(first) };
    }
  };
}

/** Index of the first part after identities, delimiter and signature. */
function firstPart(frames: readonly Buffer[]): number {
  const last = Math.min(frames.length, MAX_IDENTITIES + 1);
  for (let index = 0; index < last; index++) {
    const frame = frames[index];
    if (frame?.length !== DELIMITER.length || !frame.equals(DELIMITER)) continue;
    const first = index + 2;
    if (frames.length >= first + JSON_PARTS) return first;
    throw new WireError(
      'frame_malformed',
      `A message of ${frames.length} ZMQ frames lacks some of its parts.`
    );
  }
  throw new WireError('frame_malformed', 'The delimiter <IDS|MSG> is missing.');
}
