import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFrame, encodeJsonFrame, FrameDecoder, FrameType, MAX_FRAME_BYTES } from './frames.js';

describe('frames between keeper and gateway', () => {
  it('decode to the encoded frames, however the stream is split', () => {
    const frame = fc.record({
      type: fc.integer({ min: 1, max: 6 }),
      body: fc.uint8Array({ maxLength: 300 })
    });
    fc.assert(
      fc.property(
        fc.array(frame, { maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 90 })),
        (frames, cuts) => {
          const stream = Buffer.concat(frames.map(({ type, body }) => encodeFrame(type, Buffer.from(body))));
          const decoder = new FrameDecoder();
          const seen: { type: number; body: Uint8Array }[] = [];
          let at = 0;
          for (const cut of [...cuts, stream.length]) {
            decoder.push(stream.subarray(at, at + cut), (type, body) =>
              seen.push({ type, body: Uint8Array.from(body) })
            );
            at += cut;
          }
          expect(seen).toEqual(frames);
        }
      )
    );
  });

  it('are these bytes', () => {
    expect([...encodeJsonFrame(FrameType.reply, { id: 1 })]).toEqual([
      9,
      0,
      0,
      0,
      2,
      ...Buffer.from('{"id":1}')
    ]);
    expect([...encodeFrame(FrameType.records, Buffer.from([1]), Buffer.from([2]))]).toEqual([
      3, 0, 0, 0, 5, 1, 2
    ]);
  });

  it.each([0, MAX_FRAME_BYTES + 1, 0xffffffff])('are refused with a length of %i', length => {
    const header = Buffer.alloc(5);
    header.writeUInt32LE(length);
    expect(() => new FrameDecoder().push(header, () => undefined)).toThrow(
      expect.objectContaining({ code: 'keeper_protocol' })
    );
  });

  it('are refused when the data is HTTP', () => {
    expect(() => new FrameDecoder().push(Buffer.from('GET / HTTP/1.1\r\n'), () => undefined)).toThrow(
      expect.objectContaining({ code: 'keeper_protocol' })
    );
  });
});
