import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeV1 } from '../../jupyter/v1-frame.js';
import { requestIn } from './requested-executions.js';

interface Sent {
  readonly type: string;
  readonly msgId: string;
  readonly cellId: string | null;
  readonly codeBytes: number;
  readonly isText: boolean;
}

const ID = fc.string({ minLength: 1, maxLength: 40 });
const SENT: fc.Arbitrary<Sent> = fc.record({
  type: fc.constantFrom('execute_request', 'execute_request', 'comm_msg'),
  msgId: ID,
  cellId: fc.option(ID),
  codeBytes: fc.constantFrom(0, 10, 70_000, 2_000_000),
  isText: fc.boolean()
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

describe('requests that pass', () => {
  it('are read in both protocols, among other messages', () => {
    fc.assert(
      fc.property(SENT, sent => {
        // A text message is parsed whole or not at all.
        const isRead = sent.type === 'execute_request' && !(sent.isText && sent.codeBytes > 1_000_000);
        const expected = isRead ? { msgId: sent.msgId, cellId: sent.cellId } : null;
        expect(requestIn(payload(sent), !sent.isText)).toEqual(expected);
      }),
      { numRuns: 60 }
    );
  });

  it('end nothing when their bytes are invalid', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (bytes, isBinary) => {
        expect(() => requestIn(Buffer.from(bytes), isBinary)).not.toThrow();
      })
    );
  });
});
