import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NOTEBOOKS } from './paths.js';

interface NotebookFile {
  readonly cells: { metadata: { tags?: string[] }; source: string | string[]; outputs?: unknown[] }[];
}

/** A notebook of ours without its saved outputs, so that a test sees only outputs of its own run. */
export async function readNotebookWithoutOutputs(file: string): Promise<NotebookFile> {
  const notebook = JSON.parse(await readFile(join(NOTEBOOKS, file), 'utf8')) as NotebookFile;
  for (const cell of notebook.cells) if (cell.outputs) cell.outputs = [];
  return notebook;
}

/** Copies our notebooks into a folder, without their saved outputs. */
export async function copyNotebooks(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const files = (await readdir(NOTEBOOKS)).filter(name => name.endsWith('.ipynb'));
  await Promise.all(
    files.map(async file =>
      writeFile(join(folder, file), JSON.stringify(await readNotebookWithoutOutputs(file), null, 1))
    )
  );
}
