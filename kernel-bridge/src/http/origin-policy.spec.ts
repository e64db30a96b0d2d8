import { describe, expect, it } from 'vitest';
import { normalOrigin, OriginPolicy } from './origin-policy.js';

const policy = new OriginPolicy(['bridge.example'], ['http://127.0.0.1:8888', 'HTTPS://Lab.Example/']);

describe('Host', () => {
  it.each(['127.0.0.1', '127.0.0.1:8890', 'localhost:1', '[::1]:8890', 'LOCALHOST', 'bridge.example:443'])(
    '%s is served',
    host => expect(policy.allowsHost(host)).toBe(true)
  );

  it.each([
    'evil.example',
    '127.0.0.1.evil.example',
    'localhost@evil.example',
    '',
    'localhost:99999999',
    'a b'
  ])('%j is refused', host => expect(policy.allowsHost(host)).toBe(false));

  it('must be present', () => expect(policy.allowsHost(undefined)).toBe(false));
});

describe('Origin', () => {
  const host = '127.0.0.1:8890';

  it('may be absent: then the request does not come from a page of another site', () => {
    expect(policy.allowsOrigin({ host })).toBe(true);
  });

  it.each(['http://127.0.0.1:8888', 'https://lab.example', 'http://127.0.0.1:8890'])(
    '%s is allowed',
    origin => {
      expect(policy.allowsOrigin({ host, origin })).toBe(true);
    }
  );

  it.each([
    'http://127.0.0.1:8889',
    'https://127.0.0.1:8888',
    'http://127.0.0.1:88880',
    'http://localhost:8888',
    'https://lab.example.evil.example',
    'null',
    ''
  ])('%j is refused, and gets no header that lets it read the answer', origin => {
    expect(policy.allowsOrigin({ host, origin })).toBe(false);
    expect(policy.corsHeaders({ host, origin })).toEqual({ vary: 'Origin' });
  });

  it('of a preflight gets exactly the headers that Jupyter clients request, and never credentials', () => {
    const headers = policy.preflightHeaders({ host, origin: 'http://127.0.0.1:8888' });
    expect(headers['access-control-allow-origin']).toBe('http://127.0.0.1:8888');
    // A file is saved by PUT with a condition.
    expect(headers['access-control-allow-methods']).toBe('GET, HEAD, POST, PUT, PATCH, DELETE');
    expect(headers['access-control-allow-headers']).toBe(
      'authorization, content-type, if-match, if-none-match, x-xsrftoken'
    );
    expect(headers['access-control-max-age']).toBe('600');
    expect(headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it.each(['*', 'lab.example', 'http://lab.example/path', 'file:///x', 'http://a?b'])(
    '%j cannot be allowed: it is not an origin',
    origin => expect(() => normalOrigin(origin)).toThrow(/is not an origin/)
  );
});
