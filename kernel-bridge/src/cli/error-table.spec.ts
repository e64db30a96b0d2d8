import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import * as files from '../files/file-errors.js';
import * as errors from '../http/errors.js';
import * as sharing from '../sharing/share-routes.js';
import * as docs from '../session-page/docs-routes.js';
import * as page from '../session-page/session-page-routes.js';
import { ERROR_TABLE } from './testing/error-table.js';

const ROW = /^\| `([a-z_]+)` +\| ([^|]+) \| ([^|]+) \|$/;

function documented(): Map<string, { seen: string; meaning: string }> {
  const text = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');
  const found = new Map<string, { seen: string; meaning: string }>();
  for (const line of text.split('\n')) {
    const [, code, seen, meaning] = ROW.exec(line) ?? [];
    if (code !== undefined) found.set(code, { seen: (seen ?? '').trim(), meaning: (meaning ?? '').trim() });
  }
  return found;
}

describe('docs/errors.md', () => {
  it('lists the codes of the bridge, each with where it is seen', () => {
    const listed = [...documented()].map(([code, { seen }]) => [code, seen]);
    expect(listed).toEqual([...ERROR_TABLE]);
  });

  it('says of each code what to make of it', () => {
    for (const [code, { meaning }] of documented()) expect(meaning, code).toMatch(/^[A-Z].{15,}\.$/);
  });
});

describe('error classes', () => {
  it('give each code that is sent over HTTP exactly one class', () => {
    const classes = Object.values({ ...errors, ...files, ...page, ...docs, ...sharing }).filter(
      value => typeof value === 'function' && value.prototype instanceof errors.BridgeError
    );
    const codes = classes.map(
      type => new (type as unknown as new (...args: unknown[]) => errors.BridgeError)('x', ['y']).code
    );
    expect([...codes].sort()).toEqual(Object.keys(errors.BRIDGE_ERRORS).sort());
  });
});
