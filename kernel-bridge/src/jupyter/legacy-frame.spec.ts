import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChannelName, type KernelMessage, WireError } from './kernel-message.js';
import { decodeLegacy, encodeLegacy } from './legacy-frame.js';

const object = fc.dictionary(fc.string(), fc.jsonValue());
const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));
const header = { msg_id: 'm1', msg_type: 'comm_msg', session: 's1' };

const message: fc.Arbitrary<KernelMessage> = fc
  .record({
    channel: fc.constantFrom<ChannelName>('shell', 'control', 'stdin', 'iopub'),
    objects: fc.tuple(object, object, object),
    buffers: fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 4 })
  })
  .map(({ channel, objects, buffers }) => ({
    channel,
    parts: [json(header), ...objects.map(json), ...buffers.map(bytes => Buffer.from(bytes))]
  }));

describe('[9] legacy frames', () => {
  it('decode to the encoded message, as text without buffers and as bytes with them', () => {
    fc.assert(
      fc.property(message, original => {
        const frame = encodeLegacy(original);
        expect(typeof frame).toBe(original.parts.length === 4 ? 'string' : 'object');
        const decoded = decodeLegacy(frame);
        const parsed = ({ parts }: KernelMessage): unknown =>
          parts.slice(0, 4).map(part => JSON.parse(part.toString()) as unknown);
        expect(decoded.channel).toBe(original.channel);
        expect(parsed(decoded)).toEqual(parsed(original));
        expect(decoded.parts.slice(4)).toEqual(original.parts.slice(4));
      })
    );
  });

  it('carry the JSON of the kernel unchanged, numbers that JavaScript would change included', () => {
    const content = '{"id": 12345678901234567890, "x": 1.0}';
    const frame = encodeLegacy({
      channel: 'iopub',
      parts: [json(header), Buffer.from('{}'), Buffer.from('{}'), Buffer.from(content)]
    });
    expect(frame).toBe(
      '{"channel":"iopub","msg_id":"m1","msg_type":"comm_msg","header":{"msg_id":"m1","msg_type":"comm_msg","session":"s1"},' +
        `"parent_header":{},"metadata":{},"content":${content},"buffers":[]}`
    );
  });

  it('have big-endian offsets when there are buffers', () => {
    const frame = encodeLegacy({
      channel: 'iopub',
      parts: [json(header), Buffer.from('{}'), Buffer.from('{}'), Buffer.from('{}'), Buffer.from([7, 8, 9])]
    }) as Buffer;
    const jsonEnd = frame.length - 3;
    expect([...frame.subarray(0, 12)]).toEqual([0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, jsonEnd]);
    expect([...frame.subarray(jsonEnd)]).toEqual([7, 8, 9]);
  });

  it('without a channel go to the shell, and without a parent get an empty one', () => {
    const decoded = decodeLegacy(JSON.stringify({ header, content: { a: 1 }, parent_header: null }));
    expect(decoded.channel).toBe('shell');
    expect(decoded.parts.map(part => part.toString())).toEqual([
      JSON.stringify(header),
      '{}',
      '{}',
      '{"a":1}'
    ]);
  });

  it.each([
    ['invalid JSON', 'hello'],
    ['an array', '[]'],
    ['no header', '{"content":{}}'],
    ['content that is text', '{"header":{},"content":"x"}'],
    ['an empty binary frame', Buffer.alloc(0)],
    ['more sections than bytes', Buffer.from([0, 0, 0, 9, 0, 0, 0, 8])],
    ['sections in the wrong order', Buffer.from([0, 0, 0, 2, 0, 0, 0, 13, 0, 0, 0, 12, 123, 125])],
    ['a section past the end', Buffer.from([0, 0, 0, 1, 0, 0, 1, 0, 123, 125])]
  ])('are refused as malformed: %s', (_, frame) => {
    expect(() => decodeLegacy(frame)).toThrow(expect.objectContaining({ code: 'frame_malformed' }));
  });

  it('fail only with a WireError, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), bytes => {
        try {
          decodeLegacy(Buffer.from(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(WireError);
        }
      })
    );
  });
});
