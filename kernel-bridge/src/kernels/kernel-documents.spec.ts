import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { documentsOfKernel, KernelDocuments } from './kernel-documents.js';

let folder: string;
let kernelDir: string;
const faults: (string | null)[] = [];
const lines: string[] = [];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'documents-'));
  kernelDir = path.join(folder, 'kernel');
  faults.length = lines.length = 0;
});

afterEach(() => rm(folder, { recursive: true }));

function documents(): KernelDocuments {
  return new KernelDocuments(kernelDir, pino({ base: null }, { write: line => lines.push(line) }), error =>
    faults.push(error === null ? null : ((error as NodeJS.ErrnoException).code ?? ''))
  );
}

describe('the documents of a kernel', () => {
  it('are stored in the order in which they ran on it, without duplicates', async () => {
    await mkdir(kernelDir);
    await using noted = documents();
    await Promise.all(['a.ipynb', 'b.ipynb', 'a.ipynb', ''].map(each => noted.note(each)));
    expect(await documentsOfKernel(kernelDir)).toEqual(['b.ipynb', 'a.ipynb']);
    await using later = documents();
    await later.note('c.ipynb');
    expect(await documentsOfKernel(kernelDir)).toEqual(['b.ipynb', 'a.ipynb', 'c.ipynb']);
  });

  it('that the disk refuses are written when it works again, and the kernel reports both', async () => {
    // The disk refuses writes because the folder does not exist.
    await using noted = documents();
    await expect(noted.note('a.ipynb')).rejects.toMatchObject({ code: 'ENOENT' });
    expect(faults).toEqual(['ENOENT']);
    await mkdir(kernelDir);
    await vi.waitFor(() => expect(faults).toEqual(['ENOENT', null]), { timeout: 50_000 });
    expect(await documentsOfKernel(kernelDir)).toEqual(['a.ipynb']);
  });

  it('torn by a power loss are archived, with a line in the log', async () => {
    await mkdir(kernelDir);
    const file = path.join(kernelDir, 'documents.json');
    await writeFile(file, '{"version":1,"paths":["a.ip');
    expect(await documentsOfKernel(kernelDir)).toEqual([]);
    await using noted = documents();
    await noted.note('b.ipynb');
    expect(lines).toEqual([expect.stringContaining('documents.json')]);
    expect(await readFile(`${file}.damaged`, 'utf8')).toContain('a.ip');
    expect(await documentsOfKernel(kernelDir)).toEqual(['b.ipynb']);
  });
});
