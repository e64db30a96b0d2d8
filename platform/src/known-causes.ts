/** Causes of failures as data, and the code that finds one in a program's output before it ended. */
import { plainText } from './plain-text.js';

const SHOWN_CHARACTERS = 300;

/** In a table, the first match counts. */
export interface Cause<Code extends string, Facts = void> {
  readonly pattern: RegExp;
  /** Absent: always. */
  readonly applies?: (facts: Facts) => boolean;
  readonly code: Code;
  readonly message: Part<Facts>;
  /** A command that solves the problem when a user runs it. */
  readonly command?: Part<Facts>;
  /** Whether a retry without a user's action may help; absent: derived from the code. */
  readonly recovery?: 'person' | 'again';
}

type Part<Facts> = string | ((found: Found<Facts>) => string);

export interface Found<Facts> {
  readonly facts: Facts;
  /** The last line with the pattern, as plain text. */
  readonly line: string;
  readonly lines: readonly string[];
}

interface MatchedCause<Code extends string> {
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
