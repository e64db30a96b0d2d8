/** For specs: a notebook in a file. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/** Writes `NAME.ipynb` with code cells `cell-0`, `cell-1`, …; resolves with its path. */
export async function writeNotebook(
  folder: string,
  name: string,
  sources: readonly string[],
  metadata: object = {}
): Promise<string> {
  const cells = sources.map((source, at) => ({
    cell_type: 'code',
    id: `cell-${at}`,
    metadata: {},
    source,
    outputs: [],
    execution_count: null
  }));
  const file = path.join(folder, `${name}.ipynb`);
  await writeFile(file, JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }));
  return file;
}
