import { describe, expect, it } from 'vitest';
import { Authenticator, pathOf } from './authentication.js';
import { cookieName, PageCodes } from './page-key.js';

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

  it('accepts a token in the query only where that is allowed', () => {
    expect(accepts(undefined, '/x?token=s3cret-token', true)).toBe(true);
    expect(accepts(undefined, '/x?a=b&token=s3cret-token', true)).toBe(true);
    expect(accepts(undefined, '/x?token=s3cret-token', false)).toBe(false);
  });

  it('does not let a valid token in the query make up for a wrong one in the header', () => {
    expect(accepts('token wrong', '/x?token=s3cret-token', true)).toBe(false);
  });

  it('refuses two tokens in one query', () => {
    expect(accepts(undefined, '/x?token=s3cret-token&token=s3cret-token', true)).toBe(false);
  });

  it('cannot be created with an empty token, which would match every request', () => {
    expect(() => new Authenticator('')).toThrow(TypeError);
  });
});

it('pathOf omits the query, which may contain a token', () => {
  expect(pathOf('/api/kernels/x/channels?token=abc')).toBe('/api/kernels/x/channels');
});

describe('the key of a page', () => {
  const NONCE = 'a'.repeat(32);
  const key = authenticator.keyFor({ client: null }, NONCE);
  const cookie = `${cookieName(authenticator.cookieOf)}=${NONCE}`;
  const holds = (given: string, sent: string | undefined): boolean =>
    authenticator.identify(
      {
        headers: { authorization: `token ${given}`, ...(sent !== undefined && { cookie: sent }) },
        url: '/api'
      },
      false
    ) !== null;

  it('accepts a request with the cookie that belongs to the key, among others', () => {
    expect(holds(key, cookie)).toBe(true);
    expect(holds(key, `other=1; ${cookie}; more=2`)).toBe(true);
  });

  it('is useless without the cookie, and the cookie is useless without the key', () => {
    expect(holds(key, undefined)).toBe(false);
    expect(holds(key, cookie.replace(/a/g, 'b'))).toBe(false);
    expect(holds(key, `${cookie}; ${cookie}`)).toBe(false);
    expect(holds(`page-${'0'.repeat(64)}`, cookie)).toBe(false);
    expect(authenticator.identify({ headers: { cookie }, url: '/api' }, true)).toBeNull();
  });

  it('ends with its token', () => {
    const replaced = new Authenticator('another-token');
    const sent = `${cookieName(replaced.cookieOf)}=${NONCE}`;
    expect(
      replaced.identify({ headers: { authorization: `token ${key}`, cookie: sent }, url: '/' }, false)
    ).toBeNull();
  });
});

describe('the code of a link', () => {
  it('is spent at its first use, and lives ten minutes at most', () => {
    let now = 0;
    const codes = new PageCodes<string>(() => now);
    const [one, late] = [codes.make('me'), codes.make('me')];
    expect(codes.find(one)).toBe('me');
    expect([codes.take(one), codes.take(one), codes.find(one)]).toEqual(['me', null, null]);
    now = 10 * 60_000;
    expect(codes.take(late)).toBeNull();
  });

  it('is dropped in favour of newer codes when nobody opens the link', () => {
    const codes = new PageCodes<number>();
    const all = Array.from({ length: 100 }, (_, at) => codes.make(at));
    expect(all.filter(code => codes.find(code) !== null)).toEqual(all.slice(-64));
  });

  it('gives access to the page-key route only', () => {
    const code = authenticator.codes.make({ client: null });
    expect(accepts(`token ${code}`, '/api')).toBe(false);
    expect(accepts(`token ${code}`, '/bridge/v1/page-key')).toBe(true);
    expect(accepts(undefined, `/bridge/v1/page-key?token=${code}`)).toBe(false);
  });
});
