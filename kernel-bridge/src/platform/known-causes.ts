/** Causes of failures as data, and the engine that finds one in what a program wrote before it ended. */
import { plainText } from './plain-text.js';

const SHOWN_CHARACTERS = 300;

/** Of a table, the first that is found counts. */
export interface Cause<Code extends string, Facts = void> {
  readonly pattern: RegExp;
  /** Absent: always. */
  readonly applies?: (facts: Facts) => boolean;
  readonly code: Code;
  readonly message: Part<Facts>;
  /** What settles it when a person runs it. */
  readonly command?: Part<Facts>;
  /** Whether trying again without a person may help; absent: what the code implies. */
  readonly recovery?: 'person' | 'again';
}

type Part<Facts> = string | ((found: Found<Facts>) => string);

export interface Found<Facts> {
  readonly facts: Facts;
  /** The last line with the pattern, as plain text. */
  readonly line: string;
  readonly lines: readonly string[];
}

export interface MatchedCause<Code extends string> {
  readonly code: Code;
  readonly message: string;
  readonly command: string | undefined;
  readonly recovery: 'person' | 'again' | undefined;
}

/** null: the table has no cause for these lines. */
export function matchCause<Code extends string, Facts>(
  table: readonly Cause<Code, Facts>[],
  lines: readonly string[],
  facts: Facts
): MatchedCause<Code> | null {
  const text = lines.join('\n');
  const cause = table.find(({ pattern, applies }) => pattern.test(text) && applies?.(facts) !== false);
  if (cause === undefined) return null;
  const { code, message, command, recovery } = cause;
  const last = lines.findLast(line => cause.pattern.test(line))?.trim() ?? '';
  const found = { facts, line: plainText(last, SHOWN_CHARACTERS).replace(/[.:]+$/, ''), lines };
  const written = (part: Part<Facts>): string => (typeof part === 'string' ? part : part(found));
  return { code, message: written(message), command: command && written(command), recovery };
}
