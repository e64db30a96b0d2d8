import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import type { EnvironmentCatalog } from '../../../machines/src/environments/index.js';
import { EnvironmentSpecs } from './environment-specs.js';

const PYTHON = fileURLToPath(new URL('../../../.tpulab/lab/bin/python', import.meta.url));

it('a kernel starts in a folder with files named like modules', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'modules-'));
  try {
    for (const name of ['types', 'runpy', 'random', 'platform'])
      await writeFile(path.join(folder, `${name}.py`), 'raise SystemExit("the file beside the notebook")');
    const argv = [PYTHON, '-Xfrozen_modules=off', '-m', 'platform'];
    const catalog = {
      kernelspecs: async () => new Map([['tpulab-x', { spec: { argv }, resourceDir: folder }]])
    };
    const [spec] = await new EnvironmentSpecs(catalog as unknown as EnvironmentCatalog).kernelspecs();
    const [program = '', ...args] = spec?.argv ?? [];
    const { stdout } = await promisify(execFile)(program, args, { cwd: folder });
    expect(stdout).toMatch(/^(Linux|macOS|Darwin)/);
  } finally {
    await rm(folder, { recursive: true });
  }
});
