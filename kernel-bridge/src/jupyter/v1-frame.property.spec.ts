import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChannelName, type KernelMessage, WireError } from './kernel-message.js';
import { decodeV1, encodeV1, v1Part, v1Pieces } from './v1-frame.js';

const channel = fc.constantFrom<ChannelName>('shell', 'control', 'stdin', 'iopub');
const part = fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes));
const message: fc.Arbitrary<KernelMessage> = fc.record({
  channel,
  parts: fc.array(part, { minLength: 4, maxLength: 12 })
});

function u64(value: number | bigint): number[] {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return [...bytes];
}

describe('[9] v1 frames', () => {
  it('decode to the encoded message', () => {
    fc.assert(
      fc.property(message, original => {
        const frame = encodeV1(original);
        expect(decodeV1(frame)).toEqual(original);
        expect(Buffer.concat(v1Pieces(original.channel, original.parts))).toEqual(frame);
        const parts = [...original.parts, null];
        expect(parts.map((_, index) => v1Part(frame, index))).toEqual(parts);
      })
    );
  });

  it('are these bytes', () => {
    const json = (text: string): Buffer => Buffer.from(text);
    const frame = encodeV1({
      channel: 'shell',
      parts: [json('{"a":1}'), json('{}'), json('{}'), json('{"b":"é"}'), Buffer.from([0, 255])]
    });
    // 7 offsets: 64 is the end of the table, then channel 5, header 7, 2, 2, content 10, buffer 2.
    const golden = [
      ...u64(7),
      ...[64, 69, 76, 78, 80, 90, 92].flatMap(u64),
      ...Buffer.from('shell{"a":1}{}{}{"b":"é"}'),
      0,
      255
    ];
    expect([...frame]).toEqual(golden);
  });

  it('are never read outside their bounds, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), bytes => {
        const frame = Buffer.from(bytes);
        const part = v1Part(frame, bytes.length % 6);
        expect(part === null || frame.includes(part)).toBe(true);
        try {
          const { parts } = decodeV1(frame);
          const end = frame.byteOffset + frame.length;
          expect(
            parts.every(
              ({ byteOffset, length }) => byteOffset >= frame.byteOffset && byteOffset + length <= end
            )
          ).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(WireError);
        }
      })
    );
  });

  it('are refused when one byte of the table is changed, unless the table stays valid', () => {
    fc.assert(
      fc.property(message, fc.nat(), fc.integer({ min: 1, max: 255 }), (original, place, flip) => {
        const frame = encodeV1(original);
        const at = place % (8 * (original.parts.length + 3));
        frame[at]! ^= flip;
        try {
          const decoded = decodeV1(frame);
          // Only a boundary between two parts can have moved.
          expect(Buffer.concat([Buffer.from(decoded.channel), ...decoded.parts])).toEqual(
            Buffer.concat([Buffer.from(original.channel), ...original.parts])
          );
        } catch (error) {
          expect(error).toBeInstanceOf(WireError);
        }
      })
    );
  });

  const table = (...offsets: (number | bigint)[]): Buffer =>
    Buffer.from([...u64(offsets.length), ...offsets.flatMap(u64)]);

  it.each([
    ['an empty frame', Buffer.alloc(0)],
    ['a count that the frame cannot hold', Buffer.from(u64(6))],
    ['a count of 2^64-1', Buffer.concat([Buffer.from(u64(2n ** 64n - 1n)), Buffer.alloc(100)])],
    ['too few parts', Buffer.concat([table(48, 53, 55, 57, 59), Buffer.from('shell{}{}{}')])],
    ['offsets that go backwards', Buffer.concat([table(56, 61, 65, 63, 65, 67), Buffer.from('shell{}{}{}')])],
    ['an offset past the end', Buffer.concat([table(56, 61, 63, 65, 67, 99), Buffer.from('shell{}{}{}{}')])],
    [
      'an offset of 2^63',
      Buffer.concat([table(56, 61, 63, 65, 67, 2n ** 63n), Buffer.from('shell{}{}{}{}')])
    ],
    [
      'bytes after the last part',
      Buffer.concat([table(56, 61, 63, 65, 67, 69), Buffer.from('shell{}{}{}{}!')])
    ],
    [
      'a gap between table and channel',
      Buffer.concat([table(57, 62, 64, 66, 68, 70), Buffer.from('!shell{}{}{}{}')])
    ]
  ])('are refused as malformed: %s', (_, frame) => {
    expect(() => decodeV1(frame)).toThrow(expect.objectContaining({ code: 'frame_malformed' }));
  });

  it('are refused for an unknown channel', () => {
    const frame = Buffer.concat([table(56, 61, 63, 65, 67, 69), Buffer.from('sh3ll{}{}{}{}')]);
    expect(() => decodeV1(frame)).toThrow(expect.objectContaining({ code: 'channel_unknown' }));
  });
});
