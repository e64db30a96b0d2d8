/** A cell whose output is numbered, and the score of the output that arrived. */
import { readFileSync } from 'node:fs';

/** Python code that runs after this number. */
export interface Step {
  readonly number: number;
  readonly code: string;
}

/** Makes the cell wait after this number until the file exists. */
export function waitingFor(gate: string, number: number): Step {
  return { number, code: `while not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.01)` };
}

export interface NumberedOptions {
  /** Numbered outputs: flushed lines, and every tenth one a display_data. */
  readonly count: number;
  readonly perSecond: number;
  /** The cell writes the count of its outputs to this file: the reference for all comparisons. */
  readonly witness: string;
  /** The cell waits for this file after its first number; the rate counts from then on. */
  readonly gate?: string;
  /** Steps that run within the cell. */
  readonly at?: Step | readonly Step[];
  /** Characters of padding for each output. */
  readonly padding?: number;
}

/** Prints `#0`, `#1`, … in one `write` and one `flush` each, at a steady rate that a busy machine only lowers. */
export function numberedCell({ count, perSecond, witness, gate, at, padding = 0 }: NumberedOptions): string {
  const steps = [at ?? []]
    .flat()
    .map(({ number, code }) => `        if number == ${number}:\n            ${code}\n`);
  return `
def _numbered():
    import os, sys, time
    from IPython.display import display
    witness = os.open(${JSON.stringify(witness)}, os.O_RDWR | os.O_CREAT, 0o600)
    padding = "." * ${padding}
    start = time.perf_counter()
    for number in range(${count}):
        if number % 10 == 3:
            display({"text/plain": f"#{number};{padding}"}, raw=True)
        else:
            sys.stdout.write(f"#{number};{padding}\\n")
            sys.stdout.flush()
        os.pwrite(witness, b"%12d" % (number + 1), 0)
        if number == 0 and ${gate === undefined ? 'False' : 'True'}:
            while not os.path.exists(${JSON.stringify(gate ?? '')}):
                time.sleep(0.005)
            start = time.perf_counter()
${steps.join('')}        early = start + (number + 1) / ${perSecond} - time.perf_counter()
        if early > 0:
            time.sleep(early)
    os.close(witness)
_numbered()
`;
}

/** How many outputs the cell has printed so far; 0 before the first one. */
export function printedCount(witness: string): number {
  try {
    return Number(readFileSync(witness, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}

/** The numbers in a piece of output. */
export function numbersIn(text: string): number[] {
  return [...text.matchAll(/#(\d+);/g)].map(match => Number(match[1]));
}

export interface Marks {
  readonly expected: number;
  readonly lost: number;
  readonly doubled: number;
  /** How often a number first arrived after a greater one. */
  readonly reordered: number;
}

/** The score of the numbers from 0 to `expected` - 1. A greater number is a mistake of the test itself. */
export function marksOf(expected: number, seen: readonly number[]): Marks {
  const first = new Set<number>();
  let reordered = 0;
  let greatest = -1;
  for (const number of seen) {
    if (number >= expected) throw new Error(`${number} was seen, but only ${expected} were given out.`);
    if (first.has(number)) continue;
    first.add(number);
    if (number < greatest) reordered++;
    greatest = Math.max(greatest, number);
  }
  return { expected, lost: expected - first.size, doubled: seen.length - first.size, reordered };
}
