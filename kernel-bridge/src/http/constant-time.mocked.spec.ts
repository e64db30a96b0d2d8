import type * as Crypto from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeEach, expect, it, vi } from 'vitest';
import { ClientTokens } from './client-tokens.js';
import { TokenStore } from './token-store.js';
import { Authenticator } from './authentication.js';

const compared = vi.hoisted(() => [] as [number, number][]);

vi.mock('node:crypto', async original => {
  const crypto = await original<typeof Crypto>();
  const timingSafeEqual = (a: Buffer, b: Buffer): boolean => {
    compared.push([a.length, b.length]);
    return crypto.timingSafeEqual(a, b);
  };
  return { ...crypto, timingSafeEqual };
});

const folder = mkdtempSync(path.join(tmpdir(), 'tpl-'));
const tokens: string[] = [];

afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeEach(() => {
  compared.length = 0;
});

it('every token is compared, by digests of equal length, whichever matches, if any', async () => {
  const store = new TokenStore(folder);
  for (const name of ['a', 'b', 'c']) tokens.push((await store.create(name, null)).token);
  using clients = new ClientTokens(folder, pino({ level: 'silent' }));
  const authenticator = new Authenticator('the-gateways-own-token', clients);
  const seen = ['', 'x', 'wrong'.repeat(100), 'the-gateways-own-token', ...tokens].map(token => {
    compared.length = 0;
    authenticator.identify({ headers: {}, url: `/?token=${token}` }, true);
    return JSON.stringify(compared);
  });
  expect(new Set(seen)).toEqual(new Set([JSON.stringify(Array.from({ length: 4 }, () => [32, 32]))]));
});
