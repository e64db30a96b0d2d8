/** A sentence with pieces of code in it, split into parts that a view can draw. */

export interface TextPiece {
  readonly text: string;
  readonly code: boolean;
}

/** Characters of the private use area replace the values while the sentence is translated. */
const FIRST_MARK = 0xe000;
const MARKS = /([\ue000-\ue00f])/;

/**
 * @param translate returns the translated sentence with the marks in it, in the order of its language
 * @param values the code shown in place of each mark
 */
export function withCode(
  translate: (...marks: string[]) => string,
  ...values: readonly string[]
): TextPiece[] {
  const marks = values.map((_, at) => String.fromCharCode(FIRST_MARK + at));
  return translate(...marks)
    .split(MARKS)
    .filter(part => part !== '')
    .map(part => {
      const value = MARKS.test(part) ? values[part.charCodeAt(0) - FIRST_MARK] : undefined;
      return value === undefined ? { text: part, code: false } : { text: value, code: true };
    });
}

/** Treats text between two backticks as code. An unpaired backtick is an ordinary character. */
export function fromBackticks(text: string): TextPiece[] {
  return text
    .split(/(`[^`]+`)/)
    .filter(part => part !== '')
    .map(part =>
      part.length > 2 && part.startsWith('`') && part.endsWith('`')
        ? { text: part.slice(1, -1), code: true }
        : { text: part, code: false }
    );
}

export function plain(pieces: readonly TextPiece[]): string {
  return pieces.map(piece => piece.text).join('');
}

/** For a value that a translated sentence shows as code (`fromBackticks`). */
export function withBackticks(code: string): string {
  return `\`${code}\``;
}
