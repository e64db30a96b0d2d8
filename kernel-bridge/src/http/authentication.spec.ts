import { describe, expect, it } from 'vitest';
import { Authenticator, pathOf } from './authentication.js';

const authenticator = new Authenticator('s3cret-token');

function accepts(authorization: string | undefined, url = '/api', queryAllowed = false): boolean {
  return authenticator.identify({ headers: { authorization }, url }, queryAllowed) !== null;
}

describe('Authenticator', () => {
  it('accepts the token in either form of the header, whatever the case of its scheme', () => {
    expect(accepts('token s3cret-token')).toBe(true);
    expect(accepts('Bearer s3cret-token')).toBe(true);
    expect(accepts('TOKEN  s3cret-token ')).toBe(true);
  });

  it.each([
    'token wrong',
    'token s3cret-token2',
    'token',
    'Basic s3cret-token',
    's3cret-token',
    'token a b',
    ''
  ])('refuses the header %j', header => expect(accepts(header)).toBe(false));

  it('refuses a request without any token', () => expect(accepts(undefined)).toBe(false));

  it('takes a token of the query only where that is allowed', () => {
    expect(accepts(undefined, '/x?token=s3cret-token', true)).toBe(true);
    expect(accepts(undefined, '/x?a=b&token=s3cret-token', true)).toBe(true);
    expect(accepts(undefined, '/x?token=s3cret-token', false)).toBe(false);
  });

  it('does not let a good token of the query make up for a wrong one of the header', () => {
    expect(accepts('token wrong', '/x?token=s3cret-token', true)).toBe(false);
  });

  it('refuses two tokens in one query', () => {
    expect(accepts(undefined, '/x?token=s3cret-token&token=s3cret-token', true)).toBe(false);
  });

  it('cannot be made with an empty token, which every request would carry', () => {
    expect(() => new Authenticator('')).toThrow(TypeError);
  });
});

it('pathOf leaves out the query, which may hold a token', () => {
  expect(pathOf('/api/kernels/x/channels?token=abc')).toBe('/api/kernels/x/channels');
});
