/** Two versions side by side: equal parts in one row, a changed part beside its replacement. */

export interface Row {
  /** Index in each version; null: no counterpart here. */
  readonly mine: number | null;
  readonly theirs: number | null;
  readonly isSame: boolean;
}

/** A longer comparison would block the page: then everything between the first and the last difference counts as changed. */
const MAX_PAIRS = 1_000_000;

/** Rows in order, with as many equal rows as possible. */
export function sideBySide(mine: readonly string[], theirs: readonly string[]): Row[] {
  let start = 0;
  while (start < mine.length && start < theirs.length && mine[start] === theirs[start]) start += 1;
  let [mineEnd, theirsEnd] = [mine.length, theirs.length];
  while (mineEnd > start && theirsEnd > start && mine[mineEnd - 1] === theirs[theirsEnd - 1]) {
    mineEnd -= 1;
    theirsEnd -= 1;
  }
  const same = [
    ...Array.from({ length: start }, (_, at) => [at, at] as const),
    ...common(mine.slice(start, mineEnd), theirs.slice(start, theirsEnd)).map(
      ([a, b]) => [a + start, b + start] as const
    ),
    ...Array.from({ length: mine.length - mineEnd }, (_, at) => [mineEnd + at, theirsEnd + at] as const)
  ];
  const rows: Row[] = [];
  let [a, b] = [0, 0];
  for (const [nextA, nextB] of [...same, [mine.length, theirs.length] as const]) {
    for (; a < nextA || b < nextB;) {
      rows.push({ mine: a < nextA ? a++ : null, theirs: b < nextB ? b++ : null, isSame: false });
    }
    if (a < mine.length && b < theirs.length) rows.push({ mine: a++, theirs: b++, isSame: true });
  }
  return rows;
}

/** The longest common subsequence, as pairs of indices. */
function common(mine: readonly string[], theirs: readonly string[]): (readonly [number, number])[] {
  const width = theirs.length + 1;
  if (mine.length * theirs.length > MAX_PAIRS) return [];
  const longest = new Uint32Array((mine.length + 1) * width);
  const at = (a: number, b: number): number => longest[a * width + b] ?? 0;
  for (let a = mine.length - 1; a >= 0; a -= 1) {
    for (let b = theirs.length - 1; b >= 0; b -= 1) {
      longest[a * width + b] =
        mine[a] === theirs[b] ? at(a + 1, b + 1) + 1 : Math.max(at(a + 1, b), at(a, b + 1));
    }
  }
  const pairs: (readonly [number, number])[] = [];
  for (let a = 0, b = 0; a < mine.length && b < theirs.length;) {
    if (mine[a] === theirs[b]) pairs.push([a++, b++]);
    else if (at(a + 1, b) >= at(a, b + 1)) a += 1;
    else b += 1;
  }
  return pairs;
}
