import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { BRIDGE_ERRORS, BridgeError, bridgeError, type BridgeErrorCode } from '../platform/bridge-error.js';
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

describe('errors that are sent over HTTP', () => {
  it('are made with the code, its status, a message and the cause', () => {
    const make = bridgeError as (code: BridgeErrorCode, ...about: unknown[]) => BridgeError;
    const cause = new Error('the system said so');
    for (const [code, [status, text]] of Object.entries(BRIDGE_ERRORS)) {
      const about = Array.from({ length: text.length }, () => ['x']);
      const error = make(code as BridgeErrorCode, ...about, cause);
      expect(error).toBeInstanceOf(BridgeError);
      expect(error).toMatchObject({ code, status, about: [...about, cause] });
      expect(error.cause, code).toBe(cause);
      expect(error.message, code).not.toBe('');
    }
  });
});
