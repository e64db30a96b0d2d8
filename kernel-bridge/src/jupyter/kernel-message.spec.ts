import { describe, expect, it } from 'vitest';
import { parseHeader, parseParentHeader } from './kernel-message.js';

describe('headers', () => {
  it('are read with the fields that the bridge needs', () => {
    const header = { msg_id: 'm', msg_type: 'status', session: 's', subshell_id: null, more: [1] };
    expect(parseHeader(Buffer.from(JSON.stringify(header)))).toEqual(header);
  });

  it.each([
    '',
    'null',
    '[]',
    '"text"',
    '{}',
    '{"msg_id":"m","msg_type":"t"}',
    '{"msg_id":1,"msg_type":"t","session":"s"}'
  ])('are refused: %s', text => {
    expect(() => parseHeader(Buffer.from(text))).toThrow(expect.objectContaining({ code: 'header_invalid' }));
  });

  it('of a parent may be empty', () => {
    expect(parseParentHeader(Buffer.from('{}'))).toBeNull();
    expect(parseParentHeader(Buffer.alloc(0))).toBeNull();
    expect(parseParentHeader(Buffer.from('{ "a": 1 }'))).toBeNull();
  });
});
