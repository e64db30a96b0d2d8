import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as library from 'ws';
import { encodeV1 } from '../../jupyter/v1-frame.js';
import { RequestReader, type SeenRequest } from './request-reader.js';

/** Not in the library's types. */
const { Sender } = library as unknown as {
  readonly Sender: { frame(data: Buffer, options: object): Buffer[] };
};

interface Sent {
  readonly type: string;
  readonly msgId: string;
  readonly cellId: string | null;
  readonly codeBytes: number;
  readonly isText: boolean;
  readonly pieces: number;
}

const ID = fc.string({ minLength: 1, maxLength: 40 });
const SENT: fc.Arbitrary<Sent> = fc.record({
  type: fc.constantFrom('execute_request', 'execute_request', 'comm_msg'),
  msgId: ID,
  cellId: fc.option(ID),
  codeBytes: fc.constantFrom(0, 10, 200, 70_000, 200_000),
  isText: fc.boolean(),
  pieces: fc.integer({ min: 1, max: 4 })
});

function payload({ type, msgId, cellId, codeBytes, isText }: Sent): Buffer {
  const header = { msg_id: msgId, msg_type: type, session: 's', username: '', date: '', version: '5.3' };
  const metadata = cellId === null ? {} : { cellId, trusted: true };
  const content = { code: 'x'.repeat(codeBytes) };
  if (isText)
    return Buffer.from(JSON.stringify({ channel: 'shell', header, parent_header: {}, metadata, content }));
  const parts = [header, {}, metadata, content].map(part => Buffer.from(JSON.stringify(part)));
  return encodeV1({ channel: 'shell', parts });
}

/** One message in as many frames, masked as those of a browser, with a ping in between. */
function frames(message: Sent): Buffer[] {
  const bytes = payload(message);
  const step = Math.ceil(bytes.length / message.pieces);
  const written: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += step) {
    const opcode = at > 0 ? 0 : message.isText ? 1 : 2;
    const fin = at + step >= bytes.length;
    // The library masks what it is given in place.
    const part = Buffer.from(bytes.subarray(at, at + step));
    written.push(...Sender.frame(part, { fin, rsv1: false, opcode, mask: true, readOnly: false }));
    const ping = { fin: true, rsv1: false, opcode: 9, mask: true, readOnly: false };
    written.push(...Sender.frame(Buffer.from('p'), ping));
  }
  return written;
}

function read(bytes: Buffer, step: number): SeenRequest[] {
  const found: SeenRequest[] = [];
  const reader = new RequestReader(request => found.push(request));
  for (let at = 0; at < bytes.length; at += step) reader.take(Buffer.from(bytes.subarray(at, at + step)));
  return found;
}

describe('requests that pass', () => {
  it('are read however they are cut, in both protocols, among other messages', () => {
    fc.assert(
      fc.property(
        fc.array(SENT, { maxLength: 5 }),
        fc.constantFrom(1_000, 4_093, 65_536, 1e6),
        (sent, step) => {
          const expected = sent
            // A text is read whole or not at all.
            .filter(
              ({ type, isText, codeBytes }) => type === 'execute_request' && !(isText && codeBytes > 65_000)
            )
            .map(({ msgId, cellId }) => ({ msgId, cellId }));
          expect(read(Buffer.concat(sent.flatMap(frames)), step)).toEqual(expected);
        }
      ),
      { numRuns: 60 }
    );
  });

  it('byte by byte too', () => {
    const message = { type: 'execute_request', msgId: 'm', cellId: 'c', codeBytes: 10, pieces: 3 };
    for (const isText of [true, false])
      expect(read(Buffer.concat(frames({ ...message, isText })), 1)).toEqual([{ msgId: 'm', cellId: 'c' }]);
  });

  it('and bytes that are none end nothing', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 1, max: 50 }), (bytes, step) => {
        expect(() => read(Buffer.from(bytes), step)).not.toThrow();
      })
    );
  });

  it('are none when they are compressed: what was agreed on is not known here', () => {
    const options = { fin: true, rsv1: true, opcode: 2, mask: true, readOnly: false };
    const sent: Sent = {
      ...{ type: 'execute_request', msgId: 'm', cellId: 'c' },
      ...{ codeBytes: 0, isText: false, pieces: 1 }
    };
    expect(read(Buffer.concat(Sender.frame(payload(sent), options)), 100)).toEqual([]);
  });
});
