/** A cell whose output is numbered, and the marks for what arrived of it. */
import { readFileSync } from 'node:fs';

/** Python that runs behind this number. */
export interface Step {
  readonly number: number;
  readonly code: string;
}

/** The cell goes on behind this number when the file is there. */
export function waitingFor(gate: string, number: number): Step {
  return { number, code: `while not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.01)` };
}

export interface NumberedOptions {
  /** Numbered outputs: flushed lines, and every tenth one a display_data. */
  readonly count: number;
  readonly perSecond: number;
  /** Into this file the cell writes how many it has given out: the truth to which all else is compared. */
  readonly witness: string;
  /** Behind its first number the cell waits for this file; the rate counts from then on. */
  readonly gate?: string;
  /** What the cell does on its way. */
  readonly at?: Step | readonly Step[];
  /** Characters by which each output is longer. */
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

/** How many the cell has given out so far; 0 before its first. */
export function givenOut(witness: string): number {
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
  /** How often a number came for the first time after a greater one. */
  readonly reordered: number;
}

/** What became of the numbers from 0 to `expected` - 1. A number beyond them is a mistake of the test itself. */
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
