import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { BRIDGE_ERRORS, BridgeError, bridgeError, type BridgeErrorCode } from '@tpulab/platform/errors.js';
import { ERROR_TABLE } from './testing/error-table.js';

const ROW = /^\| `([a-z_]+)` +\| (?:([^|]+) \| )?([^|]+) \|$/;
/** Where the codes below a heading of docs/errors.md appear; in docs/error-codes.md, each row states that itself. */
const SEEN: Readonly<Record<string, string>> = { Commands: 'command', Machines: 'remote' };

function documented(): Map<string, { seen: string; meaning: string }> {
  const found = new Map<string, { seen: string; meaning: string }>();
  for (const page of ['errors.md', 'error-codes.md']) {
    const text = readFileSync(new URL(`../../../docs/${page}`, import.meta.url), 'utf8');
    let heading = '';
    for (const line of text.split('\n')) {
      heading = /^## (.+)$/.exec(line)?.[1] ?? heading;
      const [, code, seen = SEEN[heading] ?? '', meaning = ''] = ROW.exec(line) ?? [];
      if (code !== undefined) found.set(code, { seen: seen.trim(), meaning: meaning.trim() });
    }
  }
  return found;
}

describe('docs/errors.md and docs/error-codes.md', () => {
  it('list the codes of the bridge, each with the place where it appears', () => {
    const listed = [...documented()].map(([code, { seen }]) => [code, seen]);
    const sorted = (rows: Iterable<readonly string[]>): string[] => [...rows].map(String).sort();
    expect(sorted(listed)).toEqual(sorted(ERROR_TABLE));
  });

  it('give a remedy for each code', () => {
    for (const [code, { meaning }] of documented()) expect(meaning, code).toMatch(/^[A-Z].{15,}\.$/);
  });
});

describe('errors that are sent over HTTP', () => {
  it('are created with the code, its status, a message and the cause', () => {
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
