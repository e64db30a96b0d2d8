import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeCommand, encodeMessage, FrameDecoder, MAX_FRAME_BYTES } from './frame-codec.js';

interface Seen {
  readonly messages: Buffer[][];
  readonly commands: { name: string; data: Buffer }[];
}

function decode(chunks: Iterable<Buffer>): Seen {
  const seen: Seen = { messages: [], commands: [] };
  const decoder = new FrameDecoder({
    message: frames => seen.messages.push(frames.map(frame => Buffer.from(frame))),
    command: (name, data) => seen.commands.push({ name, data: Buffer.from(data) })
  });
  for (const chunk of chunks) decoder.push(chunk);
  return seen;
}

/** The bytes in pieces of the given sizes, repeated. */
function* cut(bytes: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const end = at + (sizes[turn % sizes.length] ?? 1);
    yield bytes.subarray(at, end);
    at = end;
  }
}

/** Sizes around the limit of a short length, and around the largest size that is copied when a message is encoded. */
const frame = fc
  .oneof(fc.nat(20), fc.constantFrom(254, 255, 256, 257, 16 * 1024, 16 * 1024 + 1, 70_000))
  .chain(length => fc.nat(255).map(fill => Buffer.alloc(length, fill)));
const message = fc.array(frame, { minLength: 1, maxLength: 8 });

describe('frames', () => {
  it('decode to the encoded messages, wherever the stream is split', () => {
    fc.assert(
      fc.property(
        fc.array(message, { maxLength: 4 }),
        fc.array(fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 70_000 })), {
          minLength: 1,
          maxLength: 5
        }),
        (messages, sizes) => {
          const bytes = Buffer.concat(messages.flatMap(frames => encodeMessage(frames)));
          // A large message in pieces of a few bytes would only be slow.
          const chunks = bytes.length > 50_000 ? sizes.map(size => size + 1000) : sizes;
          const found = decode(cut(bytes, chunks)).messages;
          const shape = (all: Buffer[][]): number[][] =>
            all.map(frames => frames.map(({ length }) => length));
          expect(shape(found)).toEqual(shape(messages));
          // `toEqual` compares buffers byte by byte.
          expect(Buffer.concat(found.flat()).equals(Buffer.concat(messages.flat()))).toBe(true);
        }
      ),
      { numRuns: 200 }
    );
  });

  it('have the flags and lengths of RFC 23', () => {
    const short = Buffer.from('ab');
    const long = Buffer.alloc(256, 1);
    expect(Buffer.concat(encodeMessage([short, long]))).toEqual(
      Buffer.concat([Buffer.from([1, 2]), short, Buffer.from([2, 0, 0, 0, 0, 0, 0, 1, 0]), long])
    );
  });

  it('are not copied when large', () => {
    const large = Buffer.alloc(1024 * 1024);
    const pieces = encodeMessage([Buffer.from('topic'), large]);
    expect(pieces.some(piece => piece.buffer === large.buffer)).toBe(true);
  });

  it('carry commands between messages', () => {
    const bytes = Buffer.concat([
      ...encodeMessage([Buffer.from('a')]),
      encodeCommand('PING', Buffer.from([0, 10, 7])),
      ...encodeMessage([Buffer.from('b')])
    ]);
    expect(decode(cut(bytes, [1]))).toEqual({
      messages: [[Buffer.from('a')], [Buffer.from('b')]],
      commands: [{ name: 'PING', data: Buffer.from([0, 10, 7]) }]
    });
  });

  it.each([
    ['flags that are not defined', [0x08, 0]],
    ['a length that nobody means', [0x02, 0, 0, 0, 1, 0, 0, 0, 0]],
    ['a command in several frames', [0x05, 2, 1, 65]],
    ['a command without a name', [0x04, 0]],
    ['a name longer than its command', [0x04, 2, 9, 65]]
  ])('are refused with %s', (_, bytes) => {
    expect(() => decode([Buffer.from(bytes)])).toThrow(
      expect.objectContaining({ code: 'zmtp_frame_malformed' }) as Error
    );
  });

  it('are refused before memory is allocated for them', () => {
    const header = Buffer.alloc(9);
    header[0] = 2;
    header.writeBigUInt64BE(BigInt(MAX_FRAME_BYTES) + 1n, 1);
    const before = process.memoryUsage().arrayBuffers;
    expect(() => decode([header])).toThrow(/at most/);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(MAX_FRAME_BYTES);
  });
});
