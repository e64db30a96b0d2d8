// @ts-check
/** Results of a benchmark: a table for people, JSON for everything else. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const RESULTS = fileURLToPath(new URL('../results/', import.meta.url));

/** @typedef {string | number | null | undefined} Cell */

/**
 * @param {string} title
 * @param {readonly string[]} columns
 * @param {readonly (readonly Cell[])[]} rows first cell: the name
 */
export function printTable(title, columns, rows) {
  const cells = [[title, ...columns], ...rows].map(row => row.map(shown));
  const widths = cells[0]?.map((_, i) => Math.max(...cells.map(row => row[i]?.length ?? 0))) ?? [];
  for (const row of cells) {
    const line = row.map((cell, i) =>
      i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)
    );
    console.log(line.join('   ').trimEnd());
  }
  console.log();
}

/** @param {Cell} cell */
export function shown(cell) {
  if (cell === null || cell === undefined || Number.isNaN(cell)) return '–';
  if (typeof cell === 'string') return cell;
  if (Number.isInteger(cell)) return cell.toLocaleString('en');
  return cell >= 1000 ? Math.round(cell).toLocaleString('en') : cell.toFixed(cell >= 100 ? 0 : 2);
}

/**
 * @param {string} benchmark
 * @param {object} machine
 * @param {object} results
 * @param {object} options the options of the run
 */
export async function saveResults(benchmark, machine, results, options) {
  const text = JSON.stringify({ benchmark, machine, options, results }, null, 2);
  await writeFile(join(RESULTS, `${benchmark}.json`), `${text}\n`);
  console.log(`Written to bench/results/${benchmark}.json.\n`);
}
