import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createSigner } from './zmq-signing.js';

const parts = fc.array(
  fc.uint8Array({ maxLength: 100 }).map(bytes => Buffer.from(bytes)),
  { minLength: 4, maxLength: 7 }
);
const signer = createSigner('hmac-sha256', 'a key');

describe('[14] ZMQ frames', () => {
  it('verify to the signed parts, after any identities', () => {
    fc.assert(
      fc.property(parts, fc.array(fc.string({ maxLength: 8 }), { maxLength: 3 }), (original, identities) => {
        const frames = [...identities.map(text => Buffer.from(text)), ...signer.sign(original)];
        expect(signer.verify('iopub', frames)).toEqual({ channel: 'iopub', parts: original });
      })
    );
  });

  it('are signed over the four JSON parts with HMAC-SHA256, in hex', () => {
    const signed = signer.sign(
      ['{"msg_id":"1"}', '{}', '{}', '{"code":""}', 'buffer'].map(text => Buffer.from(text))
    );
    // python3 -c "import hmac; print(hmac.new(b'a key', b'{\"msg_id\":\"1\"}{}{}{\"code\":\"\"}', 'sha256').hexdigest())"
    expect(signed.map(String)).toEqual([
      '<IDS|MSG>',
      'df7c6b0ac3899d17588c279475cf20199c613c63b201f8c1c00d3338c883e806',
      '{"msg_id":"1"}',
      '{}',
      '{}',
      '{"code":""}',
      'buffer'
    ]);
  });

  it('are refused when any bit of a JSON part or of the signature is changed', () => {
    fc.assert(
      fc.property(parts, fc.nat(), fc.integer({ min: 0, max: 7 }), (original, place, bit) => {
        const frames = signer.sign(original.map(part => Buffer.from(part)));
        const checked = Buffer.concat(frames.slice(1, 6));
        let at = place % checked.length;
        for (const frame of frames.slice(1, 6)) {
          if (at < frame.length) {
            frame[at]! ^= 1 << bit;
            break;
          }
          at -= frame.length;
        }
        expect(() => signer.verify('shell', frames)).toThrow(
          expect.objectContaining({ code: 'signature_invalid' })
        );
      })
    );
  });

  it('are refused when signed with another key, or not at all', () => {
    const original = Array.from({ length: 4 }, () => Buffer.from('{}'));
    for (const other of [createSigner('hmac-sha256', 'another'), createSigner('hmac-sha256', '')]) {
      expect(() => signer.verify('shell', other.sign(original))).toThrow(
        expect.objectContaining({ code: 'signature_invalid' })
      );
    }
  });

  it('need no signature when the key is empty', () => {
    const unsigned = createSigner('hmac-sha256', '');
    const original = Array.from({ length: 4 }, () => Buffer.from('{}'));
    expect(unsigned.sign(original)[1]).toHaveLength(0);
    expect(unsigned.verify('shell', signer.sign(original)).parts).toEqual(original);
  });

  it.each([
    ['no delimiter', ['a', 'b', 'c']],
    [
      'a delimiter after too many identities',
      [...Array<string>(17).fill('id'), '<IDS|MSG>', '', '{}', '{}', '{}', '{}']
    ],
    ['a part too few', ['<IDS|MSG>', '', '{}', '{}', '{}']]
  ])('are refused as malformed: %s', (_, frames) => {
    const unsigned = createSigner('hmac-sha256', '');
    expect(() =>
      unsigned.verify(
        'shell',
        frames.map(text => Buffer.from(text))
      )
    ).toThrow(expect.objectContaining({ code: 'frame_malformed' }));
  });

  it.each(['hmac-sha3', 'md5', ''])('cannot be signed by the scheme "%s"', scheme => {
    expect(() => createSigner(scheme, 'key')).toThrow(
      expect.objectContaining({ code: 'scheme_unsupported' })
    );
  });
});
