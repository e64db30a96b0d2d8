import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { jupyterDataFolders, JupyterKernelSpecs } from './jupyter-kernelspecs.js';

let folder: string;

beforeEach(() => (folder = mkdtempSync(path.join(tmpdir(), 'specs-'))));
afterEach(() => rmSync(folder, { recursive: true }));

function write(dataFolder: string, name: string, kernel: unknown, ...files: string[]): void {
  const at = path.join(folder, dataFolder, 'kernels', name);
  mkdirSync(at, { recursive: true });
  writeFileSync(path.join(at, 'kernel.json'), typeof kernel === 'string' ? kernel : JSON.stringify(kernel));
  for (const file of files) writeFileSync(path.join(at, file), '');
}

function read(...dataFolders: string[]) {
  const log = pino({ level: 'silent' });
  return new JupyterKernelSpecs(
    dataFolders.map(name => path.join(folder, name)),
    log
  ).kernelspecs();
}

const plain = { argv: ['run', '{connection_file}'], display_name: 'Plain', language: 'x' };

describe('JupyterKernelSpecs', () => {
  it('[2] reads a kernelspec with its resources, and marks it as best effort', async () => {
    write('a', 'One', { ...plain, interrupt_mode: 'message', metadata: { m: 1 } }, 'logo-64x64.png', 'x.txt');
    const [spec, ...others] = await read('a');
    expect(others).toEqual([]);
    expect(spec).toMatchObject({
      name: 'one',
      displayName: 'Plain',
      argv: plain.argv,
      interruptMode: 'message',
      resources: { 'logo-64x64': 'logo-64x64.png' },
      bestEffort: true,
      metadata: { m: 1, tpulab: { bestEffort: true } }
    });
  });

  it('[2] uses the first of two specs with one name', async () => {
    write('a', 'same', plain);
    write('b', 'same', { ...plain, display_name: 'Later' });
    expect((await read('a', 'b')).map(spec => spec.displayName)).toEqual(['Plain']);
  });

  it('leaves out folders that are not kernelspecs, and still finds the others', async () => {
    write('a', 'broken', '{');
    write('a', 'empty', { argv: [], display_name: 'x' });
    write('a', 'bad name!', plain);
    write('a', 'good', plain);
    expect((await read('a', 'missing')).map(spec => spec.name)).toEqual(['good']);
  });

  it('gives a bare `python` the interpreter of the environment of its spec', async () => {
    mkdirSync(path.join(folder, 'env', 'bin'), { recursive: true });
    const python = path.join(folder, 'env', 'bin', 'python');
    writeFileSync(python, '');
    chmodSync(python, 0o755);
    write('env/share/jupyter', 'python3', { ...plain, argv: ['python', '-m', 'k'] });
    expect((await read('env/share/jupyter')).map(spec => spec.argv)).toEqual([[python, '-m', 'k']]);
  });
});

describe('jupyterDataFolders', () => {
  it('begins with JUPYTER_PATH, then the user, then the system', () => {
    const env = { JUPYTER_PATH: ['/one', 'relative', '/two'].join(path.delimiter) };
    expect(jupyterDataFolders({ env, platform: 'linux', home: '/people/u' })).toEqual([
      '/one',
      '/two',
      '/people/u/.local/share/jupyter',
      '/usr/local/share/jupyter',
      '/usr/share/jupyter'
    ]);
  });

  it('includes the folders of macOS', () => {
    expect(jupyterDataFolders({ env: {}, platform: 'darwin', home: '/people/u' })[0]).toBe(
      '/people/u/Library/Jupyter'
    );
  });

  it('follows JUPYTER_DATA_DIR and XDG_DATA_HOME', () => {
    const at = (env: Record<string, string>) => jupyterDataFolders({ env, platform: 'linux', home: '/h' })[0];
    expect(at({ JUPYTER_DATA_DIR: '/j', XDG_DATA_HOME: '/x' })).toBe('/j');
    expect(at({ XDG_DATA_HOME: '/x' })).toBe('/x/jupyter');
  });
});
