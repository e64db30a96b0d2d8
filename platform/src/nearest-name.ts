/** The valid name that a mistyped one most likely meant. */

/** Null when no name is near: a wrong suggestion is worse than none. */
export function nearestName(typed: string, names: readonly string[]): string | null {
  const lowerCase = typed.toLowerCase();
  let best: { name: string; distance: number } | null = null;
  for (const name of names) {
    const distance = editDistance(lowerCase, name.toLowerCase());
    if (best === null || distance < best.distance) best = { name, distance };
  }
  if (best === null) return null;
  const related =
    best.name.toLowerCase().startsWith(lowerCase) || lowerCase.startsWith(best.name.toLowerCase());
  return related || best.distance <= Math.max(1, Math.floor(best.name.length / 3)) ? best.name : null;
}

/** Number of insertions, deletions, replacements and swaps of neighbours between the two texts. */
export function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1];
      let cost = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1)
      );
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]) {
        cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      }
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, to.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
