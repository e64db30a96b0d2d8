/**
 * The keeper's program, built from the sources as they are now, for tests that start it as a process. Nothing is checked
 * and nothing else is built, so this takes a moment and cannot be out of date.
 */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ModuleKind, ScriptTarget, transpileModule } from 'typescript';

const SOURCES = fileURLToPath(new URL('../../', import.meta.url));
const PARTS = ['journal', 'wire', 'keeper'];
/** Below a `node_modules`, so that the build finds its packages and nobody commits it. */
const CACHE = fileURLToPath(new URL('../../../../node_modules/.cache/tpulab-keeper/', import.meta.url));

/** The entry for `startKeeper`. Builds of the same sources share a folder. */
export async function builtKeeper(): Promise<URL> {
  const hash = createHash('sha256');
  const files: { name: string; code: string }[] = [];
  for (const part of PARTS) {
    for (const file of (await readdir(join(SOURCES, part))).sort()) {
      if (file.endsWith('.ts') && !file.endsWith('.spec.ts')) {
        const code = await readFile(join(SOURCES, part, file), 'utf8');
        hash.update(code);
        files.push({ name: join(part, file.replace(/\.ts$/, '.js')), code });
      }
    }
  }
  const target = join(CACHE, hash.digest('hex').slice(0, 16));
  const entry = join(target, 'keeper', 'main.js');
  if (!(await isThere(entry))) {
    await mkdir(CACHE, { recursive: true });
    const draft = await mkdtemp(join(CACHE, 'draft-'));
    await writeFile(join(draft, 'package.json'), '{"type":"module"}');
    for (const { name, code } of files) {
      await mkdir(dirname(join(draft, name)), { recursive: true });
      const compilerOptions = {
        module: ModuleKind.ESNext,
        target: ScriptTarget.ES2022,
        verbatimModuleSyntax: true
      };
      await writeFile(join(draft, name), transpileModule(code, { compilerOptions }).outputText);
    }
    // Another test file may have been quicker; then its build stays.
    await rename(draft, target).catch(() => rm(draft, { recursive: true, force: true }));
  }
  return pathToFileURL(entry);
}

async function isThere(file: string): Promise<boolean> {
  return readFile(file).then(
    () => true,
    () => false
  );
}
