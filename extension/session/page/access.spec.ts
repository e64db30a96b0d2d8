// @vitest-environment jsdom
import { ServerConnection } from '@jupyterlab/services';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { enter, isStorable } from './access.js';

const TOKEN = 'the-token-of-the-server';
const KEY = `page-${'a'.repeat(64)}`;

/** A server whose key works while the browser stores its cookie. */
function server(keepsCookies: boolean): (request: Request) => Promise<Response> {
  return async request => {
    const given = request.headers.get('authorization');
    if (request.url.endsWith('/page-key')) return Response.json({ key: KEY });
    const isIn = given === `token ${TOKEN}` || (given === `token ${KEY}` && keepsCookies);
    return isIn ? Response.json({ access: 'all' }) : new Response(null, { status: 403 });
  };
}

beforeEach(() => {
  vi.stubGlobal('tpulabRetry', <T>(work: () => Promise<T>) => work());
});

afterEach(() => vi.restoreAllMocks());

const answers = (with_: (request: Request) => Promise<Response>): void => {
  vi.spyOn(ServerConnection, 'makeRequest').mockImplementation((url, init, { token }) =>
    with_(new Request(url, { method: init.method ?? 'GET', headers: { authorization: `token ${token}` } }))
  );
};

describe('the session page', () => {
  it('exchanges its token for a key, and may store the key', async () => {
    answers(server(true));
    expect((await enter('http://gateway.invalid/', TOKEN)).key).toBe(KEY);
    expect(isStorable(KEY)).toBe(true);
  });

  it('keeps its token in memory where the browser keeps no cookies, and never stores it', async () => {
    answers(server(false));
    const { key } = await enter('http://gateway.invalid/', TOKEN);
    expect(key).toBe(TOKEN);
    expect(isStorable(key)).toBe(false);
  });

  it('refuses a token that the server does not know', async () => {
    answers(server(true));
    await expect(enter('http://gateway.invalid/', 'another')).rejects.toMatchObject({ kind: 'refused' });
  });
});
