import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseExpiry } from '../cli/token-command.js';
import { isNamed } from './rights.js';
import { MAX_TOKENS, tokenFileIn, TokenStore, writeTokenFile } from './token-store.js';

let folder: string;
let store: TokenStore;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'tpl-'));
  store = new TokenStore(folder);
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('TokenStore', () => {
  it('creates tokens of 256 random bits, each different', async () => {
    const made = [await store.create('a', null), await store.create('b', null)];
    expect(new Set(made.map(({ token }) => token)).size).toBe(2);
    for (const { token } of made) expect(token).toMatch(/^tpl_[\w-]{43}$/);
  });

  it('lists them without any secret', async () => {
    const { token } = await store.create('a', new Date('2099-01-01'));
    expect(store.list()).toMatchObject([{ name: 'a', expiresAt: '2099-01-01T00:00:00.000Z' }]);
    expect(readFileSync(tokenFileIn(folder), 'utf8')).not.toContain(token);
  });

  it('lists none if the folder is a file', () => {
    const file = path.join(folder, 'file');
    writeFileSync(file, '');
    expect(new TokenStore(file).list()).toEqual([]);
  });

  it('keeps both of two tokens that are created at the same time', async () => {
    await Promise.all([store.create('a', null), new TokenStore(folder).create('b', null)]);
    expect(
      store
        .list()
        .map(({ name }) => name)
        .sort()
    ).toEqual(['a', 'b']);
  });

  it('refuses a name that is in use, and an invalid one', async () => {
    await store.create('a', null);
    await expect(store.create('a', null)).rejects.toMatchObject({ code: 'token_name_taken' });
    for (const name of ['', 'a b', '-x', '../x', 'x'.repeat(65)]) {
      await expect(store.create(name, null)).rejects.toMatchObject({ code: 'token_name_invalid' });
    }
  });

  it('refuses to revoke an unknown name, and suggests the nearest', async () => {
    await store.create('laptop', null);
    await expect(store.revoke('labtop')).rejects.toMatchObject({
      code: 'token_unknown',
      message: 'There is no token named "labtop"; the nearest name is "laptop".'
    });
    await store.revoke('laptop');
    expect(store.list()).toEqual([]);
  });

  it('has a limit, because all tokens are compared with each request', async () => {
    const record = { sha256: '0'.repeat(64), createdAt: '2026-01-01T00:00:00Z', expiresAt: null };
    await writeTokenFile(
      tokenFileIn(folder),
      Array.from({ length: MAX_TOKENS }, (_, index) => ({ ...record, name: `t${index}` }))
    );
    await expect(store.create('more', null)).rejects.toMatchObject({ code: 'tokens_too_many' });
  });
});

describe('a narrowed token', () => {
  it('gives the file a version that an earlier server refuses as a whole', async () => {
    const version = (): number =>
      (JSON.parse(readFileSync(tokenFileIn(folder), 'utf8')) as { version: number }).version;
    await store.create('all', null);
    expect(version()).toBe(1);
    await store.create('some', null, { rights: { level: 'read', notebooks: ['a.ipynb'] } });
    expect(version()).toBe(3);
  });

  it.each([
    ['work/**', ['work/a.ipynb', 'work/deep/er/b.ipynb'], ['work.ipynb', 'other/a.ipynb', '../work/a']],
    ['work/*', ['work/a.ipynb'], ['work/deep/a.ipynb', 'other/work/a.ipynb']],
    ['run-?.ipynb', ['run-1.ipynb'], ['run-12.ipynb', 'run-.ipynb', 'run-/.ipynb']],
    ['a.b+(c).ipynb', ['a.b+(c).ipynb'], ['aXb+(c).ipynb', 'a.bb(c).ipynb']]
  ])('with the pattern %s names these and no others', (pattern, named, others) => {
    expect(named.filter(name => !isNamed([pattern], name))).toEqual([]);
    expect(others.filter(name => isNamed([pattern], name))).toEqual([]);
  });
});

describe('--expires', () => {
  const now = new Date('2026-01-01T00:00:00Z');

  it.each([
    ['90m', '2026-01-01T01:30:00.000Z'],
    ['12h', '2026-01-01T12:00:00.000Z'],
    ['30d', '2026-01-31T00:00:00.000Z'],
    ['2w', '2026-01-15T00:00:00.000Z'],
    ['2030-01-31', '2030-01-31T00:00:00.000Z'],
    ['2030-01-31T12:00:00Z', '2030-01-31T12:00:00.000Z']
  ])('%s is %s', (text, at) => expect(parseExpiry(text, now).toISOString()).toBe(at));

  it.each(['', '5', '0d', '-1d', 'soon', '2020-01-01', '2030-13-01', '9999999d', '999999w'])(
    '%j is refused',
    text => {
      expect(() => parseExpiry(text, now)).toThrow(/is not a time in the future/);
    }
  );
});
